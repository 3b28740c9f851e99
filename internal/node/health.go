package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

const (
	// WatchEvery is how old the last look at a node's clock and identity may get while the
	// Locker holds or waits for anything: as long as a client that never saw the node
	// may hold what a step took from us. The odd part keeps a look from the moment at which
	// a node timeout ends, 250 ms by default: what is due at one moment comes in any order,
	// and a run in virtual time could not be repeated.
	WatchEvery = 250*time.Millisecond - 7*time.Microsecond
	// leastPause is the least pause between two ticks, even if a look is late: a tick that is
	// due at once, again and again, would take a core.
	leastPause = time.Millisecond
)

// ClockWatch reads every node's clock, and looks at its identity, at least every
// WatchEvery, while the Locker holds or waits for anything. It is one timer
// for each Locker, no matter the number of locks; what traffic reads counts, and an idle
// Locker sends nothing. A step that a reading shows ends at once what leans on it (see
// stepBy).
//
// Renewals alone would read the clocks at a third of the TTL. When a quorum's clocks had
// stepped, a client that had just begun was granted a held lock, and both held it for 0.6 to
// 2.8 s. A process that only waited had no reading for minutes, and missed a step of 3.3 s.
//
// The timer is not set back when the last hold ends: it finds nothing to do, and
// stops. So a hold that begins costs one atomic read where there was one before.
type ClockWatch struct {
	nodes []*Node
	clock *clock.Clock
	busy  func() bool // whether anything is held, or waited for
	armed atomic.Bool // the timer runs

	mu     sync.Mutex // guards the fields below, and setting armed; nothing else is taken under it
	timer  *time.Timer
	closed bool
}

// NewClockWatch makes the watch over all nodes of a Locker; busy tells whether it holds
// anything, or waits.
func NewClockWatch(nodes []*Node, c *clock.Clock, busy func() bool) *ClockWatch {
	return &ClockWatch{nodes: nodes, clock: c, busy: busy}
}

// Start starts the watch: something is held, or waited for. Each hold calls it, and nearly
// always it finds the timer armed. Without clocks to watch nor identities it does nothing.
func (w *ClockWatch) Start() {
	if !w.armed.Load() && (!w.nodes[0].Cfg.TrustClocks || !w.nodes[0].Cfg.Unprotected) {
		w.arm(WatchEvery / time.Duration(len(w.nodes)))
	}
}

// arm sets the timer, unless it runs or the watch is closed. The swap under mu decides between
// a tick that goes on and a Start of the same moment: only one of them sets it.
func (w *ClockWatch) arm(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed || w.armed.Swap(true):
	case w.timer == nil:
		w.timer = w.clock.AfterFunc(after, w.tick)
	default:
		w.timer.Reset(after)
	}
}

// tick looks at the nodes whose last reading is old enough. It looks at one after
// another, spread over WatchEvery, some of them early: a caller's commands of the same
// moment wait for one node's reply at most, and not for all of them.
func (w *ClockWatch) tick() {
	w.armed.Store(false) // before busy is asked: a hold that begins after that starts it again
	if !w.busy() {
		return
	}
	now := w.clock.Early()
	left := make([]timeLeft, len(w.nodes))
	for i, n := range w.nodes {
		left[i] = timeLeft{clock.Instant(n.ReadAt.Load()).Add(WatchEvery).Sub(now), n}
	}
	for range left { // at most one look for each node
		if dueIn(left) > 0 {
			break
		}
		left[0].node.SubmitSample(now) // the oldest
		left[0].left = WatchEvery
	}
	w.arm(max(dueIn(left), leastPause))
}

// timeLeft is how long until a node's reading is as old as it may get.
type timeLeft struct {
	left time.Duration
	node *Node
}

// dueIn is when the next look is due, so that with a pause of WatchEvery/N before each of
// the others none comes late. It sorts them by what they have left: the node of rank k gets
// its look k pauses after the first, so the first is due k pauses before that node is.
func dueIn(nodes []timeLeft) time.Duration {
	slices.SortStableFunc(nodes, func(x, y timeLeft) int { return cmp.Compare(x.left, y.left) })
	next, pause := WatchEvery, WatchEvery/time.Duration(len(nodes))
	for rank, n := range nodes {
		next = min(next, n.left-time.Duration(rank)*pause)
	}
	return next
}

