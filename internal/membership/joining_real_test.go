package membership_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Why a node is not taken in is for the one who asks, in its server's words.

// full makes a server refuse to write for want of memory; roomAgain makes it write again.
func full(t *testing.T, s *redisserver.Server) {
	t.Helper()
	testkit.Must(t, s.Client().ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	testkit.Must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
}

func roomAgain(t *testing.T, s *redisserver.Server) {
	t.Helper()
	testkit.Must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
}

// wantReason fails the test unless an acquisition and Join, which both run out of
// time, and Admit say all of it, and Status says it of node i.
func wantReason(t *testing.T, l *redlock.Locker, i int, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := l.Acquire(ctx, "orders/42")
	locktest.WantError(t, "Acquire", err, redlock.ErrNoQuorum)
	locktest.WantText(t, "Acquire", locktest.ErrorText(err), words...)
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	locktest.WantText(t, "Join", locktest.ErrorText(l.Cluster().Join(ctx)), words...)
	locktest.WantText(t, "Admit", locktest.ErrorText(l.Cluster().Admit(t.Context())), words...)
	s, err := l.Cluster().Status(t.Context())
	testkit.Must(t, err)
	locktest.WantText(t, "Status", s.Nodes[i].Cause, words...)
	if strings.Contains(s.Nodes[i].Cause, "its wait goes on") {
		t.Errorf("got %q; want no word of a wait that has not begun", s.Nodes[i].Cause)
	}
}

func TestANewClusterThatAFullNodeHoldsUpSaysSo(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	full(t, servers[2])
	l := locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	wantReason(t, l, 2, "OOM", "notice")
	wantReason(t, l, 0, "OOM", servers[2].Addr())                                                   // what holds up the others as well
	locktest.PollUntil(t, 10*time.Second, "the server's own error is in the refusal", func() bool { // node 2's vote may come too late for it
		_, err := l.TryAcquire(t.Context(), "orders/42")
		var reply redis.Error
		return errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "OOM")
	})
	roomAgain(t, servers[2])
	locktest.Admit(t, l)
	for i, n := range locktest.Status(t, l).Nodes {
		if n.State != redlock.NodeMember || n.Cause != "" {
			t.Errorf("node %d: got %s, %q; want a member, and no cause that is over", i, n.State, n.Cause)
		}
	}
	locktest.Warm(t, l)
}

