package membership

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Action is what a client does next for a node that is to vote.
type Action uint8

// The actions, in the order in which a node is taken in.
const (
	DoNothing Action = iota // it votes already, or only somebody else can help it
	DoNotice                // put a notice on it, or another claim with the one that stands
	DoWait                  // until Plan.Until
	DoRead                  // look at every node again: what was seen is older than the wait
	DoInstall               // make it a member, then verify it
	DoSeize                 // end what was founded beside the cluster
	DoForce                 // put a later configuration in force, then verify it
	DoSettle                // begin a change (change.go)
	DoAccept                // accept a proposal of the next configuration
)

// Plan is the next action, and why the node does not vote yet.
type Plan struct {
	Action Action
	Cause  string // why it abstains, until when, and what would admit it

	Misfit   bool          // the cause is a configuration: the list lacks the node
	Waiting  bool          // a wait is running, until Until
	Until    clock.Instant // of a wait
	Notice   Notice        // of an install, a claim or a seizing: its conditions
	Claim    string        // of a notice, or a seizing
	Record   Record        // of an install, without the epoch
	Founding *Founding     // the install is beyond the table: tokens lean on clocks once; nil: it is not
	Epoch    string        // of a settling: the new one; of an install over a survivor, or a seizing: the one that it has
}

// Proposal is what a founder brings of its own.
type Proposal struct {
	Cluster string       // a random id, the same in all plans of one founding
	Clock   quorum.Token // the wall clock, in microseconds
	Admit   bool         // an operator's word that no lock made before is held
	Begun   *Founding    // that it goes on with; nil: it has not begun
}

// Next is what must happen next on node i, at now. Any client may ask, many at
// once, and any may die half way: each action is one script on one node, which
// refuses when what it rests on has changed.
func (v View) Next(i int, now clock.Instant, p Proposal) Plan {
	if p.Begun != nil {
		return v.foundAt(i, p.Begun)
	}
	state, why := v.Standing(i)
	switch state {
	case Member, Behind:
		if pl := v.catchUp(i); pl.Action != DoNothing || state == Behind {
			pl.Cause = why
			return pl
		}
		return v.foundOver(i, now, p)
	case Blank:
		return v.rejoin(i, now, p, why)
	case Foreign, Misconfigured:
		pl := v.seize(i, p)
		if pl.Cause = why; pl.Action == DoSeize {
			pl.Cause = v.Hindered(i, why)
		}
		return pl
	case Unreachable, Joining, Unlisted:
	}
	return Plan{Cause: why}
}

// foundOver takes the member i over, as a founder, where no cluster has a quorum.
func (v View) foundOver(i int, now clock.Instant, p Proposal) Plan {
	if v.ours != "" || v.Pin != "" || !v.inList(i) || v.silent() {
		return Plan{}
	}
	pl := v.found(i, now, p)
	if pl.Action != DoNothing { // that there is no quorum of members says why
		pl.Cause = ""
	}
	return pl
}

// rejoin is the way of a blank node: notice, wait, then read, then install.
func (v View) rejoin(i int, now clock.Instant, p Proposal, why string) Plan {
	if v.Nodes[i].Replica { // a notice on it would be gone with its master's data
		return Plan{Cause: why}
	}
	unlisted := v.unlisted(i)
	if unlisted != "" && !slices.Contains(v.coming, v.Names[i]) {
		return Plan{Misfit: true, Cause: why + "; " + unlisted}
	}
	if cause := v.unpinned(i); cause != "" {
		return Plan{Misfit: v.pinLost(), Cause: why + "; " + cause}
	}
	n := v.noticeAt(i)
	pl := v.claim(i)
	if n.Nonce == "" || v.Waits[i].Notice != n {
		pl.Action = DoNotice
	}
	if pl.Action != DoNothing {
		pl.Until, pl.Cause = now.Add(v.waitOf(i)), v.Hindered(i, why)
		return pl
	}
	if pl = v.seize(i, p); pl.Action != DoNothing {
		pl.Cause = v.Hindered(i, why)
		return pl
	}
	if old := v.oldList(i); old != "" && !p.Admit {
		return Plan{Misfit: true, Cause: why + "; " + old}
	}
	until := v.due(i, p)
	if now < until {
		return Plan{Action: DoWait, Waiting: true, Until: until, Cause: v.waiting(i, until.Sub(now), why)}
	}
	if unlisted != "" { // its wait is over early
		return Plan{Misfit: true, Cause: why + "; " + unlisted}
	}
	if v.byTable(i) {
		pl = v.joinByTable(i, until)
	} else {
		pl = v.found(i, now, p)
	}
	pl.Notice = n
	why = v.Hindered(i, why)
	if pl.Cause == "" {
		pl.Cause = why
	} else {
		pl.Cause = why + "; " + pl.Cause
	}
	return pl
}

