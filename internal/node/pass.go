package node

import (
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/quorum"
)

// handover is a lock on its way from one goroutine of the Locker to the next: each
// node that has the old claim's key is asked to pass it to the new claim, in one
// round trip and past the queue. A node that can't is sent the old claim's
// release instead; what the new claim then has is decided as ever, by a quorum.
type handover struct {
	old   cleanup // what a node gets that did not pass the lock
	round *round  // of the new claim
}

// submitPass queues the handover, or the old claim's release.
func (n *node) submitPass(h *handover) {
	n.mu.Lock()
	err := n.refusal(h.round.start)
	h.round.claim.marks[n.index] |= quorum.Behind
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
func (n *node) keep(h *handover, v quorum.Vote, cause error) {
	n.release(h.old)
	h.round.deliver(n.index, v, cause)
}

// takePasses takes the handovers of keys that are there. Where an earlier command
// may still come, or the node does not vote, the old claim's release goes out
// instead; mu is held.
func (n *node) takePasses() {
	f := &n.flight
	for i, h := range n.queue.passes {
		old := h.old.claim
		switch quorum.PassingOf(old.marks[n.index], f.silent == nil, h.round.claim.over.Load()) {
		case quorum.PassGone:
			h.round.claim.marks[n.index] &^= quorum.Behind
			if h.old.round != nil {
				h.old.round.deliver(n.index, quorum.Vote{Outcome: quorum.Granted}, nil)
			}
			h.round.deliver(n.index, quorum.Vote{Outcome: quorum.Taken}, errGone)
		case quorum.PassDoubted:
			f.releases = append(f.releases, h.old)
			h.round.deliver(n.index, quorum.Vote{Outcome: quorum.Failed}, errNotPassed)
		case quorum.PassOver:
			if !onward(h, n.queue.passes[i+1:], n.index) {
				f.releases = append(f.releases, h.old)
			}
		case quorum.PassGoes:
			h.round.claim.marks[n.index] |= quorum.Unsure
			f.passes = append(f.passes, h)
		}
	}
	n.queue.passes = drop(n.queue.passes, len(n.queue.passes))
}

// onward has a later handover in the queue begin at h's old claim: the one between
// has passed the lock on before this node heard of it. A node that is slower than
// the hand-overs stays among those that hold the lock; else one turn would thin
// them out to a bare quorum.
func onward(h *handover, later []*handover, node int) bool {
	for i, next := range later {
		if next.old.claim != h.round.claim {
			continue
		}
		if next.old.round != nil { // it never was here
			next.old.round.deliver(node, quorum.Vote{Outcome: quorum.Granted}, nil)
		}
		from := *next
		from.old = h.old
		later[i] = &from
		return true
	}
	return false
}

var errNotPassed = errors.New("not sent: what this node holds of the lock is not known")

// addPasses makes calls of the handovers: nearly always there is one.
func (n *node) addPasses() {
	passes := n.flight.passes
	if len(passes) == 1 {
		n.addPart(part{cmd: n.flight.one.passCall(passes[0], &n.epoch), pass: passes[0]})
		return
	}
	for _, h := range passes {
		n.addPart(part{cmd: (&singles{}).passCall(h, &n.epoch), pass: h})
	}
}

// settlePass hands out the reply to a pass. Where it did not happen, or may not
// have, the old claim is released; the new one's own rollback, if it comes to
// that, follows it.
func (n *node) settlePass(h *handover, cmd redis.Cmder, outcome quorum.Outcome, err error) (recheck bool) {
	c := h.round.claim
	var v quorum.Vote
	switch reply := replyAt(cmd, 0, 1); {
	case err != nil:
		v, err = quorum.Vote{Outcome: outcome}, explain(err)
		recheck = isMissingScript(err)
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
	h.old.claim.marks[n.index] = quorum.Absent
	c.marks[n.index] &^= quorum.Behind
	n.mu.Unlock()
	if h.old.round != nil {
		h.old.round.deliver(n.index, quorum.Vote{Outcome: quorum.Granted}, nil)
	}
	if doubt := n.ungranted(); v.Outcome == quorum.Granted && doubt != nil {
		v, err = quorum.Vote{Outcome: quorum.Abstained}, doubt
	}
	if v.Outcome == quorum.Granted {
		n.vouch(h.round.start)
		c.vouch(n.index, h.round.start)
	}
	h.round.deliver(n.index, v, err)
	return recheck
}
