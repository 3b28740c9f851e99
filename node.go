package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// queueBound is how many commands may wait for one node. A node that is
	// slower than its callers refuses the rest at once: no vote is better than a
	// late one. Rollbacks are never refused; their lease bounds them.
	queueBound = 4096
	// The pause after a failed probe doubles from the one to the other.
	firstBackoff = 20 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
	// sampleEvery is how old the last sample of a node's TIME may get while there
	// is traffic.
	sampleEvery = 100 * time.Millisecond
	// unpinAfter is how long a connection may idle before its pool checks it.
	unpinAfter = 100 * time.Millisecond
)

var (
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
	timeout  time.Duration
	clock    *Clock
	observe  observer
	peers    *peers
	roster   *roster
	stale    atomic.Bool               // to be verified before the next flush
	distrust atomic.Pointer[stepError] // why it abstains since its clock stepped; nil: it does not
	door     *doorkeeper               // of a client that Open made; else nil
	cfg      *config
	stepped  func(node int, cause error) // told when the node's clock stepped

	wake    chan struct{}
	stop    chan struct{}
	stopped chan struct{}

	mu        sync.Mutex // guards the fields below, and marks[index] of every claim
	idle      bool       // the writer sleeps
	closed    bool
	queue     backlog
	busySince instant // when the flush that is out was sent; 0: none
	down      error   // why the node is not talked to; nil: it is
	downUntil instant // not even a probe before
	failures  int     // failed probes in a row
	steps     instant // when the node's clock was last seen to have stepped; 0: never

	// The writer's own; nobody else touches them.
	loaded   bool        // the keeping scripts are there
	epoch    string      // empty: the node does not vote for us
	abstains error       // why, if it answered so
	due      bool        // for a verification
	met      int64       // turn() as of the last verification
	rechecks int         // verifications in a row that NOSCRIPT or an epoch asked for
	refused  error       // what the last rollback brought; nil: no error
	refusals int         // refused tries in a row
	retryAt  instant     // no try before
	reading  reading     // the last sample of its clock
	timeless error       // why its clock can not be watched; nil: it can
	pinned   *redis.Conn // the connection that flushes go out on; nil: none
	idler    *time.Timer
	singly   int     // acquires at the queue's head that go one by one
	lastUse  instant // of the pinned connection
	flight   flight
}

// backlog is what waits for one node.
type backlog struct {
	releases []cleanup
	groups   []*group
	raises   []*round
	acquires []*round
	probes   []*round
}

func (b *backlog) len() int {
	return len(b.groups) + len(b.raises) + len(b.acquires) + len(b.probes)
}

// cleanup is a release that a node still owes.
type cleanup struct {
	claim *claim
	life  int64   // of the tombstone it may have to leave, in ms
	until instant // one lease later the key is gone anyway
	round *round  // who waits for it; nil: nobody
}

