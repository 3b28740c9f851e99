// Package membership tells whether a node may vote, and what must happen first; it keeps
// what was seen of the nodes, looks at them, and takes them in.
package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// May this node vote, and what must happen first? Everything here is a function
// of what the nodes showed; the shell (verify.go, roster.go, joiner.go) asks,
// waits and writes.
//
// What a node's writer keeps (node.go), from its last verification, is a seat:
//
//	seat{epoch, run}     the identity (run) is compared with what INFO says, with
//	                     the looks at the node's clock; the epoch is sent with every voting command, and compared
//	                     by the node itself: a reply "abstained" (epoch missing or
//	                     another) and NOSCRIPT both void the seat until the node
//	                     has been verified again, and so does another cluster's id
//	                     on a quorum. Nothing is asked per call.
//
// A verification is: on one pinned connection, with commands that are never
// resent, read.lua (0), then fleet.seat; where that gives a seat, SCRIPT LOAD of
// the voting set on that same connection, and the node may vote. Where it gives
// none, its second result is why the node abstains, and the shell asks
// fleet.next what must happen. The seat's base is of no use to a client: the
// scripts take it into account.
//
// Which cluster is ours depends on all nodes (a quorum must carry the id), so a
// seat is taken anew for every node when fleet.cluster changes, from the sights
// that are at hand: each sight is the record that its own seat's epoch names.

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
	// NodeRetired abstains for ever.
	NodeRetired
	// NodeForeign is a node of another cluster.
	NodeForeign
	// NodeMisconfigured shows what waiting does not mend: a record of another
	// N or format, or none that can be read.
	NodeMisconfigured
)

var nodeStateNames = [...]string{"unreachable", "member", "blank", "joining", "retired", "foreign", "misconfigured"}

// String returns the state in one word.
func (s NodeState) String() string {
	if int(s) < len(nodeStateNames) {
		return nodeStateNames[s]
	}
	return "invalid"
}

// seat is a node's right to vote, as of its last verification.
type seat struct {
	epoch string
	run   string
}

// charter is what this client was told about its cluster.
type charter struct {
	names  []string // of the nodes, in the client's order
	maxTTL time.Duration
	strict bool // WithStrictRecovery
	needed int  // how many other members a joiner reads: othersNeeded(N)
}

func newCharter(names []string, maxTTL time.Duration, strict bool) charter {
	maxTTL = time.Duration(clock.Milliseconds(maxTTL)) * time.Millisecond // as the records count it
	return charter{names: names, maxTTL: maxTTL, strict: strict, needed: othersNeeded(len(names))}
}

// othersNeeded is N-q+1: so many other members share a node with every quorum
// that the joining node was in, whatever it forgot. Of N-q, none need be.
func othersNeeded(n int) int { return n - quorum.Size(n) + 1 }

// fleet is the cluster as this client sees it: one sight and one watch a node.
type fleet struct {
	charter
	sights  []sight
	watches []watch
	faults  []error // what the last deed on each node failed with; nil: no deed of ours failed
	knew    string  // the strict cluster that this client knows, or ""
	ids     []carried
	ours    string // the id that a quorum of the nodes carries, or ""
	target  string // the id that a joining node gets, or "" for a new one
}

// carried is a cluster's id and how many nodes carry it.
type carried struct {
	id    string
	nodes int
}

// newFleet judges what was seen: sights and watches by node.
func newFleet(c charter, sights []sight, watches []watch) fleet {
	f := fleet{charter: c, sights: sights, watches: watches}
	for _, s := range sights {
		if !s.recorded || s.rec.cluster == "" || s.rec.n != len(c.names) {
			continue
		}
		at := slices.IndexFunc(f.ids, func(k carried) bool { return k.id == s.rec.cluster })
		if at < 0 {
			at = len(f.ids)
			f.ids = append(f.ids, carried{id: s.rec.cluster})
		}
		f.ids[at].nodes++
	}
	for _, k := range f.ids {
		if k.nodes >= quorum.Size(len(c.names)) {
			f.ours = k.id
		}
		if f.target == "" || k.id < f.target {
			f.target = k.id
		}
	}
	if f.ours != "" {
		f.target = f.ours
	}
	return f
}

