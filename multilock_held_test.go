package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
)

// Half a set is not believed in: it ends with the first of its names.
func TestASetEndsWithTheFirstNameThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		m := mustAcquireAll(t, l, []string{"a", "b", "c"})
		remove(nodes, "b")
		select {
		case <-m.Done():
		case <-time.After(redlock.DefaultTTL):
			t.Fatal("it goes on after a lease")
		}
		if err := m.Err(); !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), "b in a set of 3") {
			t.Errorf("got %v; want ErrLost that names b", err)
		}
		if cause := context.Cause(m.Context()); !errors.Is(cause, redlock.ErrLost) || m.Remaining() != 0 {
			t.Errorf("got cause %v, %v left; want ErrLost and nothing", cause, m.Remaining())
		}
		if err := m.Release(t.Context()); !errors.Is(err, redlock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Release: got %v; want ErrNotHeld and ErrLost", err)
		}
		if err := m.Extend(t.Context(), redlock.DefaultTTL); !errors.Is(err, redlock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Extend: got %v; want ErrNotHeld and ErrLost", err)
		}
		wantNothingLeft(t, nodes)
		err := l.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context, _ *redlock.MultiLock) error {
			remove(nodes, "a")
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), redlock.ErrLost) {
				t.Errorf("DoAll's context: got %v; want ErrLost", context.Cause(ctx))
			}
			return nil
		})
		if !errors.Is(err, redlock.ErrLost) {
			t.Errorf("DoAll: got %v; want ErrLost", err)
		}
	})
}

func TestASetIsExtendedAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		m := mustAcquireAll(t, l, []string{"a", "b", "c"})
		synctest.Wait() // for the nodes that were not waited for
		before := roundTrips(l)
		must(t, m.Extend(t.Context(), 25*time.Second))
		synctest.Wait()
		for i, after := range roundTrips(l) {
			if after-before[i] != 1 {
				t.Errorf("node %d: got %d round trips; want one", i, after-before[i])
			}
		}
		if left := m.Remaining(); left < 24*time.Second || left > 25*time.Second {
			t.Errorf("%v remain; want some 25 s", left)
		}
		for ttl, want := range map[time.Duration]error{time.Second: redlock.ErrInvalidTTL, 0: redlock.ErrInvalidTTL, time.Hour: redlock.ErrInvalidTTL} {
			if err := m.Extend(t.Context(), ttl); !errors.Is(err, want) {
				t.Errorf("Extend(%v): got %v; want %v", ttl, err, want)
			}
		}
		remove(nodes, "b")
		if err := m.Extend(t.Context(), 25*time.Second); !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), "extend b") {
			t.Errorf("without b: got %v; want ErrLost of b", err)
		}
		if err := m.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("then: got %v; want ErrLost", err)
		}
		wantNothingLeft(t, nodes)
	})
}

// The bound counts from when the set is complete: what it waited is not its holder's time.
func TestASetIsHeldForItsMaximumFromWhenItIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		b := mustAcquire(t, other, "b")
		set := wantsAll(t, t.Context(), l, []string{"a", "b"}, redlock.WithMaxHold(20*time.Second))
		time.Sleep(30 * time.Second)
		if s := l.Stats(); s.Held != 1 || s.Acquired != 1 {
			t.Errorf("while it waits: got %+v; want a, held without a break", s)
		}
		mustRelease(t, b)
		g := gotAll(t, set)
		<-g.locks.Done()
		if held := time.Since(g.at); held < 20*time.Second-time.Millisecond || // the call returned a moment after
			held > 21*time.Second || !errors.Is(g.locks.Err(), redlock.ErrMaxHold) {
			t.Errorf("it ended after %v with %v; want 20 s and ErrMaxHold", held, g.locks.Err())
		}
		wantNothingLeft(t, nodes)
	})
}

