package redlock_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// What was seen of the nodes grows old: before an acquisition is refused for it,
// they are looked at again.

// unfounded is two Lockers of two processes over new nodes, of which the second has
// seen that no node votes.
func unfounded(t *testing.T, n int) (first, second *redlock.Locker, nodes *redlocktest.Cluster) {
	t.Helper()
	nodes = redlocktest.Start(t, n, redlocktest.WithoutFounding())
	first, second = separateLocker(t, nodes), separateLocker(t, nodes)
	_, err := second.TryAcquire(t.Context(), "orders/41")
	wantError(t, "TryAcquire on new nodes", err, redlock.ErrNoQuorum)
	return first, second, nodes
}

// The second quick start of docs/GETTING-STARTED.md, over new masters: one worker waits until they
// vote, and another, which had found them blank, tries its luck.
func TestWhoFoundTheNodesBlankAsksAgainBeforeItRefuses(t *testing.T) {
	testkit.Unraced(t)
	for after := range 10 {
		synctest.Test(t, func(t *testing.T) {
			first, second, _ := unfounded(t, 5)
			time.Sleep(time.Duration(after) * 97 * time.Millisecond) // the reconcile loop looks once a second: meet it anywhere
			must(t, first.Cluster().Join(t.Context()))
			held := mustAcquire(t, first, "orders/42")
			_, err := second.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire of a held name", err, redlock.ErrNotAcquired)
			lock, err := second.TryAcquire(t.Context(), "orders/43")
			if err != nil {
				t.Fatalf("TryAcquire, while all five vote: %v", err)
			}
			mustRelease(t, lock)
			mustRelease(t, held)
		})
	}
}

// One who may wait for less than the reconcile loop's second must not wait in vain.
func TestAShortAcquireLooksAgainToo(t *testing.T) {
	for name, try := range map[string]func(t *testing.T, l *redlock.Locker) (*redlock.Lock, error){
		"a wait of 300 ms": func(t *testing.T, l *redlock.Locker) (*redlock.Lock, error) {
			t.Helper()
			return l.Acquire(t.Context(), "orders/42", redlock.WithWait(300*time.Millisecond))
		},
		"barging": func(t *testing.T, l *redlock.Locker) (*redlock.Lock, error) {
			t.Helper()
			return l.TryAcquire(t.Context(), "orders/42", redlock.WithBarging())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second, _ := unfounded(t, 5)
				must(t, first.Cluster().Admit(t.Context()))
				lock, err := try(t, second)
				must(t, err)
				mustRelease(t, lock)
			})
		})
	}
}

// What waiting does not mend, somebody may have mended: here nodes of another
// cluster were emptied, and admitted.
func TestAMendedNodeIsLookedAtBeforeAnAcquireEndsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		for i := range 2 {
			foundedAs(nodes, i, "another")
			nodes.Node(i).Miniredis().HSet(lua.NodeKey, "n", "2", "names", "x\ny")
		}
		first, second := separateLocker(t, nodes), separateLocker(t, nodes)
		_, err := second.Acquire(t.Context(), "orders/41")
		wantError(t, "Acquire on nodes of another cluster", err, redlock.ErrMisconfigured)
		time.Sleep(1500 * time.Millisecond) // between two looks of the reconcile loop's
		for i := range 2 {
			nodes.Node(i).FlushAll()
		}
		must(t, first.Cluster().Admit(t.Context()))
		lock, err := second.Acquire(t.Context(), "orders/42")
		must(t, err)
		mustRelease(t, lock)
	})
}

// However many are refused, and as often as they ask, the nodes are looked at no
// more often than ten times a second.
func TestRefusalsShareTheirLooks(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		const callers, times = 1000, 5
		nodes := redlocktest.Start(t, 5, redlocktest.WithoutFounding())
		l := separateLocker(t, nodes)
		_, err := l.TryAcquire(t.Context(), "orders/41")
		wantError(t, "TryAcquire on new nodes", err, redlock.ErrNoQuorum)
		time.Sleep(time.Second)
		count, began := sent(nodes), time.Now()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range times {
					if _, err := l.TryAcquire(t.Context(), fmt.Sprint("orders/", i)); !errors.Is(err, redlock.ErrNoQuorum) {
						t.Errorf("got %v; want ErrNoQuorum", err)
					}
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		most := int(took/(100*time.Millisecond)) + 2
		for i := range nodes.Nodes() {
			if got := count(i, "evalsha"); got > most || got == 0 {
				t.Errorf("node %d was looked at %d times in %v; want 1 to %d", i, got, took, most)
			}
		}
		if took > time.Second {
			t.Errorf("%d refusals one after another took %v; want a tenth of a second each at most", times, took)
		}
	})
}

// An attempt that another node's silence or a held name decides looks at nothing.
func TestOnlyRefusalsForWhatWasSeenLookAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		warm(t, l)
		warm(t, other)
		nodes.Node(0).Restart() // one abstains: a quorum votes
		held := mustAcquire(t, other, "orders/42")
		for range 5 { // until node 0 was sent one: who finds it blank wakes the reconcile loop
			_, err := l.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
			time.Sleep(300 * time.Millisecond)
		}
		synctest.Wait()
		count := sent(nodes)
		for range 20 {
			_, err := l.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
			mustRelease(t, mustAcquire(t, l, "orders/43"))
		}
		if got := count(1, "evalsha"); got > 1 { // the reconcile loop's second may end meanwhile
			t.Errorf("node 1 was looked at %d times; want no look for what was decided without node 0", got)
		}
		mustRelease(t, held)
	})
}
