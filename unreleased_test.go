package redlock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// Close gave a node up at its first failure, with nearly all of its time left. What
// was on the node stayed there for a lease, though it was up.
func TestCloseTriesANodeAgainUntilItsTimeIsOver(t *testing.T) {
	for name, verdict := range map[string]redlocktest.Verdict{
		"connections break":    redlocktest.BreakBefore(),
		"replies get lost":     redlocktest.LoseReply(),
		"commands get lost":    redlocktest.LoseRequest(),
		"it refuses":           redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'."),
		"it says what nobody ": redlocktest.ReplyError("ERR knows"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				l := separateLocker(t, nodes)
				warm(t, l)
				mustAcquire(t, l, "orders/42")
				released := mustAcquire(t, l, "orders/41")
				synctest.Wait()
				var fails atomic.Int64
				nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
					if strings.HasPrefix(scriptOf(args), "release") && fails.Add(1) <= 3 {
						return verdict
					}
					return redlocktest.Pass()
				})
				mustRelease(t, released) // two nodes are enough
				began := time.Now()
				if err := l.Close(); err != nil {
					t.Errorf("Close: %v; want nil: every node was free in the end", err)
				}
				if took := time.Since(began); took > redlock.DefaultCloseTimeout {
					t.Errorf("Close took %v; want its timeout of %v at the most", took, redlock.DefaultCloseTimeout)
				}
				if fails.Load() < 4 {
					t.Errorf("%d releases were sent to node 0; want those that fail, and one more", fails.Load())
				}
				wantNoLocks(t, nodes, "when Close returned")
			})
		})
	}
}

// A node that has just failed is owed what was sent to it, also where its pause has
// not passed when Close begins.
func TestCloseWaitsForANodeThatHasJustFailed(t *testing.T) {
	for _, back := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 1200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 3)
			l := separateLocker(t, nodes)
			warm(t, l)
			lock := mustAcquire(t, l, "orders/42")
			synctest.Wait()
			nodes.Node(0).Hang()
			mustRelease(t, lock)
			for range 5 { // it is known to be down
				_, _ = l.TryAcquire(t.Context(), "orders/43", redlock.WithFixedLease())
				time.Sleep(100 * time.Millisecond)
			}
			var resumed sync.WaitGroup
			resumed.Go(func() {
				time.Sleep(back)
				nodes.Node(0).Resume()
			})
			if err := l.Close(); err != nil {
				t.Errorf("back after %v: Close: %v; want nil", back, err)
			}
			wantNoLocks(t, nodes, fmt.Sprintf("back after %v, when Close returned", back))
			resumed.Wait()
		})
	}
}

// What a node still may have when Close's time is over is named, and where it is.
func TestCloseNamesWhatIsNotReleasedAndWhere(t *testing.T) {
	for name, harm := range map[string]func(*redlocktest.Node){
		"it hangs":   (*redlocktest.Node).Hang,
		"it is gone": (*redlocktest.Node).Stop,
		"it refuses": func(n *redlocktest.Node) { n.Intercept(refusing("shop/orders/1", noRight)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				l := separateLocker(t, nodes, redlock.WithPrefix("shop/"))
				for _, name := range []string{"orders/1", "orders/2", "orders/3", "orders/4", "orders/5", "orders/6", "orders/7"} {
					mustAcquire(t, l, name)
				}
				synctest.Wait()
				harm(nodes.Node(1))
				began := time.Now()
				err := l.Close()
				if took := time.Since(began); took > redlock.DefaultCloseTimeout {
					t.Errorf("Close took %v; want its timeout of %v at the most", took, redlock.DefaultCloseTimeout)
				}
				if err == nil || errors.Is(err, redlock.ErrNoQuorum) {
					t.Fatalf("got %v; want an error, and not that of a quorum: two nodes confirmed", err)
				}
				for _, word := range []string{"redlock: close: not released on node 1 (node-1): orders/1"} {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("got %q; want %q in it", err, word)
					}
				}
				if all := name != "it refuses"; all != strings.Contains(err.Error(), "orders/5 and 2 more: ") {
					t.Errorf("got %q; want the first five names and how many more: %t", err, all)
				}
				if strings.Contains(err.Error(), "node 0") || strings.Contains(err.Error(), "node 2") {
					t.Errorf("got %q; want the one node that it is about", err)
				}
				nodes.Node(1).Intercept(nil)
				nodes.Node(1).Resume()
			})
		})
	}
}

// A name of which several slots are not released is named once.
func TestCloseNamesANameOfSlotsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := separateLocker(t, nodes, redlock.WithPrefix("shop/"))
		mustAcquire(t, l, "a")
		mustAcquire(t, l, "z")
		for range 3 {
			mustAcquire(t, l, "exports", redlock.WithLimit(3))
		}
		synctest.Wait()
		nodes.Node(1).Stop()
		if err := l.Close(); err == nil || !strings.Contains(err.Error(), "not released on node 1 (node-1): a, exports, z: ") {
			t.Errorf("got %v; want each name once", err)
		}
	})
}

// A server that stops answering for less than Close has time is free when Close
// returns: what was held there, and what was released a moment before.
func TestCloseLeavesNothingOnAServerThatPausedMeanwhile(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, servers, redlock.WithCloseTimeout(20*time.Second))
	warm(t, l)
	mustAcquire(t, l, "orders/42", redlock.WithTTL(25*time.Second))
	released := mustAcquire(t, l, "orders/41", redlock.WithTTL(25*time.Second))
	pollUntil(t, 5*time.Second, "server 0 has both", func() bool { return len(keysOn(t, servers[0])) == 2 })
	must(t, clientOf(t, servers[0]).Do(t.Context(), "CLIENT", "PAUSE", "900", "ALL").Err())
	mustRelease(t, released)
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v; want nil", err)
	}
	if left := keysOn(t, servers[0]); len(left) > 0 {
		t.Errorf("server 0 has %q when Close returns; want nothing of ours", slices.Sorted(slices.Values(left)))
	}
}
