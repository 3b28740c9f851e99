package membership

import (
	"errors"
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
//   - A client that knows a configuration says so on each blank node of its list: the notice bears
//     the claim, and an install is bound to both. Founders go by it.
//   - An acquisition counts no vote while a node of the list that answers, and takes writes, is
//     blank without the claim, or was not looked at for long (Tracker.Claimed).
//   - What was founded beside all the same is seized by clients that a quorum serves: its epoch
//     ends, and nothing counts there until its leases are over.

// Claim is what its writer knew of the cluster. A plain notice bears the zero value.
type Claim struct {
	Cluster string
	Gen     int
	Configuration
	Lease  time.Duration // the longest that may still be held
	From   string        // of the record
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
	var faults []error
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		faults = append(faults, err)
		return n
	}
	ms := func(text string) time.Duration {
		return time.Duration(min(max(number(text), 1), int64(clock.MaxMaxTTL/time.Millisecond))) * time.Millisecond
	}
	c = Claim{Cluster: part[0], Gen: int(number(part[1])), Lease: ms(part[2]), Seized: part[3] != "", From: part[4]}
	c.Configuration = Configuration{sortedLines(part[7]), ms(part[5]), part[6] != ""}
	if errors.Join(append(faults, CheckNames(c.Names))...) != nil || c.Cluster == "" || len(c.Names) == 0 {
		return Claim{Cluster: "of a claim that can't be read", Configuration: Configuration{Names: []string{"?"}}}
	}
	return c
}

// foundedFrom reports whether a founder who saw this saw that cluster, at the generation or a later one.
func foundedFrom(from, cluster string, gen int) bool {
	for part := strings.Fields(from); len(part) >= 2; part = part[2:] {
		if at, err := strconv.Atoi(part[1]); err == nil && part[0] == cluster && at >= gen {
			return true
		}
	}
	return false
}

// replaces reports whether the claim is put where old stands.
func (c Claim) replaces(old Claim) bool {
	switch {
	case c.Cluster == "":
		return false
	case old.Cluster == "", foundedFrom(c.From, old.Cluster, old.Gen):
		return true
	case old.Cluster == c.Cluster:
		return old.Gen < c.Gen || old.Gen == c.Gen && old.Lease < c.Lease
	case foundedFrom(old.From, c.Cluster, c.Gen):
		return false
	}
	return slices.Equal(old.Names, c.Names) && old.Lease < c.Lease
}

// noticeAt returns the notice that stands on node i. A member has none.
func (v View) noticeAt(i int) Notice {
	o := v.Nodes[i]
	if n, stands := o.StandingNotice(); stands && (!o.ofCluster(v.ours) || !o.member()) {
		return n
	}
	return Notice{}
}

// claimAt returns the claim that stands on node i: zero without one.
func (v View) claimAt(i int) Claim { return claimOf(v.noticeAt(i).Claim) }

// learn returns the latest configuration that this client has seen, now or before. For a later
// generation of a known cluster one node is enough. For another cluster it takes a quorum: one node
// may have it of a founding that was given up. A client that has seen a later list than its own does
// not go back to that.
func (v View) learn(known Claim) Claim {
	switch r := v.newest; {
	case v.ours == "" || r.Names == nil:
	case r.Cluster == known.Cluster && r.Gen >= known.Gen,
		r.Cluster != known.Cluster && (known.Cluster == "" || slices.Equal(known.Names, v.sorted) || known.within(r.Names) && !foundedFrom(known.From, r.Cluster, r.Gen) || foundedFrom(r.From, known.Cluster, known.Gen)):
		known = v.claimBy(r)
	}
	for _, o := range v.Nodes { // of a list that is not this client's
		if known.Cluster != "" && o.Record.Cluster == known.Cluster && o.Record.Gen > known.Gen {
			known = v.claimBy(o.Record)
		}
	}
	return known
}

// claimBy returns the claim of a client that goes by the record. Records of earlier generations add
// no lease: the record says what was allowed before.
func (v View) claimBy(r Record) Claim {
	c := Claim{Cluster: r.Cluster, Gen: r.Gen, Configuration: r.Configuration, Lease: r.Longest(), From: r.From}
	for _, o := range v.Nodes {
		if o.Record.Cluster == r.Cluster && o.Record.Gen == r.Gen { // it may have a proposal
			c.Lease = max(c.Lease, o.Record.Longest())
		}
	}
	return c
}

