package redlock_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// farConn is a connection to a node whose replies take longer by so long.
type farConn struct {
	net.Conn          // to the node
	replies  net.Conn // what has arrived
	forget   func()   // what is under way
}

func newFarConn(node net.Conn, by *atomic.Int64) net.Conn {
	type reply struct {
		data []byte
		due  time.Time
	}
	here, there := net.Pipe()
	way, closed := make(chan reply, 64), make(chan struct{})
	go func() {
		defer close(way)
		for buf := make([]byte, 64<<10); ; {
			n, err := node.Read(buf)
			if err != nil {
				return
			}
			way <- reply{bytes.Clone(buf[:n]), time.Now().Add(time.Duration(by.Load()))}
		}
	}()
	go func() {
		defer there.Close()
		for r := range way {
			arrives := time.NewTimer(max(time.Until(r.due), 1))
			select {
			case <-arrives.C:
				_, _ = there.Write(r.data)
			case <-closed:
				arrives.Stop()
			}
		}
	}()
	return &farConn{node, here, sync.OnceFunc(func() { close(closed) })}
}

func (c *farConn) Read(p []byte) (int, error)        { return c.replies.Read(p) }
func (c *farConn) SetReadDeadline(t time.Time) error { return c.replies.SetReadDeadline(t) }
func (c *farConn) SetDeadline(t time.Time) error {
	_ = c.replies.SetReadDeadline(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *farConn) Close() error {
	c.forget()
	_ = c.replies.Close()
	return c.Conn.Close()
}

// farLocker is a Locker over in-process nodes that answer after so long. It is warm.
func farLocker(t *testing.T, by time.Duration, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	var away atomic.Int64
	away.Store(int64(by))
	return movingLocker(t, &away, opts...)
}

// movingLocker is farLocker over nodes that move.
func movingLocker(t *testing.T, by *atomic.Int64, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	nodes := redlocktest.Start(t, 3)
	var clients []redis.UniversalClient
	for _, n := range nodes.Nodes() {
		o := n.Options()
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := n.Dial(ctx)
			if err != nil {
				return nil, err
			}
			return newFarConn(c, by), nil
		}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	l := lockerWith(t, clients, append([]redlock.Option{redlock.WithNodeNames(nodes.Names()...)}, opts...)...)
	warm(t, l)
	return l
}

// holdAll takes so many of four holds, each of another kind.
func holdAll(t *testing.T, l *redlock.Locker, kinds int) (held []func() error) {
	t.Helper()
	if kinds > 0 {
		held = append(held, mustAcquire(t, l, "plain").Err)
	}
	if kinds > 1 {
		held = append(held, mustAcquire(t, l, "shared", redlock.WithShared()).Err, mustAcquire(t, l, "slot", redlock.WithLimit(2)).Err,
			mustAcquireAll(t, l, []string{"a", "b", "c"}).Err)
	}
	return held
}

// tryAll tries to acquire so many free names, one after another, with a pause before each, and
// returns how many it got. The holds' clock samples and renewals go to the nodes beside it.
func tryAll(t *testing.T, l *redlock.Locker, tries int, every time.Duration) (got int) {
	t.Helper()
	for i := range tries {
		pause(every)
		lock, err := l.TryAcquire(t.Context(), fmt.Sprintf("free/%d", i))
		if err != nil {
			t.Logf("try %d: %v", i, err)
			continue
		}
		mustRelease(t, lock)
		got++
	}
	return got
}

// A command waits for the reply to the one before it, such as a sample of the clock: that wait
// is none of its own node timeout. Without holds there is a silence before each try, and a look.
func TestMastersFarAwayServeAsNearOnes(t *testing.T) {
	kinds, distances := []int{0, 4}, []int{130, 200, 230}
	if !testkit.Quick() && !testkit.UnderRace {
		kinds, distances = []int{0, 1, 4}, []int{60, 110, 130, 150, 180, 200, 230}
	}
	for _, ttl := range []time.Duration{10 * time.Second, 2 * time.Second} {
		for _, n := range kinds {
			for _, ms := range distances {
				t.Run(fmt.Sprintf("%d ms, TTL %v, holds %d", ms, ttl, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { farMastersServe(t, time.Duration(ms)*time.Millisecond, ttl, n) })
				})
			}
		}
	}
}

