package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Cluster is the nodes' side of a Locker: who may vote, and whether the servers
// are set up for it. It has no state of its own, and is safe for use by many
// goroutines at once.
type Cluster struct {
	locker *core
}

// Cluster returns the nodes' side. It sends nothing.
func (l *Locker) Cluster() *Cluster { return &Cluster{locker: l.core} }

// NodeState is what a node is to the cluster, as far as this client knows.
type NodeState uint8

const (
	// NodeUnreachable does not answer.
	NodeUnreachable NodeState = iota
	// NodeMember may vote.
	NodeMember
	// NodeBlank answers and is no member (it is new, or forgot), and something
	// else must happen before it can join.
	NodeBlank
	// NodeJoining is blank, and votes as soon as its wait is over.
	NodeJoining
	// NodeForeign is a node of another cluster.
	NodeForeign
	// NodeMisconfigured shows what waiting does not mend: a record of another
	// list or format, or none that can be read.
	NodeMisconfigured
	// NodeBehind is a member whose list of nodes is of an earlier generation: a client
	// brings it up to date.
	NodeBehind
	// NodeUnlisted is not in the cluster's list: this client may go by a list with it later.
	NodeUnlisted
)

// The rules have the same states by the same numbers.
var _ = [1]struct{}{}[(NodeUnreachable-NodeState(membership.Unreachable))|(NodeMember-NodeState(membership.Member))|
	(NodeBlank-NodeState(membership.Blank))|(NodeJoining-NodeState(membership.Joining))|
	(NodeForeign-NodeState(membership.Foreign))|(NodeMisconfigured-NodeState(membership.Misconfigured))|
	(NodeBehind-NodeState(membership.Behind))|(NodeUnlisted-NodeState(membership.Unlisted))]

// String returns the state in one word.
func (s NodeState) String() string { return membership.State(s).String() }

// ClusterStatus is what the nodes are to the cluster, as one client sees them.
type ClusterStatus struct {
	ID     string // the cluster's id, that a quorum of nodes carries; empty if none does
	Quorum int
	Nodes  []NodeStatus

	// The latest configuration that a record shows: what the nodes agree on. Change changes it.
	Generation int           // how often it was changed since the cluster was founded
	List       []string      // of all nodes; nil if no record is found
	MaxTTL     time.Duration // the longest lease that anyone may take
	Strict     bool          // only an operator founds the cluster anew (WithStrictRecovery)
	Pending    string        // a change that has begun, in words; "not yet proposed": what it is was not told yet. Call Change again to finish it

	// Stragglers have the list before the latest, and used it within the hour, by the nodes'
	// clocks. The next change ends their locks. One that idles, only waits or is cut off is not seen. A node tells of 64.
	Stragglers []Straggler
}

// Straggler is a client that has the list of nodes before the latest.
type Straggler struct {
	Name string        // its label (WithHolder), or host:pid
	Seen time.Duration // how long ago; it signs once a minute
}

// Votes is how many nodes vote: members that refuse to write grant nothing.
func (s ClusterStatus) Votes() int {
	votes := 0
	for _, n := range s.Nodes {
		if n.State == NodeMember && n.Cause == "" && n.Refusal == "" {
			votes++
		}
	}
	return votes
}

// NodeStatus is what one node is to the cluster.
type NodeStatus struct {
	Name   string
	State  NodeState
	Cause  string        // why it does not vote, what would admit it, and whether an old list could found on it
	Left   time.Duration // of the wait of a joining node, once a client waits; 0 if none
	MaxTTL time.Duration // the longest lease that may rest on it by its record, of the generation before and one proposed too; 0 if it has none

	// Refusal is why the node refuses to write, in its server's words: its memory is
	// full, its disk failed, it lacks replicas, the user lacks a right. It grants nothing then, in any
	// state. Empty: it wrote when Status asked, was not asked, or said nothing.
	Refusal string

	Generation int // of its record

	misconfigured bool // what keeps it out is somebody's configuration
	removed       bool // the list does not have it, and a change by this client took it out
}

// Status looks at every node, for at most a node timeout or until ctx is done,
// and says which of them vote, which wait and until when, and why. It leaves
// nothing there: that a node writes is tried with a key that ends within a
// millisecond. A node that does not answer is NodeUnreachable, which is no error;
// ErrClosed is, and ctx's error.
func (c *Cluster) Status(ctx context.Context) (ClusterStatus, error) {
	l := c.locker
	if err := l.usable(ctx, "status"); err != nil {
		return ClusterStatus{}, err
	}
	refusals := make([]string, len(l.nodes))
	var g errgroup.Group // zero: one node's failure must not end the others
	for _, i := range l.tracker.List().Indexes(len(l.nodes)) {
		g.Go(func() error {
			refusals[i] = l.nodes[i].RefusesNow(ctx)
			return nil
		})
	}
	l.tracker.LookAtAll(ctx, false)
	_ = g.Wait()
	if err := fault.OfContext(ctx); err != nil {
		return ClusterStatus{}, fault.Errorf("redlock: status: %w", err)
	}
	s := l.statusFor(l.tracker.Proposal(), refusals)
	s.Stragglers = stragglersOf(l.stragglers(ctx, l.tracker.View(), s.Generation))
	return s, nil
}

