package chaos

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
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
	case Crash, Forget, Old, Failover, Stall, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Reset, HalfOpen, Refuse, Twice, Flush, Delete, Suspend, ListChange:
	}
	return f
}

// recordKey is where a node keeps what it knows of its membership, and the
// counters: part of the wire format.
const recordKey = "redlock:node"

// The bounds that [Swarm] draws from.
const (
	swarmFewest   = 2 // clients
	swarmMost     = 20
	swarmEager    = 6 // clients, at most, that ask again at once
	swarmKindsMax = 5
	swarmOften    = 200 * time.Millisecond // mean time between two faults
	swarmSeldom   = 8 * time.Second
	swarmShort    = 20 * time.Millisecond // the longest fault of a plan
	swarmLong     = 8 * time.Second
	changesOf     = 6 // one plan in so many changes the list
)

// Swarm draws a whole plan from a seed, not its times only: how many nodes,
// clients and names, how eager the clients are and how long they hold, how often they
// share, want a set of names or a slot of one, or stand for an election, which few kinds
// of faults, how often and how long, and in one plan of six changes of the list of nodes, half
// of them with changes of MaxTTL and strict recovery. Plans that each have few kinds find more than plans
// that have all of them, because one kind can hide what another shows: a crash ends the
// connection on which a late command would have come (Groce et al., "Swarm testing",
// 2012). The faults are of the given kinds; with none, of all that redlock promises to
// bear.
func Swarm(seed uint64, length time.Duration, kinds ...Break) Plan {
	random := rand.New(rand.NewPCG(seed, 1))
	all := len(kinds) == 0
	changes := rand.New(rand.NewPCG(seed, 8))
	listed := all && changes.IntN(changesOf) == 0 || slices.Contains(kinds, ListChange)
	if kinds = slices.DeleteFunc(slices.Clone(kinds), func(k Break) bool { return k == ListChange }); len(kinds) == 0 {
		kinds = borne()
	}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	mix := Mix{
		Kinds:   kinds[:1+random.IntN(min(swarmKindsMax, len(kinds)))],
		Every:   between(random, swarmOften, swarmSeldom),
		Longest: between(random, swarmShort, swarmLong),
	}
	p := newPlan(seed, length, mix, func(p *Plan) {
		p.Nodes = []int{3, 4, 5, 5, 5, 7}[random.IntN(6)]
		p.Clients = []int{swarmFewest, 4, swarmEager, 12, swarmMost}[random.IntN(5)]
		p.Names = 1 + random.IntN(planNames)
		p.Linger = []int{planLinger, 10, 2}[random.IntN(3)]
		if p.Clients <= swarmEager {
			p.Retry = planRetry / 8 // those of many would only cost time
		}
		p.wait(rand.New(rand.NewPCG(seed, 2)))
		p.beside(rand.New(rand.NewPCG(seed, 3)))
		p.elect(rand.New(rand.NewPCG(seed, 4)))
		p.slot(rand.New(rand.NewPCG(seed, 5)))
		p.drawProfile(rand.New(rand.NewPCG(seed, 6)))
	})
	if listed {
		p.drawLists(changes)
		p.drawSettings(rand.New(rand.NewPCG(seed, 10)))
	}
	if all {
		p.besides(rand.New(rand.NewPCG(seed, 7)), mix.Longest)
	}
	return p
}

