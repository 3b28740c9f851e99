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
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Write is the writer's goroutine. It ends once Close was called and the releases are
// answered.
func (n *Node) Write() { n.writer.write() }

// write sleeps until there is something to send, and sends it. At its end it waits for the
// looks that are out: the client may be closed behind it.
func (n *writer) write() {
	defer close(n.Stopped)
	for n.sleep() {
		n.flush()
	}
	n.conn.unpin()
	n.conn.asking.Wait()
	n.failQueued(fault.ErrClosed)
}

// sleep blocks until there is work that may be sent now. It returns false when the
// node was closed, and is owed nothing that is still to be tried. It decides that under mu,
// and notes it there (ended): a release that comes later finds no writer (Release).
//
// A node that is down is left alone until its next probe, unless nothing is owed to it: then
// the next command that may be queued wakes the writer, and is the probe.
func (n *writer) sleep() bool {
	for {
		n.mu.Lock()
		now := n.Clock.Early()
		work := n.queue.len() > 0 || n.queue.hasReleases()
		pause := n.pauseLocked(now)
		if n.closed {
			if !n.triesLocked(now) {
				n.ended = true
				n.mu.Unlock()
				return false
			}
			pause = min(pause, n.until.Sub(now))
		}
		if work && pause <= 0 {
			n.mu.Unlock()
			return true
		}
		n.idle = true
		closed := n.closed
		n.mu.Unlock()
		if work {
			n.doze(pause, closed)
			continue
		}
		n.conn.rest(n.wake, n.stop)
	}
}

// triesLocked tells whether a node that was closed is sent something more: what it was
// never sent, and for as long as Close has time what it did not take. Any key that stays
// behind ends with its lease.
func (n *writer) triesLocked(now clock.Instant) bool {
	if n.down.cause == nil && len(n.queue.releases)+len(n.queue.passes) > 0 {
		return true
	}
	return n.queue.hasReleases() && now < n.until
}

// pauseLocked is how long the node is left alone: between two probes of one that is
// down, and between two tries of rollbacks that it refuses; 0 or less if it is due now.
func (n *writer) pauseLocked(now clock.Instant) time.Duration {
	switch {
	case n.down.cause != nil:
		return n.down.until.Sub(now)
	case n.queue.len() == 0 && len(n.queue.releases) == 0:
		return n.queue.retryAt.Sub(now)
	default:
		return 0
	}
}

// doze waits out a pause between two probes of a node that is owed releases. A wake-up ends
// it early: sleep finds out whether the new work may be sent already.
func (n *writer) doze(pause time.Duration, closed bool) {
	t := n.Clock.NewTimer(pause)
	defer t.Stop()
	stop := n.stop
	if closed {
		stop = nil // it was seen; a closed channel would make this loop spin
	}
	select {
	case <-t.C:
	case <-n.wake:
	case <-stop:
	}
}

// quiet tells whether the node's last reply is too old to trust its idle connections.
// A node that never told its time was not talked to yet, so it has no connection that a
// network could have forgotten.
func (n *writer) quiet() bool {
	heard := n.ReadAt.Load()
	return heard != 0 && n.Clock.Early().Sub(clock.Instant(heard)) > trustIdle
}

// probe asks a node that was down for its TIME: the cheapest thing to lose, and the sample
// that shows a step of its clock before any vote. It goes again after errExchanged, which
// says that it was not sent.
func (n *writer) probe() error {
	n.conn.unpin() // the pool may have no other connection
	cmd := TimeCall{redis.NewTimeCmd(context.Background(), "TIME")}
	sent := n.Clock.Now()
	err := n.conn.calls.Process(context.Background(), cmd)
	if errors.Is(err, errExchanged) { // the next connection is let in
		cmd.SetErr(nil)
		sent = n.Clock.Now()
		err = n.conn.calls.Process(context.Background(), cmd)
	}
	switch {
	case saysFirst(err, "NOPERM"):
		return nil // it answers; whether it votes is asked with the next sample
	case err != nil:
		return err
	}
	n.sample(sent, cmd.Val())
	return nil
}

