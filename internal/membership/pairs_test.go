package membership_test

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

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// What membership is worth: each fault once with it and once without, on real
// servers. Without it the second holder, or the old token, must be seen; else the
// experiment shows nothing.

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
				testkit.Must(t, forget(s))
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
		testkit.Must(t, err)
		old[i] = dir
	}
	return func() {
		for i, s := range lost {
			testkit.Must(t, s.RestartWithDataFrom(old[i]))
		}
	}
}

// powerCut loses what was written since the lock was asked for.
func powerCut(t *testing.T, lost, _ []*redisserver.Server) func() {
	t.Helper()
	size := func(s *redisserver.Server) int64 {
		n, err := s.AOFSize()
		testkit.Must(t, err)
		return n
	}
	before := make([]int64, len(lost))
	for i, s := range lost {
		before[i] = size(s)
	}
	return func() {
		for i, s := range lost {
			locktest.PollUntil(t, 10*time.Second, "the lock is in the append-only file", func() bool { return size(s) > before[i] })
			testkit.Must(t, s.Kill())
			testkit.Must(t, s.TruncateAOF(size(s)-before[i]))
			testkit.Must(t, s.Restart())
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
			testkit.Must(t, err)
			testkit.Must(t, c.ReplicaOf(t.Context(), host, port).Err())
			locktest.PollUntil(t, 15*time.Second, "the replica is in step", func() bool {
				info, err := c.Info(t.Context(), "replication").Result()
				return err == nil && strings.Contains(info, "master_link_status:up")
			})
			testkit.Must(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
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

// run holds a lock on the first three of five servers, has two of them forget it (or all five)
// and asks for it again, from a client that knows the servers and from one that never saw them.
func (f forgetting) run(t *testing.T, protected bool) {
	t.Helper()
	const ttl = 30 * time.Second // longer than any of this takes
	servers := testserver.Need(t, 5, f.config)
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithFixedLease()}
	if !protected {
		opts = append(opts, redlock.WithoutMembership())
	}
	knows := locktest.OpenWithout(t, servers, nil, opts...)
	if protected {
		locktest.Admit(t, knows)
	}
	locktest.Warm(t, knows)
	holder := locktest.OpenWithout(t, servers, []int{3, 4}, opts...)
	lost := servers[1:3]
	if f.all {
		lost = servers
	}
	forget := f.prepare(t, lost, servers[3:])
	first := locktest.MustAcquire(t, holder, "orders/42")
	locktest.PollUntil(t, 5*time.Second, "the lock is on the first three", func() bool {
		return locktest.KeyOn(t, servers[0], "orders/42") != "" && locktest.KeyOn(t, servers[1], "orders/42") != "" && locktest.KeyOn(t, servers[2], "orders/42") != ""
	})
	forget()

	fresh := locktest.OpenWithout(t, servers, nil, opts...)
	if !protected {
		locktest.PollUntil(t, ttl/2, "there is a second holder", func() bool {
			_, err := fresh.TryAcquire(t.Context(), "orders/42")
			if err != nil {
				t.Logf("not yet: %v", err)
				locktest.Pause(100 * time.Millisecond)
			}
			return err == nil
		})
		testkit.Must(t, first.Err()) // both at once
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
		locktest.Pause(50 * time.Millisecond)
	}
	testkit.Must(t, first.Err())
	s, err := fresh.Cluster().Status(t.Context())
	testkit.Must(t, err)
	for _, n := range s.Nodes[1:3] {
		if n.State != redlock.NodeJoining || n.Left <= 0 || strings.Contains(n.Cause, "Cluster.Admit") != f.all {
			t.Errorf("%s: got %v, %v left, %q; want it joining, its wait, and Admit only where no record is left", n.Name, n.State, n.Left, n.Cause)
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
			l := locktest.OpenWithout(t, servers, nil, opts...)
			if protected {
				locktest.Admit(t, l)
			}
			locktest.Warm(t, l)
			stripe := fmt.Sprint(lua.StripeOf("orders/42"))
			for _, s := range servers[:3] {
				testkit.Must(t, s.Client().HSet(t.Context(), lua.NodeKey, stripe, ahead).Err())
			}
			holder := locktest.OpenWithout(t, servers, []int{3, 4}, opts...)
			first := locktest.MustAcquire(t, holder, "orders/42")
			if first.Token() <= ahead {
				t.Fatalf("got token %v; want one above %v", first.Token(), ahead)
			}
			locktest.MustRelease(t, first)
			for _, s := range servers[1:3] {
				testkit.Must(t, s.RestartEmpty())
			}
			fresh := locktest.OpenWithout(t, servers, nil, opts...)
			if protected {
				testkit.Must(t, fresh.Cluster().Join(t.Context()))
			}
			testkit.Must(t, servers[0].Kill()) // the only one that remembers by itself
			second := locktest.MustAcquire(t, fresh, "orders/42")
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
		l := locktest.LockerOver(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), 5*redlock.DefaultMaxTTL)
		defer cancel()
		_, err := l.Acquire(ctx, "orders/42")
		locktest.WantError(t, "Acquire with a node missing", err, redlock.ErrNoQuorum)
		locktest.WantError(t, "Acquire with a node missing", err, context.DeadlineExceeded)
		locktest.WantText(t, "Acquire", err.Error(), "every node must answer", "node-3")
		s := locktest.Status(t, l)
		if s.Votes() != 0 || s.ID != "" || s.Nodes[3].State != redlock.NodeUnreachable {
			t.Errorf("got %+v; want no votes, no cluster, node 3 unreachable", s)
		}
		locktest.WantText(t, "Status of node 0", s.Nodes[0].Cause, "node-3", "every node must answer")
		err = l.Cluster().Admit(t.Context())
		locktest.WantText(t, "Admit", fmt.Sprint(err), "node-3", "unreachable")
		locktest.WantVotes(t, "after Admit with a node missing", l, 0)
		nodes.Node(3).Start()
		since := time.Now()
		locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
		if waited := time.Since(since); waited < redlock.DefaultMaxTTL {
			t.Errorf("got a lock %v after the last node was there; want it waited for, %v", waited, redlock.DefaultMaxTTL)
		}
		time.Sleep(time.Second)
		locktest.WantVotes(t, "with all nodes", l, 5)
	})
}

// A founding ends half way, as a node forgets again. What it left on the first node is of a
// cluster that is not founded.
func TestAFoundingThatWasGivenUpIsFollowedByAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		nodes.Node(1).Intercept(func(args []string) redlocktest.Verdict {
			if changeScript(args) == "install" {
				return redlocktest.ReplyError("ERR not now")
			}
			return redlocktest.Pass()
		})
		l := locktest.LockerOver(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), redlock.DefaultMaxTTL+5*time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "orders/42")
		locktest.WantError(t, "the first", err, redlock.ErrNoQuorum)
		left := nodes.Node(0).Miniredis().HGet(lua.NodeKey, "cluster")
		nodes.Node(1).Intercept(nil)
		nodes.Node(1).Restart()
		locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
		time.Sleep(time.Second)
		locktest.WantVotes(t, "founded", l, 3)
		if s := locktest.Status(t, l); left == "" || s.ID == left {
			t.Errorf("got cluster %q after %q; want another", s.ID, left)
		}
	})
}

