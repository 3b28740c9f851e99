package membership_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/testkit"
)

// beside is three nodes of "c1" at generation 2, of which the first has what another client founded.
func beside(o membership.Observation) *view {
	v := newView(3, start)
	for i := range 3 {
		rec := listed(2, nodeNames[:3], nodeNames[:2])
		v.nodes[i] = observed(start, "r", &rec, 7, membership.Notice{})
	}
	v.nodes[0] = o
	if n, stands := o.StandingNotice(); stands {
		v.waits[0] = membership.Wait{Notice: n, Since: start}
	}
	return v
}

// recorded is a node with the record of another cluster, of this list.
func recorded(cluster string, gen int, maxTTL time.Duration, names ...string) membership.Observation {
	rec := recordOf("e2", cluster, "r2", names, maxTTL, 0)
	rec.Gen = gen
	return observed(start, "r2", &rec, 9000, membership.Notice{})
}

// blankBy is a blank node with this claim.
func blankBy(c membership.Claim) membership.Observation {
	return observed(start, "r2", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: claimText(c)})
}

func TestWhatWasFoundedBesideTheClusterIsSeized(t *testing.T) {
	known := claimBy("c1", 2, nodeNames[:3]...)
	restarted, refused := blankBy(claimBy("c2", 5, "a")), blankBy(claimBy("c2", 5, "a"))
	restarted.Recorded, restarted.Record = true, listed(2, nodeNames[:3], nodeNames[:2])
	refused.Refused, refused.Cause = true, "its record is damaged"
	for what, c := range map[string]struct {
		o     membership.Observation
		known membership.Claim
		lease time.Duration // of the claim; 0: it is not seized
	}{
		"a record of a list within":               {recorded("c2", 0, maxTTL, "a"), known, maxTTL},
		"of a longer lease":                       {recorded("c2", 0, time.Minute, "a", "b"), known, time.Minute},
		"of a shorter lease":                      {recorded("c2", 0, time.Second, "a"), leasing(known, time.Minute), time.Minute},
		"a claim of a list within":                {blankBy(leasing(claimBy("c2", 5, "a"), time.Minute)), known, time.Minute},
		"a claim of a shorter lease":              {blankBy(leasing(claimBy("c2", 5, "a", "c"), time.Second)), known, maxTTL},
		"a record of another list":                {recorded("c2", 0, maxTTL, "a", "x"), known, 0},
		"a record of a longer list":               {recorded("c2", 0, maxTTL, nodeNames[:4]...), known, 0},
		"a claim of another list":                 {blankBy(claimBy("c2", 5, "a", "x")), known, 0},
		"a record that it was founded from":       {recorded("c2", 4, maxTTL, "a", "x"), from(known, "c2 4"), maxTTL},
		"a record later than it was founded":      {recorded("c2", 5, maxTTL, "a", "x"), from(known, "c2 4"), 0},
		"a record of the cluster":                 {recorded("c1", 9, maxTTL, "a"), known, 0},
		"a claim of the cluster":                  {blankBy(claimBy("c1", 9, "a")), known, 0},
		"a claim that is to be replaced":          {blankBy(claimBy("c2", 4, "a")), from(known, "c2 4"), 0},
		"a claim later than it was founded":       {blankBy(claimBy("c2", 5, "a", "x")), from(known, "c2 4"), 0},
		"a claim that can't be read":              {observed(start, "r2", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: "x"}), known, 0},
		"a claim beside a record of the cluster":  {restarted, known, 0},
		"a claim beside a record that is refused": {refused, known, 0},
		"a record of the list itself":             {recorded("c2", 0, maxTTL, nodeNames[:3]...), known, 0},
		"a plain notice":                          {observed(start, "r2", nil, 0, noticeOf("n", "r2")), known, 0},
		"a claim of an identity before":           {observed(start, "r3", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: claimText(claimBy("c2", 5, "a"))}), known, 0},
		"a record, to who knows another list":     {recorded("c2", 0, maxTTL, "a"), claimBy("c1", 2, nodeNames[:4]...), 0},
		"a record, to who knows nothing":          {recorded("c2", 0, maxTTL, "a"), membership.Claim{}, 0},
		"a record, to who knows a later":          {recorded("c2", 0, maxTTL, "a"), claimBy("c1", 3, nodeNames[:3]...), 0},
		"a record, to who knows an earlier":       {recorded("c2", 0, maxTTL, "a"), claimBy("c1", 1, nodeNames[:3]...), 0},
		"a record, to who knows another cluster":  {recorded("c2", 0, maxTTL, "a"), claimBy("c3", 2, nodeNames[:3]...), 0},
	} {
		v := beside(c.o)
		p := v.knowing(c.known, 0, start)
		if got := p.Action == membership.DoSeize; got != (c.lease != 0) {
			t.Errorf("%s: got action %d (%s); want it seized: %t", what, p.Action, p.Cause, c.lease != 0)
			continue
		}
		if c.lease == 0 {
			continue
		}
		want := leasing(c.known, c.lease)
		want.Seized = true
		if p.Claim != claimText(want) {
			t.Errorf("%s: got the claim %q; want %q", what, p.Claim, claimText(want))
		}
		if p.Notice.Run != "r2" || p.Notice.Claim != c.o.Notice.Claim || p.Epoch != c.o.Record.Epoch || p.Cause == "" {
			t.Errorf("%s: got %+v, epoch %q, cause %q; want what was read", what, p.Notice, p.Epoch, p.Cause)
		}
	}
}

