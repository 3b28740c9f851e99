package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// A contender that tried a moment ago has a fresh sample of every clock. The clocks
// of a quorum step, which ends the holder's leases there, and it tries again at once:
// what it is granted comes with a sample of its own.
func TestWhatAStepGaveAwayIsNotTakenByWhoTriedAMomentAgo(t *testing.T) {
	for name, opts := range map[string][]redlock.AcquireOption{"plain": nil, "by its place in line": {redlock.WithBarging()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holder, nodes := newLocker(t, 5, redlock.WithFixedLease(), redlock.WithTTL(30*time.Second))
				mustAcquire(t, holder, "orders/42")
				other := lockerOver(t, nodes)
				sampled(t, other)
				for range 3 {
					_, err := other.TryAcquire(t.Context(), "orders/42", opts...)
					wantError(t, "before the step", err, redlock.ErrNotAcquired)
					synctest.Wait()
					time.Sleep(10 * time.Millisecond)
				}
				for _, n := range nodes.Nodes()[:3] {
					n.Miniredis().SetTime(time.Now().Add(time.Minute))
					n.Miniredis().Del("orders/42") // miniredis ends no lease for its clock
				}
				_, err := other.TryAcquire(t.Context(), "orders/42", opts...)
				wantError(t, "just after the step", err, redlock.ErrNoQuorum)
				if err != nil && causesWith(err, "its clock stepped forward") != 3 {
					t.Errorf("got %v; want it to name the three that stepped", err)
				}
			})
		})
	}
}

// Where the sample behind a grant is lost, nobody can tell whether the clock has
// stepped before: the grant counts for nothing, and is given back.
func TestAGrantWithoutItsSampleDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		synctest.Wait()
		for _, n := range nodes.Nodes()[:3] {
			granted := false
			n.Intercept(func(args []string) redlocktest.Verdict {
				granted = granted || strings.HasPrefix(scriptOf(args), "acquire")
				if granted && args[0] == "TIME" {
					n.Intercept(nil)
					return redlocktest.ReplyError("ERR not now")
				}
				return redlocktest.Pass()
			})
		}
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		wantText(t, "TryAcquire", fmt.Sprint(err), "its clock was not read behind the grant")
		time.Sleep(time.Second)
		synctest.Wait()
		wantNoLocks(t, nodes, "given back")
		mustRelease(t, mustAcquire(t, l, "orders/42"))
	})
}

// A hand-over within the Locker is a grant as well: it counts only with a sample
// behind it, however fresh the last one is.
func TestAHandOverWithoutASampleThatShowsNoStepDoesNotCount(t *testing.T) {
	for want, spoil := range map[string]func(n *redlocktest.Node){
		"its clock was not read behind the grant": func(n *redlocktest.Node) {
			passed := false
			n.Intercept(func(args []string) redlocktest.Verdict {
				passed = passed || scriptOf(args) == "pass"
				if passed && args[0] == "TIME" {
					n.Intercept(nil)
					return redlocktest.ReplyError("ERR not now")
				}
				return redlocktest.Pass()
			})
		},
		"its clock stepped forward": func(n *redlocktest.Node) { // by less than the lease: its key is there to hand over
			n.Miniredis().SetTime(time.Now().Add(3 * time.Second))
		},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told events
				l, nodes := newLocker(t, 5, told.option(), redlock.WithFixedLease(), redlock.WithTTL(30*time.Second))
				warm(t, l)
				lock := mustAcquire(t, l, "orders/42")
				ctx, leave := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if next, err := l.Acquire(ctx, "orders/42"); err == nil {
						_ = next.Release(ctx)
					}
				}()
				synctest.Wait()
				for _, n := range nodes.Nodes()[:3] {
					spoil(n)
				}
				_ = lock.Release(t.Context()) // in doubt, a quorum need not confirm it
				synctest.Wait()
				failed := told.of(redlock.AttemptFailed)
				if len(failed) == 0 || causesWith(failed[0].Err, want) != 3 {
					t.Errorf("got %v as the failed attempts; want the hand-over to be the first, with %q of three nodes", failed, want)
				}
				for _, e := range told.of(redlock.LockAcquired) {
					if e.Turn == redlock.TurnHandedOver {
						t.Error("the hand-over counts; want it to end with nothing")
					}
				}
				leave()
				<-ended
				time.Sleep(time.Second)
				synctest.Wait()
				wantNoLocks(t, nodes, "given back")
			})
		})
	}
}

