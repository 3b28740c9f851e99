package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// How a cluster's configuration changes while clients run: its list of nodes, by one at a
// time, its MaxTTL, and whether recovery is strict.
//
// Quorums of a list and of the next share a node; those of lists two apart need not. So a
// change has four steps:
//
//   - settle.lua, on a quorum of the list (From): no node there votes any more for clients
//     of the list before it. The ballot makes operators follow each other: a node that has
//     a higher one refuses.
//   - A pause of the longest lease, by From and by the generation before: the locks of that
//     earlier list are over then. Clients of the list itself go on.
//   - accept.lua, on a quorum of the list, under the same epoch and ballot: the next
//     configuration is decided. A proposal that settling found replaces the operator's own.
//   - force.lua, on nodes of both lists: they vote for both. The base brings the numbers
//     that the earlier list's locks had, which need not be on any node of the next one's
//     quorum.
//
// A round counts only while no node that forgot its answer can be back (window). An
// operator may die at any point, and the next one finishes. Any client puts the configuration
// in force on a node that is behind (View.catchUp).
//
// MaxTTL: a node that joins waits for the longest lease of the configuration in force, of the
// one before, and of one proposed (Record.Longest). So a longer MaxTTL counts before any
// node allows it, and a shorter one once a close, which proposes the same again, has replaced
// the one before.

// Change is one operator's attempt at one step. It is a value: Next returns what becomes of it.
type Change struct {
	Cluster string
	Gen     int             // of From
	From    Configuration   // in force
	Before  []string        // the list before From's
	Wanted  Configuration   // may be From: a close
	To      Configuration   // Wanted, or what another operator proposed; no names: not known yet
	Steps   []Configuration // to what the operator wants, this one first; none: it is in force, but maybe not everywhere
	Ballot  uint64          // 0: no round has begun
	Marks   []string        // by node of the client's list: the epoch of its settling
	Largest quorum.Token
	Began   clock.Instant // the round of settling; 0: not begun
	Asked   clock.Instant // the round of accepting; 0: not begun
	Until   clock.Instant // the end of the pause; 0: not settled
}

// Stage is how far a change is.
type Stage uint8

// String says it in a word or two.
func (s Stage) String() string {
	return [...]string{"settling", "waiting for the longest lease", "accepting", "putting in force", "waiting for the new node", "done"}[s]
}

// The stages, in their order.
const (
	Settling Stage = iota
	Pausing
	Accepting
	Forcing
	Joined // in force, and a new node is to join
	Changed
)

// Turn is what an operator does next.
type Turn struct {
	Stage Stage
	Do    []Task
	Until clock.Instant // of the pause
	Done  int           // nodes that have done this step
	Of    int           // as many are needed
	To    Configuration // that is in force, or going to be; no names: not known yet
	Err   error         // why it can't go on
}

// Task is a plan for one node.
type Task struct {
	Node int
	Plan Plan
}

// ErrContested is another operator's change at the same time.
var ErrContested = errors.New("redlock: another operator changes the configuration")

// Begun tells whether what is wanted is in force already.
func (c Change) Begun() bool { return c.To.equal(c.Wanted) }

// Next is what is to be done now. The nodes of both lists are among the client's.
func (c Change) Next(v View, now clock.Instant) (Change, Turn) {
	if in := v.inForce(c.Cluster); in.Gen > c.Gen {
		return c, c.force(v, in)
	}
	if err := c.overtaken(v); err != nil {
		return c, Turn{Err: err}
	}
	if c.Began != 0 && c.Until == 0 && now >= c.Began.Add(v.window()) || c.Until != 0 && c.Until <= now && len(c.standing(v)) < quorum.Size(len(c.From.Names)) ||
		c.Asked != 0 && now >= c.Asked.Add(v.window()) {
		c = Change{Cluster: c.Cluster, Gen: c.Gen, From: c.From, Before: c.Before, Wanted: c.Wanted, Steps: c.Steps} // nodes forgot, or did not answer: once more
	}
	if c.Ballot == 0 {
		c.Began, c.Marks, c.Ballot = now, make([]string, len(v.Names)), 1
		for _, o := range v.Nodes {
			if o.ofCluster(c.Cluster) && o.Record.Gen == c.Gen {
				c.Ballot = max(c.Ballot, o.Record.Ballot+1)
			}
		}
	}
	standing, needed := c.standing(v), quorum.Size(len(c.From.Names))
	turn := Turn{Done: len(standing), Of: needed}
	switch {
	case c.Until == 0 && len(standing) < needed:
		turn.Do = c.settle(v)
		return c, turn
	case c.Until == 0:
		c.To = c.Wanted
		latest := Proposed{}
		for _, i := range standing {
			o := v.Nodes[i]
			c.Largest = max(c.Largest, o.Largest)
			if o.Record.Proposed.Ballot > latest.Ballot {
				latest = o.Record.Proposed
				c.To = latest.Configuration
			}
		}
		c.Until = now.Add(v.longest())
	}
	if now < c.Until {
		return c, Turn{Stage: Pausing, To: c.To, Until: c.Until, Done: len(standing), Of: needed}
	}
	if c.Asked == 0 {
		c.Asked = now
	}
	return c, c.accept(v, standing)
}

