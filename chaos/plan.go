package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Plan is a run of a cluster under load and faults, all of it decided before:
// the same plan gives the same run on a virtual stage.
type Plan struct {
	Seed    uint64        `json:"seed"`
	Nodes   int           `json:"nodes"`
	Clients int           `json:"clients"`
	Names   int           `json:"names"` // of resources; half the load is on the first
	Lease   time.Duration `json:"lease"`
	For     time.Duration `json:"for"`
	MaxTTL  time.Duration `json:"maxTTL"` // that the cluster is founded with
	Faults  []Fault       `json:"faults"`
	// Linger is how seldom a holder rests past the end of its lease: one pause in
	// so many. 0: one in fifty.
	Linger int `json:"linger,omitempty"`
	// Retry is the longest pause between two attempts. 0: 350 ms.
	Retry time.Duration `json:"retry,omitempty"`
	// Waits has clients whose library knows how wait in line, instead of asking
	// again and again; and at times give up.
	Waits bool `json:"waits,omitempty"`
	// Threads is how many goroutines each of them has that wait. 0: one.
	Threads int `json:"threads,omitempty"`
	// Renews makes the library lengthen the leases; else clients do, and a lease that
	// nobody lengthened ends. Releases grant only such locks to waiters in line.
	Renews bool `json:"renews,omitempty"`
	// Shares is how seldom clients ask to share what they want: one ask in so many.
	// 0: never.
	Shares int `json:"shares,omitempty"`
	// Sets is how seldom they ask for a set of two or three names at once: one ask in so
	// many, and where leases are renewed, which a set needs. 0: never.
	Sets int `json:"sets,omitempty"`
	// Slots is how seldom clients that wait want a slot of a name, of which it has two: one
	// wait in so many. 0: never.
	Slots int `json:"slots,omitempty"`
	// Leads is how seldom clients that wait stand for an election instead, of which each
	// client observes who leads: one wait in so many. 0: never, and nobody observes.
	Leads int `json:"leads,omitempty"`
	habits
}

// rejoins is how long a node takes to vote again once it may.
const rejoins = 2 * time.Second

// recovery is how long a node that may have forgotten need not vote after it was mended.
func (p *Plan) recovery() time.Duration { return p.MaxTTL + rejoins }

// attemptSlack is what an attempt may take beside the timeouts of its rounds.
const attemptSlack = 50 * time.Millisecond

// looksAgain is what an attempt takes besides that looks at all nodes again. That of a
// library which was opened again may: a half-open connection that lay idle in the client's
// pool is found when that library first uses it, however long after the fault.
const looksAgain = 2*redlock.DefaultNodeTimeout + 100*time.Millisecond

// Redlock is the kit of that name, with the plan's lease and MaxTTL. Clients extend by
// themselves, at times that follow from the seed: without renewal, unless the plan has it.
func (p Plan) Redlock(name string, opts ...redlock.Option) Kit {
	own := []redlock.Option{redlock.WithTTL(p.Lease), redlock.WithMaxTTL(p.MaxTTL), redlock.WithTurns(p.turns())}
	if !p.Renews {
		own = append(own, redlock.WithFixedLease())
	}
	return Redlock(name, append(own, opts...)...)
}

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
	j := trace.Judge{Lease: p.MaxTTL + p.skew(), Transit: transit + uneven, Progress: p.Lease*2/3 + p.stopped(), Patience: planPatience}
	j.Repeated = p.shortest()
	j.Orphan, j.Notice = 2*redlock.DefaultNodeTimeout+2*lookEvery, redlock.DefaultNodeTimeout
	if p.Waits {
		j.Turns = p.turns()
		j.Seen = seenWithin
	} else {
		j.Attempt = 2*redlock.DefaultNodeTimeout + attemptSlack
		if p.Reopens > 0 && slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == HalfOpen }) {
			j.Attempt += looksAgain
		}
	}
	if p.Renews {
		j.Renewed = p.MaxTTL + rejoins
	}
	return j
}

