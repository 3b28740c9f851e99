package page

import (
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/lab/report"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// oneGrant is how far apart the messages of nodes may be that are drawn as one.
const oneGrant = 50 * time.Millisecond

// grants takes in that a node told a client what a release granted it.
func (t *telling) grants(r trace.Record) {
	by := t.holdBefore(r)
	g := report.Grant{Client: r.Client, Resource: r.Resource, By: by.Client, Hold: by.Hold, Released: by.Until, From: r.At}
	i := slices.IndexFunc(t.Grants, func(o report.Grant) bool {
		return o.Client == g.Client && o.Resource == g.Resource && o.Hold == g.Hold && r.At-o.Until <= oneGrant
	})
	if i < 0 {
		i = len(t.Grants)
		t.Grants = append(t.Grants, g)
	}
	t.Grants[i].Until = r.At
	t.Grants[i].Nodes = append(t.Grants[i].Nodes, r.Node)
}

// holdBefore is the hold whose release granted: that with the largest token that is
// smaller. A message may come much later than the next release.
func (t *telling) holdBefore(r trace.Record) (before report.Belief) {
	for _, b := range t.Beliefs {
		if b.Resource == r.Resource && b.How == string(trace.Released) && before.Token <= b.Token && b.Token < uint64(r.Token) {
			before = b
		}
	}
	return before
}
