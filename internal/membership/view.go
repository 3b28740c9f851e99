// Package membership tells whether a node may vote, and what must happen first; it keeps
// what was seen of the nodes, looks at them, and takes them in.
package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// May this node vote, and what must happen first? What view.go, record.go, plan.go,
// lists.go and change.go say is a function of what the nodes showed. The rest asks,
// waits and has the nodes do it: the Tracker, its loop (reconcile.go), and the nodes
// themselves. Anyone who takes a node in is a joiner: the loop, Join, Admit, or another client.
//
// What a node's writer keeps, from its last verification, is a Voter:
//
//	Voter{Epoch, Run}    the identity (Run) is compared with what INFO says, with the
//	                     looks at the node's clock; the epoch is sent with every voting
//	                     command, and compared by the node itself: a reply "abstained"
//	                     (epoch missing or another) and NOSCRIPT both void the right to
//	                     vote until the node has been verified again, and so does another
//	                     cluster's id on a quorum. Nothing is asked per call.
//
// A verification is: on one pinned connection, with commands that are never
// resent, read.lua (0), then View.Voter; where that gives a Voter, SCRIPT LOAD of
// the voting set on that same connection, and the node may vote. Where it gives
// none, its second result is why the node abstains, and View.Next says what must
// happen. The record's base is of no use to a client: the scripts take it into
// account.
//
// Which cluster is ours depends on all nodes (a quorum must carry the id), so the
// right to vote is judged anew for every node when View.Cluster changes, by the
// observations that are at hand: each is the record that its own Voter's epoch names.

// State is what a node is to the cluster, as far as this client knows.
type State uint8

const (
	// Unreachable does not answer.
	Unreachable State = iota
	// Member may vote.
	Member
	// Blank answers and is no member (it is new, or forgot), and something
	// else must happen before it can join.
	Blank
	// Joining is blank, and votes as soon as its wait is over.
	Joining
	// Foreign is a node of another cluster.
	Foreign
	// Misconfigured shows what waiting does not mend: a record of another
	// list or format, or none that can be read.
	Misconfigured
	// Behind is a member whose list of nodes is of an earlier generation.
	Behind
	// Unlisted is not in the list that this client goes by: nothing is asked of it.
	Unlisted
)

var stateNames = [...]string{"unreachable", "member", "blank", "joining", "foreign", "misconfigured", "behind", "unlisted"}

// String returns the state in one word.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// Voter is a node's right to vote, as of its last verification.
type Voter struct {
	Epoch  string
	Run    string
	MaxTTL time.Duration  // of the longest lease that it votes for; under one epoch it stays
	Lists  [2]quorum.List // by which it votes: twice the same if it is one
}

// Config is what this client was told about its cluster.
type Config struct {
	Names  []string        // of the nodes, in the client's order: it goes by a list of these
	MaxTTL time.Duration   // WithMaxTTL: what it founds with
	Strict bool            // WithStrictRecovery: no vote counts of a cluster without
	Pin    string          // WithCluster: the only cluster whose votes count; empty: any
	Needed func(n int) int // how many other members of a list a joiner reads: othersNeeded
	sorted []string        // the list that this client goes by (goesBy)
	coming []string        // nodes that this client adds: they wait before the list has them
}

// NewConfig is the configuration of a client with these nodes.
func NewConfig(names []string, maxTTL time.Duration, strict bool) Config {
	maxTTL = time.Duration(clock.Milliseconds(maxTTL)) * time.Millisecond // as the records count it
	return Config{Names: names, MaxTTL: maxTTL, Strict: strict, Needed: othersNeeded, sorted: slices.Sorted(slices.Values(names))}
}

// othersNeeded is N-q+1: so many other members share a node with every quorum
// that the joining node was in, no matter what it forgot. Of N-q, none need be.
func othersNeeded(n int) int { return n - quorum.Size(n) + 1 }

