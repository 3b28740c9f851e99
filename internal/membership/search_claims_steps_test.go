package membership_test

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/search"
)

// The steps of the search of claims, and what the library's rules say to them.

// claimQuestion is all that a decision, or a look, rests on.
type claimQuestion struct {
	sys  *claimSystem
	list list
	claimMind
	clusters [claimClusters]claimCluster
	looks    bool // at node n, which shows this
	n        uint8
	shows    claimShow
	admit    bool
}

// claimAct is what is done on a node.
type claimAct struct {
	kind           membership.Action
	old, claim     vow // that is replaced, and that is put
	founding, over bool
	id             uint8 // of an install; 0: the cluster is not founded yet
	first          claimCluster
}

type claimAnswer struct {
	acts           [claimSeats]claimAct
	votes          list
	free, stands   bool  // votes count; the founding goes on
	most, limit    uint8 // MaxTTL of the votes; how old a look may be
	put, keepSince bool  // of a look: the claim is put
	claim, known   vow
	by             list
}

func (sys *claimSystem) question(s *claimState, k uint8) claimQuestion {
	return claimQuestion{sys: sys, list: sys.lists[k], claimMind: s.clients[k].claimMind, clusters: s.clusters}
}

// listOf is a cluster's list.
func (q *claimQuestion) listOf(id, gen uint8) list {
	if id == 1 {
		return q.sys.grown[gen]
	}
	return q.clusters[id].names
}

// newest reports whether the record, or the claim, is of the newest list.
func (q *claimQuestion) newest(id, gen uint8) bool {
	return id != 0 && q.listOf(id, gen) == q.sys.newest()
}

// last is the generation that the first cluster has.
func (sys *claimSystem) last() uint8 { return uint8(len(sys.grown) - 1) }

// foundedBeside reports whether an old list founded what the node has, or that was seized there.
func (q *claimQuestion) foundedBeside(v *claimNode) bool {
	return v.id != 0 && !q.newest(v.id, q.sys.last()) || v.claim.seized
}

// lacks reports whether the node is blank, and its notice has no claim of the newest list.
func (q *claimQuestion) lacks(v *claimNode) bool {
	return v.id == 0 && v.nonce != 0 && !q.newest(v.claim.id, v.claim.gen)
}

// In the rules' own terms.

func fromText(from [claimClusters]uint8) string {
	var out []string
	for id, gen := range from {
		if gen > 0 {
			out = append(out, word('c', uint8(id)), strconv.Itoa(int(gen)-1))
		}
	}
	return strings.Join(out, " ")
}

// fromOf is the inverse of fromText.
func fromOf(text string) (from [claimClusters]uint8) {
	for part := strings.Fields(text); len(part) > 1; part = part[2:] {
		gen, _ := strconv.Atoi(part[1])
		from[numberOf(part[0])] = max(from[numberOf(part[0])], uint8(gen)+1)
	}
	return from
}

// numberOf is the number in a word.
func numberOf(w string) uint8 {
	n, _ := strconv.Atoi(strings.TrimLeft(w, "c"))
	return uint8(n)
}

func span(n uint8) time.Duration { return time.Duration(n) * unit }

func (q *claimQuestion) claimOf(c vow) membership.Claim {
	if c.id == 0 {
		return membership.Claim{}
	}
	r := q.record(c.id, 0)
	r.Names = q.listOf(c.id, c.gen).names()
	return membership.Claim{Cluster: r.Cluster, Gen: int(c.gen), Configuration: r.Configuration, Lease: span(c.lease), From: r.From, Seized: c.seized}
}

// vowOf is the inverse of claimOf.
func vowOf(text string) vow {
	c := membership.ClaimOf(text)
	return vow{numberOf(c.Cluster), uint8(c.Gen), uint8(c.Lease / unit), c.Seized}
}

func (q *claimQuestion) record(id, epoch uint8) membership.Record {
	if id != 1 {
		return q.clusters[id].record(id, epoch)
	}
	first := claimCluster{names: q.sys.newest(), most: q.sys.life}
	r := first.record(id, epoch)
	if r.Gen = int(q.sys.last()); r.Gen > 0 {
		r.Before, r.BeforeMaxTTL, r.Settled = q.sys.grown[r.Gen-1].names(), span(q.sys.life), q.sys.settled
	}
	return r
}

func (c claimCluster) record(id, epoch uint8) membership.Record {
	r := recordOf(word('e', epoch), cmp.Or(word('c', id), notFounded), "r", c.names.names(), span(c.most), 0)
	if r.From = fromText(c.from); c.before > 0 {
		r.Before, r.BeforeMaxTTL = r.Names, span(c.before)
	}
	return r
}

