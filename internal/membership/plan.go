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

// deed is what a client does next for a node that is to vote.
type deed uint8

const (
	doNothing deed = iota // it votes already, or only somebody else can help it
	doNotice              // put a notice on it
	doWait                // until plan.until
	doRead                // look at every node again: what was seen is older than the wait
	doPlace               // write replacements on other members, then look again
	doInstall             // make it a member, then verify it
	doAmend               // bring its record up to date, then verify it
	doLower               // one of the two steps of lower.lua; nobody plans it
)

// plan is the next deed, and why the node does not vote yet.
type plan struct {
	do    deed
	cause string // why it abstains, until when, and what would admit it

	misfit   bool          // the cause is a configuration: names that differ from the records'
	waiting  bool          // a wait is running, until until
	until    clock.Instant // of a wait
	notice   notice        // of an install: its conditions
	record   record        // of an install, without the epoch; of an amendment, what to add
	below    time.Duration // of an amendment that raises MaxTTL: what the record says
	binding  bool          // of an amendment that writes strict for this client's option
	founding bool          // the install is beyond the table: tokens lean on clocks once
	epoch    string        // of a lowering: the new one
	at       []int         // of doPlace: where
	places   []placement   // of doPlace
}

// proposal is what a founder brings of its own.
type proposal struct {
	cluster string       // a random id, the same in all its plans
	clock   quorum.Token // the wall clock, in microseconds
	admit   bool         // an operator's word that no lock made before is held
}

// next is what must happen next on node i, at now. Any client may ask, many at
// once, and any may die half way: each deed is one script on one node, which
// refuses when what it rests on has changed.
func (f fleet) next(i int, now clock.Instant, p proposal) plan {
	state, why := f.standing(i)
	switch state {
	case NodeMember:
		return f.amend(i, p)
	case NodeBlank:
		return f.rejoin(i, now, p, why)
	case NodeUnreachable, NodeJoining, NodeRetired, NodeForeign, NodeMisconfigured:
	}
	return plan{cause: why}
}

// amend brings a member's record up to date: MaxTTL before a client takes more,
// strict before a client with the option counts its vote, and what a quorum of the
// members has written of either and of retired and replaced nodes, so that a mark
// does not stay where it was first written.
func (f fleet) amend(i int, p proposal) plan {
	rec := f.sights[i].rec
	add, below := record{epoch: rec.epoch}, time.Duration(0)
	if rec.maxTTL < f.maxTTL {
		add.maxTTL, below = f.maxTTL, rec.maxTTL
	}
	for _, name := range f.retired() {
		if !slices.Contains(rec.retired, name) && f.proven(func(r record) bool { return slices.Contains(r.retired, name) }) {
			add.retired = append(add.retired, name)
		}
	}
	for _, p := range f.placements() {
		if !slices.Contains(rec.replaced, p) && f.proven(func(r record) bool { return slices.Contains(r.replaced, p) }) {
			add.replaced = append(add.replaced, p)
		}
	}
	mine := f.makesStrict(p)
	add.strict = !rec.strict && (mine || f.proven(func(r record) bool { return r.strict }))
	if add.maxTTL == 0 && !add.strict && add.retired == nil && add.replaced == nil {
		return plan{}
	}
	return plan{do: doAmend, record: add, below: below, binding: add.strict && mine}
}

// proven tells whether a quorum of members have it in their records.
func (f fleet) proven(has func(record) bool) bool {
	n := 0
	for i, s := range f.sights {
		if f.kin(i) && s.member() && has(s.rec) {
			n++
		}
	}
	return n >= quorum.Size(len(f.names))
}

// rejoin is the way of a blank node: notice, wait, then read, then install.
func (f fleet) rejoin(i int, now clock.Instant, p proposal, why string) plan {
	if f.sights[i].replica { // a notice on it would be gone with its master's data
		return plan{cause: why}
	}
	n, stands := f.sights[i].standingNotice()
	w := f.watches[i]
	if !stands || w.notice != n {
		return plan{do: doNotice, cause: f.hindered(i, why)}
	}
	until := f.due(i, p)
	if now < until {
		return plan{do: doWait, waiting: true, until: until, cause: f.waiting(i, now, p, why)}
	}
	var pl plan
	if f.byTable(i) {
		pl = f.joinByTable(i, until, p)
	} else {
		pl = f.found(i, now, p)
	}
	pl.notice = n
	why = f.hindered(i, why)
	if pl.cause == "" {
		pl.cause = why
	} else {
		pl.cause = why + "; " + pl.cause
	}
	return pl
}

// due is when node i's wait is over.
func (f fleet) due(i int, p proposal) clock.Instant {
	if p.admit {
		return f.watches[i].since
	}
	return f.watches[i].since.Add(f.wait())
}

// byTable tells whether enough other members answer for the ordinary way: one
// id only, or one that a quorum carries.
func (f fleet) byTable(i int) bool {
	return len(f.members(i, 0)) >= f.needed && (f.ours != "" || len(f.ids) == 1)
}

