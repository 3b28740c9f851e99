package node

import (
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/quorum"
)

// Handover is a lock on its way from one goroutine of the Locker to the next: each
// node that has the old claim's key is asked to pass it to the new claim, in one
// round trip and past the queue. A node that can't is sent the old claim's
// release instead; what the new claim then has is decided as ever, by a quorum.
type Handover struct {
	Old   Release // what a node gets that did not pass the lock
	Round *Round  // of the new claim
}

// SubmitPass queues the handover, or the old claim's release.
func (n *Node) SubmitPass(h *Handover) {
	n.mu.Lock()
	err := n.refusal(h.Round.Start)
	h.Round.Claim.Marks[n.Index] |= quorum.Behind
	if err == nil {
		n.queue.passes = append(n.queue.passes, h)
	}
	n.nudge()
	if err != nil {
		n.keep(h, quorum.Vote{Outcome: quorum.Failed}, err)
	}
}

// keep has the node release the old claim: it did not pass it on. The new one's
// release follows it, and is not confirmed before.
func (n *Node) keep(h *Handover, v quorum.Vote, cause error) {
	n.Release(h.Old)
	h.Round.deliver(n.Index, v, cause)
}

// takePasses takes the handovers of keys that are there. Where an earlier command
// may still come, or the node does not vote, the old claim's release goes out
// instead.
func (q *pending) takePasses(b *batch) {
	for i, h := range q.passes {
		old := h.Old.Claim
		switch quorum.PassingOf(old.Marks[q.node], b.silent == nil, h.Round.Claim.Over.Load()) {
		case quorum.PassGone:
			h.Round.Claim.Marks[q.node] &^= quorum.Behind
			if old.Pushes { // its entry may stand here
				gone := h.Old
				gone.Entry, gone.Round, gone.Hand = LeaveQueue, nil, false
				b.releases = append(b.releases, gone)
			}
			if h.Old.Round != nil {
				h.Old.Round.deliver(q.node, quorum.Vote{Outcome: quorum.Granted}, nil)
			}
			h.Round.deliver(q.node, quorum.Vote{Outcome: quorum.Taken}, errGone)
		case quorum.PassDoubted:
			b.releases = append(b.releases, h.Old)
			h.Round.deliver(q.node, quorum.Vote{Outcome: quorum.Failed}, errNotPassed)
		case quorum.PassOver:
			if !onward(h, q.passes[i+1:], q.node) {
				b.releases = append(b.releases, h.Old)
			}
		case quorum.PassGoes:
			h.Round.Claim.Marks[q.node] |= quorum.Unsure
			b.passes = append(b.passes, h)
		}
	}
	q.passes = drop(q.passes, len(q.passes))
}

// onward has a later handover in the queue begin at h's old claim: the one between
// has passed the lock on before this node heard of it. A node that is slower than
// the hand-overs stays among those that hold the lock; else one turn would thin
// them out to a bare quorum.
func onward(h *Handover, later []*Handover, node int) bool {
	for i, next := range later {
		if next.Old.Claim != h.Round.Claim {
			continue
		}
		if next.Old.Round != nil { // it never was here
			next.Old.Round.deliver(node, quorum.Vote{Outcome: quorum.Granted}, nil)
		}
		from := *next
		from.Old = h.Old
		later[i] = &from
		return true
	}
	return false
}

var errNotPassed = errors.New("not sent: what this node holds of the lock is not known")

// settlePass hands out the reply to a pass. Where it did not happen, or may not
// have, the old claim is released; the new one's own rollback, if it comes to
// that, follows it.
func (n *Node) settlePass(h *Handover, cmd redis.Cmder, outcome quorum.Outcome, err error) (recheck bool) {
	c := h.Round.Claim
	var v quorum.Vote
	switch reply := replyAt(cmd, 0, 1); {
	case err != nil:
		v, err = quorum.Vote{Outcome: outcome}, Explain(err)
		recheck = IsMissingScript(err)
	default:
		recheck = reply == 0
		v, err = n.acquireVote(reply)
	}
	n.markAfter(c, v.Outcome)
	if !quorum.TookOver(v.Outcome) {
		n.keep(h, v, err)
		return recheck
	}
	n.mu.Lock()
	h.Old.Claim.Marks[n.Index] = quorum.Absent
	c.Marks[n.Index] &^= quorum.Behind
	n.mu.Unlock()
	if h.Old.Round != nil {
		h.Old.Round.deliver(n.Index, quorum.Vote{Outcome: quorum.Granted}, nil)
	}
	v, err = n.counted(h.Round, v, err)
	h.Round.deliver(n.Index, v, err)
	return recheck
}
