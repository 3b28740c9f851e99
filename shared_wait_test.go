package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
)

func TestAnExclusiveHoldIsCalledWhenTheLastWhoSharesReleases(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		first, second := shares(t, l), shares(t, l)
		next := wants(t, other)
		time.Sleep(time.Second)
		mustRelease(t, first)
		time.Sleep(time.Minute)
		select {
		case g := <-next:
			t.Fatalf("got %v, %v beside a sharer", g.lock, g.err)
		default:
		}
		wantTaken(t, "while an exclusive hold is waited for", l, redlock.WithShared())
		released := time.Now()
		mustRelease(t, second)
		g := got(t, next)
		if took := g.at.Sub(released); took > 50*time.Millisecond {
			t.Errorf("had it %v after the last release; want it to be called", took)
		}
		if g.lock.Token() <= second.Token() {
			t.Errorf("got token %v after %v", g.lock.Token(), second.Token())
		}
		mustRelease(t, g.lock)
		synctest.Wait()
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("left behind: %v", keys)
		}
	})
}

func TestASharedAcquireWaitsForAnExclusiveHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		next := []<-chan gained{wants(t, other, redlock.WithShared()), wants(t, other, redlock.WithShared()), wants(t, l, redlock.WithShared())}
		if _, err := other.Acquire(t.Context(), "orders/42", redlock.WithShared(), redlock.WithWait(time.Second)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("WithWait: got %v", err)
		}
		released := time.Now()
		mustRelease(t, lock)
		for _, from := range next {
			g := got(t, from)
			if took := g.at.Sub(released); took > redlock.DefaultRetryMax {
				t.Errorf("had it %v after the release; want %v at most", took, redlock.DefaultRetryMax)
			}
			defer mustRelease(t, g.lock)
		}
	})
}

// The line of a Locker's goroutines is of those who want to be alone: a shared hold of the
// same Locker is handed to none of them.
func TestASharedHoldIsHandedToNobody(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock, beside := shares(t, l), shares(t, separateLocker(t, nodes))
		next := []<-chan gained{wants(t, l), wants(t, l)}
		mustRelease(t, lock)
		time.Sleep(time.Minute)
		if a, b := len(next[0]), len(next[1]); a+b != 0 {
			t.Fatalf("%d goroutines were given the hold; want none, it is still shared", a+b)
		}
		must(t, beside.Err())
		mustRelease(t, beside)
		first := got(t, next[0])
		time.Sleep(time.Minute)
		if len(next[1]) != 0 {
			t.Fatal("two hold it exclusively")
		}
		mustRelease(t, first.lock)
		mustRelease(t, got(t, next[1]).lock)
	})
}

func TestBargingSharesPastThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := shares(t, l)
		next := wants(t, separateLocker(t, nodes))
		wantTaken(t, "while an exclusive hold is waited for", l, redlock.WithShared())
		beside, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared(), redlock.WithBarging())
		must(t, err)
		mustRelease(t, lock)
		mustRelease(t, beside)
		mustRelease(t, got(t, next).lock)
	})
}

// One who barges has no place in line, so nobody waits for it: the others who want to share
// stand in line on the nodes, whichever came first.
func TestThoseWhoShareDoNotWaitForOneWhoBarges(t *testing.T) {
	for _, first := range []string{"barges", "stands in line"} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			held := mustAcquire(t, separateLocker(t, nodes), "orders/42")
			synctest.Wait() // or a node that it has not reached grants the next
			var barging <-chan gained
			if first == "barges" {
				barging = wants(t, l, redlock.WithShared(), redlock.WithBarging())
				time.Sleep(time.Second)
			}
			next := wants(t, l, redlock.WithShared())
			time.Sleep(3 * time.Second) // a node that the ask has not reached is told by a look
			if first != "barges" {
				barging = wants(t, l, redlock.WithShared(), redlock.WithBarging())
				time.Sleep(time.Second)
			}
			for i, n := range nodes.Nodes() {
				if in, err := n.Miniredis().ZMembers(lua.SharersKey + "orders/42"); err != nil || len(in) != 1 {
					t.Errorf("first one who %s: node %d has the line %q, %v; want one entry", first, i, in, err)
				}
			}
			behind := wants(t, separateLocker(t, nodes))
			mustRelease(t, held)
			shared := got(t, next).lock
			mustRelease(t, got(t, barging).lock) // which shares past the one behind
			mustRelease(t, shared)
			mustRelease(t, got(t, behind).lock)
		})
	}
}

// One who barges asks in no turn of its Locker either: where the others of it wait, to share
// or to be alone, it goes past them at once.
func TestOneWhoBargesWaitsForNobodyOfItsLocker(t *testing.T) {
	for _, kind := range [][]redlock.AcquireOption{{redlock.WithShared()}, nil} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			held := shares(t, separateLocker(t, nodes))
			alone := wants(t, separateLocker(t, nodes))
			time.Sleep(time.Second)
			next := wants(t, l, kind...)
			time.Sleep(time.Second)
			barging := wants(t, l, redlock.WithShared(), redlock.WithBarging())
			time.Sleep(time.Second)
			if len(barging) == 0 {
				t.Fatal("it waits")
			}
			mustRelease(t, got(t, barging).lock)
			mustRelease(t, held)
			mustRelease(t, got(t, alone).lock)
			mustRelease(t, got(t, next).lock)
		})
	}
}