// String returns the plan as one line of JSON: what [ParsePlan] reads.
func (p Plan) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return err.Error() // a Plan has nothing that can't be marshalled
	}
	return string(text)
}

// ParsePlan reads what [Plan.String] wrote.
func ParsePlan(text string) (Plan, error) {
	var p Plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Plan{}, fmt.Errorf("chaos: parse plan: %w", err)
	}
	return p, p.validate()
}

func (p *Plan) validate() error {
	switch {
	case p.Nodes < 1 || p.Clients < 1 || p.Names < 1:
		return fmt.Errorf("chaos: plan: %d nodes, %d clients, %d names: give at least one of each", p.Nodes, p.Clients, p.Names)
	case p.Threads < 0:
		return fmt.Errorf("chaos: plan: %d threads: give none or more", p.Threads)
	case p.Shares < 0 || p.Sets < 0 || p.Slots < 0 || p.Leads < 0:
		return fmt.Errorf("chaos: plan: shares %d, sets %d, slots %d, leads %d: give none or positive ones", p.Shares, p.Sets, p.Slots, p.Leads)
	case p.habits.negative():
		return fmt.Errorf("chaos: plan: %+v: give none or positive ones", p.habits)
	case p.Linger < 0 || p.Retry < 0 || p.Retry > 0 && p.Retry < time.Millisecond:
		return fmt.Errorf("chaos: plan: linger %d, retry %v: give none or positive ones, a retry of at least %v", p.Linger, p.Retry, time.Millisecond)
	case p.Lease <= 0 || p.For <= 0 || p.MaxTTL < p.Lease:
		return fmt.Errorf("chaos: plan: a lease of %v, a length of %v, a MaxTTL of %v: give positive ones, MaxTTL the larger", p.Lease, p.For, p.MaxTTL)
	}
	return nil
}

// habits are what the clients of a plan do seldom: once in so many times. 0: never.
type habits struct {
	// Varied has leases of a quarter of MaxTTL up to all of it, also where one is lengthened:
	// the others are Plan.Lease.
	Varied int `json:"varied,omitempty"`
	// Stays: a holder stays for several leases, if its library renews them.
	Stays int `json:"stays,omitempty"`
	// Bursts: a process asks for 2 to 64 names at one instant, once each.
	Bursts int `json:"bursts,omitempty"`
	// Tries: a client that waits asks once, and waits for nobody.
	Tries int `json:"tries,omitempty"`
	// Does: a client that waits has its library run its work.
	Does int `json:"does,omitempty"`
	// Barges: a client asks past those who wait.
	Barges int `json:"barges,omitempty"`
	// Bounds: a hold is bounded, though it is renewed.
	Bounds int `json:"bounds,omitempty"`
	// Reenters: a holder enters its hold again.
	Reenters int `json:"reenters,omitempty"`
	// Reopens is how many times a client's library is closed and opened again, at most; and
	// how seldom its holder leaves what it then holds to that.
	Reopens int `json:"reopens,omitempty"`
	// Turns is how often in a row a process has a name. 0: redlock's default.
	Turns int `json:"turns,omitempty"`
}

// drawHabits draws a few, and whether the leases of those who do not wait are renewed.
func (p *Plan) drawHabits(random *rand.Rand) {
	one := func(often int) int { return []int{0, 0, often}[random.IntN(3)] }
	p.habits = habits{
		Varied: one(2), Stays: []int{0, 4, 10}[random.IntN(3)], Bursts: one(40), Tries: one(4), Does: one(3),
		Barges: one(6), Bounds: one(4), Reenters: one(4), Reopens: one(2), Turns: one(1 + random.IntN(3)),
	}
	if renews := random.IntN(2) == 0; !p.Waits {
		p.Renews = renews
	}
}

func (h habits) negative() bool {
	return min(h.Varied, h.Stays, h.Bursts, h.Tries, h.Does, h.Barges, h.Bounds, h.Reenters, h.Reopens, h.Turns) < 0
}

// seldom draws whether it is one of those times.
func (p *Plan) seldom(random *rand.Rand, often int) bool { return often > 0 && random.IntN(often) == 0 }

