package adapters_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/adapters"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

func elector(t *testing.T, l *redlock.Locker, opts ...adapters.Option) *adapters.Elector {
	t.Helper()
	e, err := adapters.NewElector(l, "leader", opts...)
	testkit.Must(t, err)
	return e
}

// Anyone who has been asked once waits in line, and leads as soon as it can: it need not be
// asked again.
func TestAnElectorLeadsWithoutBeingAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 2)
		here, there := elector(t, all[0]), elector(t, all[1])
		testkit.Must(t, here.IsLeader(t.Context()))
		if err := there.IsLeader(t.Context()); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("got %v; want ErrNotAcquired", err)
		}
		first := here.Token()
		testkit.Must(t, here.Resign(t.Context()))
		synctest.Wait() // no time passes
		second := there.Token()
		if second <= first || here.Token() != 0 {
			t.Errorf("after it resigned: got tokens %d here and %d there; want 0, and more than %d", here.Token(), second, first)
		}
		// A loss is seen when the validity ends, and followed by another campaign.
		hang(nodes)
		time.Sleep(redlock.DefaultTTL)
		if there.Token() != 0 || there.IsLeader(t.Context()) == nil {
			t.Error("it leads on though its lock is lost")
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
		time.Sleep(redlock.DefaultTTL)
		if third := there.Token(); third <= second || there.IsLeader(t.Context()) != nil {
			t.Errorf("after the loss: got token %d; want a larger one than %d", third, second)
		}
	})
}

// One that has resigned keeps the lock for WithMinHold, and no longer than until Close.
func TestCloseGivesUpWhatAnElectorKeepsAfterItHasResigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := lockers(t, 2)
		here, there := elector(t, all[0], adapters.WithMinHold(time.Hour)), elector(t, all[1])
		testkit.Must(t, errors.Join(here.IsLeader(t.Context()), here.Resign(t.Context())))
		if err := there.IsLeader(t.Context()); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("the other, while the lock is kept: got %v; want ErrNotAcquired", err)
		}
		start := time.Now()
		err := here.Close()
		time.Sleep(time.Second)
		if led := there.IsLeader(t.Context()); err != nil || led != nil || time.Since(start) > 2*time.Second {
			t.Errorf("got %v, and of the other %v, after %v; want it to lead at once", err, led, time.Since(start))
		}
		testkit.Must(t, there.Close())
	})
}

func TestAClosedElectorHasResignedAndStaysOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := lockers(t, 2)
		here, there := elector(t, all[0], adapters.WithMinHold(time.Hour)), elector(t, all[1])
		testkit.Must(t, here.IsLeader(t.Context()))
		testkit.Must(t, errors.Join(here.Close(), here.Close()))
		start := time.Now()
		if err := there.IsLeader(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("the other: got %v after %v; want it to lead at once", err, time.Since(start))
		}
		if err := here.IsLeader(t.Context()); !errors.Is(err, redlock.ErrClosed) || here.Token() != 0 || here.Resign(t.Context()) != nil {
			t.Errorf("after Close: got %v, token %d; want ErrClosed and none", err, here.Token())
		}
		waiting := elector(t, all[0])
		_ = waiting.IsLeader(t.Context())
		if err := errors.Join(waiting.Close(), elector(t, all[0]).Close()); err != nil {
			t.Errorf("one that waits, one that was never asked: %v", err)
		}
		testkit.Must(t, there.Close())
		lock, err := all[0].TryAcquire(t.Context(), "leader") // it is free
		testkit.Must(t, err)
		testkit.Must(t, lock.Release(t.Context()))
	})
}

// It says why this process does not lead.
func TestAnElectorSaysWhyItDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 1)
		for _, c := range nodes.Clients() {
			testkit.Must(t, c.Set(t.Context(), "leader", "another program's", 0).Err())
		}
		var told reports
		e := elector(t, all[0], adapters.WithReport(told.add))
		for range 3 {
			if err := e.IsLeader(t.Context()); !errors.Is(err, redlock.ErrForeign) {
				t.Errorf("foreign data: got %v; want ErrForeign", err)
			}
			time.Sleep(2 * time.Second)
		}
		if !told.is(redlock.ErrForeign) {
			t.Errorf("got reports %v; want one of ErrForeign: gocron tells nobody", told.got)
		}
		for _, c := range nodes.Clients() {
			testkit.Must(t, c.Del(t.Context(), "leader").Err())
		}
		time.Sleep(2 * time.Second)
		if err := e.IsLeader(t.Context()); err != nil {
			t.Errorf("after it is gone: %v", err)
		}
		testkit.Must(t, e.Resign(t.Context()))
		time.Sleep(3 * time.Second) // what is seen of its own hold is forgotten
		hang(nodes)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := e.IsLeader(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody knows yet: got %v; want the deadline", err)
		}
		if err := e.IsLeader(t.Context()); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("nobody can say: got %v; want ErrNoQuorum", err)
		}
	})
}

