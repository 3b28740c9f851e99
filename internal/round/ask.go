package round

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
)

// AcceptPushes lets releases grant the round's claim as well.
func (r *Round) AcceptPushes() {
	r.Claim.AcceptPush(r.Asks.Position)
	r.Asks.attempt = grant.NewAttempt(len(r.Votes))
	r.Asks.since = make([]clock.Instant, len(r.Votes))
	r.Votes = r.Asks.attempt.Votes
	r.List.Leave(r.Votes)
}

// Lease is for how long a node keeps a claim that takes pushes. Each node's lease begins by
// itself, with the push or the ask that granted it.
type Lease struct {
	Since clock.Instant // it began no earlier
	Until clock.Instant // for how long it may be trusted
}

// Grant takes in that node i granted a claim that takes pushes: to an ask, or because a
// release did (pushed). Its messages may be late: of the tokens the largest counts, and
// of the leases the latest.
func (r *Round) Grant(i int, t quorum.Token, l Lease, pushed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Caller == nil || !r.List.Has(i) {
		return
	}
	a := r.Asks
	if !pushed {
		a.attempt.Answered(i)
	}
	r.grantedLocked(i, t, l)
	a.Pushed = a.Pushed || pushed
	r.wakeLocked()
}

// grantedLocked notes a grant, and keeps the later of two leases of one node.
func (r *Round) grantedLocked(i int, t quorum.Token, l Lease) {
	a := r.Asks
	if l.Until > a.attempt.Until[i] {
		a.since[i] = l.Since
	}
	a.attempt.Granted(i, t, l.Until)
	r.blame(i, nil)
}

// Hint takes in that nodes called.
func (r *Round) Hint(nodes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Asks.attempt.Hinted |= nodes & r.List.Nodes(len(r.Votes))
}

// AskAll makes the attempt ask all nodes from now on; with last, the time for the last
// pushes is over as well.
func (r *Round) AskAll(last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Asks.attempt.All, r.Asks.attempt.Late = true, last
}

// Again makes the attempt ask the nodes that have not granted once more: their earlier
// replies are old by now.
func (r *Round) Again(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.Asks.attempt
	r.Asks.Handed = false
	a.Sent, a.All, a.Late = a.Out, all, false
}

// Next is what the attempt does next. It notes the nodes of an Ask as asked: the caller must
// send to all of them. If the caller may not ask, there are none.
func (r *Round) Next(mayAsk bool) (s grant.Step, nodes uint64, granted, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.Asks.attempt
	if s, nodes, _ = a.Next(); s == grant.Ask {
		if r.Asks.Position == quorum.NoTicket { // the nodes say it soon
			return grant.Wait, 0, true, a.All
		}
		if !mayAsk {
			return s, 0, quorum.Count(a.Votes).Granted > 0, a.All
		}
		a.Ask(nodes)
	}
	return s, nodes, quorum.Count(a.Votes).Granted > 0, a.All
}

// Out tells whether the reply to any ask is still out.
func (r *Round) Out() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Asks.attempt.Out != 0
}

// Refused tells whether a quorum refused the last ask, and no node granted. A refusal whose
// node was asked again since does not count.
func (r *Round) Refused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Asks.Position == quorum.NoTicket { // the nodes have still to be told of its place
		return false
	}
	refused := 0
	for i, v := range r.Votes {
		switch {
		case v.Outcome == quorum.Granted:
			return false
		case v.Outcome == quorum.Taken && r.Asks.attempt.Out&(1<<i) == 0:
			refused++
		}
	}
	return refused >= quorum.Needed(r.Votes)
}

// GoesOn tells whether an attempt that rests has something to do: a node granted it, or a
// node that called while an ask was out has answered that ask.
func (r *Round) GoesOn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.Asks.attempt
	return quorum.Count(r.Votes).Granted > 0 || a.Hinted&^a.Out != 0
}

// Granted tells whether any node has granted it.
func (r *Round) Granted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return quorum.Count(r.Votes).Granted > 0
}

// Leases returns since when the leases of a closed round with this token count, and until
// when a quorum of them may be trusted. If the token was raised, it returns until when all
// granted leases may be trusted: any of them may be needed for the quorum. The claim then
// stands on the nodes whose leases last so long, on each since its own lease began, and on
// no node that grants it later.
func (r *Round) Leases(t quorum.Token) (since clock.Instant, valid clock.Validity) {
	since, valid.Until = clock.Never, clock.Never
	for i, v := range r.Votes {
		if v.Outcome == quorum.Granted {
			since, valid.Until = min(since, r.Asks.since[i]), min(valid.Until, r.Asks.attempt.Until[i])
		}
	}
	if until, ok := r.Asks.attempt.LeaseUntil(t); ok {
		valid.Until = until
	}
	var stands uint64
	for i, v := range r.Votes {
		if v.Outcome == quorum.Granted && r.Asks.attempt.Until[i] >= valid.Until {
			stands |= 1 << i
		}
	}
	r.Claim.standEach(&r.Asks.since, stands)
	return since, valid
}