func TestANewClusterThatAReplicaHoldsUpSaysSo(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	replicate(t, servers)
	l := locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	wantReason(t, l, 2, "it is a replica")
	wantReason(t, l, 0, "it is a replica", servers[2].Addr())
	c := servers[2].Client()
	defer c.Close()
	testkit.Must(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
	locktest.Admit(t, l)
	if n := locktest.Status(t, l).Nodes[2]; n.State != redlock.NodeMember || n.Cause != "" {
		t.Errorf("got %s, %q; want a member, and no cause that is over", n.State, n.Cause)
	}
	locktest.Warm(t, l)
}

func TestANodeThatCanNotBeTakenInSaysWhy(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	l := locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	locktest.Admit(t, l)
	locktest.Warm(t, l)
	testkit.Must(t, servers[1].RestartEmpty())
	locktest.PollUntil(t, 10*time.Second, "the node has its notice", func() bool {
		_, _ = l.TryAcquire(t.Context(), "orders/42", redlock.WithFixedLease())
		return strings.Contains(locktest.Status(t, l).Nodes[1].Cause, "it votes in")
	})
	full(t, servers[1]) // between its notice and its install
	locktest.PollUntil(t, 20*time.Second, "Status says why it does not join", func() bool {
		n := locktest.Status(t, l).Nodes[1]
		return strings.Contains(n.Cause, "not made a member") && strings.Contains(n.Cause, "OOM")
	})
	roomAgain(t, servers[1])
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	testkit.Must(t, l.Cluster().Join(ctx))
}

func TestAChangeThatFullNodesHoldUpSaysSo(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	l := locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	locktest.Admit(t, l)
	for _, s := range servers[:2] {
		full(t, s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // of a machine that is busy
	defer cancel()
	err := l.Cluster().Change(ctx, redlock.Wanted{MaxTTL: 2 * locktest.ShortMax}, redlock.ChangeOptions{})
	locktest.WantError(t, "Change", err, context.DeadlineExceeded)
	locktest.WantText(t, "Change", locktest.ErrorText(err), "settling (1 of 2)", servers[0].Addr(), servers[1].Addr(), "OOM", "run it again")
}

func TestARightThatIsMissingToTakeANodeInEndsTheWaitForIt(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{Users: []string{"app on >secret ~* &* +@all -hset"}})
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = "redis://app:secret@" + s.Addr()
	}
	l, err := redlock.Open(t.Context(), urls, append(locktest.ShortLeases(), redlock.WithNodeTimeout(350*time.Millisecond))...)
	testkit.Must(t, err)
	defer l.Close()
	locktest.PollUntil(t, 20*time.Second, "the notice was refused by all nodes", func() bool {
		return !slices.ContainsFunc(locktest.Status(t, l).Nodes, func(n redlock.NodeStatus) bool { return !strings.Contains(n.Cause, "notice") })
	})
	_, err = l.Acquire(t.Context(), "orders/42") // returns by itself: waiting mends nothing
	locktest.WantError(t, "Acquire", err, redlock.ErrMisconfigured)
	locktest.WantText(t, "Acquire", locktest.ErrorText(err), "lacks a right")
	locktest.WantError(t, "Join", l.Cluster().Join(t.Context()), redlock.ErrMisconfigured)
}

// blankSaid are the findings of Check about nodes that are blank, by node; it fails
// the test where there are not so many.
func blankSaid(t *testing.T, l *redlock.Locker, want int) map[int]redlock.Finding {
	t.Helper()
	r, err := l.Cluster().Check(t.Context())
	testkit.Must(t, err)
	out := map[int]redlock.Finding{}
	for _, f := range r.Findings {
		if f.Code == redlock.FindingBlank {
			out[f.Node] = f
		}
	}
	if len(out) != want {
		t.Fatalf("got %d blank nodes; want %d: %v", len(out), want, r.Findings)
	}
	return out
}

// Nobody is told to wait for what never comes: Check says what keeps a new cluster
// from being founded, of every node, and the remedy is not to do nothing.
func TestCheckSaysWhyNothingIsFounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hurt     func(t *testing.T, servers []*redisserver.Server)
		own      string // of node 2, in its own finding
		opts     []redlock.Option
		severity redlock.Severity
	}{
		"a full node":     {fullLast, "OOM", nil, redlock.SeverityInfo},
		"a replica":       {replicate, "it is a replica", nil, redlock.SeverityInfo},
		"strict recovery": {func(*testing.T, []*redisserver.Server) {}, "WithStrictRecovery", []redlock.Option{redlock.WithStrictRecovery()}, redlock.SeverityWarning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 3, redisserver.Config{})
			c.hurt(t, servers)
			l := locktest.OpenWithout(t, servers, nil, append(c.opts, redlock.WithNodeTimeout(locktest.Patient), redlock.WithTTL(4*locktest.Patient))...)
			for i, f := range blankSaid(t, l, 3) {
				locktest.WantText(t, fmt.Sprintf("node %d", i), f.What, c.own)
				if i != 2 && c.opts == nil {
					locktest.WantText(t, fmt.Sprintf("node %d", i), f.What, servers[2].Addr(), "every node must be waited for")
				}
				if f.Severity != c.severity || strings.HasPrefix(f.Remedy, "Call Cluster.Join") {
					t.Errorf("node %d: got %s, %q; want %s, and something to do", i, f.Severity, f.Remedy, c.severity)
				}
			}
		})
	}
}

// fullLast fills the last server.
func fullLast(t *testing.T, servers []*redisserver.Server) {
	t.Helper()
	full(t, servers[2])
}

