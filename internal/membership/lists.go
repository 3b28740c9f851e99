package membership

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumkit/redlock/internal/quorum"
)

// Lists of nodes, one a generation. A change goes from one generation to the next
// (change.go), and a node votes for clients of its record's list, and of the list before
// that until the next change has begun. A record says so under its epoch: every write that
// changes which lists a node votes for begins a new one. A client has nodes, and goes by one of the
// lists whose nodes it has all of (goesBy), name by name.

// GoingBy is the configuration of a client that has seen this of its nodes, and nothing before.
func (c Config) GoingBy(nodes []Observation) Config {
	c.sorted = c.goesBy(nodes, Claim{})
	return c
}

// goesBy returns the list that a client with these nodes goes by, after what they showed: that of
// the newest configuration that it knows, if it has all nodes of that and a quorum of them have it
// in force; until then an earlier one that a quorum votes by. From the newest it does not go back.
// Of several clusters a client that knows none takes the one with the longest list, since what an
// old list founded beside a cluster is part of that; of two as long neither.
func (c Config) goesBy(nodes []Observation, known Claim) []string {
	newest := map[string]Claim{} // by cluster
	take := func(k Claim) {
		if old, seen := newest[k.Cluster]; k.Cluster != "" && len(k.Names) > 0 && (c.Pin == "" || c.Pin == k.Cluster) && (!seen || old.Gen < k.Gen) {
			newest[k.Cluster] = k
		}
	}
	take(known)
	for _, o := range nodes {
		if r := o.Record; o.Recorded {
			take(Claim{Cluster: r.Cluster, Gen: r.Gen, Configuration: r.Configuration, From: r.From})
		} else if n, stands := o.StandingNotice(); stands {
			take(claimOf(n.Claim))
		}
	}
	var found [][]string
	for cluster, k := range newest {
		old := foundedFrom(known.From, cluster, k.Gen) // founded anew since
		for _, other := range newest {
			old = old || other.Cluster != cluster && foundedFrom(other.From, cluster, k.Gen) && c.carry(nodes, other)
		}
		if old || known.Cluster != "" && cluster != known.Cluster && !foundedFrom(k.From, known.Cluster, known.Gen) && (!known.within(k.Names) || !c.carry(nodes, k)) {
			continue
		}
		if list := c.listOf(nodes, k, known); list != nil {
			found = append(found, list)
		}
	}
	slices.SortFunc(found, func(a, b []string) int { return cmp.Or(len(b)-len(a), slices.Compare(a, b)) })
	if found = slices.CompactFunc(found, slices.Equal); len(found) == 0 || len(found) > 1 && len(found[0]) == len(found[1]) {
		return c.sorted
	}
	return found[0]
}

// listOf returns the list of this cluster that the client goes by, if it takes this for the newest;
// nil if it has no list of which it has all nodes. While nodes show an earlier configuration, the
// newest may be on one node alone, or as good as lost with that.
func (c Config) listOf(nodes []Observation, newest, known Claim) []string {
	mine := func(list []string) bool { return len(list) > 0 && len(without(list, c.Names)) == 0 }
	if mine(newest.Names) && known.Cluster == newest.Cluster && slices.Equal(newest.Names, c.sorted) {
		return newest.Names
	}
	lists, before := [][]string{newest.Names}, [][]string(nil)
	for _, o := range nodes {
		if o.Recorded && o.Record.Cluster == newest.Cluster {
			if before = append(before, o.Record.Before); o.Record.Gen < newest.Gen {
				lists = append(lists, o.Record.Names)
			}
		}
	}
	lists = slices.DeleteFunc(lists, func(list []string) bool { return !mine(list) })
	for _, list := range lists {
		votes := 0
		for i, o := range nodes {
			if slices.Contains(list, c.Names[i]) && o.Recorded && o.Record.Cluster == newest.Cluster && o.Record.votesBy(list) {
				votes++
			}
		}
		if votes >= quorum.Size(len(list)) {
			return list
		}
	}
	for _, list := range append(lists, before...) {
		if mine(list) {
			return list
		}
	}
	return nil
}

// within reports whether the claim's list is part of a longer one: its cluster was founded beside that
// of the longer list, if both are there.
func (c Claim) within(list []string) bool {
	return len(without(c.Names, list)) == 0 && len(c.Names) < len(list)
}