// cluster is the id that a quorum of the nodes carries. Without one ("") this
// client sends no acquire. A node that does not answer carries what it showed
// last, one that restarted what its data say: an id is no vote. A joining node
// gets this id (target), or the smallest found: so founders that raced agree as
// soon as all of them see every node.
func (f fleet) cluster() string { return f.ours }

// watch is since when this client has seen the same notice on a node. A change
// of its nonce or of the identity under it restarts the wait.
type watch struct {
	notice
	since clock.Instant // when it was first seen, on our own clock
}

// look updates the watch after a sight of the node. A node that does not answer
// leaves it as it is: nothing was learned.
func (w watch) look(s sight) watch {
	n, stands := s.standingNotice()
	switch {
	case !s.answered:
		return w
	case !stands:
		return watch{}
	case n == w.notice:
		return w
	default:
		return watch{notice: n, since: s.seen}
	}
}

// tenure is under which epoch this client has last seen the node at an address be
// a member. Any other epoch ends that one, whether another server took the node's
// place or its data were exchanged (SWAPDB, a backup). Should the first come back
// as it was (the virtual IP has moved back, the databases were swapped again), its
// record still names it a member, and it does not know what was granted in
// between. So it is blank, until it was installed under a new epoch.
type tenure struct {
	epoch string
	past  []string // epochs that have ended
}

// pastEpochs is how many ended epochs a client keeps for each node.
const pastEpochs = 64

// look updates the tenure after a sight of the node, and marks the sight.
func (t tenure) look(s sight) (tenure, sight) {
	if slices.Contains(t.past, s.rec.epoch) {
		s.returned = true
	}
	if s.answered && s.replica { // what it holds now is another's, or will be
		return t.end(), s
	}
	if !s.member() {
		return t, s
	}
	if t.epoch != s.rec.epoch {
		t = t.end()
	}
	t.epoch = s.rec.epoch
	return t, s
}

// end is the tenure with no epoch: the one that there was has ended.
func (t tenure) end() tenure {
	if t.epoch == "" {
		return t
	}
	past := append(slices.Clone(t.past), t.epoch)
	return tenure{past: past[max(0, len(past)-pastEpochs):]}
}

// seat is the node's right to vote, or the reason why it abstains.
func (f fleet) seat(i int) (seat, string) {
	state, why := f.standing(i)
	switch {
	case state != NodeMember:
		return seat{}, why
	case f.cluster() == "":
		return seat{}, fmt.Sprintf("fewer than a quorum (%d/%d) of the nodes carry one cluster's id", f.carriers(), len(f.names))
	case f.sights[i].rec.maxTTL < f.maxTTL:
		return seat{}, f.hindered(i, fmt.Sprintf("its record says MaxTTL %v; %v must be written there first", f.sights[i].rec.maxTTL, f.maxTTL))
	}
	if why := f.unbound(i); why != "" {
		return seat{}, why
	}
	return seat{epoch: f.sights[i].rec.epoch, run: f.sights[i].run}, ""
}

// fault is what this client's last deed on node i failed with; nil: none did.
func (f fleet) fault(i int) error {
	if f.faults == nil {
		return nil
	}
	return f.faults[i]
}

// hindered is why node i does not vote, and what this client's last deed there
// failed with.
func (f fleet) hindered(i int, why string) string {
	if cause := f.fault(i); cause != nil {
		return why + "; " + strings.Replace(fault.Unnamed(cause.Error()), fault.Unnamed(fault.ErrMisconfigured.Error())+": ", "", 1) // the state says so
	}
	return why
}

// carriers is how many nodes carry the most carried id.
func (f fleet) carriers() int {
	most := 0
	for _, k := range f.ids {
		most = max(most, k.nodes)
	}
	return most
}

