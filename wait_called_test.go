package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// How long a sign of life stands (lua/ask.lua); what a call leaves of it
// (lua/release.lua), and that and a look.
const (
	lives     = 3 * time.Second
	shortened = 700 * time.Millisecond
	aSecond   = shortened + 300*time.Millisecond
)

// One whose connections are closed: it is called in vain, and so is not asked to
// wait for. While its last sign of life stands it may be one that lives.
func TestADeadHeadIsPassedOver(t *testing.T) {
	for what, tt := range map[string]struct {
		before      time.Duration // the release
		least, most time.Duration
		takesGrants bool
	}{
		"it died just now":                                   {0, shortened, aSecond, false},
		"its sign of life has just gone":                     {3500 * time.Millisecond, 0, 0, false},
		"it died just now, and could be granted":             {0, shortened, aSecond, true},
		"its sign of life has gone, and it could be granted": {3500 * time.Millisecond, 0, 0, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				other := separateLocker(t, nodes)
				lock := mustAcquire(t, l, "orders/42")
				id := ghost(t, nodes)
				for _, n := range nodes.Nodes() {
					if tt.takesGrants {
						_, err := n.Miniredis().ZAdd("redlock:queue:orders/42", 1, id+" 00000000-0000-4000-8000-000000000000")
						must(t, err)
					}
				}
				next := wants(t, other)
				time.Sleep(tt.before)
				released := time.Now()
				mustRelease(t, lock)
				if d := got(t, next).at.Sub(released); d < tt.least || d > tt.most {
					t.Errorf("the next had it after %v; want %v to %v", d, tt.least, tt.most)
				}
			})
		})
	}
}

// One whose connections stand and who does not ask: stopped, cut off, or killed
// when it was called.
func TestASilentHeadIsPassedOverASecondAfterItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		for _, client := range nodes.NewClients() {
			s := client.Subscribe(t.Context(), "redlock:wake:ghost")
			_, err := s.Receive(t.Context())
			must(t, err)
			t.Cleanup(func() { _ = s.Close() })
		}
		lock := mustAcquire(t, l, "orders/42")
		ghost(t, nodes)
		next := wants(t, other)
		released := time.Now()
		mustRelease(t, lock)
		if d := got(t, next).at.Sub(released); d < shortened || d > aSecond {
			t.Errorf("the next had it after %v; want %v to %v", d, shortened, aSecond)
		}
	})
}

// liveKeys are the signs of life on a node.
func liveKeys(n *redlocktest.Node) (keys []string) {
	for _, key := range n.Keys() {
		if len(key) > len("redlock:live:") && key[:len("redlock:live:")] == "redlock:live:" {
			keys = append(keys, key)
		}
	}
	return keys
}

// shorten does to a sign of life what a call does, whether it is heard or not.
func shorten(t *testing.T, n *redlocktest.Node) (id string) {
	t.Helper()
	keys := liveKeys(n)
	if len(keys) != 1 {
		t.Fatalf("signs of life: %v; want one", keys)
	}
	n.Miniredis().SetTTL(keys[0], shortened)
	return keys[0][len("redlock:live:"):]
}

// A process waits for one name, and is called for another one, that it does not
// want: it stays in line for the first, so its sign of life must not end.
func TestACallEndsNoSignOfLifeOfOneThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42")
		next := wants(t, separateLocker(t, nodes))
		time.Sleep(100 * time.Millisecond) // after a sign of life, and long before the next
		for range 5 {
			for _, n := range nodes.Nodes() {
				n.Miniredis().Publish("redlock:wake:"+shorten(t, n), "another")
			}
			for range 110 {
				time.Sleep(10 * time.Millisecond)
				for i, n := range nodes.Nodes() {
					if len(liveKeys(n)) == 0 {
						t.Fatalf("node %d has no sign of life of one that waits", i)
					}
				}
			}
		}
		mustRelease(t, lock)
		mustRelease(t, got(t, next).lock)
	})
}

// Who waits says that it lives in time without that; nobody else has anything to say.
func TestACallBringsNoSignOfLifeOfOneThatDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		mustAcquire(t, l, "orders/42")
		other := separateLocker(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { _, err := other.Acquire(ctx, "orders/42"); ended <- err }()
		time.Sleep(500 * time.Millisecond)
		id := liveKeys(nodes.Node(0))[0][len("redlock:live:"):]
		wantError(t, "Acquire", <-ended, redlock.ErrNotAcquired)
		time.Sleep(10 * time.Second) // the last one has ended
		for range 20 {
			for i, n := range nodes.Nodes() {
				if n.Miniredis().Publish("redlock:wake:"+id, "orders/42") != 1 {
					t.Fatalf("node %d has no subscriber; want the call heard", i)
				}
				if keys := liveKeys(n); len(keys) > 0 {
					t.Fatalf("node %d: got %v; want no sign of life", i, keys)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// A call into a connection that is broken, which only the node knows. The next sign
// of life finds that there was a call, and has the node looked at.
func TestACallInVainIsFoundByTheNextSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		next := wants(t, other)
		time.Sleep(600 * time.Millisecond) // the next sign of life comes before this one has ended
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
			shorten(t, n)
		}
		released := time.Now()
		if d := got(t, next).at.Sub(released); d > time.Second {
			t.Errorf("the next had it after %v; want a sign of life a second", d)
		}
	})
}
