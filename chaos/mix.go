package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// The measures of [NewPlan]: five nodes, twenty clients, eight names, and a fault
// about every eight seconds.
const (
	planNodes    = 5
	planClients  = 20
	planNames    = 8
	planLease    = 3 * time.Second
	planMaxTTL   = 4 * time.Second
	planFaults   = 8 * time.Second        // mean time between two
	planFaultFor = 6 * time.Second        // the longest
	planPatience = 3 * time.Minute        // of one of ten contenders who draw their pauses
	planSlow     = 400 * time.Millisecond // the most that a message is late by
	planUneven   = 4                      // doublings of that, at most, that a reordered message is late by
	planStep     = 8 * time.Second        // the most that a clock steps, either way: twice the longest lease
	planDrift    = 10 * time.Millisecond  // the most that a clock gains or loses a second: what leases allow for
	planWall     = 24 * time.Hour         // the most that a client's wall clock steps, either way
	planLinger   = 50                     // one pause in so many outlasts the lease
	planRetry    = 350 * time.Millisecond // the longest pause between two attempts

	// clientsBegin is when every client of a plan is there: faults come later.
	clientsBegin = time.Second
)

// Mix says which faults a plan is drawn from. What is zero has a default.
type Mix struct {
	// Kinds: by default all but an operator's DEL, which no lock survives on a node
	// that its quorum needs; a clock that steps, which the watch sees only at its
	// next sample; a delivery twice and a client's wall clock that steps, which, as
	// the clock that steps, [Swarm] draws; and another node list, of which a Locker over
	// clients that it did not make learns when it next verifies the node. What is
	// evicted is the node's record: that of a lock would be the same as a DEL.
	Kinds []Break
	// Every is the mean time between two faults: eight seconds.
	Every time.Duration
	// Longest is how long a fault lasts at most: six seconds.
	Longest time.Duration
	// Nodes, Clients and Names are how many there are: five, twenty and eight. Faults
	// befall those that there are. A plan of a negative number has no faults, and can't be
	// played.
	Nodes, Clients, Names int
}

// NewPlan draws a plan of the given length from a seed: of five nodes, twenty
// clients and eight names, unless mix says otherwise.
func NewPlan(seed uint64, length time.Duration, mix Mix) Plan {
	if mix.Kinds == nil {
		mix.Kinds = borne()
	}
	mix.Every, mix.Longest = cmp.Or(mix.Every, planFaults), cmp.Or(mix.Longest, planFaultFor)
	return newPlan(seed, length, mix, func(p *Plan) {
		p.Nodes, p.Clients, p.Names = cmp.Or(mix.Nodes, p.Nodes), cmp.Or(mix.Clients, p.Clients), cmp.Or(mix.Names, p.Names)
	})
}

// borne are the faults that redlock promises to bear. A clock that steps is not
// among them: what a node gives away between the step and the next sample of its
// clock, a stated limit of the watch, random plans find within minutes: [Swarm] draws
// those steps that the watch sees in time. Nor is another node list: of a Locker by New an
// address may lead to a node that it has already, while it counts that one as down, and then
// both vote.
func borne() []Break {
	return []Break{
		Crash, Forget, Stall, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, Slow, Reset, Flush, Pause,
		Old, Failover, Evict, Drift, Suspend, Jitter, Reorder, HalfOpen, Refuse,
	}
}

// newPlan draws the faults of a plan whose measures resize has changed.
func newPlan(seed uint64, length time.Duration, mix Mix, resize func(*Plan)) Plan {
	p := Plan{
		Seed: seed, Nodes: planNodes, Clients: planClients, Names: planNames,
		Lease: planLease, For: length, MaxTTL: planMaxTTL,
	}
	resize(&p)
	if p.validate() != nil {
		return p // to play it says why
	}
	p.faults(rand.New(rand.NewPCG(seed, 0)), mix)
	return p
}

// faults draws the plan's faults, beside those that it has.
func (p *Plan) faults(random *rand.Rand, mix Mix) {
	for at := clientsBegin + spread(random, 2*mix.Every); at < p.For; at += spread(random, 2*mix.Every) {
		if f := p.draw(random, mix, at); f.Kind != Drift || !p.drifts(f.Node, at) {
			p.Faults = append(p.Faults, f)
		}
	}
}

// drifts tells whether a node's clock drifts already: two drifts add up to more
// than leases allow for.
func (p *Plan) drifts(node int, at time.Duration) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool {
		return f.Kind == Drift && f.At+f.For >= at && (f.Node == node || f.Node == Everything || node == Everything)
	})
}

// spread draws a time up to d, to the nanosecond.
func spread(random *rand.Rand, d time.Duration) time.Duration {
	return 1 + time.Duration(random.Int64N(int64(d)))
}

// draw makes one fault.
func (p *Plan) draw(random *rand.Rand, mix Mix, at time.Duration) Fault {
	f := Fault{Kind: mix.Kinds[random.IntN(len(mix.Kinds))], At: at, Node: random.IntN(p.Nodes)}
	if f.Kind.Lasts() {
		f.For = spread(random, mix.Longest)
	}
	switch {
	case f.Kind.OfClient(), f.Kind == OtherList:
		f.Client = clientName(random.IntN(p.Clients))
	case f.Kind.OfLink() && random.IntN(2) == 0:
		f.Client = clientName(random.IntN(p.Clients))
		if random.IntN(2) == 0 {
			f.Node = Everything
		}
	}
	switch f.Kind {
	case Slow:
		if f.Client == "" && random.IntN(2) == 0 {
			f.Node = Everything // the network as a whole
		}
		f.Delay = spread(random, planSlow>>random.IntN(3)) // as likely within a node timeout as beyond
	case Jitter:
		f.Delay = spread(random, planSlow)
	case Reorder:
		f.Delay = spread(random, planSlow<<random.IntN(planUneven))
	case OtherList:
		f.To = (f.Node + 1 + random.IntN(max(p.Nodes-1, 1))) % p.Nodes
	case Pause:
		f.Where = trace.Moments()[random.IntN(len(trace.Moments()))]
	case Step:
		f.Delay = planStep - spread(random, 2*planStep)
	case WallClock:
		f.Delay = between(random, time.Second, planWall)
		if random.IntN(2) == 0 {
			f.Delay = -f.Delay
		}
	case Drift:
		f.Delay = planDrift - spread(random, 2*planDrift)
		f.For = max(p.For-at, 1) // to the end: the mend would be a step
		if random.IntN(2) == 0 {
			f.Node = Everything // to the nodes, it is the clients' clocks that drift
		}
	case Evict:
		f.Key = recordKey
	case Crash, Forget, Old, Failover, Stall, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Reset, HalfOpen, Refuse, Twice, Flush, Delete, Suspend:
	}
	return f
}

// recordKey is where a node keeps what it knows of its membership, and the
// counters: part of the wire format.
const recordKey = "redlock:node"

func clientName(i int) string { return fmt.Sprintf("client-%d", i) }
