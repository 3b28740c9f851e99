package chaos

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

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
)

// Swarm draws a whole plan from a seed, not its times only: how many nodes,
// clients and names, how eager the clients are and how long they hold, how often they
// share, want a set of names or a slot of one, or stand for an election, which few kinds
// of faults, how often and how long. Plans that each have few kinds find more than plans
// that have all of them, because one kind can hide what another shows: a crash ends the
// connection on which a late command would have come (Groce et al., "Swarm testing",
// 2012). The faults are of the given kinds; with none, of all that redlock promises to
// bear.
func Swarm(seed uint64, length time.Duration, kinds ...Break) Plan {
	random := rand.New(rand.NewPCG(seed, 1))
	all := len(kinds) == 0
	if kinds = slices.Clone(kinds); all {
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
		p.habits(rand.New(rand.NewPCG(seed, 6)))
	})
	if all {
		p.besides(rand.New(rand.NewPCG(seed, 7)), mix.Longest)
	}
	return p
}

// besides draws faults of further kinds, each of which one plan in four has beside those
// that it has.
func (p *Plan) besides(random *rand.Rand, longest time.Duration) {
	for _, k := range []Break{Twice} {
		every := between(random, swarmOften, swarmSeldom)
		if has := random.IntN(4) == 0; has && p.validate() == nil {
			p.faults(random, Mix{Kinds: []Break{k}, Every: every, Longest: longest})
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
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
