package grant_test

import (
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// stands takes in the reply to a release.
func (sys *system) stands(s *state, p, n uint8, r answer) {
	me, l := &s.processes[p], &s.columns[n].links[p]
	if r.outcome != quorum.Granted { // it was given up
		sys.free(s, p, n, message{kind: sendRelease, mode: scriptmodel.EntryStays, owner: r.owner})
	}
	if !l.expects || r.owner != me.handed {
		return // of an earlier release
	}
	l.expects, l.said, l.place, l.token = false, r.outcome == quorum.Granted, r.ticket, r.token
	if me.owner != r.next || r.next == scriptmodel.Nobody || me.phase != inLine && me.phase != raising {
		return
	}
	if r.token != 0 {
		a := sys.attemptOf(s, p)
		s.columns[n].links[p].has = r.next
		sys.take(a, n, r.token, sys.from(s, n, p, r.reading, grantLife))
		sys.keep(s, p, a)
	}
	if step, _, _ := sys.attemptOf(s, p).Next(); me.phase == inLine && step != grant.Hold && !sys.makes(raisesUntold) {
		sys.finds(s, p)
	}
	sys.drive(s, p)
	if me.phase == inLine && sys.makes(raisesUntold) {
		sys.finds(s, p)
		sys.drive(s, p)
	}
}

// finds takes the place that the nodes said, and has it told to those that said another.
func (sys *system) finds(s *state, p uint8) {
	me := &s.processes[p]
	said, out := make([]grant.Standing, sys.nodes), false
	for n := range said {
		l := &s.columns[n].links[p]
		out = out || l.expects
		if l.said {
			more := int64(l.place)
			if l.token != 0 {
				more = -int64(l.token)
			}
			said[n] = grant.StandingOf(more)
		}
	}
	place, tell, ok := grant.PlaceOf(said, quorum.Size(len(said)))
	switch {
	case ok && me.place == 0:
		me.place = number(place)
	case ok:
		place = int64(me.place)
		_, tell, _ = grant.PlaceOf(said, quorum.Size(len(said)))
	case !out && me.phase == inLine:
		sys.goBack(s, p)
		return
	default:
		return
	}
	if sys.makes(leavesPlacesUnequal) {
		return
	}
	a := sys.attemptOf(s, p)
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		if !l.expects && tell&(1<<n) != 0 && a.Sent&(1<<n) == 0 && int64(l.place) != place && int64(l.token) < place {
			a.Ask(1 << n)
			a.Told |= 1 << n
			l.send(message{kind: sendAsk, owner: me.owner, place: me.place, reading: s.now})
		}
	}
	sys.keep(s, p, a)
}

// goBack begins anew where too few nodes said a place.
func (sys *system) goBack(s *state, p uint8) {
	old := s.processes[p].owner
	for n := range uint8(sys.nodes) {
		sys.free(s, p, n, message{kind: sendRelease, mode: scriptmodel.EntryStays, owner: old})
	}
	sys.begin(s, p)
}

// pushed takes in a push.
func (sys *system) pushed(s *state, p, n uint8, t told) {
	me := &s.processes[p]
	name := func(o owner) string { return string('a' + rune(o)) }
	before := ""
	if t.old && !sys.makes(anyEpochCounts) {
		before = "before"
	}
	grants := grant.Push{Epoch: before, Owner: name(t.owner)}.Grants("", name(me.owner)) || sys.makes(anyOwnerCounts)
	switch open := me.phase == inLine || me.phase == raising; {
	case open && grants:
		s.columns[n].links[p].has = t.owner
		a := sys.attemptOf(s, p)
		sys.take(a, n, t.token, sys.from(s, n, p, t.reading, grantLife))
		sys.keep(s, p, a)
		sys.drive(s, p)
	case open && sys.makes(endedPushIgnored):
	default:
		sys.called(s, p, n)
	}
}

// called takes in a node's call.
func (sys *system) called(s *state, p, n uint8) {
	switch s.processes[p].phase {
	case inLine:
		a := sys.attemptOf(s, p)
		a.Hinted |= 1 << n
		sys.keep(s, p, a)
		sys.drive(s, p)
	case done:
		if l := &s.columns[n].links[p]; !l.full() {
			o := owner(1 + int(p)*sys.owners()) // any of its own
			if s.columns[n].node.Holds(0, o) {
				return
			}
			sys.free(s, p, n, message{kind: sendRelease, mode: scriptmodel.EntryGoes, owner: o, byID: true})
		}
	}
}
