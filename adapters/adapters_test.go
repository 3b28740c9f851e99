package adapters_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/adapters"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// unlock is gocron.Lock.
type unlock interface {
	Unlock(ctx context.Context) error
}

// runner is cron.Job.
type runner interface{ Run() }

// reports collects what WithReport tells.
type reports struct {
	mu  sync.Mutex
	got []error
}

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, err)
}

// is tells whether exactly one report came, and whether it is target.
func (r *reports) is(target error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got) == 1 && errors.Is(r.got[0], target)
}

// lockers returns n Lockers, as many processes have, over the same nodes.
func lockers(t *testing.T, n int) (*redlocktest.Cluster, []*redlock.Locker) {
	t.Helper()
	nodes := redlocktest.Start(t, 5)
	var all []*redlock.Locker
	for range n {
		l, err := redlock.New(nodes.NewClients(), redlock.WithNodeNames(nodes.Names()...))
		testkit.Must(t, err)
		t.Cleanup(func() { _ = l.Close() }) // some tests leave it no quorum
		all = append(all, l)
	}
	return nodes, all
}

// hang makes every node silent.
func hang(nodes *redlocktest.Cluster) {
	for _, n := range nodes.Nodes() {
		n.Hang()
	}
}

func gocronLocks(t *testing.T, l *redlock.Locker, opts ...adapters.Option) *adapters.Gocron[unlock] {
	t.Helper()
	g, err := adapters.NewGocron[unlock](l, opts...)
	testkit.Must(t, err)
	return g
}

func TestGocronRunsAJobOnceAndUnlocksWithACancelledContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := lockers(t, 2)
		here, there := gocronLocks(t, all[0]), gocronLocks(t, all[1])
		held, err := here.Lock(t.Context(), "job")
		testkit.Must(t, err)
		if _, err := there.Lock(t.Context(), "job"); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("got %v; want ErrNotAcquired", err)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		testkit.Must(t, held.Unlock(done))
		if _, err := there.Lock(t.Context(), "job"); err != nil {
			t.Errorf("after the unlock: %v", err)
		}
	})
}

func TestHoldAtLeastOutlivesTheUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const least = 25 * time.Second // longer than a lease
		_, all := lockers(t, 2)
		here, there := gocronLocks(t, all[0], adapters.WithMinHold(least)), gocronLocks(t, all[1])
		held, err := here.Lock(t.Context(), "job")
		testkit.Must(t, err)
		start := time.Now()
		if err := held.Unlock(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("got %v after %v; want nil at once", err, time.Since(start))
		}
		time.Sleep(least - time.Second)
		if _, err := there.Lock(t.Context(), "job"); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("before its time: got %v; want ErrNotAcquired", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := there.Lock(t.Context(), "job"); err != nil {
			t.Errorf("after its time: %v", err)
		}
	})
}

// Nobody works under it any more.
func TestThatCloseEndsAHoldThatIsKeptIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := lockers(t, 1)
		var told reports
		held, err := gocronLocks(t, all[0], adapters.WithMinHold(time.Minute), adapters.WithReport(told.add)).Lock(t.Context(), "job")
		testkit.Must(t, err)
		testkit.Must(t, errors.Join(held.Unlock(t.Context()), all[0].Close()))
		if time.Sleep(time.Hour); len(told.got) != 0 {
			t.Errorf("got reports %v; want none", told.got)
		}
	})
}

func TestALockThatIsLostIsReportedOnceAndByUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 1)
		var told reports
		held, err := gocronLocks(t, all[0], adapters.WithReport(told.add)).Lock(t.Context(), "job")
		testkit.Must(t, err)
		hang(nodes)
		time.Sleep(redlock.DefaultTTL)
		if !told.is(redlock.ErrLost) {
			t.Errorf("got reports %v; want one of ErrLost", told.got)
		}
		if err := held.Unlock(t.Context()); !errors.Is(err, redlock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("got %v; want ErrNotHeld and ErrLost", err)
		} else if text := err.Error(); strings.Count(text, "redlock:") != 1 {
			t.Errorf("got %q; want the library's name once", text)
		}
	})
}

func TestElectorLeadsUntilItResignsOrLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 2)
		var electors []*adapters.Elector
		var told reports
		for _, l := range all {
			e, err := adapters.NewElector(l, "leader", adapters.WithReport(told.add))
			testkit.Must(t, err)
			electors = append(electors, e)
		}
		here, there := electors[0], electors[1]
		testkit.Must(t, here.IsLeader(t.Context()))
		first := here.Token()
		time.Sleep(3 * redlock.DefaultTTL) // renewed
		if err := there.IsLeader(t.Context()); !errors.Is(err, redlock.ErrNotAcquired) || there.Token() != 0 {
			t.Errorf("got %v, token %d; want ErrNotAcquired, 0", err, there.Token())
		}
		if err := here.IsLeader(t.Context()); err != nil || here.Token() != first {
			t.Errorf("got %v, token %d; want the same leadership, %d", err, here.Token(), first)
		}
		testkit.Must(t, here.Resign(t.Context()))
		synctest.Wait() // it stands in line, and hears of it
		if err := there.IsLeader(t.Context()); err != nil || there.Token() <= first {
			t.Errorf("after it resigned: got %v, token %d; want a greater one than %d", err, there.Token(), first)
		}
		hang(nodes)
		time.Sleep(redlock.DefaultTTL)
		if err := there.IsLeader(t.Context()); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("got %v; want ErrNoQuorum", err)
		}
		if !told.is(redlock.ErrLost) || there.Resign(t.Context()) != nil {
			t.Errorf("got reports %v; want one of ErrLost, and nothing to resign", told.got)
		}
	})
}

func TestCertmagicLocksByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := lockers(t, 2)
		var stores []*adapters.Certmagic
		for _, l := range all {
			c, err := adapters.NewCertmagic(l)
			testkit.Must(t, err)
			stores = append(stores, c)
		}
		here, there := stores[0], stores[1]
		testkit.Must(t, here.Lock(t.Context(), "issue_cert_a"))
		if ok, err := there.TryLock(t.Context(), "issue_cert_a"); ok || err != nil {
			t.Errorf("got %t, %v; want false, nil", ok, err)
		}
		for _, lease := range []time.Duration{15 * time.Second, time.Second, time.Hour} {
			if err := here.RenewLockLease(t.Context(), "issue_cert_a", lease); err != nil {
				t.Errorf("renewing for %v: %v", lease, err)
			}
		}
		if err := there.RenewLockLease(t.Context(), "issue_cert_a", time.Second); !errors.Is(err, redlock.ErrNotHeld) {
			t.Errorf("renewing another's: got %v; want ErrNotHeld", err)
		}
		testkit.Must(t, here.Unlock(t.Context(), "issue_cert_a"))
		if err := here.Unlock(t.Context(), "issue_cert_a"); !errors.Is(err, redlock.ErrNotHeld) {
			t.Errorf("unlocking twice: got %v; want ErrNotHeld", err)
		}
		if ok, err := there.TryLock(t.Context(), "issue_cert_a"); !ok || err != nil {
			t.Errorf("got %t, %v; want the lock", ok, err)
		}
	})
}

// Certmagic's Unlock says a name and no more: one whose lock was lost unlocks late, as a
// deferred call does, while another goroutine here has the name.
func TestALateUnlockOfALostLockReleasesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 2)
		var told reports
		here, err := adapters.NewCertmagic(all[0], adapters.WithReport(told.add))
		testkit.Must(t, err)
		testkit.Must(t, here.Lock(t.Context(), "cert"))
		hang(nodes)
		time.Sleep(redlock.DefaultTTL)
		if !told.is(redlock.ErrLost) {
			t.Fatalf("got reports %v; want one of ErrLost", told.got)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
		if err := here.Lock(t.Context(), "cert"); err != nil {
			t.Fatalf("the second caller: %v", err)
		}
		if err := here.RenewLockLease(t.Context(), "cert", time.Second); !errors.Is(err, redlock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("a renewal, maybe of the one that lost: got %v; want ErrNotHeld and ErrLost", err)
		}
		if err := here.Unlock(t.Context(), "cert"); !errors.Is(err, redlock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("the late unlock: got %v; want ErrNotHeld and ErrLost", err)
		}
		if _, err := all[1].TryAcquire(t.Context(), "cert"); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("another process, while the second caller works: got %v; want ErrNotAcquired", err)
		}
		if err := errors.Join(here.RenewLockLease(t.Context(), "cert", time.Second), here.Unlock(t.Context(), "cert")); err != nil {
			t.Errorf("the second caller: %v", err)
		}
		// The releases of a bare quorum, and what a node that hung still has, may be under way.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := all[1].Acquire(ctx, "cert"); err != nil {
			t.Errorf("another process, after both: %v", err)
		}
	})
}