// An operator's word is over with the call: what it did not found is founded after a wait.
func TestAnAdmitThatFailedFoundsNothingLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
			if changeScript(args) == "install" {
				return redlocktest.ReplyError("ERR not now")
			}
			return redlocktest.Pass()
		})
		l, began := locktest.LockerOver(t, nodes), time.Now()
		if err := l.Cluster().Admit(t.Context()); err == nil {
			t.Error("Admit: got nil; want that it failed")
		}
		nodes.Node(0).Intercept(nil)
		locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
		if took := time.Since(began); took < redlock.DefaultMaxTTL-time.Second {
			t.Errorf("founded after %v; want MaxTTL, %v", took, redlock.DefaultMaxTTL)
		}
	})
}

func TestClustersWithoutAQuorumBecomeOne(t *testing.T) {
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
						locktest.FoundedAs(nodes, i, id)
					}
				}
				lockers := []*redlock.Locker{locktest.LockerOver(t, nodes), locktest.LockerOver(t, nodes), locktest.LockerOver(t, nodes)}
				joined(t, lockers)
				stays, id := ids[2] == "bbb" && ids[1] == "bbb", locktest.Status(t, lockers[0]).ID
				for _, l := range lockers {
					if s := locktest.Status(t, l); s.ID != id || (s.ID == "bbb") != stays || len(s.ID) == 3 && !stays || s.Votes() != 5 {
						t.Errorf("got cluster %q with %d votes; want one with 5, and another id unless a quorum had it", s.ID, s.Votes())
					}
				}
			})
		})
	}
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
				l := locktest.LockerOver(t, nodes, opts...)
				_, _ = l.TryAcquire(t.Context(), "orders/42")
				time.Sleep(3 * redlock.DefaultMaxTTL)
				locktest.WantVotes(t, "a new cluster", l, want)
				if strict {
					_, err := l.TryAcquire(t.Context(), "orders/42")
					locktest.WantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
					locktest.WantText(t, "TryAcquire", fmt.Sprint(err), "WithStrictRecovery", "Cluster.Admit")
				}
				testkit.Must(t, l.Cluster().Admit(t.Context()))
				locktest.WantVotes(t, "after Admit", l, 5)
				locktest.Warm(t, l)

				nodes.Node(0).Restart() // by the table: no operator is needed
				_, _ = l.TryAcquire(t.Context(), "orders/42")
				time.Sleep(redlock.DefaultMaxTTL + 5*time.Second)
				locktest.WantVotes(t, "after one node forgot", l, 5)
				for i := range 3 {
					nodes.Node(i).Restart()
				}
				_, _ = l.TryAcquire(t.Context(), "orders/43")
				time.Sleep(3 * redlock.DefaultMaxTTL)
				locktest.WantVotes(t, "after a majority forgot", l, want)
				testkit.Must(t, l.Cluster().Admit(t.Context()))
				locktest.WantVotes(t, "after Admit", l, 5)
			})
		})
	}
}
