package redlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// What a machine that slept knows at its first call, and what it takes for nobody's fault.

func TestASuspendIsCountedAtTheFirstCallAfterIt(t *testing.T) {
	for name, look := range map[string]func(*redlock.Lock) bool{
		"Err":       func(l *redlock.Lock) bool { return errors.Is(l.Err(), redlock.ErrLost) },
		"Remaining": func(l *redlock.Lock) bool { return l.Remaining() == 0 },
		"Extend": func(l *redlock.Lock) bool {
			return errors.Is(l.Extend(context.Background(), redlock.DefaultTTL), redlock.ErrNotHeld)
		},
		"Release": func(l *redlock.Lock) bool {
			return errors.Is(l.Release(context.Background()), redlock.ErrNotHeld)
		},
		"Done": func(l *redlock.Lock) bool {
			select {
			case <-l.Done():
				return true
			case <-time.After(time.Second):
				return false
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 3)
			l := lockerOver(t, nodes)
			var asleep atomic.Int64
			redlock.SetSuspend(l, func() time.Duration { return time.Duration(asleep.Load()) })
			lock := mustAcquire(t, l, "orders/42")
			time.Sleep(time.Second)
			if left := lock.Remaining(); left <= 0 {
				t.Fatalf("before the suspend: got %v remaining; want some", left)
			}
			synctest.Wait()
			sent := nodes.Node(0).Calls("EVALSHA")
			asleep.Store(int64(redlock.DefaultTTL))
			if !look(lock) {
				t.Errorf("after a suspend of a TTL: %s does not know of it", name)
			}
			if name != "Done" && nodes.Node(0).Calls("EVALSHA") > sent+1 { // its own clean-up
				t.Errorf("%s: the lost lock was extended; want no traffic but a release", name)
			}
			wantError(t, name+": Err", lock.Err(), redlock.ErrLost)
		})
	}
}

// A short suspend takes its share of the validity, and no more.
func TestAShortSuspendShortensTheValidity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3)
		var asleep atomic.Int64
		redlock.SetSuspend(l, func() time.Duration { return time.Duration(asleep.Load()) })
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		before := lock.Remaining()
		asleep.Store(int64(4 * time.Second))
		if got := lock.Remaining(); got != before-4*time.Second {
			t.Errorf("got %v remaining after 4s asleep; want %v", got, before-4*time.Second)
		}
		began := time.Now()
		<-lock.Done()
		const look = 500 * time.Millisecond // at the clock, while a lock is held
		if took := time.Since(began); took > before-4*time.Second+look {
			t.Errorf("Done came after %v awake; want it within %v of the end of the validity", took, look)
		}
	})
}

// WithMaxHold counts the time asleep too, and the first call knows: no timer has
// to run before.
func TestTheLongestHoldIsCountedAtTheFirstCallAfterASuspend(t *testing.T) {
	for name, look := range map[string]func(*redlock.Lock) bool{
		"Err":       func(l *redlock.Lock) bool { return errors.Is(l.Err(), redlock.ErrMaxHold) },
		"Remaining": func(l *redlock.Lock) bool { return l.Remaining() == 0 },
		"Extend": func(l *redlock.Lock) bool {
			return errors.Is(l.Extend(context.Background(), redlock.DefaultTTL), redlock.ErrMaxHold)
		},
		"Release": func(l *redlock.Lock) bool {
			return errors.Is(l.Release(context.Background()), redlock.ErrMaxHold)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3, redlock.WithMaxHold(5*time.Second))
			var asleep atomic.Int64
			redlock.SetSuspend(l, func() time.Duration { return time.Duration(asleep.Load()) })
			lock := mustAcquire(t, l, "orders/42")
			synctest.Wait()
			asleep.Store(int64(5 * time.Second)) // of a validity of almost ten
			began := time.Now()
			if !look(lock) {
				t.Errorf("%s after a suspend of the longest hold does not know of it", name)
			}
			wantError(t, name+": Err", lock.Err(), redlock.ErrMaxHold)
			select {
			case <-lock.Done():
			default:
				t.Errorf("%s: Done is open; want it closed", name)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: took %v; want it at the first call", name, took)
			}
			synctest.Wait()
			wantNoLocks(t, nodes, name+": after the end of the hold")
		})
	}
}

// A round that begins after a long suspend must not look as if it had slept
// through it: its lock would be worthless at once.
func TestTheFirstRoundAfterASuspendSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The nodes' virtual clocks do not sleep along: unwatched, they are no steps.
		l, _ := newLocker(t, 3, redlock.WithoutClockWatch())
		var asleep atomic.Int64
		redlock.SetSuspend(l, func() time.Duration { return time.Duration(asleep.Load()) })
		warm(t, l)
		for range 3 {
			time.Sleep(time.Second)
			asleep.Add(int64(time.Hour))
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if err != nil {
				t.Fatalf("TryAcquire after an hour asleep: %v", err)
			}
			if left := lock.Remaining(); left < redlock.DefaultTTL*9/10 {
				t.Errorf("after an hour asleep: got %v remaining; want almost the TTL", left)
			}
			mustRelease(t, lock)
		}
	})
}

// A machine that sleeps for a lease while its round is out gets no lock by it.
func TestARoundThatSleptGetsNoLock(t *testing.T) {
	for range 20 { // else another question about the clock, in between, may tell it
		synctest.Test(t, aRoundThatSleeps)
	}
}

func aRoundThatSleeps(t *testing.T) {
	l, nodes := newLocker(t, 3, redlock.WithoutClockWatch())
	var asleep atomic.Int64
	redlock.SetSuspend(l, func() time.Duration { return time.Duration(asleep.Load()) })
	warm(t, l)
	for _, n := range nodes.Nodes() {
		n.Intercept(func(args []string) redlocktest.Verdict {
			if args[0] == "EVALSHA" {
				asleep.Store(int64(redlock.DefaultTTL))
				time.Sleep(2 * time.Millisecond)
			}
			return redlocktest.Pass()
		})
	}
	if _, err := l.TryAcquire(t.Context(), "orders/42"); err == nil {
		t.Error("got a lock whose lease is over; want none")
	}
}

// The nodes' clocks run on while the client sleeps, and that is no step of theirs, even where
// a node's reply is the first that the client sees of its own sleep.
func TestASuspendIsNoStepOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 1)
		var asleep atomic.Int64
		redlock.SetSuspend(l, func() time.Duration { return time.Duration(asleep.Load()) })
		warm(t, l)
		synctest.Wait()
		asleep.Store(int64(time.Hour))
		defer ahead(time.Hour, nodes.Node(0))()
		mustRelease(t, mustAcquire(t, l, "orders/42", redlock.WithWait(time.Second))) // a node that steps abstains for longer
	})
}