// A caller that holds the name already enters it again, by a handle of its own for each
// lock.
func TestCertmagicReleasesEachHandleOfAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := lockers(t, 1)
		store, err := adapters.NewCertmagic(all[0], adapters.WithAcquireOptions(redlock.WithReentry()))
		testkit.Must(t, err)
		if err := all[0].Do(t.Context(), "cert", func(ctx context.Context, _ *redlock.Lock) error {
			return errors.Join(store.Lock(ctx, "cert"), store.Lock(ctx, "cert"), store.Unlock(ctx, "cert"), store.Unlock(ctx, "cert"))
		}, redlock.WithReentry()); err != nil {
			t.Error(err)
		}
		if _, err := all[0].TryAcquire(t.Context(), "cert"); err != nil {
			t.Errorf("after all: %v", err)
		}
	})
}

func TestCertmagicTellsThatNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 1)
		store, err := adapters.NewCertmagic(all[0])
		testkit.Must(t, err)
		hang(nodes)
		if ok, err := store.TryLock(t.Context(), "x"); ok || !errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("got %t, %v; want ErrNoQuorum", ok, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := store.Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v; want the deadline", err)
		}
	})
}

func TestAJobRunsWhereItGetsTheLockAndReleasesWhenItPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := lockers(t, 2)
		var told reports
		ran := 0
		there, err := adapters.NewJob(all[1], "nightly", func(context.Context) { ran++ }, adapters.WithReport(told.add))
		testkit.Must(t, err)
		here, err := adapters.NewJob(all[0], "nightly", func(ctx context.Context) {
			there.Run() // another process, at the same time
			if token, err := fencing.FromContext(ctx, "nightly"); err != nil || token == 0 {
				t.Errorf("got token %d, %v; want the lock's", token, err)
			}
			panic("in the work")
		})
		testkit.Must(t, err)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("got no panic; want the work's")
				}
			}()
			here.Run()
		}()
		if ran != 0 {
			t.Error("it ran in two processes")
		}
		there.Run()
		if ran != 1 || len(told.got) != 0 {
			t.Errorf("got %d runs and reports %v; want one and none", ran, told.got)
		}
	})
}

func TestAJobLearnsOfItsLossAndTellsThatItCouldNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 1)
		var told reports
		job, err := adapters.NewJob(all[0], "nightly", func(ctx context.Context) {
			hang(nodes)
			<-ctx.Done()
			if err := context.Cause(ctx); !errors.Is(err, redlock.ErrLost) {
				t.Errorf("got cause %v; want ErrLost", err)
			}
		}, adapters.WithReport(told.add))
		testkit.Must(t, err)
		job.Run()
		synctest.Wait()
		if !told.is(redlock.ErrLost) {
			t.Errorf("got reports %v; want one of ErrLost", told.got)
		}
		told.got = nil
		job.Run()
		if !told.is(redlock.ErrNoQuorum) {
			t.Errorf("got reports %v; want one of ErrNoQuorum", told.got)
		}
	})
}

func TestACronChainRunsAJobInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := lockers(t, 2)
		ran := ""
		alone := func(l *redlock.Locker, work func()) runner {
			wrap, err := adapters.NewCron[runner](l, "nightly")
			testkit.Must(t, err)
			return wrap(job(work))
		}
		there := alone(all[1], func() { ran += "there " })
		alone(all[0], func() { ran += "here "; there.Run() }).Run()
		time.Sleep(time.Second) // robfig/cron's shortest period
		if there.Run(); ran != "here there " {
			t.Errorf("got %q; want one at a time", ran)
		}
	})
}