// keeps reports whether node i, which the list does not have any more, votes for locks of the list
// before, which go over.
func (v View) keeps(i int) bool {
	lists := v.listsOf(v.Nodes[i].Record)
	return lists[0] != lists[1] && lists[1].Has(i)
}

// carry reports whether a quorum of a cluster's list shows that it is of the cluster.
func (c Config) carry(nodes []Observation, k Claim) bool {
	carriers := 0
	for i, o := range nodes {
		if slices.Contains(k.Names, c.Names[i]) && o.ofCluster(k.Cluster) {
			carriers++
		}
	}
	return carriers >= quorum.Size(len(k.Names))
}

// bits returns a list as the rounds have it.
func (c Config) bits(list []string) (out quorum.List) {
	if len(list) == len(c.Names) {
		return 0
	}
	for i, name := range c.Names {
		if slices.Contains(list, name) {
			out |= 1 << i
		}
	}
	return out
}

// listsOf returns the lists by which a node with this record votes for this client, which goes by
// one of them.
func (c Config) listsOf(r Record) [2]quorum.List {
	out := [2]quorum.List{c.bits(c.sorted), c.bits(c.sorted)}
	for _, list := range [][]string{r.Names, r.Before} {
		if len(list) > 0 && len(without(list, c.Names)) == 0 && !slices.Equal(list, c.sorted) && (slices.Equal(list, r.Names) || !r.Settled) {
			out[1] = c.bits(list)
		}
	}
	return out
}

// accepts reports whether a node with this record votes for a client of our list.
func (c Config) accepts(r Record) bool { return r.votesBy(c.sorted) }

// votesBy reports whether a node with this record votes for clients that go by that list.
func (r Record) votesBy(list []string) bool {
	return slices.Equal(r.Names, list) || !r.Settled && slices.Equal(r.Before, list)
}

// ErrNextList is with the reason of a node that votes for clients of another list, from which a
// change leads to ours, or back: Cluster.Change, by a client with the longer one.
var ErrNextList = errors.New("a change of the list leads to this client's")

// nextTo reports whether the node's list differs from ours by one node, which one of them lacks.
func (c Config) nextTo(o Observation) bool {
	r := o.Record
	return o.Recorded && !o.Refused && len(without(r.Names, c.sorted))+len(without(c.sorted, r.Names)) == 1
}

// latest is the target cluster's record with the latest configuration, as an answering node
// shows it. That was decided, no matter what has become of the node.
func (v View) latest() (out Record) {
	for _, o := range v.Nodes {
		if o.ofCluster(v.target) && (out.Names == nil || o.Record.Gen > out.Gen || o.Record.Gen == out.Gen && o.Record.Settled) {
			out = o.Record
		}
	}
	return out
}

// ofCluster tells whether an answering node shows a record of that cluster.
func (o Observation) ofCluster(id string) bool {
	return id != "" && o.Answered && o.Recorded && o.Record.Cluster == id
}

// Newest is the cluster's record with the latest configuration; its Names are nil if there is none.
func (v View) Newest() Record { return v.newest }

// behind tells whether the record is of an earlier list, that is not ours.
func (v View) behind(o Observation) bool {
	return o.ofCluster(v.target) && o.Record.Gen < v.newest.Gen && !v.accepts(o.Record)
}

// atNewest tells whether an answering node shows the latest list.
func (v View) atNewest(o Observation) bool {
	return o.ofCluster(v.target) && o.Record.Gen == v.newest.Gen
}

// catchUp brings a member's configuration up to date, from another member.
func (v View) catchUp(i int) Plan {
	rec := v.Nodes[i].Record
	if in := v.inForce(rec.Cluster); in.Gen == v.newest.Gen && in.Gen > rec.Gen {
		return forceOf(rec.Epoch, in)
	}
	return Plan{}
}

// wanted reports whether node i is to be a member: of the list that this client goes by, of the
// newest, or of one that it makes.
func (v View) wanted(i int) bool {
	return v.inList(i) || slices.Contains(v.newest.Names, v.Names[i]) || slices.Contains(v.coming, v.Names[i])
}

