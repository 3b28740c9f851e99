package redlock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// A slot goes from one goroutine of a Locker to the next that stands in line, as often in a
// row as WithTurns says, though another process was there before that one. Then it is the
// other's turn.
func TestASlotIsHandedOnAsOftenAsTurnsSay(t *testing.T) {
	for i, turns := range []int{1, 2, 8, 2, 8} {
		pause, most := 300*time.Millisecond, redlock.DefaultRetryMax // who is next stands in line by then, and rests
		if i > 2 {
			pause = time.Second // it looks at that moment
		}
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 5)
			l, other := separateLocker(t, nodes, redlock.WithTurns(turns)), separateLocker(t, nodes)
			limit := redlock.WithLimit(1)
			last := mustAcquire(t, l, "orders/42", limit)
			theirs := wants(t, other, limit)
			var ours []<-chan gained
			for range turns + 3 {
				ours = append(ours, wants(t, l, limit))
			}
			for i := range turns - 1 {
				released := time.Now()
				token := last.Token()
				mustRelease(t, last)
				g := got(t, ours[i]) // in their order
				if took := g.at.Sub(released); took > most || g.lock.Token() <= token {
					t.Errorf("%d turns: hold %d after %v, with token %v; want it after %v at most, above %v", turns, i+2, took, g.lock.Token(), most, token)
				}
				last = g.lock
				time.Sleep(pause)
				must(t, last.Err())
			}
			mustRelease(t, last)
			time.Sleep(time.Second)
			if len(theirs) == 0 {
				t.Fatalf("%d turns: the other process has no turn", turns)
			}
			mustRelease(t, got(t, theirs).lock)
			for _, from := range ours[turns-1:] {
				mustRelease(t, got(t, from).lock)
			}
			time.Sleep(time.Minute)
			if left := append(slotKeys(nodes), queueKeys(nodes)...); len(left) > 0 {
				t.Errorf("%d turns: left: %q", turns, left)
			}
		})
	}
}

// A hand-over that too few nodes hear of brings no slot, and leaves none: who was to have it
// waits on in line.
func TestASlotThatIsLostOnItsWayComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l, limit := separateLocker(t, nodes), redlock.WithLimit(1)
		last := mustAcquire(t, l, "orders/42", limit)
		next := wants(t, l, limit)
		time.Sleep(300 * time.Millisecond)
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if slices.Contains(args, lua.PassScript.Hash) {
					return redlocktest.LoseRequest()
				}
				return redlocktest.Pass()
			})
		}
		_ = last.Release(t.Context())
		g := got(t, next)
		must(t, g.lock.Err())
		mustRelease(t, g.lock)
		time.Sleep(time.Minute)
		if left := append(slotKeys(nodes), queueKeys(nodes)...); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// Who was to be handed a slot may have gone meanwhile, or the Locker may be closed.
func TestASlotThatNobodyTakesIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l, other, limit := separateLocker(t, nodes), separateLocker(t, nodes), redlock.WithLimit(1)
		for range 20 {
			last := mustAcquire(t, l, "orders/42", limit)
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				lock, err := l.Acquire(ctx, "orders/42", limit)
				if err == nil {
					err = lock.Release(t.Context())
				}
				gone <- err
			}()
			time.Sleep(300 * time.Millisecond)
			go cancel()
			mustRelease(t, last)
			if err := <-gone; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			mustRelease(t, mustAcquire(t, other, "orders/42", limit))
		}
		last := mustAcquire(t, l, "orders/42", limit)
		next, theirs := wants(t, l, limit), wants(t, other, limit)
		time.Sleep(300 * time.Millisecond)
		_ = last
		must(t, l.Close())
		if g := <-next; !errors.Is(g.err, redlock.ErrClosed) {
			t.Errorf("got %v; want ErrClosed", g.err)
		}
		mustRelease(t, got(t, theirs).lock)
	})
}

// A slot goes to none who asks for one of fewer than that, nor is it lost by that.
func TestASlotIsNotHandedToOneWhoKnowsOfFewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l, two := separateLocker(t, nodes), redlock.WithLimit(2)
		held := []*redlock.Lock{mustAcquire(t, l, "orders/42", two), mustAcquire(t, l, "orders/42", two)}
		slices.SortFunc(held, func(a, b *redlock.Lock) int { return a.Slot() - b.Slot() })
		next := wants(t, l, redlock.WithLimit(1))
		time.Sleep(300 * time.Millisecond)
		mustRelease(t, held[1])
		time.Sleep(300 * time.Millisecond)
		if len(next) > 0 {
			t.Fatalf("slot %d was handed to one who asked for the only one", got(t, next).lock.Slot())
		}
		beside := mustAcquire(t, separateLocker(t, nodes), "orders/42", two, redlock.WithBarging())
		mustRelease(t, held[0])
		if slot := got(t, next).lock.Slot(); slot != 0 {
			t.Errorf("got slot %d; want 0", slot)
		}
		must(t, beside.Err())
	})
}

// One whose own ask brings a slot, while it is handed another, gives that one back.
func TestOneWhoGetsASlotGivesBackTheOneItWasHanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l, two := separateLocker(t, nodes), redlock.WithLimit(2)
		held, other := mustAcquire(t, l, "orders/42", two), separateLocker(t, nodes)
		beside := mustAcquire(t, other, "orders/42", two)
		next := wants(t, l, two)
		time.Sleep(300 * time.Millisecond)
		for _, n := range nodes.Nodes() { // the ask that follows the call is out when the slot is handed on
			n.Intercept(func(args []string) redlocktest.Verdict {
				if slices.Contains(args, lua.AskSlotScript.Hash) {
					time.Sleep(20 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
		}
		mustRelease(t, beside)
		time.Sleep(10 * time.Millisecond)
		_ = held.Release(t.Context())
		first := got(t, next).lock
		time.Sleep(time.Second)
		if keys := slotKeys(nodes); len(keys) != 3 {
			t.Errorf("the nodes have %q; want the slot that is held, on three", keys)
		}
		mustRelease(t, first)
		time.Sleep(time.Second)
		if keys := slotKeys(nodes); len(keys) != 0 {
			t.Errorf("left: %q", keys)
		}
	})
}
