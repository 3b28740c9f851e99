package quorum_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

type yieldQueue = func(search.Step, queueState)

// Next: what is under way, what processes decide, and what befalls them.
func (sys *queueSystem) Next(s queueState, yield func(search.Step, queueState)) {
	if s.broken != 0 {
		return
	}
	sys.steps(&s, func(st search.Step, next queueState) {
		if sys.lean {
			sys.tidy(&next)
		}
		yield(st, next)
	})
}

func (sys *queueSystem) steps(s *queueState, yield yieldQueue) {
	for p := range sys.processes {
		for n := range uint8(sys.nodes) {
			sys.arrives(s, p, n, yield)
			if sys.passes(p) {
				sys.passArrives(s, p, n, yield)
			}
		}
		sys.decides(s, p, yield)
	}
	for n := range uint8(sys.nodes) {
		sys.remembers(s, n, yield)
	}
}

// remembers yields what becomes of a node's memory: one at a time forgets, and
// votes again when all that it may have promised is over, as membership has it.
// Meanwhile those who wait have told it so (internal/queue, poll.go), whether they stand on a
// quorum yet or not. Or a key goes, which leaves its owner a quorum.
func (sys *queueSystem) remembers(s *queueState, n uint8, yield yieldQueue) {
	node := &s.columns[n].node
	if node.Epoch == 0 {
		if sys.owesNothing(s, n) {
			next := *s
			next.columns[n].node.Epoch = epoch
			for p := range sys.processes {
				if me := &next.processes[p]; (me.phase == queueBid || me.phase == queueRest) && !sys.makes(rejoinsBlank) {
					next.columns[n].node.LookAt(scriptmodel.Waiter(p), me.place)
				}
			}
			yield(search.Step{Kind: stepRejoin, B: n}, next)
		}
		return
	}
	if s.dropped < sys.drops && sys.on(s, node.Keys[0].Owner) > quorum.Size(sys.nodes) {
		next := *s
		next.dropped++
		next.columns[n].node.Drop(0)
		p, _ := claimOf(node.Keys[0].Owner)
		yield(search.Step{Kind: stepDropKey, A: p, B: n}, next)
	}
	if s.forgot == sys.forgets {
		return
	}
	for i := range sys.nodes {
		if s.columns[i].node.Epoch == 0 {
			return
		}
	}
	next := *s
	next.forgot++
	next.columns[n].node = scriptmodel.Waiting{Deaf: node.Deaf}
	sys.vouch(&next, int(n))
	yield(search.Step{Kind: stepForget, B: n}, next)
}

// on is how many nodes have the owner's key, and are not about to give it back.
func (sys *queueSystem) on(s *queueState, o scriptmodel.Owner) (nodes int) {
	if o == scriptmodel.Nobody {
		return 0
	}
	p, claim := claimOf(o)
	for n := range sys.nodes {
		c := &s.columns[n]
		stays := c.node.Holds(0, o)
		for _, m := range c.links[p].sent {
			stays = stays && (!m.frees() || m.claim() != claim)
		}
		nodes += int(boolean(stays))
	}
	return nodes
}

// owesNothing tells whether nobody holds, or may come to hold, by what a node has
// forgotten, and nothing is under way to it.
func (sys *queueSystem) owesNothing(s *queueState, n uint8) bool {
	for p := range sys.processes {
		l := &s.columns[n].links[p]
		switch s.processes[p].phase {
		case queueHolds, queuePass:
			return false
		}
		if l.vote == quorum.Granted || l.reply.outcome == quorum.Granted || l.sent[0].sent() {
			return false
		}
	}
	return true
}