// unpinned is why a pinned client does nothing for the blank node i: it founds no cluster.
func (v View) unpinned(i int) string {
	if v.Pin == "" || v.byTable(i) {
		return ""
	}
	return fmt.Sprintf("cluster %s, to which this client is pinned (WithCluster), is not here: if its data are lost, Cluster.Admit (redlock nodes admit) by a client that is not pinned founds another: pin that", v.Pin)
}

// pinLost tells whether a pinned client sees all nodes, and none of its cluster.
func (v View) pinLost() bool {
	return v.Pin != "" && len(v.IDs) == 0 && !v.silent()
}

// silent reports whether a node of the list does not answer.
func (v View) silent() bool {
	for i, o := range v.Nodes {
		if v.inList(i) && !o.Answered {
			return true
		}
	}
	return false
}

// due is when node i's wait is over.
func (v View) due(i int, p Proposal) clock.Instant {
	if p.Admit && !v.changing() { // a change counts on the waits
		return v.Waits[i].Since
	}
	return v.Waits[i].Since.Add(v.waitOf(i))
}

// byTable tells whether enough other members answer for the ordinary way: one
// id only, or one that a quorum carries.
func (v View) byTable(i int) bool {
	return v.enough(i, v.Members(i, 0)) && (v.ours != "" || len(v.IDs) == 1)
}

// joinByTable installs node i from what the other members know.
func (v View) joinByTable(i int, since clock.Instant) Plan {
	others := slices.DeleteFunc(v.Members(i, since), func(j int) bool { return !v.Nodes[j].Counted })
	if !v.enough(i, others) {
		return Plan{Action: DoRead}
	}
	rec := v.withList(Record{Format: RecordFormat, Cluster: v.target})
	for _, j := range others {
		rec.Base = max(rec.Base, v.Nodes[j].Largest)
	}
	return Plan{Action: DoInstall, Record: rec}
}

// found founds the cluster, a new one or anew: where no id has a quorum of members, and no node
// can join by the table. Then every node of the list has its say, each blank one has been waited
// for, and what nobody can know any more is taken from the clock. Node i is installed first, if
// its name is the smallest: founders meet there, and see each other.
func (v View) found(i int, now clock.Instant, p Proposal) Plan {
	few := fmt.Sprintf("only %d of the other nodes are members, where %d are needed, so every node must answer",
		len(v.Members(i, 0)), v.Needed(len(v.sorted)))
	for _, name := range v.sorted {
		j := slices.Index(v.Names, name)
		switch state, why := v.Standing(j); state {
		case Unreachable, Foreign, Misconfigured, Behind:
			return Plan{Cause: fmt.Sprintf("%s: %s: %s", few, name, why)}
		case Blank:
			why = name + ": " + v.Hindered(j, why)
			switch w := v.Waits[j]; {
			case v.Nodes[j].Replica:
				return Plan{Cause: few + ": " + why}
			case w.Notice.Nonce == "":
				return Plan{Action: DoRead, Cause: few + ": " + why + "; its wait has not begun"}
			case now < v.due(j, p):
				return Plan{Action: DoRead, Waiting: true, Until: v.due(j, p), Cause: few + ": " + why + ", and its wait goes on"}
			case v.byTable(j):
				return Plan{Action: DoRead, Cause: name + " joins first"}
			case v.oldList(j) != "" && !p.Admit:
				return Plan{Misfit: true, Cause: few + ": " + name + ": " + v.oldList(j)}
			}
		case Member, Joining, Unlisted:
		}
		if r := v.Nodes[j].Record; v.Nodes[j].Recorded && !slices.Equal(r.Names, v.sorted) {
			return Plan{Cause: fmt.Sprintf("%s: the record of %s has another list, %s", few, name, strings.Join(r.Names, ", "))}
		}
	}
	if who := v.operatorFor(); who != "" && !p.Admit {
		return Plan{Cause: few + ", and " + who + " asks for an operator: Cluster.Admit (redlock nodes admit --strict-recovery), when no lock made before is held"}
	}
	if v.outlived() && !p.Admit {
		return Plan{Misfit: true, Cause: few + ", and this client's list is old"}
	}
	if now < v.Rival {
		return Plan{Action: DoRead, Waiting: true, Until: v.Rival, Cause: few + ", and another client founds the cluster just now"}
	}
	if !v.readAfterWaits(p) {
		return Plan{Action: DoRead}
	}
	begun := Founding{Record: v.foundingRecord(p), Marks: make([]string, len(v.Names))}
	for j := range begun.Marks {
		begun.Marks[j] = v.mark(j)
	}
	return v.foundAt(i, &begun)
}