// turns is how often in a row a process has a name.
func (p *Plan) turns() int { return cmp.Or(p.Turns, redlock.DefaultTurns) }

// lease draws how long a lease is.
func (p *Plan) lease(random *rand.Rand) time.Duration {
	if !p.seldom(random, p.Varied) {
		return p.Lease
	}
	return p.MaxTTL/4 + spread(random, p.MaxTTL*3/4)
}

// shortest is the shortest lease that it draws.
func (p *Plan) shortest() time.Duration {
	if p.Varied > 0 {
		return min(p.Lease, p.MaxTTL/4)
	}
	return p.Lease
}

// onTerms draws the terms of a want.
func (p *Plan) onTerms(random *rand.Rand, w request) request {
	w.Barging = p.seldom(random, p.Barges)
	if p.seldom(random, p.Bounds) {
		w.MaxHold = spread(random, 2*p.Lease)
	}
	w.Reentry = p.seldom(random, p.Reenters)
	return w
}

// stayLeases is how many leases a holder stays for at most, and stayLooks how many times in
// a lease it is at work.
const (
	stayLeases = 6
	stayLooks  = 4
)

// stay keeps a holder with a renewed lease at work for much longer than a lease.
func (p *Plan) stay(ctx context.Context, random *rand.Rand, t *Tenure) {
	if t.want.Reentry {
		_ = t.Reenter(ctx) // what comes of it is in the trace
	}
	if !p.Renews || !p.seldom(random, p.Stays) {
		return
	}
	for range 1 + random.IntN(stayLeases*stayLooks) {
		time.Sleep(spread(random, 2*p.Lease/stayLooks))
		if ctx.Err() != nil || t.Write(ctx) != nil {
			return
		}
	}
}

// lifeEnds draws when a client's library is closed and opened again; the plan's end: it
// is not.
func (p *Plan) lifeEnds(random *rand.Rand, now time.Duration) time.Duration {
	if p.Reopens == 0 {
		return p.For
	}
	if ends := now + spread(random, 2*p.For/time.Duration(p.Reopens+1)); ends < p.For-p.Lease {
		return ends
	}
	return p.For
}

// The largest burst, and where the goroutines of its process are named from.
const (
	largestBurst = 64
	burstThreads = 1000
)

// burst asks, as the process, for several names at one instant, each by a goroutine of its
// own, and gives back at once what that brings. In a plan whose clients wait, these wait at
// times.
func (r *run) burst(ctx context.Context, a *actor, random *rand.Rand) {
	size := 2 << random.IntN(6)
	waits, within := r.plan.Waits && random.IntN(2) == 0, spread(random, r.plan.Lease)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var work sync.WaitGroup
	for i := range min(size, largestBurst) {
		w, one := request{Resources: []string{fmt.Sprintf("name-%d", i)}}, a.Beside(burstThreads+i)
		lease, rests := r.plan.lease(random), spread(random, r.plan.Lease/stayLooks)
		work.Go(func() {
			t, err := r.attemptOf(ctx, one, w, lease, waits)
			if err != nil {
				return
			}
			time.Sleep(rests)
			_ = t.Write(ctx)   // the same
			_ = t.Release(ctx) // what it leaves behind is the trace's matter
		})
	}
	work.Wait()
}

// attemptOf is one of a burst.
func (r *run) attemptOf(ctx context.Context, a *actor, w request, lease time.Duration, waits bool) (*Tenure, error) {
	if waits {
		return a.Wait(ctx, w, lease, func() time.Duration { return r.plan.Lease })
	}
	t, err := a.Ask(ctx, w, lease)
	if err != nil {
		a.Quit(w)
	}
	return t, err
}

// name draws a resource: half the load is on the first.
func (p *Plan) name(random *rand.Rand) string {
	n := 0
	if random.IntN(2) == 0 {
		n = random.IntN(p.Names)
	}
	return fmt.Sprintf("name-%d", n)
}

// largestSet is how many names a set of a plan has at most.
const largestSet = 3