func TestWhatWasFoundedIsSeizedWithAQuorumOnlyOrByAdmit(t *testing.T) {
	known := claimBy("c1", 2, nodeNames[:3]...)
	restarted := func(v *view) { v.nodes[2].Run = "r3" }
	for what, c := range map[string]struct {
		change func(v *view)
		want   bool
		apart  bool
	}{
		"two of three":        {func(*view) {}, true, false},
		"one does not answer": {func(v *view) { v.down(2, start) }, false, false},
		"one restarted":       {restarted, false, false},
		"one is behind":       {func(v *view) { v.nodes[2].Record.Gen = 1 }, false, false},
		"one is blank":        {func(v *view) { v.blank(2, start) }, false, false},
		"one is of a third":   {func(v *view) { v.member(2, "c3", 7, start) }, false, true},
	} {
		for _, o := range []membership.Observation{recorded("c2", 0, maxTTL, "a"), blankBy(claimBy("c2", 0, "a"))} {
			v := beside(o)
			c.change(v)
			if p := v.knowing(known, 0, start); (p.Action == membership.DoSeize) != c.want {
				t.Errorf("%s: got action %d (%s); want it seized: %t", what, p.Action, p.Cause, c.want)
			}
			for _, known := range []membership.Claim{known, {}} {
				if known.Cluster == "" && c.apart {
					continue // else a node's word is enough for an operator
				}
				if p := v.by(known).Next(0, start, proposalOf("new", 5000, true)); p.Action != membership.DoSeize {
					t.Errorf("%s, an operator: got action %d (%s); want it seized", what, p.Action, p.Cause)
				}
			}
			if p := v.by(membership.Claim{}).Next(0, start, proposalOf("new", 5000, false)); p.Action == membership.DoSeize {
				t.Errorf("%s, seen by nobody: got it seized", what)
			}
		}
	}
	v := newView(1, start) // the list of what was founded goes on with it
	v.nodes[0] = recorded("c2", 0, maxTTL, "a")
	v.nodes[0].Run, v.nodes[0].Record.Run = "r", "r"
	wantPlan(t, v.admit(0, start), membership.DoNothing, "")
}

// A node that is being added is not the list's yet: its record may be in use.
func TestANodeThatIsBeingAddedIsNotSeized(t *testing.T) {
	o := byRecord("c1", 2, nodeNames[:3]...)
	o.Record.From = "c2 4"
	p := idleParty(o, o, o, observed(0, "r2", nil, 0, membership.Notice{}))
	c, err := p.Plans(t.Context(), membership.Wanted{Add: []string{"d"}})
	testkit.Must(t, err)
	p.nodes[3].show(recorded("c2", 4, maxTTL, "d", "x")) // somebody was quicker
	_, _ = p.Change(t.Context(), &c, func() string { return "fresh" })
	v := p.View()
	if !reflect.DeepEqual(v.Known, from(claimBy("c1", 2, nodeNames[:3]...), "c2 4")) {
		t.Fatalf("got %+v known; want the list without it", v.Known)
	}
	wantPlan(t, v.Next(3, p.clock.Now(), p.Proposal()), membership.DoNothing, "belongs to another cluster (c2)")
}