// replicate makes the last server a replica of one that is no node.
func replicate(t *testing.T, servers []*redisserver.Server) {
	t.Helper()
	c := servers[2].Client()
	host, port, _ := strings.Cut(testserver.NeedOne(t, redisserver.Config{}).Addr(), ":")
	testkit.Must(t, c.ReplicaOf(t.Context(), host, port).Err())
	locktest.PollUntil(t, 20*time.Second, "it is a replica", func() bool { return locktest.InfoOf(t, c, "role") == "slave" })
}

// Nodes that forget while their process lives: run_id and scripts stay.

// The data of a node are swapped, and swapped back once the node votes with the
// others: the first are a member's by their own record, and do not know what was
// granted since. Who has seen both epochs vote lets them wait.
func TestDataThatAreSwappedBackDoNotVoteForWhoSawTheOthers(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	opts := []redlock.Option{redlock.WithMaxTTL(redlock.DefaultTTL), redlock.WithFixedLease()}
	holder, contender := locktest.OpenWithout(t, servers, []int{2}, opts...), locktest.OpenWithout(t, servers, nil, opts...)
	locktest.Admit(t, contender)
	locktest.Warm(t, contender)
	locktest.Warm(t, holder)
	swap := func() { testkit.Must(t, servers[0].Client().Do(t.Context(), "SWAPDB", 0, 1).Err()) }
	swap()
	locktest.Admit(t, contender)
	locktest.Warm(t, contender)
	locktest.WantVotes(t, "with the other data", contender, 3)
	held := locktest.MustAcquire(t, holder, "orders/42") // on the swapped node and one more
	if locktest.KeyOn(t, servers[0], "orders/42") == "" {
		t.Fatal("the lock is not on the node whose data are swapped: this test shows nothing")
	}
	swap()

	for range 20 {
		lock, err := contender.TryAcquire(t.Context(), "orders/42")
		if err == nil {
			t.Fatalf("got token %v beside the holder of %v (%v)", lock.Token(), held.Token(), held.Err())
		}
	}
	testkit.Must(t, held.Err())
	locktest.WantVotes(t, "with the first data again", contender, 2)
	locktest.WantText(t, "its Status", locktest.Status(t, contender).Nodes[0].Cause, "an epoch that has ended")
	locktest.Admit(t, contender)
	locktest.WantVotes(t, "under a new epoch", contender, 3)
}

// handOver swaps a master and its replica, by FAILOVER: no data is lost, and no snapshot sent.
func handOver(t *testing.T, master, replica *redisserver.Server) {
	t.Helper()
	testkit.Must(t, master.Client().Do(t.Context(), "FAILOVER").Err())
	locktest.PollUntil(t, 15*time.Second, "they have changed places", func() bool {
		old, err := master.Client().Info(t.Context(), "replication").Result()
		if err != nil || !strings.Contains(old, "master_link_status:up") {
			return false
		}
		return locktest.InfoOf(t, replica.Client(), "role") == "master" && strings.Contains(replica.Client().Info(t.Context(), "replication").Val(), "state=online")
	})
}

