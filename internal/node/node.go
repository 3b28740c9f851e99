// Package node is one Redis master as a Locker uses it: what is sent there, in which order,
// and what its replies mean. What a node's vote is worth is decided elsewhere, by pure
// rules (internal/quorum, internal/membership).
package node

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/chance"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/nodeurl"
	"github.com/quorumkit/redlock/internal/quorum"
)

// SubmitSample has the node's clock read. It does nothing where the node is not
// talked to now: the next look comes soon, and a node that is down is sampled before
// it is believed again.
func (n *Node) SubmitSample(now clock.Instant) {
	n.mu.Lock()
	if n.refusal(now) == nil {
		n.queue.sample = true
	}
	n.nudge()
}

const (
	// queueBound is how many commands may wait for one node. A node that is
	// slower than its callers refuses the rest at once: no vote is better than a
	// late one. Rollbacks are never refused; their lease bounds them.
	queueBound = 4096
	// FirstBackoff is the pause after a failed probe; it doubles up to the last.
	FirstBackoff = 20 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
	// DialShare is how many node timeouts a connection may take to come up.
	DialShare = nodeurl.DialShare
	// sampleEvery is how old the last sample of a node's TIME may get while there
	// is traffic, of whatever kind; grants have one of their own.
	sampleEvery = 100 * time.Millisecond
	// unpinAfter is how long a connection may idle before its pool checks it.
	unpinAfter = 100 * time.Millisecond
	// repinAfter is how long it stays with us under traffic. Of a connection that its
	// pool has not seen for five seconds, a client that speaks RESP3 looks at the
	// socket before each command and behind it: two system calls more for each flush.
	repinAfter = 4 * time.Second
)

// Why a command has no reply.
var (
	ErrNotSent = errors.New("not sent") // the cause of a Failed outcome: nothing reached the node
	ErrTimeout = errors.New("no reply within the node timeout")
	errBusy    = errors.New("not sent: too many commands wait for this node")
)

// Node is one Redis master. A single goroutine, its writer, sends all that the
// Locker has for it: what gathers while one flush is on its way goes with the
// next, so a hung node costs one goroutine and a bounded queue, and commands to
// one node keep their order.
type Node struct {
	Index    int
	Name     string
	Client   redis.UniversalClient // for pinned connections and inspection
	Calls    redis.UniversalClient // the same, bounded by the node timeout where it can be
	bounded  *redis.Client         // calls, where a connection of it may be pinned; nil: not
	gate     *turnstile            // of a pool that may have no connection left; nil: it opens another
	Timeout  time.Duration
	Clock    *clock.Clock
	observer Observer
	peers    *Peers
	Tracker  *membership.Tracker
	ReadAt   atomic.Int64                    // the instant of the last sample of its clock; 0: none
	Returned atomic.Int64                    // the instant when it was last seen to vote again; 0: never
	distrust atomic.Pointer[clock.StepError] // why it abstains since its clock stepped; nil: it does not
	Door     *ServerIdentity                 // of a client that Open made; else nil
	Cfg      Config

	unwritten atomic.Pointer[writeRefusal] // it refuses to write; nil: it does not; stored under mu

	wake    chan struct{}
	stop    chan struct{}
	Stopped chan struct{}

	mu        sync.Mutex // guards the fields below, and marks[index] of every claim
	idle      bool       // the writer sleeps
	closed    bool
	until     clock.Instant // nothing is sent a second time after it, once closed
	ended     bool          // the writer sends nothing any more
	queue     pending
	sending   []Release     // the releases of the flush that is out
	busySince clock.Instant // when the flush that is out was sent; 0: none
	down      error         // why the node is not talked to; nil: it is
	downSince clock.Instant // since when, if it is down
	downUntil clock.Instant // not even a probe before
	failures  int           // failed probes in a row
	doubted   clock.Instant // when the node was last found to have stepped or forgotten; 0: never
	doubtedBy error         // what it was

	// The writer's own; nobody else touches them.
	loaded   bool            // the keeping scripts are there
	epoch    string          // empty: the node does not vote for us
	abstains error           // why, if it answered so
	due      bool            // for a verification
	away     bool            // it did not vote when it was last talked to, or was down before
	met      int64           // turn() as of the last verification
	identity string          // as of then
	proven   clock.Instant   // when it was last seen to be the one verified, on this connection; 0: not yet
	unproven clock.Instant   // the earliest round that it vouched for something in since; 0: none
	rechecks int             // verifications in a row that NOSCRIPT or an epoch asked for
	reading  clock.Sample    // what the samples of its clock say, as of the last one
	shared   clock.Instant   // when the other nodes were last told of one; 0: never
	timeless error           // why its clock can not be watched; nil: it can
	pinned   *redis.Conn     // the connection that flushes go out on; nil: none
	pipeline redis.Pipeliner // of the pinned connection, used again
	idler    *time.Timer
	singly   int           // acquires at the queue's head that go one by one
	lastUse  clock.Instant // of the pinned connection
	pinnedAt clock.Instant // it was taken from its pool
	batch    batch
}

