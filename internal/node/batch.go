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
	// TimeCall is the node's clock, by TIME.
	TimeCall struct{ *redis.TimeCmd }
)

func (intCall) NoRetry() bool { return true }

func (intsCall) NoRetry() bool { return true }

// NoRetry keeps go-redis from sending it again.
func (TimeCall) NoRetry() bool { return true }

const (
	// acquiresPerFlush and groupsPerFlush bound one flush, so that its reply is
	// not long in coming.
	acquiresPerFlush = 8 * lua.AcquireBatchSize
	groupsPerFlush   = 8
)

// batch is one flush: what was taken, and the commands that carry it. The
// writer has one flush out at a time and uses the same batch again.
type batch struct {
	releases   []Release
	groups     []*group
	raises     []*Round
	passes     []*Handover
	acquires   []*Round
	bids       []*Round // acquires by a place in line
	late       []*Round // asks that do not go: their round is over, or the node gives no vote. It is told of their places by a look
	probes     []*Round
	polls      []Poll
	sample     bool // somebody wants the node's clock read
	calls      []call
	cmds       []redis.Cmder // of the parts, for a pipeline
	sent       clock.Instant
	unread     error           // why its clock was not read behind what it granted; nil: it was
	unreleased map[string]bool // the names whose releases failed in it
	silent     error           // why the node does not vote in this batch; nil: it does
	doubt      error           // why nothing counts that it grants in this batch; nil: it does
	proven     bool            // a look behind all else said that it was the one verified
	arena      []any           // the batches' arguments, one after another
	one        reusable
}

// call is one command of a batch, and whom its reply concerns: one of the rest.
type call struct {
	cmd      redis.Cmder
	releases []Release
	acquires []*Round
	bids     bool // the acquires are bids
	raise    *Round
	group    *group
	pass     *Handover
	poll     Poll
	identity bool // it is the look at the node's identity
}

func (f *batch) reset() {
	f.unread = nil
	clear(f.calls)
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
	f.calls, f.arena = f.calls[:0], f.arena[:0]
}

// take moves what may be sent now from the queue into the batch. From here on a
// claim's mark says that its acquire may have happened. Rollbacks go first, and
// acquires only behind the last of them: a pending rollback of the same name
// must not make our own earlier command look like contention. An acquire whose
// round was won without it is sent all the same: a lock that rests on a bare
// quorum is lost with the first node of it that fails. An ask whose round is over is
// not sent: the node is told of the place by a look, whether it votes or not.
func (n *Node) take(now clock.Instant) {
	f := &n.batch
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
	taken, votes := 0, n.batch.silent == nil
	for _, r := range n.queue.acquires {
		if len(f.acquires)+len(f.bids)+len(f.late) == acquiresPerFlush {
			break
		}
		taken++
		if r.Claim.Over.Load() {
			if r.Asks != nil && r.Asks.Position > 0 {
				f.late = append(f.late, r)
			}
			continue
		}
		if err := n.queue.heldBack(r.Claim.Key); err != nil && votes {
			r.deliver(n.Index, quorum.Vote{Outcome: quorum.Failed}, err)
			continue
		}
		if votes {
			r.Claim.Marks[n.Index] = r.Claim.Marks[n.Index].Again()
		}
		if r.Asks != nil {
			f.bids = append(f.bids, r)
			continue
		}
		f.acquires = append(f.acquires, r)
	}
	n.queue.acquires = drop(n.queue.acquires, taken)
}

