package node

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Each command is sent once: a second try would be a new command, and the first
// one counts as unknown. go-redis asks the command itself, and one such command
// in a pipeline keeps all of it from being sent again.
type (
	intCall  struct{ *redis.IntCmd }
	intsCall struct{ *redis.IntSliceCmd }
	handCall struct{ *redis.Cmd }
	// TimeCall is the node's clock, by TIME.
	TimeCall struct{ *redis.TimeCmd }
)

// NoRetry keeps go-redis from sending it again, as do the others.
func (intCall) NoRetry() bool { return true }

func (intsCall) NoRetry() bool { return true }

func (handCall) NoRetry() bool { return true }

// NoRetry keeps go-redis from sending it again.
func (TimeCall) NoRetry() bool { return true }

const (
	// acquiresPerFlush and groupsPerFlush bound one flush, so that its reply is
	// not long in coming: what waits behind it has the node timeout as well. At
	// 5 us a pair (ADR 1), so many acquires and as many releases take a server some 3 ms.
	acquiresPerFlush = 8 * lua.AcquireBatchSize
	groupsPerFlush   = 8
)

// batch is one flush: what was taken, and the commands that carry it. The
// writer has one flush out at a time and uses the same batch again. Commands hold pointers
// into it, and into its claims: nothing of it may change before the replies are there.
type batch struct {
	epoch   string        // to send with every vote
	process string        // the id under which the Locker waits
	at      clock.Instant // when it is sent; the lease of a claim that takes pushes counts from here
	reading int64         // the same in ms: the sign of life

	// releases are ordered (part): first those of slots, then of shared holds, then those that
	// call a waiter, then those that grant. The three lists below are parts of it.
	releases   []Release
	slotters   []Release // the releases of slots
	sharers    []Release // the releases of shared holds
	hands      []Release // the releases that grant
	pushes     []push
	groups     []*group
	raises     []*round.Round
	passes     []*Handover
	acquires   []*round.Round
	bids       []*round.Round // acquires by a place in line
	shares     []*round.Round // acquires of shared holds
	slots      []*round.Round // acquires of slots
	late       []*round.Round // asks that do not go (over, or no vote): a look tells the node of their places
	probes     []*round.Round
	polls      []Poll
	sample     bool // somebody wants the node's clock read
	calls      []call
	cmds       []redis.Cmder   // of the calls
	sent       clock.Instant   // just before TIME was added: the sample counts from here
	unread     error           // why its clock was not read behind what it granted; nil if it was
	unreleased map[string]bool // the names whose releases failed in it
	silent     error           // why the node does not vote in this batch; nil if it does
	doubt      error           // why nothing counts that it grants in this batch; nil if it does
	proven     bool            // a look behind all else said that it was the one verified
	singly     int             // acquires at the head that go one by one
	arena      []any           // the batches' arguments, one after another
	one        reusable
}

// call is one command of a batch, and what its reply concerns: one of the rest, by which
// handOut tells the kinds apart. A call with none of them is TIME. Its lists are parts of the
// batch's own, and allocate nothing.
type call struct {
	cmd      redis.Cmder
	releases []Release
	acquires []*round.Round
	bids     bool // the acquires are bids
	shares   bool // the acquires are of shared holds
	slot     bool // the acquire is of a slot
	raise    *round.Round
	group    *group
	pass     *Handover
	poll     Poll
	claims   []*round.Claim // that the poll puts in line; nil if none at that name
	identity bool           // it is the look at the node's identity
}

// reset makes the batch ready for the next flush. epoch, silent and process are set anew, or stay.
func (b *batch) reset() {
	b.unread, b.singly = nil, 0
	b.slotters, b.sharers, b.hands = nil, nil, nil // parts of releases
	for _, rounds := range []*[]*round.Round{&b.raises, &b.acquires, &b.bids, &b.shares, &b.slots, &b.late, &b.probes} {
		empty(rounds)
	}
	empty(&b.releases)
	empty(&b.pushes)
	empty(&b.groups)
	empty(&b.passes)
	empty(&b.polls)
	empty(&b.calls)
	empty(&b.cmds)
	empty(&b.arena)
}

// empty empties a list, and lets go of what its elements point to: the memory stays for the
// next batch, and must keep no attempt alive that is over.
func empty[T any](list *[]T) {
	clear(*list)
	*list = (*list)[:0]
}