// Config is what a node knows of its Locker's options.
type Config struct {
	Timeout     time.Duration // of each command
	Drift       float64
	TrustClocks bool
	Unprotected bool // without membership
	Chance      *chance.Source
	Process     string // the id under which the Locker waits

	Untold   func(bids []*Round) []Poll // looks that tell a node of these places, where no ask did
	Recorded func(key string) bool      // whether the Locker has an entry in that name's queue
}

// Observer is told what a node notices, by the node's index. It is called by the
// node's writer, under mutexes too, and must block for nobody.
type Observer interface {
	// Called counts a round trip, and Erred one without a reply or with an error.
	Called(node int, took time.Duration)
	Erred(node int)
	Down(node int, cause error)
	Up(node int, after time.Duration)
	Abstains(node int, cause error)
	Votes(node int)
	RefusesWrites(node int, cause error)
	TakesWrites(node int, after time.Duration)
	Stepped(node int, cause error)
	Founded(node int, cause error)
	// Disowned says that nothing counts that the node vouched for in rounds since then.
	Disowned(node int, since clock.Instant, cause error)
	// Returned says that the node votes again, which had not voted or was down.
	Returned(node int)
}

// pending is what waits for one node.
type pending struct {
	releases []Release
	groups   []*group
	raises   []*Round
	passes   []*Handover
	acquires []*Round
	probes   []*Round
	polls    []Poll
	sample   bool // its clock is to be read

	refused []Release        // releases that the node did not take, and that are not due yet
	retryAt clock.Instant    // when the first of them is
	held    map[string]error // their names, and what the node said
}

func (b *pending) len() int {
	sample := 0
	if b.sample {
		sample = 1
	}
	return sample + len(b.groups) + len(b.raises) + len(b.passes) + len(b.acquires) + len(b.probes) + len(b.polls)
}

// owes tells whether the node is owed releases, be it of what is to be handed on; mu
// is held.
func (b *pending) owes() bool { return len(b.releases)+len(b.refused)+len(b.passes) > 0 }

// Release is a release that a node still owes.
type Release struct {
	Claim *Claim
	Life  int64         // of the tombstone it may have to leave, in ms
	Until clock.Instant // one lease later the key is gone anyway
	Entry Leaving       // what becomes of the process's entry
	Round *Round        // who waits for it; nil: nobody

	rejected *rejection // by the node; nil: it was not refused yet
}

// New is a node whose writer does not run yet: that is Write. seen takes in what shows
// of its membership, o what happens to it; p are the nodes beside it.
func New(index int, name string, client redis.UniversalClient, cfg Config, t *clock.Clock, p *Peers, seen *membership.Tracker, o Observer) *Node {
	n := &Node{
		Index: index, Name: name, Client: client, Calls: client, Timeout: cfg.Timeout,
		Clock: t, observer: o, peers: p, Tracker: seen, Cfg: cfg, due: true,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), Stopped: make(chan struct{}),
	}
	if c, ok := client.(*redis.Client); ok {
		bounded, o := c.WithTimeout(cfg.Timeout), c.Options()
		if n.Calls = bounded; o.PoolSize > 1 && o.MaxActiveConns != 1 {
			n.bounded = bounded
		}
		if o.MaxActiveConns > 0 {
			n.gate = &turnstile{longest: cfg.Timeout / 2, clock: t} // what waits in vain is known to have failed in time
			bounded.AddHook(n.gate)
		}
	}
	return n
}