// notFounded is the id of a founding that has installed nothing.
const notFounded = "c000"

func (q *claimQuestion) notice(w claimShow) membership.Notice {
	if w.nonce == 0 {
		return membership.Notice{}
	}
	return membership.Notice{Nonce: word('n', w.nonce), Run: "r", Claim: q.claimOf(w.claim).Arg()}
}

func (q *claimQuestion) observation(g claimSight) (o membership.Observation) {
	if g.age == 0 {
		return o
	}
	at := ago(g.age - 1)
	if o = observed(at, "r", nil, 0, q.notice(g.claimShow)); g.id != 0 {
		o.Recorded, o.Record = true, q.record(g.id, g.epoch)
	}
	if !g.answered {
		return membership.Unread(o, at, at, "no answer")
	}
	return o
}

// view is what the client sees; a deaf one sees no claim of another list.
func (q *claimQuestion) view(deaf bool) membership.View {
	n, most := q.list.size(), q.sys.old
	if q.list&q.sys.newest() == q.sys.newest() {
		most = q.sys.life
	}
	nodes, waits := make([]membership.Observation, n), make([]membership.Wait, n)
	for i, g := range q.seen[:n] {
		if deaf && g.claim.id != 0 && q.listOf(g.claim.id, g.claim.gen) != q.goesBy() {
			g.claim = vow{}
		}
		if nodes[i] = q.observation(g); g.nonce != 0 {
			waits[i] = membership.Wait{Notice: q.notice(g.claimShow), Since: ago(g.since)}
		}
	}
	v := membership.NewView(membership.NewConfig(q.list.names(), span(most), false).By(q.goesBy().names()), nodes, waits)
	v.Known = q.claimOf(q.known)
	return v
}

// goesBy is the list that the client goes by.
func (q *claimQuestion) goesBy() list { return cmp.Or(q.by, q.list) }

// founding is the one that the client has begun.
func (q *claimQuestion) founding() *membership.Founding {
	f := &membership.Founding{Record: q.begun.first.record(q.begun.id, 0)}
	for _, m := range q.begun.marks[:q.list.size()] {
		mark, n := word('e', m.epoch), q.notice(m)
		if m.epoch == 0 {
			mark = n.Nonce + " " + n.Run + "\n" + n.Claim
		}
		f.Marks = append(f.Marks, mark)
	}
	return f
}

// ask asks the library's rules, or remembers what they answered.
func (q claimQuestion) ask() claimAnswer {
	q.sys.mu.RLock()
	a, known := q.sys.memo[q]
	q.sys.mu.RUnlock()
	if known {
		return a
	}
	if q.looks {
		a = q.look()
	} else {
		a = q.decide()
	}
	q.sys.mu.Lock()
	defer q.sys.mu.Unlock()
	if len(q.sys.memo) > 1<<20 {
		clear(q.sys.memo)
	}
	q.sys.memo[q] = a
	return a
}

// look is what Node.observe and Tracker.Publish make of a look.
func (q claimQuestion) look() (a claimAnswer) {
	const since = clock.Instant(1)
	v, next, w := q.view(false), claimSight{claimShow: q.shows, answered: true, age: 1}, membership.Wait{}
	v.Nodes[q.n] = q.observation(next)
	if state, _ := v.Standing(int(q.n)); state == membership.Blank && !q.begun.on && q.sys.flaw != claimsPlain {
		if pl := v.ClaimOn(int(q.n)); pl.Action == membership.DoNotice {
			a.put, a.claim = true, vowOf(pl.Claim)
		} else if q.lowers(q.shows) {
			a.put, a.claim = true, q.known
		}
	}
	if a.put {
		next.claim, next.nonce = a.claim, cmp.Or(next.nonce, fresh)
	}
	if old := q.seen[q.n]; old.nonce != 0 {
		w = membership.Wait{Notice: q.notice(old.claimShow), Since: since}
	}
	w = w.After(q.observation(next))
	a.keepSince = w.Since == since
	q.seen[q.n] = next
	v = q.view(false)
	names := v.GoesBy(v.Nodes, q.claimOf(q.known))
	if q.by = 0; len(names) < q.list.size() {
		for i := range q.list.size() {
			if slices.Contains(names, nodeNames[i]) {
				q.by |= 1 << i
			}
		}
	}
	a.by, a.known = q.by, q.known
	if q.known.id != 0 || q.by == 0 || q.met() {
		a.known = vowOf(q.view(false).Learn(q.claimOf(q.known)).Arg())
	}
	return a
}

