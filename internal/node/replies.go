package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// handOut gives each reply to whom it concerns, and draws the node's own
// conclusions: a lost connection is probed before it carries another vote, a
// missing script or another epoch is verified.
func (n *writer) handOut() {
	b := &n.batch
	b.findUnreleased()
	var broken error
	recheck, refused := false, false
	n.settleIdentity()
	// The clock comes first: what a node granted behind a step does not count.
	for i := range slices.Backward(b.calls) {
		c := &b.calls[i]
		err := c.cmd.Err()
		outcome := Classify(err)
		switch {
		case IsMissingScript(err):
			n.loaded, recheck = false, true
		case outcome == quorum.Unknown || err != nil && !IsReply(err):
			broken = Explain(err)
		}
		refused = refused || err != nil && !IsMissingScript(err)
		n.SawRefusal(err)
		switch {
		case n.apart(c, err):
		case c.identity: // it was settled first
		case c.releases != nil:
			n.settleReleases(c, err)
		case c.acquires != nil:
			recheck = n.settleAcquires(c, outcome, err) || recheck
		case c.pass != nil:
			recheck = n.settlePass(c.pass, c.cmd, outcome, err) || recheck
		case c.poll != nil:
			n.settlePoll(c, err)
		case c.raise != nil:
			recheck = n.settleRaise(c, outcome, err) || recheck
		case c.group != nil:
			recheck = n.settleGroup(c, outcome, err) || recheck
		default:
			n.settleTime(c, outcome, err)
		}
	}
	if refused || broken != nil {
		n.observer.Erred(n.Index)
	}
	if refused {
		n.conn.unpin() // go-redis gives a connection up that said READONLY
	}
	switch {
	case broken != nil:
		n.markDown(broken)
	case recheck:
		n.verifyAgain()
		n.rechecks++
	default:
		n.rechecks = 0
	}
}

// again tells whether what the node refused for want of a script or for another
// epoch goes to the node a second time: it did not happen, so that is safe.
func (n *writer) again() bool { return n.rechecks == 0 }

func (n *writer) settleAcquires(c *call, outcome quorum.Outcome, err error) (recheck bool) {
	if IsMissingScript(err) && n.again() {
		n.requeue(c.acquires)
		return true
	}
	if err != nil {
		for _, r := range c.acquires {
			n.markAfter(r.Claim, outcome)
			r.Deliver(n.Index, quorum.Vote{Outcome: outcome}, Explain(err))
		}
		return false
	}
	replies := len(c.acquires)
	switch {
	case c.bids || c.shares:
		replies *= 2
	case c.slot:
		replies = slotReplies
	}
	var untold []*round.Round
	for i, r := range c.acquires {
		reply := replyAt(c.cmd, i, replies)
		recheck = recheck || reply == 0
		if reply == 0 && n.again() || n.batch.metOurOwn(r.Claim.Key, reply) {
			n.requeue(c.acquires[i : i+1])
			continue
		}
		switch {
		case c.slot:
			if h, refused := slotHearingOf(c.cmd); refused {
				r.Hear(n.Index, h)
			}
		case c.bids || c.shares && r.Asks != nil:
			r.Hear(n.Index, hearingOf(r, reply, replyAt(c.cmd, len(c.acquires)+i, replies)))
		}
		if v := n.settleAcquire(r, reply); v == quorum.Abstained && (c.bids || r.HasPlace()) {
			untold = append(untold, r)
		}
	}
	for _, k := range n.Cfg.Untold(untold) {
		n.SubmitPoll(k)
	}
	return recheck
}

// settleAcquire delivers what the reply to an acquire, or to an ask, is worth.
func (n *writer) settleAcquire(r *round.Round, reply int64) quorum.Outcome {
	v, cause := n.acquireVote(reply)
	cause = ofKind(r.Claim, cause)
	n.markAfter(r.Claim, v.Outcome)
	if v, cause = n.counted(r, v, cause); v.Outcome == quorum.Granted {
		n.SawWrite()
		if r.AcceptsPushes() {
			r.Grant(n.Index, v.Token, round.Lease{Since: n.batch.at, Until: clock.ValidFrom(n.batch.at, time.Duration(r.Claim.TTL)*time.Millisecond, n.Cfg.Drift).Until}, false)
			return v.Outcome
		}
	}
	r.Deliver(n.Index, v, cause)
	return v.Outcome
}

// counted is a vote as it counts: a grant of a node that is in doubt is none. For what
// counts, the node vouches.
func (n *writer) counted(r *round.Round, v quorum.Vote, cause error) (quorum.Vote, error) {
	if v.Outcome != quorum.Granted {
		return v, cause
	}
	if doubt := n.ungranted(); doubt != nil {
		return quorum.Vote{Outcome: quorum.Abstained}, doubt
	}
	if r.AcceptsPushes() { // it may have begun long ago, and stands on its leases
		n.vouch(n.batch.at)
		return v, cause
	}
	n.vouch(r.Start)
	r.Claim.Vouch(n.Index, r.Start)
	return v, cause
}

