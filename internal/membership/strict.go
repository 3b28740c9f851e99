package membership

import "fmt"

// Strict recovery (WithStrictRecovery): a cluster is founded, and founded again
// where too few members are left, on an operator's word only. It binds every
// client, so it stands in the records: whoever founds or admits with the option
// writes it there, and so does a client with the option that meets a cluster
// without it, before it counts a vote. A node that joins gets it from the others.
//
// Where no record is left nothing says it any more, and a client without the
// option founds a new cluster. A client with it that knew the old one does not
// count votes of the new one, until an operator has admitted with the option.

// strictAt tells whether what node i holds, or held when it was last seen, says
// that recovery is an operator's: a record of ours, or one that a founder's race
// left over.
func (f fleet) strictAt(i int) bool {
	s := f.sights[i]
	ours := !s.recorded || s.rec.n == len(f.names) && (s.rec.cluster == f.target || f.lists(s.rec))
	return s.rec.strict && ours
}

// operatorFor is who leaves it to an operator to found; "": nobody does.
func (f fleet) operatorFor() string {
	if f.strict {
		return "WithStrictRecovery"
	}
	for i, name := range f.names {
		if f.strictAt(i) {
			return "the record of " + name + " (strict recovery)"
		}
	}
	return ""
}

// strictRecord tells whether a record that this client installs is strict.
func (f fleet) strictRecord(p proposal) bool {
	for i := range f.names {
		if f.strictAt(i) {
			return true
		}
	}
	return f.makesStrict(p)
}

// makesStrict tells whether this client writes strict where it is not: by its
// option, but not where somebody founds, or founded, anew without it, unless an
// operator says so.
func (f fleet) makesStrict(p proposal) bool { return f.strict && (p.admit || !f.another()) }

// refounded tells whether this cluster is another than the strict one that this
// client knew, and was founded without strict recovery.
func (f fleet) refounded() bool { return f.ours != "" && f.another() }

// another is refounded, also while no quorum has the new id yet: what this client
// wrote then would spread, and the new cluster would look as if an operator had
// founded it.
func (f fleet) another() bool {
	if !f.strict || f.knew == "" || f.target == "" || f.target == f.knew {
		return false
	}
	for i, s := range f.sights {
		if f.kin(i) && s.member() && !s.rec.strict {
			return true
		}
	}
	return false
}

// knows is the id of the strict cluster that this client knows: the latest that a
// quorum of members showed.
func (f fleet) knows() string {
	if f.strict && f.ours != "" && !f.refounded() && f.proven(func(r record) bool { return r.strict }) {
		return f.ours
	}
	return f.knew
}

// unbound is why a client with the option does not count the vote of a member
// whose record is not strict; "": it does.
func (f fleet) unbound(i int) string {
	switch {
	case !f.strict:
		return ""
	case f.refounded():
		return fmt.Sprintf("the cluster that this client knew (%s) is gone, and this one (%s) was founded without strict recovery: "+
			"Cluster.Admit by a client with WithStrictRecovery (redlock nodes admit --strict-recovery), when no lock made before is held", f.knew, f.ours)
	case !f.sights[i].rec.strict:
		return f.hindered(i, "its record does not say strict recovery, which must be written there first")
	}
	return ""
}
