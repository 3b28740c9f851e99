package grant_test

import (
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

type yieldState = func(search.Step, state)

// Next: what is under way, what processes decide, and what befalls them.
func (sys *system) Next(s state, yield func(search.Step, state)) {
	if s.broken != 0 || sys.ends(&s) {
		return
	}
	sys.steps(&s, func(st search.Step, next state) {
		if sys.lean {
			sys.tidy(&next)
		}
		yield(st, next)
	})
}

func (sys *system) steps(s *state, yield yieldState) {
	for p := range sys.processes {
		for n := range uint8(sys.nodes) {
			sys.arrives(s, p, n, yield)
			sys.reaches(s, p, n, yield)
			sys.fails(s, p, n, yield)
		}
		sys.decides(s, p, yield)
	}
	for n := range uint8(sys.nodes) {
		if s.bumped < sys.bumps && s.columns[n].node.Keys[0].Owner != scriptmodel.Nobody {
			next := *s
			next.bumped++
			next.columns[n].node.Stripes[0]++
			yield(search.Step{Kind: stepCount, B: n}, next)
		}
	}
	for n := range uint8(sys.nodes) {
		sys.remembers(s, n, yield)
	}
	if sys.time > s.now {
		next := *s
		next.now++
		for n := range sys.nodes {
			next.columns[n].node.Expire(next.now)
		}
		yield(search.Step{Kind: stepTick}, next)
	}
}

// do yields one step of a process at a node.
func do(s *state, kind, p, n uint8, yield yieldState, change func(next *state, l *link)) {
	next := *s
	change(&next, &next.columns[n].links[p])
	yield(search.Step{Kind: kind, A: p, B: n}, next)
}

// arrives yields what becomes of the line from a process to a node.
func (sys *system) arrives(s *state, p, n uint8, yield yieldState) {
	l := &s.columns[n].links[p]
	if l.sent[0].kind == sendPass && !l.sent[0].goneOut() {
		if l.replies[0].kind == noMessage { // the writer has one batch out at a time
			do(s, stepTakePass, p, n, yield, func(next *state, _ *link) { sys.takePass(next, p, n) })
		}
		return
	}
	if l.sent[0].kind != noMessage && l.replies[replyRoom-1].kind == noMessage {
		deliver := func(next *state, l *link, heard bool) {
			m := l.take()
			if a := sys.execute(next, p, n, m, heard); m.kind <= sendHand && next.processes[p].phase != dead {
				l.reply(a)
			}
		}
		do(s, stepDeliver, p, n, yield, func(next *state, l *link) { deliver(next, l, true) })
		if s.lost < sys.lost {
			before := *s
			do(s, stepLose, p, n, func(st search.Step, next state) {
				with := before
				deliver(&with, &with.columns[n].links[p], true)
				if with != next { // somebody was told something
					next.lost++
					yield(st, next)
				}
			}, func(next *state, l *link) { deliver(next, l, false) })
		}
	}
	if l.late.kind != noMessage {
		do(s, stepTooLate, p, n, yield, func(next *state, l *link) {
			m := l.late
			l.late = message{}
			sys.execute(next, p, n, m, true)
		})
	}
	k := l.sent[0].kind
	if s.unknown < sys.unknown && l.late.kind == noMessage && l.replies[0].kind == noMessage && (k == sendAsk || k == sendTicket || k == sendHand || k == sendPass || k == sendTry || k == sendExtend || k == sendReseed) {
		do(s, stepGiveUp, p, n, yield, func(next *state, l *link) {
			next.unknown++
			l.late = l.take()
			if k != sendPass && k != sendExtend { // what is swapped away, or extended, it does not bring
				l.doubt |= sys.bit(l.late.owner)
			}
			if l.late.next != scriptmodel.Nobody {
				l.doubt |= sys.bit(l.late.next)
			}
			l.reply(answer{kind: l.late.kind, owner: l.late.owner, next: l.late.next, outcome: quorum.Unknown})
		})
	}
}

// reaches yields what a process hears of a node.
func (sys *system) reaches(s *state, p, n uint8, yield yieldState) {
	l := &s.columns[n].links[p]
	if s.processes[p].phase == dead {
		return
	}
	if l.replies[0].kind != noMessage {
		do(s, stepReply, p, n, yield, func(next *state, _ *link) { sys.replied(next, p, n) })
	}
	for i, t := range l.pushes {
		if t.owner != scriptmodel.Nobody {
			next := *s
			t := next.columns[n].links[p].pushed(i)
			sys.pushed(&next, p, n, t)
			yield(search.Step{Kind: stepPush, A: p, B: n, C: uint8(i)}, next)
		}
	}
	if l.hint {
		do(s, stepCall, p, n, yield, func(next *state, l *link) {
			l.hint = false
			sys.called(next, p, n)
		})
	}
}

// fails yields what befalls a process at a node.
func (sys *system) fails(s *state, p, n uint8, yield yieldState) {
	me, node := &s.processes[p], &s.columns[n].node
	l := &s.columns[n].links[p]
	w := scriptmodel.Waiter(p)
	switch {
	case me.phase == dead:
		if node.Lives(w) || sys.time == 0 && sys.holdsOf(s, p, n) && l.sent[0].kind == noMessage {
			do(s, stepSilence, p, n, yield, func(next *state, _ *link) {
				node := &next.columns[n].node
				node.Silence(w)
				if sys.time == 0 && sys.holdsOf(next, p, n) { // its lease ends
					node.Drop(0)
				}
			})
		}
		return
	case sys.quiet && me.phase == holding && node.Lives(w) && l.sent[0].kind == noMessage:
		do(s, stepSilence, p, n, yield, func(next *state, _ *link) { next.columns[n].node.Silence(w) })
	}
	if sys.time != 0 && me.phase == inLine && node.Readings[p] != s.now {
		do(s, stepBeat, p, n, yield, func(next *state, _ *link) {
			next.columns[n].node.Look(w)
			next.columns[n].node.Readings[p] = s.now
		})
	}
	switch {
	case sys.breaks+sys.forgets == 0:
	case node.Deaf&(1<<p) != 0:
		do(s, stepMend, p, n, yield, func(next *state, _ *link) {
			next.columns[n].node.Deaf &^= 1 << p
			sys.mended(next, p, n)
		})
	case s.cut < sys.breaks && (me.phase == tickets || me.phase == inLine || me.phase == raising):
		do(s, stepBreak, p, n, yield, func(next *state, l *link) {
			next.cut++
			next.columns[n].node.Deaf |= 1 << p
			l.hint, l.pushes = false, [pushRoom]told{}
		})
	}
}

// holdsOf tells whether the node's key is one of the process's.
func (sys *system) holdsOf(s *state, p, n uint8) bool {
	o := s.columns[n].node.Keys[0].Owner
	return o != scriptmodel.Nobody && sys.processOf(o) == p
}

// mended makes a process look at what a node may have said in vain.
func (sys *system) mended(s *state, p, n uint8) {
	me, node := &s.processes[p], &s.columns[n].node
	if me.phase != inLine || me.place == 0 {
		return
	}
	with := me.owner
	if !sys.takesPushes(p) {
		with = scriptmodel.Nobody
	}
	_, yours := node.LookIn(scriptmodel.Waiter(p), me.place, with, s.now)
	if yours || node.Keys[0].Owner == scriptmodel.Nobody {
		sys.called(s, p, n)
	}
}

// decides yields what a process does by itself.
func (sys *system) decides(s *state, p uint8, yield yieldState) {
	do := func(kind uint8, change func(*state)) {
		next := *s
		change(&next)
		yield(search.Step{Kind: kind, A: p}, next)
	}
	me := &s.processes[p]
	switch me.phase {
	case idle:
		do(stepBegin, func(s *state) { sys.begin(s, p) })
	case inLine:
		sys.rests(s, p, do)
	case holding:
		if !sys.isStranger(p) || !sys.foreign {
			do(stepRelease, func(s *state) { sys.handOver(s, p, false) })
		}
		if sys.calls || sys.isStranger(p) {
			do(stepCalls, func(s *state) { sys.handOver(s, p, true) })
		}
		if sys.mayPass(s, p) {
			do(stepPass, func(s *state) { sys.pass(s, p) })
		}
		if sys.mayExtend(s, p) {
			do(stepExtend, func(s *state) { sys.extend(s, p) })
		}
		if sys.time != 0 && s.now >= me.until {
			do(stepLapse, func(s *state) { sys.leave(s, p) })
		}
	}
	if waits := me.phase == tickets || me.phase == inLine || me.phase == raising; waits {
		if p >= sys.processes-sys.leaver && sys.room(s, p) {
			do(stepLeave, func(s *state) { sys.leave(s, p) })
		}
		if p >= sys.processes-sys.mortal {
			do(stepDie, func(s *state) { sys.die(s, p) })
		}
	}
}

// rests yields what a process in line does by its timers.
func (sys *system) rests(s *state, p uint8, do func(uint8, func(*state))) {
	me := &s.processes[p]
	if sys.isCalled(p) {
		sys.restsCalled(s, p, do)
		return
	}
	a := sys.attemptOf(s, p)
	step, _, _ := a.Next()
	granted := quorum.Count(a.Votes).Granted
	switch {
	case granted > 0 && !me.all && !sys.makes(othersNeverAsked):
		do(stepGather, func(s *state) {
			s.processes[p].all = true
			sys.drive(s, p)
		})
	case step == grant.Wait && a.Out == 0 && me.all && !me.late:
		do(stepLate, func(s *state) {
			s.processes[p].late = true
			sys.drive(s, p)
		})
	}
	if me.place == 0 || a.Out != 0 || !sys.room(s, p) {
		return
	}
	if me.split && !sys.still {
		do(stepAgain, func(s *state) { sys.look(s, p) })
	} else if s.polled < sys.polls && step == grant.Rest {
		do(stepPoll, func(s *state) {
			s.polled++
			sys.look(s, p)
		})
	}
}

// room tells whether nothing of the process is under way.
func (sys *system) room(s *state, p uint8) bool {
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		if l.sent[0].kind != noMessage || l.replies[0].kind != noMessage {
			return false
		}
	}
	return true
}

// die ends a process: what it sent arrives, and nobody hears what is said to it.
func (sys *system) die(s *state, p uint8) {
	for q := range sys.processes {
		s.processes[q].ahead &^= 1 << p
	}
	s.processes[p] = process{phase: dead}
	for n := range sys.nodes {
		c := &s.columns[n]
		if !sys.silent {
			c.node.Deaf |= 1 << p
		}
		l := &c.links[p]
		*l = link{sent: l.sent, late: l.late}
	}
}