// View is the cluster as this client sees it: one Observation and one Wait a node.
type View struct {
	Config
	Nodes  []Observation
	Waits  []Wait
	Faults []error       // what the last action on each node failed with; nil if none of ours failed
	Rival  clock.Instant // until when another founder is left alone; 0: no other was seen
	Known  Claim         // the latest configuration that this client has seen; zero before it has seen one
	IDs    []Carried     // that the records found show
	ours   string        // the id that a quorum of the nodes carries, or ""
	target string        // the id that a joining node gets: ours, or the only one found; else ""
	newest Record        // of the target's, with the latest configuration; zero if none is found
}

// Carried is a cluster's id and how many nodes carry it.
type Carried struct {
	ID    string
	Nodes int
}

// NewView judges what was seen: observations and waits by node.
func NewView(c Config, nodes []Observation, waits []Wait) View {
	v := View{Config: c, Nodes: nodes, Waits: waits}
	for i, o := range nodes {
		if !o.Recorded || o.Record.Cluster == "" || !c.accepts(o.Record) || !slices.Contains(c.sorted, c.Names[i]) || c.strange(o.Record) {
			continue
		}
		at := slices.IndexFunc(v.IDs, func(k Carried) bool { return k.ID == o.Record.Cluster })
		if at < 0 {
			at = len(v.IDs)
			v.IDs = append(v.IDs, Carried{ID: o.Record.Cluster})
		}
		if !o.Answered || o.member() {
			v.IDs[at].Nodes++
		}
	}
	for _, k := range v.IDs {
		if k.Nodes >= quorum.Size(len(c.sorted)) {
			v.ours = k.ID
		}
	}
	if v.target = v.ours; v.ours == "" && len(v.IDs) == 1 {
		v.target = v.IDs[0].ID
	}
	if c.Pin != "" {
		v.target = c.Pin
	}
	v.newest = v.latest()
	return v
}

// strange tells whether the record is of another cluster than this client is pinned to.
func (c Config) strange(r Record) bool { return c.Pin != "" && r.Cluster != c.Pin }

// Cluster is the id that a quorum of the nodes carries. Without one ("") this
// client sends no acquire. A node that does not answer carries what it showed
// last: an id is no vote. A joining node gets this id (target), or the only one found.
func (v View) Cluster() string { return v.ours }

// Wait is since when this client has seen the same notice on a node. A change
// of its nonce or of the identity under it restarts the wait.
type Wait struct {
	Notice Notice
	Since  clock.Instant // when it was first seen, on our own clock
}

// After is the wait after an observation of the node. A node that does not answer
// leaves it as it is: nothing was learned.
func (w Wait) After(o Observation) Wait {
	n, stands := o.StandingNotice()
	switch {
	case !o.Answered:
		return w
	case !stands:
		return Wait{}
	case n == w.Notice:
		return w
	case n.Nonce == w.Notice.Nonce && n.Run == w.Notice.Run: // another claim
		return Wait{Notice: n, Since: w.Since}
	default:
		return Wait{Notice: n, Since: o.Seen}
	}
}

// Incarnation is under which epoch this client has last seen the node at an address be
// a member. Any other epoch ends that one, whether another server took the node's
// place or its data were exchanged (SWAPDB, a backup). Should the first come back
// as it was (the virtual IP has moved back, the databases were swapped again), its
// record still names it a member, and it does not know what was granted in
// between. So it is blank, until it was installed under a new epoch.
type Incarnation struct {
	epoch string
	past  []string // epochs that have ended
}

// pastEpochs is how many ended epochs a client keeps for each node.
const pastEpochs = 64

// After is the incarnation after an observation of the node, which it marks.
func (c Incarnation) After(o Observation) (Incarnation, Observation) {
	if slices.Contains(c.past, o.Record.Epoch) {
		o.Returned = true
	}
	if o.Answered && o.Replica { // what it holds now is another's, or will be
		return c.end(), o
	}
	if !o.member() {
		return c, o
	}
	if c.epoch != o.Record.Epoch {
		c = c.end()
	}
	c.epoch = o.Record.Epoch
	return c, o
}

