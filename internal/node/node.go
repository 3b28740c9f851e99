// Package node is one Redis master as a Locker uses it: what is sent there, in which order,
// and what its replies mean. What a node's vote is worth is decided elsewhere, by pure
// rules (internal/quorum, internal/membership).
package node

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/chance"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// errBusy is a queue with too many asks (queueBound). It is a vote that failed, so the attempt
// goes on with the other nodes.
var errBusy = errors.New("not sent: too many commands wait for this node")

// Node is one Redis master. A single goroutine, its writer, sends all that the
// Locker has for it: what gathers while one flush is on its way goes with the
// next, so a hung node costs one goroutine and a bounded queue, and commands to
// one node keep their order.
type Node struct {
	// Index is the node's place in the Locker's list: the bit that stands for it in every set
	// of nodes, and its index in votes and marks.
	Index    int
	Name     string                // as messages name it
	Client   redis.UniversalClient // for pinned connections and inspection
	Calls    redis.UniversalClient // the same, for calls beside the writer, which Bound bounds
	Brief    redis.UniversalClient // the same, bounded by the node timeout where it can be
	Timeout  time.Duration
	Clock    *clock.Clock
	observer Observer
	siblings *Siblings
	Tracker  *membership.Tracker
	ReadAt   atomic.Int64                    // the instant of the last sample of its clock; 0 if none
	Returned atomic.Int64                    // the instant when it was last seen to vote again; 0 if never
	distrust atomic.Pointer[clock.StepError] // why it abstains since its clock stepped; nil if it did not
	Server   *ServerIdentity                 // of a client that Open made; else nil
	Cfg      Config

	unwritten atomic.Pointer[writeRefusal] // why it refuses to write; nil if it does not; stored under mu

	// looking holds one token while somebody reads the node's record, and publishes it. Of
	// two reads that overlap nobody could tell which is newer (observe).
	looking chan struct{}
	wake    chan struct{} // of the writer; has room for one wake-up
	stop    chan struct{} // closed by Close
	Stopped chan struct{} // closed when the writer has ended

	// mu guards the fields below, and Marks[Index] of every claim: what this node may hold of
	// it. Every caller of the Locker takes it, so nothing that blocks runs under it.
	mu        sync.Mutex
	idle      bool // the writer sleeps
	closed    bool
	until     clock.Instant // nothing is sent a second time after it, once closed
	ended     bool          // the writer sends nothing any more
	queue     pending
	sending   []Release     // the releases of the flush that is out
	busySince clock.Instant // when the flush that is out was sent; 0 if none
	down      outage
	doubted   clock.Instant // when the node was last found to have stepped or forgotten; 0 if never
	doubtedBy error         // the step, or the sign that it forgot

	writer *writer
}

// writer is the goroutine that talks to a node, and its own fields. Others touch these where
// that is safe: SubmitPush under mu, while the writer sleeps; Watch the clients of conn, which
// never change; CloseRound conn.waits, which is atomic.
type writer struct {
	*Node

	loaded   bool           // the keeping scripts are there
	epoch    string         // sent with every vote; empty if the node does not vote for us
	longest  time.Duration  // the longest lease that it votes for under that epoch; 0: any
	bounded  clock.Instant  // when longest was read
	lists    [2]quorum.List // by which it votes under that epoch
	voted    string         // the last epoch that was not empty
	abstains error          // why epoch is empty, if the node answered so
	due      bool           // for a verification
	away     bool           // it did not vote when it was last talked to, or was down before
	met      int64          // turn() as of the last verification
	identity string         // as of then
	signed   clock.Instant  // of this client's sign as a straggler; 0 if it left none

	// unproven is the start of the earliest round in which the node vouched for something
	// since its identity was last seen to be the verified one; 0 if none. Should the next
	// look find another history, every vote since then is void (ADR 11).
	unproven clock.Instant
	// rechecks counts the verifications in a row that NOSCRIPT or another epoch asked for.
	// Only the first sends its commands again: a server that loses its scripts for ever
	// (SCRIPT FLUSH in a loop) must not keep its callers waiting.
	rechecks   int
	sampled    clock.Sample  // the intersection of the samples of its clock, as of the last one
	shared     clock.Instant // when the siblings last got one of them; 0 if never
	timeless   error         // why its clock can not be watched; nil if it can
	unreadable bool          // scripts can not read its clock: TIME does
	conn       connection
	batch      batch
}