// stragglers asks the nodes that a view has seen for those of the list before that generation's.
func (l *core) stragglers(ctx context.Context, v membership.View, generation int) []membership.Straggler {
	if generation == 0 {
		return nil
	}
	signs := make([][]any, len(l.nodes))
	var g errgroup.Group // zero: one node's failure must not end the others
	for i, n := range l.nodes {
		g.Go(func() error {
			signs[i] = node.Signs(ctx, n)
			return nil
		})
	}
	_ = g.Wait()
	return v.Stragglers(generation, signs)
}

func stragglersOf(seen []membership.Straggler) (out []Straggler) {
	for _, one := range seen {
		out = append(out, Straggler(one))
	}
	return out
}

// statusFor is what is known of the nodes, to the client that proposes p; refusals are what
// each node refused just now, if it was asked: one that is to be taken in would be kept out by it.
func (l *core) statusFor(p membership.Proposal, refusals []string) ClusterStatus {
	v, now := l.tracker.View(), l.clock.Now()
	for i, why := range refusals {
		if state, _ := v.Standing(i); state == membership.Blank && why != "" && v.Fault(i) == nil {
			v.Faults[i] = errors.New("refuses writes: " + why)
		}
	}
	s := ClusterStatus{
		ID: v.Cluster(), Quorum: quorum.Size(len(v.Sorted())), Nodes: make([]NodeStatus, len(v.Names)),
		Generation: v.Newest().Gen, List: v.Newest().Names, MaxTTL: v.Newest().MaxTTL, Strict: v.Newest().Strict, Pending: v.Pending(),
	}
	for i, name := range v.Names {
		state, why := v.Standing(i)
		node := NodeStatus{
			Name: name, State: NodeState(state), Cause: why, MaxTTL: v.Nodes[i].Record.Longest(), Generation: v.Nodes[i].Record.Gen,
		}
		if state == membership.Member {
			_, node.Cause = v.Voter(i)
		}
		pl := v.Next(i, now, p)
		if pl.Cause != "" {
			node.Cause = pl.Cause
		}
		waits := pl.Waiting || pl.Action == membership.DoNotice && v.Fault(i) == nil
		if waits {
			node.State, node.Left = NodeJoining, max(pl.Until.Sub(now), 0)
		}
		if obstacle, misfit := v.Obstacle(i); state == membership.Blank && (misfit || waits && obstacle != "") {
			node.State, node.Cause, node.Left = NodeBlank, why+"; "+obstacle, 0
			if misfit {
				node.State = NodeMisconfigured
			}
		}
		if exposed, remedy := v.Exposed(i); exposed != "" {
			node.Cause += "; " + exposed + ": " + remedy
		}
		node.misconfigured = node.State == NodeMisconfigured || pl.Misfit || state == membership.Foreign ||
			v.Lax(i) || state == membership.Blank && v.Barred(i) || errors.Is(v.Fault(i), ErrMisconfigured)
		if refusals != nil {
			node.Refusal = refusals[i]
		}
		node.removed = !slices.Contains(v.Sorted(), name)
		s.Nodes[i] = node
	}
	return s
}

// Join waits until every node that answers votes: for short-lived programs, which
// would otherwise never be there at the end of the wait. A new cluster, or a node
// that returned, waits MaxTTL; see Admit. Where nothing is to be waited for, Join
// returns nil at once. After a wait through which a quorum voted, it gives those
// who hold locks 3 seconds more to put them on the nodes that vote again: then
// the next node may be restarted. A node that votes already when Join begins is not
// waited for: nobody can tell since when.
//
// A node that waiting does not bring in (NodeForeign, NodeMisconfigured) holds up none of
// the others: Join takes those in first, and then returns an error. It ends with ctx's error when ctx is done. Either way the
// error names the nodes that answer and do not vote, and why. It is ErrMisconfigured
// too where a configuration keeps one of them out: another cluster's record, one of
// another list, a right that is missing. Where fewer than a
// quorum vote it is ErrNoQuorum, once ctx is done or no quorum can be waited for.
func (c *Cluster) Join(ctx context.Context) error {
	l := c.locker
	if err := l.usable(ctx, "join"); err != nil {
		return err
	}
	for late := false; ; {
		pause := l.tracker.Settle(ctx, l.tracker.Proposal())
		s := l.statusFor(l.tracker.Proposal(), nil)
		left, hope := s.outside()
		if !hope {
			return l.endJoin(ctx, late, s.shortOf(left))
		}
		late = late || left != nil && s.Votes() >= s.Quorum // locks are held without them
		if pause == 0 {
			pause = membership.JoinPoll
		}
		t := l.clock.NewTimer(pause)
		select {
		case <-t.C:
		case <-l.closing.Done():
			t.Stop()
			return fault.Errorf("redlock: join: %w", ErrClosed)
		case <-ctx.Done():
			t.Stop()
			return fault.Errorf("redlock: join: %w", errors.Join(s.shortOf(left), fault.OfContext(ctx)))
		}
	}
}

