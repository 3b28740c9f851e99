package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

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

// infoField is a field of INFO; empty if it is not there.
func infoField(info, name string) string {
	_, value, _ := strings.Cut(info, "\n"+name+":") // the first line is the section's name
	value, _, _ = strings.Cut(value, "\r\n")
	return value
}

// infoCall is INFO. It is sent once: a second answer might come from another server.
type infoCall struct{ *redis.StringCmd }

// NoRetry keeps go-redis from sending it again.
func (infoCall) NoRetry() bool { return true }

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
	err := n.Calls.Process(context.Background(), c)
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

// vouch notes that the node vouched for something in the round that was sent at
// start. Without a look behind it in the same batch (proven), it counts until a later look
// says that the node was another: forgot then revokes all since the earliest such round.
func (n *writer) vouch(start clock.Instant) {
	if !n.batch.proven && (n.unproven == 0 || start < n.unproven) {
		n.unproven = start
	}
}

// ErrDuplicateServer is why a node does not vote: another node of the list is the same server.
var ErrDuplicateServer = errors.New("one server listed twice")

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
