package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// takenError is held by another, and for how long.
type takenError struct {
	left, most time.Duration // the remaining lease, and the longest that anyone may take
}

func (e *takenError) Error() string {
	if e.left < 0 {
		return "held by another, without an end"
	}
	if e.beyond() {
		return fmt.Sprintf("held by another for %v, which is beyond MaxTTL (%v): the node's clock stepped back while the lock was held, or a client takes longer leases. "+
			"Nobody can tell which, so it stays taken until then; once the holder is known to be gone, delete the key there", e.left, e.most)
	}
	return fmt.Sprintf("held by another for %v", e.left)
}

// beyond tells whether the lease is longer than anyone may take.
func (e *takenError) beyond() bool { return e.left > e.most+clock.Drift(e.most, clock.MaxDriftFactor) }

// takenFor is held by another for left. Before a lease is called longer than anyone
// may take, the node's record is read again: another client may have raised MaxTTL.
func (n *Node) takenFor(left time.Duration) error {
	e := &takenError{left: left, most: n.Tracker.LongestLease()}
	if e.beyond() && !n.Cfg.Unprotected && !n.Tracker.ReadSince(n.Index, n.Clock.Early().Add(-sampleEvery)) {
		n.unpin() // its pool may have no other connection
		n.Look(context.Background(), false)
		e.most = n.Tracker.LongestLease()
	}
	return e
}

// handOut gives each reply to whom it concerns, and draws the node's own
// conclusions: a lost connection is probed before it carries another vote, a
// missing script or another epoch is verified.
func (n *Node) handOut() {
	f := &n.batch
	f.findUnreleased()
	var broken error
	recheck, refused := false, false
	n.settleIdentity()
	// The clock comes first: what a node granted behind a step does not count.
	for i := range slices.Backward(f.calls) {
		p := &f.calls[i]
		err := p.cmd.Err()
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
		case n.apart(p, err):
		case p.identity: // it was settled first
		case p.releases != nil:
			n.settleReleases(p, err)
		case p.acquires != nil:
			recheck = n.settleAcquires(p, outcome, err) || recheck
		case p.pass != nil:
			recheck = n.settlePass(p.pass, p.cmd, outcome, err) || recheck
		case p.poll != nil:
			n.settlePoll(p, err)
		case p.raise != nil:
			recheck = n.settleRaise(p, outcome, err) || recheck
		case p.group != nil:
			recheck = n.settleGroup(p, outcome, err) || recheck
		default:
			n.settleTime(p, outcome, err)
		}
	}
	if refused || broken != nil {
		n.observer.Erred(n.Index)
	}
	if refused {
		n.unpin() // go-redis gives a connection up that said READONLY
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
func (n *Node) again() bool { return n.rechecks == 0 }

func (n *Node) settleAcquires(p *call, outcome quorum.Outcome, err error) (recheck bool) {
	if IsMissingScript(err) && n.again() {
		n.requeue(p.acquires)
		return true
	}
	if err != nil {
		for _, r := range p.acquires {
			n.markAfter(r.Claim, outcome)
			r.deliver(n.Index, quorum.Vote{Outcome: outcome}, Explain(err))
		}
		return false
	}
	replies := len(p.acquires)
	if p.bids {
		replies *= 2
	}
	var untold []*Round
	for i, r := range p.acquires {
		reply := replyAt(p.cmd, i, replies)
		if reply == 0 {
			recheck = true
			if n.again() {
				n.requeue(p.acquires[i : i+1])
				continue
			}
		}
		if n.batch.metOurOwn(r.Claim.Key, reply) {
			n.requeue(p.acquires[i : i+1])
			continue
		}
		v, cause := n.acquireVote(reply)
		if p.bids {
			r.hear(n.Index, reply, replyAt(p.cmd, len(p.acquires)+i, replies))
		}
		n.markAfter(r.Claim, v.Outcome)
		if doubt := n.ungranted(); v.Outcome == quorum.Granted && doubt != nil {
			v, cause = quorum.Vote{Outcome: quorum.Abstained}, doubt
		}
		if v.Outcome == quorum.Granted {
			n.SawWrite()
			n.vouch(r.Start)
			r.Claim.vouch(n.Index, r.Start)
		}
		r.deliver(n.Index, v, cause)
		if v.Outcome == quorum.Abstained && p.bids {
			untold = append(untold, r)
		}
	}
	for _, k := range n.Cfg.Untold(untold) {
		n.SubmitPoll(k)
	}
	return recheck
}

// acquireVote reads a reply of acquire.lua.
func (n *Node) acquireVote(reply int64) (quorum.Vote, error) {
	switch {
	case reply > 0:
		return quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(reply)}, nil
	case reply == 0:
		return quorum.Vote{Outcome: quorum.Abstained}, errEpoch
	case reply == -1:
		return quorum.Vote{Outcome: quorum.Failed}, errDead
	case reply == -2:
		return quorum.Vote{Outcome: quorum.Abstained}, errTokens
	case reply == -3:
		return quorum.Vote{Outcome: quorum.Taken}, errKept
	case reply == -4:
		return quorum.Vote{Outcome: quorum.Taken}, errGone
	case reply == -9:
		return quorum.Vote{Outcome: quorum.Taken}, &takenError{left: -1}
	case reply <= -10 && reply != noReply:
		return quorum.Vote{Outcome: quorum.Taken}, n.takenFor(time.Duration(-10-reply) * time.Millisecond)
	default:
		return quorum.Vote{Outcome: quorum.Unknown}, ErrNoReply
	}
}

