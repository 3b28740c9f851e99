package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Why a node is not taken in is for the one who asks, in its server's words.

// full makes a server refuse to write for want of memory; roomAgain makes it write again.
func full(t *testing.T, s *redisserver.Server) {
	t.Helper()
	must(t, s.Client().ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
}

func roomAgain(t *testing.T, s *redisserver.Server) {
	t.Helper()
	must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
}

// wantReason fails the test unless an acquisition and Join, which both run out of
// time, and Admit say all of it, and Status says it of node i.
func wantReason(t *testing.T, l *redlock.Locker, i int, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := l.Acquire(ctx, "orders/42")
	wantError(t, "Acquire", err, redlock.ErrNoQuorum)
	wantText(t, "Acquire", errorText(err), words...)
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	wantText(t, "Join", errorText(l.Cluster().Join(ctx)), words...)
	wantText(t, "Admit", errorText(l.Cluster().Admit(t.Context())), words...)
	s, err := l.Cluster().Status(t.Context())
	must(t, err)
	wantText(t, "Status", s.Nodes[i].Cause, words...)
	if strings.Contains(s.Nodes[i].Cause, "its wait goes on") {
		t.Errorf("got %q; want no word of a wait that has not begun", s.Nodes[i].Cause)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestANewClusterThatAFullNodeHoldsUpSaysSo(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	full(t, servers[2])
	l := openWithout(t, servers, nil, short()...)
	wantReason(t, l, 2, "OOM", "notice")
	wantReason(t, l, 0, "OOM", servers[2].Addr())                                          // what holds up the others as well
	pollUntil(t, 10*time.Second, "the server's own error is in the refusal", func() bool { // node 2's vote may come too late for it
		_, err := l.TryAcquire(t.Context(), "orders/42")
		var reply redis.Error
		return errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "OOM")
	})
	roomAgain(t, servers[2])
	admitted(t, l)
	for i, n := range status(t, l).Nodes {
		if n.State != redlock.NodeMember || n.Cause != "" {
			t.Errorf("node %d: got %s, %q; want a member, and no cause that is over", i, n.State, n.Cause)
		}
	}
	warm(t, l)
}

func TestANewClusterThatAReplicaHoldsUpSaysSo(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	replicate(t, servers)
	l := openWithout(t, servers, nil, short()...)
	wantReason(t, l, 2, "it is a replica")
	wantReason(t, l, 0, "it is a replica", servers[2].Addr())
	c := servers[2].Client()
	defer c.Close()
	must(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
	admitted(t, l)
	if n := status(t, l).Nodes[2]; n.State != redlock.NodeMember || n.Cause != "" {
		t.Errorf("got %s, %q; want a member, and no cause that is over", n.State, n.Cause)
	}
	warm(t, l)
}

func TestANodeThatCanNotBeTakenInSaysWhy(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	l := openWithout(t, servers, nil, short()...)
	admitted(t, l)
	warm(t, l)
	must(t, servers[1].RestartEmpty())
	pollUntil(t, 10*time.Second, "the node has its notice", func() bool {
		_, _ = l.TryAcquire(t.Context(), "orders/42", redlock.WithFixedLease())
		return status(t, l).Nodes[1].State == redlock.NodeJoining
	})
	full(t, servers[1]) // between its notice and its install
	pollUntil(t, 20*time.Second, "Status says why it does not join", func() bool {
		n := status(t, l).Nodes[1]
		return strings.Contains(n.Cause, "not made a member") && strings.Contains(n.Cause, "OOM")
	})
	roomAgain(t, servers[1])
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must(t, l.Cluster().Join(ctx))
}

func TestMaxTTLThatCanNotBeRaisedSaysWhy(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	l := openWithout(t, servers, nil, short()...)
	admitted(t, l)
	for _, s := range servers[:2] {
		full(t, s)
	}
	more := openWithout(t, servers, nil, redlock.WithMaxTTL(2*shortMax), redlock.WithTTL(shortMax))
	wantReason(t, more, 0, "MaxTTL", "OOM")
}

func TestARightThatIsMissingToTakeANodeInEndsTheWaitForIt(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{Users: []string{"app on >secret ~* &* +@all -hset"}})
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = "redis://app:secret@" + s.Addr()
	}
	l, err := redlock.Open(t.Context(), urls, append(short(), redlock.WithNodeTimeout(350*time.Millisecond))...)
	must(t, err)
	defer l.Close()
	pollUntil(t, 20*time.Second, "the notice was refused by all nodes", func() bool {
		return !slices.ContainsFunc(status(t, l).Nodes, func(n redlock.NodeStatus) bool { return !strings.Contains(n.Cause, "notice") })
	})
	_, err = l.Acquire(t.Context(), "orders/42") // returns by itself: waiting mends nothing
	wantError(t, "Acquire", err, redlock.ErrMisconfigured)
	wantText(t, "Acquire", errorText(err), "lacks a right")
	wantError(t, "Join", l.Cluster().Join(t.Context()), redlock.ErrMisconfigured)
}

// blankSaid are the findings of Check about nodes that are blank, by node; it fails
// the test where there are not so many.
func blankSaid(t *testing.T, l *redlock.Locker, want int) map[int]redlock.Finding {
	t.Helper()
	r, err := l.Cluster().Check(t.Context())
	must(t, err)
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
			l := openWithout(t, servers, nil, append(c.opts, redlock.WithNodeTimeout(patient), redlock.WithTTL(4*patient))...)
			for i, f := range blankSaid(t, l, 3) {
				wantText(t, fmt.Sprintf("node %d", i), f.What, c.own)
				if i != 2 && c.opts == nil {
					wantText(t, fmt.Sprintf("node %d", i), f.What, servers[2].Addr(), "every node must be waited for")
				}
				if f.Severity != c.severity || strings.HasPrefix(f.Remedy, "Nothing") {
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
	must(t, c.ReplicaOf(t.Context(), host, port).Err())
	awaitInfo(t, c, "role:slave")
}