func farMastersServe(t *testing.T, away, ttl time.Duration, kinds int) {
	t.Helper()
	told := &events{}
	l := farLocker(t, away, redlock.WithTTL(ttl), told.option())
	held := holdAll(t, l, kinds)
	const tries = 10
	got := tryAll(t, l, tries, 2813*time.Millisecond) // some 30 s
	kept := 0
	for _, err := range held {
		if err() == nil {
			kept++
		}
	}
	synctest.Wait()
	failed := len(told.of(redlock.EventExtendFailed))
	t.Logf("%d of %d tries, %d of %d holds kept, %d renewals failed", got, tries, kept, len(held), failed)
	if got < tries || kept < len(held) || failed > 0 {
		t.Error("want all, and none failed")
	}
}

// A route changes: what is known of the distance then closes each connection that is good, once.
func TestMastersThatMoveAwayAreUsedAgain(t *testing.T) {
	for _, outage := range []bool{false, true} {
		for _, ms := range []int{100, 150, 220} {
			t.Run(fmt.Sprintf("%d ms, outage %t", ms, outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var by atomic.Int64
					by.Store(int64(time.Millisecond))
					l := movingLocker(t, &by)
					held := mustAcquire(t, l, "held")
					if outage {
						by.Store(int64(400 * time.Millisecond))
						pause(3 * time.Second)
					} else {
						mustRelease(t, held) // who holds is never silent
						pause(3 * time.Second)
					}
					by.Store(int64(time.Duration(ms) * time.Millisecond))
					const tries = 10
					if got := tryAll(t, l, tries, 2813*time.Millisecond); got < tries-2 || outage && held.Err() != nil {
						t.Errorf("%d of %d tries, held: %v; want all but two, and the hold", got, tries, held.Err())
					}
				})
			})
		}
	}
}

// What waits for a reply that does not come has waited long enough, even if it came later.
func TestACallBehindALostCommandFailsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		synctest.Wait()
		nodes.Node(1).Hang()
		nodes.Node(2).Hang()
		began := time.Now()
		var calls sync.WaitGroup
		for i := range 5 {
			calls.Go(func() {
				time.Sleep(time.Duration(i) * redlock.DefaultNodeTimeout / 5)
				_, err := l.TryAcquire(t.Context(), fmt.Sprintf("orders/%d", i))
				wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
			})
		}
		calls.Wait()
		if took := time.Since(began); took > redlock.DefaultNodeTimeout {
			t.Errorf("calls behind one whose command was lost took %v; want them to fail with it, after %v", took, redlock.DefaultNodeTimeout)
		}
		nodes.Node(1).Resume()
		nodes.Node(2).Resume()
	})
}

// Inspect asks several questions, one after another: each has a node timeout.
func TestInspectLooksAtMastersFarAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := farLocker(t, 200*time.Millisecond)
		holdAll(t, l, 4)
		for name, holders := range map[string]func(redlock.NodeInspection) int{
			"free":   func(redlock.NodeInspection) int { return 1 },
			"plain":  func(in redlock.NodeInspection) int { return len(in.Owner) },
			"shared": func(in redlock.NodeInspection) int { return len(in.Sharers) },
			"slot":   func(in redlock.NodeInspection) int { return len(in.Slots) },
		} {
			in, err := l.Inspect(t.Context(), name)
			shows := func(n redlock.NodeInspection) bool { return n.Err == nil && holders(n) > 0 }
			if err != nil || !slices.ContainsFunc(in.Nodes, shows) {
				t.Errorf("%s: got %+v, %v; want its holder", name, in, err)
			}
		}
	})
}
