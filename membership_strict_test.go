package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// Strict recovery is the cluster's: it binds clients that do not have the option.

// strictCluster is an application with the option, whose operator founded the
// cluster.
func strictCluster(t *testing.T, n int, opts ...redlock.Option) (*redlock.Locker, *redlocktest.Cluster) {
	t.Helper()
	nodes := redlocktest.Start(t, n, redlocktest.WithoutFounding())
	app := lockerOver(t, nodes, append(opts, redlock.WithStrictRecovery())...)
	must(t, app.Cluster().Admit(t.Context()))
	warm(t, app)
	return app, nodes
}

// One command without the option founded the cluster of an application that has it
// again, after most nodes had forgotten.
func TestACommandWithoutTheOptionFoundsNoStrictClusterAgain(t *testing.T) {
	testkit.Unraced(t)
	for _, strict := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var nodes *redlocktest.Cluster
			var app *redlock.Locker
			if strict {
				app, nodes = strictCluster(t, 5)
			} else {
				app, nodes = newLocker(t, 5)
				warm(t, app)
			}
			must(t, app.Close())
			for i := range 4 {
				nodes.Node(i).Restart()
			}
			command := lockerOver(t, nodes)
			ctx, cancel := context.WithTimeout(t.Context(), 3*redlock.DefaultMaxTTL)
			defer cancel()
			lock, err := command.Acquire(ctx, "reports")
			if !strict {
				must(t, err) // or this test shows nothing
				mustRelease(t, lock)
				return
			}
			wantError(t, "Acquire", err, redlock.ErrNoQuorum)
			wantText(t, "Acquire", errorText(err), "the record of node-4 (strict recovery)", "Cluster.Admit")
			wantVotes(t, "without an operator", command, 1)
			must(t, command.Cluster().Admit(t.Context()))
			wantVotes(t, "after an operator", command, 5)
			for _, n := range status(t, command).Nodes {
				if !n.Strict {
					t.Errorf("%s: the record is not strict; want it as before, no matter who admits", n.Name)
				}
			}
		})
	}
}

// Where no record is left, nothing says strict: then who knew it says so.
func TestAStrictClientLocksInNoClusterThatWasFoundedAnewWithoutAnOperator(t *testing.T) {
	testkit.Unraced(t)
	for _, way := range []string{"its own Admit", "another client with the option"} {
		synctest.Test(t, func(t *testing.T) {
			var told events
			app, nodes := strictCluster(t, 3, told.option())
			for _, n := range nodes.Nodes() {
				n.Restart()
			}
			command := lockerOver(t, nodes)
			ctx, cancel := context.WithTimeout(t.Context(), 3*redlock.DefaultMaxTTL)
			defer cancel()
			lock, err := command.Acquire(ctx, "reports")
			must(t, err)
			mustRelease(t, lock)
			for range 3 {
				_, err = app.TryAcquire(t.Context(), "orders/42")
				wantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
				wantText(t, "TryAcquire", errorText(err), "was founded without strict recovery", "Cluster.Admit")
				time.Sleep(redlock.DefaultMaxTTL)
			}
			joining, stop := context.WithTimeout(t.Context(), 10*redlock.DefaultMaxTTL)
			defer stop()
			wantError(t, "Join", app.Cluster().Join(joining), redlock.ErrMisconfigured)
			for i, n := range status(t, app).Nodes {
				if n.Strict || n.Cause == "" {
					t.Errorf("node %d: got %+v; want it not strict, and said", i, n)
				}
			}
			if got := told.of(redlock.StrictRecoverySet); len(got) != 0 {
				t.Errorf("got %d events of a client that changed nothing", len(got))
			}
			switch way {
			case "its own Admit":
				must(t, app.Cluster().Admit(t.Context()))
			default:
				warm(t, lockerOver(t, nodes, redlock.WithStrictRecovery()))
				time.Sleep(30 * time.Second) // nobody asks for anything
			}
			wantVotes(t, way, app, 3)
			mustRelease(t, mustAcquire(t, app, "orders/42"))
		})
	}
}

// What one client asks for binds all, so it is told before it is done.
func TestWhoMakesAClusterStrictSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		var told, none events
		warm(t, lockerOver(t, nodes, none.option()))
		strict := lockerOver(t, nodes, redlock.WithStrictRecovery(), told.option())
		lock := mustAcquire(t, strict, "orders/42")
		for _, n := range status(t, l).Nodes {
			if !n.Strict {
				t.Errorf("%s: not strict when a lock was taken", n.Name)
			}
		}
		mustRelease(t, lock)
		warm(t, lockerOver(t, nodes, redlock.WithStrictRecovery(), none.option()))
		if got, others := told.of(redlock.StrictRecoverySet), none.of(redlock.StrictRecoverySet); len(got) != 3 || len(others) != 0 {
			t.Fatalf("got %d events of who makes it strict, %d of the others; want one a node, and none", len(got), len(others))
		}
		wantText(t, "the event", told.of(redlock.StrictRecoverySet)[0].Err.Error(), "for good", "Cluster.Admit")

		// A single node forgets: it gets it from the others.
		must(t, strict.Close())
		nodes.Node(0).Restart()
		_, _ = l.TryAcquire(t.Context(), "orders/42")
		time.Sleep(redlock.DefaultMaxTTL + 5*time.Second)
		wantVotes(t, "after one forgot", l, 3)
		if !status(t, l).Nodes[0].Strict {
			t.Error("the node that came back is not strict")
		}
	})
}

// The way back is an operator's, once no client has the option.
func TestAnOperatorTakesStrictRecoveryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, nodes := strictCluster(t, 3)
		l := lockerOver(t, nodes)
		warm(t, l)
		must(t, app.Close())
		for _, n := range nodes.Nodes() {
			n.Miniredis().HDel(lua.NodeKey, "strict")
		}
		warm(t, l)
		time.Sleep(time.Minute)
		for _, n := range status(t, l).Nodes {
			if n.Strict {
				t.Errorf("%s: strict again", n.Name)
			}
		}
		nodes.Node(0).Restart()
		nodes.Node(1).Restart()
		ctx, cancel := context.WithTimeout(t.Context(), 3*redlock.DefaultMaxTTL)
		defer cancel()
		lock, err := l.Acquire(ctx, "orders/42")
		if errors.Is(err, redlock.ErrNoQuorum) {
			t.Fatalf("got %v; want it founded anew", err)
		}
		must(t, err)
		mustRelease(t, lock)
	})
}
