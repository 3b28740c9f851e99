package redlock_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/tokenctx"
	"github.com/quorumkit/redlock/redlocktest"
)

// What a pass leaves behind whose request or reply was lost: nothing of the old holder, and
// nothing of the new one once it has released.
func TestALostPassLeavesNothingBehind(t *testing.T) {
	for what, lost := range map[string]redlocktest.Verdict{"the requests": redlocktest.LoseRequest(), "the replies": redlocktest.LoseReply()} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 5)
				warm(t, l)
				lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease()) // nothing is put right by a renewal
				next := wants(t, l, redlock.WithFixedLease())
				old, err := nodes.Node(0).Miniredis().Get("orders/42")
				must(t, err)
				some := nodes.Nodes()[3:]
				for _, n := range some {
					n.Intercept(onScripts("pass", lost))
				}
				must(t, lock.Release(t.Context()))
				lock = got(t, next).lock
				time.Sleep(time.Second)
				for _, n := range some {
					if owner, _ := n.Miniredis().Get("orders/42"); owner == old {
						t.Errorf("%s still has the old holder's key", n.Name())
					}
					n.Intercept(nil)
				}
				owner, err := nodes.Node(0).Miniredis().Get("orders/42")
				must(t, err)
				must(t, lock.Release(t.Context()))
				time.Sleep(time.Second)
				wantNoLocks(t, nodes, "after the second release")
				for _, n := range some {
					if !n.Miniredis().Exists(lua.TombstoneKey + owner) {
						t.Errorf("%s has no tombstone of the new holder; want one: the pass may still come", n.Name())
					}
				}
			})
		})
	}
}

// A re-seed that is due behind the release is not sent.
func TestALockThatIsReleasedIsNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		synctest.Wait()
		nodes.Node(0).Miniredis().Del("orders/42")
		nodes.Node(0).Intercept(slowly("extend", 100*time.Millisecond))
		must(t, lock.Extend(t.Context(), redlock.DefaultTTL)) // by the two others
		must(t, lock.Release(t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		wantNoLocks(t, nodes, "after the release")
	})
}

// The token is what the nodes counted, in all that says it: also where that is not what the
// attempt suggested, and behind a pass.
func TestTheTokenIsTheNumberOnTheNodesWhereverItIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = 1 << 52 // of what the clock suggests
		l, nodes := newLocker(t, 3)
		warm(t, l)
		stripe := strconv.FormatInt(lua.StripeOf("orders/42"), 10)
		for _, n := range nodes.Nodes() {
			n.Miniredis().HSet(lua.NodeKey, stripe, strconv.Itoa(ahead))
		}
		lock := mustAcquire(t, l, "orders/42")
		next := wants(t, l)
		wantToken(t, nodes, lock, stripe, ahead+1)
		must(t, lock.Release(t.Context()))
		lock = got(t, next).lock
		synctest.Wait()
		wantToken(t, nodes, lock, stripe, ahead+2)

		nodes.Node(0).Miniredis().Del("orders/42")
		nodes.Node(0).Miniredis().HDel(lua.NodeKey, stripe)
		must(t, lock.Extend(t.Context(), redlock.DefaultMaxTTL)) // which puts it back
		synctest.Wait()
		wantToken(t, nodes, lock, stripe, ahead+2)
		mustRelease(t, lock)
	})
}

func wantToken(t *testing.T, nodes *redlocktest.Cluster, lock *redlock.Lock, stripe string, want uint64) {
	t.Helper()
	if got := lock.Token(); got != redlock.Token(want) {
		t.Errorf("Token: got %d; want %d", got, want)
	}
	if got, ok := tokenctx.From(lock.Context(), "orders/42"); !ok || got != want {
		t.Errorf("the context's token: got %d, %t; want %d", got, ok, want)
	}
	for _, n := range nodes.Nodes() {
		if got := n.Miniredis().HGet(lua.NodeKey, stripe); got != strconv.FormatUint(want, 10) {
			t.Errorf("%s counts %q; want %d", n.Name(), got, want)
		}
	}
}