// prepare makes sure that the scripts are there and that it is known whether the
// node votes. It returns an error if the node can't be talked to. After a success the node
// has an epoch, with which it votes, or n.abstains says why it has none: releases and looks
// go to such a node all the same.
//
// An abstention is not verified again before every flush: the Tracker's loop looks for that,
// and Outdated says when the node may vote. Where WhyNot returns nil the loop does not look,
// so the writer does.
func (n *writer) prepare() error {
	if !n.loaded {
		if err := n.conn.load(lua.KeepingScripts); err != nil {
			return err
		}
		n.loaded = true
	}
	// What others learned of this node, and what a new connection met, came between two flushes:
	// it counts before the next vote.
	if n.Tracker.Outdated(n.Index) || n.met != n.turn() || n.signed != 0 && n.Clock.Early().Sub(n.signed) > membership.SignEvery ||
		n.exceeded() {
		n.verifyAgain()
	}
	if n.epoch != "" {
		return nil
	}
	if !n.due {
		if why := n.Tracker.WhyNot(n.Index); why != nil {
			n.abstains = why
			return nil //nolint:nilerr // it abstains, which is no failure to talk to it
		}
	}
	n.conn.unpin() // verify takes a connection of its own: the pool may have no other
	st, abstains, err := n.verify()
	if err != nil {
		return err
	}
	switch {
	case abstains != nil && n.abstains == nil:
		n.observer.Abstains(n.Index, abstains)
	case abstains == nil && n.abstains != nil:
		n.observer.Votes(n.Index)
	}
	if abstains != nil {
		n.rechecks = 0 // what was asked again has its answer
	}
	n.epoch, n.longest, n.lists, n.bounded, n.abstains, n.due = st.Epoch, st.MaxTTL, st.Lists, n.Clock.Early(), abstains, false
	if n.epoch != "" {
		n.voted = n.epoch
	}
	return nil
}

// boundCounts is how long MaxTTL is taken to be what was read of it, to one who asks for more.
const boundCounts = 100 * time.Millisecond

// exceeded tells whether a longer lease is asked for than the node voted for when it was
// verified: MaxTTL may have been raised since. No vote would tell, since none is asked for.
func (n *writer) exceeded() bool {
	if n.epoch == "" || n.longest == 0 || n.Clock.Early().Sub(n.bounded) < boundCounts {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.queue.longest() > n.longest.Milliseconds()
}

// flush sends what has gathered, and hands out the replies. Everything that can fail without a
// vote being lost comes first: a look at idle connections, a connection of the pool, a probe
// of a node that was down, the verification. A failure there fails what is queued (failed),
// and each of those votes is known not to have been sent. Only then is the batch taken,
// which marks its claims as sent.
func (n *writer) flush() {
	now := n.Clock.Early()
	n.mu.Lock()
	n.busySince = now // a node timeout from here on, callers are refused (refusalLocked)
	suspect := n.down.cause
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.busySince = 0
		n.mu.Unlock()
	}()
	n.conn.giveWay()
	if err := n.conn.ready(n.quiet(), suspect != nil); err != nil {
		n.failed(err)
		return
	}
	// A node that was down shows three things before it votes: that it answers, which server it
	// is, and with prepare whether that one votes.
	if suspect != nil {
		if err := n.probe(); err != nil {
			n.failed(err)
			return
		}
		if err := n.meetAgain(); err != nil {
			n.failed(err)
			return
		}
	}
	err := n.prepare()
	if errors.Is(err, errExchanged) {
		err = n.prepare() // the next connection is let in
	}
	if err != nil {
		n.failed(err)
		return
	}
	if suspect != nil {
		n.recovered() // only now: a node that loads its data tells the time, too
	}
	n.take(now)
	n.attend(now)
	n.send()
}

// attend notes whether the node votes in the batch that was taken, and tells when
// it does so again: the locks that stand without it are then confirmed there.
func (n *writer) attend(now clock.Instant) {
	votes := n.batch.silent == nil
	if votes && n.away {
		n.Returned.Store(int64(now))
		n.observer.Returned(n.Index)
	}
	n.away = !votes
}

// take moves what may be sent now into the batch. Its releases are noted (sending), so that
// Unreleased finds them while they are in neither queue.
func (n *writer) take(now clock.Instant) {
	b := &n.batch
	b.reset()
	b.epoch, b.longest, b.lists, b.silent = n.epoch, n.longest, n.lists, n.silence() // once: what is taken is marked by it
	outside := n.Tracker.Outside(n.Index)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue.outside = outside
	n.queue.take(b, now)
	n.sending = b.releases
}

// send puts the batch on the wire and hands out the replies. The order in the pipeline is part
// of the protocol: TIME stands behind all that may be granted, so that a step which ended
// another's lease is seen before the grant counts (ADR 13); INFO stands behind that, so that
// a grant counts only of the history that was verified (ADR 11).
func (n *writer) send() {
	b := &n.batch
	b.at = n.Clock.Early()
	b.reading = reading(b.at)
	n.settlePushes() // first: this batch's look at the identity says nothing of them
	// Before addCalls: what is answered here must not go out as well.
	if b.silent != nil {
		n.abstain(b.silent)
	}
	n.boundGroups()
	n.keepEntries()
	if len(b.late) > 0 {
		b.polls = append(b.polls, n.Cfg.Untold(b.late)...)
	}
	b.addCalls()
	reads := n.readsClock() && len(b.probes) == 0
	switch {
	case !b.sample && (!b.grants() || n.Cfg.TrustClocks) && (len(b.calls) == 0 || !n.sampleIsOld()):
		reads = false
	case reads:
		b.sent = n.Clock.Early()
	default:
		b.addSample(n.Clock.Early()) // behind what may be granted
	}
	if len(b.calls) > 0 && n.identityIsOld() {
		b.addIdentity()
	}
	b.addPolls() // they count nothing that a clock could spoil
	if len(b.calls) > 0 {
		sent := n.Clock.Early()
		err := n.conn.exec(b.commands())
		took := n.Clock.Early().Sub(sent)
		b.fit(took, err, n.Timeout)
		n.observer.Called(n.Index, took)
		n.takeReadings(reads)
		n.handOut()
	}
	if len(b.releases) > 0 {
		// What the node did not take is queued again by now: Unreleased misses none in between.
		n.mu.Lock()
		n.sending = nil
		n.mu.Unlock()
	}
}

