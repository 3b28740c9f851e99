package membership_test

import (
	"testing"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

// Strict recovery is the cluster's: it binds clients that do not have the option.

// strict makes node i's record strict.
func (v *view) strict(i int) {
	rec := v.nodes[i].Record
	rec = asStrict(rec)
	n, _ := v.nodes[i].StandingNotice()
	v.nodes[i] = observed(v.nodes[i].Sent, v.nodes[i].Run, &rec, v.nodes[i].Largest, n)
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
			rec := asStrict(v.record("c2", "r"))
			v.nodes[2] = observed(over, "r2", &rec, 0, noticeOf("n", "r2"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(3, over)
			v.blank(1, over)
			v.blank(2, over)
			c.change(v)
			p := v.next(1, over)
			if !c.bound {
				wantPlan(t, p, membership.DoInstall, "")
				return
			}
			wantPlan(t, p, membership.DoNothing, "Cluster.Admit")
			wantPlan(t, p, membership.DoNothing, "the record of ")
			p = v.admit(1, over)
			wantPlan(t, p, membership.DoInstall, "")
			if !p.Record.Strict {
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
		wantPlan(t, p, membership.DoInstall, "")
		if p.Record.Strict != strict {
			t.Errorf("one of the others strict: %t; got %t in the new record", strict, p.Record.Strict)
		}
	}
}

func TestWhoHasTheOptionWritesItBeforeAVoteCounts(t *testing.T) {
	v := newView(3, start)
	v.config = membership.NewConfig(v.names, maxTTL, true)
	if s, why := v.seen().Voter(0); s.Epoch != "" || why == "" {
		t.Errorf("got %v, %q; want none before the record says strict", s, why)
	}
	p := v.next(0, start)
	wantPlan(t, p, membership.DoAmend, "")
	if !p.Record.Strict || p.Record.Epoch != "e" {
		t.Errorf("got %+v; want strict under the epoch that was read", p.Record)
	}
	v.strict(0)
	if s, why := v.seen().Voter(0); s.Epoch != "e" {
		t.Errorf("got %v, %q; want one", s, why)
	}
	wantPlan(t, v.next(0, start), membership.DoNothing, "")

	v.config = membership.NewConfig(v.names, maxTTL, false)
	if s, why := v.seen().Voter(1); s.Epoch != "e" {
		t.Errorf("without the option: got %v, %q; want one, strict or not", s, why)
	}
	wantPlan(t, v.next(2, start), membership.DoNothing, "") // one record is no quorum
	v.strict(1)
	wantPlan(t, v.next(2, start), membership.DoAmend, "") // what a quorum says spreads
}

func TestAClusterThatIsAnotherAndNotStrictGetsNoVoteOfWhoKnewAStrictOne(t *testing.T) {
	v := newView(3, start)
	v.config = membership.NewConfig(v.names, maxTTL, true)
	if got := v.seen().Knows(); got != "" {
		t.Errorf("got %q known; want none before a quorum of records is strict", got)
	}
	v.strict(0)
	v.strict(1)
	if got := v.seen().Knows(); got != "c1" {
		t.Errorf("got %q known; want c1", got)
	}
	if s, _ := knowing(v.seen(), "c1").Voter(0); s.Epoch == "" {
		t.Error("the cluster that it knew: got no right to vote")
	}
	f := knowing(v.seen(), "c0")
	if _, why := f.Voter(0); why == "" {
		t.Error("another, one of whose records is not strict: got the right to vote")
	}
	p := proposalOf("new", 5000, false)
	wantPlan(t, f.Next(2, start, p), membership.DoAmend, "") // two of three say it: it spreads
	if got := f.Knows(); got != "c0" {
		t.Errorf("got %q known; want the one before", got)
	}
	v.strict(2)
	if s, why := knowing(v.seen(), "c0").Voter(0); s.Epoch == "" {
		t.Errorf("another, strict in every record: got no right to vote (%s)", why)
	}

	v = newView(3, start)
	v.config = membership.NewConfig(v.names, maxTTL, true)
	f = knowing(v.seen(), "c0")
	wantPlan(t, f.Next(0, start, p), membership.DoNothing, "")
	wantPlan(t, f.Next(0, start, proposalOf("new", 5000, true)), membership.DoAmend, "")
}

// A founding takes a node after another. What a client that knew the strict cluster
// wrote on the first would spread from there, and that client would then take the
// new cluster for one that an operator founded.
func TestWhoKnewAStrictClusterWritesNothingIntoOneThatIsBeingFounded(t *testing.T) {
	for taken := 1; taken <= 3; taken++ {
		v := newView(5, start)
		v.config = membership.NewConfig(v.names, maxTTL, true)
		for i := taken; i < 5; i++ {
			v.blank(i, start)
		}
		f := knowing(v.seen(), "c0")
		wantPlan(t, f.Next(0, start, proposalOf("new", 5000, false)), membership.DoNothing, "")
		wantPlan(t, f.Next(0, start, proposalOf("new", 5000, true)), membership.DoAmend, "")
		wantPlan(t, v.seen().Next(0, start, proposalOf("new", 5000, false)), membership.DoAmend, "") // it knew none
		wantPlan(t, knowing(v.seen(), "c1").Next(0, start, proposalOf("new", 5000, false)), membership.DoAmend, "")
	}
}
