package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

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
