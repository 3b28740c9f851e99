package membership

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// A node that forgot looks new, also to a client with an old list, all of whose nodes may be such.
// So that nobody founds a cluster beside the one that is there:
//
//   - A client that knows a configuration says so on each blank node of its list: a notice has the
//     claim. Founders go by it, and each claim that replaces another has them wait anew.
//   - An acquisition counts no vote while a node of the list that answers, and takes writes, is
//     blank without the claim, or was not looked at for long (Tracker.Claimed).
//   - What was founded beside all the same is seized by clients that a quorum serves: its epoch
//     ends, and nothing counts there until its leases are over.

// Claim is what its writer knew of the cluster. The zero value is none: the notice is plain.
type Claim struct {
	Cluster string
	Gen     int
	Configuration
	Lease  time.Duration // the longest that may still be held
	From   string        // as in the record
	Seized bool          // another cluster's record, or claim, stood there: its locks may still be held
}

// arg is the claim as a notice has it.
func (c Claim) arg() string {
	if c.Cluster == "" {
		return ""
	}
	return strings.Join([]string{
		c.Cluster, strconv.Itoa(c.Gen), strconv.FormatInt(c.Lease.Milliseconds(), 10), markArg(c.Seized), c.From, c.Configuration.arg(),
	}, "\n")
}

// claimOf is the inverse of arg. What can't be read is a claim all the same, of a cluster that
// nobody knows: an operator must look at it.
func claimOf(text string) (c Claim) {
	if text == "" {
		return Claim{}
	}
	part := append(strings.SplitN(text, "\n", 8), slices.Repeat([]string{""}, 7)...)
	gen, err := strconv.Atoi(part[1])
	lease, err2 := strconv.ParseInt(part[2], 10, 64)
	most, err3 := strconv.ParseInt(part[5], 10, 64)
	ms := func(n int64) time.Duration {
		return time.Duration(min(max(n, 1), int64(clock.MaxMaxTTL/time.Millisecond))) * time.Millisecond
	}
	if c.Names = sortedLines(part[7]); err != nil || err2 != nil || err3 != nil || part[0] == "" || len(c.Names) == 0 || CheckNames(c.Names) != nil {
		return Claim{Cluster: "of a claim that can't be read", Configuration: Configuration{Names: []string{"?"}}}
	}
	c.Cluster, c.Gen, c.Lease, c.Seized, c.From, c.MaxTTL, c.Strict = part[0], gen, ms(lease), part[3] != "", part[4], ms(most), part[6] != ""
	return c
}

// foundedFrom tells whether the founder of a record saw that cluster, at this generation or a later one.
func foundedFrom(from, cluster string, gen int) bool {
	for part := strings.Fields(from); len(part) >= 2; part = part[2:] {
		if at, err := strconv.Atoi(part[1]); err == nil && part[0] == cluster && at >= gen {
			return true
		}
	}
	return false
}

// replaces tells whether a client puts its claim in the place of the one that stands.
func (c Claim) replaces(old Claim) bool {
	switch {
	case c.Cluster == "":
		return false
	case old.Cluster == "", foundedFrom(c.From, old.Cluster, old.Gen):
		return true
	case old.Cluster == c.Cluster:
		return old.Gen < c.Gen || old.Gen == c.Gen && old.Lease < c.Lease
	}
	return slices.Equal(old.Names, c.Names) && old.Lease < c.Lease
}

// noticeAt is the notice that stands on node i, which is no member; zero: none does.
func (v View) noticeAt(i int) Notice {
	o := v.Nodes[i]
	if n, stands := o.StandingNotice(); stands && (!o.ofCluster(v.ours) || !o.member()) {
		return n
	}
	return Notice{}
}

// claimAt is the claim that stands on node i; zero: it has none, or only a plain notice.
func (v View) claimAt(i int) Claim { return claimOf(v.noticeAt(i).Claim) }

// learn is what this client knows of the configuration with what it sees now: never an earlier one.
// A node's word is enough for a later one of a cluster that is known; else a quorum's: it may be of
// a founding that was given up. Who has seen a later list than its own does not go back to that.
func (v View) learn(known Claim) Claim {
	switch r := v.newest; {
	case v.ours == "" || r.Names == nil:
	case r.Cluster == known.Cluster && r.Gen >= known.Gen,
		r.Cluster != known.Cluster && (known.Cluster == "" || slices.Equal(known.Names, v.sorted) || foundedFrom(r.From, known.Cluster, known.Gen)):
		known = v.claimBy(r)
	}
	for _, o := range v.Nodes { // of a list that is not this client's
		if known.Cluster != "" && o.Recorded && o.Record.Cluster == known.Cluster && o.Record.Gen > known.Gen {
			known = v.claimBy(o.Record)
		}
	}
	return known
}