// claimFor returns this client's claim of node i: zero unless the configuration that it knows lists it.
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

// claim plans this client's claim of the blank node i: DoNothing where what stands stays.
func (v View) claim(i int) Plan {
	pl := Plan{Notice: v.noticeAt(i)}
	if mine := v.claimFor(i); mine.replaces(v.claimAt(i)) {
		pl.Action, pl.Claim = DoNotice, mine.arg()
	}
	return pl
}

// oldList says why this client's list is too old to found on the blank node i, by the claim there or
// by what this client has seen; "" if it is not.
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

// outlived reports whether this client has seen a later list than its own.
func (v View) outlived() bool { return v.Known.Cluster != "" && !slices.Equal(v.Known.Names, v.sorted) }

// beside reports whether another cluster was founded, or claimed, on node i beside this client's: by
// a list within its own, or one from which its own was founded.
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
	case state == Foreign, state == Misconfigured:
		cluster, gen, names = o.Record.Cluster, o.Record.Gen, o.Record.Names
	}
	return cluster != "" && cluster != v.Known.Cluster && (len(without(names, v.Known.Names)) == 0 || foundedFrom(v.Known.From, cluster, gen))
}

// Beside reports whether node i has what was founded beside the cluster, by what the view shows alone.
func (v View) Beside(i int) bool {
	v.Known = v.learn(v.Known)
	return v.beside(i)
}

// seize plans the end of what was founded beside this client's cluster on node i. It takes a quorum
// with this client's configuration in force, or an operator's word; else DoNothing.
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
	o, n, c := v.Nodes[i], v.noticeAt(i), v.claimFor(i)
	n.Run = o.Run
	c.Seized, c.Lease = true, max(c.Lease, v.besideFor(i))
	return Plan{Action: DoSeize, Notice: n, Claim: c.arg(), Epoch: o.Record.Epoch}
}

// besideFor returns the longest lease of the record and the claim that node i shows.
func (v View) besideFor(i int) time.Duration {
	return max(v.claimAt(i).Lease, v.Nodes[i].Record.Longest())
}

// unclaimed says why no vote counts for an acquisition now; "" if votes count.
func (v View) unclaimed() string {
	for i, name := range v.Names {
		switch state, _ := v.Standing(i); {
		case !v.inList(i):
		case v.beside(i):
			return name + " has another cluster's record or claim, founded by an old list beside this one: clients that the cluster serves end it"
		case state == Blank && !v.Nodes[i].Replica && v.Fault(i) == nil && v.claimFor(i).replaces(v.claimAt(i)):
			return name + " forgot, and lacks this client's claim"
		}
	}
	return ""
}

// Exposed says why a client with an older list of the cluster that a quorum carries, and no pin, could
// found another on node i, and what an operator does about it; "" where none could, as far as is seen.
// It is empty, and no claim keeps an older list away. Nobody claims what the list does not have; after
// a change such a node may have been taken out, or is new: no record tells.
func (v View) Exposed(i int) (why, remedy string) {
	o := v.Nodes[i]
	v.Known = v.learn(v.Known)
	claim := v.claimAt(i)
	state, _ := v.standing(i)
	if v.ours == "" || v.Known.Cluster != v.ours || state != Blank || o.Recorded || o.Replica || v.Fault(i) != nil ||
		slices.Equal(claim.Names, v.Known.Names) || !v.Known.replaces(claim) {
		return "", ""
	}
	const founds = "a client with an old list and no pin could found another cluster there"
	remedy = "pin all clients (WithCluster, REDLOCK_CLUSTER=" + v.ours + "), or take old lists away"
	switch {
	case slices.Contains(v.Known.Names, v.Names[i]):
		return "it lacks the cluster's claim: " + founds, "have it claimed, Cluster.Join (redlock nodes join --wait), and " + remedy
	case v.newest.Gen == 0, slices.Contains(v.coming, v.Names[i]):
		return "", ""
	}
	return "it is empty: if it was taken out, " + founds, "add it if it is new, else stop it, " + remedy
}
