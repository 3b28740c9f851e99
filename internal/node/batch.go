package node

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Each command is sent once: a second try would be a new command, and the first
// one counts as unknown. go-redis asks the command itself, and one such command
// in a pipeline keeps all of it from being sent again.
type (
	intCall  struct{ *redis.IntCmd }
	intsCall struct{ *redis.IntSliceCmd }
	timeCall struct{ *redis.TimeCmd }
)

func (intCall) NoRetry() bool  { return true }
func (intsCall) NoRetry() bool { return true }
func (timeCall) NoRetry() bool { return true }

const (
	// acquiresPerFlush and groupsPerFlush bound one flush, so that its reply is
	// not long in coming.
	acquiresPerFlush = 8 * lua.AcquireBatchSize
	groupsPerFlush   = 8
)

// flight is one flush: what was taken, and the commands that carry it. The
// writer has one flush out at a time and uses the same flight again.
type flight struct {
	releases   []cleanup
	groups     []*group
	raises     []*round
	passes     []*handover
	acquires   []*round
	bids       []*round // acquires by a place in line
	late       []*round // asks that do not go: their round is over, or the node gives no vote. It is told of their places by a look
	probes     []*round
	polls      []poll
	sample     bool // somebody wants the node's clock read
	parts      []part
	cmds       []redis.Cmder // of the parts, for a pipeline
	sent       clock.Instant
	unread     error           // why its clock was not read behind what it granted; nil: it was
	unreleased map[string]bool // the names whose releases failed in it
	silent     error           // why the node does not vote in this flight; nil: it does
	doubt      error           // why nothing counts that it grants in this flight; nil: it does
	proven     bool            // a look behind all else said that it was the one verified
	arena      []any           // the batches' arguments, one after another
	one        singles
}

// part is one command of a flight, and whom its reply concerns: one of the rest.
type part struct {
	cmd      redis.Cmder
	releases []cleanup
	acquires []*round
	bids     bool // the acquires are bids
	raise    *round
	group    *group
	pass     *handover
	poll     poll
	identity bool // it is the look at the node's identity
}

func (f *flight) reset() {
	f.unread = nil
	clear(f.parts)
	clear(f.cmds)
	f.cmds = f.cmds[:0]
	clear(f.arena)
	clear(f.releases)
	clear(f.groups)
	clear(f.raises)
	clear(f.acquires)
	clear(f.passes)
	clear(f.bids)
	clear(f.late)
	clear(f.polls)
	f.releases, f.groups, f.raises, f.passes = f.releases[:0], f.groups[:0], f.raises[:0], f.passes[:0]
	f.acquires, f.bids, f.late, f.probes, f.polls = f.acquires[:0], f.bids[:0], f.late[:0], f.probes[:0], f.polls[:0]
	f.parts, f.arena = f.parts[:0], f.arena[:0]
}

// take moves what may be sent now from the queue into the flight. From here on a
// claim's mark says that its acquire may have happened. Rollbacks go first, and
// acquires only behind the last of them: a pending rollback of the same name
// must not make our own earlier command look like contention. An acquire whose
// round was won without it is sent all the same: a lock that rests on a bare
// quorum is lost with the first node of it that fails. An ask whose round is over is
// not sent: the node is told of the place by a look, whether it votes or not.
func (n *node) take(now clock.Instant) {
	f := &n.flight
	f.reset()
	f.silent = n.silence() // once: what is taken is marked by it
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue.retake(now)
	n.takeReleases(now)
	n.takePasses()
	n.sending = f.releases
	n.takeGroups()
	f.polls = append(f.polls, n.queue.polls...)
	n.queue.polls = drop(n.queue.polls, len(n.queue.polls))
	f.probes = append(f.probes, n.queue.probes...)
	n.queue.probes = drop(n.queue.probes, len(n.queue.probes))
	f.sample, n.queue.sample = n.queue.sample || len(f.probes) > 0, false
	f.raises = append(f.raises, n.queue.raises...)
	n.queue.raises = drop(n.queue.raises, len(n.queue.raises))
	if len(n.queue.releases) > 0 {
		return
	}
	taken, votes := 0, n.flight.silent == nil
	for _, r := range n.queue.acquires {
		if len(f.acquires)+len(f.bids)+len(f.late) == acquiresPerFlush {
			break
		}
		taken++
		if r.claim.over.Load() {
			if r.asks != nil && r.asks.position > 0 {
				f.late = append(f.late, r)
			}
			continue
		}
		if err := n.queue.heldBack(r.claim.key); err != nil && votes {
			r.deliver(n.index, quorum.Vote{Outcome: quorum.Failed}, err)
			continue
		}
		if votes {
			r.claim.marks[n.index] = r.claim.marks[n.index].Again()
		}
		if r.asks != nil {
			f.bids = append(f.bids, r)
			continue
		}
		f.acquires = append(f.acquires, r)
	}
	n.queue.acquires = drop(n.queue.acquires, taken)
}

