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
//
// A witness on our own machine shares our clock, and vouches for it also where it is wrong.
// Samples in the background would make this needless, but an idle Locker sends nothing.
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
	from, to Sample
	others   []Sample // by node, at about from
}

// CrossCheck keeps the samples of all nodes, as far as they are of use to judge one.
type CrossCheck struct {
	factor float64    // of the drift
	latest []Sample   // by node
	around [][]Sample // around[i] is of all nodes, at about latest[i]
	gaps   []gap      // by node; to.at is 0 if none
}

// NewCrossCheck is of so many nodes that have shown nothing yet.
func NewCrossCheck(nodes int, factor float64) *CrossCheck {
	c := &CrossCheck{factor: factor, latest: make([]Sample, nodes), around: make([][]Sample, nodes), gaps: make([]gap, nodes)}
	for i := range c.around {
		c.around[i] = make([]Sample, nodes)
	}
	return c
}

// Step is a step that a node made in a gap, by at least so much.
type Step struct {
	Node int
	By   time.Duration
}

// Take takes in a sample of a node, and returns the steps that it brings to
// light: the node's own, and those of others that it is a witness of.
func (c *CrossCheck) Take(node int, r Sample) []Step {
	if last := c.latest[node]; last.At != 0 && r.At.Sub(last.At) > longGap {
		c.gaps[node] = gap{from: last, to: r, others: slices.Clone(c.around[node])}
	}
	c.latest[node] = r
	copy(c.around[node], c.latest)
	for i, around := range c.around {
		if around[node].At == 0 && c.latest[i].At != 0 && r.At.Sub(c.latest[i].At) <= nearby {
			around[node] = r
		}
	}
	var found []Step
	for i := range c.gaps {
		g := &c.gaps[i]
		switch {
		case g.to.At == 0:
		case r.At.Sub(g.to.At) > nearby:
			*g = gap{}
		default:
			if by := c.judge(i); by != 0 {
				found = append(found, Step{i, by})
				*g = gap{}
			}
		}
	}
	return found
}

// judge is how far node i stepped in its gap, by the word of another node; 0: it
// did not, or nobody can tell.
func (c *CrossCheck) judge(i int) time.Duration {
	g := &c.gaps[i]
	slack := Drift(g.to.At.Sub(g.from.At), c.factor*keptFactor)
	by := g.from.moveTo(g.to).beyond(slack)
	if by == 0 {
		return 0
	}
	for j, before := range g.others {
		after := c.latest[j]
		covers := before.At != 0 && before.At.Sub(g.from.At) <= nearby && g.to.At.Sub(after.At) <= nearby
		if j != i && covers && before.moveTo(after).within(slack) {
			return by
		}
	}
	return 0
}