// joinByTable installs node i from what the other members know.
func (f fleet) joinByTable(i int, since clock.Instant, p proposal) plan {
	if pl, ok := f.refused(i, quorum.Size(len(f.names))); ok {
		return pl
	}
	others := slices.DeleteFunc(f.members(i, since), func(j int) bool { return !f.sights[j].counted })
	if len(others) < f.needed {
		return plan{do: doRead}
	}
	if pl, ok := f.named(i, others, quorum.Size(len(f.names))); !ok {
		return pl
	}
	rec := f.newRecord(p)
	for _, j := range others {
		rec.base = max(rec.base, f.sights[j].largest)
	}
	return plan{do: doInstall, record: rec}
}

// found installs node i where fewer than N-q+1 other members are left: in a new
// cluster, after a majority lost its memory, after founders raced. Then every
// node has its say, each blank one has been waited for, and what nobody can know
// any more is taken from the clock.
func (f fleet) found(i int, now clock.Instant, p proposal) plan {
	few := fmt.Sprintf("only %d of the other nodes are members, where %d are needed, so every node must answer",
		len(f.members(i, 0)), f.needed)
	for j := range f.names {
		switch state, why := f.standing(j); state {
		case NodeUnreachable, NodeForeign, NodeMisconfigured:
			return plan{cause: fmt.Sprintf("%s: %s: %s", few, f.names[j], why)}
		case NodeBlank:
			why = f.names[j] + ": " + f.hindered(j, why)
			switch w := f.watches[j]; {
			case f.sights[j].replica:
				return plan{cause: few + ": " + why}
			case w.nonce == "":
				return plan{do: doRead, cause: few + ": " + why + "; its wait has not begun"}
			case now < f.due(j, p):
				return plan{do: doRead, waiting: true, until: f.due(j, p), cause: few + ": " + why + ", and its wait goes on"}
			}
		case NodeMember, NodeRetired, NodeJoining:
		}
	}
	if who := f.operatorFor(); who != "" && !p.admit {
		return plan{cause: few + ", and " + who + " asks for an operator: Cluster.Admit (redlock nodes admit), when no lock made before is held"}
	}
	if pl, ok := f.refused(i, beyondTable); ok {
		return pl
	}
	if !f.readAfterWaits(p) {
		return plan{do: doRead}
	}
	if pl, ok := f.named(i, f.members(i, 0), beyondTable); !ok {
		return pl
	}
	for j := range f.names {
		if state, _ := f.standing(j); state == NodeBlank && f.names[j] < f.names[i] {
			return plan{do: doRead, cause: f.names[j] + " comes first"} // founders meet at one node, and see each other there
		}
	}
	rec := f.newRecord(p)
	if rec.cluster == "" {
		rec.cluster = p.cluster
	}
	rec.base = p.clock
	for _, s := range f.sights {
		rec.base = max(rec.base, s.largest)
	}
	return plan{do: doInstall, record: rec, founding: true}
}

// barred tells whether waiting does not help the blank node i: too few of the
// others are members, or may turn out to be, and one of those that must have
// their say instead shows what waiting does not mend.
func (f fleet) barred(i int) bool {
	hopeful, bad := 0, false
	for j := range f.names {
		bad = bad || errors.Is(f.fault(j), fault.ErrMisconfigured)
		switch state, _ := f.standing(j); state {
		case NodeForeign, NodeMisconfigured:
			bad = true
		case NodeMember, NodeUnreachable:
			if j != i {
				hopeful++
			}
		case NodeBlank, NodeJoining, NodeRetired:
		}
	}
	return bad && hopeful < f.needed
}

// readAfterWaits tells whether every node was read, its largest number too, after
// every blank one's wait.
func (f fleet) readAfterWaits(p proposal) bool {
	for i := range f.names {
		if state, _ := f.standing(i); state != NodeBlank {
			continue
		}
		for _, s := range f.sights {
			if !s.counted || s.sent < f.due(i, p) {
				return false
			}
		}
	}
	return true
}

// newRecord is the record of a node that joins, after its wait: no longer lease than
// the cluster allows now rests on it. It has all that is known of the cluster, the
// marks of retired nodes included, so that they outlive the nodes that bear
// them.
func (f fleet) newRecord(p proposal) record {
	return record{
		format: recordFormat, cluster: f.target, n: len(f.names), names: f.sorted(),
		maxTTL: f.allowed(), retired: f.retired(), replaced: f.placements(),
		strict: f.strictRecord(p),
	}
}

// beyondTable stands for the quorum where every node has its say.
const beyondTable = 0

// refused tells whether the rule on names keeps node i out already, by what was
// seen last: then nothing more need be read, and the cause is known to who asks.
func (f fleet) refused(i, quorum int) (plan, bool) {
	pl, ok := f.named(i, f.members(i, 0), quorum)
	return pl, !ok && pl.do == doNothing
}