// takeReleases takes the rollbacks that are still worth sending; mu is held.
func (n *Node) takeReleases(now clock.Instant) {
	f, taken := &n.batch, 0
	for _, c := range n.queue.releases {
		if len(f.releases) == acquiresPerFlush {
			break
		}
		taken++
		switch {
		case n.clear(&c):
			if c.Round != nil {
				c.Round.deliver(n.Index, quorum.Vote{Outcome: quorum.Granted}, nil)
			}
			continue
		case c.Until <= now:
			continue
		case n.queue.held[c.Claim.Key] != nil && c.Claim.Marks[n.Index]&quorum.Behind != 0:
			cause := n.queue.held[c.Claim.Key] // of what it stands behind
			if c.Round != nil {
				c.Round.note(n.Index, cause)
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
func (n *Node) takeGroups() {
	taken, claims := 0, 0
	for ; taken < len(n.queue.groups) && claims < groupsPerFlush*lua.ExtendBatchSize; taken++ {
		claims += len(n.queue.groups[taken].claims)
	}
	for _, g := range n.queue.groups[:taken] {
		if g.script == lua.ReseedScript {
			g.forget(func(c *Claim) bool { return c.Over.Load() })
			for _, c := range g.claims {
				c.Marks[n.Index] = c.Marks[n.Index].Again()
			}
		}
		if len(g.claims) > 0 {
			n.batch.groups = append(n.batch.groups, g)
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

// send puts the batch on the wire and hands out the replies.
func (n *Node) send() {
	f := &n.batch
	if n.batch.silent != nil {
		n.abstain(n.batch.silent)
	}
	n.keepEntries()
	n.addReleases()
	n.addPasses() // before what is asked of the claims that they bring
	for _, g := range f.groups {
		f.calls = append(f.calls, call{cmd: f.groupCall(g, &n.epoch), group: g})
	}
	for _, r := range f.raises {
		f.calls = append(f.calls, call{cmd: n.raiseCall(r), raise: r})
	}
	if len(f.late) > 0 {
		f.polls = append(f.polls, n.Cfg.Untold(f.late)...)
	}
	one := n.singly > 0
	n.addAcquires()
	n.addBids(one)
	if f.sample || n.grants() || len(f.calls) > 0 && n.sampleIsOld() {
		n.addSample() // behind what may be granted
	}
	if len(f.calls) > 0 {
		n.addIdentity()
	}
	for _, k := range f.polls { // they count nothing that a clock could spoil
		n.addCall(call{cmd: n.pollCall(k), poll: k})
	}
	if len(f.calls) > 0 {
		sent := n.Clock.Early()
		n.exec()
		n.observer.Called(n.Index, n.Clock.Early().Sub(sent))
		n.handOut()
	}
	if len(f.releases) > 0 {
		n.mu.Lock()
		n.sending = nil
		n.mu.Unlock()
	}
}

// grants tells whether the batch asks for grants, each of which counts only with a
// reading of the node's clock that was taken behind it on the same connection: else a
// step since the last sample could have ended the lease of a holder.
func (n *Node) grants() bool {
	f := &n.batch
	return !n.Cfg.TrustClocks && len(f.acquires)+len(f.bids)+len(f.passes) > 0
}

// sampleIsOld tells whether other traffic carries a sample along.
func (n *Node) sampleIsOld() bool {
	return n.reading.At == 0 || n.Clock.Early().Sub(n.reading.At) > sampleEvery
}

// addSample adds what a sample of the node consists of: its clock. settleTime takes
// in the reply.
func (n *Node) addSample() {
	n.batch.sent = n.Clock.Early()
	n.addCall(call{cmd: n.batch.one.timeCall()})
}

// exec sends the commands: by itself where there is one, otherwise in a
// pipeline. Each command keeps its own error.
func (n *Node) exec() {
	f, ctx, w := &n.batch, context.Background(), n.pin()
	var err error
	if len(f.calls) == 1 {
		err = w.Process(ctx, f.calls[0].cmd)
	} else {
		p := n.pipeline
		if p == nil {
			p = w.Pipeline()
		}
		for _, c := range f.calls {
			f.cmds = append(f.cmds, c.cmd)
		}
		_ = p.BatchProcess(ctx, f.cmds...) // queues only
		_, err = p.Exec(ctx)               // the first of the commands' errors
	}
	// go-redis keeps the error from the commands where a pinned connection was
	// bad before they were sent, and what made it bad was an error reply.
	for _, c := range f.calls {
		if c.cmd.Err() == nil && !answered(c.cmd) {
			c.cmd.SetErr(fmt.Errorf("%w (%v)", ErrNoReply, err)) //nolint:errorlint // it is an earlier command's error
		}
	}
}

// silence is why the node does not vote; nil: it does.
func (n *Node) silence() error {
	switch {
	case n.epoch == "":
		return n.abstains
	case n.timeless != nil:
		return n.timeless
	}
	if d := n.distrust.Load(); d != nil {
		if n.Clock.Early() < d.Until() {
			return d
		}
		n.distrust.CompareAndSwap(d, nil)
	}
	return nil
}

// doubt is why what the node answers in this batch does not count, though it was
// asked; nil: it does.
func (n *Node) doubt() error {
	switch {
	case n.met != n.turn():
		return errExchanged
	case n.batch.doubt != nil:
		return n.batch.doubt
	case n.timeless != nil:
		return n.timeless
	}
	if d := n.distrust.Load(); d != nil {
		return d
	}
	return nil
}

// ungranted is why what the node granted in this batch does not count; nil: it does.
func (n *Node) ungranted() error {
	if doubt := n.doubt(); doubt != nil {
		return doubt
	}
	return n.batch.unread
}

// abstain answers all that asks for a vote: the node gives none. A bid is recorded
// there all the same, by a look, so that the node knows who waits when it votes again.
func (n *Node) abstain(cause error) {
	f := &n.batch
	for _, rounds := range [][]*Round{f.raises, f.acquires, f.bids} {
		for _, r := range rounds {
			r.deliver(n.Index, quorum.Vote{Outcome: quorum.Abstained}, cause)
		}
	}
	for _, g := range f.groups {
		g.answer(g, n.Index, quorum.Abstained, nil, cause)
	}
	f.late = append(f.late, f.bids...)
	f.raises, f.acquires, f.bids, f.groups = f.raises[:0], f.acquires[:0], f.bids[:0], f.groups[:0]
}

// addReleases makes one plain call of a single rollback, and batches of more, as far
// as none of them goes alone.
func (n *Node) addReleases() {
	rest := n.batch.releases
	if len(rest) == 1 && rest[0].Entry == LeaveNothing && !n.doubtful(rest[0].Claim) {
		n.addCall(call{cmd: n.batch.one.releaseCall(rest[0].Claim), releases: rest})
		return
	}
	for len(rest) > 0 {
		batch := rest[:1]
		for k := 1; k < min(len(rest), lua.ReleaseBatchSize) && !batch[0].alone() && !rest[k].alone(); k++ {
			batch = rest[:k+1]
		}
		rest = rest[len(batch):]
		n.addCall(call{cmd: n.releaseBatch(batch), releases: batch})
	}
}

// addAcquires makes one plain call of a single acquire, and batches of more.
func (n *Node) addAcquires() {
	rest := n.batch.acquires
	for ; n.singly > 0 && len(rest) > 0; n.singly-- {
		n.addCall(call{cmd: n.acquireCall(rest[0].Claim), acquires: rest[:1]})
		rest = rest[1:]
	}
	n.singly = 0
	if len(rest) == 1 {
		n.addCall(call{cmd: n.batch.one.acquireCall(rest[0].Claim, &n.epoch), acquires: rest})
		return
	}
	for len(rest) > 0 {
		batch := rest[:min(len(rest), lua.AcquireBatchSize)]
		rest = rest[len(batch):]
		n.addCall(call{cmd: n.acquireBatch(batch), acquires: batch})
	}
}

func (n *Node) addCall(p call) { n.batch.calls = append(n.batch.calls, p) }

// doubtful tells whether a release must leave a tombstone: something of the
// claim was sent here, and what became of it is not known.
func (n *Node) doubtful(c *Claim) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return c.Marks[n.Index].Doubtful()
}