func TestCloseEndsSetsThatAreHeldOrWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		b := mustAcquire(t, other, "b")
		held := mustAcquireAll(t, l, []string{"x", "y", "z"})
		set := wantsAll(t, t.Context(), l, []string{"a", "b", "c"})
		must(t, l.Close())
		if g := <-set; !errors.Is(g.err, redlock.ErrClosed) {
			t.Errorf("the one that waits: got %v; want ErrClosed", g.err)
		}
		<-held.Done()
		if err := held.Err(); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("the one that is held: got %v; want ErrClosed", err)
		}
		wantLocked(t, nodes, "b")
		mustRelease(t, b)
		wantNothingLeft(t, nodes)
	})
}

// A name that the context carries a hold of is entered, and neither waited for nor given
// back; a name of the set can be entered in turn.
func TestASetEntersTheHoldsOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithReentry())
		other := separateLocker(t, nodes)
		outer := mustAcquire(t, l, "b")
		m, err := l.AcquireAll(outer.Context(), []string{"c", "b", "a"})
		must(t, err)
		if m.Token("b") != outer.Token() {
			t.Errorf("got token %d for b; want that of the hold, %d", m.Token("b"), outer.Token())
		}
		inner := reenter(t, l, m.Context(), "a")
		if inner.Token() != m.Token("a") {
			t.Errorf("got token %d inside the set; want %d", inner.Token(), m.Token("a"))
		}
		mustRelease(t, inner)
		must(t, m.Release(t.Context()))
		wantLocked(t, nodes, "b")

		c := mustAcquire(t, other, "c")
		if _, err := l.TryAcquireAll(outer.Context(), []string{"a", "b", "c"}); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("with c held: got %v; want ErrNotAcquired", err)
		}
		set := wantsAll(t, outer.Context(), l, []string{"a", "b", "c"})
		wantLocked(t, nodes, "a", "b", "c")
		mustRelease(t, c)
		g := gotAll(t, set)
		mustRelease(t, outer) // the set's handle is the last
		if err := g.locks.Err(); err != nil {
			t.Errorf("after the outer hold's release: %v; want the set to go on", err)
		}
		must(t, g.locks.Release(t.Context()))
		wantNothingLeft(t, nodes)

		outer = mustAcquire(t, l, "b")
		remove(nodes, "b")
		<-outer.Done()
		if _, err := l.AcquireAll(context.WithoutCancel(outer.Context()), []string{"a", "b"}); !errors.Is(err, redlock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("inside a hold that was lost: got %v; want ErrNotHeld and ErrLost", err)
		}
		if s := l.Stats(); s.Acquiring != 0 || s.Held != 0 {
			t.Errorf("got %+v; want nothing under way", s)
		}
		wantNothingLeft(t, nodes)
	})
}

// A hold that the set entered is lost while the set waits, wherever its name stands: what
// the set has taken by itself goes back.
func TestASetThatLosesAHoldThatItEnteredGivesAllBack(t *testing.T) {
	for _, entered := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3, redlock.WithReentry())
			other := separateLocker(t, nodes)
			d := mustAcquire(t, other, "d")
			outer := mustAcquire(t, l, entered)
			set := wantsAll(t, context.WithoutCancel(outer.Context()), l, []string{"a", "b", "c", "d"})
			wantLocked(t, nodes, "a", "b", "c", "d")
			remove(nodes, entered)
			if g := <-set; !errors.Is(g.err, redlock.ErrNotHeld) || !errors.Is(g.err, redlock.ErrLost) {
				t.Errorf("inside %s, which is lost: got %v; want ErrNotHeld and ErrLost", entered, g.err)
			}
			wantLocked(t, nodes, "d")
			if s := l.Stats(); s.Acquiring != 0 || s.Held != 0 {
				t.Errorf("inside %s, which is lost: got %+v; want nothing under way, and nothing held", entered, s)
			}
			mustRelease(t, d)
			wantNothingLeft(t, nodes)
		})
	}
}
