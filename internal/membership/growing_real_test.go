package membership_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
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

// One, two, three, four, five masters, and back to three, under load, each change with locks
// that are held through it, and clients of both lists at work behind it. No attempt takes much
// longer than without a change.
func TestAClusterGrowsToFiveAndShrinksToThreeOnRealServers(t *testing.T) {
	testkit.Full(t)
	servers := testserver.Need(t, 5, redisserver.Config{})
	pick := func(list []int) (out []*redisserver.Server) {
		for _, i := range list {
			out = append(out, servers[i])
		}
		return out
	}
	open := func(list []int) *redlock.Locker {
		return locktest.OpenWithout(t, pick(list), nil, locktest.ShortLeases()...)
	}
	lists := [][]int{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}, {1, 2, 3, 4}, {1, 3, 4}}
	var game contest
	l := open(lists[0])
	locktest.Admit(t, l)
	locktest.Warm(t, l)
	go game.pings(t.Context(), servers)
	load := func(l *redlock.Locker) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() { game.run(ctx, t, l, i) })
		}
		return func() { cancel(); wg.Wait() }
	}
	for g, list := range lists[:len(lists)-1] {
		next := lists[g+1]
		locks := heldBy(t, l, testkit.Of(200, 1000))
		stop := load(l)
		time.Sleep(time.Second)
		usual, _ := game.slowestSince()
		began, before := time.Now(), game.count.Load()
		var err error
		if longer := next; len(next) > len(list) {
			operator := open(longer)
			err = operator.Cluster().Add(t.Context(), servers[longer[len(longer)-1]].Addr(), redlock.ChangeOptions{})
		} else {
			gone := slices.IndexFunc(list, func(i int) bool { return !slices.Contains(next, i) })
			err = open(list).Cluster().Shrink(t.Context(), servers[list[gone]].Addr(), redlock.ChangeOptions{})
		}
		testkit.Must(t, err)
		took, during := time.Since(began), game.count.Load()-before
		wantHeld(t, fmt.Sprintf("%v to %v", list, next), locks)
		fresh := open(next)
		locktest.Warm(t, fresh)
		stopFresh := load(fresh)
		if _, err := fresh.TryAcquire(t.Context(), "held/7"); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("a held lock, by a client of the new list: got %v; want it taken", err)
		}
		time.Sleep(time.Second)
		wantHeld(t, fmt.Sprintf("%v to %v, with clients of both", list, next), locks)
		stop()
		stopFresh()
		slowest, starved := game.slowestSince()
		t.Logf("%v to %v: %v, %d locks meanwhile, the slowest attempt %v, without a change %v, a PING %v", list, next, took.Round(time.Millisecond), during,
			slowest.Round(time.Millisecond), usual.Round(time.Millisecond), starved.Round(time.Millisecond))
		if slowest > usual+2*redlock.DefaultNodeTimeout+3*starved && !testkit.UnderRace { // a few trips one after another
			t.Errorf("%v to %v: an attempt took %v, without a change %v, a PING %v", list, next, slowest, usual, starved)
		}
		if during < 50 {
			t.Errorf("%v to %v: %d locks meanwhile; want it to go on", list, next, during)
		}
		for _, lock := range locks {
			testkit.Must(t, lock.Release(t.Context()))
		}
		testkit.Must(t, l.Close())
		l = fresh
	}
	if n := game.faults.Load(); n > 0 {
		t.Errorf("got %d faults", n)
	}
}
