package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// foreign writes the record of a cluster of other nodes.
func foreign(nodes *redlocktest.Cluster, i int, n string) {
	node := nodes.Node(i)
	node.Miniredis().HSet(lua.NodeKey, "format", "1", "epoch", "theirs", "cluster", "theirs",
		"n", n, "names", "x\ny\nz", "maxttl", "30000", "run", identity(node), "base", "7")
}

// identity is what a record names the node by.
func identity(node *redlocktest.Node) string {
	c := redis.NewClient(node.Options())
	defer func() { _ = c.Close() }()
	info := c.InfoMap(context.Background(), "server", "replication").Item
	return info("Server", "run_id") + "." + info("Replication", "master_replid")
}

// What only an operator can mend is told apart from what a wait mends.
func TestJoinAndAdmitTellAConfigurationFromAWait(t *testing.T) {
	for _, tt := range []struct {
		name          string
		misconfigured bool
		client        func(t *testing.T) *redlock.Locker
	}{
		{"a node of another cluster", true, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes := redlocktest.Start(t, 3)
			foreign(nodes, 2, "3")
			return lockerOver(t, nodes)
		}},
		{"a record of another N", true, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes := redlocktest.Start(t, 5)
			foreign(nodes, 2, "3")
			return lockerOver(t, nodes)
		}},
		{"a name that was not retired", true, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes, spare := redlocktest.Start(t, 3), redlocktest.Start(t, 1, redlocktest.WithoutFounding())
			clients := []redis.UniversalClient{nodes.Client(0), nodes.Client(1), spare.Client(0)}
			return lockerWith(t, clients, redlock.WithNodeNames("node-0", "node-1", "node-3"))
		}},
		{"a foreign node where every node must have its say", true, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes := redlocktest.Start(t, 3)
			foreign(nodes, 2, "2")
			nodes.Node(0).Restart()
			return lockerOver(t, nodes)
		}},
		{"a node missing from a new cluster", false, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
			nodes.Node(2).Stop()
			return lockerOver(t, nodes)
		}},
		{"a retired node", false, func(t *testing.T) *redlock.Locker {
			t.Helper()
			l := lockerOver(t, redlocktest.Start(t, 5))
			must(t, l.Cluster().Retire(t.Context(), 4))
			return l
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := tt.client(t)
				for what, call := range map[string]func(context.Context) error{"Admit": l.Cluster().Admit, "Join": l.Cluster().Join} {
					ctx, cancel := context.WithTimeout(t.Context(), 2*redlock.DefaultMaxTTL)
					defer cancel()
					err := call(ctx)
					if err == nil || errors.Is(err, redlock.ErrMisconfigured) != tt.misconfigured {
						t.Errorf("%s: got %v; want an error, ErrMisconfigured: %v", what, err, tt.misconfigured)
					}
				}
			})
		})
	}
}

// A node that is not to be taken in is looked at now and then: somebody may have
// put it right.
func TestANodeThatWasPutRightIsTakenIn(t *testing.T) {
	for name, spoil := range map[string]func(*redlocktest.Cluster){
		"foreign": func(nodes *redlocktest.Cluster) { foreign(nodes, 2, "3") },
		"damaged": func(nodes *redlocktest.Cluster) { nodes.Node(2).Miniredis().HSet(lua.NodeKey, "n", "three") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				spoil(nodes)
				l := lockerOver(t, nodes)
				warm(t, l)
				time.Sleep(time.Minute)
				if got := len(nodes.Node(2).Keys()); got != 1 {
					t.Fatalf("got %d keys on the node; want what was there", got)
				}
				nodes.Node(2).FlushAll()
				time.Sleep(redlock.DefaultMaxTTL + 15*time.Second) // nobody asks for anything meanwhile
				if got := nodes.Node(2).Miniredis().HGet(lua.NodeKey, "epoch"); got == "" {
					t.Error("a quarter of a minute after its wait the node that was emptied has no record")
				}
				wantVotes(t, "after it was emptied", l, 3)
			})
		})
	}
}

// Marks that can't reach a quorum are not begun: the node would be lost for
// nothing.
func TestARetirementThatCanNotBeFinishedLeavesTheNodeUnharmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		before := nodes.Node(2).Miniredis().HGet(lua.NodeKey, "epoch")
		nodes.Node(0).Stop()
		wantError(t, "Retire", l.Cluster().Retire(t.Context(), 2), redlock.ErrNoQuorum)
		if got := nodes.Node(2).Miniredis().HGet(lua.NodeKey, "epoch"); got != before || got == "" {
			t.Errorf("the node's epoch: got %q; want it as it was, %q", got, before)
		}
		if got := nodes.Node(1).Miniredis().HGet(lua.NodeKey, "retired"); got != "" {
			t.Errorf("a mark on another node: got %q; want none", got)
		}
		mustRelease(t, mustAcquire(t, l, "orders/42")) // a quorum of two needs it
		nodes.Node(0).Start()
		warm(t, l)
		wantVotes(t, "with all nodes", l, 3)
	})
}

// Records count MaxTTL in whole milliseconds.
func TestAMaxTTLMayHaveAFractionOfAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxTTL = 2*time.Second + 300*time.Microsecond
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))
		must(t, l.Cluster().Admit(t.Context()))
		wantVotes(t, "founded with it", l, 3)
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		must(t, err)
		mustRelease(t, lock)
		if got := status(t, l).Nodes[0].MaxTTL; got < maxTTL {
			t.Errorf("the record says %v; want no less than %v, which somebody may take", got, maxTTL)
		}
	})
}

// When nobody is left who remembers, numbers come from a clock, and the clock may
// be behind. By itself that happens only without WithStrictRecovery.
func TestTokensGoBackByThemselvesOnlyWithoutStrictRecovery(t *testing.T) {
	testkit.Unraced(t)
	for _, strict := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var seen events
			opts := []redlock.Option{seen.option()}
			if strict {
				opts = append(opts, redlock.WithStrictRecovery())
			}
			l, nodes := newLocker(t, 5, opts...)
			ahead := fmt.Sprint(time.Now().Add(24 * time.Hour).UnixMicro()) // as a clock that was a day ahead gave
			for _, n := range nodes.Nodes() {
				n.Miniredis().HSet(lua.NodeKey, fmt.Sprint(lua.StripeOf("orders/42")), ahead)
			}
			first := mustAcquire(t, l, "orders/42")
			mustRelease(t, first)
			for _, n := range nodes.Nodes() {
				n.Restart()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*redlock.DefaultMaxTTL)
			defer cancel()
			second, err := l.Acquire(ctx, "orders/42")
			switch {
			case strict && !errors.Is(err, redlock.ErrNoQuorum):
				t.Errorf("strict: got %v; want ErrNoQuorum until an operator decides", err)
			case !strict && (err != nil || second.Token() >= first.Token()):
				t.Errorf("not strict: got %v; want a lock whose token went back, or this test shows nothing", err)
			}
			synctest.Wait() // it is told by a goroutine of its own
			if told := len(seen.of(redlock.ClusterFounded)) > 0; told == strict {
				t.Errorf("strict %v: got ClusterFounded told: %v; want it where tokens lean on a clock", strict, told)
			}
		})
	}
}
