package membership_test

import (
	"sync"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// member tells whether the server's record is its own process's, and of an epoch
// that has not ended.
func (v *server) member() bool {
	return v.cluster != 0 && v.node.Epoch != 0 && v.run == v.process && !v.returned()
}

// returned asks the library's rule whether the epoch has ended, with the one that voted last.
func (v *server) returned() bool {
	epoch := uint8(v.node.Epoch)
	if v.voted == 0 || epoch == 0 || epoch == v.voted {
		return false
	}
	t := membership.Incarnation{}
	for _, e := range []uint8{min(epoch, v.voted), v.voted} {
		t, _ = t.After(tenured(e))
	}
	_, s := t.After(tenured(epoch))
	return s.Returned
}

// tenured is a member with this epoch, all of one run.
func tenured(epoch uint8) membership.Observation {
	r := recordOf(word('e', epoch), "c", "r", nodeNames[:1], unit, 0)
	return observed(nowInstant, "r", &r, 0, membership.Notice{})
}

// hasten does at once what others may do to a server at any time: put a notice,
// and load the voting set on a member. Later is no more: what matters of the one
// is when a joiner sees it, and without the other a member only does less.
func (v *server) hasten() {
	if v.member() {
		v.loaded = true
	} else if v.nonce == 0 || v.onRun != v.process {
		v.nonces++
		v.nonce, v.onRun = v.nonces, v.process
	}
}

// serve yields what a server may do or suffer.
func (sys *memberSystem) serve(s *memberState, n uint8, yield yieldMember) {
	v := &s.servers[n]
	put := func(kind uint8, change func(*server, *memberState)) {
		next := *s
		change(&next.servers[n], &next)
		if sys.lean {
			next.servers[n].hasten()
		}
		if next != *s {
			yield(search.Step{Kind: kind, A: n}, next)
		}
	}
	if v.member() && !v.loaded {
		put(loadScripts, func(v *server, _ *memberState) { v.loaded = true })
	}
	if sys.mistake == mistakeOtherConnection {
		if v.member() {
			v.read = true // somebody read it, and is about to load
		} else if v.read && !v.loaded {
			put(loadScripts, func(v *server, _ *memberState) { v.loaded = true })
		}
	}
	if !v.member() && (v.nonce == 0 || v.onRun != v.process) {
		put(putNotice, func(v *server, _ *memberState) {
			v.nonces++
			v.nonce, v.onRun = v.nonces, v.process
		})
	}
	if sys.drops && v.node.Keys[0].Owner != scriptmodel.Nobody {
		put(dropKey, func(v *server, _ *memberState) { v.node.Drop(0) })
	}
	if int(n) >= sys.faulty || s.faults == 0 {
		return
	}
	restart := func(v *server, s *memberState) {
		s.faults--
		v.process++
		v.loaded = v.loaded && sys.mistake == mistakeCacheSurvives
	}
	if sys.blank {
		put(restartBlank, func(v *server, s *memberState) { restart(v, s); v.data = data{} })
	}
	if (sys.old || sys.follows) && !v.isSaved {
		put(saveDisk, func(v *server, _ *memberState) { v.saved, v.isSaved = v.data, true })
	}
	if sys.old && v.isSaved {
		put(restartOld, func(v *server, s *memberState) {
			restart(v, s)
			v.data, v.saved, v.isSaved = v.saved, data{}, false
			for c := range sys.clients { // the old data may hold what was released since
				s.clients[c].visits[n].clean = 0
			}
		})
	}
	if sys.follows && v.isSaved {
		put(followStandby, func(v *server, s *memberState) { // its scripts stay
			s.faults--
			if sys.mistake != mistakeNoHistory {
				v.process++
			}
			v.data, v.saved, v.isSaved = v.saved, data{}, false
			for c := range sys.clients {
				s.clients[c].visits[n].clean = 0
			}
		})
	}
	if sys.swaps {
		put(swapData, func(v *server, s *memberState) {
			s.faults--
			v.data, v.saved, v.isSaved = v.saved, v.data, true
			for c := range sys.clients {
				s.clients[c].visits[n].clean = 0
			}
		})
	}
	if sys.flush {
		put(flushAll, func(v *server, s *memberState) { s.faults--; v.data = data{} })
	}
}

// join yields what a joiner may do about a server, and its install's arrival.
func (sys *memberSystem) join(s *memberState, j, n uint8, yield yieldMember) {
	k := &s.joiners[j]
	if sys.looks(s, k, n) {
		next := *s
		sys.look(&next, j, n)
		if next != *s {
			yield(search.Step{Kind: lookAt, A: j, B: n}, next)
		}
	}
	if !sys.lean && k.seen[n].answered {
		next := *s
		next.joiners[j].seen[n].answered = false
		yield(search.Step{Kind: missNode, A: j, B: n}, next)
	}
	if k.seen[n].answered {
		next := *s
		a := sys.decide(s, j, n)
		v := &next.servers[n]
		if a.notice && (v.nonce == 0 || v.onRun != v.process) {
			v.nonces++
			v.nonce, v.onRun = v.nonces, v.process
			yield(search.Step{Kind: putNotice, A: n, B: j + 1}, next)
		}
		if a.install && a.order != k.orders[n] && (!a.founding || k.begun.cluster != 0 || s.ids < mostFounded) {
			sys.send(&next, j, n, a)
			next.again = a.founding && sys.forbids(s, j)
			yield(search.Step{Kind: decideJoin, A: j, B: n}, next)
		}
	}
	if o := k.orders[n]; o.cluster != 0 {
		next := *s
		sys.install(&next.servers[n], o)
		if !sys.twice {
			next.joiners[j].orders[n] = order{}
		}
		if sys.lean {
			next.servers[n].hasten()
		}
		if next != *s {
			yield(search.Step{Kind: takeInstall, A: j, B: n}, next)
		}
	}
}

// mostFounded bounds how many clusters are founded.
const mostFounded = 6

// send has the joiner send an install. Its first of a founding has an id that nobody knew.
func (sys *memberSystem) send(s *memberState, j, n uint8, a answer) {
	k := &s.joiners[j]
	if a.founding && k.begun.cluster == 0 {
		s.ids++
		k.begun = a.begun
		k.begun.cluster = s.ids
	}
	if k.orders[n] = a.order; a.founding {
		k.orders[n].cluster = k.begun.cluster
	}
}

// looks tells whether it is worth while that the joiner reads the server now.
// Where only some reads decide anything, these: of a node that is no member, and,
// when a wait is over, of a node that was not read since.
func (sys *memberSystem) looks(s *memberState, k *joiner, n uint8) bool {
	if !sys.lean {
		return true
	}
	g, w := k.seen[n], k.waits[n]
	if (sys.racing || !s.servers[n].member()) && (!g.answered || sys.glimpse(&s.servers[n]) != aged(g, 0)) {
		return true
	}
	if w.nonce != 0 && s.servers[n].member() && w.nonce != s.servers[n].nonce {
		return true // it came back
	}
	for i := range sys.nodes {
		w := k.waits[i]
		if w.nonce == 0 || w.age < sys.waits() {
			continue
		}
		if !g.answered || !sys.ageless() && g.age+sys.waits() > w.age {
			return true
		}
	}
	return false
}

// waits is how long a joiner waits, in units.
func (sys *memberSystem) waits() uint8 {
	if sys.mistake == mistakeRejoinAtOnce || sys.mistake == mistakeReadBeforeWait {
		return 0
	}
	return sys.life
}

func aged(g glimpse, age uint8) glimpse {
	g.age = age
	return g
}

// glimpse is what a read of the server shows.
func (sys *memberSystem) glimpse(v *server) glimpse {
	return glimpse{
		answered: true, process: v.process, cluster: v.cluster, run: v.run, epoch: sys.epoch(v),
		nonce: v.nonce, onRun: v.onRun, largest: v.node.Number(0),
		returned: v.returned(), strict: v.strict,
	}
}

// epoch is a server's, as far as any decision asks: beyond the table an install may rest on it.
func (sys *memberSystem) epoch(v *server) uint8 {
	if sys.racing {
		return uint8(v.node.Epoch)
	}
	return min(uint8(v.node.Epoch), 1)
}

// mark is what an install on the server rests on.
func (g glimpse) mark() mark {
	if g.cluster != 0 && g.epoch != 0 && g.run == g.process && !g.returned {
		return mark{epoch: g.epoch}
	}
	return mark{nonce: g.nonce, run: g.onRun}
}

// look reads the server. A joiner that sees nothing to do forgets all.
func (sys *memberSystem) look(s *memberState, j, n uint8) {
	k, v := &s.joiners[j], &s.servers[n]
	if sys.mistake == mistakeLoadBeforeMember {
		v.loaded = true
	}
	before := k.waits[n]
	k.seen[n] = sys.glimpse(v)
	if k.begun.cluster != 0 && !sys.begun(k).Stands(sys.view(k, j)) {
		k.begun = founding{}
	}
	w := sys.wait(k, n).After(sys.observation(k.seen[n]))
	switch nonce, _ := sys.observation(k.seen[n]).StandingNotice(); {
	case w == membership.Wait{}:
		k.waits[n] = patience{}
	case w.Since == nowInstant || w.Notice == nonce && k.waits[n].nonce == 0:
		k.waits[n] = patience{nonce: v.nonce, run: v.onRun}
	}
	if sys.ageless() && k.waits[n] != before {
		g := k.seen[n]
		k.seen = [mostServers]glimpse{}
		k.seen[n] = g
	}
	if !sys.lean || sys.racing {
		return
	}
	for i := range sys.nodes {
		if k.waits[i].nonce != 0 || k.orders[i].nonce != 0 {
			return
		}
		if g := k.seen[i]; g.answered && (g.cluster == 0 || g.run != g.process) {
			return
		}
	}
	*k = joiner{}
}

// install runs install.lua.
func (sys *memberSystem) install(v *server, o order) {
	switch {
	case v.process != o.run, o.epoch != 0 && (uint8(v.node.Epoch) != o.epoch || v.run != o.run):
		return
	case o.epoch == 0 && sys.mistake != mistakeNoNonce && (v.nonce == 0 || v.nonce != o.nonce || v.onRun != o.run):
		return
	}
	v.epochs++
	v.node.Epoch = scriptmodel.Epoch(v.epochs)
	v.node.Base = max(v.node.Base, o.base)
	v.cluster, v.run, v.nonce, v.onRun = o.cluster, o.run, 0, 0
	v.strict = o.strict
}

// nowInstant is the joiner's present, in the rules' own terms.
const nowInstant = clock.Instant(1000 * unit)

func ago(age uint8) clock.Instant { return nowInstant - clock.Instant(age)*clock.Instant(unit) }

func word(kind byte, n uint8) string {
	if n == 0 {
		return ""
	}
	return string([]byte{kind, '0' + n/100, '0' + n/10%10, '0' + n%10})
}

// observation is a glimpse in the rules' own terms.
func (sys *memberSystem) observation(g glimpse) membership.Observation {
	if !g.answered {
		return membership.Unread(membership.Observation{}, nowInstant, nowInstant, "no answer")
	}
	at := ago(g.age)
	if sys.mistake == mistakeReadBeforeWait || sys.mistake == mistakeOldReads {
		at = nowInstant
	}
	var rec *membership.Record
	if g.cluster != 0 {
		r := recordOf(word('e', g.epoch), word('c', g.cluster), word('r', g.run), nodeNames[:sys.nodes], sys.config(0).MaxTTL, 0)
		r.Strict = g.strict
		rec = &r
	}
	s := observed(at, word('r', g.process), rec, quorum.Token(g.largest), noticeOf(word('n', g.nonce), word('r', g.onRun)))
	s.Returned = g.returned
	return s
}

func (sys *memberSystem) wait(k *joiner, n uint8) membership.Wait {
	w := k.waits[n]
	if w.nonce == 0 {
		return membership.Wait{}
	}
	return waitOf(noticeOf(word('n', w.nonce), word('r', w.run)), ago(w.age))
}

// question is all that a decision rests on.
type question struct {
	seen  [mostServers]glimpse
	waits [mostServers]patience
	begun founding
	j, n  uint8
	clock scriptmodel.Number
}

type answer struct {
	order           order
	install, notice bool
	founding        bool // the install is beyond the table
	begun           founding
}

// decisions remembers what the rules answered: the same question comes in thousands of states.
type decisions struct {
	mu    sync.RWMutex // guards known
	known map[question]answer
}

// clock is what a founder's wall clock says: more than any token so far. That is
// the one thing that tokens lean on it for, after a majority lost its memory.
func (s *memberState) clock() scriptmodel.Number { return s.best + 1 }

// decide asks the library's rules whether, and how, the joiner installs the node.
func (sys *memberSystem) decide(s *memberState, j, n uint8) answer {
	k := &s.joiners[j]
	q := question{k.seen, k.waits, k.begun, j, n, s.clock()}
	sys.memo.mu.RLock()
	a, known := sys.memo.known[q]
	sys.memo.mu.RUnlock()
	if !known {
		a = sys.ask(k, j, n, s.clock(), false)
		sys.memo.mu.Lock()
		if len(sys.memo.known) > 1<<20 {
			clear(sys.memo.known)
		}
		sys.memo.known[q] = a
		sys.memo.mu.Unlock()
	}
	return a
}

func (sys *memberSystem) ask(k *joiner, j, n uint8, clock scriptmodel.Number, admit bool) answer {
	p := sys.plan(k, j, n, clock, admit)
	if sys.mistake == mistakeMarkIgnored && p.Action == membership.DoNothing {
		p = sys.plan(k.unmarked(), j, n, clock, admit)
	}
	if p.Action != membership.DoInstall {
		return answer{notice: p.Action == membership.DoNotice}
	}
	o := order{nonce: k.waits[n].nonce, run: k.waits[n].run, cluster: mostFounded + 1, base: scriptmodel.Number(p.Record.Base)}
	if m := k.seen[n].mark(); p.Founding != nil && m.epoch != 0 {
		o.nonce, o.run, o.epoch = 0, k.seen[n].process, m.epoch
	}
	o.strict = p.Record.Strict && sys.mistake != mistakeMarkLost
	for id := range uint8(mostFounded + 1) {
		if p.Record.Cluster == word('c', id) {
			o.cluster = id
		}
	}
	if sys.mistake == mistakeStripesBelieved && k.seen[n].cluster != 0 {
		o.base = 0
	}
	a := answer{order: o, install: true, founding: p.Founding != nil}
	if a.begun = k.begun; a.founding && a.begun.cluster == 0 {
		a.begun.order = order{cluster: o.cluster, base: o.base, strict: p.Record.Strict}
		for i := range sys.nodes {
			a.begun.marks[i] = k.seen[i].mark()
		}
	}
	return a
}

// begun is the joiner's founding in the rules' own terms; nil if it has none.
func (sys *memberSystem) begun(k *joiner) *membership.Founding {
	if k.begun.cluster == 0 {
		return nil
	}
	f := &membership.Founding{Record: recordOf("", word('c', k.begun.cluster), "", nodeNames[:sys.nodes], sys.config(0).MaxTTL, quorum.Token(k.begun.base))}
	f.Record.Strict = k.begun.strict
	for i := range sys.nodes {
		f.Marks = append(f.Marks, k.begun.marks[i].rules())
	}
	return f
}

func (sys *memberSystem) plan(k *joiner, j, n uint8, clock scriptmodel.Number, admit bool) membership.Plan {
	ask := proposalOf(word('c', mostFounded+1), quorum.Token(clock), admit)
	ask.Begun = sys.begun(k)
	return sys.view(k, j).Next(int(n), nowInstant, ask)
}

// view is what the joiner sees.
func (sys *memberSystem) view(k *joiner, j uint8) membership.View {
	nodes, waits := make([]membership.Observation, sys.nodes), make([]membership.Wait, sys.nodes)
	for i := range sys.nodes {
		nodes[i], waits[i] = sys.observation(k.seen[i]), sys.wait(k, uint8(i))
	}
	return membership.NewView(sys.config(j), nodes, waits)
}
