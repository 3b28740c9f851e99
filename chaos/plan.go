package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
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
	// Renews has the library lengthen the leases; else clients do, and a lease that
	// nobody lengthened ends. Releases grant only such locks to who waits in line.
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