// writeRefusal is why, and since when, a node refuses to write.
type writeRefusal struct {
	use   string // what the user lacks the right for; empty if the server does not write
	cause error
	since clock.Instant
}

// Config is what a node knows of its Locker's options. Its functions are called with no mutex
// of the node held, so that they may take the queue's.
type Config struct {
	Timeout     time.Duration // of each command
	Drift       float64       // the rate by which two clocks may run apart
	TrustClocks bool          // without the clock watch: no reading stands behind a grant
	Unprotected bool          // without membership: any server votes, also one that forgot
	Chance      *chance.Source
	Process     string // the id under which the Locker waits
	Holder      string // its label; may be empty

	Untold   func(bids []*round.Round) []Poll   // looks that tell a node of these places, where no ask did
	Busy     func() bool                        // whether the Locker holds or waits for anything
	Recorded func(key string, shared bool) bool // whether the Locker has an entry in that name's line, of that kind
}

// Observer is told what a node notices, by the node's index. The node's writer calls it, and
// under mu as well: it must not block, nor call back into the node. What a program's own
// observer does is done elsewhere, by the teller of internal/dispatch.
type Observer interface {
	// Called counts a round trip, and Erred one without a reply or with an error.
	Called(node int, took time.Duration)
	Erred(node int)
	// Down says that the node is not reached, once for each outage; Up says that it is again,
	// when it is also known whether it votes.
	Down(node int, cause error)
	Up(node int, after time.Duration)
	// Abstains says that the node does not vote for this client, and Votes that it does again.
	// Only a change is told, never each vote.
	Abstains(node int, cause error)
	Votes(node int)
	// RefusesWrites says that the node answers and does not write (a full memory, a replica),
	// and TakesWrites that it wrote again.
	RefusesWrites(node int, cause error)
	TakesWrites(node int, after time.Duration)
	// Stepped says that the node's clock has stepped: it abstains for MaxTTL.
	Stepped(node int, cause error)
	// Founded says that this client installed the node as the first of a new cluster.
	Founded(node int, cause error)
	// Disowned says that nothing counts that the node vouched for in rounds since then.
	Disowned(node int, since clock.Instant, cause error)
	// Returned says that the node votes again, which had not voted or was down.
	Returned(node int)
}

// New makes a node; it sends nothing before Write runs. seen takes in what shows
// of its membership, o what happens to it; s are the nodes beside it.
func New(index int, name string, client redis.UniversalClient, cfg Config, t *clock.Clock, s *Siblings, seen *membership.Tracker, o Observer) *Node {
	n := &Node{
		Index: index, Name: name, Client: client, Timeout: cfg.Timeout,
		Clock: t, observer: o, siblings: s, Tracker: seen, Cfg: cfg,
		looking: make(chan struct{}, 1), wake: make(chan struct{}, 1), stop: make(chan struct{}), Stopped: make(chan struct{}),
	}
	n.writer = &writer{Node: n, due: true}
	n.writer.conn.init(client, cfg.Timeout, t, cfg.Busy)
	n.Calls, n.Brief, n.writer.batch.process, n.queue.node = n.writer.conn.dials, n.writer.conn.calls, cfg.Process, index
	s.stepped[index] = n.stepBy
	return n
}

// SubmitAcquire queues the round's acquire, or fails it at once.
func (n *Node) SubmitAcquire(r *round.Round) { n.submit(r, &n.queue.acquires) }

