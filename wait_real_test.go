//go:build unix

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Who waits for orders/42 on real servers, seen from outside: each process that
// stands in line is one more entry on a quorum of them.
type onlooker struct {
	*testing.T
	eyes []*redis.Client
	dead map[string]bool // processes that will not ask again

	mu    sync.Mutex // guards the field below
	order []string   // who has had the lock
}

func look(t *testing.T, servers []*redisserver.Server) *onlooker {
	t.Helper()
	o := &onlooker{T: t}
	for _, s := range servers {
		c := s.Client()
		t.Cleanup(func() { _ = c.Close() })
		o.eyes = append(o.eyes, c)
	}
	return o
}

// inLine waits until so many processes stand in line on a quorum.
func (o *onlooker) inLine(n int) {
	o.Helper()
	pollUntil(o.T, 20*time.Second, "they stand in line on a quorum", func() bool {
		there := 0
		for _, c := range o.eyes {
			if len(processes(c.ZRange(o.Context(), "redlock:queue:orders/42", 0, -1).Val())) == n {
				there++
			}
		}
		return there > len(o.eyes)/2
	})
}

// comes makes a process wait, and returns when it stands in line as the n-th.
func (o *onlooker) comes(l *redlock.Locker, who string, n int, opts ...redlock.AcquireOption) <-chan *redlock.Lock {
	o.Helper()
	done := make(chan *redlock.Lock, 1)
	ctx := o.Context()
	go func() {
		lock, err := l.Acquire(ctx, "orders/42", opts...)
		switch {
		case ctx.Err() != nil:
			return // the test has ended, and says why
		case err != nil:
			o.Errorf("%s: %v", who, err)
		}
		o.mu.Lock()
		o.order = append(o.order, who)
		o.mu.Unlock()
		done <- lock
	}()
	o.inLine(n)
	return done
}

// turns releases the lock, and returns the next holder's, which must come soon.
func (o *onlooker) turns(from *redlock.Lock, to <-chan *redlock.Lock, within time.Duration) *redlock.Lock {
	o.Helper()
	released := time.Now()
	must(o.T, from.Release(context.Background()))
	select {
	case next := <-to:
		if took := time.Since(released); took > within {
			o.Errorf("the next had it after %v; want %v at most", took, within)
		}
		if next == nil || next.Token() <= from.Token() {
			o.Fatalf("after token %v came %v", from.Token(), next)
		}
		return next
	case <-time.After(30 * time.Second):
		o.Fatalf("30s after the release, %v have had it, and nobody else", o.order)
		return nil
	}
}

// dies counts all processes in line as dead: the next one that meets their entries drops
// them, and they may stay where nobody asks any more.
func (o *onlooker) dies() {
	o.dead = make(map[string]bool)
	for _, c := range o.eyes {
		for _, id := range c.ZRange(o.Context(), "redlock:queue:orders/42", 0, -1).Val() {
			o.dead[id] = true
		}
	}
}

// wantOrder checks who has had it, and that nobody's entry is left but the dead's.
func (o *onlooker) wantOrder(want ...string) {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.order, want) {
		o.Errorf("they had it in the order %v; want %v", o.order, want)
	}
	for _, c := range o.eyes {
		pollUntil(o.T, 10*time.Second, "the queues are empty", func() bool {
			for _, id := range c.ZRange(o.Context(), "redlock:queue:orders/42", 0, -1).Val() {
				if !o.dead[id] {
					return false
				}
			}
			return c.Exists(o.Context(), "orders/42").Val() == 0
		})
	}
}

// Five nodes, of which one is killed (kill -9), one stopped and continued, one
// restarted empty, while four processes wait: each has its turn, in its order, and
// the nodes that forgot know who waits once they vote again, by the next look at most.
func TestTheQueueOutlivesItsNodesOnRealServers(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	servers := testserver.Need(t, 5, redisserver.Config{})
	open := func() *redlock.Locker {
		return openServers(t, servers, redlock.WithTTL(lease), redlock.WithMaxTTL(lease), redlock.WithNodeTimeout(lease/3))
	}
	holder := open()
	o := look(t, servers)
	lock := mustAcquire(t, holder, "orders/42")
	var waiters []<-chan *redlock.Lock
	var last *redlock.Locker
	for i, who := range []string{"A", "B", "C", "D"} {
		last = open()
		waiters = append(waiters, o.comes(last, who, i+1))
	}
	const lookAndLease = 8*time.Second + lease

	must(t, servers[0].Kill())
	lock = o.turns(lock, waiters[0], lookAndLease)

	must(t, servers[1].Pause())
	lock = o.turns(lock, waiters[1], lookAndLease)

	must(t, servers[1].Resume())
	must(t, servers[2].RestartEmpty())
	lock = o.turns(lock, waiters[2], lookAndLease)

	must(t, servers[0].Restart())
	eventually(t, 10*lease, func() bool {
		s, err := last.Cluster().Status(t.Context())
		return err == nil && s.Votes() == 5
	})
	for _, c := range o.eyes {
		eventually(t, lookAndLease, func() bool { return c.ZCard(t.Context(), "redlock:queue:orders/42").Val() > 0 })
	}
	lock = o.turns(lock, waiters[3], lookAndLease)
	must(t, lock.Release(context.Background()))
	o.wantOrder("A", "B", "C", "D")
}