// acquireVote reads a reply of acquire.lua. Before a lease is called longer than anyone
// may take, the node's record is read again: another client may have raised MaxTTL.
func (n *writer) acquireVote(reply int64) (quorum.Vote, error) {
	v, cause := acquireVote(reply, n.Tracker.LongestLease)
	taken, ok := cause.(*takenError) //nolint:errorlint // as it was made
	if !ok || !taken.beyond() || n.Cfg.Unprotected || n.Tracker.ReadSince(n.Index, n.Clock.Early().Add(-sampleEvery)) {
		return v, cause
	}
	n.conn.unpin() // its pool may have no other connection
	n.Look(context.Background(), false)
	return acquireVote(reply, n.Tracker.LongestLease)
}

// markAfter notes what the outcome of an acquire, or of a re-seed, says of the
// claim on this node. What is there stays there until it is released.
func (n *Node) markAfter(c *round.Claim, o quorum.Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Marks[n.Index] = c.Marks[n.Index].After(o)
}

func (n *writer) requeue(rounds []*round.Round) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue.requeue(rounds)
}

func (n *writer) settleRaise(c *call, outcome quorum.Outcome, err error) (recheck bool) {
	r := c.raise
	if err != nil {
		r.Deliver(n.Index, quorum.Vote{Outcome: outcome}, Explain(err))
		return IsMissingScript(err)
	}
	if doubt := n.doubt(); doubt != nil {
		r.Deliver(n.Index, quorum.Vote{Outcome: quorum.Abstained}, doubt)
		return false
	}
	reply := replyAt(c.cmd, 0, 1)
	v, cause := raiseVote(reply, r.Raise)
	if r.Claim.Shared() {
		v, cause = raiseSharedVote(reply)
	}
	r.Deliver(n.Index, v, cause)
	return reply == -1
}

func (n *writer) settleGroup(c *call, outcome quorum.Outcome, err error) (recheck bool) {
	g := c.group
	stale := IsMissingScript(err) || err == nil && replyAt(c.cmd, 0, len(g.claims)) == -1
	if stale && n.again() {
		n.mu.Lock()
		n.queue.groups = append([]*group{g}, n.queue.groups...)
		n.mu.Unlock()
		return true
	}
	if err != nil {
		g.answer(g, n.Index, outcome, nil, Explain(err))
		return stale
	}
	if doubt := n.doubt(); doubt != nil {
		g.answer(g, n.Index, quorum.Abstained, nil, doubt)
		return stale
	}
	n.vouch(g.start)
	g.answer(g, n.Index, quorum.Granted, c.cmd.(intsCall).Val(), nil)
	return stale
}

// settleReleases confirms what was answered, and queues the rest again: at once
// where only the script was missing, and after a pause where the node refuses.
func (n *writer) settleReleases(c *call, err error) {
	n.settleNext(c, err)
	if err == nil {
		n.mu.Lock()
		confirmed := n.queue.confirm(c.releases, n.batch.unreleased)
		n.mu.Unlock()
		for _, r := range confirmed {
			if r.Round != nil {
				r.Round.Deliver(n.Index, quorum.Vote{Outcome: quorum.Granted}, nil)
			}
		}
		return
	}
	cause, now := Explain(err), n.Clock.Early()
	n.mu.Lock()
	for i := range c.releases {
		c.releases[i].Hint, c.releases[i].Next = 0, nil // what goes again calls: where it was refused, it may have granted
	}
	if IsMissingScript(err) && n.again() {
		n.queue.releases = append(append([]Release{}, c.releases...), n.queue.releases...)
	} else {
		for _, r := range c.releases {
			n.queue.refuse(r, cause, now)
		}
	}
	n.mu.Unlock()
	for _, r := range c.releases {
		if r.Round != nil {
			r.Round.Note(n.Index, cause)
		}
	}
}

func (n *writer) settleTime(c *call, outcome quorum.Outcome, err error) {
	n.timeless = nil
	denied := saysFirst(err, "NOPERM")
	switch {
	case err == nil:
		n.sample(n.batch.sent, c.cmd.(TimeCall).Val())
	case denied && !n.Cfg.TrustClocks:
		n.timeless = fmt.Errorf("%w: its clock can't be watched: grant the user +time, or use WithoutClockWatch: %w", fault.ErrMisconfigured, err)
	case !denied && !n.Cfg.TrustClocks:
		n.batch.unread = fmt.Errorf("its clock was not read behind the grant: %w", Explain(err))
	}
	for _, r := range n.batch.probes {
		switch {
		case err != nil && !denied:
			r.Deliver(n.Index, quorum.Vote{Outcome: outcome}, Explain(err))
		case n.silence() != nil:
			r.Deliver(n.Index, quorum.Vote{Outcome: quorum.Abstained}, n.silence())
		default:
			r.Deliver(n.Index, quorum.Vote{Outcome: quorum.Granted}, nil)
		}
	}
}