// SubmitAcquires queues acquires that were made in one moment, so that one flush takes
// them all, or fails them at once. Queued one by one, the first would wake the writer, which
// could send it alone.
func (n *Node) SubmitAcquires(rounds []*round.Round) {
	unlisted := func(r *round.Round) bool { return !r.List.Has(n.Index) }
	if slices.ContainsFunc(rounds, unlisted) {
		rounds = slices.DeleteFunc(slices.Clone(rounds), unlisted)
	}
	if len(rounds) == 0 {
		return
	}
	err := n.enqueue(rounds[0].Start, true, func(q *pending) { q.acquires = append(q.acquires, rounds...) })
	if err == nil {
		return
	}
	for _, r := range rounds {
		r.Deliver(n.Index, quorum.Vote{Outcome: quorum.Failed}, err)
	}
}

// SubmitRaise queues the round's raise, or fails it at once.
func (n *Node) SubmitRaise(r *round.Round) { n.submit(r, &n.queue.raises) }

// SubmitProbe asks whether the node answers, and whether it votes, as Open does before it
// returns. The reply is that of the batch's TIME (settleTime).
func (n *Node) SubmitProbe(r *round.Round) { n.submit(r, &n.queue.probes) }

// submit queues a round in one of the queue's lists, or fails its vote at once. The start of a
// round serves as the clock's reading, which saves another.
func (n *Node) submit(r *round.Round, to *[]*round.Round) {
	now := r.Start
	if r.Asks != nil { // it may have begun long ago: an attempt that takes pushes stays open
		now = n.Clock.Early()
	}
	if err := n.enqueue(now, to == &n.queue.acquires, func(*pending) { *to = append(*to, r) }); err != nil {
		r.Deliver(n.Index, quorum.Vote{Outcome: quorum.Failed}, err)
	}
}

// submitGroup queues an extension or re-seed of many locks, or fails it at once: a renewal
// whose node is down then needs no timer to know it.
func (n *Node) submitGroup(g *group, now clock.Instant) {
	if err := n.enqueue(now, false, func(q *pending) { q.groups = append(q.groups, g) }); err != nil {
		g.answer(g, n.Index, quorum.Failed, nil, err)
	}
}

// SubmitPoll queues a poll, or fails it at once.
func (n *Node) SubmitPoll(k Poll) {
	err := errUnlisted
	if n.Tracker.List().Has(n.Index) {
		err = n.enqueue(n.Clock.Early(), false, func(q *pending) { q.polls = append(q.polls, k) })
	}
	if err != nil {
		k.Answer(n.Index, false, nil, err)
	}
}

// SubmitPass queues the handover, or the old claim's release. It marks the new claim as
// standing behind the old one first: a release of it, which may come at once, then waits for
// what becomes of the old claim.
func (n *Node) SubmitPass(h *Handover) {
	n.mu.Lock() // not enqueue: a handover that is refused is marked as well
	err := n.refusalLocked(h.Round.Start, false)
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

// Release queues a rollback. It is never refused: it is repeated until the node
// answers, or one lease has passed, when the key has ended by itself. Where nothing of the
// claim can be on the node, nor of one that it was to be handed over from, it is done at
// once; so is a leave that comes when the writer has ended: Close left every line before.
func (n *Node) Release(r Release) {
	outside := n.Tracker.Outside(n.Index)
	n.mu.Lock()
	n.queue.outside = outside
	gone := n.queue.clear(&r) || n.ended && r.Claim.Marks[n.Index] == quorum.Absent
	if !gone {
		n.queue.note([]Release{r}, 1)
		n.queue.releases = append(n.queue.releases, r)
	}
	n.unlockAndWake()
	if gone && r.Round != nil {
		r.Round.Deliver(n.Index, quorum.Vote{Outcome: quorum.Granted}, nil)
	}
}

// refusalLocked says why nothing is queued for this node now; nil if something may be. A
// caller is refused at once instead of waiting for a node that is down, hangs or is late:
// the other nodes may still be a quorum. asks tells whether it asks for a lock: only asks are
// refused for their number (queueBound).
func (n *Node) refusalLocked(now clock.Instant, asks bool) error {
	switch {
	case n.closed:
		return fault.ErrClosed
	case n.down.cause != nil && now < n.down.until:
		return fmt.Errorf("not sent: the node is down: %w", n.down.cause)
	case n.busySince != 0 && now.Sub(n.busySince) > n.Timeout: // it hangs: what waits behind would be late as well
		return fmt.Errorf("%w: %w for an earlier command", round.ErrNotSent, round.ErrTimeout)
	case asks && len(n.queue.acquires) >= queueBound:
		return errBusy
	}
	return nil
}

// CloseRound ends a round to these nodes for its caller. Where the verdict was known
// before the timers ended (decided), a node without a reply stays pending. Otherwise the
// outcome is unknown on a node that was sent something, and failed on any other. It asks
// which after the close: asked before, a command that leaves in between would count as one
// that was never sent.
func CloseRound(nodes []*Node, r *round.Round, decided bool) {
	r.Close()
	if decided {
		return
	}
	for i, n := range nodes {
		if r.Votes[i].Outcome == quorum.Pending {
			why := errUnready
			if n.writer.conn.waits.Load() {
				why = errNoConnection
			}
			r.Miss(i, n.sent(r.Claim), why)
		}
	}
}

// sent tells whether the node may hold, or may still come to hold, the claim. That a handover
// stands before it (Behind) says nothing of that.
func (n *Node) sent(c *round.Claim) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return c.Marks[n.Index]&^quorum.Behind != quorum.Absent
}