// A node's clock jumps while two wait: the order stays, and nobody has the lock
// before it is released.
func TestAClockThatJumpsDoesNotDisturbTheQueue(t *testing.T) {
	t.Parallel()
	for _, offset := range []string{"+20", "-20"} {
		t.Run(offset, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 3, redisserver.Config{FakeClock: true})
			var log locktest.Events
			holder := fakeClockLocker(t, servers, redlock.WithTTL(5*time.Second), log.Option())
			o := look(t, servers)
			lock := mustAcquire(t, holder, "orders/42")
			first := o.comes(fakeClockLocker(t, servers), "A", 1)
			second := o.comes(fakeClockLocker(t, servers), "B", 2)
			setClocks(t, servers[:1], offset)
			eventually(t, 10*time.Second, func() bool { return slices.Equal(log.Nodes(redlock.EventNodeClockStepped), []int{0}) })
			if must(t, lock.Err()); len(first)+len(second) > 0 {
				t.Fatal("somebody else has the lock, for one clock that jumped")
			}
			lock = o.turns(lock, first, 10*time.Second)
			must(t, o.turns(lock, second, 10*time.Second).Release(t.Context()))
			o.wantOrder("A", "B")
		})
	}
}

// The connections for calls are closed by an operator (CLIENT KILL TYPE pubsub), on
// a quorum or on all nodes, just before the release: the first in line lives, and
// was overtaken, eight times of eight.
func TestAHeadWhoseCallWasLostIsNotOvertakenOnRealServers(t *testing.T) {
	servers := testserver.Need(t, 5, redisserver.Config{})
	open := func() *redlock.Locker {
		return openServers(t, servers, redlock.WithTTL(4*patient), redlock.WithNodeTimeout(patient))
	}
	holder, a, b := open(), open(), open()
	admitted(t, holder)
	for round := range 8 {
		killed := servers[:3+2*(round%2)]
		t.Run(fmt.Sprintf("round %d, on %d nodes", round, len(killed)), func(t *testing.T) {
			o := look(t, servers)
			lock := mustAcquire(t, holder, "orders/42")
			first, second := o.comes(a, "A", 1), o.comes(b, "B", 2)
			for i := range killed {
				must(t, o.eyes[i].Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
			}
			must(t, lock.Release(context.Background()))
			select {
			case lock = <-first:
				lock = o.turns(lock, second, 20*time.Second)
			case lock = <-second:
				t.Error("B came second, and had its turn before A")
				lock = o.turns(lock, first, 20*time.Second)
			case <-time.After(20 * time.Second):
				t.Fatal("nobody has the lock 20s after the release")
			}
			must(t, lock.Release(context.Background()))
			o.wantOrder("A", "B")
		})
	}
}

// A process that stands first in line is killed (kill -9), before the release or when
// it was called by it. The call leaves 700 ms of its sign of life, and a look of the
// next finds that it has gone. How long that takes is judged in virtual time.
func TestAKilledProcessInLineIsPassedOver(t *testing.T) {
	t.Parallel()
	for what, called := range map[string]bool{"before the release": false, "when it was called": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 5, redisserver.Config{})
			l := lockerWith(t, defaultClients(t, addresses(servers)...), shortLease()...)
			admitted(t, l)
			next := lockerWith(t, defaultClients(t, addresses(servers)...), shortLease()...)
			h := newHolder(t, newRoute(t, servers))
			o := look(t, servers)
			lock := mustAcquire(t, l, "orders/42")
			h.tell("hold")
			o.inLine(1)
			o.dies()
			second := o.comes(next, "the next", 2)
			var released time.Time
			if called {
				h.signal(syscall.SIGSTOP)
				o.areSilent()
				released = time.Now()
				o.release(lock)
				o.wantShortened()
			}
			h.signal(syscall.SIGKILL)
			_ = h.cmd.Wait() // killed
			if !called {
				for _, c := range o.eyes {
					pollUntil(t, 10*time.Second, "the nodes see its connections closed", func() bool {
						return len(c.PubSubChannels(t.Context(), "redlock:wake:*").Val()) == 1
					})
				}
				released = time.Now()
				o.release(lock)
				o.wantShortened()
			}
			lock = <-second
			t.Logf("the next had it after %v", time.Since(released))
			must(t, lock.Release(context.Background()))
			o.wantOrder("the next")
		})
	}
}

