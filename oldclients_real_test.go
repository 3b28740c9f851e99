//go:build unix

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// oldClient takes a name as clients did before names could be shared: with their scripts,
// on a quorum of the servers, and with no place in line.
type oldClient struct {
	servers          []*redis.Client
	epochs           []string
	acquire, release *redis.Script
	serial           atomic.Int64
}

// oldScript is a script of theirs.
func oldScript(t *testing.T, name string) *redis.Script {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("internal", "lua", "testdata", "before", name+".lua"))
	must(t, err)
	return redis.NewScript(string(text))
}

func newOldClient(t *testing.T, servers []*chaos.Server) *oldClient {
	t.Helper()
	c := &oldClient{acquire: oldScript(t, "acquire"), release: oldScript(t, "release")}
	for _, s := range servers {
		client := s.Client()
		t.Cleanup(func() { _ = client.Close() })
		epoch, err := client.HGet(t.Context(), lua.NodeKey, "epoch").Result()
		must(t, err)
		c.servers, c.epochs = append(c.servers, client), append(c.epochs, epoch)
	}
	return c
}

// try makes one attempt. Without a quorum it gives back what it got; replies are what the
// servers said.
func (c *oldClient) try(ctx context.Context, key string, lease time.Duration) (owner string, held bool, replies []int64, err error) {
	// The form of an owner value, so that it is not taken for another program's.
	owner = fmt.Sprintf("00000000-0000-4000-8000-%012x", c.serial.Add(1))
	granted := 0
	for i, s := range c.servers {
		reply, err := c.acquire.Run(ctx, s, []string{key, lua.NodeKey, lua.TombstoneKey + owner},
			owner, lease.Milliseconds(), 0, lua.StripeOf(key), c.epochs[i]).Int64()
		if err != nil {
			return owner, false, replies, err
		}
		if replies = append(replies, reply); reply > 0 {
			granted++
		}
	}
	if granted > len(c.servers)/2 {
		return owner, true, replies, nil
	}
	return owner, false, replies, c.giveBack(ctx, key, owner)
}

func (c *oldClient) giveBack(ctx context.Context, key, owner string) error {
	var errs []error
	for _, s := range c.servers {
		errs = append(errs, c.release.Run(ctx, s, []string{key, lua.TombstoneKey + owner}, owner, 1000).Err())
	}
	return errors.Join(errs...)
}

// Clients of before names could be shared are kept out by those who share, change nothing
// of what they have, and keep them out in turn.
func TestOldClientsAndThoseWhoShareExcludeEachOther(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, chaos.ServerConfig{})
	l := openServers(t, servers)
	admitted(t, l)
	warm(t, l)
	old := newOldClient(t, servers)
	eyes := look(t, servers).eyes

	first, second := shares(t, l), shares(t, l)
	pollUntil(t, 10*time.Second, "both on all servers", func() bool {
		return len(sharersOn(t, eyes[0]))+len(sharersOn(t, eyes[1]))+len(sharersOn(t, eyes[2])) == 6
	})
	before := first.Token()
	_, held, replies, err := old.try(t.Context(), "orders/42", 10*time.Second)
	must(t, err)
	for i, reply := range replies {
		if held || reply > -9 {
			t.Errorf("server %d, shared: an old client got %d; want it taken", i, reply)
		}
		if n := len(sharersOn(t, eyes[i])); n != 2 {
			t.Errorf("server %d: got %d who share it after an old client's attempt; want the two", i, n)
		}
	}
	mustRelease(t, first)
	if _, held, _, err := old.try(t.Context(), "orders/42", 10*time.Second); held || err != nil {
		t.Errorf("one shares it still: an old client got %v, %v; want it taken", held, err)
	}
	mustRelease(t, second)

	var owner string
	pollUntil(t, 10*time.Second, "an old client has it", func() bool {
		owner, held, replies, err = old.try(t.Context(), "orders/42", 10*time.Second)
		must(t, err)
		return held
	})
	// Its token is what a quorum shows, or else the largest, to which it has all raised.
	if token := slices.Max(replies); redlock.Token(token) <= before {
		t.Errorf("an old client got %d; want a token above that of those who shared, %d", replies, before)
	}
	wantTaken(t, "an old client holds it", l, redlock.WithShared())
	wantTaken(t, "an old client holds it", l)
	must(t, old.giveBack(t.Context(), "orders/42", owner))
	mustRelease(t, shares(t, l))
}

// Old clients, and new ones that share or hold alone, in a crowd: one who holds alone is
// alone, and all get their turns.
func TestOldClientsInACrowdOfNewOnesAreExcluded(t *testing.T) {
	t.Parallel()
	const (
		lease = 10 * time.Second
		least = 5 // holds of each kind
	)
	servers := testserver.Need(t, 3, chaos.ServerConfig{})
	lockers := []*redlock.Locker{openServers(t, servers), openServers(t, servers)}
	admitted(t, lockers[0])
	for _, l := range lockers {
		warm(t, l)
	}
	old := newOldClient(t, servers)
	var readers, writers atomic.Int32
	var counts [3]atomic.Int64 // shared, alone, old
	hold := func(kind int) {
		if kind == 0 {
			readers.Add(1)
			if n := writers.Load(); n != 0 {
				t.Errorf("%d hold it alone beside one who shares it", n)
			}
		} else if n, m := writers.Add(1), readers.Load(); n != 1 || m != 0 {
			t.Errorf("%d hold it alone, %d share it", n, m)
		}
		pause(time.Duration(rand.IntN(3)) * time.Millisecond)
		if kind == 0 {
			readers.Add(-1)
		} else {
			writers.Add(-1)
		}
		counts[kind].Add(1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				pause(time.Duration(rand.IntN(5)) * time.Millisecond)
				var opts []redlock.AcquireOption
				if g%3 == 0 {
					opts = append(opts, redlock.WithShared())
				}
				if g%3 == 2 {
					owner, held, _, err := old.try(t.Context(), "orders/42", lease)
					if held {
						hold(2)
						err = old.giveBack(t.Context(), "orders/42", owner)
					}
					if err != nil {
						t.Errorf("an old client: %v", err)
						return
					}
					continue
				}
				lock, err := lockers[g/3].TryAcquire(ctx, "orders/42", opts...)
				if err != nil {
					continue
				}
				hold(g % 3)
				_ = lock.Release(t.Context())
			}
		})
	}
	pollUntil(t, time.Minute, "each kind has had it", func() bool {
		return min(counts[0].Load(), counts[1].Load(), counts[2].Load()) >= least
	})
	cancel()
	wg.Wait()
	t.Logf("%d shared, %d alone, %d by old clients", counts[0].Load(), counts[1].Load(), counts[2].Load())
}