// Two processes with one clock, whose timers are some milliseconds apart, and a job that is
// shorter than that.
func TestAShortCronJobRunsOnceATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ticks = 10
		_, all := lockers(t, 2)
		runs := make([]int, len(all))
		jobs := make([]runner, len(all))
		for i, l := range all {
			alone, err := adapters.NewCron[runner](l, "nightly")
			testkit.Must(t, err)
			jobs[i] = alone(job(func() { runs[i]++ }))
		}
		for range ticks {
			jobs[0].Run()
			time.Sleep(20 * time.Millisecond)
			jobs[1].Run()
			time.Sleep(980 * time.Millisecond)
		}
		if runs[0] != ticks || runs[1] != 0 {
			t.Errorf("got %d runs; want %d in all, of the first", runs, ticks)
		}
	})
}

// Both would have one lock, and one be left out at each tick, without a word.
func TestACronWrapperPanicsForASecondJob(t *testing.T) {
	_, all := lockers(t, 1)
	alone, err := adapters.NewCron[runner](all[0], "nightly")
	testkit.Must(t, err)
	alone(job(func() {}))
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, redlock.ErrInvalidOption) {
			t.Errorf("got a panic of %v; want ErrInvalidOption", err)
		}
	}()
	alone(job(func() {}))
	t.Error("got a second wrapped job; want a panic")
}

type job func()

func (j job) Run() { j() }