// What stood there before the server restarted, with its data, stands no more.
func TestAClaimOfAnIdentityBeforeIsNone(t *testing.T) {
	known := claimBy("c1", 2, nodeNames[:3]...)
	gone := membership.Notice{Nonce: "n", Run: "r1", Claim: claimText(claimBy("c2", 0, "a"))}
	o := recorded("c2", 0, maxTTL, "a")
	o.Notice = gone
	if p := beside(o).knowing(known, 0, start); p.Action != membership.DoSeize || p.Notice.Claim != "" {
		t.Errorf("got action %d over the claim %q; want it seized over none", p.Action, p.Notice.Claim)
	}
	gone.Claim = claimText(claimBy("c1", 9, "a"))
	v := beside(observed(start, "r3", nil, 0, gone))
	if p := v.knowing(known, 0, start); p.Action != membership.DoNotice || p.Notice != (membership.Notice{}) || p.Claim != claimText(known) {
		t.Errorf("got action %d, claim %q over %+v; want its own claim over none", p.Action, p.Claim, p.Notice)
	}
}

// Somebody may put a notice on a node that is a member to all others.
func TestTheNoticeOfAMemberCountsOnlyWhereItsClusterHasNoQuorum(t *testing.T) {
	hour := membership.Notice{Nonce: "n", Run: "r", Claim: claimText(leasing(claimBy("c1", 0, nodeNames[:3]...), time.Hour))}
	v := newView(3, start)
	v.blank(0, start)
	v.nodes[1].Notice = hour
	if p := v.next(0, start); p.Until != start.Add(maxTTL) {
		t.Errorf("a quorum: got a wait of %v; want %v", p.Until.Sub(start), maxTTL)
	}
	v.blank(2, start)
	if p := v.next(0, start); p.Until != start.Add(time.Hour) {
		t.Errorf("no quorum: got a wait of %v; want an hour", p.Until.Sub(start))
	}
	v = newView(5, start)
	v.blank(0, start)
	v.stale(1, 7, start) // it is of the cluster, and no member
	v.nodes[1].Notice.Claim = hour.Claim
	if p := v.next(0, start); p.Until != start.Add(time.Hour) {
		t.Errorf("one that restarted: got a wait of %v; want an hour", p.Until.Sub(start))
	}
}

func TestTheMarkOfASeizingStaysWhenTheClaimIsReplaced(t *testing.T) {
	seized := claimBy("c1", 2, nodeNames[:3]...)
	seized.Seized, seized.Lease = true, time.Minute
	for _, c := range []struct{ mine, want time.Duration }{{maxTTL, time.Minute}, {time.Hour, time.Hour}} {
		v := beside(blankBy(seized))
		known := leasing(claimBy("c1", 3, nodeNames[:3]...), c.mine)
		want := leasing(known, c.want)
		want.Seized = true
		p := v.knowing(known, 0, start)
		wantPlan(t, p, membership.DoNotice, "")
		if p.Claim != claimText(want) {
			t.Errorf("got the claim %q; want %q", p.Claim, claimText(want))
		}
		v = beside(blankBy(want))
		if p := v.knowing(known, 0, start); p.Action == membership.DoNotice {
			t.Errorf("got the claim %q a second time", p.Claim)
		}
	}
}

// Clients of the list before are served until the next change, and so they count no vote either.
func TestClientsOfTheListBeforeCountNoVoteBesideWhatAnOldListFounded(t *testing.T) {
	p := membership.NewTracker(membership.NewConfig(nodeNames[:3], maxTTL, false), "new", clock.New())
	shows(p, 0, 1, recorded("c2", 0, maxTTL, "a"))
	for i := 1; i < 3; i++ {
		rec := listed(2, nodeNames[:4], nodeNames[:3])
		shows(p, i, clock.Instant(1+i), observed(0, "r", &rec, 7, membership.Notice{}))
	}
	if _, why := p.View().Voter(1); why != "" {
		t.Fatalf("got %q; want it served", why)
	}
	if err := p.Claimed(t.Context(), time.Second, 0); err == nil || !strings.Contains(err.Error(), "a has another cluster's record") {
		t.Errorf("got %v; want no vote to count", err)
	}
	if pl := p.View().Next(0, start, proposalOf("new", 5000, false)); pl.Action != membership.DoSeize {
		t.Errorf("got action %d; want it seized by the quorum that serves this client", pl.Action)
	}
}
