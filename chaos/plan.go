package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/clock"
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

const (
	// A goroutine of a plan that waits gives up one wait in so many, after up to
	// two leases.
	planLeaves = 4
	// One ask in so many for a set waits for nobody.
	planTries = 4
	// mostWaiting is how many goroutines wait in a plan at most: so many can all
	// be served within its patience, though each holds for a lease.
	mostWaiting = 24
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
	// List is how many of the nodes, the first ones, are the cluster's list, which a
	// [ListChange] changes, and MaxTTL and strict recovery. 0: all of them.
	List int `json:"list,omitempty"`
	// Linger is how seldom a holder rests past the end of its lease: one pause in
	// so many. 0: one in fifty.
	Linger int `json:"linger,omitempty"`
	// Retry is the longest pause between two attempts. 0: 350 ms.
	Retry time.Duration `json:"retry,omitempty"`
	// Waits makes clients wait in line, if their library knows how, and at times give up;
	// else they ask again and again.
	Waits bool `json:"waits,omitempty"`
	// Threads is how many waiting goroutines each of them has. 0: one.
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
	clientProfile
}

// Redlock is the kit of that name, with the plan's lease and MaxTTL. Clients extend by
// themselves, at times that follow from the seed: without renewal, unless the plan has it.
func (p Plan) Redlock(name string, opts ...redlock.Option) Kit {
	own := []redlock.Option{redlock.WithTTL(p.Lease), redlock.WithMaxTTL(p.longest()), redlock.WithTurns(p.turns())}
	if !p.Renews {
		own = append(own, redlock.WithFixedLease())
	}
	return Redlock(name, append(own, opts...)...)
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
	case p.List < 0 || p.List > p.Nodes:
		return fmt.Errorf("chaos: plan: a list of %d of %d nodes: give none or positive ones", p.List, p.Nodes)
	case p.Threads < 0:
		return fmt.Errorf("chaos: plan: %d threads: give none or more", p.Threads)
	case p.Shares < 0 || p.Sets < 0 || p.Slots < 0 || p.Leads < 0:
		return fmt.Errorf("chaos: plan: shares %d, sets %d, slots %d, leads %d: give none or positive ones", p.Shares, p.Sets, p.Slots, p.Leads)
	case p.clientProfile.negative():
		return fmt.Errorf("chaos: plan: %+v: give none or positive ones", p.clientProfile)
	case p.Linger < 0 || p.Retry < 0 || p.Retry > 0 && p.Retry < time.Millisecond:
		return fmt.Errorf("chaos: plan: linger %d, retry %v: give none or positive ones, a retry of at least %v", p.Linger, p.Retry, time.Millisecond)
	case p.Lease <= 0 || p.For <= 0 || p.MaxTTL < p.Lease:
		return fmt.Errorf("chaos: plan: a lease of %v, a length of %v, a MaxTTL of %v: give positive ones, MaxTTL the larger", p.Lease, p.For, p.MaxTTL)
	}
	for _, f := range p.Faults {
		if wrong := p.idle(f); wrong != "" {
			return fmt.Errorf("chaos: plan: %v: %s", f, wrong)
		}
	}
	return nil
}

// idle says why a fault can befall nobody in the plan, and what to give instead; empty: it can.
func (p *Plan) idle(f Fault) string {
	delays := slices.Contains([]Break{Slow, Jitter, Reorder, Step, Drift, WallClock}, f.Kind)
	switch {
	case f.Unknown(p.Nodes):
		return fmt.Sprintf("there is no such node or moment: give a node of 0 to %d, and a moment of its kind", p.Nodes-1)
	case f.Client != "" && !p.has(f.Client):
		return fmt.Sprintf("there is no such client: give one of client-0 to %s, or none for all", clientName(p.Clients-1))
	case delays && f.Delay == 0:
		return "without a Delay it does nothing: give one"
	case f.Kind != ListChange && (f.MaxTTL != 0 || f.Strict != ""):
		return fmt.Sprintf("maxTTL %v, strict %q: only a %s has them: leave them out", f.MaxTTL, f.Strict, ListChange)
	case f.MaxTTL != 0 && (f.MaxTTL < clock.MinTTL || f.MaxTTL > clock.MaxMaxTTL || f.MaxTTL%time.Millisecond != 0):
		return fmt.Sprintf("maxTTL %v: give %v to %v, in whole milliseconds, or none", f.MaxTTL, clock.MinTTL, clock.MaxMaxTTL)
	case f.Strict != "" && f.Strict != trace.StrictOn && f.Strict != trace.StrictOff:
		return fmt.Sprintf("strict %q: give %q or %q, or none", f.Strict, trace.StrictOn, trace.StrictOff)
	case f.At < 0 || f.At >= p.For:
		return fmt.Sprintf("at %v the plan does not run: give an At from 0 to below %v", f.At, p.For)
	}
	return ""
}

// clientProfile is what the clients of a plan do seldom: once in so many times. 0: never.
type clientProfile struct {
	// Varied has leases of a quarter of the longest MaxTTL up to all of it, also where one is lengthened:
	// the others are Plan.Lease.
	Varied int `json:"varied,omitempty"`
	// Stays: a holder stays for several leases, if its library renews them.
	Stays int `json:"stays,omitempty"`
	// Bursts: a process asks for 2 to 64 names at one instant, once each.
	Bursts int `json:"bursts,omitempty"`
	// Tries: a client that waits asks once, and waits for nobody.
	Tries int `json:"tries,omitempty"`
	// Does: a client that waits lets its library run its work.
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

// drawProfile draws a few, and whether the leases of those who do not wait are renewed.
func (p *Plan) drawProfile(random *rand.Rand) {
	one := func(often int) int { return []int{0, 0, often}[random.IntN(3)] }
	p.clientProfile = clientProfile{
		Varied: one(2), Stays: []int{0, 4, 10}[random.IntN(3)], Bursts: one(40), Tries: one(4), Does: one(3),
		Barges: one(6), Bounds: one(4), Reenters: one(4), Reopens: one(2), Turns: one(1 + random.IntN(3)),
	}
	if renews := random.IntN(2) == 0; !p.Waits {
		p.Renews = renews
	}
}

func (h clientProfile) negative() bool {
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
	return p.longest()/4 + spread(random, p.longest()*3/4)
}

// shortest is the shortest lease that it draws.
func (p *Plan) shortest() time.Duration {
	if p.Varied > 0 {
		return min(p.Lease, p.longest()/4)
	}
	return p.Lease
}

// onTerms draws the terms of a request.
func (p *Plan) onTerms(random *rand.Rand, w request) request {
	w.Barging = p.seldom(random, p.Barges)
	if p.seldom(random, p.Bounds) {
		w.MaxHold = spread(random, 2*p.Lease)
	}
	w.Reentry = p.seldom(random, p.Reenters)
	return w
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

// request draws what a client asks for: a resource, at times more, at times to share.
func (p *Plan) request(random *rand.Rand) request {
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

// spread draws a time up to d, to the nanosecond.
func spread(random *rand.Rand, d time.Duration) time.Duration {
	return 1 + time.Duration(random.Int64N(int64(d)))
}

func clientName(i int) string { return fmt.Sprintf("client-%d", i) }