// A standby follows each of two nodes, is cut off, and a lock is taken. Then both
// nodes take their standbys' data, and are masters again: run_id, scripts, record
// and epoch are as before, and the lock is gone.
func TestANodeThatTookItsStandbysDataDoesNotVote(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{true, false} {
		t.Run(fmt.Sprintf("traffic meanwhile: %v", busy), func(t *testing.T) {
			t.Parallel()
			servers, standbys := testserver.Need(t, 3, redisserver.Config{}), testserver.Need(t, 2, redisserver.Config{})
			for i, s := range standbys {
				locktest.Replicate(t, s, servers[i])
			}
			opts := []redlock.Option{redlock.WithMaxTTL(30 * time.Second), redlock.WithTTL(30 * time.Second), redlock.WithFixedLease()}
			contender, holder := locktest.OpenWithout(t, servers, nil, opts...), locktest.OpenWithout(t, servers, nil, opts...)
			locktest.Admit(t, contender)
			locktest.Warm(t, contender)
			locktest.WantVotes(t, "with standbys in step", contender, 3)
			looked := time.Now()
			for i, s := range standbys {
				all := servers[i].Client().HGetAll(t.Context(), lua.NodeKey).Val()
				locktest.PollUntil(t, 15*time.Second, "the standby has all", func() bool {
					return maps.Equal(s.Client().HGetAll(t.Context(), lua.NodeKey).Val(), all)
				})
				locktest.Promote(t, s)
			}
			held := locktest.MustAcquire(t, holder, "orders/42")
			locktest.PollUntil(t, time.Second, "the contender's look is older than a failover in place may be quick (SAFETY, Limits)", func() bool {
				return time.Since(looked) > 2*node.IdentityEvery
			})
			traffic := func() {
				if busy {
					if lock, err := contender.TryAcquire(t.Context(), "orders/1"); err == nil {
						locktest.MustRelease(t, lock)
					}
				}
			}
			traffic()
			for i, s := range standbys {
				locktest.Replicate(t, servers[i], s)
				traffic()
				locktest.Promote(t, servers[i])
				traffic()
			}
			for range 40 {
				lock, err := contender.TryAcquire(t.Context(), "orders/42")
				if err == nil {
					t.Fatalf("got token %v beside the holder of %v (%v)", lock.Token(), held.Token(), held.Err())
				}
				locktest.Pause(10 * time.Millisecond)
			}
			testkit.Must(t, held.Err())
			for _, n := range locktest.Status(t, contender).Nodes[:2] {
				if n.State != redlock.NodeJoining || n.Left <= 0 {
					t.Errorf("%s: got %v, %v left, %q; want it joining, for MaxTTL", n.Name, n.State, n.Left, n.Cause)
				}
			}
		})
	}
}

// What a node does that is made a replica, and a master again, whether or not its
// data changed: it has another replication id, so every client has it join anew.
func TestEveryWayToAnotherMastersDataMakesAnotherIdentity(t *testing.T) {
	t.Parallel()
	t.Run("one channel", func(t *testing.T) {
		t.Parallel()
		servers := testserver.Need(t, 2, redisserver.Config{})
		everyWay(t, servers[0], servers[1])
	})
	t.Run("two channels", func(t *testing.T) {
		t.Parallel()
		servers := testserver.Need(t, 2, redisserver.Config{})
		locktest.SecondChannel(t, servers)
		everyWay(t, servers[0], servers[1])
	})
}

func everyWay(t *testing.T, node, other *redisserver.Server) {
	t.Helper()
	identity := func() string {
		info := node.Client().InfoMap(t.Context(), "server", "replication")
		testkit.Must(t, info.Err())
		return info.Item("Server", "run_id") + "." + info.Item("Replication", "master_replid")
	}
	for _, way := range []struct {
		name    string
		do      func()
		changes bool
	}{
		{"nothing", func() {}, false},
		{"a master that is told to be one", func() { locktest.Promote(t, node) }, false},
		{"a replica of nobody who answers, and back", func() {
			testkit.Must(t, node.Client().ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
			locktest.Promote(t, node)
		}, true},
		{"another master's data, and back", func() { locktest.Replicate(t, node, other); locktest.Promote(t, node) }, true},
		{"its own replica's data, and back", func() {
			locktest.Replicate(t, other, node)
			locktest.Promote(t, other)
			locktest.Replicate(t, node, other)
			locktest.Promote(t, node)
		}, true},
		// Nothing is forgotten in these.
		{"a replica attaches that is not the first", func() { locktest.Replicate(t, other, node) }, false},
		{"it leaves", func() { locktest.Promote(t, other) }, false},
		{"the backlog is given up", func() {
			testkit.Must(t, node.Client().ConfigSet(t.Context(), "repl-backlog-ttl", "1").Err())
			locktest.PollUntil(t, 15*time.Second, "no backlog", func() bool {
				info, err := node.Client().Info(t.Context(), "replication").Result()
				return err == nil && strings.Contains(info, "repl_backlog_active:0")
			})
		}, true},
		{"a first replica attaches", func() { locktest.Replicate(t, other, node) }, true},
		{"it changes places with its replica, twice", func() { handOver(t, node, other); handOver(t, other, node) }, true},
	} {
		before := identity()
		way.do()
		if after := identity(); (after != before) != way.changes {
			t.Errorf("%s: got identity %s after %s; want another one: %v", way.name, after, before, way.changes)
		}
	}
}

// Two nodes of three grant by a release, each since the sign of life that it had, and the
// third is stopped. One of the two is another's replica for a moment, right behind its
// push. Its vote is void at the next look, whichever of the two signs is older. A look, or
// the first extension, that comes in between proves the vote: then it is tried again.
// (TestAPushIsVoidWhoseNodeForgotRightBehindIt has the order of all this for sure.)
func TestAPushIsVoidWhoseServerChangedItsHistoryRightBehindIt(t *testing.T) {
	t.Parallel()
	for name, newer := range map[string]bool{"the older sign": false, "the newer sign": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				if lost := grantedAndChanged(t, newer); lost {
					return
				}
			}
			t.Error("the lock was held on in each of five tries; want it lost within a second")
		})
	}
}