// addCalls lays out all that is taken, in the order in which it goes: rollbacks first,
// and handovers before what is asked of the claims that they bring. Samples and looks
// come behind it.
func (b *batch) addCalls() {
	b.addReleases()
	b.addSlotReleases()
	b.addSharedReleases()
	b.addHands()
	b.addPasses()
	for _, g := range b.groups {
		b.add(call{cmd: b.groupCall(g), group: g})
	}
	for _, r := range b.raises {
		b.add(call{cmd: b.raiseCall(r), raise: r})
	}
	// While some acquires go one by one, all asks do: one of them may be the forbidden one.
	size := lua.AskBatchSize
	if b.singly > 0 {
		size = 1
	}
	b.addAcquires()
	b.addBids(size)
	b.addShares(min(size, lua.ShareBatchSize))
	b.addSlots()
}

// addReleases makes one plain call of a single rollback, and batches of more, as far
// as none of them goes alone. The plain call (release.lua) leaves no tombstone and touches
// no line: it is what an uncontended lock costs.
func (b *batch) addReleases() {
	rest := b.releases[len(b.slotters)+len(b.sharers) : len(b.releases)-len(b.hands)]
	if len(rest) == 1 && rest[0].Entry == round.LeaveNothing && !rest[0].doubtful {
		b.add(call{cmd: b.one.releaseCall(rest[0].Claim), releases: rest})
		return
	}
	for len(rest) > 0 {
		next := together(rest, lua.ReleaseBatchSize)
		rest = rest[len(next):]
		b.add(call{cmd: b.releaseBatch(next), releases: next})
	}
}

// together are the first of these releases that go in one call, most at a time. One that
// was refused in a call with others goes alone: should it be refused again, that call
// delays no other name.
func together(releases []Release, most int) []Release {
	k := 1
	for k < min(len(releases), most) && !releases[0].alone() && !releases[k].alone() {
		k++
	}
	return releases[:k]
}

// mayHand tells whether a release may grant: where the node votes, and nothing of the
// claim may still come. An entry that is the process's id alone goes by a release only:
// of a hand that comes late nobody could tell whether it is a newer one.
func (b *batch) mayHand(r *Release) bool {
	return r.Hint != 0 && b.silent == nil && !r.doubtful && r.rejected == nil && (r.Entry == round.LeaveNothing || *r.Claim.QueueOwner() != "")
}

// part puts the releases of slots and of shared holds first, and those last that may grant.
// A stable sort: two releases of one name, such as of a claim and of the one that stands
// behind it, keep their order. They nearly always come sorted, and cost no sort then.
func (b *batch) part() {
	var of [4]int
	sorted := true
	for i := range b.releases {
		order := b.order(&b.releases[i])
		of[order]++
		sorted = sorted && (i == 0 || b.order(&b.releases[i-1]) <= order)
	}
	if !sorted {
		slices.SortStableFunc(b.releases, func(x, y Release) int { return b.order(&x) - b.order(&y) })
	}
	b.slotters, b.sharers, b.hands = b.releases[:of[0]], b.releases[of[0]:of[0]+of[1]], b.releases[of[0]+of[1]+of[2]:]
}

// order is where in a batch a release goes: one of a slot is 0, one of a shared hold 1, one
// that calls a waiter 2, and one that may grant 3.
func (b *batch) order(r *Release) int {
	switch r.Claim.Kind().(type) {
	case *round.Slot:
		return 0
	case round.Shared:
		return 1
	default:
		return 2 + flag(b.mayHand(r))
	}
}

// addHands makes one plain call of a single hand, and batches of more. A hand is a release
// that grants the name to the first in line (ADR 21).
func (b *batch) addHands() {
	rest := b.hands
	switch {
	case len(rest) == 1 && rest[0].Entry == round.LeaveNothing && rest[0].Next == nil:
		b.add(call{cmd: b.one.handCall(&rest[0], &b.epoch), releases: rest})
		return
	case len(rest) == 1:
		b.add(call{cmd: b.handOne(&rest[0]), releases: rest})
		return
	}
	for len(rest) > 0 {
		next := rest[:min(len(rest), lua.HandBatchSize)]
		rest = rest[len(next):]
		b.add(call{cmd: b.handBatch(next), releases: next})
	}
}

// addPasses makes calls of the handovers: nearly always there is one, which goes by the
// reusable call.
func (b *batch) addPasses() {
	if len(b.passes) == 1 {
		b.add(call{cmd: b.one.passCall(b.passes[0], &b.epoch), pass: b.passes[0]})
		return
	}
	for _, h := range b.passes {
		b.add(call{cmd: (&reusable{}).passCall(h, &b.epoch), pass: h})
	}
}