// The lock may be lost after Resign, and before it is released: that ends the campaign too.
// Else it would lead again, and nobody could ask it to resign.
func TestAnElectorThatResignedIsOutWhenItsLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 2)
		here, there := elector(t, all[0], adapters.WithMinHold(time.Minute)), elector(t, all[1])
		testkit.Must(t, here.IsLeader(t.Context()))
		first := here.Token()
		testkit.Must(t, here.Resign(t.Context()))
		hang(nodes) // the lock is kept, and lost
		time.Sleep(redlock.DefaultTTL + time.Second)
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
		time.Sleep(20 * time.Minute)
		if err := there.IsLeader(t.Context()); err != nil || there.Token() <= first {
			t.Errorf("the other: got %v, token %d; want it to lead by more than %d", err, there.Token(), first)
		}
		if err := here.IsLeader(t.Context()); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("asked again: got %v; want ErrNotAcquired", err)
		}
		testkit.Must(t, there.Resign(t.Context()))
		synctest.Wait()
		if err := here.IsLeader(t.Context()); err != nil || here.Token() == 0 {
			t.Errorf("after the other resigned: got %v, token %d; want it to lead", err, here.Token())
		}
	})
}

// A process that stood still past its lease does not believe that it leads before it has
// learned of the loss: the lock's clock is asked.
func TestAnElectorThatStoodStillAsksTheClock(t *testing.T) {
	clock.BeginSimulation() // so that the lease ends when it is said to
	defer clock.EndSimulation()
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 1)
		e := elector(t, all[0])
		defer func() { _ = e.Close() }()
		testkit.Must(t, e.IsLeader(t.Context()))
		if token, leads := e.LeadsAfter(0); !leads || token != e.Hold().Token() {
			t.Errorf("got %v, token %d; want it to lead by that of its lock, as the lease is not over", leads, token)
		}
		hang(nodes)
		time.Sleep(e.Hold().Remaining() - time.Millisecond)
		if _, leads := e.LeadsAfter(0); !leads {
			t.Error("it does not lead a millisecond before the lease ends")
		}
		left := e.Hold().Remaining()
		if token, leads := e.LeadsAfter(left); leads || token != 0 {
			t.Errorf("%v later: got %v, token %d; want the lease over", left, leads, token)
		}
	})
}

// A failure is said until it is mended, and no longer: also where another leads all the time,
// so that nothing changes for who observes.
func TestAnElectorForgetsAFailureThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := lockers(t, 1)
		there := elector(t, all[0])
		testkit.Must(t, there.IsLeader(t.Context()))
		l, err := redlock.New(nodes.NewClients(), redlock.WithNodeNames(nodes.Names()...), redlock.WithHolder("here"))
		testkit.Must(t, err)
		defer func() { _ = l.Close() }()
		intercept := func(f redlocktest.Interceptor) {
			for _, n := range nodes.Nodes() {
				n.Intercept(f)
			}
		}
		intercept(func(args []string) redlocktest.Verdict { // it may look, and not acquire
			if strings.Contains(strings.Join(args, " "), "here:") {
				return redlocktest.ReplyError("NOPERM this user has no permissions to run the 'evalsha' command")
			}
			return redlocktest.Pass()
		})
		nodes.Node(4).Hang() // so that a campaign that fails takes some time
		here := elector(t, l)
		defer func() { _ = here.Close() }()
		for range 100 {
			if err := here.IsLeader(t.Context()); !errors.Is(err, redlock.ErrMisconfigured) {
				t.Fatalf("without rights: got %v; want ErrMisconfigured", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		intercept(nil)
		nodes.Node(4).Resume()
		time.Sleep(4 * time.Second) // the next campaign has to begin, and to wait
		if err := here.IsLeader(t.Context()); errors.Is(err, redlock.ErrMisconfigured) || !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("with rights, while another leads: got %v; want ErrNotAcquired", err)
		}
		hang(nodes)
		time.Sleep(3 * time.Second)
		if err := here.IsLeader(t.Context()); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("nobody can say: got %v; want ErrNoQuorum", err)
		}
		_ = l.Close() // no quorum answers it
		time.Sleep(time.Minute)
		if err := here.IsLeader(t.Context()); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("a minute after the Locker was closed: got %v; want ErrClosed", err)
		}
	})
}
