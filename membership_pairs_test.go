package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// What membership is worth: each fault once with it and once without, on real
// servers. Without it the second holder, or the old token, must be seen; else the
// experiment shows nothing.

const nowhere = "127.0.0.1:1" // nothing listens there

// openWithout is a Locker over real servers, some of which it can't reach. It
// admits nothing.
func openWithout(t *testing.T, servers []*redisserver.Server, unreachable []int, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		o := s.Options()
		for _, u := range unreachable {
			if i == u {
				o.Addr = nowhere
			}
		}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return lockerWith(t, clients, append([]redlock.Option{
		redlock.WithNodeNames(addresses(servers)...), redlock.WithNodeTimeout(time.Second),
	}, opts...)...)
}

// forgetting is a way in which servers lose a lock that they granted.
type forgetting struct {
	name   string
	config redisserver.Config
	all    bool // five servers forget, not two
	// prepare is called before the lock is taken; what it returns, after.
	prepare func(t *testing.T, lost, others []*redisserver.Server) (forget func())
}

// each makes a forgetting of what one server does to forget.
func each(forget func(s *redisserver.Server) error) func(*testing.T, []*redisserver.Server, []*redisserver.Server) func() {
	return func(t *testing.T, lost, _ []*redisserver.Server) func() {
		t.Helper()
		return func() {
			for _, s := range lost {
				must(t, forget(s))
			}
		}
	}
}

var forgettings = []forgetting{
	{name: "killed and restarted empty", prepare: each((*redisserver.Server).RestartEmpty)},
	{name: "all killed and restarted empty", all: true, prepare: each((*redisserver.Server).RestartEmpty)},
	{name: "FLUSHALL", prepare: func(t *testing.T, lost, _ []*redisserver.Server) func() {
		t.Helper()
		return each(func(s *redisserver.Server) error { return s.Flush(t.Context()) })(t, lost, nil)
	}},
	{name: "an old append-only file", config: redisserver.Config{AOF: redisserver.FsyncAlways}, prepare: fromSnapshot},
	{name: "a backup", prepare: fromSnapshot},
	{name: "a power cut under everysec", config: redisserver.Config{AOF: redisserver.FsyncEverysec}, prepare: powerCut},
	{name: "a promoted replica", prepare: promoted},
}

// fromSnapshot restarts the servers with what they had before the lock.
func fromSnapshot(t *testing.T, lost, _ []*redisserver.Server) func() {
	t.Helper()
	old := make([]string, len(lost))
	for i, s := range lost {
		dir, err := s.Snapshot(t.Context())
		must(t, err)
		old[i] = dir
	}
	return func() {
		for i, s := range lost {
			must(t, s.RestartWithDataFrom(old[i]))
		}
	}
}

// powerCut loses what was written since the lock was asked for.
func powerCut(t *testing.T, lost, _ []*redisserver.Server) func() {
	t.Helper()
	size := func(s *redisserver.Server) int64 {
		n, err := s.AOFSize()
		must(t, err)
		return n
	}
	before := make([]int64, len(lost))
	for i, s := range lost {
		before[i] = size(s)
	}
	return func() {
		for i, s := range lost {
			pollUntil(t, 10*time.Second, "the lock is in the append-only file", func() bool { return size(s) > before[i] })
			must(t, s.Kill())
			must(t, s.TruncateAOF(size(s)-before[i]))
			must(t, s.Restart())
		}
	}
}