// want draws what a client asks for: a resource, at times more, at times to share.
func (p *Plan) want(random *rand.Rand) request {
	w := request{Resources: []string{p.name(random)}}
	if p.Shares > 0 {
		w.Shared = random.IntN(p.Shares) == 0
	}
	if p.Sets > 0 && p.Renews && random.IntN(p.Sets) == 0 {
		for range 1 + random.IntN(largestSet-1) {
			if name := p.name(random); !slices.Contains(w.Resources, name) {
				w.Resources = append(w.Resources, name)
			}
		}
	}
	return w
}

// work writes a few times, with pauses that are short as a rule, and at times
// longer than the lease.
func (p *Plan) work(ctx context.Context, random *rand.Rand, t *Tenure) {
	p.toil(ctx, random, t)
	p.stay(ctx, random, t)
	breathe(random)
	if ctx.Err() != nil && p.seldom(random, p.Reopens) {
		t.leaveToClose()
		return
	}
	_ = t.Release(ctx)
}

// toil is work without the release.
func (p *Plan) toil(ctx context.Context, random *rand.Rand, t *Tenure) {
	for range 1 + random.IntN(3) {
		pause := p.Lease / 40
		if random.IntN(cmp.Or(p.Linger, planLinger)) == 0 {
			pause = p.Lease * 3 / 2
		}
		time.Sleep(spread(random, pause))
		if random.IntN(4) == 0 {
			_ = t.Extend(ctx, p.lease(random)) // what comes of it is in the trace
			breathe(random)
		}
		if t.Write(ctx) != nil {
			return
		}
	}
}

// breathe is the time that a client's own code takes between two calls of its
// lock. Without it the second could begin at the very moment at which the first
// returned, while goroutines of the library still run for that one: which of them
// is first would follow from nothing.
func breathe(random *rand.Rand) { time.Sleep(spread(random, time.Millisecond)) }

// Shrink returns the smallest plan that it finds which still fails: fewer faults
// first, then fewer clients and less time. fails must be true for p. It asks
// fails a few dozen times for a plan of some dozen faults; every plan that it
// asks about has the seed of p, so that what is left happens as it did.
func Shrink(p Plan, fails func(Plan) bool) Plan {
	p = p.withFewerFaults(fails)
	for clients := 1; clients < p.Clients; clients *= 2 {
		if smaller, ok := p.withClients(clients); ok && fails(smaller) {
			p = smaller
			break
		}
	}
	for length := p.end(); length < p.For; length = 2*length + time.Second {
		shorter := p
		shorter.For = length
		if fails(shorter) {
			return shorter
		}
	}
	return p
}

// withFewerFaults leaves faults out, half of them at once, then a quarter, and so
// on down to single ones, as long as the plan fails without them.
func (p Plan) withFewerFaults(fails func(Plan) bool) Plan {
	for size := (len(p.Faults) + 1) / 2; size > 0; {
		left := len(p.Faults)
		for from := 0; from < len(p.Faults); {
			without := p
			without.Faults = slices.Delete(slices.Clone(p.Faults), from, min(from+size, len(p.Faults)))
			if fails(without) {
				p = without
			} else {
				from += size
			}
		}
		switch {
		case size > 1:
			size = (size + 1) / 2
		case len(p.Faults) == left:
			return p
		}
	}
	return p
}

// withClients is the plan with that many clients, if no fault names another.
func (p Plan) withClients(n int) (Plan, bool) {
	p.Clients = n
	for _, f := range p.Faults {
		if f.Client != "" && !p.has(f.Client) {
			return p, false
		}
	}
	return p, true
}

// has tells whether the plan has a client of that name.
func (p Plan) has(client string) bool {
	for i := range p.Clients {
		if clientName(i) == client {
			return true
		}
	}
	return false
}

// end is when the last fault begins, and some time to take effect.
func (p Plan) end() time.Duration {
	end := time.Duration(0)
	for _, f := range p.Faults {
		end = max(end, f.At)
	}
	return end + p.Lease
}
