//go:build unix

package main_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// contest is names that goroutines lock in turn: one holder at a time, with tokens that rise.
type contest struct {
	mu      sync.Mutex // guards tokens, slowest and starved
	tokens  [8]redlock.Token
	slowest time.Duration // attempt
	starved time.Duration // what a PING took at most: the machine's doing
	holders [8]atomic.Int32
	count   atomic.Int64
	faults  atomic.Int64
}

// run takes and releases names until ctx ends.
func (c *contest) run(ctx context.Context, t *testing.T, l *redlock.Locker, seed int) {
	t.Helper()
	for i := seed; ctx.Err() == nil; i++ {
		k, began := i%len(c.tokens), time.Now()
		lock, err := l.Acquire(ctx, fmt.Sprintf("contest/%d", k))
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("name %d: %v", k, err)
			}
			continue
		}
		c.mu.Lock()
		c.slowest = max(c.slowest, time.Since(began))
		if c.holders[k].Add(1) != 1 || lock.Token() <= c.tokens[k] {
			c.faults.Add(1)
			t.Errorf("name %d: token %d after %d, %d holders", k, lock.Token(), c.tokens[k], c.holders[k].Load())
		}
		c.tokens[k] = lock.Token()
		c.mu.Unlock()
		c.count.Add(1)
		c.holders[k].Add(-1)
		_ = lock.Release(context.WithoutCancel(ctx)) // its expiry does as well
	}
}

// pings notes how long the servers take for nothing.
func (c *contest) pings(ctx context.Context, servers []*redisserver.Server) {
	clients := make([]*redis.Client, len(servers))
	for i, s := range servers {
		clients[i] = s.Client()
	}
	for ; ctx.Err() == nil; locktest.Pause(time.Millisecond) {
		for _, client := range clients {
			began := time.Now()
			_ = client.Ping(ctx).Err()
			c.mu.Lock()
			c.starved = max(c.starved, time.Since(began))
			c.mu.Unlock()
		}
	}
}

// slowestSince is the slowest attempt, and PING, since it was asked last.
func (c *contest) slowestSince() (attempt, ping time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	attempt, ping, c.slowest, c.starved = c.slowest, c.starved, 0, 0
	return attempt, ping
}

// growth is a cluster whose list changes by the command, under load.
type growth struct {
	contest
	servers []*redisserver.Server // in the list
}

// found makes a cluster of one server.
func found(t *testing.T, s *redisserver.Server) *growth {
	t.Helper()
	g := &growth{servers: []*redisserver.Server{s}}
	l := g.open(t)
	locktest.Admit(t, l)
	must(t, l.Close())
	return g
}

func (g *growth) open(t *testing.T) *redlock.Locker {
	t.Helper()
	return locktest.OpenWithout(t, g.servers, nil, locktest.ShortLeases()...)
}

// load has 32 goroutines lock by a Locker.
func (g *growth) load(t *testing.T, l *redlock.Locker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() { g.run(ctx, t, l, i) })
	}
	return func() { cancel(); wg.Wait() }
}

// goesOn waits until some thousand more locks were taken.
func (g *growth) goesOn(t *testing.T, what string) {
	t.Helper()
	enough := g.count.Load() + 5000
	locktest.PollUntil(t, time.Minute, what+": it goes on", func() bool { return g.count.Load() >= enough })
}

// change adds a server, or takes it out again. With k, an operator dies at its k-th command
// that changes a node, and the next one finishes; change tells whether one died.
func (g *growth) change(t *testing.T, verb string, server *redisserver.Server, k int) (died bool) {
	t.Helper()
	told := g.servers // the list with the server
	after := slices.DeleteFunc(slices.Clone(told), func(s *redisserver.Server) bool { return s == server })
	if verb == "add" {
		told, after = append(after, server), append(after, server)
	}
	var names, urls []string
	for _, s := range told {
		names, urls = append(names, s.Addr()), append(urls, s.URL())
	}
	args := []string{"nodes", "change", "--" + verb, server.Addr(), "--node-names", strings.Join(names, ","), "--node-timeout", "500ms", "--yes"}
	if k > 0 {
		killed := atCommand{k: k, arrives: k%2 == 0}
		p := start(t, prepare(t, killed.before(t, told), args...))
		killed.kill.Store(p)
		<-p.ended
		died = killed.count.Load() >= int64(k)
	}
	run(t, strings.Join(urls, ","), args...).want(t, 0, "generation")
	g.servers = after
	return died
}