// grantedAndChanged has servers 0 and 1 of three grant a lock by a release, and the one of
// them that had the newer sign of life, or the older, change its history right behind
// that. It returns whether the lock is lost soon.
func grantedAndChanged(t *testing.T, newer bool) (lost bool) {
	t.Helper()
	servers := testserver.Need(t, 3, redisserver.Config{})
	holder, heir := locktest.OpenServers(t, servers), locktest.OpenServers(t, servers)
	locktest.Warm(t, heir)
	lock, granted := locktest.MustAcquire(t, holder, "orders/42"), make(chan *redlock.Lock, 1)
	go func() {
		defer close(granted)
		if l, err := heir.Acquire(t.Context(), "orders/42"); err == nil {
			granted <- l
		}
	}()
	var first, signs []int64
	locktest.PollUntil(t, 15*time.Second, "it stands in line", func() bool {
		first = signsOfLife(t, servers[:2])
		return !slices.Contains(first, 0)
	})
	locktest.PollUntil(t, 15*time.Second, "each has had its next sign, at its own time", func() bool {
		signs = signsOfLife(t, servers[:2])
		return signs[0] != first[0] && signs[1] != first[1] && max(signs[0]-signs[1], signs[1]-signs[0]) > 50
	})
	server := servers[1]
	if (signs[0] > signs[1]) == newer {
		server = servers[0]
	}
	change := func(masters ...[2]string) {
		_, err := server.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, m := range masters {
				p.ReplicaOf(t.Context(), m[0], m[1])
			}
			return nil
		})
		testkit.Must(t, err)
	}
	change([2]string{"NO", "ONE"}) // a master it is; its connection is there now
	testkit.Must(t, servers[2].Pause())
	locktest.MustRelease(t, lock)
	lock = <-granted
	change([2]string{"127.0.0.1", "1"}, [2]string{"NO", "ONE"})
	for deadline := time.Now().Add(time.Second); lock.Err() == nil && time.Now().Before(deadline); {
		locktest.Pause(time.Millisecond)
	}
	lost = errors.Is(lock.Err(), redlock.ErrLost)
	testkit.Must(t, servers[2].Resume())
	return lost
}

// signsOfLife are, by server, the readings of the one process that waits for orders/42; 0:
// it does not know of one.
func signsOfLife(t *testing.T, servers []*redisserver.Server) []int64 {
	t.Helper()
	signs := make([]int64, len(servers))
	for i, s := range servers {
		members := s.Client().ZRange(t.Context(), "redlock:queue:orders/42", 0, -1).Val()
		if len(members) == 2 { // its id, and that with the owner of its attempt
			signs[i], _ = s.Client().Get(t.Context(), lua.LiveKey+members[0]).Int64()
		}
	}
	return signs
}
