package membership_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

// listed is a member's record of that generation.
func listed(gen int, names, before []string) membership.Record {
	r := recordOf("e", "c1", "r", names, maxTTL, 7)
	if r.Gen, r.Before = gen, before; before != nil {
		r.BeforeMaxTTL = maxTTL
	}
	return r
}

func TestANodeVotesForItsListAndTheOneBeforeUntilTheNextChange(t *testing.T) {
	ab, abc, abd, abcd := nodeNames[:2], nodeNames[:3], []string{"a", "b", "d"}, nodeNames[:4]
	settled := func(r membership.Record) membership.Record {
		r.Settled = true
		return r
	}
	for _, c := range []struct {
		what string
		rec  membership.Record
		list []string
		want membership.State
	}{
		{"the first list", listed(0, abc, nil), abc, membership.Member},
		{"the first list, by other names", listed(0, abc, nil), abd, membership.Misconfigured},
		{"the first list, once a change has begun", settled(listed(0, abc, nil)), abc, membership.Member},
		{"other names, once a change has begun", settled(listed(0, abc, nil)), abd, membership.Misconfigured},
		{"its list", listed(4, abc, ab), abc, membership.Member},
		{"the list before", listed(4, abc, ab), ab, membership.Member},
		{"the list before, once the next change has begun", settled(listed(4, abc, ab)), ab, membership.Misconfigured},
		{"its list, then", settled(listed(4, abc, ab)), abc, membership.Member},
		{"a list of as many", listed(4, abc, ab), abd, membership.Misconfigured},
		{"the next list", listed(4, abc, ab), abcd, membership.Misconfigured},
	} {
		nodes := make([]membership.Observation, len(c.list))
		for i := range nodes {
			nodes[i] = observed(start, "r", &c.rec, 0, membership.Notice{})
		}
		v := membership.NewView(membership.NewConfig(c.list, maxTTL, false), nodes, make([]membership.Wait, len(nodes)))
		got, why := v.Standing(0)
		if got != c.want {
			t.Errorf("%s: got %v, %q; want %v", c.what, got, why, c.want)
		}
		if got == membership.Misconfigured && !strings.Contains(why, "a, b") {
			t.Errorf("%s: got %q; want the list in it", c.what, why)
		}
	}
}

// four is a view of four nodes, of the list of generation 2 that came from five.
func four(now clock.Instant) *view {
	v := newView(4, now)
	for i := range v.nodes {
		rec := listed(2, nodeNames[:4], nodeNames[:])
		rec.Strict, rec.BeforeMaxTTL = true, maxTTL/2
		v.nodes[i] = observed(now, "r", &rec, 50, membership.Notice{})
	}
	return v
}

func TestAMemberThatIsBehindIsBroughtUpToDate(t *testing.T) {
	v := four(start)
	rec := listed(1, nodeNames[:], nodeNames[:4])
	v.nodes[3] = observed(start, "r", &rec, 3, membership.Notice{}) // votes for this client, by its list before
	old := listed(0, nodeNames[:3], nil)
	v.nodes[2] = observed(start, "r", &old, 3, membership.Notice{})
	if state, why := v.seen().Standing(2); state != membership.Behind {
		t.Errorf("got %v, %q; want it behind", state, why)
	}
	for _, i := range []int{2, 3} {
		p := v.next(i, start)
		wantPlan(t, p, membership.DoForce, "")
		if r := p.Record; r.Gen != 2 || r.Base != 7 || !slices.Equal(r.Names, nodeNames[:4]) || !slices.Equal(r.Before, nodeNames[:]) || !r.Strict || r.MaxTTL != maxTTL || r.BeforeMaxTTL != maxTTL/2 {
			t.Errorf("node %d: got %+v; want the latest configuration, and its base", i, r)
		}
	}
	wantPlan(t, v.next(0, start), membership.DoNothing, "")
}

func TestAJoinerCountsByEachListThatHasIt(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := four(over)
	v.blank(1, over)
	v.down(3, over)
	wantPlan(t, v.next(1, over), membership.DoNothing, "every node must answer") // two of four, and three of five are needed
	v = four(over)
	v.blank(1, over)
	rec := v.nodes[0].Record
	rec.Settled, rec.Ballot, rec.Proposed = true, 3, membership.Proposed{Ballot: 2, Configuration: listed(0, nodeNames[:3], nil).Configuration}
	v.nodes[0] = observed(over, "r", &rec, 60, membership.Notice{})
	p := v.next(1, over)
	wantPlan(t, p, membership.DoInstall, "")
	if r := p.Record; r.Gen != 2 || !r.Settled || r.Ballot != 3 || r.Proposed.Ballot != 2 || r.Base != 60 || !slices.Equal(r.Before, nodeNames[:]) || !r.Strict || r.BeforeMaxTTL != maxTTL/2 {
		t.Errorf("got %+v; want all that is known of the configurations", r)
	}
	wantPlan(t, v.admit(1, start+1), membership.DoWait, "") // a change counts on the wait
}

func TestANodeThatTheListDoesNotHaveIsNotTakenIn(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(4, over)
	for i := range 3 {
		rec := listed(2, nodeNames[:3], nodeNames[:4])
		v.nodes[i] = observed(over, "r", &rec, 50, membership.Notice{})
	}
	v.blank(3, over)
	if p := v.next(3, over); p.Action != membership.DoNothing || !p.Misfit || !strings.Contains(p.Cause, "nodes change --add") {
		t.Errorf("got %+v; want it left out, and what takes it in", p)
	}
}

func TestBeyondTheTableTheListInForceIsFoundedAndNoOther(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(2, over)
	rec := listed(1, nodeNames[:3], nodeNames[:2])
	v.nodes[0] = observed(over, "r", &rec, 50, membership.Notice{})
	v.blank(1, over)
	wantPlan(t, v.next(1, over), membership.DoNothing, "the record of a has another list, a, b, c")
	rec = listed(1, nodeNames[:2], nodeNames[:3]) // c, which was taken out, has no say
	v.nodes[0] = observed(over, "r", &rec, 50, membership.Notice{})
	wantPlan(t, v.next(0, over), membership.DoInstall, "")
	if p := v.next(0, over).Record; p.Cluster != "new" || p.Gen != 0 || p.Before != nil || !slices.Equal(p.Names, nodeNames[:2]) {
		t.Errorf("got %+v; want another cluster's first generation, of the list in force", p)
	}
	rec.Proposed = membership.Proposed{Ballot: 2, Configuration: membership.Configuration{Names: nodeNames[:2], MaxTTL: 2 * maxTTL}}
	v.nodes[0] = observed(over.Add(maxTTL), "r", &rec, 50, membership.Notice{})
	v.blank(1, over.Add(maxTTL))
	if p := v.next(0, over.Add(maxTTL)).Record; p.MaxTTL != maxTTL || p.BeforeMaxTTL != 2*maxTTL || !slices.Equal(p.Before, nodeNames[:2]) {
		t.Errorf("got %+v; want the MaxTTL in force, and what was proposed as the one before", p)
	}
}
