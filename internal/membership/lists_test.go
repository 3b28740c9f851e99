package membership_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

// Clusters whose lists of nodes meet: founders that race, lists that overlap, a node
// in the place of another.

func TestFoundersAgreeOnTheSmallestID(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(4, over)
	for i, id := range []string{"c2", "c1", "c2", "c1"} {
		rec := v.record(id, "r2")
		n := noticeOf("n", "r2")
		v.nodes[i], v.waits[i] = observed(over, "r2", &rec, 0, n), waitOf(n, start)
	}
	if id := v.seen().Cluster(); id != "" {
		t.Errorf("got cluster %q; want none without a quorum", id)
	}
	p := v.next(0, over)
	wantPlan(t, p, membership.DoInstall, "founded as cluster c2")
	if p.Record.Cluster != "c1" {
		t.Errorf("got %q; want the smallest id", p.Record.Cluster)
	}
	wantPlan(t, v.next(1, over), membership.DoNothing, "")
	if _, why := v.seen().Voter(1); !strings.Contains(why, "one cluster's id") {
		t.Errorf("got %q; want that no id has a quorum", why)
	}
	v.down(3, over)
	wantPlan(t, v.next(0, over), membership.DoNothing, "d: connection refused")
}

func TestListsThatOverlapDoNotFound(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	v.names = []string{"c", "d", "e"}
	v.config = membership.NewConfig(v.names, maxTTL, false)
	established := recordOf("e", "c1", "r", []string{"a", "b", "c"}, maxTTL, 0)
	v.nodes[0] = observed(over, "r", &established, 0, membership.Notice{})
	v.blank(1, over)
	v.blank(2, over)
	for i := range 3 {
		if p := v.next(i, over); p.Action == membership.DoInstall {
			t.Errorf("node %d: got an install; want none with a record of other names", i)
		}
		if p := v.admit(i, over); p.Action == membership.DoInstall {
			t.Errorf("node %d: got an install by Admit; want none with a record of other names", i)
		}
	}
	wantPlan(t, v.next(1, over), membership.DoNothing, "same list")
}

func TestReplacingWantsTheRetirementFirst(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(5, over)
	before := slices.Clone(v.names)
	v.names = []string{"a", "b", "c", "d", "f"}
	v.config = membership.NewConfig(v.names, maxTTL, false)
	v.blank(4, over)
	mark := func(i int, retired []string, replaced []membership.Placement, names []string) {
		rec := marked(recordOf("e", "c1", "r", names, maxTTL, 0), retired, replaced)
		v.nodes[i] = observed(over, "r", &rec, 50, membership.Notice{})
	}
	for i := range 4 {
		mark(i, nil, nil, before)
	}
	wantPlan(t, v.next(4, over), membership.DoNothing, "Cluster.Retire")
	for i := range 3 {
		mark(i, []string{"e"}, nil, before)
	}
	p := v.next(4, over)
	wantPlan(t, p, membership.DoPlace, "")
	at, places := p.At, p.Places
	if !slices.Equal(at, []int{0, 1, 2, 3}) || !slices.Equal(places, []membership.Placement{placementOf("e", "f")}) {
		t.Errorf("got %v at %v; want e -> f on every other member", places, at)
	}
	placed := []membership.Placement{placementOf("e", "f")}
	for i := range 2 {
		mark(i, []string{"e"}, placed, v.names)
	}
	wantPlan(t, v.next(4, over), membership.DoPlace, "") // not on a quorum yet
	mark(2, []string{"e"}, placed, v.names)
	p = v.next(4, over)
	wantPlan(t, p, membership.DoInstall, "")
	if rec := p.Record; !slices.Equal(rec.Names, v.names) || !slices.Equal(rec.Retired, []string{"e"}) || !slices.Equal(rec.Replaced, placed) {
		t.Errorf("got %+v; want the new list, and the marks with it", rec)
	}
	wantPlan(t, v.next(3, over), membership.DoAmend, "") // what a quorum has is written where it lacks

	t.Run("the old client's node stays retired", func(t *testing.T) {
		v.names = before
		v.config = membership.NewConfig(before, maxTTL, false)
		if state, why := v.seen().Standing(4); state != membership.Retired {
			t.Errorf("got %v, %q; want a blank e retired by its name", state, why)
		}
	})
	t.Run("another name finds the place taken", func(t *testing.T) {
		v.names = []string{"a", "b", "c", "d", "g"}
		v.config = membership.NewConfig(v.names, maxTTL, false)
		wantPlan(t, v.next(4, over), membership.DoNothing, "f is not this client's")
	})
}

func TestMarksNeedAQuorumToSpread(t *testing.T) {
	v := newView(5, start)
	rec := marked(v.record("c1", "r"), []string{"e"}, nil)
	v.nodes[0] = observed(start, "r", &rec, 0, membership.Notice{})
	wantPlan(t, v.next(1, start), membership.DoNothing, "")
}