// Close makes the writer end once its call returns and the releases are answered. Releases
// that the node does not take are tried again until the given instant; all else that is
// queued fails. It returns at once: Stopped tells when the writer has ended.
func (n *Node) Close(until clock.Instant) {
	n.mu.Lock()
	already := n.closed
	n.closed, n.until = true, until
	n.mu.Unlock()
	if !already {
		close(n.stop)
	}
}

// turn is how often the node's server was seen to be another; without a
// ServerIdentity nobody looks. The writer compares it with that of its last verification
// (met): before a flush by prepare, and for the replies by doubt.
func (n *Node) turn() int64 {
	if n.Server == nil {
		return 0
	}
	return n.Server.turns.Load()
}

// verifyAgain makes the writer verify the node before it votes again. The epoch goes at once:
// without one no command of a later flush asks for a vote.
func (n *writer) verifyAgain() {
	n.epoch, n.due = "", true
	n.Tracker.Void(n.Index)
}

// markDown notes that the node failed, and tells the first time. It also forgets which server
// the node was: a node of ours that comes up at another's address is met as new (serves).
func (n *Node) markDown(err error) {
	n.mu.Lock()
	first := n.down.fail(err, n.Clock.Early())
	n.mu.Unlock()
	n.siblings.forget(n.Index)
	if first {
		n.observer.Down(n.Index, err)
	}
}

// stepBy takes note that the node's clock has stepped; any node's writer may
// find that out. The node is verified before its next flush: the wait is for the
// MaxTTL that its record says now. Votes of all times are revoked, not only those since the
// last sample: a step acts on every lease that runs, also one granted an hour ago.
func (n *Node) stepBy(by time.Duration) {
	now := n.Clock.Now()
	why := &clock.StepError{By: by, At: now, Clock: n.Clock, Longest: n.Tracker.LongestLease}
	n.distrust.Store(why)
	n.Tracker.Outdate(n.Index)
	n.observer.Stepped(n.Index, why)
	n.revokeVotes(0, why)
}

// Stepped tells whether the node abstains since its clock stepped.
func (n *Node) Stepped() bool {
	d := n.distrust.Load()
	return d != nil && n.Clock.Early() < d.Until()
}

// revokeVotes voids all that the node vouched for in rounds since then, also in
// attempts that are under way: doubted stops those (DoubtedSince), the observer takes the
// node out of the held locks. It notes first and tells then: an attempt that becomes
// a held lock in between asks for the note once more (Lock.doubt).
func (n *Node) revokeVotes(since clock.Instant, why error) {
	n.mu.Lock()
	n.doubted, n.doubtedBy = n.Clock.Now(), why
	n.mu.Unlock()
	n.observer.Disowned(n.Index, since, why)
}