// areSilent waits until no node has had a sign of life for a while: those that were on
// their way when the process was stopped have arrived.
func (o *onlooker) areSilent() {
	o.Helper()
	pollUntil(o.T, 20*time.Second, "no sign of life is on its way", func() bool {
		return !slices.ContainsFunc(o.eyes, func(c *redis.Client) bool { return o.left(c) > lives-700*time.Millisecond })
	})
}

// release returns when the release has reached all nodes, not only a quorum: they may
// be others than those where the dead stand in line.
func (o *onlooker) release(lock *redlock.Lock) {
	o.Helper()
	held := make([]string, len(o.eyes))
	for i, c := range o.eyes {
		held[i] = c.Get(o.Context(), "orders/42").Val()
	}
	must(o.T, lock.Release(context.Background()))
	for i, c := range o.eyes {
		pollUntil(o.T, 10*time.Second, "the release reaches all nodes", func() bool {
			return held[i] == "" || c.Get(o.Context(), "orders/42").Val() != held[i]
		})
	}
}

// left is what a node has left of the signs of life of the dead.
func (o *onlooker) left(c *redis.Client) time.Duration {
	left := time.Duration(0)
	for id := range o.dead {
		left = max(left, c.PTTL(o.Context(), "redlock:live:"+id).Val())
	}
	return left
}

// wantShortened checks that the dead were called: on a quorum little or nothing is
// left of their signs of life.
func (o *onlooker) wantShortened() {
	o.Helper()
	nodes := 0
	for _, c := range o.eyes {
		if o.left(c) <= shortened {
			nodes++
		}
	}
	if nodes <= len(o.eyes)/2 {
		o.Errorf("on %d of %d nodes a call shortened the sign of life; want a quorum", nodes, len(o.eyes))
	}
}

// A machine that is cut off, first in line, on real servers.
func TestACutOffHeadIsPassedOverOnRealServers(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	proxies := newRoute(t, servers)
	names := redlock.WithNodeNames(addresses(servers)...)
	holder, next := openServers(t, servers, names), openServers(t, servers, names)
	cut := lockerWith(t, defaultClients(t, proxies.addresses()...), names)
	warm(t, holder)
	warm(t, next)
	lock := mustAcquire(t, holder, "orders/42")
	acquire := func(l *redlock.Locker, ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() {
			lock, err := l.Acquire(ctx, "orders/42")
			if err == nil {
				err = lock.Release(context.Background())
			}
			done <- err
		}()
		return done
	}
	var eyes []*redis.Client
	for _, s := range servers {
		c := s.Client()
		t.Cleanup(func() { _ = c.Close() })
		eyes = append(eyes, c)
	}
	inLine := func(n int) {
		t.Helper()
		pollUntil(t, 10*time.Second, "they stand in line on a quorum", func() bool {
			nodes := make(map[string]int) // that have each process's entry; not all have all
			for _, c := range eyes {
				for _, id := range processes(c.ZRange(t.Context(), "redlock:queue:orders/42", 0, -1).Val()) {
					nodes[id]++
				}
			}
			there := 0
			for _, k := range nodes {
				if k > len(eyes)/2 {
					there++
				}
			}
			return there == n
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	head := acquire(cut, ctx)
	inLine(1)
	second := acquire(next, t.Context())
	inLine(2)
	for _, p := range proxies {
		p.Hold(tcpproxy.Both)
	}
	released := time.Now()
	mustRelease(t, lock)
	must(t, <-second)
	if d := time.Since(released); d > 8*time.Second {
		t.Errorf("the next was held up for %v; want some seconds, on a machine however busy", d)
	}
	cancel()
	if err := <-head; !errors.Is(err, context.Canceled) {
		t.Errorf("the machine that is cut off: got %v; want context.Canceled", err)
	}
	for _, p := range proxies {
		must(t, p.Heal())
	}
}
