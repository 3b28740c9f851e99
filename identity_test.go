package redlock_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

var errAway = errors.New("connection refused")

// address is where a client's connections lead.
type address struct {
	mu    sync.Mutex // guards the fields below
	to    *redlocktest.Node
	conns []net.Conn
}

func (a *address) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.to == nil {
		return nil, errAway
	}
	c, err := a.to.Dial(ctx)
	a.conns = append(a.conns, c)
	return c, err
}

// lead makes the address lead to a node, or to none, and breaks all connections.
func (a *address) lead(to *redlocktest.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = to
	for _, c := range a.conns {
		_ = c.Close()
	}
	a.conns = nil
}

// With New, no connection asks for the run_id. An address leads to another node of the
// list while that one's own entry is down; back, that entry is the node that was
// verified, with its epoch. It must ask who else is: one server would vote twice.
func TestANodeThatComesBackVotesOnceThoughAnotherEntryLeadsToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		addresses := make([]*address, 3)
		var clients []redis.UniversalClient
		for i, n := range nodes.Nodes() {
			addresses[i] = &address{to: n}
			o := n.Options()
			o.Dialer = addresses[i].dial
			c := redis.NewClient(o)
			t.Cleanup(func() { _ = c.Close() })
			clients = append(clients, c)
		}
		l := lockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		warm(t, l)
		shared := nodes.Node(1)
		addresses[1].lead(nil)
		addresses[0].lead(shared)
		pollUntil(t, 5*time.Minute, "the first entry's server votes for it", func() bool {
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil {
				mustRelease(t, lock)
			}
			time.Sleep(100 * time.Millisecond)
			return err == nil
		})
		addresses[1].lead(shared)
		nodes.Node(2).Stop()
		for range 100 {
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil {
				t.Fatalf("got token %d by one server of three; want no quorum", lock.Token())
			}
			wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
			time.Sleep(50 * time.Millisecond)
		}
		nodes.Node(2).Start()
	})
}

// Two nodes fail over in place, to data without the holder's key, within 25 ms of the
// contender's last look. What they grant it then counts until it learns of that (SAFETY,
// Limits), and no longer: not for as long as its lease.
func TestWhatANodeGrantedBeforeItWasSeenToHaveForgottenDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		contender := separateLocker(t, nodes)
		warm(t, l)
		warm(t, contender)
		time.Sleep(time.Second)
		held := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		warm(t, contender) // it looks
		synctest.Wait()
		for i := range 2 {
			nodes.Node(i).Miniredis().Del("orders/42")
		}
		second := mustAcquire(t, contender, "orders/42", redlock.WithFixedLease())
		must(t, held.Err())
		must(t, second.Err())
		for i := range 2 { // a replica once more
			nodes.Node(i).Intercept(onScripts("acquire", redlocktest.ReplyError("READONLY You can't write against a read only replica.")))
		}
		_, err := contender.TryAcquire(t.Context(), "orders/1")
		wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		must(t, held.Err())
		wantLost(t, second)
	})
}