// DoubtedSince is why nothing counts that the node vouched for in a round that was
// sent at t; nil if it counts. A doubt that came after t voids the round, even if the reply
// came before the doubt: what was granted may be gone since.
func (n *Node) DoubtedSince(t clock.Instant) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.doubted == 0 || n.doubted < t {
		return nil
	}
	return n.doubtedBy
}

// Siblings is what the nodes of one Locker need to know of each other: their clocks,
// and which servers they are.
type Siblings struct {
	hints   *round.Hints
	stepped []func(by time.Duration) // by node: tells it that its clock has stepped (stepBy)

	mu      sync.Mutex // guards the fields below; no node is called under it
	offsets []int64    // by node: its clock minus ours, in microseconds; 0 if no sample yet
	seenBy  *clock.CrossCheck
	runs    []string // by node: its run_id; empty if it is not known, or the node is down
	names   []string
}

// NewSiblings makes the Siblings of the nodes of these names, which New takes in; factor is
// the drift that their clocks may have. The hints follow the nodes' clocks.
func NewSiblings(names []string, factor float64, h *round.Hints) *Siblings {
	return &Siblings{
		hints: h, stepped: make([]func(time.Duration), len(names)),
		offsets: make([]int64, len(names)), runs: make([]string, len(names)), names: names,
		seenBy: clock.NewCrossCheck(len(names), factor),
	}
}

// sampled takes in a reading of a node's clock. It returns which nodes have
// stepped, by the word of other nodes' clocks: a node's own two samples may lie so far
// apart that the drift allowed hides the step.
func (s *Siblings) sampled(node int, r clock.Sample) []clock.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offsets[node] = (r.Least + r.Most).Microseconds() / 2
	var known [quorum.MaxNodes]int64
	offsets := known[:0]
	for _, o := range s.offsets {
		if o != 0 {
			offsets = append(offsets, o)
		}
	}
	slices.Sort(offsets)
	// The median: one node whose clock is off, either way, moves nothing.
	s.hints.Bound(offsets[(len(offsets)-1)/2])
	return s.seenBy.Take(node, r)
}

// tell tells each of these nodes that its clock has stepped, without mu: a node's answer takes
// its own mutex, and observers.
func (s *Siblings) tell(steps []clock.Step) {
	for _, step := range steps {
		s.stepped[step.Node](step.By)
	}
}

// forget drops which server a node was: it is down, and may come back as another. Meanwhile the
// server may also come up as a node that was moved to its address, and vote as that one.
func (s *Siblings) forget(node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[node] = ""
}

// ErrDuplicateServer is why a node does not vote: another node of the list is the same server.
var ErrDuplicateServer = errors.New("one server listed twice")

// serves notes which server process a node is. One server listed twice would
// vote twice, so the second entry is refused: whichever comes second, and for as long as
// the first one is up.
func (s *Siblings) serves(node int, runID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.runs {
		if i != node && other == runID && other != "" {
			return fmt.Errorf("%w: %w: %s is %s", fault.ErrMisconfigured, ErrDuplicateServer, s.names[node], s.names[i])
		}
	}
	s.runs[node] = runID
	return nil
}

// enqueue lets put add to the queue, and wakes the writer; or returns why nothing is queued
// now. The caller answers that refusal once mu is free: an answer may take the mutexes of a
// round or of an Extension.
func (n *Node) enqueue(now clock.Instant, asks bool, put func(*pending)) error {
	n.mu.Lock()
	err := n.refusalLocked(now, asks)
	if err == nil {
		put(&n.queue)
	}
	n.unlockAndWake()
	return err
}

// unlockAndWake unlocks mu, and wakes the writer if it sleeps. idle is cleared under mu, so
// that one of many callers wakes it; wake has room for one, so that none blocks.
func (n *Node) unlockAndWake() {
	asleep := n.idle
	n.idle = false
	n.mu.Unlock()
	if asleep {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}
