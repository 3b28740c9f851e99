package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
)

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

// stay has a holder whose lease is renewed stay, and work, for much longer than a lease.
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

// burst has the process ask for several names at one instant, each by a goroutine of its
// own, and give back at once what that brings. In a plan whose clients wait, these do at
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
		return a.WaitFor(ctx, w, lease, func() time.Duration { return r.plan.Lease })
	}
	t, err := a.AskFor(ctx, w, lease)
	if err != nil {
		a.quit(w)
	}
	return t, err
}