// Close ends the watch. A tick that runs may still ask for a look, which a closed node refuses; it
// arms the timer no more.
func (w *ClockWatch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// sampleEvery is how old the last sample of a node's TIME may get while there is
// traffic, of any kind; grants have one of their own. The siblings get no more than that
// either: to compare all nodes' clocks takes a mutex that all writers share.
const sampleEvery = 100 * time.Millisecond

// SubmitSample queues a reading of the node's clock, and with it a look at its identity if the
// last one is old (identityIsOld). It does nothing where the node is not
// talked to now: the next look comes soon, and a node that is down is sampled before
// it is believed again.
func (n *Node) SubmitSample(now clock.Instant) {
	_ = n.enqueue(now, false, func(q *pending) { q.sample = true })
}

// sampleIsOld tells whether other traffic carries a sample along, so that the next grant's
// sample has an earlier one, close by, to show a step against.
func (n *writer) sampleIsOld() bool {
	return n.sampled.At == 0 || n.Clock.Early().Sub(n.sampled.At) > sampleEvery
}

// sample takes in a reading of the node's clock that was asked for at sent. A
// step beyond the drift allowed makes the node abstain for MaxTTL from now, for
// this client: until then earlier leases may still be trusted elsewhere (ADR 7).
//
// Without a step the readings are narrowed, not replaced: what is known of the clock is the
// intersection of all. Else a clock at twice the rate would hide in thousands of small
// steps, each within what one reading may be off (ADR 13). A first sample shows no step.
func (n *writer) sample(sent clock.Instant, server time.Time) {
	now := n.Clock.Early()
	next, last := clock.SampleOf(sent, now, server), n.sampled
	share := n.shared == 0 || now.Sub(n.shared) > sampleEvery
	if share = share || last.At != 0 && last.StepTo(next, n.Cfg.Drift) != 0; share {
		// A suspend that the clock has not counted yet would look like a step of the node's. Where
		// none shows, the system is not asked: five nodes' readings are most of what a lone pair asks.
		now = n.Clock.Now()
		next = clock.SampleOf(sent, now, server)
	}
	n.ReadAt.Store(int64(now))
	n.sampled = next
	var steps []clock.Step
	// The siblings judge also when this node's own samples show nothing: each may be a witness
	// of another's step. Of a step that these show they are told: else they find it once more.
	if share {
		n.shared, steps = now, n.siblings.sampled(n.Index, next)
	}
	if last.At == 0 || n.Cfg.TrustClocks {
		return
	}
	if by := last.StepTo(next, n.Cfg.Drift); by != 0 {
		n.stepBy(by)
	} else {
		n.sampled = last.Narrow(next, n.Cfg.Drift)
	}
	n.siblings.tell(steps) // it may be another node's
}

// A grant counts only with a reading of the node's clock behind it (ADR 13). The scripts that
// grant by a place in line, that share and that pass read it at their end, and it is the last
// of their reply: a batch whose last grant came by such a script needs no TIME. Those for plain
// acquires read none: TIME behind them costs a node less than a call of it inside a script.

// errNoReading is a reply without the reading: its user may not use TIME.
var errNoReading = errors.New("its clock was not read behind the grant")

// readingSize is how many integers a reading is: seconds and microseconds.
const readingSize = 2

// replies is how many integers a script that reads the clock returns before the reading; 0 if
// the call's script reads no clock.
func (c *call) replies() int {
	switch {
	case c.pass != nil:
		return 1
	case c.bids, c.shares:
		return 2 * len(c.acquires)
	default:
		return 0
	}
}

// lastGranter is the last call that may grant; nil if none may.
func (b *batch) lastGranter() *call {
	for i := range slices.Backward(b.calls) {
		if c := &b.calls[i]; c.acquires != nil || c.pass != nil {
			return c
		}
	}
	return nil
}

// readsClock tells whether the last call that may grant reads the clock behind it.
func (n *writer) readsClock() bool {
	c := n.batch.lastGranter()
	return c != nil && c.replies() > 0 && !n.unreadable
}

// takeReadings takes the readings out of the replies, so that what settles the votes finds the
// integers that it asked for and nothing behind them. That of the last call that may grant is
// taken in where the batch has no TIME (alone), before a grant is counted: a step that it
// shows takes the grants of its batch along.
func (n *writer) takeReadings(alone bool) {
	b := &n.batch
	last := b.lastGranter()
	for i := range b.calls {
		c := &b.calls[i]
		size := c.replies()
		if size == 0 || c.cmd.Err() != nil {
			continue
		}
		cmd := c.cmd.(intsCall)
		val := cmd.Val()
		read := len(val) == size+readingSize
		switch {
		case read:
			cmd.SetVal(val[:size])
		case len(val) == size && val[0] != 0:
			n.unreadable = true
		}
		if c == last && alone && read {
			n.sample(b.sent, time.Unix(val[size], val[size+1]*int64(time.Microsecond)))
		} else if c == last && alone {
			b.unread = errNoReading
		}
	}
	if alone && last.cmd.Err() != nil {
		b.unread = Explain(last.cmd.Err())
	}
}

// Which server a node is, and which history its data are. The two together are its
// identity:
//
//	<run_id>.<master_replid>
//
// The run_id is new with every process. The replication id is new whenever the data
// may have become others while the process lives: a replica takes its master's, and
// one that is made a master again makes a new one, so that no way leads through
// another server's data and back to the same identity. It is also new where nothing
// was forgotten: when the first replica attaches, and when the backlog is given up
// some time after the last one has left (repl-backlog-ttl). What a server shows of
// these, a loss that came before them shows as well, so they count as forgetting.
//
// The record bears the identity under which it was installed (read.lua,
// notice.lua, install.lua compare them on the server). The process can't change
// under an open connection. The history can, so INFO is looked at while the node
// votes: behind what is asked of the node in the same pipeline, so that a grant
// counts whose node was still the one that was verified.

// IdentityEvery is how old the last look at a node's identity may be when it votes.
// It is shorter than another server's data take to arrive, and long enough that a
// busy node does not notice: a look costs it 2 us, and a busy client sends 40 a second
// (ADR 11). A failover in place that is quicker is seen late: SAFETY.md names it a limit.
const IdentityEvery = 25 * time.Millisecond

var (
	errReplica = errors.New("it is a replica, or was one just now: what it granted may be gone")
	errHistory = errors.New("its replication id is another than when it was verified: what it granted may be gone")
)

// identityIsOld tells whether the batch looks at the node's identity: the last look is
// not of just now and of this connection. Another connection may lead to another server.
// Without an epoch there is nothing to prove: no vote is asked for.
func (n *writer) identityIsOld() bool {
	fresh := n.conn.proven != 0 && n.Clock.Early().Sub(n.conn.proven) <= IdentityEvery
	return !n.Cfg.Unprotected && n.epoch != "" && !fresh
}

// settleIdentity judges the look of this batch, before anything that the node
// granted in it counts, and what any command says of its role: READONLY comes from a
// replica, which may have its master's data by now.
func (n *writer) settleIdentity() {
	b := &n.batch
	b.doubt, b.proven = nil, false
	if n.Cfg.Unprotected {
		return
	}
	// READONLY outweighs a look that said master: the role changed behind one of the two.
	for i := range b.calls {
		switch c := &b.calls[i]; {
		case saysFirst(c.cmd.Err(), "READONLY"):
			n.forgot(errReplica)
			return
		case c.identity:
			n.judgeIdentity(c.cmd.(infoCall))
		}
	}
}

// judgeIdentity compares what INFO said with the server that was verified. What it
// leaves open counts for nothing in this batch: no answer, no vote. The run_id need not be
// looked at, since a connection never leads to another process.
func (n *writer) judgeIdentity(c infoCall) {
	switch info, err := c.Result(); {
	case err != nil:
		n.batch.doubt = fmt.Errorf("who it is was not learned: %w", Explain(err))
	case infoField(info, "role") != "master":
		n.forgot(errReplica)
	case infoField(info, "master_replid") != membership.HistoryOf(n.identity):
		n.forgot(errHistory)
	default:
		n.conn.proven, n.unproven, n.batch.proven = n.Clock.Early(), 0, true
	}
}

// recognize compares a node that is verified with what it was before. A new process
// has lost its connections with the old one, and what the old one granted stands: those
// leases run on, and the node abstains until they are over. The same process with another
// history is worse: its votes up to now came over a connection that still works.
func (n *writer) recognize(o membership.Observation) {
	before := n.identity
	n.identity = o.Run
	switch {
	case o.Replica:
		n.forgot(errReplica)
	case before != o.Run && membership.ProcessOf(before) == membership.ProcessOf(o.Run):
		n.forgot(errHistory)
	}
}

// forgot takes note that the node's data may be others than when it was last
// looked at: it must be installed anew, and nothing counts that it granted since. It ends
// the epoch that this writer voted under, and no later one: another client may have
// installed the node anew meanwhile, and that stands.
func (n *writer) forgot(why error) {
	n.batch.doubt = why
	n.Tracker.Forgot(n.Index, n.voted)
	n.verifyAgain()
	since := n.unproven
	n.conn.proven, n.unproven = 0, 0
	if since != 0 {
		n.revokeVotes(since, why)
	}
}

// meetAgain asks a node that was down who it is: its address may lead to another
// server by now, even to another node of ours. One that is not known as this node is
// verified before it votes. It returns an error if the node can't be talked to. A node that
// comes back as it was votes at once: most outages are of the network.
func (n *writer) meetAgain() error {
	if n.Cfg.Unprotected || n.epoch == "" {
		return nil
	}
	c := infoCall{redis.NewStringCmd(context.Background(), "INFO", "server", "replication")}
	err := n.conn.calls.Process(context.Background(), c)
	if err != nil && !IsReply(err) && !errors.Is(err, errExchanged) {
		return err
	}
	info := c.Val()
	// Without the right to INFO all fields are empty, and the node is not known: verify says why.
	known := membership.IdentityOf(infoField(info, "run_id"), infoField(info, "master_replid")) == n.identity && infoField(info, "role") == "master"
	if !known || n.siblings.serves(n.Index, membership.ProcessOf(n.identity)) != nil {
		n.verifyAgain()
	}
	return nil
}