func TestConstructorsRefuseWhatCanNotWork(t *testing.T) {
	_, all := lockers(t, 1)
	l := all[0]
	work := func(context.Context) {}
	for what, err := range map[string]error{
		"no Locker":             second(adapters.NewCertmagic(nil)),
		"no Locker, elector":    second(adapters.NewElector(nil, "x")),
		"no Locker, job":        second(adapters.NewJob(nil, "x", work)),
		"nil option":            second(adapters.NewCertmagic(l, nil)),
		"hold at least nothing": second(adapters.NewGocron[unlock](l, adapters.WithMinHold(0))),
		"not gocron.Lock":       second(adapters.NewGocron[runner](l)),
		"not cron.Job": second(adapters.NewCron[interface {
			Run()
			Stop()
		}](l, "x")),
		"no work":        second(adapters.NewJob(l, "x", nil)),
		"several share":  second(adapters.NewCertmagic(l, adapters.WithAcquireOptions(redlock.WithTTL(time.Second), redlock.WithShared()))),
		"several, slots": second(adapters.NewCertmagic(l, adapters.WithAcquireOptions(redlock.WithLimit(2)))),
	} {
		if !errors.Is(err, redlock.ErrInvalidOption) {
			t.Errorf("%s: got %v; want ErrInvalidOption", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// constructors make each adapter for a lock of this name; those that are given none are made
// for no name in particular.
var constructors = map[string]func(l *redlock.Locker, name string, opts ...adapters.Option) error{
	"NewGocron": func(l *redlock.Locker, _ string, opts ...adapters.Option) error {
		return second(adapters.NewGocron[unlock](l, opts...))
	},
	"NewCertmagic": func(l *redlock.Locker, _ string, opts ...adapters.Option) error {
		return second(adapters.NewCertmagic(l, opts...))
	},
	"NewElector": func(l *redlock.Locker, name string, opts ...adapters.Option) error {
		return second(adapters.NewElector(l, name, opts...))
	},
	"NewCron": func(l *redlock.Locker, name string, opts ...adapters.Option) error {
		return second(adapters.NewCron[runner](l, name, opts...))
	},
	"NewJob": func(l *redlock.Locker, name string, opts ...adapters.Option) error {
		return second(adapters.NewJob(l, name, func(context.Context) {}, opts...))
	},
}

// Such a job would run nowhere, without a word. A constructor that refuses sends nothing, and
// is no call that failed.
func TestEachConstructorRefusesWhatEveryAcquireWouldBeRefused(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	var told []redlock.Event
	l, err := redlock.New(nodes.NewClients(), redlock.WithNodeNames(nodes.Names()...), redlock.WithObserver(func(e redlock.Event) { told = append(told, e) }))
	testkit.Must(t, err)
	closed, err := redlock.New(nodes.NewClients(), redlock.WithNodeNames(nodes.Names()...))
	testkit.Must(t, err)
	testkit.Must(t, closed.Close())
	acquiring := func(opts ...redlock.AcquireOption) []adapters.Option {
		return []adapters.Option{adapters.WithAcquireOptions(opts...)}
	}
	for name, construct := range constructors {
		for _, c := range []struct {
			opts []adapters.Option
			also error
			says string
		}{
			{acquiring(redlock.WithMinHold(time.Second)), redlock.ErrInvalidOption, "WithMinHold"},
			{acquiring(redlock.WithTTL(time.Minute)), redlock.ErrInvalidTTL, "WithTTL 1m0s"},
			{acquiring(redlock.WithLimit(1000)), redlock.ErrInvalidOption, "WithLimit"},
			{acquiring(redlock.WithWait(-1)), redlock.ErrInvalidOption, "WithWait"},
			{acquiring(nil), redlock.ErrInvalidOption, "option 0 is nil"},
			{append(acquiring(redlock.WithMaxHold(time.Second)), adapters.WithMinHold(time.Minute)), redlock.ErrInvalidOption, "WithMinHold 1m0s is above WithMaxHold 1s"},
			{append(acquiring(redlock.WithFixedLease()), adapters.WithMinHold(time.Minute)), redlock.ErrInvalidOption, "WithMinHold 1m0s"},
		} {
			err := construct(l, "job", c.opts...)
			if !errors.Is(err, redlock.ErrInvalidOption) || !errors.Is(err, c.also) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "acquire") {
				t.Errorf("%s: got %v; want ErrInvalidOption and %v, which says %q", name, err, c.also, c.says)
			}
		}
		if err := construct(closed, "job"); !errors.Is(err, redlock.ErrInvalidOption) || !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("%s of a closed Locker: got %v; want ErrInvalidOption and ErrClosed", name, err)
		}
		if err := construct(l, "job", acquiring(redlock.WithTTL(20*time.Second), redlock.WithReentry(), redlock.WithMaxHold(time.Minute))...); err != nil {
			t.Errorf("%s with options that it can honour: %v", name, err)
		}
		err := construct(l, "redlock:job")
		if named := name != "NewGocron" && name != "NewCertmagic"; named && !errors.Is(err, redlock.ErrInvalidResource) || !named && err != nil {
			t.Errorf("%s of a name that can't be locked: got %v; want ErrInvalidResource of one that is given a name", name, err)
		}
	}
	for name, err := range map[string]error{
		"shared":  constructors["NewElector"](l, "job", acquiring(redlock.WithShared())...),
		"limited": constructors["NewElector"](l, "job", acquiring(redlock.WithLimit(2))...),
	} {
		if !errors.Is(err, redlock.ErrInvalidOption) {
			t.Errorf("NewElector, %s: got %v; want ErrInvalidOption", name, err)
		}
	}
	if s := l.Stats(); s.Acquiring != 0 || s.Cancelled != 0 || s.Nodes[0].Calls != 0 {
		t.Errorf("got %+v; want no call", s)
	}
	testkit.Must(t, l.Close())
	if len(told) != 0 {
		t.Errorf("got events %v; want none", told)
	}
}

// gocron drops what its Locker returns: WithReport is told of what will not pass by itself.
func TestWhatKeepsAJobFromItsLockIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 2)
		var told reports
		locks := gocronLocks(t, all[0], adapters.WithReport(told.add))
		if _, err := all[1].Acquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		for _, ctx := range []context.Context{t.Context(), stopped} {
			if _, err := locks.Lock(ctx, "job"); err == nil || len(told.got) != 0 {
				t.Errorf("got %v, reports %v; want another holder, or a stopped scheduler, and no report", err, told.got)
			}
		}
		if _, err := locks.Lock(t.Context(), "redlock:job"); err == nil || !told.is(redlock.ErrInvalidResource) {
			t.Errorf("got %v, reports %v; want one of ErrInvalidResource", err, told.got)
		}
		for _, n := range nodes.Nodes() {
			n.Miniredis().RequireAuth("secret")
		}
		var lead reports
		e := elector(t, all[0], adapters.WithReport(lead.add))
		for range 5 {
			if err := e.IsLeader(t.Context()); !errors.Is(err, redlock.ErrMisconfigured) {
				t.Errorf("got %v; want ErrMisconfigured", err)
			}
			time.Sleep(2 * time.Second)
		}
		if !lead.is(redlock.ErrMisconfigured) {
			t.Errorf("got reports %v; want one, of ErrMisconfigured", lead.got)
		}
		testkit.Must(t, e.Close())
	})
}