// settle is the first step, on the nodes that have not done it.
func (c Change) settle(v View) (do []Task) {
	for i, o := range v.Nodes {
		rec := o.Record
		if !slices.Contains(c.From.Names, v.Names[i]) || !o.ofCluster(c.Cluster) || !o.member() {
			continue
		}
		switch {
		case rec.Gen < c.Gen:
			if in := v.inForce(c.Cluster); in.Gen == c.Gen {
				do = append(do, Task{i, forceOf(rec.Epoch, in)})
			}
		case !rec.equal(c.From):
		case rec.Ballot < c.Ballot:
			do = append(do, Task{i, Plan{Action: DoSettle, Record: Record{Epoch: rec.Epoch, Cluster: c.Cluster, Gen: c.Gen, Ballot: c.Ballot}}})
		}
	}
	return do
}

// overtaken is why an operator who has begun stops: another has, with a higher ballot.
func (c Change) overtaken(v View) error {
	for i, o := range v.Nodes {
		if c.Ballot != 0 && o.ofCluster(c.Cluster) && o.Record.Gen == c.Gen && o.Record.Ballot > c.Ballot {
			return fmt.Errorf("%w: %s has its ballot (%d): leave it to one, or run this again when it has ended", ErrContested, v.Names[i], o.Record.Ballot)
		}
	}
	return nil
}

// standing are the nodes that were settled by this ballot, and have not changed since.
func (c Change) standing(v View) (out []int) {
	for i, o := range v.Nodes {
		if c.Ballot != 0 && slices.Contains(c.From.Names, v.Names[i]) && o.ofCluster(c.Cluster) && o.member() && o.Counted &&
			o.Record.Gen == c.Gen && o.Record.Epoch == c.Marks[i] && o.Record.Ballot == c.Ballot && o.Record.equal(c.From) {
			out = append(out, i)
		}
	}
	return out
}

// accept is the third step, and the fourth where a quorum has done it.
func (c Change) accept(v View, standing []int) Turn {
	turn := Turn{Stage: Accepting, To: c.To, Of: quorum.Size(len(c.From.Names))}
	for _, i := range standing {
		if v.Nodes[i].Record.Proposed.Ballot == c.Ballot {
			turn.Done++
			continue
		}
		turn.Do = append(turn.Do, Task{i, Plan{Action: DoAccept, Record: Record{
			Epoch: c.Marks[i], Ballot: c.Ballot, Base: c.Largest, Proposed: Proposed{c.Ballot, c.To},
		}}})
	}
	if turn.Done >= turn.Of {
		return c.force(v, Record{Cluster: c.Cluster, Gen: c.Gen + 1, Configuration: c.To, Before: c.From.Names, BeforeMaxTTL: c.From.MaxTTL, Base: c.Largest})
	}
	return turn
}

// force is the fourth step, and done where quorums of both lists have it, and a node that is
// new in the list is a member, if the client has it.
func (c Change) force(v View, in Record) Turn {
	turn := Turn{Stage: Forcing, To: in.Configuration}
	has := func(name string) bool {
		i := slices.Index(v.Names, name)
		return i >= 0 && v.Nodes[i].ofCluster(c.Cluster) && v.Nodes[i].member() && v.Nodes[i].Record.Gen >= in.Gen
	}
	for i, o := range v.Nodes {
		if o.ofCluster(c.Cluster) && o.member() && o.Record.Gen < in.Gen {
			turn.Do = append(turn.Do, Task{i, forceOf(o.Record.Epoch, in)})
		}
	}
	for _, list := range [][]string{in.Before, in.Names} {
		if list == nil || len(without(list, v.Names)) > 0 { // the list before has a node that this client lacks
			continue
		}
		done := 0
		for _, name := range list {
			if has(name) {
				done++
			}
		}
		if of := quorum.Size(len(list)); turn.Of == 0 || done < of {
			turn.Done, turn.Of = done, of
		}
	}
	fresh := in.Before != nil && slices.ContainsFunc(in.Names, func(name string) bool {
		return slices.Contains(v.Names, name) && !slices.Contains(in.Before, name) && !has(name)
	})
	switch {
	case fresh && turn.Do == nil:
		turn.Stage = Joined
	case !fresh && turn.Done >= turn.Of:
		turn.Stage = Changed
	}
	return turn
}