// end is the incarnation with no epoch: the one that there was has ended.
func (c Incarnation) end() Incarnation { return c.without(c.epoch) }

// without is the incarnation once this epoch has ended.
func (c Incarnation) without(epoch string) Incarnation {
	if epoch == "" || slices.Contains(c.past, epoch) {
		return c
	}
	if c.epoch == epoch {
		c.epoch = ""
	}
	c.past = append(slices.Clone(c.past[max(0, len(c.past)+1-pastEpochs):]), epoch)
	return c
}

// Voter is the node's right to vote, or the reason why it abstains.
func (v View) Voter(i int) (Voter, string) {
	state, why := v.Standing(i)
	switch {
	case state != Member:
		return Voter{}, why
	case v.Cluster() == "":
		return Voter{}, v.alone()
	case !v.inList(i) && !v.keeps(i):
		return Voter{}, v.lacks(v.newest, i)
	case v.Lax(i):
		return Voter{}, "the cluster has no strict recovery, which this client asks for (WithStrictRecovery): Cluster.Change (redlock nodes change --strict on)"
	}
	r := v.Nodes[i].Record
	st := Voter{Epoch: r.Epoch, Run: v.Nodes[i].Run, MaxTTL: r.MaxTTL, Lists: v.listsOf(r)}
	if !v.inList(i) {
		st.Lists[0] = st.Lists[1]
	}
	return st, ""
}

// Lax tells whether this client asks for strict recovery, and node i is a member of a cluster without.
func (v View) Lax(i int) bool {
	state, _ := v.Standing(i)
	return state == Member && v.Strict && !v.Nodes[i].Record.Strict
}

// Fault is what this client's last action on node i failed with; nil if none did.
func (v View) Fault(i int) error {
	if v.Faults == nil {
		return nil
	}
	return v.Faults[i]
}

// Hindered is why node i does not vote, and what this client's last action there
// failed with.
func (v View) Hindered(i int, why string) string {
	if cause := v.Fault(i); cause != nil {
		return why + "; " + strings.Replace(fault.Unnamed(cause.Error()), fault.Unnamed(fault.ErrMisconfigured.Error())+": ", "", 1) // the state says so
	}
	return why
}

// alone says for how many others a member waits where fewer than a quorum carry one cluster's id.
func (v View) alone() string {
	few := "one"
	if more := quorum.Size(len(v.sorted)) - v.carriers(); more > 1 {
		few = strconv.Itoa(more)
	}
	return "well; waits for " + few + " of the others"
}

// carriers is how many nodes carry the most carried id.
func (v View) carriers() int {
	most := 0
	for _, k := range v.IDs {
		most = max(most, k.Nodes)
	}
	return most
}

// Standing is what node i is, and why.
func (v View) Standing(i int) (State, string) {
	state, why := v.standing(i)
	switch state {
	case Blank, Foreign, Misconfigured:
		if !v.wanted(i) {
			return Unlisted, cmp.Or(v.unlisted(i), fmt.Sprintf("the list that this client goes by (%s) does not have it", strings.Join(v.sorted, ", ")))
		}
	case Unreachable, Member, Joining, Behind, Unlisted:
	}
	return state, why
}

