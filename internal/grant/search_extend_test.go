package grant_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// mayExtend tells whether the holder may have its lease lengthened: at first, because a
// release granted a short one, and later as renewals do.
func (sys *system) mayExtend(s *state, p uint8) bool {
	me := &s.processes[p]
	return sys.extends && me.extend == 0 && s.now < me.until
}

// extend asks all nodes to confirm the lock, and to lengthen its lease.
func (sys *system) extend(s *state, p uint8) {
	me := &s.processes[p]
	me.extend = s.now + 1
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		l.confirm, l.gone = quorum.Pending, false
		l.send(message{kind: sendExtend, owner: me.owner, reading: s.now})
	}
}

// extended takes in a node's word on the extension that is out. What a quorum has
// confirmed lasts from when it was sent, and is put back where it is gone.
func (sys *system) extended(s *state, p, n uint8, r answer) {
	me := &s.processes[p]
	if me.phase != holding || r.owner != me.owner || r.reading+1 != me.extend {
		return
	}
	l := &s.columns[n].links[p]
	l.confirm, l.gone = r.outcome, r.gone
	votes := make([]quorum.Vote, sys.nodes)
	for i := range votes {
		votes[i].Outcome = s.columns[i].links[p].confirm
	}
	t := quorum.Count(votes)
	verdict := t.Extension()
	if sys.makes(extendsByOne) && t.Granted > 0 {
		verdict = quorum.Won
	}
	switch verdict {
	case quorum.Won:
		from := r.reading
		if sys.makes(extendsFromReply) {
			from = s.now
		}
		me.until = max(me.until, from+sys.life(askLife))
		sys.reseed(s, p)
	case quorum.Lost:
		me.until = min(me.until, s.now)
	case quorum.Undecided, quorum.Contended, quorum.NoQuorum:
	}
	if t.Pending == 0 {
		me.extend = 0
	}
}

// reseed puts the lock back where it is gone.
func (sys *system) reseed(s *state, p uint8) {
	me := &s.processes[p]
	for n := range sys.nodes {
		if l := &s.columns[n].links[p]; l.gone {
			l.gone = false
			l.send(message{kind: sendReseed, owner: me.owner, number: me.token, reading: s.now})
		}
	}
}

// reseeded takes in a node's word on that. Where it did not put the lock back, it is in
// doubt ever after whether it does.
func (sys *system) reseeded(s *state, p, n uint8, r answer) {
	l := &s.columns[n].links[p]
	if r.outcome == quorum.Granted {
		l.has = r.owner
	} else {
		l.doubt |= sys.bit(r.owner)
	}
}

// confirmationOf is what a reply to an extension or a reseed says.
func confirmationOf(reply int) quorum.Outcome {
	switch reply {
	case scriptmodel.Done:
		return quorum.Granted
	case scriptmodel.NoMember:
		return quorum.Abstained
	default:
		return quorum.Taken
	}
}
