package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// While it waits for a name, it holds those before it and none behind it.
func TestASetThatWaitsHoldsOnlyWhatStandsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		b, d := mustAcquire(t, other, "b"), mustAcquire(t, other, "d")
		set := wantsAll(t, t.Context(), l, []string{"d", "c", "b", "a"})
		wantLocked(t, nodes, "a", "b", "d")
		time.Sleep(time.Minute) // what it holds is renewed
		wantLocked(t, nodes, "a", "b", "d")
		mustRelease(t, d)
		wantLocked(t, nodes, "a", "b")
		d = mustAcquire(t, other, "d")
		mustRelease(t, b)
		wantLocked(t, nodes, "a", "b", "c", "d")
		if len(set) != 0 {
			t.Fatal("it has returned without d")
		}
		released := time.Now()
		mustRelease(t, d)
		g := gotAll(t, set)
		if took := g.at.Sub(released); took != 0 {
			t.Errorf("it had the last name %v after its release; want at once", took)
		}
		must(t, g.locks.Release(t.Context()))
		wantNothingLeft(t, nodes)
	})
}

// The order is that of the keys' bytes, no matter what the callers say, and holds for the lines
// inside a process too.
func TestSetsInAnyOrderAllComeToTheirTurn(t *testing.T) {
	testkit.Unraced(t)
	for _, processes := range []int{1, 2, 4} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			lockers := []*redlock.Locker{l}
			for len(lockers) < processes {
				lockers = append(lockers, separateLocker(t, nodes))
			}
			const each = 8
			all := names(4)
			var inside [4]atomic.Int32
			var wg sync.WaitGroup
			began := time.Now()
			for g := range 6 {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(g), 7))
					for range each {
						order := rnd.Perm(len(all))[:2+rnd.IntN(3)]
						set := make([]string, len(order))
						for k, i := range order {
							set[k] = all[i]
						}
						err := lockers[g%processes].DoAll(t.Context(), set, func(ctx context.Context, _ *redlock.MultiLock) error {
							for _, i := range order {
								if inside[i].Add(1) != 1 {
									t.Errorf("%s is held twice", all[i])
								}
							}
							time.Sleep(10 * time.Millisecond)
							for _, i := range order {
								inside[i].Add(-1)
							}
							return ctx.Err()
						})
						if err != nil {
							t.Errorf("DoAll(%q): %v", set, err)
						}
					}
				})
			}
			wg.Wait()
			if took := time.Since(began); took > 6*each*50*time.Millisecond {
				t.Errorf("%d processes: it took %v; want some 10 ms for each of %d holds", processes, took, 6*each)
			}
			wantNothingLeft(t, nodes)
			for _, l := range lockers {
				if s := l.Stats(); s.Acquiring != 0 || s.Held != 0 || s.Acquired != s.Released {
					t.Errorf("got %+v; want all that was acquired to be released", s)
				}
			}
		})
	}
}

func TestASetThatStopsWaitingGivesAllBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, other, "b")
		for _, holder := range []*redlock.Locker{other, l} { // on the nodes, and in its own line
			ctx, cancel := context.WithCancel(t.Context())
			cause := errors.New("the shop closes")
			inner, because := context.WithCancelCause(ctx)
			set := wantsAll(t, inner, l, []string{"a", "b", "c"})
			because(cause)
			if g := <-set; !errors.Is(g.err, context.Canceled) || !errors.Is(g.err, cause) || !errors.Is(g.err, redlock.ErrNotAcquired) {
				t.Errorf("got %v; want the cause, joined with ErrNotAcquired", g.err)
			}
			cancel()
			wantLocked(t, nodes, "b")
			if left := queueKeys(nodes); left != nil {
				t.Errorf("left in line: %v", left)
			}
			if _, err := l.AcquireAll(t.Context(), []string{"a", "b"}, redlock.WithWait(time.Second)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("WithWait: got %v; want DeadlineExceeded", err)
			}
			if holder == other {
				mustRelease(t, lock)
				lock = mustAcquire(t, l, "b")
			}
		}
		mustRelease(t, lock)
		if s := l.Stats(); s.Acquiring != 0 || s.Held != 0 {
			t.Errorf("got %+v; want nothing under way", s)
		}
		wantNothingLeft(t, nodes)
	})
}

// One that is lost while the set waits is taken anew, and what stands behind it is given
// back: else it would wait for a name below one that it holds.
func TestANameThatIsLostWhileTheSetWaitsIsTakenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		c := mustAcquire(t, other, "c")
		set := wantsAll(t, t.Context(), l, []string{"a", "b", "c"})
		wantLocked(t, nodes, "a", "b", "c")
		remove(nodes, "a")
		a := mustAcquire(t, other, "a")
		time.Sleep(redlock.DefaultTTL) // a renewal finds it
		wantLocked(t, nodes, "a", "c")
		if s := l.Stats(); s.Lost != 1 || s.Held != 0 {
			t.Errorf("got %+v; want one lost, and nothing held", s)
		}
		mustRelease(t, c)
		if len(set) != 0 {
			t.Fatal("it has returned without a")
		}
		mustRelease(t, a)
		g := gotAll(t, set)
		if g.locks.Token("a") <= a.Token() {
			t.Errorf("got token %d for a; want one above %d", g.locks.Token("a"), a.Token())
		}
		wantLocked(t, nodes, "a", "b", "c")
		must(t, g.locks.Release(t.Context()))
		wantNothingLeft(t, nodes)
	})
}

// A set whose caller gives up in its first round goes back from every node that may have
// been asked, no matter what was heard of it.
func TestASetThatIsCutOffInItsFirstRoundLeavesNothing(t *testing.T) {
	for name, cut := range map[string]func(n *redlocktest.Node, i int, script string){
		"no node has answered": func(n *redlocktest.Node, _ int, _ string) { n.Hang() },
		"one node has granted": func(n *redlocktest.Node, i int, _ string) {
			if i > 0 {
				n.Hang()
			}
		},
		"requests are under way": func(n *redlocktest.Node, _ int, script string) { n.Intercept(slowly(script, 150*time.Millisecond)) },
		"replies are lost": func(n *redlocktest.Node, _ int, script string) {
			n.Intercept(onScripts(script, redlocktest.LoseReply()))
		},
	} {
		for script, opts := range map[string][]redlock.AcquireOption{"acquire": nil, "share": {redlock.WithShared()}} {
			t.Run(name+", "+script, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, nodes := newLocker(t, 3)
					warm(t, l)
					for i, n := range nodes.Nodes() {
						cut(n, i, script)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					if _, err := l.AcquireAll(ctx, []string{"a", "b"}, opts...); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v; want the end of the context", err)
					}
					for _, n := range nodes.Nodes() {
						n.Intercept(nil)
						n.Resume()
					}
					time.Sleep(2 * time.Second)
					wantNothingLeft(t, nodes)
					if s := l.Stats(); s.Acquiring != 0 || s.Held != 0 {
						t.Errorf("got %+v; want nothing under way", s)
					}
				})
			})
		}
	}
}

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
			nodes.Node(i).Miniredis().HSet(lua.NodeKey, "names", "x\ny")
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