// promoted makes the servers replicas, and then masters again: a failover that
// lost a write, behind the same address. The process, its run_id and its scripts
// stay. One gets the data of a node that was not asked for the lock, the record
// of that node included, the other one those of an empty server. (Two copies of
// one node would be known for one server even without membership.)
func promoted(t *testing.T, lost, others []*redisserver.Server) func() {
	t.Helper()
	masters := []*redisserver.Server{others[0], testserver.NeedOne(t, redisserver.Config{})}
	return func() {
		for i, s := range lost {
			c := s.Client()
			host, port, err := net.SplitHostPort(masters[i].Addr())
			must(t, err)
			must(t, c.ReplicaOf(t.Context(), host, port).Err())
			pollUntil(t, 15*time.Second, "the replica is in step", func() bool {
				info, err := c.Info(t.Context(), "replication").Result()
				return err == nil && strings.Contains(info, "master_link_status:up")
			})
			must(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
		}
	}
}

func TestNobodyElseGetsALockThatAMajorityForgot(t *testing.T) {
	var runs sync.WaitGroup
	defer runs.Wait()
	for _, f := range forgettings {
		for _, protected := range []bool{true, false} {
			// At the same time, no matter the number of cores: they mostly wait.
			runs.Go(func() {
				t.Run(fmt.Sprintf("%s, protected %v", f.name, protected), func(t *testing.T) { f.run(t, protected) })
			})
		}
	}
}

// run holds a lock on the first three of five servers, has two of them forget it
// (or all five) and asks for it again, from a client that knows the servers and
// from one that never saw them.
func (f forgetting) run(t *testing.T, protected bool) {
	t.Helper()
	const ttl = 30 * time.Second // longer than any of this takes
	servers := testserver.Need(t, 5, f.config)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithFixedLease()}
	if !protected {
		opts = append(opts, redlock.WithoutMembership())
	}
	knows := openWithout(t, servers, nil, opts...)
	if protected {
		admitted(t, knows)
	}
	warm(t, knows)
	holder := openWithout(t, servers, []int{3, 4}, opts...)
	lost := servers[1:3]
	if f.all {
		lost = servers
	}
	forget := f.prepare(t, lost, servers[3:])
	first := mustAcquire(t, holder, "orders/42")
	pollUntil(t, 5*time.Second, "the lock is on the first three", func() bool {
		return keyOn(t, servers[0], "orders/42") != "" && keyOn(t, servers[1], "orders/42") != "" && keyOn(t, servers[2], "orders/42") != ""
	})
	forget()

	fresh := openWithout(t, servers, nil, opts...)
	if !protected {
		pollUntil(t, ttl/2, "there is a second holder", func() bool {
			_, err := fresh.TryAcquire(t.Context(), "orders/42")
			if err != nil {
				t.Logf("not yet: %v", err)
				pause(100 * time.Millisecond)
			}
			return err == nil
		})
		must(t, first.Err()) // both at once
		return
	}
	for range 8 {
		for who, l := range map[string]*redlock.Locker{"a client that knew the nodes": knows, "a client that never saw them": fresh} {
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil {
				t.Fatalf("%s got token %v beside the holder of %v (%v)", who, lock.Token(), first.Token(), first.Err())
			}
			if !errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrNotAcquired) {
				t.Errorf("%s: got %v; want ErrNoQuorum or ErrNotAcquired", who, err)
			}
		}
		pause(50 * time.Millisecond)
	}
	must(t, first.Err())
	s, err := fresh.Cluster().Status(t.Context())
	must(t, err)
	for _, n := range s.Nodes[1:3] {
		if n.State != redlock.NodeJoining || n.Left <= 0 || !strings.Contains(n.Cause, "Cluster.Admit") {
			t.Errorf("%s: got %v, %v left, %q; want it joining, its wait, and what would end it", n.Name, n.State, n.Left, n.Cause)
		}
	}
}

// The counters of a majority are ahead of every clock, as after a client whose
// clock was: only memory, or what a joiner reads, keeps the next token above.
func TestATokenDoesNotGoBackwardsThroughALossOfMemory(t *testing.T) {
	t.Parallel()
	const ahead = 3_000_000_000_000_000 // microseconds: the year 2065
	for _, protected := range []bool{true, false} {
		t.Run(fmt.Sprintf("protected %v", protected), func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 5, redisserver.Config{})
			opts := []redlock.Option{redlock.WithTTL(1500 * time.Millisecond), redlock.WithMaxTTL(2 * time.Second)}
			if !protected {
				opts = append(opts, redlock.WithoutMembership())
			}
			l := openWithout(t, servers, nil, opts...)
			if protected {
				admitted(t, l)
			}
			warm(t, l)
			stripe := fmt.Sprint(lua.StripeOf("orders/42"))
			for _, s := range servers[:3] {
				must(t, s.Client().HSet(t.Context(), lua.NodeKey, stripe, ahead).Err())
			}
			holder := openWithout(t, servers, []int{3, 4}, opts...)
			first := mustAcquire(t, holder, "orders/42")
			if first.Token() <= ahead {
				t.Fatalf("got token %v; want one above %v", first.Token(), ahead)
			}
			mustRelease(t, first)
			for _, s := range servers[1:3] {
				must(t, s.RestartEmpty())
			}
			fresh := openWithout(t, servers, nil, opts...)
			if protected {
				must(t, fresh.Cluster().Join(t.Context()))
			}
			must(t, servers[0].Kill()) // the only one that remembers by itself
			second := mustAcquire(t, fresh, "orders/42")
			if grew := second.Token() > first.Token(); grew != protected {
				t.Errorf("got token %v after %v; want it greater: %v", second.Token(), first.Token(), protected)
			}
		})
	}
}

// A cluster comes into being, or back, by itself or by an operator.