// named checks the client's names against every record found, and says which
// replacement must be written first. A name that the records do not know joins
// only in the place of a retired one, once that stands on a quorum of the other
// members, or beyond the table on all of them.
func (f fleet) named(i int, others []int, quorum int) (plan, bool) {
	places := f.placements()
	for j, s := range f.sights {
		if !s.recorded || s.rec.gone || quorum != beyondTable && (j == i || !f.kin(j)) {
			continue
		}
		more, cause := f.vacancies(s.rec)
		if cause != "" {
			return plan{misfit: true, cause: fmt.Sprintf("the record of %s lists %s: %s", f.names[j], strings.Join(s.rec.names, ", "), cause)}, false
		}
		for _, p := range more {
			if !slices.Contains(places, p) {
				places = append(places, p)
			}
		}
	}
	var lacking []int
	for _, j := range others {
		if !slices.Contains(f.sights[j].rec.names, f.names[i]) {
			lacking = append(lacking, j)
		}
	}
	switch {
	case len(lacking) == 0, quorum != beyondTable && len(others)-len(lacking) >= quorum:
		return plan{}, true
	case len(others) < quorum:
		return plan{cause: fmt.Sprintf("it replaces another node, which %d other members must write down; %d answer", quorum, len(others))}, false
	}
	return plan{do: doPlace, at: lacking, places: places}, false
}

// stranger says which record of the cluster does not list the name; "": all do.
func (f fleet) stranger(name string) string {
	for i, s := range f.sights {
		if f.kin(i) && !s.rec.gone && !slices.Contains(f.current(s.rec.names), name) {
			return fmt.Sprintf("the record of %s lists %s, and not this name", f.names[i], strings.Join(s.rec.names, ", "))
		}
	}
	return ""
}

// vacancies pairs the retired names of the record that this client does not list
// with those of its names that the record does not know.
func (f fleet) vacancies(r record) ([]placement, string) {
	theirs, mine := f.current(r.names), f.sorted()
	var gone, fresh []string
	for _, name := range theirs {
		if !slices.Contains(mine, name) {
			gone = append(gone, name)
		}
	}
	for _, name := range mine {
		if !slices.Contains(theirs, name) {
			fresh = append(fresh, name)
		}
	}
	if len(gone) != len(fresh) {
		return nil, "two of its names stand for one place"
	}
	var out []placement
	for k, name := range gone {
		if !slices.Contains(f.retired(), name) {
			return nil, fmt.Sprintf("%s is not this client's, and was not retired: give all clients the same list, or Cluster.Retire it first", name)
		}
		out = append(out, placement{name, fresh[k]})
	}
	return out, ""
}

// waiting explains a wait: until when, why, and what would end it.
func (f fleet) waiting(i int, now clock.Instant, p proposal, why string) string {
	left := f.due(i, p).Sub(now)
	text := fmt.Sprintf("%s; it votes in %v, when every lease that it may have forgotten is over, or at once after Cluster.Admit (redlock nodes admit), when no lock made before is held",
		why, left.Round(100*time.Millisecond))
	if obstacle := f.obstacle(i); obstacle != "" {
		text += "; but " + obstacle
	}
	return text
}

// obstacle is what keeps the blank node i out when its wait is over, as far as what
// was seen tells; "": nothing. What its own last deed failed with is told beside it.
func (f fleet) obstacle(i int) string {
	if f.byTable(i) {
		pl, _ := f.refused(i, quorum.Size(len(f.names)))
		return pl.cause
	}
	few := fmt.Sprintf("fewer than %d other members are left, so ", f.needed)
	for j := range f.names {
		switch state, cause := f.standing(j); state {
		case NodeUnreachable, NodeForeign, NodeMisconfigured:
			return fmt.Sprintf("%severy node must answer, and %s does not: %s", few, f.names[j], cause)
		case NodeBlank:
			if f.sights[j].replica || f.fault(j) != nil {
				return fmt.Sprintf("%severy node must be waited for, and %s can't be: %s", few, f.names[j], f.hindered(j, cause))
			}
		case NodeMember, NodeJoining, NodeRetired:
		}
	}
	if pl, refused := f.refused(i, beyondTable); refused {
		return pl.cause
	}
	if who := f.operatorFor(); who != "" {
		return few + who + " asks for Admit"
	}
	return ""
}

// lowerArgs are lower.lua's arguments: the record as it was read, the new epoch, and
// MaxTTL, which is 0 in the second step.
func (p plan) lowerArgs() []any {
	return []any{p.record.cluster, p.record.epoch, p.epoch, p.record.maxTTL.Milliseconds()}
}

// amendArgs are amend.lua's arguments: the epoch of the record, and what is to
// be added to it.
func (r record) amendArgs() []any {
	args := []any{r.epoch, r.maxTTL.Milliseconds(), strings.Join(r.retired, "\n"), markArg(r.strict)}
	for _, p := range r.replaced {
		args = append(args, p.old, p.new)
	}
	return args
}