// confirmTime is what all holders are given to confirm their locks on a node that votes
// again: until the loop of each has looked, and its clock watch has had the node verified,
// the spread, and the same for what is given again to a node that did not answer just then.
const confirmTime = membership.JoinPoll + node.WatchEvery + 2*node.ConfirmSpread + 5*DefaultNodeTimeout

// endJoin ends a Join that has no node left to wait for; left is why some do not
// vote. After a wait for one (late), those who hold locks are given the time to
// confirm them there.
func (l *core) endJoin(ctx context.Context, late bool, left error) error {
	if late {
		if err := l.acquirer.Wait(ctx, confirmTime); err != nil {
			return fault.Errorf("redlock: join: locks that are held may not be on all nodes that vote yet: %w", errors.Join(err, left))
		}
	}
	if left != nil {
		return fault.Errorf("redlock: join: %w", left)
	}
	return nil
}

// shortOf adds to what keeps nodes out that fewer than a quorum vote, and which nodes do
// not answer.
func (s ClusterStatus) shortOf(left error) error {
	if s.Votes() < s.Quorum {
		return errors.Join(ErrNoQuorum, left, s.unreachable())
	}
	return left
}

// outside names the nodes that answer and do not vote, and tells whether there is
// any to wait for: one of them, or, where no quorum votes, one that does not answer.
// There is none where all of them would still be no quorum.
func (s ClusterStatus) outside() (error, bool) { //nolint:revive // the error is what is found, not a failure
	var faulty, fine fault.Grouped
	joining, silent, voteless := 0, 0, 0
	for _, n := range s.Nodes {
		if n.removed || n.State == NodeMember && n.Cause == "" {
			continue
		}
		if n.State == NodeUnreachable {
			silent++
			continue
		}
		words, state := &fine, n.State.String()
		switch {
		case n.misconfigured:
			words = &faulty
		case n.State == NodeMember:
			voteless++
			state = "without a vote"
		default:
			joining++
		}
		words.Add(n.Name, state+": "+n.Cause)
	}
	err := errors.Join(namedOf(faulty, ErrMisconfigured), namedOf(fine, nil))
	wanted := joining+voteless > 0 || s.Votes() < s.Quorum
	return err, wanted && s.Votes()+voteless+joining+silent >= s.Quorum
}

// unreachable names the nodes that do not answer.
func (s ClusterStatus) unreachable() error {
	var silent fault.Grouped
	for _, n := range s.Nodes {
		if n.State == NodeUnreachable && !n.removed {
			silent.Add(n.Name, fmt.Sprintf("%s: %s", n.State, n.Cause))
		}
	}
	return namedOf(silent, nil)
}

// namedOf is an error that says what nodes are, under a sentinel; nil: it has none.
func namedOf(g fault.Grouped, sentinel error) error {
	var errs []error
	g.Each(func(names string, n int, words string) {
		verb := "is"
		if n > 1 {
			verb = "are"
		}
		err := fmt.Errorf("%s %s %s", names, verb, words)
		if sentinel != nil {
			err = fmt.Errorf("%w: %w", sentinel, err)
		}
		errs = append(errs, err)
	})
	return errors.Join(errs...)
}

// Admit takes blank and returned nodes in now, without their wait. The caller
// vouches that no lock made before on these nodes is held, by anyone: on a new
// cluster that is so. It also stands in for the operator that WithStrictRecovery
// asks for, where every node answers; never for the rules on lists and clusters, but that it founds
// on blank nodes which another cluster's clients claim, and ends what an old list founded beside
// this Locker's cluster. A cluster that it founds has what the latest record or claim says; where
// none is left, this Locker's WithMaxTTL and WithStrictRecovery. Where nothing is to be done it
// returns nil.
//
// Otherwise the error names the nodes that it could not take in, those that do
// not answer included, and is ErrMisconfigured and ErrNoQuorum as for Join; what
// could be taken in has been.
func (c *Cluster) Admit(ctx context.Context) error {
	l := c.locker
	if err := l.usable(ctx, "admit"); err != nil {
		return err
	}
	p := l.tracker.Proposal()
	p.Admit = true
	for pause := l.tracker.Settle(ctx, p); l.tracker.Beside(); pause = l.tracker.Settle(ctx, p) { // another founds, too
		if err := l.acquirer.Wait(ctx, max(pause, time.Millisecond)); err != nil {
			return fault.Errorf("redlock: admit: %w", err)
		}
	}
	if err := fault.OfContext(ctx); err != nil {
		return fault.Errorf("redlock: admit: %w", err)
	}
	s := l.statusFor(p, nil)
	left, _ := s.outside()
	if s.Votes() < s.Quorum {
		left = s.shortOf(left)
	} else {
		left = errors.Join(left, s.unreachable())
	}
	if left != nil {
		return fault.Errorf("redlock: admit: %w", left)
	}
	return nil
}
