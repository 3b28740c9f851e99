package chaos

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// rejoins is how long a node takes to vote again once it may.
const rejoins = 2 * time.Second

// attemptSlack is what an attempt may take beside the timeouts of its rounds.
const attemptSlack = 50 * time.Millisecond

// looksAgain is what an attempt takes besides that looks at all nodes again. That of a
// library which was opened again may: a half-open connection that lay idle in the client's
// pool is found when that library first uses it, however long after the fault.
const looksAgain = 2*redlock.DefaultNodeTimeout + 100*time.Millisecond

// seenWithin is how old what an observer is told may be: so redlock promises.
const seenWithin = 2 * time.Second

// recovery is how long a node that may have forgotten need not vote after it was mended.
func (p *Plan) recovery() time.Duration { return p.longest() + rejoins }

// Judge is the judge of the plan's trace: leases, progress and patience included.
// Progress is less than a lease, because what a failed attempt leaves behind would
// keep everybody else out for a whole one; but a client that is stopped asks
// nobody.
func (p Plan) Judge() trace.Judge {
	transit, uneven := time.Duration(0), time.Duration(0)
	for _, f := range p.Faults {
		transit = max(transit, f.For)
	}
	for i := range p.Nodes {
		for f, late := range p.delays(i) {
			if f.Kind == Reorder {
				uneven = max(uneven, late)
			}
		}
	}
	j := trace.Judge{Lease: p.longest() + p.skew(), Transit: transit + uneven, Progress: p.Lease*2/3 + p.stopped(), Patience: planPatience}
	j.Repeated = p.shortest()
	j.Orphan, j.Notice = 2*redlock.DefaultNodeTimeout+2*lookEvery, redlock.DefaultNodeTimeout
	if p.Waits {
		j.Turns = p.turns()
		j.Seen = seenWithin
	} else {
		j.Attempt = 4*redlock.DefaultNodeTimeout + attemptSlack // two rounds, of two node timeouts each
		if p.reopens() && slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == HalfOpen }) {
			j.Attempt += looksAgain
		}
	}
	if p.Renews {
		j.Renewed = p.recovery()
	}
	return j
}

// mark is a point in time where the health of the quorum changes.
type mark struct {
	at   time.Duration
	kind trace.Kind
}

// recoversFrom is how long a node need not vote after the fault was mended: a link is as good
// as before within a moment, and so is a process that was stopped, unless it has keys then
// that nobody wants; one that may have forgotten waits.
func (p *Plan) recoversFrom(f Fault, delays map[Fault]time.Duration) time.Duration {
	if !f.Forgets() {
		return trace.SettlesWithin + delays[f] + p.stays(f, delays)
	}
	if p.reopens() { // a library that was opened since waits anew
		return p.For
	}
	return p.recovery() + f.Skew()
}

// stays is how long a key may stay that comes to a node as the fault is mended. A release is
// repeated for a lease, and leaves a tombstone for one: a command that was held back for
// longer meets neither, and its key stays for a lease. Of a lease that is longer than that,
// the release still comes.
func (p *Plan) stays(f Fault, delays map[Fault]time.Duration) time.Duration {
	if late := p.late(f, delays) + trace.SettlesWithin; late > p.shortest() {
		return min(late, p.longest())
	}
	return 0
}

// late is for how long, at most, a command was held back that comes to a node as the fault is
// mended, or its release was: since the first of the faults that led up to it without a break.
func (p *Plan) late(f Fault, delays map[Fault]time.Duration) time.Duration {
	end := f.At + f.For
	since := end
	switch {
	case f.Kind == Stall || f.Kind == Cut || f.Kind == CutRequests:
		since = f.At
	case f.Kind != Slow && f.Kind != Jitter && f.Kind != Reorder:
		return 0 // it holds nothing back
	}
	for earlier := true; earlier; {
		earlier = false
		for _, o := range p.Faults {
			if o != f && o.KeepsApart() && o.Meets(f) && o.At < since && o.At+o.For+delays[o]+trace.SettlesWithin >= since {
				since, earlier = o.At, true
			}
		}
	}
	return end + delays[f] - since
}

