package grant_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// life is the lease of a kind of grant.
func (sys *system) life(ticks tick) tick {
	if sys.time == 0 {
		return 1
	}
	return ticks
}

// execute makes the node do what a message says. heard tells whether the told processes
// hear it.
func (sys *system) execute(s *state, p, n uint8, m message, heard bool) (a answer) {
	c := &s.columns[n]
	node := &c.node
	epoch := m.epoch()
	a = answer{kind: m.kind, owner: m.owner, next: m.next, reading: m.reading}
	switch m.kind {
	case sendTry:
		reply := sys.try(s, n, m)
		a.outcome, a.token = outcomeOf(reply), number(max(reply, 0))
	case sendTicket, sendAsk:
		ask := scriptmodel.AskIn{
			Ask: scriptmodel.Ask{
				Acquire: scriptmodel.Acquire{Owner: m.owner, Life: sys.life(askLife), Hint: m.number, Epoch: epoch},
				Waiter:  scriptmodel.Waiter(p), Place: m.place,
			},
			Push: sys.takesPushes(p), Reading: m.reading, Flaw: sys.flaw,
		}
		reply, more := node.AskIn(s.now, ask)
		a.outcome = outcomeOf(reply)
		if reply > 0 {
			a.token = number(reply)
		}
		if reply < 0 && m.place == 0 {
			a.ticket = number(more)
		}
	case sendRaise:
		reply := node.Raise(scriptmodel.Raise{Owner: m.owner, Token: m.number, Epoch: epoch}, sys.flaw)
		switch {
		case reply == scriptmodel.Done:
			a.outcome, a.token = quorum.Granted, m.number
		case reply > scriptmodel.Done:
			a.outcome, a.token = quorum.Taken, number(reply)
		default:
			a.outcome = quorum.Taken
		}
	case sendPass:
		if old := node.Keys[0].Owner; sys.makes(passesAnyKey) && old != scriptmodel.Nobody {
			node.Keys[0].Owner = m.owner
		}
		reply := node.Pass(s.now, scriptmodel.Pass{
			Acquire: scriptmodel.Acquire{Owner: m.next, Life: sys.life(askLife), Hint: m.number, Epoch: epoch}, Old: m.owner,
		})
		a.outcome, a.token = outcomeOf(reply), number(max(reply, 0))
	case sendExtend:
		reply := node.Extend(s.now, scriptmodel.Extend{Owner: m.owner, Life: sys.life(askLife), Epoch: epoch})
		a.outcome, a.gone = confirmationOf(reply), reply == scriptmodel.Refused
	case sendReseed:
		a.outcome = confirmationOf(node.Reseed(s.now, scriptmodel.Reseed{Owner: m.owner, Life: sys.life(askLife), Token: m.number, Epoch: epoch}, sys.flaw))
	case sendHand:
		sys.hand(s, p, n, m, heard, &a)
	case sendRelease:
		sys.release(s, p, n, m, heard)
	}
	return a
}

// outcomeOf is what a reply to an acquire says.
func outcomeOf(reply int) quorum.Outcome {
	switch {
	case reply > 0:
		return quorum.Granted
	case reply == scriptmodel.Abstained:
		return quorum.Abstained
	case reply == scriptmodel.Dead:
		return quorum.Failed
	default:
		return quorum.Taken
	}
}

func (sys *system) hand(s *state, p, n uint8, m message, heard bool, a *answer) {
	c := &s.columns[n]
	node := &c.node
	deaf, epoch := node.Deaf, m.epoch()
	out := node.Hand(s.now, scriptmodel.Hand{
		Owner: m.owner, Hint: m.number, Epoch: epoch, Goes: m.mode != handsOff, Calls: m.mode == callsAs, Waiter: scriptmodel.Waiter(p), Reading: m.reading,
		Next: m.next, Stood: m.stood, Life: sys.life(grantLife), Flaw: sys.flaw,
	})
	node.Called = 0 // who lives gives signs of life
	if sys.makes(passesOverDeaf) {
		for w := range sys.processes {
			if deaf&(1<<w) != 0 {
				node.Silence(scriptmodel.Waiter(w))
			}
		}
	}
	a.outcome = quorum.Granted
	switch {
	case out.More > 0:
		a.ticket = number(out.More)
	case out.More < 0:
		a.token = number(-out.More)
	}
	if out.Push.To != scriptmodel.NoWaiter && heard {
		c.links[out.Push.To].push(told{owner: out.Push.Owner, token: out.Push.Token, reading: out.Push.Reading})
	}
	sys.call(c, out.Woken, heard && !sys.makes(handsInPeace))
}

func (sys *system) call(c *column, w scriptmodel.Waiter, heard bool) {
	if w != scriptmodel.NoWaiter && heard {
		c.links[w].hint = true
	}
}

func (sys *system) release(s *state, p, n uint8, m message, heard bool) {
	c := &s.columns[n]
	r := scriptmodel.LineRelease{
		Release: scriptmodel.Release{Owner: m.owner}, Waiter: scriptmodel.Waiter(p), Entry: m.mode,
		Push: sys.takesPushes(p) && !m.byID, Reading: m.reading, Place: m.place, Next: m.next, Flaw: sys.flaw,
	}
	if m.tomb && !sys.makes(noTombstones) {
		r.Tombstone = 1
		if sys.time != 0 {
			r.Tombstone = scriptmodel.Forever - 1 - s.now
		}
	}
	if sys.makes(givesBackInPeace) && m.mode == scriptmodel.EntryStays || sys.makes(leavesInPeace) && m.mode == scriptmodel.EntryGoes {
		r.Flaw |= scriptmodel.CallsNobody
	}
	var woken scriptmodel.Waiter
	switch {
	case sys.isStranger(p) && sys.foreign: // a DEL tells nobody
		c.node.Release(s.now, r.Release)
		woken = scriptmodel.NoWaiter
	case sys.isStranger(p):
		r.Waiter = scriptmodel.NoWaiter
		_, woken = c.node.ReleaseIn(s.now, r)
	default:
		_, woken = c.node.ReleaseIn(s.now, r)
	}
	c.node.Called = 0
	sys.call(c, woken, heard)
}