// addAcquires makes one plain call of a single acquire, and batches of more. Those at the head
// that were refused in a batch for want of a right go one by one (pending.apart).
func (b *batch) addAcquires() {
	rest := b.acquires
	for ; b.singly > 0 && len(rest) > 0; b.singly-- {
		b.add(call{cmd: b.acquireCall(rest[0].Claim), acquires: rest[:1]})
		rest = rest[1:]
	}
	if len(rest) == 1 {
		b.add(call{cmd: b.one.acquireCall(rest[0].Claim, &b.epoch), acquires: rest})
		return
	}
	for len(rest) > 0 {
		next := rest[:min(len(rest), lua.AcquireBatchSize)]
		rest = rest[len(next):]
		b.add(call{cmd: b.acquireBatch(next), acquires: next})
	}
}

// addBids makes batches of the asks by a place in line, size in each: 1 while some go one by
// one, since nothing tells which of the acquires at the head were bids.
func (b *batch) addBids(size int) {
	for rest := b.bids; len(rest) > 0; {
		next := rest[:min(len(rest), size)]
		rest = rest[len(next):]
		b.add(call{cmd: b.askCall(next), acquires: next, bids: true})
	}
}

// grants tells whether the batch asks for grants, each of which counts only with a
// reading of the node's clock that was taken behind it on the same connection: else a
// step since the last sample could have ended the lease of a holder.
func (b *batch) grants() bool {
	return len(b.acquires)+len(b.bids)+len(b.shares)+len(b.slots)+len(b.passes) > 0
}

// addSample makes the batch read the node's clock, behind all that it may grant. settleTime
// takes in the reply.
func (b *batch) addSample(now clock.Instant) {
	b.sent = now
	b.add(call{cmd: b.one.timeCall()})
}

// addIdentity makes the batch look at the node's identity, at the end: what it says of the
// history goes for every command before it on the connection.
func (b *batch) addIdentity() { b.add(call{cmd: b.one.identityCall(), identity: true}) }

// addPolls makes a call of each poll.
func (b *batch) addPolls() {
	for _, k := range b.polls {
		cmd, claims := b.pollCall(k)
		b.add(call{cmd: cmd, poll: k, claims: claims})
	}
}

// add appends a call: the calls go out in the order in which they are added.
func (b *batch) add(c call) { b.calls = append(b.calls, c) }

// commands are what goes out on the connection.
func (b *batch) commands() []redis.Cmder {
	for _, c := range b.calls {
		b.cmds = append(b.cmds, c.cmd)
	}
	return b.cmds
}

// writeRefusals are what a server says that answers and does not write: its memory
// is full (maxmemory), it is a replica, its disk failed (stop-writes-on-bgsave-error), it
// lacks the replicas that it wants (min-replicas-to-write).
var writeRefusals = []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS"}

// refusesWrites tells whether the error is the reply of a server that does not write.
func refusesWrites(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && HasAnyPrefix(reply.Error(), writeRefusals...)
}

// writeRefusal is why, and since when, a node refuses to write.
type writeRefusal struct {
	cause error
	since clock.Instant
}

// SawRefusal takes note of an error: if the node refuses to write, it tells that once, until
// SawWrite. The votes need no note: each refused command fails by itself.
func (n *Node) SawRefusal(err error) {
	if err == nil || !refusesWrites(err) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unwritten.Load() == nil {
		r := &writeRefusal{Explain(err), n.Clock.Early()}
		n.unwritten.Store(r)
		n.observer.RefusesWrites(n.Index, r.cause)
	}
}