// delays is how late a message to a node is, at most, by the faults that are at work and hold
// messages back: on a link delays add up.
func (p *Plan) delays(node int) map[Fault]time.Duration {
	var all []trace.Trouble
	for _, f := range p.Faults {
		if f.HoldsBack() > 0 && (f.Node == node || f.Node == Everything) {
			all = append(all, trace.Trouble{BetweenThem: trace.BetweenThem{Client: trace.ProcessOf(f.Client)}, Fault: f})
		}
	}
	delays := map[Fault]time.Duration{}
	for _, begun := range all { // a sum is largest when one of them begins
		var together []trace.Trouble
		for _, o := range all {
			if o.Fault.At <= begun.Fault.At && begun.Fault.At < o.Fault.At+o.Fault.For {
				together = append(together, o)
			}
		}
		for _, o := range together {
			links := map[trace.BetweenThem]time.Duration{}
			trace.AddDelays(links, o.BetweenThem, together)
			for _, sum := range links {
				delays[o.Fault] = max(delays[o.Fault], sum)
			}
		}
	}
	return delays
}

// edge is where a fault of a node begins or ends.
type edge struct {
	at      time.Duration
	node    int
	step    int
	forgets bool
}

// edges are those of all faults, in the order of time.
func (p *Plan) edges() []edge {
	var edges []edge
	delays := make([]map[Fault]time.Duration, p.Nodes)
	for i := range delays {
		delays[i] = p.delays(i)
	}
	for _, f := range p.Faults {
		if f.Kind.OfClient() || f.Kind == Twice || f.Kind == ListChange {
			continue
		}
		nodes := []int{f.Node}
		if f.Kind == OtherList && f.To != f.Node {
			nodes = append(nodes, f.To) // it is there twice
		}
		if f.Node == Everything {
			nodes = nodes[:0]
			for i := range p.Nodes {
				nodes = append(nodes, i)
			}
		}
		for _, n := range nodes {
			edges = append(edges, edge{f.At, n, 1, f.Forgets()}, edge{f.At + f.For + p.recoversFrom(f, delays[n]), n, -1, f.Forgets()})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	return edges
}

// quorumHealth says when the cluster need not make progress: while more nodes are
// broken, or recover, for some client than a quorum can spare. Where so many may have
// forgotten, it is from there on until none is broken: a majority that forgot is taken in
// only when every node answers, and by an operator where recovery is strict: then for good.
func (p *Plan) quorumHealth() []mark {
	var marks []mark
	spare, sick, forgot := (p.fewest()-1)/2, false, false
	broken, forgetful := nodeCount{of: make([]int, p.Nodes)}, nodeCount{of: make([]int, p.Nodes)}
	for _, e := range p.edges() {
		broken.add(e.node, e.step)
		if e.forgets {
			forgetful.add(e.node, e.step)
		}
		forgot = forgot || forgetful.any > spare
		switch {
		case !sick && broken.any > spare:
			sick = true
			marks = append(marks, mark{e.at, trace.Sick})
		case sick && (broken.any == 0 && (!forgot || !p.strict()) || !forgot && broken.any <= spare):
			sick, forgot = false, false
			marks = append(marks, mark{e.at, trace.Well})
		}
	}
	return marks
}

// nodeCount counts faults, and the nodes that have any.
type nodeCount struct {
	of  []int
	any int
}

func (c *nodeCount) add(node, step int) {
	before := c.of[node] > 0
	c.of[node] += step
	if after := c.of[node] > 0; after != before {
		c.any += step
	}
}

// skew is the most that the faults of one node add up to at any time.
func (p *Plan) skew() time.Duration {
	most := time.Duration(0)
	for _, f := range p.Faults {
		sum := time.Duration(0)
		for _, g := range p.Faults {
			if (g.Node == f.Node || g.Node == Everything || f.Node == Everything) && g.At <= f.At && f.At <= g.At+g.For {
				sum += g.Skew()
			}
		}
		most = max(most, sum)
	}
	return most
}

// stopped is the longest that a client asks nobody, because it is stopped where it
// would: stops that follow each other within a moment are one.
func (p *Plan) stopped() time.Duration {
	longest, begun, until := time.Duration(0), map[string]time.Duration{}, map[string]time.Duration{}
	for _, f := range p.Faults { // in the order of time
		if f.Kind != Suspend && (f.Kind != Pause || f.Where != AtAsk && f.Where != AtReplies) {
			continue
		}
		if end, stopped := until[f.Client]; !stopped || f.At > end+clientsBegin {
			begun[f.Client] = f.At
		}
		until[f.Client] = max(until[f.Client], f.At+f.For)
		longest = max(longest, until[f.Client]-begun[f.Client])
	}
	return longest
}
