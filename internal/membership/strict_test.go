package membership_test

import (
	"strings"
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
		stays  bool
	}{
		"none is strict":           {func(*view) {}, false, false},
		"a member's":               {func(v *view) { v.strict(0) }, true, true},
		"that of one that is back": {func(v *view) { v.stale(2, 7, over); v.strict(2); v.nodes[2].Record.Gen = 1 }, true, true},
		"of the node itself":       {func(v *view) { v.stale(1, 7, over); v.strict(1); v.nodes[1].Record.Gen = 1 }, true, true},
		"of a founder that raced": {func(v *view) {
			rec := asStrict(v.record("c2", "r"))
			v.nodes[2] = observed(over, "r2", &rec, 0, noticeOf("n", "r2"))
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(3, over)
			v.blank(1, over)
			v.blank(2, over)
			c.change(v)
			p := v.next(1, over)
			if !c.bound {
				wantPlan(t, v.next(0, over), membership.DoInstall, "")
				return
			}
			wantPlan(t, p, membership.DoNothing, "Cluster.Admit")
			wantPlan(t, p, membership.DoNothing, "the record of ")
			p = v.admit(0, over)
			wantPlan(t, p, membership.DoInstall, "")
			if p.Record.Strict != c.stays {
				t.Errorf("admitted: got a record that is strict: %t; want %t, as the cluster's latest", p.Record.Strict, c.stays)
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
			v.nodes[3].Record.Gen = 1 // the others are behind
		}
		p := v.next(1, over)
		wantPlan(t, p, membership.DoInstall, "")
		if p.Record.Strict != strict {
			t.Errorf("the latest configuration strict: %t; got %t in the new record", strict, p.Record.Strict)
		}
	}
}

func TestWhoHasTheOptionGetsNoVoteOfAClusterWithout(t *testing.T) {
	v := newView(3, start)
	v.strict(0)
	for _, option := range []bool{true, false} {
		v.config = membership.NewConfig(v.names, maxTTL, option)
		for i, strict := range []bool{true, false} {
			s, why := v.seen().Voter(i)
			if want := strict || !option; (s.Epoch == "e") != want || (why == "") != want || v.seen().Lax(i) == want {
				t.Errorf("option %t, record strict %t: got %+v, %q; want a vote: %t", option, strict, s, why, want)
			}
			wantPlan(t, v.next(i, start), membership.DoNothing, "") // nobody makes it strict but by a change
		}
	}
}

func TestAPinnedClientFoundsNothingAndJoinsByTheTable(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	v.config.Pin = "c1"
	v.blank(1, over)
	wantPlan(t, v.next(1, over), membership.DoInstall, "")
	v.blank(2, over)
	wantPlan(t, v.next(0, over), membership.DoNothing, "")
	wantPlan(t, v.admit(1, over), membership.DoNothing, "cluster c1, to which this client is pinned")
	v.waits[1] = membership.Wait{}
	wantPlan(t, v.next(1, over), membership.DoNothing, "is not here") // nor does it put a notice
	v = newView(3, over)
	v.config.Pin = "c2"
	if _, why := v.seen().Voter(0); !strings.Contains(why, "belongs to cluster c1") {
		t.Errorf("got %q; want no vote of another cluster", why)
	}
}
