package clock

import (
	"slices"
	"time"
)

// What the other nodes' clocks tell of a node's.
//
// Between two samples of a node, the drift factor is allowed for the time between:
// a tenth of a second after ten seconds, half a minute after an hour. A step that
// is smaller hides in it. The allowance must be that wide because our own clock
// may be the one that is off. But where another node's clock has kept to ours
// through the same time, within a tenth of the factor, then ours was not off, and
// a node that differs by more than that from both has stepped. One such witness
// is enough, and so it does not matter how many others stepped along: the median
// would side with a majority that did.
//
// A clock that differs from ours by a constant tells nothing: nodes need not agree
// on the time.
const (
	// longGap is from when the witnesses are asked: before, the node's own sample
	// allows no more than a tenth of a second.
	longGap = 10 * time.Second
	// nearby is how far apart samples of two nodes may be taken and still stand for
	// one moment: at the drift factor, ten milliseconds.
	nearby = time.Second
	// keptFactor is how much better than the drift factor a witness has kept to
	// our clock.
	keptFactor = 0.1
)

// gap is a long time between two samples of a node.
type gap struct {
	from, to reading
	others   []reading // by node, at about from
}

// witnesses are the readings of all nodes, as far as they are of use to judge one.
type witnesses struct {
	factor float64     // of the drift
	latest []reading   // by node
	around [][]reading // around[i] is of all nodes, at about latest[i]
	gaps   []gap       // by node; to.at is 0: none
}

func newWitnesses(nodes int, factor float64) *witnesses {
	w := &witnesses{factor: factor, latest: make([]reading, nodes), around: make([][]reading, nodes), gaps: make([]gap, nodes)}
	for i := range w.around {
		w.around[i] = make([]reading, nodes)
	}
	return w
}

// slip is a step that a node made in a gap, by at least so much.
type slip struct {
	node int
	by   time.Duration
}

// sample takes in a reading of a node, and returns the steps that it brings to
// light: the node's own, and those of others that it is a witness of.
func (w *witnesses) sample(node int, r reading) []slip {
	if last := w.latest[node]; last.at != 0 && r.at.sub(last.at) > longGap {
		w.gaps[node] = gap{from: last, to: r, others: slices.Clone(w.around[node])}
	}
	w.latest[node] = r
	copy(w.around[node], w.latest)
	for i, around := range w.around {
		if around[node].at == 0 && w.latest[i].at != 0 && r.at.sub(w.latest[i].at) <= nearby {
			around[node] = r
		}
	}
	var found []slip
	for i := range w.gaps {
		g := &w.gaps[i]
		switch {
		case g.to.at == 0:
		case r.at.sub(g.to.at) > nearby:
			*g = gap{}
		default:
			if by := w.judge(i); by != 0 {
				found = append(found, slip{i, by})
				*g = gap{}
			}
		}
	}
	return found
}

// judge is how far node i stepped in its gap, by the word of another node; 0: it
// did not, or nobody can tell.
func (w *witnesses) judge(i int) time.Duration {
	g := &w.gaps[i]
	slack := drift(g.to.at.sub(g.from.at), w.factor*keptFactor)
	by := g.from.moveTo(g.to).beyond(slack)
	if by == 0 {
		return 0
	}
	for j, before := range g.others {
		after := w.latest[j]
		covers := before.at != 0 && before.at.sub(g.from.at) <= nearby && g.to.at.sub(after.at) <= nearby
		if j != i && covers && before.moveTo(after).within(slack) {
			return by
		}
	}
	return 0
}