func newNode(index int, name string, client redis.UniversalClient, cfg *config, clock *Clock, p *peers, r *roster, stepped func(int, error)) *node {
	n := &node{
		index: index, name: name, client: client, calls: client, timeout: cfg.nodeTimeout,
		clock: clock, observe: cfg.observe, peers: p, roster: r, cfg: cfg, due: true, stepped: stepped,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	if c, ok := client.(*redis.Client); ok {
		bounded := c.WithTimeout(cfg.nodeTimeout)
		if n.calls = bounded; c.Options().PoolSize > 1 {
			n.bounded = bounded
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
		r.deliver(n.index, vote{outcome: Failed}, err)
	}
}

// submitGroup queues an extension or re-seed of many locks, or fails it at once.
func (n *node) submitGroup(g *group, now instant) {
	n.mu.Lock()
	err := n.refusal(now)
	if err == nil {
		n.queue.groups = append(n.queue.groups, g)
	}
	n.nudge()
	if err != nil {
		g.answer(n.index, Failed, nil, err)
	}
}

// release queues a rollback. It is never refused: it is repeated until the node
// answers, or one lease has passed. Where nothing of the claim can be on the
// node, it is done at once.
func (n *node) release(c cleanup) {
	n.mu.Lock()
	gone := c.claim.marks[n.index] == absent
	if !gone {
		n.queue.releases = append(n.queue.releases, c)
	}
	n.nudge()
	if gone && c.round != nil {
		c.round.deliver(n.index, vote{outcome: Granted}, nil)
	}
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
func (n *node) refusal(now instant) error {
	switch {
	case n.closed:
		return ErrClosed
	case n.down != nil && now < n.downUntil:
		return fmt.Errorf("not sent: the node is down: %w", n.down)
	case n.busySince != 0 && now.sub(n.busySince) > n.timeout:
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
	return c.marks[n.index] != absent
}

// close makes the writer end once its call returns and the rollbacks are sent,
// as far as the node takes them. What else is queued then fails.
func (n *node) close() {
	n.mu.Lock()
	already := n.closed
	n.closed = true
	n.mu.Unlock()
	if !already {
		close(n.stop)
	}
}

// write is the writer: it sleeps until there is something to send, and sends it.
func (n *node) write() {
	defer close(n.stopped)
	for n.sleep() {
		n.flush()
	}
	n.unpin()
	n.failQueued(ErrClosed)
}

// sleep blocks until there is work that may be sent now. It returns false when
// the node was closed and owes nothing that it would take.
func (n *node) sleep() bool {
	for {
		n.mu.Lock()
		work := n.queue.len() > 0 || len(n.queue.releases) > 0
		pause := n.pause(n.clock.early())
		if n.closed {
			owes := n.down == nil && n.refused == nil && len(n.queue.releases) > 0
			n.mu.Unlock()
			return owes
		}
		if work && pause <= 0 {
			n.mu.Unlock()
			return true
		}
		n.idle = true
		n.mu.Unlock()
		if work {
			n.doze(pause)
			continue
		}
		n.rest()
	}
}

// rest blocks until the writer is woken, and gives a pinned connection back when
// that takes long: an idle Locker keeps none of its user's pool.
func (n *node) rest() {
	if n.pinned != nil {
		if n.idler == nil {
			n.idler = n.clock.newTimer(unpinAfter)
		}
		n.idler.Reset(unpinAfter)
		defer n.idler.Stop()
		select {
		case <-n.wake:
			return
		case <-n.stop:
			return
		case <-n.idler.C:
			n.unpin()
		}
	}
	select {
	case <-n.wake:
	case <-n.stop:
	}
}

// pause is how long the node is left alone: between two probes of one that is
// down, and between two tries of rollbacks that it refuses; mu is held.
func (n *node) pause(now instant) time.Duration {
	switch {
	case n.down != nil:
		return n.downUntil.sub(now)
	case n.refused != nil && n.queue.len() == 0:
		return n.retryAt.sub(now)
	default:
		return 0
	}
}

// refuse notes that a rollback brought an error, and starts the pause before the
// next try. A connection that broke may have been stale, and costs none.
func (n *node) refuse(err error) {
	pause := min(firstBackoff<<min(n.refusals, 10), lastBackoff)
	if n.refused == nil && !isReply(err) {
		pause = 0
	}
	n.refused = explain(err)
	n.refusals++
	n.retryAt = n.clock.early().add(pause)
}

// doze waits out a pause between two probes of a node that owes rollbacks.
func (n *node) doze(pause time.Duration) {
	t := n.clock.newTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.wake:
	case <-n.stop:
	}
}

// flush sends what has gathered, and hands out the replies.
func (n *node) flush() {
	now := n.clock.early()
	n.mu.Lock()
	n.busySince = now
	suspect := n.down
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.busySince = 0
		n.mu.Unlock()
	}()
	if suspect != nil {
		if err := n.probe(); err != nil {
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
	if suspect != nil { // only now: a node that loads its data tells the time, too
		n.recovered()
	}
	n.take(now)
	n.send()
}

// probe asks a node that was down for its TIME: the cheapest thing to lose.
func (n *node) probe() error {
	cmd := timeCall{redis.NewTimeCmd(context.Background(), "TIME")}
	sent := n.clock.now()
	err := n.calls.Process(context.Background(), cmd)
	if errors.Is(err, errExchanged) { // the next connection is let in
		cmd.SetErr(nil)
		sent = n.clock.now()
		err = n.calls.Process(context.Background(), cmd)
	}
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return nil // it answers; whether it votes is asked with the next sample
	case err != nil:
		return err
	}
	n.sample(sent, cmd.Val())
	return nil
}

// prepare makes sure that the scripts are there and that it is known whether the
// node votes. It returns an error if the node can't be talked to.
func (n *node) prepare() error {
	if !n.loaded {
		if err := n.load(keepingScripts); err != nil {
			return err
		}
		n.loaded = true
	}
	if n.stale.Swap(false) || n.met != n.turn() {
		n.distrustSeat()
	}
	if n.epoch != "" {
		return nil
	}
	if !n.due {
		if why := n.roster.whyNot(n.index); why != nil {
			n.abstains = why
			return nil //nolint:nilerr // it abstains, which is no failure to talk to it
		}
	}
	n.unpin()
	epoch, abstains, err := n.verify()
	if err != nil {
		return err
	}
	switch {
	case abstains != nil && n.abstains == nil:
		n.tell(NodeAbstains, abstains)
	case abstains == nil && n.abstains != nil:
		n.tell(NodeVotes, nil)
	}
	if abstains != nil {
		n.rechecks = 0 // what was asked again has its answer
	}
	n.epoch, n.abstains, n.due = epoch, abstains, false
	return nil
}

// distrustSeat has the node verified before it votes again.
func (n *node) distrustSeat() {
	n.epoch, n.due = "", true
	n.roster.void(n.index)
}

// load loads scripts over any connection.
func (n *node) load(scripts []*script) error {
	_, err := n.calls.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		for _, s := range scripts {
			p.ScriptLoad(context.Background(), s.body)
		}
		return nil
	})
	return err
}

// wire is what flushes go out on.
type wire interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// pin returns the connection for the next flush. While there is traffic it is
// always the same one, which saves the pool's work and its look at the socket;
// after a pause the pool looks again whether the connection still lives.
func (n *node) pin() wire {
	if n.bounded == nil {
		return n.calls
	}
	now := n.clock.early()
	if n.pinned != nil && now.sub(n.lastUse) > unpinAfter {
		n.unpin()
	}
	if n.pinned == nil {
		n.pinned = n.bounded.Conn()
	}
	n.lastUse = now
	return n.pinned
}

// unpin gives the connection back to its pool, which drops it if it failed.
func (n *node) unpin() {
	if n.pinned != nil {
		_ = n.pinned.Close() // always nil for a connection of a pool
		n.pinned = nil
	}
}

// failed notes that the node can't be talked to, and fails all that waits for it
// but the rollbacks.
func (n *node) failed(err error) {
	err = explain(err)
	n.roster.missed(n.index, n.clock.now(), err)
	n.markDown(err)
	n.failQueued(fmt.Errorf("not sent: %w", err))
}

// markDown starts, or lengthens, the pause before the next probe. The first
// failure has none: a connection may have been stale, and no more.
func (n *node) markDown(err error) {
	now := n.clock.early()
	n.mu.Lock()
	first := n.down == nil
	n.down = err
	if first {
		n.failures, n.downUntil = 0, now
	} else {
		pause := min(firstBackoff<<min(n.failures, 10), lastBackoff)
		n.failures++
		n.downUntil = now.add(pause)
	}
	n.mu.Unlock()
	n.peers.forget(n.index)
	if first {
		n.tell(NodeDown, err)
	}
}

func (n *node) recovered() {
	n.mu.Lock()
	n.down, n.failures = nil, 0
	n.mu.Unlock()
	n.tell(NodeUp, nil)
}

func (n *node) failQueued(err error) {
	n.mu.Lock()
	q, now := n.queue, n.clock.early()
	q.releases = slices.DeleteFunc(q.releases, func(c cleanup) bool { return c.until <= now })
	n.queue = backlog{releases: q.releases}
	n.mu.Unlock()
	for _, rounds := range [][]*round{q.probes, q.raises, q.acquires} {
		for _, r := range rounds {
			r.deliver(n.index, vote{outcome: Failed}, err)
		}
	}
	for _, g := range q.groups {
		g.answer(n.index, Failed, nil, err)
	}
}

func (n *node) tell(k EventKind, err error) {
	n.observe.tell(Event{Kind: k, Node: n.index, Name: n.name, Err: err})
}

// sample takes in a reading of the node's clock that was asked for at sent. A
// step beyond the drift allowed makes the node abstain for MaxTTL from now, for
// this client: until then leases of before it may still be trusted elsewhere.
func (n *node) sample(sent instant, server time.Time) {
	now := n.clock.now()
	next, last := readClock(sent, now, server), n.reading
	n.reading = next
	slips := n.peers.sampled(n.index, next)
	if last.at == 0 || n.cfg.trustClocks {
		return
	}
	if by := last.stepTo(next, n.cfg.drift); by != 0 {
		n.stepBy(by)
	}
	for _, s := range slips { // of other nodes, too
		n.roster.nodes[s.node].stepBy(s.by)
	}
}

// stepBy takes note that the node's clock has stepped; any node's writer may
// find that out.
func (n *node) stepBy(by time.Duration) {
	now, wait := n.clock.now(), n.roster.longestLease()
	why := &stepError{by: by, wait: wait, clock: n.clock, until: now.add(wait)}
	n.distrust.Store(why)
	n.mu.Lock()
	n.steps = now
	n.mu.Unlock()
	n.tell(NodeClockStepped, why)
	n.stepped(n.index, why)
}

// steppedSince tells whether the node's clock was seen to have stepped since t.
func (n *node) steppedSince(t instant) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.steps != 0 && n.steps >= t
}