func TestFoundingWaitsForEveryNodeAndNamesTheMissingOne(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5, redlocktest.WithoutFounding())
		nodes.Node(3).Stop()
		l := lockerOver(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), 5*redlock.DefaultMaxTTL)
		defer cancel()
		_, err := l.Acquire(ctx, "orders/42")
		wantError(t, "Acquire with a node missing", err, redlock.ErrNoQuorum)
		wantError(t, "Acquire with a node missing", err, context.DeadlineExceeded)
		wantText(t, "Acquire", err.Error(), "every node must answer", "node-3")
		s := status(t, l)
		if s.Votes() != 0 || s.ID != "" || s.Nodes[3].State != redlock.NodeUnreachable {
			t.Errorf("got %+v; want no votes, no cluster, node 3 unreachable", s)
		}
		wantText(t, "Status of node 0", s.Nodes[0].Cause, "node-3", "every node must answer")
		err = l.Cluster().Admit(t.Context())
		wantText(t, "Admit", fmt.Sprint(err), "node-3", "unreachable")
		wantVotes(t, "after Admit with a node missing", l, 0)
		nodes.Node(3).Start()
		mustRelease(t, mustAcquire(t, l, "orders/42"))
		time.Sleep(time.Second)
		wantVotes(t, "with all nodes", l, 5)
	})
}

func TestFoundersThatRacedAgreeOnTheSmallestID(t *testing.T) {
	testkit.Unraced(t)
	for name, ids := range map[string][]string{
		"two and two": {"bbb", "aaa", "bbb", "aaa", ""}, "one each": {"ddd", "bbb", "ccc", "eee", "aaa"},
		"a quorum's stays": {"bbb", "bbb", "bbb", "aaa", "aaa"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 5, redlocktest.WithoutFounding())
				for i, id := range ids {
					if id != "" {
						foundedAs(nodes, i, id)
					}
				}
				lockers := []*redlock.Locker{lockerOver(t, nodes), lockerOver(t, nodes), lockerOver(t, nodes)}
				joined(t, lockers)
				want := "aaa"
				if ids[2] == "bbb" && ids[1] == "bbb" {
					want = "bbb"
				}
				for _, l := range lockers {
					if s := status(t, l); s.ID != want || s.Votes() != 5 {
						t.Errorf("got cluster %q with %d votes; want %q with 5", s.ID, s.Votes(), want)
					}
				}
			})
		})
	}
}

// foundedAs writes a member's record, as a founder did that got no further.
func foundedAs(nodes *redlocktest.Cluster, i int, cluster string) {
	n := nodes.Node(i)
	n.Miniredis().HSet(lua.NodeKey, "format", "1", "epoch", fmt.Sprintf("epoch %d", i), "cluster", cluster,
		"n", fmt.Sprint(nodes.Len()), "names", strings.Join(nodes.Names(), "\n"), "maxttl", "30000", "run", identity(n), "base", "7")
}

// joined waits for all Lockers at the same time.
func joined(t *testing.T, lockers []*redlock.Locker) {
	t.Helper()
	var wg sync.WaitGroup
	for _, l := range lockers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*redlock.DefaultMaxTTL)
			defer cancel()
			if err := l.Cluster().Join(ctx); err != nil {
				t.Errorf("Join: %v", err)
			}
		})
	}
	wg.Wait()
}

// Founding and a majority's loss: by itself, or by an operator only.
func TestStrictRecoveryNeedsAnOperator(t *testing.T) {
	testkit.Unraced(t)
	for _, strict := range []bool{true, false} {
		t.Run(fmt.Sprintf("strict %v", strict), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := []redlock.Option{}
				want := 5
				if strict {
					opts, want = append(opts, redlock.WithStrictRecovery()), 0
				}
				nodes := redlocktest.Start(t, 5, redlocktest.WithoutFounding())
				l := lockerOver(t, nodes, opts...)
				_, _ = l.TryAcquire(t.Context(), "orders/42")
				time.Sleep(3 * redlock.DefaultMaxTTL)
				wantVotes(t, "a new cluster", l, want)
				if strict {
					_, err := l.TryAcquire(t.Context(), "orders/42")
					wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
					wantText(t, "TryAcquire", fmt.Sprint(err), "WithStrictRecovery", "Cluster.Admit")
				}
				must(t, l.Cluster().Admit(t.Context()))
				wantVotes(t, "after Admit", l, 5)
				warm(t, l)

				nodes.Node(0).Restart() // by the table: no operator is needed
				_, _ = l.TryAcquire(t.Context(), "orders/42")
				time.Sleep(redlock.DefaultMaxTTL + 5*time.Second)
				wantVotes(t, "after one node forgot", l, 5)
				for i := range 3 {
					nodes.Node(i).Restart()
				}
				_, _ = l.TryAcquire(t.Context(), "orders/43")
				time.Sleep(3 * redlock.DefaultMaxTTL)
				if strict {
					want = 2
				}
				wantVotes(t, "after a majority forgot", l, want)
				must(t, l.Cluster().Admit(t.Context()))
				wantVotes(t, "after Admit", l, 5)
			})
		})
	}
}