// claimBy is what a client with that record claims. Records of earlier generations add no lease:
// what they allow, the record has as before, or in force.
func (v View) claimBy(r Record) Claim {
	c := Claim{Cluster: r.Cluster, Gen: r.Gen, Configuration: r.Configuration, Lease: r.Longest(), From: r.From}
	for _, o := range v.Nodes {
		if o.Recorded && o.Record.Cluster == r.Cluster && o.Record.Gen == r.Gen { // it may have a proposal
			c.Lease = max(c.Lease, o.Record.Longest())
		}
	}
	return c
}

// claimFor is what this client claims node i with; zero: it knows no configuration that has it.
func (v View) claimFor(i int) Claim {
	if !slices.Contains(v.Known.Names, v.Names[i]) {
		return Claim{}
	}
	c := v.Known
	if old := v.claimAt(i); old.Seized {
		c.Seized, c.Lease = true, max(c.Lease, old.Lease)
	}
	return c
}

// claim is the next step for the blank node i where it is another claim; DoNothing: none is due.
func (v View) claim(i int) Plan {
	if mine := v.claimFor(i); mine.replaces(v.claimAt(i)) {
		return Plan{Action: DoNotice, Notice: v.noticeAt(i), Claim: mine.arg()}
	}
	return Plan{}
}

// oldList says that the blank node i is kept from this client's list, by a claim or by what was seen
// of the cluster; "": it is not.
func (v View) oldList(i int) string {
	const admit = "; Cluster.Admit (redlock nodes admit) founds all the same, once no client of that cluster is left"
	c, mine := v.claimAt(i), strings.Join(v.sorted, ", ")
	switch {
	case c.Cluster != "" && (c.Cluster != v.Known.Cluster || c.Gen > v.Known.Gen) && !slices.Equal(c.Names, v.sorted) && !v.claimFor(i).replaces(c):
		return fmt.Sprintf("it is claimed by cluster %s, generation %d (%s): this client's list (%s) is old", c.Cluster, c.Gen, strings.Join(c.Names, ", "), mine) + admit
	case v.outlived() && !v.byTable(i):
		return fmt.Sprintf("this client has seen cluster %s at generation %d, whose list is %s: its own (%s) is old", v.Known.Cluster, v.Known.Gen, strings.Join(v.Known.Names, ", "), mine) + admit
	}
	return ""
}

// outlived tells whether this client has seen a later list than its own.
func (v View) outlived() bool { return v.Known.Cluster != "" && !slices.Equal(v.Known.Names, v.sorted) }

// beside tells whether node i, of this client's list, has what was founded beside its cluster:
// another's record or claim, of a list within its own, or of one that its own was founded from.
func (v View) beside(i int) bool {
	o, cluster, gen, names := v.Nodes[i], "", 0, []string(nil)
	switch state, _ := v.Standing(i); {
	case !slices.Contains(v.Known.Names, v.Names[i]):
		return false
	case state == Blank && !o.Recorded:
		c := v.claimAt(i)
		if cluster, gen, names = c.Cluster, c.Gen, c.Names; v.claimFor(i).replaces(c) {
			return false
		}
	case (state == Foreign || state == Misconfigured) && o.Recorded:
		cluster, gen, names = o.Record.Cluster, o.Record.Gen, o.Record.Names
	}
	return cluster != "" && cluster != v.Known.Cluster && (len(without(names, v.Known.Names)) == 0 || foundedFrom(v.Known.From, cluster, gen))
}

// seize ends what was founded beside this client's cluster on node i, where a quorum has its
// configuration in force, or on an operator's word; DoNothing: nothing was, or it may not.
func (v View) seize(i int, p Proposal) Plan {
	if p.Admit && v.Known.Cluster == "" { // a node's word is enough then
		v.Known = v.claimBy(v.newest)
	}
	inForce := 0
	for j, o := range v.Nodes {
		if v.inList(j) && o.ofCluster(v.Known.Cluster) && o.member() && o.Record.Gen == v.Known.Gen && slices.Equal(o.Record.Names, v.Known.Names) {
			inForce++
		}
	}
	if !v.beside(i) || !p.Admit && inForce < quorum.Size(len(v.sorted)) {
		return Plan{}
	}
	o, c := v.Nodes[i], v.claimFor(i)
	n := v.noticeAt(i)
	c.Seized, c.Lease = true, max(c.Lease, v.claimAt(i).Lease)
	if n.Run = o.Run; o.Recorded {
		c.Lease = max(c.Lease, o.Record.Longest())
	}
	return Plan{Action: DoSeize, Notice: n, Claim: c.arg(), Epoch: o.Record.Epoch}
}

// unclaimed is why no vote counts for an acquisition now; "": they do.
func (v View) unclaimed() string {
	for i, name := range v.Names {
		switch state, _ := v.Standing(i); {
		case v.ours == "" || !v.inList(i):
		case v.beside(i):
			return name + " has another cluster's record or claim, founded by an old list beside this one: clients that the cluster serves end it"
		case state == Blank && !v.Nodes[i].Replica && v.Fault(i) == nil && v.claimFor(i).replaces(v.claimAt(i)):
			return name + " forgot, and lacks this client's claim"
		}
	}
	return ""
}
