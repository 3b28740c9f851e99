package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// foreign writes the record of a cluster of other nodes.
func foreign(nodes *redlocktest.Cluster, i int, n string) {
	node := nodes.Node(i)
	node.Miniredis().HSet(redlock.NodeKey, "format", "1", "epoch", "theirs", "cluster", "theirs",
		"n", n, "names", "x\ny\nz", "maxttl", "30000", "run", node.RunID(), "base", "7")
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
