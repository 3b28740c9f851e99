package redlock_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// A renewal that fails is no loss: it is tried again, at a pace that leaves the
// nodes alone, while the lock is still valid.
func TestAFailedRenewalIsTriedAgainWithinTheValidity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		before := nodes.Node(0).Calls("EVALSHA")
		for _, i := range []int{0, 1, 2} {
			nodes.Node(i).Intercept(onScripts("extend", redlocktest.LoseRequest()))
		}
		const sick = 5 * time.Second // the first renewal comes after 3.3 s at the latest
		time.Sleep(sick)
		if left := lock.Remaining(); left > redlock.DefaultTTL-sick {
			t.Fatalf("got %v remaining; want the renewal to have failed", left)
		}
		if got := nodes.Node(0).Calls("EVALSHA") - before; got < 3 || got > 5 {
			t.Errorf("got %d renewals in the first %v; want one each half second from the first on: 250 ms of trying, 250 ms of pause", got, sick)
		}
		for _, n := range nodes.Nodes() {
			n.Intercept(nil)
		}
		time.Sleep(2 * redlock.DefaultTTL)
		if left := lock.Remaining(); left < redlock.DefaultTTL/2 {
			t.Errorf("three leases later: got %v remaining, %v; want the lock renewed", left, lock.Err())
		}
		mustRelease(t, lock)
	})
}

// An operator's DEL of one live key costs nothing: the next renewal puts it back.
func TestOneDeletedKeyIsPutBackByTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		for i, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
			time.Sleep(redlock.DefaultTTL/3 + time.Millisecond)
			synctest.Wait()
			if !n.Miniredis().Exists("orders/42") {
				t.Errorf("a third of the TTL after its DEL node %d lacks the key; want it put back", i)
			}
			if left := lock.Remaining(); left < redlock.DefaultTTL/2 {
				t.Fatalf("got %v remaining, %v; want the lock renewed", left, lock.Err())
			}
		}
		mustRelease(t, lock)
	})
}

// A lock on exactly a quorum has no key to spare: one more DEL ends it.
func TestADeletedKeyEndsALockOnExactlyAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		nodes.Node(3).Stop()
		nodes.Node(4).Stop()
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		nodes.Node(0).Miniredis().Del("orders/42")
		began := time.Now()
		nodes.Node(3).Start() // which have not the key, and are none of its quorum
		nodes.Node(4).Start()
		<-lock.Done()
		if took := time.Since(began); took > redlock.DefaultTTL/3+time.Millisecond {
			t.Errorf("Done came after %v; want it at the next renewal, a third of the TTL at the latest", took)
		}
		wantLost(t, lock)
	})
}

// An acquire without a reply may still come, also after the reply to a later
// command that put the same lock there: its connection may be the slower one.
func TestADoubtAboutAnAcquireOutlivesTheReplyToAReseed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		doubted := nodes.Node(0)
		var lost, reseeds atomic.Int64
		doubted.Intercept(func(args []string) redlocktest.Verdict {
			switch {
			case strings.HasPrefix(scriptOf(args), "acquire"):
				lost.Add(1)
				return redlocktest.LoseRequest()
			case scriptOf(args) == "reseed":
				reseeds.Add(1)
			}
			return redlocktest.Pass()
		})
		lock := mustAcquire(t, l, "orders/42")
		time.Sleep(redlock.DefaultTTL) // it is renewed, and put on the node that has not got it
		synctest.Wait()
		if lost.Load() == 0 || reseeds.Load() == 0 {
			t.Fatalf("%d acquires lost, %d re-seeds; the test wants both", lost.Load(), reseeds.Load())
		}
		owner, err := doubted.Miniredis().Get("orders/42")
		must(t, err)
		mustRelease(t, lock)
		synctest.Wait()
		if !doubted.Miniredis().Exists("redlock:dead:" + owner) {
			t.Error("the release left no tombstone; want one: the acquire may still come")
		}
	})
}
