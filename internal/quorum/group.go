package quorum

// Who waits to share a name has a line of its own on the nodes (lua/share.lua), in one
// order with those who wait to be alone. A process has one entry in it, no matter what the
// number of its goroutines. This page is what the client decides of that:
//
//   - who of a process may ask the nodes, and for whom: Admits, Refused, Decided. The
//     first to be refused leads: it asks, waits, and is called. Nobody else asks by
//     the place that it takes, since the nodes call who asks. The others follow it, and go
//     together once it is granted.
//   - which goroutines a place is for: those of the group that took it. Nobody enters a
//     group that has a leader or a place. So later ones take a place of their own, which
//     comes behind an exclusive hold that has been waited for since. Without that, a process whose
//     shared holds overlap would starve another's exclusive one from its old place.
//   - what becomes of the entry: EntryAt, and the place that Decided gives up.
//
// The place is PositionOf the tickets, and RestAfter how the leader rests, as for who
// waits to be alone.

// Group is those goroutines of a process that want to share a name, whose turn has come in
// the process's own line, and whose attempts are not decided. That line moves on when they
// are, not when the holds end.
type Group struct {
	Undecided int   // how many they are
	Led       bool  // one of them waits for the nodes, for all
	Place     int64 // its place in line on the nodes; NoTicket if none
}

// Admits tells whether one more may ask the nodes at once, beside those who do. behind is
// how many stand in the process's line.
func (g *Group) Admits(behind int) bool { return behind == 0 && !g.Led && g.Place == NoTicket }

// Refused tells whether one whom the nodes refused leads from now on; else it follows.
func (g *Group) Refused() (leads bool) {
	leads = !g.Led
	g.Led = true
	return leads
}

// Granted notes that the leader's attempt was granted. All who follow go now, by the
// group's place.
func (g *Group) Granted() { g.Led = false }

// Decision is what follows when one of a group is decided.
type Decision struct {
	Leads bool  // the first who follows leads from now on
	Over  bool  // it was the last: the process's line moves on
	Leave int64 // the place that is given up on the nodes; NoTicket if none
}

// Decided takes in that one of the group is done: granted by the group's place (byPlace),
// by none, or given up. led says that it leads still, and following is how many follow.
func (g *Group) Decided(led, byPlace bool, following int) Decision {
	g.Undecided--
	var d Decision
	if led {
		d.Leads = following > 0
		g.Led = d.Leads
	}
	if g.Undecided > 0 {
		return d
	}
	d.Over = true
	if !byPlace { // else the entry goes with the release
		d.Leave = g.Place
	}
	*g = Group{}
	return d
}

// Entry is what a release does with the process's entry among those who wait to share.
type Entry uint8

// What becomes of it: the modes of release_shared.lua.
const (
	EntryNot   Entry = iota // it is not touched
	EntryGoes               // and an entry of a later place stays
	EntryStays              // and no other who waits to share is called
)

// EntryAt is what the release of a shared hold that was come by at this place does with
// the entry, while this group is undecided: it is kept for those who go by the same place,
// and for those who have a lower one since.
func (g *Group) EntryAt(place int64) Entry {
	switch {
	case place == NoTicket:
		return EntryNot
	case g.Undecided == 0 || g.Place == NoTicket || g.Place > place:
		return EntryGoes
	case g.Place == place:
		return EntryStays
	default:
		return EntryNot
	}
}
