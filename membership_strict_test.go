package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/redlocktest"
)

// Strict recovery is the cluster's: it binds clients that do not have the option.

// strict makes node i's record strict.
func (v *view) strict(i int) {
	rec, _ := v.sights[i].Record()
	rec = rec.AsStrict()
	n, _ := v.sights[i].Standing()
	v.sights[i] = redlock.SightOf(v.sights[i].Sent(), v.sights[i].Run(), &rec, v.sights[i].Largest(), n)
}

func TestARecordThatIsStrictBindsWhoHasNotTheOption(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	for name, c := range map[string]struct {
		change func(v *view)
		bound  bool
	}{
		"none is strict":           {func(*view) {}, false},
		"a member's":               {func(v *view) { v.strict(0) }, true},
		"that of one that is back": {func(v *view) { v.stale(2, 7, over); v.strict(2) }, true},
		"of the node itself":       {func(v *view) { v.stale(1, 7, over); v.strict(1) }, true},
		"of a founder that raced": {func(v *view) {
			rec := v.record("c2", "r").AsStrict()
			v.sights[2] = redlock.SightOf(over, "r2", &rec, 0, redlock.NoticeOf("n", "r2"))
		}, true},
		"of a node that is retired": {func(v *view) {
			v.strict(0)
			rec, _ := v.sights[0].Record()
			rec = rec.AsGone()
			v.sights[0] = redlock.SightOf(over, "r", &rec, 100, redlock.Notice{})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(3, over)
			v.blank(1, over)
			v.blank(2, over)
			c.change(v)
			p := v.next(1, over)
			if !c.bound {
				wantPlan(t, p, redlock.DoInstall, "")
				return
			}
			wantPlan(t, p, redlock.DoNothing, "Cluster.Admit")
			wantPlan(t, p, redlock.DoNothing, "the record of ")
			p = v.admit(1, over)
			wantPlan(t, p, redlock.DoInstall, "")
			if !p.Record().Strict() {
				t.Error("admitted: got a record that is not strict; want it as before")
			}
		})
	}
}

func TestANodeThatJoinsGetsStrictFromTheOthers(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	for _, strict := range []bool{false, true} {
		v := newView(5, over)
		v.blank(1, over)
		if strict {
			v.strict(3)
		}
		p := v.next(1, over)
		wantPlan(t, p, redlock.DoInstall, "")
		if p.Record().Strict() != strict {
			t.Errorf("one of the others strict: %t; got %t in the new record", strict, p.Record().Strict())
		}
	}
}

func TestWhoHasTheOptionWritesItBeforeAVoteCounts(t *testing.T) {
	v := newView(3, start)
	v.charter = redlock.NewCharter(v.names, maxTTL, true)
	if s, why := v.fleet().Seat(0); s.Epoch() != "" || why == "" {
		t.Errorf("got seat %v, %q; want none before the record says strict", s, why)
	}
	p := v.next(0, start)
	wantPlan(t, p, redlock.DoAmend, "")
	if !p.Record().Strict() || p.Record().Epoch() != "e" {
		t.Errorf("got %+v; want strict under the epoch that was read", p.Record())
	}
	v.strict(0)
	if s, why := v.fleet().Seat(0); s.Epoch() != "e" {
		t.Errorf("got seat %v, %q; want one", s, why)
	}
	wantPlan(t, v.next(0, start), redlock.DoNothing, "")

	v.charter = redlock.NewCharter(v.names, maxTTL, false)
	if s, why := v.fleet().Seat(1); s.Epoch() != "e" {
		t.Errorf("without the option: got seat %v, %q; want one, strict or not", s, why)
	}
	wantPlan(t, v.next(2, start), redlock.DoNothing, "") // one record is no quorum
	v.strict(1)
	wantPlan(t, v.next(2, start), redlock.DoAmend, "") // what a quorum says spreads
}

func TestAClusterThatIsAnotherAndNotStrictGetsNoVoteOfWhoKnewAStrictOne(t *testing.T) {
	v := newView(3, start)
	v.charter = redlock.NewCharter(v.names, maxTTL, true)
	if got := v.fleet().Knows(); got != "" {
		t.Errorf("got %q known; want none before a quorum of records is strict", got)
	}
	v.strict(0)
	v.strict(1)
	if got := v.fleet().Knows(); got != "c1" {
		t.Errorf("got %q known; want c1", got)
	}
	if s, _ := v.fleet().Knowing("c1").Seat(0); s.Epoch() == "" {
		t.Error("the cluster that it knew: got no seat")
	}
	f := v.fleet().Knowing("c0")
	if _, why := f.Seat(0); why == "" {
		t.Error("another, one of whose records is not strict: got a seat")
	}
	p := redlock.ProposalOf("new", 5000, false)
	wantPlan(t, f.Next(2, start, p), redlock.DoAmend, "") // two of three say it: it spreads
	if got := f.Knows(); got != "c0" {
		t.Errorf("got %q known; want the one before", got)
	}
	v.strict(2)
	if s, why := v.fleet().Knowing("c0").Seat(0); s.Epoch() == "" {
		t.Errorf("another, strict in every record: got no seat (%s)", why)
	}

	v = newView(3, start)
	v.charter = redlock.NewCharter(v.names, maxTTL, true)
	f = v.fleet().Knowing("c0")
	wantPlan(t, f.Next(0, start, p), redlock.DoNothing, "")
	wantPlan(t, f.Next(0, start, redlock.ProposalOf("new", 5000, true)), redlock.DoAmend, "")
}

// A founding takes a node after another. What a client that knew the strict cluster
// wrote on the first would spread from there, and that client would then take the
// new cluster for one that an operator founded.
func TestWhoKnewAStrictClusterWritesNothingIntoOneThatIsBeingFounded(t *testing.T) {
	for taken := 1; taken <= 3; taken++ {
		v := newView(5, start)
		v.charter = redlock.NewCharter(v.names, maxTTL, true)
		for i := taken; i < 5; i++ {
			v.blank(i, start)
		}
		f := v.fleet().Knowing("c0")
		wantPlan(t, f.Next(0, start, redlock.ProposalOf("new", 5000, false)), redlock.DoNothing, "")
		wantPlan(t, f.Next(0, start, redlock.ProposalOf("new", 5000, true)), redlock.DoAmend, "")
		wantPlan(t, v.fleet().Next(0, start, redlock.ProposalOf("new", 5000, false)), redlock.DoAmend, "") // it knew none
		wantPlan(t, v.fleet().Knowing("c1").Next(0, start, redlock.ProposalOf("new", 5000, false)), redlock.DoAmend, "")
	}
}

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
					t.Errorf("%s: the record is not strict; want it as before, whoever admits", n.Name)
				}
			}
		})
	}
}

// Where no record is left, nothing says strict: then who knew it says so.
func TestAStrictClientLocksInNoClusterThatWasFoundedAnewWithoutAnOperator(t *testing.T) {
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
			wantError(t, "Join", app.Cluster().Join(t.Context()), redlock.ErrMisconfigured)
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
			n.Miniredis().HDel(redlock.NodeKey, "strict")
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