// met reports whether the client has looked at each of its nodes.
func (q *claimQuestion) met() bool {
	return !slices.ContainsFunc(q.seen[:q.list.size()], func(g claimSight) bool { return g.age == 0 })
}

// lowers reports whether a flawed client puts its lower generation's claim there.
func (q *claimQuestion) lowers(w claimShow) bool {
	return q.sys.flaw == claimsLower && q.known.id == w.claim.id && q.known.gen < w.claim.gen
}

// decide is what the client does on each node, and which votes count.
func (q claimQuestion) decide() (a claimAnswer) {
	v, p := q.view(false), membership.Proposal{Cluster: notFounded, Clock: 1, Admit: q.admit}
	if f := q.founding(); q.begun.on && f.Stands(v) {
		p.Begun, a.stands = f, true
	}
	a.limit = uint8(v.Longest() / 2 / unit)
	for i := range q.list.size() {
		a.acts[i] = q.act(i, p)
		if voter, why := v.Voter(i); why == "" {
			a.votes |= 1 << i
			a.most = uint8(voter.MaxTTL / unit)
		}
	}
	if q.sys.flaw == claimsLast || q.sys.flaw == claimsPlain {
		for range v.Nodes {
			v.Faults = append(v.Faults, errNoLock) // a node that takes no writes needs no claim
		}
	}
	why := v.Unclaimed()
	for q.sys.flaw == claimsBeside && strings.Contains(why, "beside this one") {
		v.Nodes[slices.Index(v.Names, why[:1])] = membership.Observation{}
		why = v.Unclaimed()
	}
	a.free = why == ""
	return a
}

func (q *claimQuestion) act(i int, p membership.Proposal) (x claimAct) {
	v := q.view(q.sys.flaw == claimsDeaf)
	pl := v.Next(i, nowInstant, p)
	if q.sys.flaw == claimsPlain && pl.Action == membership.DoNotice && q.seen[i].nonce != 0 {
		v.Known = membership.Claim{}
		pl = v.Next(i, nowInstant, p)
	}
	switch pl.Action { //nolint:exhaustive // the others change nothing
	case membership.DoForce:
		panic("a generation that is not in the model")
	case membership.DoNotice, membership.DoSeize, membership.DoInstall:
		x = claimAct{kind: pl.Action, old: vowOf(pl.Notice.Claim), claim: vowOf(pl.Claim), founding: pl.Founding != nil, over: pl.Epoch != "", id: numberOf(pl.Record.Cluster)}
	}
	if q.sys.flaw == claimsPlain && x.kind == membership.DoNotice {
		x.claim = vow{}
	}
	if q.lowers(q.seen[i].claimShow) && p.Begun == nil {
		x = claimAct{kind: membership.DoNotice, old: q.seen[i].claim, claim: q.known}
	}
	if r := pl.Record; x.founding {
		x.first = claimCluster{q.goesBy(), uint8(r.MaxTTL / unit), uint8(r.BeforeMaxTTL / unit), fromOf(r.From)}
	}
	return x
}

// The steps.

func (sys *claimSystem) look(s *claimState, k, i uint8) {
	c, v, q := &s.clients[k], &s.nodes[i], sys.question(s, k)
	q.looks, q.n, q.shows = true, i, v.claimShow
	a := q.ask()
	if a.put {
		v.notice(v.claim, a.claim)
	}
	g := claimSight{claimShow: v.claimShow, answered: true, age: 1}
	if a.keepSince {
		g.since = c.seen[i].since
	}
	if g.claim.seized && g.since < g.claim.lease {
		c.seized = max(c.seized, g.claim.lease-g.since)
	}
	c.seen[i], c.known, c.by = g, a.known, a.by
}

// fresh is a number that nobody had; tidy gives it a lower one.
const fresh = 255

// notice runs notice.lua.
func (v *claimNode) notice(old, claim vow) {
	switch {
	case v.nonce == 0:
		v.nonce, v.claim, v.stood = fresh, claim, 0
	case claim.id != 0 && v.claim == old:
		v.claim = claim
	}
}

