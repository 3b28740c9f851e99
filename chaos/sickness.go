package chaos

import (
	"cmp"
	"slices"
	"time"
)

// mark is a point in time where the health of the quorum changes.
type mark struct {
	at   time.Duration
	kind Kind
}

// sickness says when the cluster need not make progress: while more nodes are
// broken, or recover, for some client than a quorum can spare, and from there on
// until none is: a majority that forgot is taken in only when every node answers.
func (p *Plan) sickness() []mark {
	type edge struct {
		at   time.Duration
		node int
		step int
	}
	var edges []edge
	for _, f := range p.Faults {
		if f.Kind.ofClient() {
			continue
		}
		nodes := []int{f.Node}
		if f.Node == Everything {
			nodes = nodes[:0]
			for i := range p.Nodes {
				nodes = append(nodes, i)
			}
		}
		for _, n := range nodes {
			edges = append(edges, edge{f.At, n, 1}, edge{f.At + f.For + p.recovery(), n, -1})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	var marks []mark
	broken, spare := make([]int, p.Nodes), (p.Nodes-1)/2
	down, sick := 0, false
	for _, e := range edges {
		before := broken[e.node] > 0
		broken[e.node] += e.step
		if after := broken[e.node] > 0; after != before {
			down += e.step
		}
		switch {
		case !sick && down > spare:
			sick = true
			marks = append(marks, mark{e.at, Sick})
		case sick && down == 0:
			sick = false
			marks = append(marks, mark{e.at, Well})
		}
	}
	return marks
}