// markAfter notes what the outcome of an acquire, or of a re-seed, says of the
// claim on this node. What is there stays there until it is released.
func (n *Node) markAfter(c *Claim, o quorum.Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Marks[n.Index] = c.Marks[n.Index].After(o)
}

// requeue puts acquires that did not happen back at the head of the queue. An earlier
// one of the same claim may still come.
func (n *Node) requeue(rounds []*Round) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range rounds {
		r.Claim.Marks[n.Index] = r.Claim.Marks[n.Index].After(quorum.Failed)
	}
	n.queue.acquires = append(append([]*Round{}, rounds...), n.queue.acquires...)
}

func (n *Node) settleRaise(p *call, outcome quorum.Outcome, err error) (recheck bool) {
	r := p.raise
	if err != nil {
		r.deliver(n.Index, quorum.Vote{Outcome: outcome}, Explain(err))
		return IsMissingScript(err)
	}
	switch reply := replyAt(p.cmd, 0, 1); {
	case n.doubt() != nil:
		r.deliver(n.Index, quorum.Vote{Outcome: quorum.Abstained}, n.doubt())
	case reply == 1:
		r.deliver(n.Index, quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(r.Raise)}, nil) //nolint:gosec // positive
	case reply == 0:
		r.deliver(n.Index, quorum.Vote{Outcome: quorum.Taken}, errors.New("the stripe is above the token, or the key is not ours any more"))
	case reply == -1:
		r.deliver(n.Index, quorum.Vote{Outcome: quorum.Abstained}, errEpoch)
		return true
	default:
		r.deliver(n.Index, quorum.Vote{Outcome: quorum.Unknown}, ErrNoReply)
	}
	return false
}

func (n *Node) settleGroup(p *call, outcome quorum.Outcome, err error) (recheck bool) {
	g := p.group
	stale := IsMissingScript(err) || err == nil && replyAt(p.cmd, 0, len(g.claims)) == -1
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
	g.answer(g, n.Index, quorum.Granted, p.cmd.(intsCall).Val(), nil)
	return stale
}

// settleReleases confirms what was answered, and queues the rest again: at once
// where only the script was missing, and after a pause where the node refuses.
func (n *Node) settleReleases(p *call, err error) {
	if err == nil {
		n.mu.Lock()
		confirmed := p.releases[:0]
		for _, c := range p.releases {
			if c.Claim.Marks[n.Index]&quorum.Behind != 0 && n.batch.unreleased[c.Claim.Key] {
				n.queue.releases = append(n.queue.releases, c) // what it stands behind failed
				continue
			}
			c.Claim.Marks[n.Index] = quorum.Absent
			confirmed = append(confirmed, c)
		}
		n.mu.Unlock()
		for _, c := range confirmed {
			if c.Round != nil {
				c.Round.deliver(n.Index, quorum.Vote{Outcome: quorum.Granted}, nil)
			}
		}
		return
	}
	cause, now := Explain(err), n.Clock.Early()
	n.mu.Lock()
	if IsMissingScript(err) && n.again() {
		n.queue.releases = append(append([]Release{}, p.releases...), n.queue.releases...)
	} else {
		for _, c := range p.releases {
			n.queue.refuse(c, cause, now)
		}
	}
	n.mu.Unlock()
	for _, c := range p.releases {
		if c.Round != nil {
			c.Round.note(n.Index, cause)
		}
	}
}

func (n *Node) settleTime(p *call, outcome quorum.Outcome, err error) {
	n.timeless = nil
	denied := saysFirst(err, "NOPERM")
	switch {
	case err == nil:
		n.sample(n.batch.sent, p.cmd.(TimeCall).Val())
	case denied && !n.Cfg.TrustClocks:
		n.timeless = fmt.Errorf("%w: its clock can't be watched: grant the user +time, or use WithoutClockWatch: %w", fault.ErrMisconfigured, err)
	case !denied && !n.Cfg.TrustClocks:
		n.batch.unread = fmt.Errorf("its clock was not read behind the grant: %w", Explain(err))
	}
	for _, r := range n.batch.probes {
		switch {
		case err != nil && !denied:
			r.deliver(n.Index, quorum.Vote{Outcome: outcome}, Explain(err))
		case n.silence() != nil:
			r.deliver(n.Index, quorum.Vote{Outcome: quorum.Abstained}, n.silence())
		default:
			r.deliver(n.Index, quorum.Vote{Outcome: quorum.Granted}, nil)
		}
	}
}

// replyAt reads the i-th of the n integers that a command was to bring; what is
// missing reads as noReply.
func replyAt(cmd redis.Cmder, i, n int) int64 {
	switch c := cmd.(type) {
	case intCall:
		return c.Val()
	case intsCall:
		if got := c.Val(); len(got) == n {
			return got[i]
		}
	}
	return noReply
}

// answered tells whether a reply was read into the command.
func answered(cmd redis.Cmder) bool {
	switch c := cmd.(type) {
	case intCall:
		return c.Val() != noReply
	case intsCall:
		return len(c.Val()) > 0
	case TimeCall:
		return !c.Val().IsZero()
	case infoCall:
		return c.Val() != ""
	}
	return true
}

// refusals are the error replies that precede a script's first write: the
// command did not happen. Every other error reply says nothing.
var refusals = append([]string{"NOSCRIPT", "NOAUTH", "WRONGPASS", "NOPERM", "LOADING", "OOM", "READONLY", "MISCONF", "NOREPLICAS"}, clusterReplies...)

// clusterReplies are what only a server with cluster-enabled says, before it runs
// anything.
var clusterReplies = []string{"MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN", "TRYAGAIN"}
