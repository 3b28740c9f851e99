package membership

import (
	"fmt"
	"slices"
)

// Strict recovery (WithStrictRecovery): a cluster is founded, and founded again
// where too few members are left, on an operator's word only. It binds every
// client, so it stands in the records: one who founds or admits with the option
// writes it there, and so does a client with the option that meets a cluster
// without it, before it counts a vote. A node that joins gets it from the others.
//
// Where no record is left nothing says it any more, and a client without the
// option founds a new cluster. A client with it that knew the old one does not
// count votes of the new one, until an operator has admitted with the option.

// strictAt tells whether what node i holds, or held when it was last seen, says
// that recovery is an operator's: a record of ours, or one that a founder's race
// left over.
func (v View) strictAt(i int) bool {
	o := v.Nodes[i]
	ours := !o.Recorded || o.Record.Cluster == v.target || slices.Equal(o.Record.Names, v.sorted)
	return o.Record.Strict && ours
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
	}
	return ""
}

// strictRecord tells whether a record that this client installs is strict.
func (v View) strictRecord(p Proposal) bool {
	for i := range v.Names {
		if v.strictAt(i) {
			return true
		}
	}
	return v.makesStrict(p)
}

// makesStrict tells whether this client writes strict where it is not: by its
// option, but not where somebody founds, or founded, anew without it, unless an
// operator says so.
func (v View) makesStrict(p Proposal) bool { return v.Strict && (p.Admit || !v.another()) }

// Refounded tells whether this cluster is another than the strict one that this
// client knew, and was founded without strict recovery.
func (v View) Refounded() bool { return v.ours != "" && v.another() }

// another is refounded, also while no quorum has the new id yet: what this client
// wrote then would spread, and the new cluster would look as if an operator had
// founded it.
func (v View) another() bool {
	if !v.Strict || v.Knew == "" || v.target == "" || v.target == v.Knew {
		return false
	}
	for i, o := range v.Nodes {
		if v.kin(i) && o.member() && !o.Record.Strict {
			return true
		}
	}
	return false
}

// Knows is the id of the strict cluster that this client knows: the latest that a
// quorum of members showed.
func (v View) Knows() string {
	if v.Strict && v.ours != "" && !v.Refounded() && v.proven(func(r Record) bool { return r.Strict }) {
		return v.ours
	}
	return v.Knew
}

// unbound is why a client with the option does not count the vote of a member
// whose record is not strict; "": it does.
func (v View) unbound(i int) string {
	switch {
	case !v.Strict:
		return ""
	case v.Refounded():
		return fmt.Sprintf("the cluster that this client knew (%s) is gone, and this one (%s) was founded without strict recovery: "+
			"Cluster.Admit (redlock nodes admit --strict-recovery), with that option, when no lock made before is held", v.Knew, v.ours)
	case !v.Nodes[i].Record.Strict:
		return v.Hindered(i, "its record does not say strict recovery, which must be written there first")
	}
	return ""
}