// arrives yields what becomes of the line between a process and a node.
func (sys *queueSystem) arrives(s *queueState, p, n uint8, yield yieldQueue) {
	l := &s.columns[n].links[p]
	if l.sent[0].sent() && !l.sent[0].hands() && l.reply.pass == 0 {
		next := *s
		woken := sys.deliver(&next, p, n)
		if woken != scriptmodel.NoWaiter {
			if sys.lost > s.lost {
				without := next
				without.lost++
				yield(search.Step{Kind: stepLoseHint, A: p, B: n}, without)
			}
			next.columns[n].links[woken].hint = true
		}
		yield(search.Step{Kind: stepDeliver, A: p, B: n}, next)
	}
	if l.reply.outcome != quorum.Pending && s.processes[p].phase != queueDead {
		next := *s
		sys.hear(&next, p, n)
		yield(search.Step{Kind: stepHear, A: p, B: n}, next)
	}
	if l.hint {
		next := *s
		next.columns[n].links[p].hint = false
		sys.hinted(&next, p, n)
		yield(search.Step{Kind: stepHint, A: p, B: n}, next)
	}
	sys.calls(s, p, n, yield)
	sys.told(s, p, n, yield)
	mine := valueOf(p, 0) // who dies does not pass the name on
	if node := &s.columns[n].node; s.processes[p].phase == queueDead && (node.Lives(scriptmodel.Waiter(p)) || node.Holds(0, mine) && !l.sent[0].sent()) {
		next := *s
		next.columns[n].node.Live &^= 1 << p
		if node.Holds(0, mine) { // its lease ends
			next.columns[n].node.Drop(0)
		}
		yield(search.Step{Kind: stepSilence, A: p, B: n}, next)
	}
}

// told yields that a node hears of a place that it does not know: its ask came too
// late for its attempt, and a look brings it. Asks and looks keep their order.
func (sys *queueSystem) told(s *queueState, p, n uint8, yield yieldQueue) {
	me := &s.processes[p]
	if !sys.tells || me.phase != queueBid && me.phase != queueRest || s.columns[n].node.Entered(scriptmodel.Waiter(p)) {
		return
	}
	next := *s
	next.columns[n].node.LookAt(scriptmodel.Waiter(p), me.place)
	yield(search.Step{Kind: stepTell, A: p, B: n}, next)
}

// calls yields what becomes of the connection over which a node calls a process
// that lives: it breaks, and with it what is on its way is lost; and it is made anew.
func (sys *queueSystem) calls(s *queueState, p, n uint8, yield yieldQueue) {
	node, me := &s.columns[n].node, &s.processes[p]
	switch {
	case sys.breaks == 0 || me.phase == queueDead:
	case node.Deaf&(1<<p) != 0:
		next := *s
		next.columns[n].node.Deaf &^= 1 << p
		if !sys.makes(mendsInPeace) {
			sys.renewed(&next, p, n)
		}
		yield(search.Step{Kind: stepMend, A: p, B: n}, next)
	case s.cut < sys.breaks && (me.phase == queueTicket || me.phase == queueBid || me.phase == queueRest):
		next := *s
		next.cut++
		next.columns[n].node.Deaf |= 1 << p
		next.columns[n].links[p].hint = false
		yield(search.Step{Kind: stepBreak, A: p, B: n}, next)
	}
}

// decides yields what a process does by itself.
func (sys *queueSystem) decides(s *queueState, p uint8, yield yieldQueue) {
	do := func(kind uint8, change func(*queueState)) {
		next := *s
		change(&next)
		yield(search.Step{Kind: kind, A: p}, next)
	}
	me := &s.processes[p]
	waits := me.phase == queueTicket || me.phase == queueBid || me.phase == queueRest
	switch me.phase {
	case queueIdle:
		do(stepQueueBegin, func(s *queueState) { sys.begin(s, p) })
	case queueTicket, queueBid:
		if !me.all && !sys.makes(onlyHinted) {
			do(stepGather, func(s *queueState) { sys.ask(s, p, true) })
		}
	case queueRest:
		if me.split && sys.room(s, p) {
			do(stepAgain, func(s *queueState) { sys.attempt(s, p, 0) })
		} else if sys.polls && sys.room(s, p) {
			do(stepPoll, func(s *queueState) { sys.attempt(s, p, 0) })
		}
	case queueHolds:
		if !sys.handsOn(s, p) || sys.unused(s, p) {
			do(stepHandOn, func(s *queueState) { sys.handOn(s, p) })
		}
	}
	if waits && p >= sys.processes-sys.leaver {
		do(stepLeave, func(s *queueState) {
			sys.over(s, p, sendEnd)
			s.processes[p].phase = queueDone
			sys.forget(s, p)
		})
	}
	if waits && p >= sys.processes-sys.mortal {
		do(stepDie, func(s *queueState) { sys.die(s, p) })
	}
}

// room tells whether nothing of the process is under way: it looks no faster than
// its nodes answer.
func (sys *queueSystem) room(s *queueState, p uint8) bool {
	for n := range sys.nodes {
		if s.columns[n].links[p].sent[0].sent() {
			return false
		}
	}
	return true
}