// underLoad is change under the load of a Locker with the list before and, afterwards, of one
// with the list after it too; locks are held through it. No attempt takes much longer than
// without a change.
func (g *growth) underLoad(t *testing.T, verb string, server *redisserver.Server, k int) (died bool) {
	t.Helper()
	what := fmt.Sprintf("%s, from %d masters", verb, len(g.servers))
	if k > 0 {
		what += fmt.Sprintf(", an operator killed at command %d", k)
	}
	l := g.open(t)
	locktest.Warm(t, l)
	locks := make([]*redlock.Lock, testkit.Of(200, 1000))
	for i := range locks {
		locks[i] = locktest.MustAcquire(t, l, fmt.Sprintf("held/%d", i))
	}
	wantHeld := func(when string) {
		for _, lock := range locks {
			if err := lock.Err(); err != nil {
				t.Fatalf("%s%s: %s: %v; want it held", what, when, lock.Resource(), err)
			}
		}
	}
	stop := g.load(t, l)
	g.goesOn(t, what)
	usual, _ := g.slowestSince()
	began, before := time.Now(), g.count.Load()
	died = g.change(t, verb, server, k)
	took, during := time.Since(began), g.count.Load()-before
	wantHeld("")
	fresh := g.open(t)
	locktest.Warm(t, fresh)
	stopFresh := g.load(t, fresh)
	if _, err := fresh.TryAcquire(t.Context(), "held/7"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("%s: a held lock, by a client of the new list: got %v; want it taken", what, err)
	}
	g.goesOn(t, what)
	wantHeld(", with clients of both lists")
	stop()
	stopFresh()
	slowest, starved := g.slowestSince()
	t.Logf("%s: %v, %d locks meanwhile, the slowest attempt %v, without a change %v, a PING %v", what, took.Round(time.Millisecond), during,
		slowest.Round(time.Millisecond), usual.Round(time.Millisecond), starved.Round(time.Millisecond))
	if slowest > usual+2*redlock.DefaultNodeTimeout+3*starved && !testkit.UnderRace { // a few trips one after another
		t.Errorf("%s: an attempt took %v, without a change %v, a PING %v", what, slowest, usual, starved)
	}
	if during < 50 {
		t.Errorf("%s: %d locks meanwhile; want it to go on", what, during)
	}
	if n := g.faults.Swap(0); n > 0 {
		t.Errorf("%s: %d faults", what, n)
	}
	for _, lock := range locks {
		must(t, lock.Release(t.Context()))
	}
	must(t, errors.Join(l.Close(), fresh.Close()))
	return died
}

// One, two, three, four, five masters, and back to three, by the command and under load.
func TestAClusterGrowsToFiveAndShrinksToThreeOnRealServers(t *testing.T) {
	servers := testserver.Need(t, 5, redisserver.Config{})
	g := found(t, servers[0])
	go g.pings(t.Context(), servers)
	for _, s := range servers[1:] {
		g.underLoad(t, "add", s, 0)
	}
	g.underLoad(t, "remove", servers[0], 0)
	g.underLoad(t, "remove", servers[2], 0)
}

// The same with kill -9 of the operator: to one, two, three and four masters a server is added
// and taken out again, and the operator dies at its k-th command that changes a node. The
// command arrives, or does not, and the next operator finishes.
func TestTheNextOperatorFinishesAfterKill9AtEachCommand(t *testing.T) {
	servers := testserver.Need(t, 4, redisserver.Config{})
	g := found(t, servers[0])
	go g.pings(t.Context(), servers)
	for n := 1; ; n++ {
		// Together the four sizes have each k in the deep tier.
		for k, added, removed := testkit.Of(3*n, n), true, true; added || removed; k += 4 {
			spare := testserver.NeedOne(t, redisserver.Config{}) // one that was in a list may not be emptied and used again
			added, removed = g.underLoad(t, "add", spare, k), g.underLoad(t, "remove", spare, k)
			if !testkit.Deep() {
				if !added || !removed {
					t.Errorf("from %d masters: no operator died at command %d", n, k)
				}
				break
			}
		}
		if n == len(servers) {
			break
		}
		g.change(t, "add", servers[n], 0)
	}
}
