package membership_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Where a client with an older list could found a cluster of its own. Of the nodes a to e the list
// has a, b and c, at generation 2; before it had d.
func TestAnEmptyNodeThatNobodyClaimsIsNamed(t *testing.T) {
	const listed, maybe = "it lacks the cluster's claim", "if it was taken out"
	list, before := nodeNames[:3], nodeNames[:4]
	blank := func(i int) func(v *view) { return func(v *view) { v.blank(i, start) } }
	claim := func(i int, c membership.Claim) func(v *view) {
		return func(v *view) { v.claimed(i, claimText(c)) }
	}
	node := func(i int, change func(o *membership.Observation)) func(v *view) {
		return func(v *view) {
			v.blank(i, start)
			change(&v.nodes[i])
		}
	}
	for _, c := range []struct {
		what  string
		is    func(v *view)
		names map[int]string
	}{
		{"all are members", func(*view) {}, nil},
		{"one of the list forgot", blank(0), map[int]string{0: listed}},
		{"it has a plain notice of another server", node(0, func(o *membership.Observation) { o.Notice.Run = "r" }), map[int]string{0: listed}},
		{"it has this cluster's claim", claim(0, claimBy("c1", 2, list...)), nil},
		{"it has that for another lease", claim(0, leasing(claimBy("c1", 2, list...), maxTTL/2)), nil},
		{"it has this cluster's claim of a later list", claim(0, claimBy("c1", 3, nodeNames[:2]...)), nil},
		{"it has this cluster's claim of an older list", claim(0, claimBy("c1", 0, "a")), map[int]string{0: listed}},
		{"it has the claim of who founded on an older list", claim(0, claimBy("c2", 0, "a")), nil},
		{"the claim of another server's stands no more", node(0, func(o *membership.Observation) {
			o.Notice = membership.Notice{Nonce: "n", Run: "r", Claim: claimText(claimBy("c1", 2, list...))}
		}), map[int]string{0: listed}},
		{"one of the list restarted with its data", func(v *view) { v.nodes[0].Run = "r2" }, nil},
		{"one of the list is a replica", node(0, func(o *membership.Observation) { o.Replica = true }), nil},
		{"one of the list is down", func(v *view) { v.down(0, start) }, nil},
		{"what was taken out is empty", blank(3), map[int]string{3: maybe}},
		{"what was taken out is down", func(v *view) { v.down(3, start) }, nil},
		{"what is not in the list is empty", blank(4), map[int]string{4: maybe}},
		{"two are empty", func(v *view) { blank(1)(v); blank(3)(v) }, map[int]string{1: listed, 3: maybe}},
		{"no quorum is left", func(v *view) { blank(0)(v); blank(1)(v); blank(3)(v) }, nil},
	} {
		v := newView(5, start)
		for i := range v.nodes {
			v.nodes[i].Record.Gen, v.nodes[i].Record.Names = 2, list
			v.nodes[i].Record.Before, v.nodes[i].Record.BeforeMaxTTL = before, maxTTL
		}
		c.is(v)
		v.config = v.config.GoingBy(v.nodes)
		seen := v.seen()
		for i := range v.nodes {
			why, remedy := seen.Exposed(i)
			want := c.names[i]
			if (why != "") != (want != "") || !strings.Contains(why, want) {
				t.Errorf("%s: node %d: got %q; want %q", c.what, i, why, want)
			}
			if why != "" && !strings.Contains(remedy, "REDLOCK_CLUSTER=c1") || strings.Contains(remedy, "stop it") != (why != "" && !slices.Contains(list, nodeNames[i])) {
				t.Errorf("%s: node %d: got the remedy %q; want the pin, and a node outside the list stopped", c.what, i, remedy)
			}
		}
	}
}

// A new node is not one that was taken out while the list was never changed; one that takes no
// writes is nobody's to found on.
func TestANewNodeAndOneThatTakesNoWritesAreNotNamed(t *testing.T) {
	v := newView(4, start)
	for i := range 3 {
		v.nodes[i].Record.Names = nodeNames[:3]
	}
	v.blank(3, start)
	v.config = v.config.GoingBy(v.nodes)
	if why, _ := v.seen().Exposed(3); why != "" {
		t.Errorf("a new node: got %q; want nothing", why)
	}
	for fault, want := range map[error]bool{nil: true, errors.New("OOM"): false} {
		v := newView(3, start)
		v.member(1, "c1", quorum.Token(7), start)
		v.blank(0, start)
		seen := v.seen()
		seen.Faults = []error{fault, nil, nil}
		if why, _ := seen.Exposed(0); (why != "") != want {
			t.Errorf("%v: got %q; want it named: %v", fault, why, want)
		}
	}
}