// standing is Standing, no matter which list has the node.
func (v View) standing(i int) (State, string) {
	o := v.Nodes[i]
	switch {
	case !o.Answered:
		return Unreachable, o.Cause
	case o.Refused:
		return Misconfigured, o.Cause
	case o.Recorded && v.strange(o.Record):
		return Foreign, fmt.Sprintf("it belongs to cluster %s, and this client is pinned to %s (WithCluster)", o.Record.Cluster, v.Pin)
	case v.behind(o) && o.member():
		return Behind, fmt.Sprintf("its list of nodes (%s) is of generation %d, and the cluster's of %d: a client brings it up to date",
			strings.Join(o.Record.Names, ", "), o.Record.Gen, v.newest.Gen)
	case o.Recorded && o.Record.Cluster != v.target && v.ours != "" && !slices.Equal(o.Record.Names, v.sorted):
		return Foreign, fmt.Sprintf("it belongs to another cluster (%s), of the nodes %s", o.Record.Cluster, strings.Join(o.Record.Names, ", "))
	case o.Recorded && !v.accepts(o.Record) && !v.behind(o):
		return Misconfigured, fmt.Sprintf("its list is of %s (%s), generation %d; this client's of %d (%s): give all clients one list, by the same names (--node-names); Cluster.Change (redlock nodes change) changes it (docs/WHICH.md)",
			count(len(o.Record.Names)), strings.Join(o.Record.Names, ", "), o.Record.Gen, len(v.Names), strings.Join(slices.Sorted(slices.Values(v.Names)), ", "))
	case o.Replica:
		return Blank, "it is a replica, which can't be a node: give it its own data back (REPLICAOF NO ONE), and it joins like a node that forgot"
	case !o.Recorded:
		return Blank, "it holds no record: it is new, or it lost its memory"
	case o.Record.Cluster != v.target && v.ours != "":
		// Its record has our own list of nodes, and another id: it was away when the cluster was
		// founded anew, or another founder was beside. It joins like a blank node, by the same wait.
		return Blank, fmt.Sprintf("it has the record of cluster %s, which was founded anew as %s", o.Record.Cluster, v.target)
	case o.Returned:
		return Blank, "its record is of an epoch that has ended: another server, or other data, voted at its address since, and it does not know what those granted"
	case !o.member() && ProcessOf(o.Record.Run) == ProcessOf(o.Run):
		return Blank, "its replication id is another than when it joined (it was a replica in between, or its first replica attached): its data may be old"
	case !o.member():
		return Blank, "it restarted: its data may be old"
	}
	return Member, ""
}

func count(nodes int) string {
	if nodes == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", nodes)
}

// Members are the other nodes that are members and answered a read that was
// sent after since.
func (v View) Members(i int, since clock.Instant) []int {
	var out []int
	for j, o := range v.Nodes {
		if state, _ := v.Standing(j); j != i && state == Member && o.Sent >= since {
			out = append(out, j)
		}
	}
	return out
}

// wait is how long a joiner waits: the longest lease that anyone may have taken, as far as
// any record says. Where no quorum carries a cluster's id, it may be founded with our own MaxTTL,
// and records that are gone may have allowed more.
func (v View) wait() time.Duration {
	if v.ours == "" {
		return max(v.longest(), v.MaxTTL, v.Known.Lease)
	}
	return v.longest()
}

// waitOf is how long node i waits: by the table no cluster is founded.
func (v View) waitOf(i int) time.Duration {
	if v.byTable(i) {
		return v.longest()
	}
	return v.wait()
}

// longest is the longest lease of any record, or claim.
func (v View) longest() (most time.Duration) {
	for i, o := range v.Nodes {
		if !v.inList(i) && !o.ofCluster(v.target) {
			continue
		}
		if most = max(most, v.claimAt(i).Lease); o.Recorded {
			most = max(most, o.Record.Longest())
		}
	}
	return most
}

// Sorted are the client's names in the record's order.
func (c Config) Sorted() []string { return c.sorted }

// Known is node i's right to vote by what was seen last, or why it has none; answered
// tells whether it answered then. Changed is closed by the next publication.
func (t *Tracker) Known(i int) (st Voter, answered bool, changed <-chan struct{}, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.viewLocked()
	st, reason := v.Voter(i)
	return st, v.Nodes[i].Answered, t.changed, t.abstentionLocked(v, i, reason)
}