// SaidSoFar is a copy of the votes, of what the refusals say besides, and of the votes' causes,
// while more may come: all as of one moment, or a refusal would be counted without its place.
func (r *Round) SaidSoFar() ([]quorum.Vote, []quorum.Hearing, []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.Votes), slices.Clone(r.Asks.Heard), slices.Clone(r.Causes)
}

// Hear notes what node i's refusal says of the line. It is called before the vote is
// delivered, which may wake the caller to read it.
func (r *Round) Hear(i int, h quorum.Hearing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Caller != nil && (r.Votes[i].Outcome == quorum.Pending || r.Asks.attempt != nil) {
		r.Asks.Heard[i] = h
	}
}

// Due takes in the hints that have come, and returns the nodes to ask now.
func (r *Round) Due(hints uint64, all bool) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, granted := &r.Asks.bid, uint64(0)
	for i, v := range r.Votes {
		if v.Outcome == quorum.Granted || v.Outcome == quorum.Unlisted {
			granted |= 1 << i
		}
	}
	b.Hinted |= hints
	now := b.Due(all, len(r.Votes), granted)
	for i := range r.Votes {
		if now&(1<<i) != 0 {
			r.Votes[i] = quorum.Vote{Outcome: quorum.Pending}
		}
	}
	b.Ask(now)
	return now
}

// Unanswered are the nodes that called us while our ask to them was out, in a round that
// ended before their reply. The reply may be older than the call, so the next round begins
// with these nodes.
func (r *Round) Unanswered() (hints uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, v := range r.Votes {
		if v.Outcome != quorum.Granted {
			hints |= r.Asks.askedLocked().Hinted & (1 << i)
		}
	}
	return hints
}

// Others are the nodes that a round has won without, for the caller to ask: the name is free
// there too, or will be, and a lock that rests on a bare quorum is lost with the first node
// of it that fails. Nobody waits for their replies. There are none if a release granted the
// lock: pushes are on their way, and an extension follows.
func (r *Round) Others() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if quorum.Count(r.Votes).Verdict() != quorum.Won {
		return 0
	}
	b := r.Asks.askedLocked()
	nodes := b.Unasked(len(r.Votes)) & r.List.Nodes(len(r.Votes))
	if r.Asks.Pushed {
		return 0
	}
	if r.Asks.attempt != nil {
		nodes = 0
		for i, v := range r.Votes {
			if v.Outcome != quorum.Granted && v.Outcome != quorum.Unlisted && b.Out&(1<<i) == 0 {
				nodes |= 1 << i
			}
		}
	}
	b.Ask(nodes)
	return nodes
}

// Position is the round's place in line; NoTicket if it has none.
func (r *Round) Position() *int64 {
	if r.Asks == nil {
		return &noTicket
	}
	return &r.Asks.Position
}

// HasPlace tells whether the round asks by a place in line. Each node is told of that place,
// even one that gives no vote: it orders the line when it votes again.
func (r *Round) HasPlace() bool { return r.Asks != nil && r.Asks.Position > 0 }

// LineOf is the name that the round's process stands in line for.
func (r *Round) LineOf() string { return r.Claim.Line() }

// SlotPosition is the place by which the round asks for a slot. Once the process has left the
// line it asks without a place, which would put it there again.
func (r *Round) SlotPosition() int64 {
	if r.Claim.Slot().Left.Load() {
		return quorum.Barging
	}
	return r.Asks.Position
}

// GoOn lets the earlier claim's releases put the round's claim in line: each node's reply
// to the release is the reply to an ask, so all nodes count as asked.
func (r *Round) GoOn() {
	r.AcceptPushes()
	a, all := r.Asks, r.List.Nodes(len(r.Votes))
	a.said, a.unsaid, a.Handed = make([]grant.Standing, len(r.Votes)), all, true
	a.attempt.Out, a.attempt.Unplaced = all, true
}

