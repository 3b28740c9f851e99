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

const (
	// queueBound is how many commands may wait for one node. A node that is
	// slower than its callers refuses the rest at once: no vote is better than a
	// late one. Rollbacks are never refused; their lease bounds them.
	queueBound = 4096
	// The pause after a failed probe doubles from the one to the other.
	firstBackoff = 20 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
	// dialShare is how many node timeouts a connection may take to come up.
	dialShare = nodeurl.DialShare
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

var (
	errNotSent = errors.New("not sent") // the cause of a Failed outcome: nothing reached the node
	errTimeout = errors.New("no reply within the node timeout")
	errBusy    = errors.New("not sent: too many commands wait for this node")
)

// node is one Redis master. A single goroutine, its writer, sends all that the
// Locker has for it: what gathers while one flush is on its way goes with the
// next, so a hung node costs one goroutine and a bounded queue, and commands to
// one node keep their order.
type node struct {
	index    int
	name     string
	client   redis.UniversalClient // for pinned connections and inspection
	calls    redis.UniversalClient // the same, bounded by the node timeout where it can be
	bounded  *redis.Client         // calls, where a connection of it may be pinned; nil: not
	gate     *turnstile            // of a pool that may have no connection left; nil: it opens another
	timeout  time.Duration
	clock    *clock.Clock
	observer nodeObserver
	peers    *peers
	tracker  *membership.Tracker
	readAt   atomic.Int64                    // the instant of the last sample of its clock; 0: none
	returned atomic.Int64                    // the instant when it was last seen to vote again; 0: never
	distrust atomic.Pointer[clock.StepError] // why it abstains since its clock stepped; nil: it does not
	door     *doorkeeper                     // of a client that Open made; else nil
	cfg      nodeConfig

	unwritten atomic.Pointer[writeRefusal] // it refuses to write; nil: it does not; stored under mu

	wake    chan struct{}
	stop    chan struct{}
	stopped chan struct{}

	mu        sync.Mutex // guards the fields below, and marks[index] of every claim
	idle      bool       // the writer sleeps
	closed    bool
	until     clock.Instant // nothing is sent a second time after it, once closed
	ended     bool          // the writer sends nothing any more
	queue     backlog
	sending   []cleanup     // the releases of the flush that is out
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
	flight   flight
}

// nodeConfig is what a node knows of its Locker's options.
type nodeConfig struct {
	timeout     time.Duration // of each command
	drift       float64
	trustClocks bool
	unprotected bool // without membership
	chance      *chance.Source
	process     string // the id under which the Locker waits

	untold   func(bids []*round) []poll // looks that tell a node of these places, where no ask did
	recorded func(key string) bool      // whether the Locker has an entry in that name's queue
}

// nodeObserver is told what a node notices, by the node's index. It is called by the
// node's writer, under mutexes too, and must block for nobody.
type nodeObserver interface {
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

// backlog is what waits for one node.
type backlog struct {
	releases []cleanup
	groups   []*group
	raises   []*round
	passes   []*handover
	acquires []*round
	probes   []*round
	polls    []poll
	sample   bool // its clock is to be read

	refused []cleanup        // releases that the node did not take, and that are not due yet
	retryAt clock.Instant    // when the first of them is
	held    map[string]error // their names, and what the node said
}

func (b *backlog) len() int {
	sample := 0
	if b.sample {
		sample = 1
	}
	return sample + len(b.groups) + len(b.raises) + len(b.passes) + len(b.acquires) + len(b.probes) + len(b.polls)
}

// owes tells whether the node is owed releases, be it of what is to be handed on; mu
// is held.
func (b *backlog) owes() bool { return len(b.releases)+len(b.refused)+len(b.passes) > 0 }

// cleanup is a release that a node still owes.
type cleanup struct {
	claim *claim
	life  int64         // of the tombstone it may have to leave, in ms
	until clock.Instant // one lease later the key is gone anyway
	entry leaving       // what becomes of the process's entry
	round *round        // who waits for it; nil: nobody

	rejected *rejection // by the node; nil: it was not refused yet
}

func newNode(index int, name string, client redis.UniversalClient, cfg nodeConfig, t *clock.Clock, p *peers, seen *membership.Tracker, o nodeObserver) *node {
	n := &node{
		index: index, name: name, client: client, calls: client, timeout: cfg.timeout,
		clock: t, observer: o, peers: p, tracker: seen, cfg: cfg, due: true,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	if c, ok := client.(*redis.Client); ok {
		bounded, o := c.WithTimeout(cfg.timeout), c.Options()
		if n.calls = bounded; o.PoolSize > 1 && o.MaxActiveConns != 1 {
			n.bounded = bounded
		}
		if o.MaxActiveConns > 0 {
			n.gate = &turnstile{longest: cfg.timeout / 2, clock: t} // what waits in vain is known to have failed in time
			bounded.AddHook(n.gate)
		}
	}
	return n
}

// submitAcquire queues the round's acquire, or fails it at once.
func (n *node) submitAcquire(r *round) { n.submit(r, &n.queue.acquires) }

// submitRaise queues the round's raise, or fails it at once.
func (n *node) submitRaise(r *round) { n.submit(r, &n.queue.raises) }

// submitProbe asks whether the node answers, and whether it votes.
func (n *node) submitProbe(r *round) { n.submit(r, &n.queue.probes) }

func (n *node) submit(r *round, to *[]*round) {
	n.mu.Lock()
	err := n.refusal(r.start)
	if err == nil {
		*to = append(*to, r)
	}
	n.nudge()
	if err != nil {
		r.deliver(n.index, quorum.Vote{Outcome: quorum.Failed}, err)
	}
}

// submitGroup queues an extension or re-seed of many locks, or fails it at once.
func (n *node) submitGroup(g *group, now clock.Instant) {
	n.mu.Lock()
	err := n.refusal(now)
	if err == nil {
		n.queue.groups = append(n.queue.groups, g)
	}
	n.nudge()
	if err != nil {
		g.answer(g, n.index, quorum.Failed, nil, err)
	}
}

// release queues a rollback. It is never refused: it is repeated until the node
// answers, or one lease has passed. Where nothing of the claim can be on the
// node, nor of one that it was to be handed over from, it is done at once; so is the
// leave of a process that is called when its writer has ended: Close left before.
func (n *node) release(c cleanup) {
	n.mu.Lock()
	gone := n.clear(&c) || n.ended && c.claim.marks[n.index] == quorum.Absent
	if !gone {
		n.queue.releases = append(n.queue.releases, c)
	}
	n.nudge()
	if gone && c.round != nil {
		c.round.deliver(n.index, quorum.Vote{Outcome: quorum.Granted}, nil)
	}
}

// clear tells whether there is nothing on the node to release; mu is held.
func (n *node) clear(c *cleanup) bool {
	return c.claim.marks[n.index] == quorum.Absent && c.entry != leaveQueue
}

// nudge wakes the writer if it sleeps, and unlocks mu.
func (n *node) nudge() {
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
func (n *node) refusal(now clock.Instant) error {
	switch {
	case n.closed:
		return fault.ErrClosed
	case n.down != nil && now < n.downUntil:
		return fmt.Errorf("not sent: the node is down: %w", n.down)
	case n.busySince != 0 && now.Sub(n.busySince) > n.timeout:
		return fmt.Errorf("%w: %w for an earlier command", errNotSent, errTimeout)
	case n.queue.len() >= queueBound:
		return errBusy
	}
	return nil
}

// sent tells whether the node may hold, or may still come to hold, the claim.
func (n *node) sent(c *claim) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return c.marks[n.index]&^quorum.Behind != quorum.Absent
}

// close makes the writer end once its call returns and the releases are answered;
// what the node does not take is tried again until then. What else is queued fails.
func (n *node) close(until clock.Instant) {
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
func (n *node) stepBy(by time.Duration) {
	now := n.clock.Now()
	why := &clock.StepError{By: by, At: now, Clock: n.clock, Longest: n.tracker.LongestLease}
	n.distrust.Store(why)
	n.tracker.Outdate(n.index)
	n.observer.Stepped(n.index, why)
	n.disown(0, why)
}

// stepped tells whether it abstains since its clock stepped.
func (n *node) stepped() bool {
	d := n.distrust.Load()
	return d != nil && n.clock.Early() < d.Until()
}

// disown has nothing count that the node vouched for in rounds since then, in
// attempts that are under way neither.
func (n *node) disown(since clock.Instant, why error) {
	n.mu.Lock()
	n.doubted, n.doubtedBy = n.clock.Now(), why
	n.mu.Unlock()
	n.observer.Disowned(n.index, since, why)
}