// forceOf puts the configuration of that record in force on a node that has this epoch.
func forceOf(epoch string, in Record) Plan {
	return Plan{Action: DoForce, Record: Record{
		Epoch: epoch, Cluster: in.Cluster, Gen: in.Gen, Configuration: in.Configuration, Before: in.Before, BeforeMaxTTL: in.BeforeMaxTTL, Base: in.Base,
	}}
}

// inForce is the cluster's record with the latest configuration, as a member shows it.
func (v View) inForce(cluster string) (out Record) {
	for _, o := range v.Nodes {
		if o.ofCluster(cluster) && o.member() && (out.Names == nil || o.Record.Gen > out.Gen) {
			out = o.Record
		}
	}
	return out
}

// window is how long a round counts. A node that forgets in it is back after the shortest
// MaxTTL at the earliest; the half leaves room for drift, and for what is under way.
func (v View) window() time.Duration {
	least := v.longest()
	for _, o := range v.Nodes {
		if o.Recorded {
			least = min(least, o.Record.MaxTTL)
		}
	}
	return least / 2
}

// Wanted is what an operator wants of the configuration. The zero value is a close: clients of
// the list before are refused from then on.
type Wanted struct {
	Add, Remove []string      // nodes
	MaxTTL      time.Duration // 0: as it is
	Strict      *bool         // nil: as it is
}

// steps are the configurations from the record's to what is wanted, one node at a time:
// additions first, so that no list is smaller than it must be, and a close at the end, where a
// longer MaxTTL, a node that was taken out or, if that is what is wanted, an earlier list still
// counts.
func (w Wanted) steps(in Record) (out []Configuration) {
	at, was, held, before := in.Configuration, in.Before, in.MaxTTL, in.BeforeMaxTTL
	if w.MaxTTL != 0 {
		at.MaxTTL = time.Duration(clock.Milliseconds(w.MaxTTL)) * time.Millisecond
	}
	if w.Strict != nil {
		at.Strict = *w.Strict
	}
	step := func(names []string) {
		was, before, held = at.Names, held, at.MaxTTL
		at.Names = slices.Sorted(slices.Values(names))
		out = append(out, at)
	}
	for _, name := range without(w.Add, in.Names) {
		step(append(slices.Clone(at.Names), name))
	}
	for _, name := range w.Remove {
		if slices.Contains(in.Names, name) {
			step(without(at.Names, []string{name}))
		}
	}
	if len(out) == 0 && !at.equal(in.Configuration) {
		step(at.Names)
	}
	closes := w.none() && !slices.Equal(was, at.Names) || w.Remove != nil && len(without(was, at.Names)) > 0 || before > at.MaxTTL
	if closes && in.Gen+len(out) > 0 {
		out = append(out, at)
	}
	return out
}

// none tells whether it is a close.
func (w Wanted) none() bool {
	return len(w.Add)+len(w.Remove) == 0 && w.MaxTTL == 0 && w.Strict == nil
}