// besides draws faults of further kinds, beside those that the plan has: one plan in four has
// deliveries twice, one in four has clients whose wall clocks step, if a quorum of the nodes
// never forgets, and every other one has steps of a node's clock, where there is a time for
// them.
func (p *Plan) besides(random *rand.Rand, longest time.Duration) {
	if p.validate() != nil {
		return // to play it says why
	}
	mix := func(k Break) Mix {
		return Mix{Kinds: []Break{k}, Every: between(random, swarmOften, swarmSeldom), Longest: longest}
	}
	if m := mix(Twice); random.IntN(4) == 0 {
		p.faults(random, m)
	}
	if m := mix(Step); random.IntN(2) == 0 {
		p.steps(random, m)
	}
	if m := mix(WallClock); random.IntN(4) == 0 && p.remembers() {
		p.faults(random, m)
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// remembers tells whether a quorum of the nodes never forgets. Where none does, all of a
// quorum may have forgotten at once. Tokens lean on the wall clock of one client then: if that
// of another was ahead before, what it led to is a greater one (docs/SAFETY.md, tokens).
func (p *Plan) remembers() bool {
	forgot := map[int]bool{}
	for _, f := range p.Faults {
		switch {
		case !f.Forgets() || f.Kind == Twice || f.Kind == Drift:
		case f.Node == Everything:
			return false
		default:
			forgot[f.Node] = true
		}
	}
	return p.Nodes-len(forgot) > p.Nodes/2
}

// steps draws steps of one node's clock, each of which lasts until every client that holds
// or waits has looked at that clock: one that is taken back before that shows nothing, and
// what it ended may be given away. That is a limit of the clock watch, see docs/SAFETY.md. All
// clients have seen that clock before, so that they tell it from the drift. Nothing else
// befalls the node from MaxTTL before to MaxTTL after, because a step also ends what protects
// from commands that come late; but its clock may drift, by what leases allow for.
func (p *Plan) steps(random *rand.Rand, mix Mix) {
	if p.reopens() {
		return // a library that was just opened has not seen it
	}
	others, node, free := slices.Clone(p.Faults), random.IntN(p.Nodes), clientsBegin+watched
	for at := clientsBegin + spread(random, 2*mix.Every); at+watched < p.For; at += spread(random, 2*mix.Every) {
		f := p.draw(random, mix, at)
		f.Node, f.Delay, f.For = node, planStep/4+spread(random, planStep*3/4), watched+f.For
		if random.IntN(2) == 0 {
			f.Delay = -f.Delay
		}
		if at >= free && !slices.ContainsFunc(others, func(o Fault) bool { return p.disturbs(o, f) }) {
			p.Faults, free = append(p.Faults, f), at+f.For+watched
			p.corner(random, f)
		}
	}
}

// corner cuts a client off from as many other nodes as a quorum can spare, from up to a lease
// before the step of a node's clock on: what it gets then rests on that node, too.
func (p *Plan) corner(random *rand.Rand, step Fault) {
	client, before := clientName(random.IntN(p.Clients)), min(spread(random, p.Lease), step.At-clientsBegin)
	for i := range (p.Nodes - 1) / 2 {
		p.Faults = append(p.Faults, Fault{Kind: Cut, At: step.At - before, For: before + step.For, Node: (step.Node + 1 + i) % p.Nodes, Client: client})
	}
}

// watched is by when all clients have seen a node's clock again.
const watched = time.Second

// disturbs tells whether another fault is so near to the step of a node's clock that the two
// may have an effect together.
func (p *Plan) disturbs(o, step Fault) bool {
	if o.Kind == Drift || o.Kind.OfClient() && o.Kind != Suspend && o.Where != AtReplies {
		return false
	}
	same := o.Node == step.Node || o.Node == Everything || o.Kind.OfClient() || o.Kind == OtherList
	return same && o.At < step.At+step.For+p.longest() && step.At < o.At+o.For+o.Delay+p.longest()
}

// wait draws whether clients wait in line, with how many goroutines each, and whether
// leases are renewed.
func (p *Plan) wait(random *rand.Rand) {
	p.Waits, p.Threads = random.IntN(2) == 0, 1+random.IntN(max(mostWaiting/p.Clients, 1))
	p.Renews = p.Waits && random.IntN(2) == 0
}

// beside draws how often clients share, which they do in half of the plans, and how often
// they want sets, which they do in two of three in which leases are renewed.
func (p *Plan) beside(random *rand.Rand) {
	p.Shares = []int{0, 0, 2, 5}[random.IntN(4)]
	p.Sets = []int{0, 2, 4}[random.IntN(3)]
}

// elect draws how often clients stand for an election, which they do in every third of the
// plans in which they wait.
func (p *Plan) elect(random *rand.Rand) {
	if leads := []int{0, 0, 3}[random.IntN(3)]; p.Waits {
		p.Leads = leads
	}
}

// slot draws how often clients want a slot, which they do in every third of the plans in
// which they wait.
func (p *Plan) slot(random *rand.Rand) {
	if slots := []int{0, 0, 3}[random.IntN(3)]; p.Waits {
		p.Slots = slots
	}
}

// between draws from a to b, so that each order of magnitude is as likely.
func between(random *rand.Rand, a, b time.Duration) time.Duration {
	return time.Duration(float64(a) * math.Pow(float64(b)/float64(a), random.Float64()))
}