// SubmitAcquire queues the round's acquire, or fails it at once.
func (n *Node) SubmitAcquire(r *Round) { n.submit(r, &n.queue.acquires) }

// SubmitRaise queues the round's raise, or fails it at once.
func (n *Node) SubmitRaise(r *Round) { n.submit(r, &n.queue.raises) }

// SubmitProbe asks whether the node answers, and whether it votes.
func (n *Node) SubmitProbe(r *Round) { n.submit(r, &n.queue.probes) }

func (n *Node) submit(r *Round, to *[]*Round) {
	n.mu.Lock()
	err := n.refusal(r.Start)
	if err == nil {
		*to = append(*to, r)
	}
	n.nudge()
	if err != nil {
		r.deliver(n.Index, quorum.Vote{Outcome: quorum.Failed}, err)
	}
}

// submitGroup queues an extension or re-seed of many locks, or fails it at once.
func (n *Node) submitGroup(g *group, now clock.Instant) {
	n.mu.Lock()
	err := n.refusal(now)
	if err == nil {
		n.queue.groups = append(n.queue.groups, g)
	}
	n.nudge()
	if err != nil {
		g.answer(g, n.Index, quorum.Failed, nil, err)
	}
}

// Release queues a rollback. It is never refused: it is repeated until the node
// answers, or one lease has passed. Where nothing of the claim can be on the
// node, nor of one that it was to be handed over from, it is done at once; so is the
// leave of a process that is called when its writer has ended: Close left before.
func (n *Node) Release(c Release) {
	n.mu.Lock()
	gone := n.clear(&c) || n.ended && c.Claim.Marks[n.Index] == quorum.Absent
	if !gone {
		n.queue.releases = append(n.queue.releases, c)
	}
	n.nudge()
	if gone && c.Round != nil {
		c.Round.deliver(n.Index, quorum.Vote{Outcome: quorum.Granted}, nil)
	}
}

// clear tells whether there is nothing on the node to release; mu is held.
func (n *Node) clear(c *Release) bool {
	return c.Claim.Marks[n.Index] == quorum.Absent && c.Entry != LeaveQueue
}

// nudge wakes the writer if it sleeps, and unlocks mu.
func (n *Node) nudge() {
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

// refusal says why nothing is queued for this node now; mu is held.
func (n *Node) refusal(now clock.Instant) error {
	switch {
	case n.closed:
		return fault.ErrClosed
	case n.down != nil && now < n.downUntil:
		return fmt.Errorf("not sent: the node is down: %w", n.down)
	case n.busySince != 0 && now.Sub(n.busySince) > n.Timeout:
		return fmt.Errorf("%w: %w for an earlier command", ErrNotSent, ErrTimeout)
	case n.queue.len() >= queueBound:
		return errBusy
	}
	return nil
}

// sent tells whether the node may hold, or may still come to hold, the claim.
func (n *Node) sent(c *Claim) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return c.Marks[n.Index]&^quorum.Behind != quorum.Absent
}

// Close makes the writer end once its call returns and the releases are answered;
// what the node does not take is tried again until then. What else is queued fails.
func (n *Node) Close(until clock.Instant) {
	n.mu.Lock()
	already := n.closed
	n.closed, n.until = true, until
	n.mu.Unlock()
	if !already {
		close(n.stop)
	}
}

// stepBy takes note that the node's clock has stepped; any node's writer may
// find that out. The node is verified before its next flush: the wait is for the
// MaxTTL that its record says now.
func (n *Node) stepBy(by time.Duration) {
	now := n.Clock.Now()
	why := &clock.StepError{By: by, At: now, Clock: n.Clock, Longest: n.Tracker.LongestLease}
	n.distrust.Store(why)
	n.Tracker.Outdate(n.Index)
	n.observer.Stepped(n.Index, why)
	n.disown(0, why)
}

// Stepped tells whether it abstains since its clock stepped.
func (n *Node) Stepped() bool {
	d := n.distrust.Load()
	return d != nil && n.Clock.Early() < d.Until()
}

// disown has nothing count that the node vouched for in rounds since then, in
// attempts that are under way neither.
func (n *Node) disown(since clock.Instant, why error) {
	n.mu.Lock()
	n.doubted, n.doubtedBy = n.Clock.Now(), why
	n.mu.Unlock()
	n.observer.Disowned(n.Index, since, why)
}