// Founding is a founding under way: what each node of the list gets, survivors too, with an id
// that nobody knew before, and what each showed when it was decided.
type Founding struct {
	Record Record
	Marks  []string
}

// foundAt goes on: with node i, if it is the next.
func (v View) foundAt(i int, f *Founding) Plan {
	for _, name := range v.sorted {
		switch j := slices.Index(v.Names, name); {
		case v.hasJoined(j, f):
		case j == i:
			pl := Plan{Action: DoInstall, Record: f.Record, Founding: f, Notice: v.Nodes[i].Notice}
			if o := v.Nodes[i]; o.member() {
				pl.Notice, pl.Epoch = Notice{Run: o.Run}, o.Record.Epoch
			}
			return pl
		default:
			return Plan{Action: DoRead, Waiting: true, Cause: name + " comes first"}
		}
	}
	return Plan{}
}

// hasJoined tells whether node j has been installed by the founding.
func (v View) hasJoined(j int, f *Founding) bool {
	return v.Nodes[j].ofCluster(f.Record.Cluster) && v.Nodes[j].member()
}

// mark is what an install of node j rests on.
func (v View) mark(j int) string {
	if o := v.Nodes[j]; !o.member() {
		return o.Notice.Nonce + " " + o.Notice.Run + "\n" + o.Notice.Claim
	}
	return v.Nodes[j].Record.Epoch
}

// Stands tells whether the founding can go on: nodes are left, and as they were.
func (f *Founding) Stands(v View) bool {
	left := false
	if !slices.Equal(f.Record.Names, v.sorted) {
		return false
	}
	for _, name := range v.sorted {
		if j := slices.Index(v.Names, name); !v.hasJoined(j, f) {
			if left = true; !v.Nodes[j].Answered || v.mark(j) != f.Marks[j] {
				return false
			}
		}
	}
	return left
}

// foundingRecord is the first of a cluster: with what is known of the configuration, by records,
// claims and from before, or what this client was told.
func (v View) foundingRecord(p Proposal) Record {
	rec := Record{Format: RecordFormat, Cluster: p.Cluster, Base: p.Clock}
	rec.Configuration = Configuration{Names: v.sorted, MaxTTL: v.MaxTTL, Strict: v.Strict}
	seen := []Claim{v.Known}
	for i, o := range v.Nodes {
		rec.Base = max(rec.Base, o.Largest)
		seen = append(seen, v.claimAt(i), v.claimBy(o.Record))
	}
	var known Claim
	var from []string
	for _, c := range seen {
		if c.Cluster != "" {
			from = append(from, c.Cluster+" "+strconv.Itoa(c.Gen))
		}
		if slices.Equal(c.Names, v.sorted) && c.replaces(known) {
			known, rec.Configuration = c, c.Configuration
		}
	}
	slices.Sort(from)
	rec.From = strings.Join(slices.Compact(from), " ")
	if most := max(v.longest(), v.Known.Lease); most > rec.MaxTTL { // until a close: a lowering, or a raise, had begun
		rec.Before, rec.BeforeMaxTTL = rec.Names, most
	}
	return rec
}

