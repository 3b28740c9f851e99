package redlock

import (
	"context"
	"sync"
	"time"
)

// group is one script call for many claims on one node: an extension, or a
// re-seed. answer gets the node's reply, one integer for each claim.
type group struct {
	script *script
	claims []*claim
	ttls   []int64 // ms
	start  instant // of its round
	answer func(node int, o Outcome, replies []int64, cause error)
}

// forget takes out the claims for which gone is true.
func (g *group) forget(gone func(*claim) bool) {
	k := 0
	for i, c := range g.claims {
		if !gone(c) {
			g.claims[k], g.ttls[k] = c, g.ttls[i]
			k++
		}
	}
	g.claims, g.ttls = g.claims[:k], g.ttls[:k]
}

// extension is one round that confirms many locks and lengthens their leases.
// Each lock has a verdict of its own.
type extension struct {
	nodes   []*node
	locks   []*Lock
	claims  []*claim
	ttls    []int64
	start   instant
	renewal bool          // the Locker's own; the caller's, who alone reads it
	done    chan struct{} // closed when every lock is decided

	mu       sync.Mutex // guards the fields below
	replies  [][]int64  // by node, then by lock; nil: no reply
	outcomes []Outcome  // by node
	causes   []error    // by node
	verdicts []verdict  // by lock
	open     int        // locks that are undecided
}

// extend sends the extension of locks to ttls and returns at once.
func (l *Locker) extend(locks []*Lock, ttls []time.Duration) *extension {
	n := len(l.nodes)
	e := &extension{
		nodes: l.nodes, locks: locks, claims: make([]*claim, len(locks)), ttls: make([]int64, len(locks)),
		start: l.clock.early(), done: make(chan struct{}),
		replies: make([][]int64, n), outcomes: make([]Outcome, n), causes: make([]error, n),
		verdicts: make([]verdict, len(locks)), open: len(locks),
	}
	for i, lock := range locks {
		e.claims[i], e.ttls[i] = lock.claim, milliseconds(ttls[i])
	}
	for _, node := range l.nodes {
		node.submitGroup(&group{script: extendScript, claims: e.claims, ttls: e.ttls, start: e.start, answer: e.answer}, e.start)
	}
	return e
}

// answer takes in one node's reply. One that comes when all is decided still
// says which locks the node has lost.
func (e *extension) answer(i int, o Outcome, replies []int64, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.outcomes[i] != Pending {
		return
	}
	e.outcomes[i], e.replies[i], e.causes[i] = o, replies, cause
	if e.open == 0 {
		e.late(i)
		return
	}
	e.judge()
}

// judge decides what can be decided; mu is held.
func (e *extension) judge() {
	for k := range e.verdicts {
		if e.verdicts[k] != undecided {
			continue
		}
		e.verdicts[k] = count(e.votes(k)).extension()
		if e.verdicts[k] != undecided {
			e.open--
		}
	}
	if e.open > 0 {
		return
	}
	for k, c := range e.claims {
		if e.verdicts[k] == won {
			c.round.Store(int64(e.start))
			c.voters.Store(e.confirmers(k)) // at once: a node in doubt is taken out of the whole
		}
	}
	for i, o := range e.outcomes {
		if o == Granted {
			e.reseed(i)
		}
	}
	close(e.done)
}

// confirmers are the nodes that confirmed lock k, one bit each; mu is held.
func (e *extension) confirmers(k int) uint64 {
	set := uint64(0)
	for i, v := range e.votes(k) {
		if v.outcome == Granted {
			set |= 1 << i
		}
	}
	return set
}

// late takes in what node i said of locks that were decided without it: it
// vouches for those that it confirmed, and gets back those that it lost; mu is
// held.
func (e *extension) late(i int) {
	for k, reply := range e.replies[i] {
		if reply == 1 && e.verdicts[k] == won {
			e.claims[k].vouch(i, e.start)
		}
	}
	e.reseed(i)
}

// votes are the nodes' votes on lock k; mu is held.
func (e *extension) votes(k int) []vote {
	var room [9]vote
	votes := append(room[:0], make([]vote, len(e.outcomes))...)
	for i, o := range e.outcomes {
		votes[i].outcome = o
		if o == Granted {
			votes[i].outcome = confirmationOf(e.replies[i], k)
		}
	}
	return votes
}

// confirmationOf reads lock k's reply of extend.lua.
func confirmationOf(replies []int64, k int) Outcome {
	if k >= len(replies) {
		return Unknown
	}
	switch replies[k] {
	case 1:
		return Granted
	case 0, 2:
		return Taken
	case -1:
		return Abstained
	default:
		return Unknown
	}
}

// reseed puts back on node i the locks that it has lost and a quorum confirmed
// in this round; mu is held.
func (e *extension) reseed(i int) {
	g := &group{script: reseedScript, start: e.start}
	for k, reply := range e.replies[i] {
		if reply == 0 && e.verdicts[k] == won {
			g.claims, g.ttls = append(g.claims, e.claims[k]), append(g.ttls, e.ttls[k])
		}
	}
	if len(g.claims) == 0 {
		return
	}
	node := e.nodes[i]
	g.answer = func(_ int, o Outcome, replies []int64, _ error) {
		for k, c := range g.claims {
			if o == Granted && confirmationOf(replies, k) == Granted {
				node.markAfter(c, Granted)
			}
		}
	}
	// A goroutine of the node may be holding our mu: its own queue's mu comes
	// below ours, never above.
	node.submitGroup(g, node.clock.early())
}

// wait blocks until every lock is decided, limit has passed, or ctx is done.
func (e *extension) wait(ctx context.Context, c *Clock, limit time.Duration) {
	t := c.newTimer(limit)
	defer t.Stop()
	select {
	case <-e.done:
		return
	case <-t.C:
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == 0 {
		return
	}
	for i := range e.outcomes {
		if e.outcomes[i] == Pending {
			e.outcomes[i], e.causes[i] = Unknown, errTimeout
		}
	}
	e.judge()
}

// verdict returns what became of lock k.
func (e *extension) verdict(k int) verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.verdicts[k]
}

// failure is why lock k was not confirmed.
func (e *extension) failure(k int, sentinel error) *QuorumError {
	e.mu.Lock()
	defer e.mu.Unlock()
	votes, causes := e.votes(k), append([]error(nil), e.causes...)
	for i := range votes {
		if votes[i].outcome == Taken && causes[i] == nil {
			causes[i] = errGone
			if e.replies[i][k] == 2 {
				causes[i] = errForeign
			}
		}
	}
	return quorumError("extend", e.locks[k].resource, sentinel, nil, e.nodes, votes, causes)
}
