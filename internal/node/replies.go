package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// handOut gives each reply to whom it concerns, and draws the node's own
// conclusions: a lost connection is probed before it carries another vote, a
// missing script or another epoch is verified.
//
// The identity is settled first, then the calls from the last to the first: what came back
// behind a grant (TIME, INFO) decides whether it counts. Conclusions come last, when every
// reply has found its round: markDown and verifyAgain say nothing of this batch any more.
func (n *writer) handOut() {
	b := &n.batch
	b.findUnreleased()
	var broken error
	recheck, refused := false, false
	n.settleIdentity()
	for i := range slices.Backward(b.calls) {
		c := &b.calls[i]
		err := c.cmd.Err()
		outcome := Classify(err)
		// A missing script is no fault of the connection. Any other error without a reply is. A
		// reply of unknown outcome counts as one: the node is probed before it votes again.
		switch {
		case IsMissingScript(err):
			n.loaded, recheck = false, true
		// Its outcome is unknown where a script had begun, and yet it is the node's own word:
		// no reason to probe it.
		case lacksRight(err):
		case outcome == quorum.Unknown || err != nil && !IsReply(err):
			broken = Explain(err)
		}
		refused = refused || err != nil && !IsMissingScript(err)
		n.SawRefusal("", err)
		n.sawRight(c, err)
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
			recheck = n.settlePoll(c, err) || recheck
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
	// go-redis gives a connection up that said READONLY, but keeps it while it is pinned: the
	// pool has to see it.
	if refused {
		n.conn.unpin()
	}
	switch {
	case broken != nil:
		n.lost(broken)
	case recheck:
		n.verifyAgain()
		n.rechecks++
	default:
		n.rechecks = 0
	}
}

// lost notes that a command got no reply of the node's own. What waited for a reply that did
// not come in time has waited long enough, and fails.
func (n *writer) lost(cause error) {
	n.markDown(cause)
	if errors.Is(cause, round.ErrTimeout) {
		n.failQueued(fmt.Errorf("%w: %w for an earlier command", round.ErrNotSent, round.ErrTimeout))
	}
}

// again tells whether what the node refused for want of a script or for another
// epoch goes to the node a second time: it did not happen, so that is safe. A second refusal
// in a row stands: the callers have waited for one verification already.
func (n *writer) again() bool { return n.rechecks == 0 }

// settleAcquires hands out the replies to acquires and asks of one call; recheck says that the
// node is to be verified. Each goes one of three ways: again to the node, if its refusal was
// about us (the script, the epoch, our own key); to its round as a vote; and, if it has a
// place in line and got no vote, by a look, so that the node knows of the place all the same.
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
	replies := len(c.acquires) // integers in the reply
	switch {
	case c.bids || c.shares:
		replies *= 2
	case c.slot:
		replies = slotReplies
	}
	var untold []*round.Round
	for i, r := range c.acquires {
		reply := replyAt(c.cmd, i, replies) // 0: the epoch was another
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

// settleAcquire delivers what the reply to an acquire, or to an ask, is worth. It marks first:
// once the vote is delivered, its caller may queue a release, which goes by the mark.
func (n *writer) settleAcquire(r *round.Round, reply int64) quorum.Outcome {
	v, cause := acquireVote(reply, n.Tracker.LongestLease)
	cause = ofKind(r.Claim, cause)
	n.markAfter(r.Claim, v.Outcome)
	if v, cause = n.counted(r, v, cause); v.Outcome == quorum.Granted {
		n.SawWrite("")
		if r.AcceptsPushes() {
			r.Grant(n.Index, v.Token, round.Lease{Since: n.batch.at, Until: clock.ValidFrom(n.batch.at, time.Duration(r.Claim.TTL)*time.Millisecond, n.Cfg.Drift).Until}, false)
			return v.Outcome
		}
	}
	r.Deliver(n.Index, v, cause)
	return v.Outcome
}

// settlePass hands out the reply to a pass. Where it did not happen, or may not
// have, the old claim is released; the new one's own rollback, if it comes to
// that, follows it. Where it happened the old claim is gone here, and its release, if
// anybody waits for that, is confirmed. recheck says that the epoch was another.
func (n *writer) settlePass(h *Handover, cmd redis.Cmder, outcome quorum.Outcome, err error) (recheck bool) {
	c := h.Round.Claim
	var v quorum.Vote
	switch reply := replyAt(cmd, 0, 1); {
	case err != nil:
		v, err = quorum.Vote{Outcome: outcome}, Explain(err)
		recheck = IsMissingScript(err)
	default:
		recheck = reply == 0
		v, err = acquireVote(reply, n.Tracker.LongestLease)
	}
	n.markAfter(c, v.Outcome)
	if !quorum.TookOver(v.Outcome) {
		n.keep(h, v, err)
		return recheck
	}
	// The node took the key over, or had none of ours: either way the old claim is gone there.
	n.mu.Lock()
	h.Old.Claim.Marks[n.Index] = quorum.Absent
	c.Marks[n.Index] &^= quorum.Behind
	n.mu.Unlock()
	if h.Old.Round != nil {
		h.Old.Round.Deliver(n.Index, quorum.Vote{Outcome: quorum.Granted}, nil)
	}
	v, err = n.counted(h.Round, v, err)
	h.Round.Deliver(n.Index, v, err)
	return recheck
}

// counted is a vote as it counts: a grant of a node that is in doubt is none. For what
// counts, the node vouches. The key is there all the same: the mark says so, and the rollback
// or the release takes it away.
func (n *writer) counted(r *round.Round, v quorum.Vote, cause error) (quorum.Vote, error) {
	if v.Outcome != quorum.Granted {
		return v, cause
	}
	if doubt := cmp.Or(n.batch.votesBy(r.List), n.ungranted()); doubt != nil {
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

// requeue is pending.requeue under mu. The writer does not sleep, so nobody wakes it.
func (n *writer) requeue(rounds []*round.Round) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue.requeue(rounds)
}

// settleRaise delivers the vote on a raise. It is never sent again, even if it did not happen:
// its round is the second of an attempt, and the next attempt begins above its token.
func (n *writer) settleRaise(c *call, outcome quorum.Outcome, err error) (recheck bool) {
	r := c.raise
	if err != nil {
		r.Deliver(n.Index, quorum.Vote{Outcome: outcome}, Explain(err))
		return IsMissingScript(err)
	}
	if doubt := cmp.Or(n.batch.votesBy(r.List), n.doubt()); doubt != nil {
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

// settleGroup answers an extension or a re-seed. All its locks were refused together if the
// epoch was another, so the first reply tells. A node in doubt abstains from every lock, and
// vouches for none: its replies are not passed on.
func (n *writer) settleGroup(c *call, outcome quorum.Outcome, err error) (recheck bool) {
	g := c.group
	// An extension that did not happen may go again: its locks are ours still, and their lease
	// counts from the round's start, no matter when it is sent.
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
	g.lists = n.batch.lists
	g.answer(g, n.Index, quorum.Granted, c.cmd.(intsCall).Val(), nil)
	return stale
}

// settlePoll hands out the reply to a poll. What a node in doubt says is passed on as that of
// a node which does not vote: a name that is free there is no news. recheck says that the epoch
// was another. Where no quorum is left for this client for good, waiters are to ask, and learn why.
func (n *writer) settlePoll(c *call, err error) (recheck bool) {
	if err != nil {
		n.doubtPlaces(c.claims, Classify(err))
		c.poll.Answer(n.Index, false, nil, err)
		return false
	}
	votes, replies := n.batch.silent == nil && n.doubt() == nil, c.cmd.(intsCall).Val()
	if len(replies) > 0 && replies[0] > 1 {
		replies[0] -= 2
		recheck = true
	}
	if errors.Is(n.batch.silent, fault.ErrMisconfigured) && n.Tracker.Refused() {
		for i := 1; i < len(replies); i++ {
			replies[i] = AskAgain
		}
	}
	c.poll.Answer(n.Index, votes, replies, nil)
	return recheck
}

// AskAgain stands for a name's answer to a poll where no quorum is left for this client.
const AskAgain = -4

// doubtPlaces notes that a look of unknown outcome may still put these claims in line. Their
// release must leave a tombstone: an entry takes a grant by push, and then nobody would
// hold the name for a lease.
func (n *writer) doubtPlaces(claims []*round.Claim, o quorum.Outcome) {
	if o != quorum.Unknown {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range claims {
		if c != nil {
			c.Marks[n.Index] = c.Marks[n.Index].Doubted()
		}
	}
}

// settleReleases confirms what was answered, and queues the rest again: at once
// where only the script was missing, and after a pause where the node refuses. A release is
// safe to repeat, since it deletes a key only while its own owner value is there.
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
	// Nobody is told that it failed: a round waits on, and Note only keeps the cause for the case
	// that its time runs out first.
	cause, now := Explain(err), n.Clock.Early()
	n.mu.Lock()
	// A hand is not: it may have granted, and the reply was lost. So what goes again only calls.
	for i := range c.releases {
		c.releases[i].Hint, c.releases[i].Next = 0, nil
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

// What a release says of the attempt with which its process goes on: the place in line
// that each node gave it, or that it was granted at once.

// settleNext tells the next attempts what the reply to their hands said. It forgets them then:
// a hand that goes again is a plain release.
func (n *writer) settleNext(c *call, err error) {
	for i := range c.releases {
		r := &c.releases[i]
		if r.Next == nil {
			continue
		}
		if err != nil {
			n.markAfter(r.Next.Claim, Classify(err))
			r.Next.Stand(n.Index, grant.Standing{}, quorum.Hearing{}, round.Lease{}, Explain(err))
		} else {
			reply, more := handReply(c.cmd, i, len(c.releases))
			n.standing(r.Next, reply, more)
		}
		r.Next = nil
	}
}

// standing is settleNext for one. What a hand grants to its own process needs no reading
// of the clock behind it: it takes the place of a key that was there (ADR 21). Its lease
// counts from the sending of the batch, which is earlier than the grant.
func (n *writer) standing(next *round.Round, reply, more int64) {
	s, h := grant.StandingOf(more), quorum.Hearing{Left: grant.Lease, Free: reply == 1}
	outcome := quorum.Taken
	if s.Token > 0 {
		outcome = quorum.Granted
	}
	n.markAfter(next.Claim, outcome)
	switch doubt := cmp.Or(n.batch.votesBy(next.List), n.doubt()); {
	case doubt != nil:
		next.Stand(n.Index, grant.Standing{}, h, round.Lease{}, doubt)
	case more == 0:
		next.Stand(n.Index, grant.Standing{}, h, round.Lease{}, errNotPlaced)
	default:
		at := n.batch.at
		n.vouch(at)
		next.Stand(n.Index, s, h, round.Lease{Since: at, Until: clock.ValidFrom(at, grant.Lease, n.Cfg.Drift).Until}, nil)
	}
}

// settleTime takes in the node's clock, and answers the probes, which ask for no more. A user
// without the right to TIME leaves the node timeless: it gives no vote, and the message names
// the right. Any other error leaves this batch unread: its grants do not count, and the next
// batch reads anew.
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

// SubmitPush takes in a push: at once where the node's writer sleeps and has nothing to
// find out first, else in the writer's turn. It counts as an answer of the node: while the
// node votes, and where its epoch is the one that we have of it. To wait for the writer's
// turn would add a flush that is under way to each hand-over.
func (n *Node) SubmitPush(p grant.Push, r *round.Round) {
	n.mu.Lock()
	if n.idle && n.writer.readyLocked() {
		n.writer.settlePushLocked(push{p, r}, n.writer.silence())
		n.mu.Unlock()
		return
	}
	n.queue.pushes = append(n.queue.pushes, push{p, r})
	n.unlockAndWake()
}

// readyLocked tells whether prepare would do nothing. It reads the writer's own fields: the
// caller has seen under mu that the writer sleeps, and a writer that wakes takes mu before it
// touches them.
func (n *writer) readyLocked() bool {
	return n.loaded && n.epoch != "" && n.down.cause == nil && n.met == n.turn() && !n.Tracker.OutOfDate(n.Index)
}

// settlePushes takes in what releases granted, in the writer's turn. It takes mu for each: a
// claim's mark changes with it.
func (n *writer) settlePushes() {
	b := &n.batch
	for _, p := range b.pushes {
		n.mu.Lock()
		n.settlePushLocked(p, b.silent)
		n.mu.Unlock()
	}
}

// settlePushLocked takes in one push; silent is why the node does not vote, nil if it does.
func (n *writer) settlePushLocked(p push, silent error) {
	// A push may be forged, late, or of another life of the node. What is dropped here is not
	// lost: the key bears our owner value, and a look, or its lease's end, finds it.
	if silent != nil || n.doubt() != nil || n.batch.votesBy(p.round.List) != nil || !p.Grants(n.epoch, p.round.Claim.Owner) {
		return // a look finds it, once the node votes
	}
	// The lease began after the sign of life that the node had of us, whose reading the push
	// bears: our own clock's, so that no other clock decides how long we trust it.
	since := clock.Instant(p.Reading * int64(time.Millisecond))
	if now := n.Clock.Early(); since > now || now.Sub(since) > 2*grant.Lease {
		return // of another clock
	}
	p.round.Claim.Marks[n.Index] |= quorum.Present
	n.batch.proven = false // that was said of the last batch
	n.vouch(since)
	p.round.Grant(n.Index, p.Token, round.Lease{Since: since, Until: clock.ValidFrom(since, grant.Lease, n.Cfg.Drift).Until}, true)
}