// Barred tells whether waiting does not help the blank node i: too few of the
// others are members, or may turn out to be, and one of those that must have
// their say instead shows what waiting does not mend.
func (v View) Barred(i int) bool {
	hopeful := 0
	for j := range v.Names {
		if state, _ := v.Standing(j); j != i && v.inList(j) && (state == Member || state == Unreachable) {
			hopeful++
		}
	}
	return hopeful < v.Needed(len(v.sorted)) && len(v.misfits()) > 0
}

// misfits are the nodes that show what waiting does not mend, each with what it is.
func (v View) misfits() []string {
	var out []string
	for j, name := range v.Names {
		if state, _ := v.Standing(j); state == Foreign || state == Misconfigured || errors.Is(v.Fault(j), fault.ErrMisconfigured) {
			out = append(out, fmt.Sprintf("%s (%s)", name, state))
		}
	}
	return out
}

// readAfterWaits tells whether every node was read, its largest number too, after
// every blank one's wait.
func (v View) readAfterWaits(p Proposal) bool {
	for i := range v.Names {
		if state, _ := v.Standing(i); state != Blank || !v.inList(i) {
			continue
		}
		for j, o := range v.Nodes {
			if v.inList(j) && (!o.Counted || o.Sent < v.due(i, p)) {
				return false
			}
		}
	}
	return true
}

// waiting explains a wait: how long it is, why, and what would end it.
func (v View) waiting(i int, left time.Duration, why string) string {
	if obstacle, _ := v.Obstacle(i); obstacle != "" {
		return why + "; " + obstacle
	}
	return fmt.Sprintf("%s; it votes in %v, when every lease that it may have forgotten is over%s", why, left.Round(100*time.Millisecond), v.orAdmit())
}

// orAdmit is what ends a wait at once. Of a cluster that is there, locks may be held.
func (v View) orAdmit() string {
	if len(v.IDs) > 0 || v.changing() {
		return ""
	}
	return ", or at once after Cluster.Admit (redlock nodes admit), when no lock made before is held"
}

// Obstacle is what keeps the blank node i out when its wait is over, as far as what
// was seen tells; "": nothing. What its own last action failed with is told beside it.
// misfit tells that the records have another node in its place, which no wait mends.
func (v View) Obstacle(i int) (cause string, misfit bool) {
	if cause := cmp.Or(v.unlisted(i), v.lacks(v.elsewhere(), i)); cause != "" {
		return cause, true
	}
	if cause := v.unpinned(i); cause != "" {
		return cause, v.pinLost()
	}
	if old := v.oldList(i); old != "" {
		return old, true
	}
	if v.byTable(i) {
		return "", false
	}
	few := fmt.Sprintf("fewer than %d other members are left, so ", v.Needed(len(v.sorted)))
	for j := range v.Names {
		if !v.inList(j) {
			continue
		}
		switch state, cause := v.Standing(j); state {
		case Unreachable, Foreign, Misconfigured, Behind:
			return fmt.Sprintf("%severy node must answer, and %s does not: %s", few, v.Names[j], cause), false
		case Blank:
			if v.Nodes[j].Replica || v.Fault(j) != nil {
				return fmt.Sprintf("%severy node must be waited for, and %s can't be: %s", few, v.Names[j], v.Hindered(j, cause)), false
			}
		case Member, Joining, Unlisted:
		}
	}
	if who := v.operatorFor(); who != "" {
		return few + who + " asks for Cluster.Admit (redlock nodes admit --strict-recovery)", false
	}
	return "", false
}

// SettleArgs are settle.lua's arguments: the epoch of the record, the new one, the
// generation, and the ballot.
func (p Plan) SettleArgs() []any {
	return []any{p.Record.Epoch, p.Epoch, p.Record.Gen, p.Record.Ballot}
}

// AcceptArgs are accept.lua's arguments.
func (r Record) AcceptArgs() []any {
	return []any{r.Epoch, r.Ballot, r.Base.String(), r.Proposed.Configuration.arg()}
}

// ForceArgs are force.lua's arguments, with a new epoch.
func (r Record) ForceArgs(fresh string) []any {
	return []any{
		r.Epoch, fresh, r.Gen, strings.Join(r.Names, "\n"), r.MaxTTL.Milliseconds(), markArg(r.Strict),
		strings.Join(r.Before, "\n"), r.BeforeMaxTTL.Milliseconds(), r.Base.String(),
	}
}