// inList tells whether the list that this client goes by has node i.
func (v View) inList(i int) bool { return slices.Contains(v.sorted, v.Names[i]) }

// unlisted is why node i is not taken in: the latest list does not have it.
func (v View) unlisted(i int) string { return v.lacks(v.newest, i) }

// lacks says that the record's list does not have node i; "": it has, or there is no record.
func (v View) lacks(in Record, i int) string {
	if in.Names == nil || slices.Contains(in.Names, v.Names[i]) {
		return ""
	}
	return fmt.Sprintf("the cluster's list of generation %d (%s) does not have it: Cluster.Change (redlock nodes change --add) puts it there",
		in.Gen, strings.Join(in.Names, ", "))
}

// elsewhere is the record of a cluster that a quorum of our nodes is of, by another list than
// ours; zero if there is none.
func (v View) elsewhere() Record {
	for _, o := range v.Nodes {
		carriers := 0
		for _, other := range v.Nodes {
			if other.ofCluster(o.Record.Cluster) {
				carriers++
			}
		}
		if v.newest.Names == nil && carriers >= quorum.Size(len(v.sorted)) {
			return o.Record
		}
	}
	return Record{}
}

// lists are those that a quorum may go by: the latest, the one before it, settled or not,
// and those that were proposed after it.
func (v View) lists() [][]string {
	out := [][]string{v.newest.Names, v.newest.Before}
	for _, o := range v.Nodes {
		if v.atNewest(o) {
			out = append(out, o.Record.Proposed.Names)
		}
	}
	return out
}

// enough tells whether so many others share a node with every quorum that node i was in,
// by each list that has it.
func (v View) enough(i int, others []int) bool {
	if v.newest.Names == nil {
		return false
	}
	for _, list := range v.lists() {
		in := 0
		for _, j := range others {
			if slices.Contains(list, v.Names[j]) {
				in++
			}
		}
		if slices.Contains(list, v.Names[i]) && in < v.Needed(len(list)) {
			return false
		}
	}
	return true
}

// ListsOn are the lists by which a hold may be on node i: its record's, and the one before,
// settled or not. Each has the indexes of our nodes, and -1 for another.
func (t *Tracker) ListsOn(i int) [][]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, out := t.seen[i].Record, make([][]int, 2)
	for k, list := range [][]string{r.Names, r.Before} {
		for _, name := range list {
			out[k] = append(out[k], slices.Index(t.config.Names, name))
		}
	}
	return out
}

// changing tells whether a change of the latest list has begun.
func (v View) changing() bool { return v.newest.Settled }

// withList is a joiner's record with all that is known of the configurations.
func (v View) withList(r Record) Record {
	r.Gen, r.Configuration, r.Before, r.BeforeMaxTTL, r.From = v.newest.Gen, v.newest.Configuration, v.newest.Before, v.newest.BeforeMaxTTL, v.newest.From
	for _, o := range v.Nodes {
		if v.atNewest(o) {
			r.Settled, r.Ballot = r.Settled || o.Record.Settled, max(r.Ballot, o.Record.Ballot)
			if o.Record.Proposed.Ballot > r.Proposed.Ballot {
				r.Proposed = o.Record.Proposed
			}
		}
	}
	return r
}

// strictAt tells whether what node i holds says that recovery is an operator's: a record of
// ours, or one that a founder's race left over. A cluster is then founded anew, where too few
// members are left, on an operator's word only. Where no record is left nothing says it any more.
func (v View) strictAt(i int) bool {
	o := v.Nodes[i]
	return o.Recorded && o.Record.Strict && (o.Record.Cluster == v.target || slices.Equal(o.Record.Names, v.sorted))
}

// operatorFor is who leaves it to an operator to found; "": nobody does.
func (v View) operatorFor() string {
	if v.Strict {
		return "WithStrictRecovery"
	}
	for i, name := range v.Names {
		if v.strictAt(i) {
			return "the record of " + name + " (strict recovery)"
		}
		if c := v.claimAt(i); c.Strict && slices.Equal(c.Names, v.sorted) {
			return "the claim on " + name + " (strict recovery)"
		}
	}
	if v.Known.Strict && slices.Equal(v.Known.Names, v.sorted) {
		return "what this client has seen of the cluster (strict recovery)"
	}
	return ""
}
