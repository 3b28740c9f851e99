package adapters_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/adapters"
	"github.com/quorumkit/redlock/internal/testkit"
)

// holder takes "job" by one of the adapters, and gives it back under the context
// that it is given.
type holder func(t *testing.T, l *redlock.Locker, opts ...adapters.Option) (giveBack func(context.Context))

// What all adapters promise is asked of each: by their names.
var holders = map[string]holder{
	"gocron's Locker": func(t *testing.T, l *redlock.Locker, opts ...adapters.Option) func(context.Context) {
		t.Helper()
		held, err := gocronLocks(t, l, opts...).Lock(t.Context(), "job")
		testkit.Must(t, err)
		return func(ctx context.Context) { _ = held.Unlock(ctx) }
	},
	"gocron's Elector": func(t *testing.T, l *redlock.Locker, opts ...adapters.Option) func(context.Context) {
		t.Helper()
		e, err := adapters.NewElector(l, "job", opts...)
		testkit.Must(t, err)
		testkit.Must(t, e.IsLeader(t.Context()))
		return func(ctx context.Context) { _ = e.Resign(ctx) }
	},
	"certmagic's Lock": func(t *testing.T, l *redlock.Locker, opts ...adapters.Option) func(context.Context) {
		t.Helper()
		c, err := adapters.NewCertmagic(l, opts...)
		testkit.Must(t, err)
		testkit.Must(t, c.Lock(t.Context(), "job"))
		return func(ctx context.Context) { _ = c.Unlock(ctx, "job") }
	},
	"certmagic's TryLock": func(t *testing.T, l *redlock.Locker, opts ...adapters.Option) func(context.Context) {
		t.Helper()
		c, err := adapters.NewCertmagic(l, opts...)
		testkit.Must(t, err)
		if ok, err := c.TryLock(t.Context(), "job"); !ok {
			t.Fatal(err)
		}
		return func(ctx context.Context) { _ = c.Unlock(ctx, "job") }
	},
	"cron's wrapper": func(t *testing.T, l *redlock.Locker, opts ...adapters.Option) func(context.Context) {
		t.Helper()
		wrap, err := adapters.NewCron[runner](l, "job", opts...)
		testkit.Must(t, err)
		return running(func(work func()) { wrap(job(work)).Run() })
	},
	"a Job": func(t *testing.T, l *redlock.Locker, opts ...adapters.Option) func(context.Context) {
		t.Helper()
		return running(func(work func()) {
			j, err := adapters.NewJob(l, "job", func(context.Context) { work() }, opts...)
			if err != nil {
				t.Error(err)
				return
			}
			j.Run()
		})
	},
}

// running has work under way until it is told to end; no context reaches it.
func running(run func(work func())) (end func(context.Context)) {
	begun, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		run(func() {
			close(begun)
			<-over
		})
	}()
	<-begun
	return func(context.Context) {
		close(over)
		<-ended
	}
}

func TestEveryAdapterReleasesUnderACancelledContext(t *testing.T) {
	testkit.Unraced(t)
	for name, take := range holders {
		synctest.Test(t, func(t *testing.T) {
			_, all := lockers(t, 2)
			giveBack := take(t, all[0])
			done, cancel := context.WithCancel(t.Context())
			cancel()
			giveBack(done)
			start := time.Now()
			if _, err := all[1].Acquire(t.Context(), "job"); err != nil || time.Since(start) > time.Second {
				t.Errorf("%s: the next got %v after %v; want the lock at once", name, err, time.Since(start))
			}
		})
	}
}

func TestEveryAdapterReportsALostLockOnce(t *testing.T) {
	testkit.Unraced(t)
	for name, take := range holders {
		synctest.Test(t, func(t *testing.T) {
			nodes, all := lockers(t, 1)
			var told reports
			giveBack := take(t, all[0], adapters.WithReport(told.add))
			hang(nodes)
			time.Sleep(redlock.DefaultTTL)
			giveBack(t.Context())
			synctest.Wait()
			if !told.is(redlock.ErrLost) {
				t.Errorf("%s: got reports %v; want one of ErrLost", name, told.got)
			}
		})
	}
}

func TestEveryAdapterHoldsAtLeast(t *testing.T) {
	testkit.Unraced(t)
	for name, take := range holders {
		synctest.Test(t, func(t *testing.T) {
			const least = 25 * time.Second // longer than a lease
			_, all := lockers(t, 2)
			start := time.Now()
			giveBack := take(t, all[0], adapters.WithMinHold(least))
			giveBack(t.Context())
			if took := time.Since(start); took > time.Second {
				t.Errorf("%s: giving it back took %v; want it at once", name, took)
			}
			if _, err := all[1].Acquire(t.Context(), "job"); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(start); waited < least || waited > least+time.Second {
				t.Errorf("%s: the next got it after %v; want %v", name, waited, least)
			}
		})
	}
}