// On real servers, as it was found: two holders every time.
func TestAStepThatIsAMomentOldMakesNoSecondHolder(t *testing.T) {
	for range 3 {
		servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
		holder := fakeClockLocker(t, servers, redlock.WithFixedLease(), redlock.WithTTL(30*time.Second))
		other := fakeClockLocker(t, servers)
		held := mustAcquire(t, holder, "orders/42")
		for range 3 {
			if _, err := other.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
				t.Fatalf("before the step: got %v; want ErrNotAcquired", err)
			}
		}
		setClocks(t, servers[:3], "+60")
		// What the holder knows by then, this client has seen the clocks before.
		if second, err := other.TryAcquire(t.Context(), "orders/42"); err == nil {
			t.Errorf("granted with token %v by clocks that stepped; the holder has %v of its validity left", second.Token(), held.Remaining())
		}
		must(t, errors.Join(holder.Close(), other.Close(), redisserver.CloseAll(servers)))
	}
}

// MaxTTL as it was when the Locker opened is not what it is now: another client has
// raised it, and its leases are as long.
func TestTheWaitAfterAStepIsForTheMaxTTLOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		sampled(t, l)
		more := lockerOver(t, nodes, redlock.WithMaxTTL(2*time.Minute))
		warm(t, more) // the records say two minutes now
		time.Sleep(time.Second)
		defer ahead(20*time.Second, nodes.Nodes()[:2]...)()
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "after the step", err, redlock.ErrNoQuorum)
		abstain := func() []bool {
			s := l.Stats().Nodes
			return []bool{s[0].Abstains, s[1].Abstains, s[2].Abstains}
		}
		if got, want := abstain(), []bool{true, true, false}; !slices.Equal(got, want) {
			t.Errorf("Stats after the step of nodes 0 and 1: abstain %v; want %v", got, want)
		}
		time.Sleep(redlock.DefaultMaxTTL + 10*time.Second)
		_, err = l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "after the MaxTTL of before", err, redlock.ErrNoQuorum)
		wantText(t, "after the MaxTTL of before", fmt.Sprint(err), "MaxTTL (2m0s)")
		time.Sleep(2*time.Minute - redlock.DefaultMaxTTL)
		mustRelease(t, mustAcquire(t, l, "orders/42"))
		if got, want := abstain(), make([]bool, 3); !slices.Equal(got, want) {
			t.Errorf("Stats after the wait: abstain %v; want %v", got, want)
		}
	})
}

// On real servers: another client raised MaxTTL since the records were read last.
func TestTheWaitAfterAStepIsForTheMaxTTLOfNowOnRealServers(t *testing.T) {
	t.Parallel()
	const raised = 3 * shortMax
	servers := testserver.Need(t, 3, redisserver.Config{FakeClock: true})
	l := fakeClockLocker(t, servers, short()...)
	warm(t, l)
	warm(t, fakeClockLocker(t, servers, redlock.WithTTL(shortMax), redlock.WithMaxTTL(raised))) // the records say six seconds now
	warm(t, l)
	stepped, said := time.Now(), false
	setClocks(t, servers[:2], "+20")
	pollUntil(t, raised+20*time.Second, "it locks again", func() bool {
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		if err == nil {
			mustRelease(t, lock)
		}
		said = said || strings.Contains(errorText(err), fmt.Sprintf("MaxTTL (%v)", raised))
		return err == nil
	})
	if took := time.Since(stepped); took < raised {
		t.Errorf("a quorum that had stepped voted again after %v; want MaxTTL, %v, first", took, raised)
	}
	if !said {
		t.Errorf("no refusal named MaxTTL as it is now")
	}
}

// ahead makes the clocks of nodes, in a bubble, run ahead by so much until undo is called:
// SetTime by itself makes a clock stand still.
func ahead(by time.Duration, nodes ...*redlocktest.Node) (undo func()) {
	set := func() {
		for _, n := range nodes {
			n.Miniredis().SetTime(time.Now().Add(by))
		}
	}
	set()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				set()
			case <-stop:
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// A lease of the raised MaxTTL is a healthy one: nobody is told to delete its key.
func TestALeaseOfARaisedMaxTTLIsNotCalledAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		sampled(t, l)
		time.Sleep(time.Second)
		more := lockerOver(t, nodes, redlock.WithMaxTTL(2*time.Minute))
		mustAcquire(t, more, "orders/42", redlock.WithTTL(2*time.Minute), redlock.WithFixedLease())
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
		if err != nil && (strings.Contains(err.Error(), "beyond MaxTTL") || !strings.Contains(err.Error(), "held by another, ")) {
			t.Errorf("got %v; want no word of a clock", err)
		}
	})
}