// standing is what node i is, and why.
func (f fleet) standing(i int) (NodeState, string) {
	s := f.sights[i]
	switch {
	case !s.answered:
		return NodeUnreachable, s.cause
	case s.refused:
		return NodeMisconfigured, s.cause
	case s.recorded && s.rec.gone:
		return NodeRetired, "it was retired"
	case s.recorded && s.rec.n != len(f.names):
		return NodeMisconfigured, fmt.Sprintf("it is one of %d nodes (%s); this client has %d",
			s.rec.n, strings.Join(s.rec.names, ", "), len(f.names))
	}
	if slices.Contains(f.retired(), f.names[i]) {
		return NodeRetired, "its name was retired"
	}
	switch {
	case s.replica:
		return NodeBlank, "it is a replica, which can't be a node: give it its own data back (REPLICAOF NO ONE), and it joins like a node that forgot"
	case !s.recorded:
		return NodeBlank, "it holds no record: it is new, or it lost its memory"
	case s.rec.cluster != f.target && f.ours != "" && !f.lists(s.rec):
		return NodeForeign, fmt.Sprintf("it belongs to another cluster (%s), of the nodes %s",
			s.rec.cluster, strings.Join(s.rec.names, ", "))
	case s.rec.cluster != f.target:
		// Its record has our own list of nodes, and another id: two clients founded
		// the cluster at once. It is taken over like a blank node, by the same wait.
		return NodeBlank, fmt.Sprintf("it was founded as cluster %s at the same time as %s", s.rec.cluster, f.target)
	case s.returned:
		return NodeBlank, "its record is of an epoch that has ended: another server, or other data, voted at its address since, and it does not know what those granted"
	case !s.member() && processOf(s.rec.run) == processOf(s.run):
		return NodeBlank, "its replication id is another than when it joined (it was a replica in between, or its first replica attached): its data may be old"
	case !s.member():
		return NodeBlank, "it restarted: its data may be old"
	}
	return NodeMember, ""
}

// members are the other nodes that are members and answered a read that was
// sent after since.
func (f fleet) members(i int, since clock.Instant) []int {
	var out []int
	for j, s := range f.sights {
		if state, _ := f.standing(j); j != i && state == NodeMember && s.sent >= since {
			out = append(out, j)
		}
	}
	return out
}

// wait is how long a joiner waits: the longest lease that anyone may have taken,
// as far as any record says.
func (f fleet) wait() time.Duration {
	most := f.maxTTL
	for _, s := range f.sights {
		if s.recorded {
			most = max(most, s.rec.longest())
		}
	}
	return most
}

// allowed is the longest lease that anyone may take from now on, as far as any
// record says: shorter than the wait while it is lowered.
func (f fleet) allowed() time.Duration {
	most := f.maxTTL
	for _, s := range f.sights {
		if s.recorded {
			most = max(most, s.rec.maxTTL)
		}
	}
	return most
}

// sorted are the client's names in the record's order.
func (c charter) sorted() []string { return slices.Sorted(slices.Values(c.names)) }

// lists tells whether the record lists exactly the nodes that this client has,
// once every replacement that any record knows of is applied.
func (f fleet) lists(r record) bool {
	return slices.Equal(f.current(r.names), f.sorted())
}

// mixed tells whether the list has nodes of several clusters: not of founders that
// raced, whose records have the same names. That a record has other names than this
// client says nothing then of how the client names its nodes.
func (f fleet) mixed() bool {
	return len(f.ids) > 1 && slices.ContainsFunc(f.sights, func(s sight) bool {
		return s.recorded && s.rec.n == len(f.names) && !f.lists(s.rec)
	})
}

// strange tells whether a node of a mixed list has a record of its own cluster, and
// there is no other that a quorum carries.
func (f fleet) strange(i int) bool {
	s := f.sights[i]
	return f.ours == "" && s.recorded && s.rec.cluster != "" && s.rec.n == len(f.names) && !f.lists(s.rec)
}

// current is the list of names after all known replacements.
func (f fleet) current(names []string) []string {
	out := slices.Clone(names)
	known := f.placements()
	for i := range out {
		for range known { // a chain is no longer than the list
			if at := slices.IndexFunc(known, func(p placement) bool { return p.old == out[i] }); at >= 0 {
				out[i] = known[at].new
			}
		}
	}
	slices.Sort(out)
	return out
}

// kin tells whether node i shows a record of the target cluster.
func (f fleet) kin(i int) bool {
	s := f.sights[i]
	return s.recorded && s.rec.cluster == f.target && s.rec.n == len(f.names)
}

// placements are the replacements that the target cluster's records know of.
func (f fleet) placements() []placement {
	var out []placement
	for i, s := range f.sights {
		if !f.kin(i) {
			continue
		}
		for _, p := range s.rec.replaced {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// retired are the retired names that the target cluster's records know of.
func (f fleet) retired() []string {
	var out []string
	for i, s := range f.sights {
		if !f.kin(i) {
			continue
		}
		for _, name := range s.rec.retired {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
