package membership_test

import (
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// agent yields what an agent may do.
func (sys *changeSystem) agent(s *changeState, j uint8, yield yieldChange) {
	k := &s.agents[j]
	put := func(st search.Step, change func(*agent, *changeState)) {
		next := *s
		change(&next.agents[j], &next)
		if next != *s {
			yield(st, next)
		}
	}
	for n := range uint8(sys.seats) {
		if o := k.sends[n]; o.kind != 0 {
			put(search.Step{Kind: stepRun, A: j, B: n}, func(k *agent, s *changeState) {
				k.sends[n] = send{}
				sys.run(s, n, o)
			})
		}
	}
	if k.list == 0 {
		sys.enlist(s, j, put)
		return
	}
	put(search.Step{Kind: stepDie, A: j}, func(k *agent, _ *changeState) { // what it sent stays under way
		*k = agent{sends: k.sends, tags: k.tags}
	})
	for n := range uint8(sys.seats) {
		if !k.list.has(n) {
			continue
		}
		put(search.Step{Kind: stepLook, A: j, B: n}, func(k *agent, s *changeState) {
			sys.look(k, &s.seats[n], n)
			if f := k.begun.rules(k.list); f != nil && !f.Stands(sys.view(k, func(uint8, *membership.Observation) {})) {
				k.begun = founder{}
			}
		})
		if a := sys.decide(k, n); a.send.kind != 0 && k.sends[n].kind == 0 && !k.seen[n].sent && (!a.founding || k.begun.on || s.ids < mostIDs) {
			put(search.Step{Kind: stepSend, A: j, B: n, C: uint8(a.send.kind)}, func(k *agent, s *changeState) {
				k.sends[n], k.seen[n].sent = a.send, true
				s.founded = s.founded || a.founding && sys.strict
				if a.founding && !k.begun.on {
					s.ids++
					k.begun = a.begun
					if k.begun.id = s.ids; sys.slip == slipKnownID {
						k.begun.id = 1
					}
					if sys.slip != slipClock { // the clock is ahead of all numbers
						k.begun.base = max(k.begun.base, s.best+5)
					}
					k.sends[n].id, k.sends[n].base = k.begun.id, k.begun.base
				}
			})
		}
	}
	if k.op.on {
		sys.think(k, j, put)
	}
}

// enlist gives an agent a list: one that was in force, or for an operator the longer one of
// a change of the latest.
func (sys *changeSystem) enlist(s *changeState, j uint8, put func(search.Step, func(*agent, *changeState))) {
	s.each(mostGens, func(l list) {
		put(search.Step{Kind: stepAgent, A: j, C: uint8(l)}, func(k *agent, _ *changeState) { k.list = l })
	})
	if int(j) >= sys.operators || s.changes == 0 {
		return
	}
	for id := uint8(1); id <= s.ids; id++ {
		if latest := s.latest(id); latest.names != 0 && s.lists[id-1][mostGens-2].names == 0 {
			sys.intend(latest, j, id, put)
		}
	}
}

// intend yields what an operator may want of a cluster.
func (sys *changeSystem) intend(latest conf, j, id uint8, put func(search.Step, func(*agent, *changeState))) {
	for l := range list(1 << sys.seats) {
		both, differs := l|latest.names, (l ^ latest.names).size()
		if l == 0 || differs > 1 && (differs > 2 || sys.slip != slipByTwo && sys.slip != slipSwap || (both != l && both != latest.names) != (sys.slip == slipSwap)) {
			continue
		}
		for i, to := range sys.turned(conf{l, latest.most, latest.strict}) {
			put(search.Step{Kind: stepChange, A: j, B: uint8(i) + 8*id, C: uint8(l)}, func(k *agent, s *changeState) {
				s.changes--
				k.list = both
				k.tags = k.tags%63 + 1
				k.op = attempt{on: true, closes: to == latest, wanted: to, tag: j<<6 | k.tags}
			})
		}
	}
}

// turned are the configurations that an operator may want with this list.
func (sys *changeSystem) turned(c conf) []conf {
	out := []conf{c}
	if sys.long != 0 {
		most := sys.life
		if c.most == sys.life {
			most = sys.long
		}
		out = append(out, conf{c.names, most, c.strict})
	}
	if sys.turns {
		out = append(out, conf{c.names, c.most, !c.strict})
	}
	return out
}

// look reads a node.
func (sys *changeSystem) look(k *agent, v *seat, n uint8) {
	k.seen[n] = sight{page: v.page, answered: true, process: v.process, epoch: uint8(v.node.Epoch), base: v.node.Base, largest: v.node.Number(0)}
	if sys.slip == slipBallots && v.settled { // it is anybody's
		k.seen[n].settler, k.seen[n].ballot = k.op.tag, k.op.ballot
	}
	w := sys.wait(k, n).After(sys.observation(k.seen[n], k.list))
	switch {
	case w == membership.Wait{}:
		k.waits[n] = patience{}
	case w.Since == nowInstant:
		k.waits[n] = patience{nonce: v.nonce, run: v.onRun}
	}
}

func (sys *changeSystem) wait(k *agent, n uint8) membership.Wait {
	w := k.waits[n]
	if w.nonce == 0 {
		return membership.Wait{}
	}
	return waitOf(noticeOf(word('n', w.nonce), word('r', w.run)), ago(w.age))
}

// observation is a sight in the rules' own terms.
func (sys *changeSystem) observation(g sight, _ list) membership.Observation {
	if !g.answered {
		return membership.Unread(membership.Observation{}, nowInstant, nowInstant, "no answer")
	}
	at := ago(g.age)
	if sys.slip == slipReads {
		at = nowInstant
	}
	var rec *membership.Record
	if g.gen != 0 {
		r := recordOf(word('e', g.epoch), word('c', g.id), word('r', g.run), g.names.names(), time.Duration(g.most)*unit, 0)
		r.Configuration = g.rules()
		r.Gen, r.Before, r.BeforeMaxTTL, r.Settled, r.Ballot = int(g.gen)-1, g.before.names(), time.Duration(g.beforeMost)*unit, g.settled, uint64(g.ballot)
		if g.proposedBy != 0 {
			r.Proposed = membership.Proposed{Ballot: uint64(g.proposedBy), Configuration: g.proposed.rules()}
		}
		r.Base = quorum.Token(g.base)
		rec = &r
	}
	return observed(at, word('r', g.process), rec, quorum.Token(g.largest), noticeOf(word('n', g.nonce), word('r', g.onRun)))
}

func (sys *changeSystem) maxTTL() time.Duration { return time.Duration(sys.life) * unit }

// view is what the agent sees.
func (sys *changeSystem) view(k *agent, alter func(uint8, *membership.Observation)) membership.View {
	names := k.list.names()
	nodes, waits := make([]membership.Observation, 0, len(names)), make([]membership.Wait, 0, len(names))
	for n := range uint8(sys.seats) {
		if k.list.has(n) {
			o := sys.observation(k.seen[n], k.list)
			alter(n, &o)
			nodes, waits = append(nodes, o), append(waits, sys.wait(k, n))
		}
	}
	maxTTL := sys.maxTTL()
	if sys.slip == slipAtOnce {
		maxTTL = 0
		for i := range nodes {
			nodes[i].Record.MaxTTL, nodes[i].Record.BeforeMaxTTL, nodes[i].Record.Proposed.MaxTTL = 0, 0, 0
		}
	}
	return membership.NewView(membership.NewConfig(names, maxTTL, false), nodes, waits)
}

// idOf is the inverse of word('c', ..).
func idOf(cluster string) uint8 {
	for id := uint8(1); id <= mostIDs; id++ {
		if cluster == word('c', id) {
			return id
		}
	}
	return 0
}

// mark is what an install on the node rests on.
func (g sight) mark() mark {
	if g.gen != 0 && g.epoch != 0 && g.run == g.process {
		return mark{epoch: g.epoch}
	}
	return mark{nonce: g.nonce, run: g.onRun}
}

// rules is a founding in the rules' own terms, by a client of the list.
func (f founder) rules(l list) *membership.Founding {
	if !f.on {
		return nil
	}
	out := &membership.Founding{Marks: make([]string, l.size())}
	out.Record = membership.Record{Format: membership.RecordFormat, Cluster: word('c', f.id), Configuration: f.conf.rules(), Base: quorum.Token(f.base)}
	for n := range uint8(mostSeats) {
		if m := f.marks[n]; l.has(n) {
			out.Marks[l.indexOf(n)] = m.rules()
		}
	}
	return out
}

// indexOf is the node's index in the list.
func (l list) indexOf(n uint8) int { return (l & (1<<n - 1)).size() }

// decide asks the library what the agent does for the node.
func (sys *changeSystem) decide(k *agent, n uint8) changeAnswer {
	if !k.seen[n].answered {
		return changeAnswer{}
	}
	q := changeQuestion{k.list, k.begun, k.seen, k.waits, n}
	for i := range q.seen {
		q.seen[i].sent = false
	}
	sys.memo.mu.RLock()
	a, known := sys.memo.known[q]
	sys.memo.mu.RUnlock()
	if known {
		return a
	}
	v := sys.view(k, func(_ uint8, o *membership.Observation) {
		switch sys.slip { //nolint:exhaustive // the others are no joiner's
		case slipOneList:
			o.Record.Before, o.Record.Proposed = nil, membership.Proposed{}
		case slipBeforeJoin:
			o.Record.BeforeMaxTTL = 0
		case slipProposedJoin:
			o.Record.Proposed.MaxTTL = 0
		}
	})
	ask := proposalOf("new", 0, false)
	ask.Begun = k.begun.rules(k.list)
	p := v.Next(k.list.indexOf(n), nowInstant, ask)
	// Where no record is left an old list may found, too: assumed away (docs/SAFETY.md).
	if a.founding = p.Founding != nil; !a.founding || sys.founds && (k.begun.on || slices.ContainsFunc(v.Nodes, func(o membership.Observation) bool { return o.Recorded })) {
		a.send = sys.sendOf(p, k, n)
		if a.begun = k.begun; a.founding && !a.begun.on {
			a.begun = founder{on: true, page: a.send.page, base: a.send.base}
			for n := range a.begun.marks {
				a.begun.marks[n] = k.seen[n].mark()
			}
		}
	}
	sys.memo.mu.Lock()
	if len(sys.memo.known) > 1<<18 {
		clear(sys.memo.known)
	}
	sys.memo.known[q] = a
	sys.memo.mu.Unlock()
	return a
}

// sendOf is a plan as it is sent.
func (sys *changeSystem) sendOf(p membership.Plan, k *agent, n uint8) send {
	o := send{kind: p.Action, epoch: k.seen[n].epoch, base: scriptmodel.Number(p.Record.Base)}
	o.id = idOf(p.Record.Cluster)
	o.gen, o.conf, o.before, o.beforeMost = uint8(p.Record.Gen)+1, confOf(p.Record.Configuration), listOf(p.Record.Before), uint8(p.Record.BeforeMaxTTL/unit)
	o.settled, o.ballot = p.Record.Settled, uint8(p.Record.Ballot)
	o.proposedBy, o.proposed = uint8(p.Record.Proposed.Ballot), confOf(p.Record.Proposed.Configuration)
	switch p.Action { //nolint:exhaustive // the others send nothing that matters here
	case membership.DoInstall:
		o.nonce, o.run, o.epoch = k.waits[n].nonce, k.waits[n].run, 0
		if p.Founding != nil {
			m := k.seen[n].mark()
			o.nonce, o.run, o.epoch = m.nonce, k.seen[n].process, m.epoch
		}
		if sys.slip == slipCopies {
			o.proposedBy, o.proposed = 0, conf{}
		}
		if sys.slip == slipSettledJoins {
			o.settled = false
		}
		o.strict = o.strict && sys.slip != slipStrict
	case membership.DoForce:
	case membership.DoSettle:
		o.tag = k.op.tag
	case membership.DoAccept:
	default:
		return send{}
	}
	if sys.slip == slipBase && p.Action != membership.DoInstall {
		o.base = 0
	}
	return o
}

// run is one of the scripts.
func (sys *changeSystem) run(s *changeState, n uint8, o send) {
	v := &s.seats[n]
	if o.kind == membership.DoInstall {
		if v.process != o.run || o.epoch == 0 && (v.nonce == 0 || v.nonce != o.nonce || v.onRun != o.run) || o.epoch != 0 && (uint8(v.node.Epoch) != o.epoch || v.run != o.run) {
			return
		}
		v.page = o.page
		v.page.run = o.run
		v.page.nonce, v.page.onRun = 0, 0
		sys.renew(v, o)
		sys.enter(s, v)
		return
	}
	if v.node.Epoch == 0 || uint8(v.node.Epoch) != o.epoch && (sys.slip != slipBallots || o.kind != membership.DoAccept) {
		return
	}
	switch o.kind { //nolint:exhaustive // the others are not sent
	case membership.DoSettle:
		if v.gen != o.gen || v.ballot >= o.ballot && sys.slip != slipBallots {
			return
		}
		v.settled, v.ballot = true, o.ballot
		sys.renew(v, send{})
		v.settler = o.tag
	case membership.DoAccept:
		if v.ballot != o.proposedBy && sys.slip != slipBallots {
			return
		}
		v.proposedBy, v.proposed = o.proposedBy, o.proposed
		v.node.Base = max(v.node.Base, o.base)
	case membership.DoForce:
		if v.gen >= o.gen {
			return
		}
		v.gen, v.conf, v.before, v.beforeMost, v.settled, v.ballot, v.proposedBy, v.proposed = o.gen, o.conf, o.before, o.beforeMost, false, 0, 0, conf{}
		sys.renew(v, o)
		sys.enter(s, v)
	}
}

// renew begins an epoch, with the order's base.
func (sys *changeSystem) renew(v *seat, o send) {
	v.epochs++
	v.node.Epoch, v.settler = scriptmodel.Epoch(v.epochs), 0
	v.node.Base = max(v.node.Base, o.base)
}

// enter notes which configuration the generation has.
func (sys *changeSystem) enter(s *changeState, v *seat) {
	if at := &s.lists[v.id-1][min(int(v.gen)-1, mostGens-1)]; at.names == 0 {
		*at = v.conf
	} else if *at != v.conf {
		s.broken = true
	}
}

// think goes on with an operator's change.
func (sys *changeSystem) think(k *agent, j uint8, put func(search.Step, func(*agent, *changeState))) {
	v := sys.view(k, func(n uint8, o *membership.Observation) {
		if sys.slip == slipBallots && (k.op.tag == 0 || k.seen[n].settler != k.op.tag) {
			o.Record.Ballot = 0
		}
		if sys.slip == slipBallots && k.op.left == 0 {
			o.Record.Proposed = membership.Proposed{}
		}
		if p := &o.Record.Proposed; sys.slip == slipLowest && p.Ballot != 0 && p.Ballot != uint64(k.op.ballot) {
			p.Ballot = 255 - p.Ballot
		}
	})
	c, ok := sys.changeOf(k, v)
	if !ok {
		put(search.Step{Kind: stepDie, A: j}, func(k *agent, _ *changeState) { *k = agent{sends: k.sends, tags: k.tags} })
		return
	}
	if sys.slip == slipLate && c.Began != 0 {
		c.Began = nowInstant
		if c.Asked != 0 {
			c.Asked = nowInstant
		}
	}
	after, turn := c.Next(v, nowInstant)
	switch {
	case sys.slip == slipPause:
		after.Until = min(after.Until, nowInstant)
	case c.Until != 0 || after.Until == 0:
	case sys.slip == slipOwnPause:
		after.Until = nowInstant.Add(sys.maxTTL())
	case sys.slip == slipBeforePause:
		after.Until = nowInstant.Add(c.From.MaxTTL)
	}
	if turn.Stage == membership.Accepting && (sys.slip == slipAccept || sys.slip == slipFewAccept && turn.Done == turn.Of-1) {
		turn = forcedBy(after, v)
	}
	put(search.Step{Kind: stepThink, A: j}, func(k *agent, _ *changeState) {
		if turn.Err != nil || turn.Stage == membership.Changed {
			*k = agent{sends: k.sends, tags: k.tags}
			return
		}
		sys.keep(k, after)
	})
	for _, task := range turn.Do {
		n := uint8(slices.Index(nodeNames[:], v.Names[task.Node]))
		if k.sends[n].kind != 0 || k.seen[n].sent {
			continue
		}
		put(search.Step{Kind: stepSend, A: j, B: n, C: uint8(task.Plan.Action)}, func(k *agent, _ *changeState) {
			sys.keep(k, after)
			k.sends[n], k.seen[n].sent = sys.sendOf(task.Plan, k, n), true
		})
	}
}

// forcedBy is the last step, with or without what comes before it.
func forcedBy(c membership.Change, v membership.View) membership.Turn {
	turn := membership.Turn{Stage: membership.Forcing}
	for i, o := range v.Nodes {
		if o.Answered && o.Recorded && o.Record.Gen == c.Gen {
			turn.Do = append(turn.Do, membership.Task{Node: i, Plan: membership.Plan{Action: membership.DoForce, Record: membership.Record{
				Epoch: o.Record.Epoch, Gen: c.Gen + 1, Configuration: c.To, Before: c.From.Names, BeforeMaxTTL: c.From.MaxTTL, Base: c.Largest,
			}}})
		}
	}
	return turn
}

// changeOf is the attempt in the rules' own terms; it begins with NewChange.
func (sys *changeSystem) changeOf(k *agent, v membership.View) (membership.Change, bool) {
	op := k.op
	if op.from.names == 0 { // not begun
		if sys.slip == slipByTwo || sys.slip == slipSwap {
			return sys.byTwo(v, op), true
		}
		to := op.wanted.rules()
		w := membership.Wanted{Add: to.Names, Remove: (k.list &^ op.wanted.names).names(), MaxTTL: to.MaxTTL, Strict: &to.Strict}
		if op.closes {
			w = membership.Wanted{}
		}
		c, err := membership.NewChange(v, w)
		return c, err == nil
	}
	c := membership.Change{
		Cluster: word('c', op.id), Gen: int(op.gen), From: op.from.rules(), Wanted: op.wanted.rules(), To: op.to.rules(), Ballot: uint64(op.ballot), Largest: quorum.Token(op.largest),
		Marks: make([]string, k.list.size()),
	}
	for n := range uint8(sys.seats) {
		if k.list.has(n) && k.seen[n].settler == op.tag {
			c.Marks[k.list.indexOf(n)] = word('e', k.seen[n].epoch)
		}
	}
	if op.began > 0 {
		c.Began = ago(op.began - 1)
	}
	if op.asked > 0 {
		c.Asked = ago(op.asked - 1)
	}
	if op.left > 0 {
		c.Until = nowInstant + clock.Instant(op.left-1)*clock.Instant(unit)
	}
	return c, true
}

// byTwo is a change of two nodes at once, which the library refuses.
func (sys *changeSystem) byTwo(v membership.View, op attempt) membership.Change {
	c := membership.Change{Wanted: op.wanted.rules()}
	for _, o := range v.Nodes {
		if o.Recorded && (c.From.Names == nil || o.Record.Gen > c.Gen) {
			c.Cluster, c.Gen, c.From = o.Record.Cluster, o.Record.Gen, o.Record.Configuration
		}
	}
	return c
}

// keep is changeOf's inverse. Another ballot is another attempt: its marks are new.
func (sys *changeSystem) keep(k *agent, c membership.Change) {
	op := &k.op
	if op.ballot != 0 && (uint64(op.ballot) != c.Ballot || op.left != 0 && c.Until == 0 || op.began > 1 && c.Began == nowInstant && sys.slip != slipLate) {
		k.tags = k.tags%63 + 1
		op.tag = op.tag&^63 | k.tags
	}
	op.id, op.gen, op.from, op.wanted, op.to, op.ballot = idOf(c.Cluster), uint8(c.Gen), confOf(c.From), confOf(c.Wanted), confOf(c.To), uint8(c.Ballot)
	op.largest = scriptmodel.Number(c.Largest)
	since := func(at clock.Instant) uint8 {
		if at == 0 {
			return 0
		}
		return 1 + uint8(nowInstant.Sub(at)/unit)
	}
	op.began, op.asked, op.left = since(c.Began), since(c.Asked), 0
	if c.Until != 0 {
		op.left = 1 + uint8(max(c.Until.Sub(nowInstant), 0)/unit)
	}
}