// Stand takes in node i's reply to the release of GoOn: a grant (s.Token), a place, or
// neither, for this cause.
func (r *Round) Stand(i int, s grant.Standing, h quorum.Hearing, l Lease, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Caller == nil || !r.List.Has(i) {
		return
	}
	a := r.Asks
	a.said[i], a.Heard[i] = s, h
	a.unsaid &^= 1 << i
	switch {
	case s.Token > 0:
		r.grantedLocked(i, s.Token, l)
		a.attempt.Answered(i)
		a.Pushed = true
		r.wakeLocked()
	case s.Known:
		r.refuseLocked(i, quorum.Taken, nil)
	default:
		r.refuseLocked(i, quorum.Failed, cause)
	}
}

// Unplaced tells whether the round's place is still unknown.
func (r *Round) Unplaced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Asks.Position == quorum.NoTicket
}

// Placed takes in the places that the nodes have said so far. place is the one that goes for
// all nodes; 0 if it is unknown. tell are the nodes that said another place: Placed notes
// them as asked, and the caller asks them by this place. There are none once the lock is
// held. lost says that too few nodes said a place.
func (r *Round) Placed() (place int64, tell uint64, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.Asks
	if a.said == nil {
		return a.Position, 0, false
	}
	if a.Position == quorum.NoTicket {
		found, _, ok := grant.PlaceOf(a.said, quorum.Needed(r.Votes))
		if !ok {
			return quorum.NoTicket, 0, a.unsaid == 0
		}
		a.Position, r.Claim.place, a.attempt.Unplaced = found, found, false
	}
	if step, _, _ := a.attempt.Next(); step == grant.Hold {
		return a.Position, 0, false
	}
	for i, s := range a.said {
		if r.List.Has(i) && (a.unsaid|a.attempt.Told|a.attempt.Out)&(1<<i) == 0 && s.Place != a.Position && int64(s.Token) < a.Position { //nolint:gosec // below 2^53
			tell |= 1 << i
		}
	}
	a.attempt.Told |= tell
	a.attempt.Ask(tell)
	return a.Position, tell, false
}

// HintLead is how far a hint may be ahead of the nodes' clocks, so that a client
// whose clock is years ahead does not use the tokens up.
//
// The bound is the median of the nodes' clocks, and one hint goes to all nodes. A bound by
// each node's own clock would give each node another hint, and so another counter: one
// client in the future would cost everybody a second round trip. If a majority's clocks
// are far ahead, tokens are large, and still unique and growing.
const HintLead = time.Minute

// Hints are the tokens that one Locker suggests to its nodes. A hint is a proposal only: a
// node that has counted further grants a larger token.
type Hints struct {
	clock *clock.Clock
	lead  atomic.Int64 // how far a hint may be ahead of the Clock, in microseconds; 0 if no sample yet
	last  atomic.Int64 // the largest token seen, or hint given
}

// NewHints are hints that no node's clock bounds yet.
func NewHints(c *clock.Clock) *Hints { return &Hints{clock: c} }

// Bound takes in by how many microseconds the nodes' clocks are ahead of ours.
func (h *Hints) Bound(offset int64) { h.lead.Store(offset + HintLead.Microseconds()) }

// Hint suggests a token: the client's clock in microseconds, so that the nodes
// stay in step through crashes too, or one more than the last token seen. Each
// hint is given once.
func (h *Hints) Hint() int64 {
	for {
		last := h.last.Load()
		next := last + 1
		if lead := h.lead.Load(); lead != 0 {
			next = max(next, min(h.clock.Wall().UnixMicro(), int64(h.clock.Early())/1000+lead))
		}
		if h.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Seen notes a token, so that the next hint is above it. A token that is further ahead than
// a hint may be comes from one damaged node, or from one name's past: it must not carry all
// other names along.
func (h *Hints) Seen(t quorum.Token) {
	if lead := h.lead.Load(); lead != 0 && int64(t) > int64(h.clock.Early())/1000+lead { //nolint:gosec // below 2^53
		return
	}
	for {
		last := h.last.Load()
		if t := int64(t); t <= last || h.last.CompareAndSwap(last, t) { //nolint:gosec // below 2^53
			return
		}
	}
}

var noTicket = quorum.NoTicket

// sharedAsks is Asks whose Heard needs no memory of its own.
type sharedAsks struct {
	Asks

	room [FewNodes]quorum.Hearing
}

// NewSharedAsks makes the Asks of a round that asks so many nodes to share, by this place.
func NewSharedAsks(position int64, nodes int) *Asks {
	a := &sharedAsks{Asks: Asks{Position: position}}
	if a.Heard = a.room[:min(nodes, FewNodes)]; nodes > FewNodes {
		a.Heard = make([]quorum.Hearing, nodes)
	}
	return &a.Asks
}