// act makes the client do what is due on a node, by what it saw.
func (sys *claimSystem) act(s *claimState, k, i uint8, admit bool) {
	c, v, q := &s.clients[k], &s.nodes[i], sys.question(s, k)
	q.admit = admit
	a := q.ask()
	if !a.stands {
		c.begun = claimFounding{}
	}
	x, g := a.acts[i], c.seen[i]
	switch {
	case x.kind == membership.DoNotice:
		v.notice(x.old, x.claim)
	case x.kind == membership.DoSeize && v.epoch == g.epoch && v.claim == x.old:
		*v = claimNode{claimShow: claimShow{nonce: fresh, claim: x.claim}, owner: v.owner, left: v.left}
	case x.kind == membership.DoInstall:
		if x.founding && !c.begun.on {
			c.begun = claimFounding{on: true, first: x.first}
			for j, w := range c.seen {
				if c.begun.marks[j] = (claimShow{nonce: w.nonce, claim: w.claim}); w.id != 0 {
					c.begun.marks[j] = claimShow{epoch: w.epoch}
				}
			}
		}
		if x.over && v.epoch != g.epoch || !x.over && (v.nonce == 0 || v.nonce != g.nonce || v.claim != g.claim && sys.flaw != claimsUnbound) {
			return
		}
		if x.founding && x.id == 0 {
			x.id = uint8(2 + slices.IndexFunc(s.clusters[2:], func(c claimCluster) bool { return c.names == 0 }))
			if x.id < 2 || s.foundings == 0 {
				return
			}
			s.foundings--
			s.clusters[x.id], c.begun.id = c.begun.first, x.id
		}
		*v = claimNode{claimShow: claimShow{id: x.id, epoch: fresh}, owner: v.owner, left: v.left}
	}
}

// lock takes the lock by the votes of these nodes, and reports whether it could.
func (sys *claimSystem) lock(s *claimState, k uint8, votes list) bool {
	c, q := &s.clients[k], sys.question(s, k)
	by := q.goesBy()
	if votes&^by != 0 || votes.size() != quorum.Size(by.size()) || !q.met() || c.left > 0 || c.seized > 0 && sys.flaw != claimsHasty {
		return false
	}
	a := q.ask()
	if !a.free || votes&^a.votes != 0 {
		return false
	}
	for i, g := range c.seen[:q.list.size()] {
		if v := &s.nodes[i]; by.has(uint8(i)) && (g.age == 0 || g.age-1 > a.limit) || votes.has(uint8(i)) && (v.epoch != g.epoch || v.owner != 0) {
			return false
		}
	}
	c.left = a.most
	for i := range s.nodes {
		if votes.has(uint8(i)) {
			s.nodes[i].owner, s.nodes[i].left = 1+k, a.most
		}
	}
	return true
}

// reached reports whether time may pass: no node lacks a claim for as long as an old client waits,
// that one of the newest list would put.
func (sys *claimSystem) reached(s *claimState) bool {
	q, known := claimQuestion{sys: sys, clusters: s.clusters}, list(0)
	for id := range uint8(claimClusters) { // that a client knows, or sees at a look
		members := 0
		for i := range s.nodes {
			if s.nodes[i].id == id && q.newest(id, sys.last()) {
				members++
			}
		}
		for k := range sys.lists {
			if sys.serves(uint8(k)) && s.clients[k].known.id == id && id != 0 || members >= quorum.Size(sys.newest().size()) {
				known |= 1 << id
			}
		}
	}
	for i := range s.nodes {
		v := &s.nodes[i]
		for id := range uint8(claimClusters) {
			due := known.has(id) && q.lacks(v) && v.stood+1 >= sys.old
			if due && (v.claim.id == 0 || v.claim.id == id || s.clusters[id].from[v.claim.id] > v.claim.gen) {
				return s.asleep || sys.flaw == claimsPlain || sys.flaw == claimsLate
			}
		}
	}
	return true
}

func (sys *claimSystem) tick(s *claimState) {
	q, most := claimQuestion{sys: sys, clusters: s.clusters}, sys.longest()
	for i := range s.nodes {
		v := &s.nodes[i]
		if v.left = max(v.left, 1) - 1; v.left == 0 {
			v.owner = 0
		}
		if v.stood = min(v.stood+1, sys.old); !q.lacks(v) {
			v.stood = 0
		}
	}
	for k := range s.clients {
		c := &s.clients[k]
		c.left, c.seized = max(c.left, 1)-1, max(c.seized, 1)-1
		for i := range c.seen {
			if g := &c.seen[i]; g.age > 0 {
				g.age, g.since = min(g.age+1, most+2), min(g.since+1, 2*most)
			}
		}
	}
}

const (
	claimTick uint8 = iota
	claimLook
	claimMiss
	claimDo
	claimLock
	claimRelease
	claimRestart
	claimForget
	claimSleep
	claimWake
)

var claimTexts = [...]string{
	"time passes", "client %[2]d looks at node %[3]d (together: at all)", "client %[2]d gets no answer of node %[3]d", "client %[2]d acts on node %[3]d",
	"client %[2]d has the lock, by nodes %03[3]b", "client %[2]d releases", "client %[2]d restarts", "node %[3]d forgets",
	"the clients of the newest list die", "the clients of the newest list are back",
}