// takeReleases takes the rollbacks that are still worth sending; mu is held.
func (n *node) takeReleases(now clock.Instant) {
	f, taken := &n.flight, 0
	for _, c := range n.queue.releases {
		if len(f.releases) == acquiresPerFlush {
			break
		}
		taken++
		switch {
		case n.clear(&c):
			if c.round != nil {
				c.round.deliver(n.index, quorum.Vote{Outcome: quorum.Granted}, nil)
			}
			continue
		case c.until <= now:
			continue
		case n.queue.held[c.claim.key] != nil && c.claim.marks[n.index]&quorum.Behind != 0:
			cause := n.queue.held[c.claim.key] // of what it stands behind
			if c.round != nil {
				c.round.note(n.index, cause)
			}
			n.queue.refuse(c, cause, now)
			continue
		}
		f.releases = append(f.releases, c)
	}
	n.queue.releases = drop(n.queue.releases, taken)
}

// takeGroups takes the extensions, and of the re-seeds what is still wanted: a
// claim that is over must not be put back behind its release; mu is held.
func (n *node) takeGroups() {
	taken, claims := 0, 0
	for ; taken < len(n.queue.groups) && claims < groupsPerFlush*lua.ExtendBatchSize; taken++ {
		claims += len(n.queue.groups[taken].claims)
	}
	for _, g := range n.queue.groups[:taken] {
		if g.script == lua.ReseedScript {
			g.forget(func(c *claim) bool { return c.over.Load() })
			for _, c := range g.claims {
				c.marks[n.index] = c.marks[n.index].Again()
			}
		}
		if len(g.claims) > 0 {
			n.flight.groups = append(n.flight.groups, g)
		}
	}
	n.queue.groups = drop(n.queue.groups, taken)
}

// drop removes the first k of a queue and lets go of what they point to.
func drop[T any](q []T, k int) []T {
	rest := copy(q, q[k:])
	clear(q[rest:])
	return q[:rest]
}

// send puts the flight on the wire and hands out the replies.
func (n *node) send() {
	f := &n.flight
	if n.flight.silent != nil {
		n.abstain(n.flight.silent)
	}
	n.keepEntries()
	n.addReleases()
	n.addPasses() // before what is asked of the claims that they bring
	for _, g := range f.groups {
		f.parts = append(f.parts, part{cmd: f.groupCall(g, &n.epoch), group: g})
	}
	for _, r := range f.raises {
		f.parts = append(f.parts, part{cmd: n.raiseCall(r), raise: r})
	}
	if len(f.late) > 0 {
		f.polls = append(f.polls, n.cfg.untold(f.late)...)
	}
	one := n.singly > 0
	n.addAcquires()
	n.addBids(one)
	if f.sample || n.grants() || len(f.parts) > 0 && n.sampleIsOld() {
		n.addSample() // behind what may be granted
	}
	if len(f.parts) > 0 {
		n.addIdentity()
	}
	for _, k := range f.polls { // they count nothing that a clock could spoil
		n.addPart(part{cmd: n.pollCall(k), poll: k})
	}
	if len(f.parts) > 0 {
		sent := n.clock.Early()
		n.exec()
		n.observer.Called(n.index, n.clock.Early().Sub(sent))
		n.handOut()
	}
	if len(f.releases) > 0 {
		n.mu.Lock()
		n.sending = nil
		n.mu.Unlock()
	}
}

// grants tells whether the flight asks for grants, each of which counts only with a
// reading of the node's clock that was taken behind it on the same connection: else a
// step since the last sample could have ended the lease of a holder.
func (n *node) grants() bool {
	f := &n.flight
	return !n.cfg.trustClocks && len(f.acquires)+len(f.bids)+len(f.passes) > 0
}

// sampleIsOld tells whether other traffic carries a sample along.
func (n *node) sampleIsOld() bool {
	return n.reading.At == 0 || n.clock.Early().Sub(n.reading.At) > sampleEvery
}

// addSample adds what a sample of the node consists of: its clock. settleTime takes
// in the reply.
func (n *node) addSample() {
	n.flight.sent = n.clock.Early()
	n.addPart(part{cmd: n.flight.one.timeCall()})
}

