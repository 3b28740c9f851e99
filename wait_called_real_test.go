//go:build unix

package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

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
