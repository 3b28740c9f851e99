package redlock_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// secondChannel has servers send and take snapshots by a connection of its own, which
// they then call a second replica, while the first one has the commands already.
func secondChannel(t *testing.T, servers []*redisserver.Server) {
	t.Helper()
	settings := map[string]string{"dual-channel-replication-enabled": "yes"} // Valkey
	if len(servers[0].Client().ConfigGet(t.Context(), "repl-rdb-channel").Val()) > 0 {
		settings = map[string]string{"repl-rdb-channel": "yes", "repl-diskless-load": "on-empty-db"} // Redis 8
	}
	settings["repl-diskless-sync-delay"] = "0"
	for _, s := range servers {
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			if err := s.Client().ConfigSet(t.Context(), name, settings[name]).Err(); err != nil {
				t.Skipf("%s has no second channel: %v", s.Program(), err)
			}
		}
	}
}

// A node is known by the same signs, no matter what channels its replicas have: the first
// replica makes it abstain for MaxTTL, locks stay held, and the second one changes
// nothing.
func TestASecondReplicationChannelChangesNothing(t *testing.T) {
	t.Parallel()
	const maxTTL = 4 * time.Second
	servers, replicas := testserver.Need(t, 3, redisserver.Config{}), testserver.Need(t, 2, redisserver.Config{Args: []string{"--loglevel", "verbose"}})
	secondChannel(t, slices.Concat(servers, replicas))
	l := openWithout(t, servers, nil, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))
	admitted(t, l)
	warm(t, l)
	wantVotes(t, "without replicas", l, 3)
	held := mustAcquire(t, l, "orders/42")
	c := servers[0].Client()
	epoch := func() string { return c.HGet(t.Context(), lua.NodeKey, "epoch").Val() }
	run, history, before := infoOf(t, c, "run_id"), infoOf(t, c, "master_replid"), epoch()

	began := time.Now()
	follow(t, replicas[0], servers[0])
	if log, err := replicas[0].Log(); err != nil || !strings.Contains(log, "RDB channel") {
		t.Fatalf("the replica used no second channel (%v): %s", err, log)
	}
	if infoOf(t, c, "run_id") != run || infoOf(t, c, "master_replid") == history {
		t.Error("want the process of before, with another replication id")
	}
	pollUntil(t, 10*maxTTL, "the node votes again, under another epoch", func() bool {
		return status(t, l).Nodes[0].State == redlock.NodeMember && epoch() != before
	})
	if took := time.Since(began); took < maxTTL {
		t.Errorf("it voted again after %v; want MaxTTL, %v, at least", took, maxTTL)
	}

	history = infoOf(t, c, "master_replid")
	follow(t, replicas[1], servers[0])
	if infoOf(t, c, "master_replid") != history {
		t.Error("a second replica made another replication id")
	}
	wantVotes(t, "with two replicas", l, 3)
	must(t, held.Err())
	mustRelease(t, held)
}

// Threads of the server read and write for it, and the order of things is the same:
// processes take turns in line, one after the other, with rising tokens.
func TestServersWithIOThreadsKeepTheOrder(t *testing.T) {
	t.Parallel()
	const processes, clients, turns = 3, 8, 5
	servers := testserver.Need(t, 3, redisserver.Config{Args: []string{"--io-threads", "4"}})
	var lockers []*redlock.Locker
	for range processes {
		lockers = append(lockers, openWithout(t, servers, nil, redlock.WithTTL(4*patient), redlock.WithNodeTimeout(patient)))
	}
	admitted(t, lockers[0])
	var inside atomic.Int32
	var last redlock.Token // guarded by the lock
	var done sync.WaitGroup
	for i := range processes * clients {
		done.Go(func() {
			for range turns {
				lock, err := lockers[i%processes].Acquire(t.Context(), "orders/42")
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 || lock.Token() <= last {
					t.Errorf("%d hold it, with token %d after %d", n, lock.Token(), last)
				}
				last = lock.Token()
				inside.Add(-1)
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if got := servers[0].Client().ConfigGet(t.Context(), "io-threads").Val()["io-threads"]; got != "4" {
		t.Errorf("it had %q threads", got)
	}
}

// A Valkey may call itself a Redis for the sake of old clients; the doctor sees it.
func TestCheckKnowsAValkeyThatCallsItselfRedis(t *testing.T) {
	t.Parallel()
	clients := goodClients(t, 3)
	for _, c := range clients {
		if err := c.ConfigSet(t.Context(), "extended-redis-compatibility", "yes").Err(); err != nil {
			t.Skipf("this server has no other name: %v", err)
		}
	}
	r := check(t, clients)
	wantFound(t, r, redlock.SeverityUnknown)
	for i, name := range r.Servers {
		if !strings.HasPrefix(name, "Valkey ") {
			t.Errorf("node %d: got the server %q", i, name)
		}
	}
}
