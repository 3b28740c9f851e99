package redlock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/clock"
)

// Clusters whose lists of nodes meet: founders that race, lists that overlap, a node
// in the place of another.

func TestFoundersAgreeOnTheSmallestID(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(4, over)
	for i, id := range []string{"c2", "c1", "c2", "c1"} {
		rec := v.record(id, "r2")
		n := redlock.NoticeOf("n", "r2")
		v.sights[i], v.watches[i] = redlock.SightOf(over, "r2", &rec, 0, n), redlock.WatchOf(n, start)
	}
	if id := v.fleet().Cluster(); id != "" {
		t.Errorf("got cluster %q; want none without a quorum", id)
	}
	p := v.next(0, over)
	wantPlan(t, p, redlock.DoInstall, "founded as cluster c2")
	if p.Record().Cluster() != "c1" {
		t.Errorf("got %q; want the smallest id", p.Record().Cluster())
	}
	wantPlan(t, v.next(1, over), redlock.DoNothing, "")
	if _, why := v.fleet().Seat(1); !strings.Contains(why, "one cluster's id") {
		t.Errorf("got %q; want that no id has a quorum", why)
	}
	v.down(3, over)
	wantPlan(t, v.next(0, over), redlock.DoNothing, "d: connection refused")
}

func TestListsThatOverlapDoNotFound(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	v.names = []string{"c", "d", "e"}
	v.charter = redlock.NewCharter(v.names, maxTTL, false)
	established := redlock.RecordOf("e", "c1", "r", []string{"a", "b", "c"}, maxTTL, 0)
	v.sights[0] = redlock.SightOf(over, "r", &established, 0, redlock.Notice{})
	v.blank(1, over)
	v.blank(2, over)
	for i := range 3 {
		if p := v.next(i, over); p.Do() == redlock.DoInstall {
			t.Errorf("node %d: got an install; want none with a record of other names", i)
		}
		if p := v.admit(i, over); p.Do() == redlock.DoInstall {
			t.Errorf("node %d: got an install by Admit; want none with a record of other names", i)
		}
	}
	wantPlan(t, v.next(1, over), redlock.DoNothing, "same list")
}

func TestReplacingWantsTheRetirementFirst(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(5, over)
	before := slices.Clone(v.names)
	v.names = []string{"a", "b", "c", "d", "f"}
	v.charter = redlock.NewCharter(v.names, maxTTL, false)
	v.blank(4, over)
	mark := func(i int, retired []string, replaced []redlock.Placement, names []string) {
		rec := redlock.RecordOf("e", "c1", "r", names, maxTTL, 0).With(retired, replaced)
		v.sights[i] = redlock.SightOf(over, "r", &rec, 50, redlock.Notice{})
	}
	for i := range 4 {
		mark(i, nil, nil, before)
	}
	wantPlan(t, v.next(4, over), redlock.DoNothing, "Cluster.Retire")
	for i := range 3 {
		mark(i, []string{"e"}, nil, before)
	}
	p := v.next(4, over)
	wantPlan(t, p, redlock.DoPlace, "")
	at, places := p.Places()
	if !slices.Equal(at, []int{0, 1, 2, 3}) || !slices.Equal(places, []redlock.Placement{redlock.PlacementOf("e", "f")}) {
		t.Errorf("got %v at %v; want e -> f on every other member", places, at)
	}
	placed := []redlock.Placement{redlock.PlacementOf("e", "f")}
	for i := range 2 {
		mark(i, []string{"e"}, placed, v.names)
	}
	wantPlan(t, v.next(4, over), redlock.DoPlace, "") // not on a quorum yet
	mark(2, []string{"e"}, placed, v.names)
	p = v.next(4, over)
	wantPlan(t, p, redlock.DoInstall, "")
	if rec := p.Record(); !slices.Equal(rec.Names(), v.names) || !slices.Equal(rec.Retired(), []string{"e"}) || !slices.Equal(rec.Replaced(), placed) {
		t.Errorf("got %+v; want the new list, and the marks with it", rec)
	}
	wantPlan(t, v.next(3, over), redlock.DoAmend, "") // what a quorum has is written where it lacks

	t.Run("the old client's node stays retired", func(t *testing.T) {
		v.names = before
		v.charter = redlock.NewCharter(before, maxTTL, false)
		if state, why := v.fleet().Standing(4); state != redlock.NodeRetired {
			t.Errorf("got %v, %q; want a blank e retired by its name", state, why)
		}
	})
	t.Run("another name finds the place taken", func(t *testing.T) {
		v.names = []string{"a", "b", "c", "d", "g"}
		v.charter = redlock.NewCharter(v.names, maxTTL, false)
		wantPlan(t, v.next(4, over), redlock.DoNothing, "f is not this client's")
	})
}

func TestMarksNeedAQuorumToSpread(t *testing.T) {
	v := newView(5, start)
	rec := v.record("c1", "r").With([]string{"e"}, nil)
	v.sights[0] = redlock.SightOf(start, "r", &rec, 0, redlock.Notice{})
	wantPlan(t, v.next(1, start), redlock.DoNothing, "")
}