func (sys *claimSystem) Describe(st search.Step) string {
	return fmt.Sprintf(claimTexts[st.Kind]+"%[1]s", "", st.A, st.B)
}

// Weight: looks and acts far more often than faults.
func (sys *claimSystem) Weight(st search.Step) int {
	return [...]int{60, 60, 6, 80, 100, 20, 8, 2, 2, 4}[st.Kind]
}

func (sys *claimSystem) Next(s claimState, yield func(search.Step, claimState)) {
	put := func(kind, a, b uint8, change func(n *claimState)) {
		n := s
		if change(&n); n != s {
			n.tidy()
			yield(search.Step{Kind: kind, A: a, B: b}, n)
		}
	}
	if sys.reached(&s) {
		put(claimTick, 0, 0, sys.tick)
	}
	for k := range uint8(len(sys.lists)) {
		if !s.asleep || !sys.serves(k) {
			sys.serve(k, put)
		}
	}
	q := claimQuestion{sys: sys, clusters: s.clusters}
	for i := range s.nodes {
		v := &s.nodes[i]
		if s.forgets > 0 && v.claimShow != (claimShow{}) && (!q.foundedBeside(v) || sys.flaw == claimsTwice) {
			put(claimForget, 0, uint8(i), func(n *claimState) { n.nodes[i] = claimNode{}; n.forgets-- })
		}
	}
	if s.asleep {
		put(claimWake, 0, 0, func(n *claimState) { n.asleep = false })
	} else if s.sleeps > 0 {
		put(claimSleep, 0, 0, func(n *claimState) {
			n.asleep, n.sleeps = true, n.sleeps-1
			for k := range uint8(len(sys.lists)) {
				if sys.serves(k) {
					n.clients[k] = claimClient{}
				}
			}
		})
	}
}

// serve yields what a client may do.
func (sys *claimSystem) serve(k uint8, put func(kind, a, b uint8, change func(n *claimState))) {
	size := uint8(sys.lists[k].size())
	for i := range size {
		put(claimDo, k, i, func(n *claimState) { sys.act(n, k, i, false) })
		if i == 0 || !sys.together {
			put(claimLook, k, i, func(n *claimState) {
				sys.look(n, k, i)
				for j := i + 1; sys.together && j < size; j++ {
					sys.look(n, k, j)
				}
			})
		}
		if sys.misses {
			put(claimMiss, k, i, func(n *claimState) { n.clients[k].seen[i].answered, n.clients[k].seen[i].age = false, 1 })
		}
	}
	for votes := range sys.lists[k] + 1 {
		put(claimLock, k, uint8(votes), func(n *claimState) { sys.lock(n, k, votes) })
	}
	put(claimRelease, k, 0, func(n *claimState) {
		for i := range n.nodes {
			if v := &n.nodes[i]; v.owner == 1+k && n.clients[k].left > 0 {
				v.owner, v.left = 0, 0
			}
		}
		n.clients[k].left = 0
	})
	put(claimRestart, k, 0, func(n *claimState) { n.clients[k] = claimClient{} })
}

// lockable reports whether a client of the newest list gets the lock while it acts alone, every
// node answers, and an operator says his word in the end. Not asked where an old list's cluster
// stands, and the client neither knows a configuration nor sees one, by one id.
func (sys *claimSystem) lockable(s claimState) bool {
	k := uint8(slices.IndexFunc(sys.lists, func(l list) bool { return l&sys.newest() == sys.newest() }))
	size := uint8(sys.lists[k].size())
	mine, q := s.clients[k], claimQuestion{sys: sys, clusters: s.clusters}
	old, ids := false, list(0)
	for i := range s.nodes {
		id := s.nodes[i].id
		if old = old || id != 0 && !q.newest(id, sys.last()); q.newest(id, sys.last()) {
			ids |= 1 << id
		}
	}
	if old && mine.known.id == 0 && bits.OnesCount8(uint8(ids)) != 1 {
		return true
	}
	s.clients, s.asleep, s.foundings = [claimMost]claimClient{}, false, 255
	s.clients[k] = mine
	for round := range 16 * sys.longest() {
		for i := range 3 * size {
			sys.act(&s, k, i%size, round >= 8*sys.longest())
			for j := range size {
				s.tidy()
				sys.look(&s, k, j)
			}
		}
		s.tidy()
		for votes := range sys.lists[k] + 1 {
			if sys.lock(&s, k, votes) {
				return true
			}
		}
		sys.tick(&s)
	}
	return false
}