// exec sends the commands: by itself where there is one, otherwise in a
// pipeline. Each command keeps its own error.
func (n *node) exec() {
	f, ctx, w := &n.flight, context.Background(), n.pin()
	var err error
	if len(f.parts) == 1 {
		err = w.Process(ctx, f.parts[0].cmd)
	} else {
		p := n.pipeline
		if p == nil {
			p = w.Pipeline()
		}
		for _, c := range f.parts {
			f.cmds = append(f.cmds, c.cmd)
		}
		_ = p.BatchProcess(ctx, f.cmds...) // queues only
		_, err = p.Exec(ctx)               // the first of the commands' errors
	}
	// go-redis keeps the error from the commands where a pinned connection was
	// bad before they were sent, and what made it bad was an error reply.
	for _, c := range f.parts {
		if c.cmd.Err() == nil && !answered(c.cmd) {
			c.cmd.SetErr(fmt.Errorf("%w (%v)", errNoReply, err)) //nolint:errorlint // it is an earlier command's error
		}
	}
}

// silence is why the node does not vote; nil: it does.
func (n *node) silence() error {
	switch {
	case n.epoch == "":
		return n.abstains
	case n.timeless != nil:
		return n.timeless
	}
	if d := n.distrust.Load(); d != nil {
		if n.clock.Early() < d.Until() {
			return d
		}
		n.distrust.CompareAndSwap(d, nil)
	}
	return nil
}

// doubt is why what the node answers in this flight does not count, though it was
// asked; nil: it does.
func (n *node) doubt() error {
	switch {
	case n.met != n.turn():
		return errExchanged
	case n.flight.doubt != nil:
		return n.flight.doubt
	case n.timeless != nil:
		return n.timeless
	}
	if d := n.distrust.Load(); d != nil {
		return d
	}
	return nil
}

// ungranted is why what the node granted in this flight does not count; nil: it does.
func (n *node) ungranted() error {
	if doubt := n.doubt(); doubt != nil {
		return doubt
	}
	return n.flight.unread
}

// abstain answers all that asks for a vote: the node gives none. A bid is recorded
// there all the same, by a look, so that the node knows who waits when it votes again.
func (n *node) abstain(cause error) {
	f := &n.flight
	for _, rounds := range [][]*round{f.raises, f.acquires, f.bids} {
		for _, r := range rounds {
			r.deliver(n.index, quorum.Vote{Outcome: quorum.Abstained}, cause)
		}
	}
	for _, g := range f.groups {
		g.answer(g, n.index, quorum.Abstained, nil, cause)
	}
	f.late = append(f.late, f.bids...)
	f.raises, f.acquires, f.bids, f.groups = f.raises[:0], f.acquires[:0], f.bids[:0], f.groups[:0]
}

// addReleases makes one plain call of a single rollback, and batches of more, as far
// as none of them goes alone.
func (n *node) addReleases() {
	rest := n.flight.releases
	if len(rest) == 1 && rest[0].entry == leaveNothing && !n.doubtful(rest[0].claim) {
		n.addPart(part{cmd: n.flight.one.releaseCall(rest[0].claim), releases: rest})
		return
	}
	for len(rest) > 0 {
		batch := rest[:1]
		for k := 1; k < min(len(rest), lua.ReleaseBatchSize) && !batch[0].alone() && !rest[k].alone(); k++ {
			batch = rest[:k+1]
		}
		rest = rest[len(batch):]
		n.addPart(part{cmd: n.releaseBatch(batch), releases: batch})
	}
}

// addAcquires makes one plain call of a single acquire, and batches of more.
func (n *node) addAcquires() {
	rest := n.flight.acquires
	for ; n.singly > 0 && len(rest) > 0; n.singly-- {
		n.addPart(part{cmd: n.acquireCall(rest[0].claim), acquires: rest[:1]})
		rest = rest[1:]
	}
	n.singly = 0
	if len(rest) == 1 {
		n.addPart(part{cmd: n.flight.one.acquireCall(rest[0].claim, &n.epoch), acquires: rest})
		return
	}
	for len(rest) > 0 {
		batch := rest[:min(len(rest), lua.AcquireBatchSize)]
		rest = rest[len(batch):]
		n.addPart(part{cmd: n.acquireBatch(batch), acquires: batch})
	}
}

func (n *node) addPart(p part) { n.flight.parts = append(n.flight.parts, p) }

// doubtful tells whether a release must leave a tombstone: something of the
// claim was sent here, and what became of it is not known.
func (n *node) doubtful(c *claim) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return c.marks[n.index].Doubtful()
}