// SawWrite takes note that the node wrote what a full memory, too, would have
// refused: a deletion or a longer lease proves nothing.
func (n *Node) SawWrite() {
	if n.unwritten.Load() == nil {
		return // as nearly always: one atomic read for each grant
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.unwritten.Swap(nil); r != nil {
		n.observer.TakesWrites(n.Index, n.Clock.Early().Sub(r.since))
	}
}

// RefusesNow asks the node to write, and returns why it refuses; empty if it wrote, or
// said nothing about it. What it writes is a tombstone of an owner that nobody is,
// which ends within a millisecond: a check must find a full memory, and leave no trace.
// It loads the script in the same pipeline, since a node that was never used lacks it.
func (n *Node) RefusesNow(ctx context.Context) string {
	bounded, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	// A name and an owner of this call alone: no lock, and no other check, has them.
	id := n.Cfg.Chance.Name()
	load := AnyCall{redis.NewCmd(bounded, "SCRIPT", "LOAD", lua.ReleaseScript.Body)}
	leave := AnyCall{redis.NewCmd(bounded, "EVALSHA", lua.ReleaseScript.Hash, 2, lua.ProbeKey+id, lua.TombstoneKey+id, id, 1)}
	_, _ = n.Calls.Pipelined(bounded, func(p redis.Pipeliner) error { // each has its own error
		_ = p.Process(bounded, load)
		_ = p.Process(bounded, leave)
		return nil
	})
	err := leave.Err()
	n.SawRefusal(err)
	switch {
	case err == nil && leave.Val() != nil:
		n.SawWrite()
	case refusesWrites(err):
		return Explain(err).Error()
	}
	return ""
}

// Handover is a lock on its way from one goroutine of the Locker to the next: each
// node that has the old claim's key is asked to pass it to the new claim, in one
// round trip and past the queue. A node that can't is sent the old claim's
// release instead; what the new claim then has is decided as ever, by a quorum.
// So a handover that fails half way leaves an attempt like any other, and no key behind.
type Handover struct {
	Old   Release      // what a node gets that did not pass the lock
	Round *round.Round // of the new claim
}

// SubmitPass queues the handover, or the old claim's release. It marks the new claim as
// standing behind the old one first: a release of it, which may come at once, then waits for
// what becomes of the old claim.
func (n *Node) SubmitPass(h *Handover) {
	n.mu.Lock() // not enqueue: a handover that is refused is marked as well
	err := n.refusalLocked(h.Round.Start)
	h.Round.Claim.Marks[n.Index] |= quorum.Behind
	if err == nil {
		n.queue.passes = append(n.queue.passes, h)
	}
	n.unlockAndWake()
	if err != nil {
		n.keep(h, quorum.Vote{Outcome: quorum.Failed}, err)
	}
}

// keep makes the node release the old claim: it did not pass it on. The new one's
// release follows it, and is not confirmed before.
func (n *Node) keep(h *Handover, v quorum.Vote, cause error) {
	n.Release(h.Old)
	h.Round.Deliver(n.Index, v, cause)
}

// takePasses takes the handovers of keys that are there. Where an earlier command
// may still come, or the node does not vote, the old claim's release goes out
// instead: only its tombstone keeps that command out (quorum.PassingOf).
func (q *pending) takePasses(b *batch) {
	for i, h := range q.passes {
		old := h.Old.Claim
		switch quorum.PassingOf(old.Marks[q.node], b.silent == nil, h.Round.Claim.Abandoned.Load()) {
		case quorum.PassGone:
			// Nothing is there to pass: the node refuses, and the release of the old claim is done.
			h.Round.Claim.Marks[q.node] &^= quorum.Behind
			if old.AcceptsPush() { // its entry may stand here
				gone := h.Old
				gone.Entry, gone.Round = round.LeaveQueue, nil
				b.releases = append(b.releases, gone)
			}
			if h.Old.Round != nil {
				h.Old.Round.Deliver(q.node, quorum.Vote{Outcome: quorum.Granted}, nil)
			}
			h.Round.Deliver(q.node, quorum.Vote{Outcome: quorum.Taken}, errGone)
		case quorum.PassDoubted:
			// The new claim has failed here: it stays marked as standing behind the old one.
			b.releases = append(b.releases, h.Old)
			h.Round.Deliver(q.node, quorum.Vote{Outcome: quorum.Failed}, errNotPassed)
		case quorum.PassOver:
			// The new claim was passed on or given up before this node heard of it.
			if !onward(h, q.passes[i+1:], q.node) {
				b.releases = append(b.releases, h.Old)
			}
		case quorum.PassGoes:
			// Marked before it is sent: from here on only a tombstone keeps the new claim out.
			h.Round.Claim.Marks[q.node] |= quorum.Unsure
			b.passes = append(b.passes, h)
		}
	}
	q.passes = drop(q.passes, len(q.passes))
}

// onward makes a later handover in the queue begin at h's old claim: the one between
// has passed the lock on before this node heard of it. A node that is slower than
// the hand-overs stays among those that hold the lock; else one turn would thin
// them out to a bare quorum.
func onward(h *Handover, later []*Handover, node int) bool {
	for i, next := range later {
		if next.Old.Claim != h.Round.Claim {
			continue
		}
		if next.Old.Round != nil { // the claim between never was here, so its release is done
			next.Old.Round.Deliver(node, quorum.Vote{Outcome: quorum.Granted}, nil)
		}
		from := *next // a copy: the other nodes have the same Handover, and may have passed it
		from.Old = h.Old
		later[i] = &from
		return true
	}
	return false
}

// errNotPassed is a node that was sent no pass, but the old claim's release (PassDoubted).
var errNotPassed = errors.New("not sent: what this node holds of the lock is not known")

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
		v, err = n.acquireVote(reply)
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