// NewChange is the next step to what an operator wants, by what the nodes show. It refuses
// what can't be, before anything is changed.
func NewChange(v View, w Wanted) (Change, error) {
	in := v.inForce(v.carried(w.Add))
	if in.Names == nil {
		return Change{}, fmt.Errorf("%w: no quorum of the nodes carries one cluster's id", fault.ErrNoQuorum)
	}
	steps := w.steps(in)
	if len(steps) == 0 && !v.rests(in) { // what was begun, and may be in force elsewhere, is finished
		steps = []Configuration{in.Configuration}
	}
	c := Change{Cluster: in.Cluster, Gen: in.Gen, From: in.Configuration, Wanted: in.Configuration, Before: in.Before, Steps: steps}
	if len(without(in.Names, v.Names)) > 0 {
		return c, fmt.Errorf("%w: the cluster's list is %s: give all of them, by their names (WithNodeNames, or --node-names)", fault.ErrMisconfigured, strings.Join(in.Names, ", "))
	}
	if len(steps) == 0 {
		c.To, c.Gen, c.From.Names = in.Configuration, in.Gen-1, in.Before
		return c, nil
	}
	c.Wanted = steps[0]
	for _, name := range without(w.Add, in.Names) {
		if err := v.addable(slices.Index(v.Names, name), c.Cluster); err != nil {
			return c, err
		}
	}
	for _, next := range steps {
		if len(next.Names) == 0 {
			return c, fmt.Errorf("%w: a cluster has one node at least", fault.ErrInvalidNode)
		}
		answering := 0
		for _, name := range next.Names {
			if o := v.Nodes[slices.Index(v.Names, name)]; !slices.Contains(in.Names, name) || o.ofCluster(c.Cluster) && o.member() {
				answering++
			}
		}
		if q := quorum.Size(len(next.Names)); answering < q {
			return c, fmt.Errorf("%w: of the %d nodes of the next list %d are members, and %d are needed", fault.ErrNoQuorum, len(next.Names), answering, q)
		}
	}
	return c, nil
}

// rests tells whether a quorum of the record's list shows that no change of it has begun: with the
// record, or behind it.
func (v View) rests(in Record) bool {
	n := 0
	for i, o := range v.Nodes {
		if slices.Contains(in.Names, v.Names[i]) && o.ofCluster(in.Cluster) && o.member() && (o.Record.Gen < in.Gen || !o.Record.Settled) {
			n++
		}
	}
	return n >= quorum.Size(len(in.Names))
}

// Fresh are the nodes that are to be added.
func (c Change) Fresh() []string {
	var all []string
	for _, next := range c.Steps {
		all = append(all, next.Names...)
	}
	return slices.Compact(slices.Sorted(slices.Values(without(all, c.From.Names))))
}

// Foretold is a step that is to come.
type Foretold struct {
	Words string
	Wait  time.Duration // at least
}

// Foretold are the steps.
func (c Change) Foretold(v View) (out []Foretold) {
	at, wait := c.From, v.longest()
	for _, next := range c.Steps {
		out = append(out, Foretold{at.changeTo(next), wait})
		wait = max(at.MaxTTL, next.MaxTTL)
		at = next
	}
	return out
}

// Reached tells whether the turn is the end of what the step wanted.
func (c Change) Reached(t Turn) bool { return t.To.equal(c.Wanted) }

// Words say what the step changes.
func (c Change) Words() string { return c.From.changeTo(c.Wanted) }

// addable is why node i can't be added; nil: it can.
func (v View) addable(i int, cluster string) error {
	o, name := v.Nodes[i], v.Names[i]
	switch {
	case !o.Answered:
		return fmt.Errorf("%w: %s does not answer: %s", fault.ErrNoQuorum, name, o.Cause)
	case o.Refused:
		return fmt.Errorf("%w: %s: %s", fault.ErrMisconfigured, name, o.Cause)
	case o.Replica:
		return fmt.Errorf("%w: %s is a replica: a node is a master of its own", fault.ErrMisconfigured, name)
	case o.Recorded && o.Record.Cluster != cluster:
		return fmt.Errorf("%w: %s belongs to another cluster (%s): give an empty server", fault.ErrMisconfigured, name, o.Record.Cluster)
	case o.Recorded:
		return fmt.Errorf("%w: %s has a record of this cluster: a node of the list has two addresses, or this is old data: then empty it, once no client has a list with it", fault.ErrMisconfigured, name)
	}
	return nil
}

// carried is the id that a quorum of the nodes of its own latest list carry, or empty. Nodes
// that are to be added have no say.
func (v View) carried(fresh []string) string {
	for k, o := range v.Nodes {
		if slices.Contains(fresh, v.Names[k]) && len(v.Names) > len(fresh) {
			continue
		}
		in, carriers := v.inForce(o.Record.Cluster), 0
		for i, other := range v.Nodes {
			if slices.Contains(in.Names, v.Names[i]) && other.ofCluster(in.Cluster) {
				carriers++
			}
		}
		if in.Names != nil && carriers >= quorum.Size(len(in.Names)) {
			return in.Cluster
		}
	}
	return ""
}
