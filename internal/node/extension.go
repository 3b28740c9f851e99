package node

import (
	"context"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Extension is one round that confirms many locks and lengthens their leases.
// Each lock has a verdict of its own, and is concluded when that is known: one that
// waits for a node that hangs holds up no other.
//
// It outlives its Wait: replies that come later still vouch for their locks, and still find
// nodes that lost them. Its mu comes before a node's: a re-seed is queued under it.
type Extension struct {
	nodes   []*Node
	claims  []*round.Claim
	ttls    []int64
	Start   clock.Instant
	list    quorum.List   // that the Locker goes by: a lock of another goes over to it
	Renewal bool          // the Locker's own, by its timer; only the caller reads it
	wake    chan struct{} // more locks are decided

	mu sync.Mutex // guards the fields below
	// said is what each node said of each lock: one list for all, by node and then by lock
	// (saidLocked), where a renewal of 250 locks would else need a list for each.
	said     []confirmation
	verdicts []quorum.Verdict // by lock
	open     int              // locks that are undecided
	fresh    []int            // locks that are decided, and were not concluded yet
}

// confirmation is what one node said of one lock.
type confirmation struct {
	outcome quorum.Outcome
	gone    bool // it is taken because nothing is there
	cause   error
	lists   [2]quorum.List // by which the node voted that said it
}

// Extend sends the extension of claims to ttls (in ms), and returns at once. Claims of one kind
// that stand side by side go in one call, of which each node gets the same; a node that is
// down answers before Extend returns.
//
// Each claim is judged by the list that it goes by. Where that is not the Locker's list, the nodes of
// both are asked, and the claim goes over once a quorum of the Locker's confirms it as well. The
// nodes that the newer list adds lack it at first: it is put back there once its own list has
// confirmed it, and the next extension finds it there. What its own list has lost goes nowhere.
func Extend(nodes []*Node, list quorum.List, claims []*round.Claim, ttls []int64, start clock.Instant) *Extension {
	asked := list.Nodes(len(nodes))
	for _, c := range claims {
		asked |= c.List().Nodes(len(nodes))
	}
	e := &Extension{
		nodes: nodes, list: list, claims: claims, ttls: ttls, Start: start, wake: make(chan struct{}, 1),
		said: make([]confirmation, len(nodes)*len(claims)), verdicts: make([]quorum.Verdict, len(claims)), open: len(claims),
	}
	// Only neighbours of one kind share a call: the caller's order tells which verdict is whose.
	for first := 0; first < len(claims); {
		end, script := ofOneKind(claims, first)
		for i, node := range nodes {
			if asked&(1<<i) == 0 {
				continue
			}
			node.submitGroup(&group{
				script: script, claims: claims[first:end], ttls: ttls[first:end], start: start, first: first, answer: e.answer,
			}, start)
		}
		first = end
	}
	return e
}

// ofOneKind is where the claims from first on that are of its kind end, and the script
// that extends them. The Locker renews holds of all kinds in one round.
func ofOneKind(claims []*round.Claim, first int) (end int, script *lua.Script) {
	shared := claims[first].Shared()
	for end = first + 1; end < len(claims) && claims[end].Shared() == shared; end++ {
	}
	if shared {
		return end, lua.ExtendSharedScript
	}
	return end, lua.ExtendScript
}

// answer takes in what one node said of some locks. What comes when a lock is
// decided still tells whether the node vouches for it, or has lost it. A lock that is won by
// this answer is put back on every node that was seen to lack it before; one that was won
// earlier only on this node. A lock that is lost is put back nowhere.
func (e *Extension) answer(g *group, i int, o quorum.Outcome, replies []int64, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var fresh, settled []int // locks that this answer has won, and locks that were won before it
	for k := g.first; k < g.first+len(g.claims); k++ {
		c := e.saidLocked(i, k)
		if c.outcome != quorum.Pending {
			continue
		}
		*c = confirmation{outcome: o, cause: cause, lists: g.lists}
		if o == quorum.Granted {
			*c = confirmationOf(replies, k-g.first)
			c.lists = g.lists
		}
		switch e.verdicts[k] {
		case quorum.Undecided:
			if e.decideLocked(k) == quorum.Won {
				fresh = append(fresh, k)
			}
		case quorum.Won:
			if settled = append(settled, k); c.outcome == quorum.Granted {
				e.claims[k].Vouch(i, e.Start)
				e.goOverLocked(k)
			}
		case quorum.Lost, quorum.Contended, quorum.NoQuorum:
		}
	}
	for k := g.first; k < g.first+len(g.claims); k++ {
		if e.keptLocked(k) {
			fresh = append(fresh, k)
		}
	}
	for j := range e.nodes {
		e.reseedLocked(j, fresh)
	}
	e.reseedLocked(i, settled)
	e.wakeLocked()
}

// decideLocked judges lock k. Once it is decided, Wait gets it to conclude (fresh).
func (e *Extension) decideLocked(k int) quorum.Verdict {
	own := e.claims[k].List()
	v := e.verdictLocked(k, own)
	if own != e.list && v != quorum.Won && v != quorum.Lost {
		// Its own list may have ended (the next change has begun): the newer one is enough.
		if newer := e.verdictLocked(k, e.list); newer == quorum.Won || newer == quorum.Undecided {
			v = newer
		}
	}
	if v == quorum.Undecided {
		return v
	}
	e.verdicts[k], e.open, e.fresh = v, e.open-1, append(e.fresh, k)
	if v == quorum.Won {
		if own != e.list && e.verdictLocked(k, e.list) == quorum.Won {
			own = e.list
		}
		e.claims[k].StandBy(own, e.Start, e.confirmersLocked(k, own))
	}
	return v
}

// verdictLocked returns what this list comes to for lock k.
func (e *Extension) verdictLocked(k int, list quorum.List) quorum.Verdict {
	return quorum.Count(e.votesLocked(k, list)).Extension()
}

// goOverLocked has lock k, which was won, go over to the Locker's list if a quorum of that confirms it.
func (e *Extension) goOverLocked(k int) {
	if e.claims[k].List() != e.list && e.verdictLocked(k, e.list) == quorum.Won {
		e.claims[k].GoOver(e.list, e.Start, e.confirmersLocked(k, e.list), len(e.nodes))
	}
}

// keptLocked reports whether a lock that goes over is still on a quorum of its own list, though those
// nodes may not vote by that any more: nobody else can have it by a list next to that.
func (e *Extension) keptLocked(k int) bool {
	own, on := e.claims[k].List(), 0
	if own == e.list || e.verdicts[k] == quorum.Won || e.verdicts[k] == quorum.Lost {
		return false
	}
	for i := range e.nodes {
		if own.Has(i) && e.saidLocked(i, k).outcome == quorum.Granted {
			on++
		}
	}
	return on >= own.Quorum(len(e.nodes))
}

// confirmersLocked are the nodes of the list that confirmed lock k, one bit each.
func (e *Extension) confirmersLocked(k int, list quorum.List) uint64 {
	set := uint64(0)
	for i, v := range e.votesLocked(k, list) {
		if v.Outcome == quorum.Granted {
			set |= 1 << i
		}
	}
	return set
}

// votesLocked are the votes on lock k by this list, as the pure rules take them. A node that does
// not vote by it says nothing of the lock.
func (e *Extension) votesLocked(k int, list quorum.List) []quorum.Vote {
	var room [9]quorum.Vote
	votes := append(room[:0], make([]quorum.Vote, len(e.nodes))...)
	for i := range votes {
		said := e.saidLocked(i, k)
		votes[i].Outcome = said.outcome
		if (said.outcome == quorum.Granted || said.outcome == quorum.Taken) && list != said.lists[0] && list != said.lists[1] {
			votes[i].Outcome = quorum.Abstained
		}
	}
	list.Leave(votes)
	return votes
}

// confirmationOf reads lock k's reply of extend.lua, or of reseed.lua. 0 and 2 both refuse: but
// only a key that is gone may be put back, and never over another's.
func confirmationOf(replies []int64, k int) confirmation {
	if k >= len(replies) {
		return confirmation{outcome: quorum.Unknown, cause: ErrNoReply}
	}
	switch replies[k] {
	case 1:
		return confirmation{outcome: quorum.Granted}
	case 0:
		return confirmation{outcome: quorum.Taken, gone: true, cause: ErrGone}
	case 2:
		return confirmation{outcome: quorum.Taken, cause: errForeign}
	case -1:
		return confirmation{outcome: quorum.Abstained, cause: errEpoch}
	default:
		return confirmation{outcome: quorum.Unknown, cause: ErrNoReply}
	}
}

// reseedLocked puts back on node i those of the locks that it has lost and a quorum
// confirmed in this round. A lock on a bare quorum is lost with the next node that fails; the
// next extension finds it on this one again. A re-seed itself is no vote (ADR 13).
func (e *Extension) reseedLocked(i int, locks []int) {
	// e.mu is held, and submitReseed takes the node's: this is the one order of the two. A
	// writer that answers us holds no mutex of its node (group).
	if g := e.lostLocked(i, locks, false); g != nil {
		e.nodes[i].submitReseed(g, lua.ReseedScript)
	}
	if g := e.lostLocked(i, locks, true); g != nil {
		e.nodes[i].submitReseed(g, lua.ReseedSharedScript)
	}
}

// lostLocked are those of the locks of one kind that are to be put back on node i; nil if none.
func (e *Extension) lostLocked(i int, locks []int, shared bool) (g *group) {
	for _, k := range locks {
		said := e.saidLocked(i, k)
		if e.claims[k].Shared() != shared || !said.gone || !e.list.Has(i) && !e.claims[k].List().Has(i) || e.verdicts[k] != quorum.Won && !e.keptLocked(k) {
			continue
		}
		said.gone = false // once
		if g == nil {
			g = &group{start: e.Start}
		}
		g.claims, g.ttls = append(g.claims, e.claims[k]), append(g.ttls, e.ttls[k])
	}
	return g
}

// submitReseed queues a re-seed. Nobody waits for its answer, and it is no vote: by then a
// quorum has confirmed the lock without it. The answer only notes what the node has now, so
// that the release goes there.
func (n *Node) submitReseed(g *group, s *lua.Script) {
	g.script = s
	g.answer = func(g *group, _ int, o quorum.Outcome, replies []int64, _ error) {
		for k, c := range g.claims {
			if o == quorum.Granted && confirmationOf(replies, k).outcome == quorum.Granted {
				n.markAfter(c, quorum.Granted)
			}
		}
	}
	n.submitGroup(g, n.Clock.Early())
}

// Wait blocks until every lock is decided, limit has passed, or ctx is done. Each
// lock is concluded as soon as its verdict is known, and at the latest then. conclude runs
// in the caller's goroutine, with no mutex held: it may end the lock.
func (e *Extension) Wait(ctx context.Context, c *clock.Clock, limit time.Duration, conclude func(k int)) {
	t := c.NewTimer(limit)
	defer t.Stop()
	for {
		fresh, open := e.take()
		for _, k := range fresh {
			conclude(k)
		}
		if open == 0 {
			return
		}
		select {
		case <-e.wake:
		case <-t.C:
			e.expire(round.ErrTimeout)
		case <-ctx.Done():
			e.expire(fault.OfContext(ctx))
		}
	}
}

// take returns the locks that were decided since it was last called, and how many
// are open. Each lock is returned once.
func (e *Extension) take() (fresh []int, open int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fresh, e.fresh = e.fresh, nil
	return fresh, e.open
}

// expire decides what is still open: a node that has not answered is unknown, for this
// cause. With no vote pending every lock gets a verdict, so that Wait ends after it.
func (e *Extension) expire(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.claims {
		if e.verdicts[k] != quorum.Undecided {
			continue
		}
		for i := range e.nodes {
			if c := e.saidLocked(i, k); c.outcome == quorum.Pending {
				*c = confirmation{outcome: quorum.Unknown, cause: cause}
			}
		}
		e.decideLocked(k)
	}
}

// Verdict returns what became of lock k; Undecided until then.
func (e *Extension) Verdict(k int) quorum.Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.verdicts[k]
}

// Result is what the nodes said of lock k so far, in lists of the caller's own.
func (e *Extension) Result(k int) (votes []quorum.Vote, causes []error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	causes = make([]error, len(e.nodes))
	for i := range causes {
		causes[i] = e.saidLocked(i, k).cause
	}
	return e.votesLocked(k, e.claims[k].List()), causes
}

// saidLocked is what node i said of lock k.
func (e *Extension) saidLocked(i, k int) *confirmation { return &e.said[i*len(e.claims)+k] }

// wakeLocked wakes Wait if locks were decided. One wake-up serves for many: take empties fresh.
func (e *Extension) wakeLocked() {
	if len(e.fresh) == 0 {
		return
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
}
