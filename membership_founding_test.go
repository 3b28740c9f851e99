package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

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