// abstain answers all that asks for a vote: the node gives none. A bid is recorded
// there all the same, by a look, so that the node knows the waiters when it votes again.
// Releases, looks and samples stay in the batch: they ask for no vote.
func (n *writer) abstain(cause error) {
	b := &n.batch
	for _, rounds := range [][]*round.Round{b.raises, b.acquires, b.bids, b.shares, b.slots} {
		for _, r := range rounds {
			r.Deliver(n.Index, quorum.Vote{Outcome: quorum.Abstained}, cause)
		}
	}
	for _, g := range b.groups {
		g.answer(g, n.Index, quorum.Abstained, nil, cause)
	}
	b.late = append(append(b.late, b.bids...), b.slots...)
	for _, r := range b.shares {
		if r.HasPlace() {
			b.late = append(b.late, r)
		}
	}
	b.raises, b.acquires, b.bids, b.groups = b.raises[:0], b.acquires[:0], b.bids[:0], b.groups[:0]
	b.shares, b.slots = b.shares[:0], b.slots[:0]
}

// boundGroups answers the extensions to a longer lease than the record allows; the others of
// their calls go.
func (n *writer) boundGroups() {
	b := &n.batch
	var within []*group
	for i, g := range b.groups {
		if !slices.ContainsFunc(g.ttls, func(ttl int64) bool { return b.bounds(ttl) != nil }) {
			if within != nil {
				within = append(within, g)
			}
			continue
		}
		if within == nil {
			within = slices.Clone(b.groups[:i])
		}
		for _, one := range g.singly() {
			if cause := b.bounds(one.ttls[0]); cause != nil {
				one.answer(one, n.Index, quorum.Abstained, nil, cause)
			} else {
				within = append(within, one)
			}
		}
	}
	if within != nil {
		b.groups = within
	}
}

// ConfirmSpread is within what time a node that votes again gets each held lock: ten
// thousand holders must not call at one instant. Meanwhile such a lock stands on the other
// nodes, and is lost if one of a bare quorum fails.
const ConfirmSpread = 500 * time.Millisecond

// failed notes that the node can't be talked to, and fails all that waits for it
// but the rollbacks. Nothing of it was sent, so each vote is Failed and not Unknown.
func (n *writer) failed(err error) {
	err = Explain(n.conn.blame(err))
	n.observer.Erred(n.Index)
	n.Tracker.Missed(n.Index, n.Clock.Now(), err)
	n.markDown(err)
	n.failQueued(fmt.Errorf("not sent: %w", err))
}

// recovered notes that the node is talked to again. A long outage counts as an absence, after
// which attend gets the held locks confirmed; so does one in which the calls of an earlier
// return may have been lost. A connection that broke and was replaced does not: its keys are
// still there, and ten thousand holders would confirm them for nothing.
func (n *writer) recovered() {
	now := n.Clock.Early()
	n.mu.Lock()
	lasted := n.down.end(now)
	n.mu.Unlock()
	n.away = n.away || lasted > ConfirmSpread || n.wasGivenLocks(now.Add(-lasted))
	n.observer.Up(n.Index, lasted)
}

// wasGivenLocks tells whether a call that failed at that time may have been one of those
// that give the held locks to a node that votes again. They are spread over ConfirmSpread,
// and each is decided two rounds of two node timeouts later at most.
func (n *Node) wasGivenLocks(failed clock.Instant) bool {
	voted := clock.Instant(n.Returned.Load())
	return voted != 0 && failed <= voted.Add(ConfirmSpread+4*n.Timeout)
}

// failQueued fails all that waits for the node but the rollbacks. It answers without mu: an
// answer takes the mutex of an Extension, which comes before ours, or of the waiters' looks.
func (n *Node) failQueued(err error) {
	n.mu.Lock()
	q := n.queue.empty(n.Clock.Early())
	n.mu.Unlock()
	for _, rounds := range [][]*round.Round{q.probes, q.raises, q.acquires} {
		for _, r := range rounds {
			r.Deliver(n.Index, quorum.Vote{Outcome: quorum.Failed}, err)
		}
	}
	for _, g := range q.groups {
		g.answer(g, n.Index, quorum.Failed, nil, err)
	}
	for _, h := range q.passes {
		n.keep(h, quorum.Vote{Outcome: quorum.Failed}, err)
	}
	for _, k := range q.polls {
		k.Answer(n.Index, false, nil, err)
	}
}
