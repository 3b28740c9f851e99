package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Waiter is a [Contender] whose library waits for a holder by itself. Several
// goroutines may use it at once.
type Waiter interface {
	Contender

	// Wait locks resource for lease, and blocks until it is held or ctx is done.
	Wait(ctx context.Context, resource string, lease time.Duration) (Hold, error)
}

// Wait locks resource, and blocks until it is held or ctx is done: in the line
// that the nodes keep.
func (c *redlockContender) Wait(ctx context.Context, resource string, lease time.Duration) (Hold, error) {
	lock, err := c.locker.Acquire(ctx, resource, redlock.WithTTL(lease))
	if err != nil {
		return nil, err
	}
	return redlockHold{lock}, nil
}

// Beside is another goroutine of the actor's process: the same client, which its
// library must allow. It is closed with the actor.
func (a *actor) Beside(i int) *actor {
	return &actor{
		Name: fmt.Sprintf("%s#%d", trace.ProcessOf(a.Name), i), stage: a.stage, history: a.history,
		contender: a.contender, guard: a.guard, watching: a.watching, left: a.left, closed: a.closed,
	}
}

// Wait has the actor's library wait for the resource. Where it can't, it is
// actor.Insist. On failure the actor has quit; the error is ctx's, joined with
// the library's.
func (a *actor) Wait(ctx context.Context, resource string, lease time.Duration, pause func() time.Duration) (*Tenure, error) {
	return a.WaitFor(ctx, request{Resources: []string{resource}}, lease, pause)
}

// WaitFor is Wait for what actor.AskFor asks for.
func (a *actor) WaitFor(ctx context.Context, w request, lease time.Duration, pause func() time.Duration) (*Tenure, error) {
	if _, ok := a.contender.(Waiter); !ok {
		return a.InsistOn(ctx, w, lease, pause)
	}
	w = can(a.contender, w)
	t, err := a.attempt(ctx, w, lease, true)
	if err != nil {
		a.quit(w)
		return nil, errors.Join(ctx.Err(), err)
	}
	return t, nil
}

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

// waiters is the life of one client whose goroutines wait in line.
func (r *run) waiters(a *actor, client int, ends time.Duration) {
	var work sync.WaitGroup
	for i := range max(r.plan.Threads, 1) {
		one := a
		if i > 0 {
			one = a.Beside(i)
		}
		random := rand.New(rand.NewPCG(r.plan.Seed+uint64(i)<<32, uint64(client)+1)) //nolint:gosec // they are small
		work.Go(func() {
			ctx, cancel := r.while(client, i, ends)
			defer cancel()
			for ctx.Err() == nil {
				time.Sleep(spread(random, time.Second))
				r.waitOnce(ctx, one, random)
			}
		})
	}
	if r.plan.Leads > 0 {
		work.Go(func() {
			threads := max(r.plan.Threads, 1)
			ctx, cancel := r.while(client, threads, ends)
			defer cancel()
			a.Beside(threads).Observe(ctx, planElection)
		})
	}
	work.Wait()
}

// waitOnce waits, at times not for long, and works.
func (r *run) waitOnce(ctx context.Context, a *actor, random *rand.Rand) {
	if r.plan.Leads > 0 && random.IntN(r.plan.Leads) == 0 {
		r.campaignOnce(ctx, a, random)
		return
	}
	if r.plan.seldom(random, r.plan.Bursts) {
		r.burst(ctx, a, random)
		return
	}
	w := r.plan.onTerms(random, r.plan.want(random))
	if r.plan.Slots > 0 && random.IntN(r.plan.Slots) == 0 {
		w = request{Resources: w.Resources[:1], Limit: planLimit}
	}
	if len(w.Resources) > 1 && random.IntN(planTries) == 0 || r.plan.seldom(random, r.plan.Tries) {
		r.tryOnce(ctx, a, w, random)
		return
	}
	within := ctx
	if random.IntN(planLeaves) == 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, spread(random, 2*r.plan.Lease))
		defer cancel()
	}
	lease, pause := r.plan.lease(random), func() time.Duration { return r.plan.pause(random) }
	if len(w.Resources) == 1 && w.Limit == 0 && r.plan.seldom(random, r.plan.Does) {
		_ = a.Do(within, w, lease, pause, func(_ context.Context, t *Tenure) error {
			r.plan.toil(ctx, random, t)
			breathe(random)
			return nil
		})
		return
	}
	t, err := a.WaitFor(within, w, lease, pause)
	if err == nil {
		r.plan.work(ctx, random, t)
	}
}

// planLimit is how many may hold a name of a plan at once, by slots.
const planLimit = 2

// planElection is the election of a plan.
const planElection = "election"

// campaignOnce stands for the election, at times not for long, and resigns after some work;
// at times it does not hear that it leads no longer.
func (r *run) campaignOnce(ctx context.Context, a *actor, random *rand.Rand) {
	within, cancel := context.WithTimeout(ctx, spread(random, planLeaves*r.plan.Lease))
	defer cancel()
	_ = a.Campaign(within, planElection, r.plan.Lease, func() time.Duration { return r.plan.pause(random) }, func(ctx context.Context, t *Tenure) error {
		r.plan.toil(ctx, random, t)
		breathe(random)
		return nil
	})
}

// tryOnce asks once, and works if that brought a lock.
func (r *run) tryOnce(ctx context.Context, a *actor, w request, random *rand.Rand) {
	t, err := a.AskFor(ctx, w, r.plan.lease(random))
	if err != nil {
		a.quit(can(a.contender, w))
		return
	}
	r.plan.work(ctx, random, t)
}
