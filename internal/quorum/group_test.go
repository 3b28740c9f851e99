package quorum

import "testing"

func TestAGroupTakesInNobodyOnceItIsLedOrHasAPlace(t *testing.T) {
	for _, c := range []struct {
		g      Group
		behind int
		want   bool
	}{
		{Group{Undecided: 1}, 0, true},
		{Group{Undecided: 9}, 0, true},
		{Group{Undecided: 1}, 1, false},
		{Group{Undecided: 1, Led: true}, 0, false},
		{Group{Undecided: 1, Place: 7}, 0, false},
		{Group{Undecided: 2, Led: true, Place: 7}, 3, false},
	} {
		if got := c.g.Admits(c.behind); got != c.want {
			t.Errorf("%+v with %d behind admits: %v; want %v", c.g, c.behind, got, c.want)
		}
	}
}

func TestAGroupHasOneLeaderUntilAllAreDecided(t *testing.T) {
	g := Group{Undecided: 4}
	if first, second, third := g.Refused(), g.Refused(), g.Refused(); !first || second || third {
		t.Fatalf("three who were refused lead: %v, %v, %v; want the first only", first, second, third)
	}
	g.Place = 7
	if d := g.Decided(false, true, 2); d != (Decision{}) || !g.Led { // one that had not been refused
		t.Errorf("one is granted beside: %+v, led %v; want nothing to follow", d, g.Led)
	}
	if d := g.Decided(true, false, 2); d != (Decision{Leads: true}) || !g.Led || g.Place != 7 {
		t.Errorf("the leader gives up: %+v, %+v; want the next to lead, at the same place", d, g)
	}
	g.Granted()
	if d := g.Decided(false, true, 0); d != (Decision{}) || g.Led {
		t.Errorf("the next is granted: %+v, led %v; want the last to go by itself", d, g.Led)
	}
	if again := g.Refused(); !again {
		t.Error("the last is refused: it follows; want it to lead")
	}
	if d := g.Decided(true, false, 0); d != (Decision{Over: true, Leave: 7}) || g != (Group{}) {
		t.Errorf("the last gives up: %+v, %+v; want the group to be over, and its place given up", d, g)
	}
}

func TestTheEntryGoesWithTheReleaseWhereTheLastIsGranted(t *testing.T) {
	g := Group{Undecided: 1, Led: false, Place: 7}
	if d := g.Decided(false, true, 0); d != (Decision{Over: true}) {
		t.Errorf("the last is granted: %+v; want its release to give up the place", d)
	}
}

func TestAnEntryIsKeptForThoseWhoWaitByIt(t *testing.T) {
	for _, c := range []struct {
		g     Group
		place int64
		want  Entry
	}{
		{Group{}, NoTicket, EntryNot},
		{Group{}, 7, EntryGoes},
		{Group{Undecided: 1}, 7, EntryGoes},            // who has no place yet is recorded later
		{Group{Undecided: 1, Place: 7}, 7, EntryStays}, // they go by it
		{Group{Undecided: 1, Place: 8}, 7, EntryGoes},  // theirs stays, it is later
		{Group{Undecided: 1, Place: 6}, 7, EntryNot},   // theirs would go with it
		{Group{Undecided: 1, Place: 6}, NoTicket, EntryNot},
	} {
		if got := c.g.EntryAt(c.place); got != c.want {
			t.Errorf("beside %+v a release at %d: %v; want %v", c.g, c.place, got, c.want)
		}
	}
}
