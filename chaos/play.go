package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Play runs the plan with clients of one kit on a stage, records what happens,
// and waits until all has ended and every lease has run out. In a
// testing/synctest bubble the time is virtual. It returns what was recorded, and
// an error if the plan can't be played: not if a rule was broken.
func (p Plan) Play(stage Stage, kit Kit) ([]Record, error) {
	return p.play(stage, false, func(r *run, i int) error { return r.client(kit, i) })
}

// PlayWatched is Play with a witness: the trace has what each node stores and how it is,
// too, which a page draws. On a virtual stage all else happens as it does without, but for a
// key whose end a step of the clock passed: a server drops it when somebody looks, and the
// witness may be the only one before the clock is back.
func (p Plan) PlayWatched(stage Stage, kit Kit) ([]Record, error) {
	return p.play(stage, true, func(r *run, i int) error { return r.client(kit, i) })
}

// play runs the plan with clients that live as client says.
func (p Plan) play(stage Stage, watched bool, client func(r *run, i int) error) ([]Record, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if err := found(part{stage, p.founders()}, p.MaxTTL); err != nil {
		return nil, err
	}
	r := &run{plan: p, stage: stage, history: newHistory(), guard: &fencing.Memory{}}
	r.roster = &roster{stage: stage, maxTTL: p.longest(), list: p.founders(), copies: map[int]listCopy{}}
	r.history.lines = newLines(stage, r.history)
	r.history.senders = newSenders(r.history)
	if watched {
		rest, err := startWitnessAside(stage, r.history)
		if err != nil {
			return nil, err
		}
		defer rest()
	}
	stop := observe(stage, r.history, p.shortest())
	var (
		work sync.WaitGroup
		errs = make([]error, p.Clients+2)
	)
	for i := range p.Clients {
		work.Go(func() { errs[i] = client(r, i) })
	}
	work.Go(func() { errs[p.Clients] = r.breakAndMend() })
	if p.changes() != nil {
		work.Go(func() { errs[p.Clients+1] = r.changeLists() })
	}
	work.Wait()
	stop(true)
	return r.history.Records(), errors.Join(errs...)
}

// startWitnessAside lets a witness follow the history, apart from all clients where that can be.
func startWitnessAside(stage Stage, history *history) (func(), error) {
	if v, ok := stage.(*virtual); ok {
		return startWitness(stage, history, v.connectAside)
	}
	return startWitness(stage, history, stage.Connect)
}

// askEvery is the pause between two attempts of a client that waits.
const askEvery = 50 * time.Millisecond

// foundFor bounds the founding of a cluster: machines that are busy need a few
// attempts.
const foundFor = 20 * time.Second

// found makes the nodes a cluster that votes, as an operator would.
func found(stage Stage, maxTTL time.Duration) error {
	clients, err := stage.Connect("founder")
	if err != nil {
		return err
	}
	locker, err := redlock.New(clients, redlock.WithNodeNames(stage.Names()...), redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))
	if err != nil {
		return fmt.Errorf("chaos: found the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), foundFor)
	defer cancel()
	for err = locker.Cluster().Admit(ctx); err != nil && ctx.Err() == nil; err = locker.Cluster().Admit(ctx) {
		time.Sleep(askEvery)
	}
	return errors.Join(err, locker.Close())
}

// run is a plan that is played.
type run struct {
	plan    Plan
	stage   Stage
	history *history
	guard   *fencing.Memory
	roster  *roster

	mu  sync.Mutex // guards ill
	ill int        // reasons why the cluster need not make progress
}

// turn is a point in time when the driver of faults does something.
type turn struct {
	at time.Duration
	do func() error
}

// breakAndMend carries the faults out. What is broken at the end is mended, and
// then it waits until every lease has run out.
func (r *run) breakAndMend() error {
	var turns []turn
	for _, f := range r.plan.Faults {
		if f.Kind == ListChange {
			continue
		}
		turns = append(turns, turn{f.At, func() error {
			r.history.Add(f.Record(trace.Broke, r.stage.Names()))
			return r.stage.Break(f)
		}})
		if f.Kind.Lasts() {
			turns = append(turns, turn{min(f.At+f.For, max(r.plan.For, f.At)), func() error {
				r.history.Add(f.Record(trace.Mended, r.stage.Names()))
				return r.stage.Mend(f)
			}})
		}
	}
	for _, s := range r.plan.quorumHealth() {
		turns = append(turns, turn{s.at, func() error {
			r.health(s.kind)
			return nil
		}})
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	for _, t := range turns {
		time.Sleep(t.at - r.history.Now())
		if err := t.do(); err != nil {
			return err
		}
	}
	time.Sleep(max(r.plan.For, r.history.Now()) + 2*r.plan.Lease + r.plan.recovery() - r.history.Now())
	return nil
}

// client is the life of one client: it wants something, insists, works, gives it
// back, over and over; and at times its library is closed and opened again.
func (r *run) client(kit Kit, i int) (err error) {
	random := rand.New(rand.NewPCG(r.plan.Seed, uint64(i)+1)) //nolint:gosec // i is small
	time.Sleep(spread(random, clientsBegin))
	stage, given := r.roster.of(i)
	a, err := newActor(clientName(i), kit, stage, r.history, r.guard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlessUnconfirmed(a.Close())) }()
	for {
		ends := r.plan.lifeEnds(random, r.history.Now())
		if r.plan.Waits {
			r.waiters(given, a, i, ends)
		} else {
			r.asks(given, a, i, ends, random)
		}
		if ends == r.plan.For && given.Err() == nil {
			return nil
		}
		if err := unlessUnconfirmed(a.Close()); err != nil {
			return err
		}
		stage, given = r.roster.of(i)
		if a, err = a.reopened(kit, stage); err != nil {
			return err
		}
	}
}

// asks is the life of a client that asks again and again.
func (r *run) asks(given context.Context, a *actor, i int, ends time.Duration, random *rand.Rand) {
	ctx, cancel := r.while(given, i, 0, ends)
	defer cancel()
	for ctx.Err() == nil {
		time.Sleep(spread(random, time.Second))
		if r.plan.seldom(random, r.plan.Bursts) {
			r.burst(ctx, a, random)
			continue
		}
		w, lease := r.plan.onTerms(random, r.plan.request(random)), r.plan.lease(random)
		t, err := a.Insist(ctx, w, lease, func() time.Duration { return r.plan.pause(random) })
		if err == nil {
			r.plan.work(ctx, random, t)
		}
	}
}

// while is up to a point in time, for one goroutine of a client, with its list: not all end
// at one moment.
func (r *run) while(given context.Context, client, thread int, ends time.Duration) (context.Context, context.CancelFunc) {
	own := time.Duration(1 + client + thread*r.plan.Clients)
	return context.WithTimeout(given, ends-r.history.Now()+own)
}

// pause draws the pause between two attempts.
func (p *Plan) pause(random *rand.Rand) time.Duration {
	retry := cmp.Or(p.Retry, planRetry)
	return retry/7 + spread(random, retry*6/7)
}

// unlessUnconfirmed drops the error of a close that could not release all: nodes may be
// broken, and what it left is in the trace.
func unlessUnconfirmed(err error) error {
	if err != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrNoQuorum) || strings.Contains(err.Error(), "close: not released")) {
		return nil
	}
	return err
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

// stayLeases is how many leases a holder stays for at most, and stayLooks how many times in
// a lease it is at work.
const (
	stayLeases = 6
	stayLooks  = 4
)

// stay keeps a holder with a renewed lease at work for much longer than a lease.
func (p *Plan) stay(ctx context.Context, random *rand.Rand, t *Tenure) {
	if t.request.Reentry {
		_ = t.reenter(ctx) // what comes of it is in the trace
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

// The largest burst, and where the goroutines of one are named from: those of the process's
// thread i from i+1 times as far, since bursts of two threads may be at work at once.
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
	_, number, _ := strings.Cut(a.Name, "#")
	thread, _ := strconv.Atoi(number) // the first has none
	var work sync.WaitGroup
	for i := range min(size, largestBurst) {
		w, one := request{Resources: []string{fmt.Sprintf("name-%d", i)}}, a.Beside(burstThreads*(1+thread)+i)
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

// waiters is the life of one client whose goroutines wait in line.
func (r *run) waiters(given context.Context, a *actor, client int, ends time.Duration) {
	var work sync.WaitGroup
	for i := range max(r.plan.Threads, 1) {
		one := a
		if i > 0 {
			one = a.Beside(i)
		}
		random := rand.New(rand.NewPCG(r.plan.Seed+uint64(i)<<32, uint64(client)+1)) //nolint:gosec // they are small
		work.Go(func() {
			ctx, cancel := r.while(given, client, i, ends)
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
			ctx, cancel := r.while(given, client, threads, ends)
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
	w := r.plan.onTerms(random, r.plan.request(random))
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
	t, err := a.Wait(within, w, lease, pause)
	if err == nil {
		r.plan.work(ctx, random, t)
	}
}

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
	t, err := a.Ask(ctx, w, r.plan.lease(random))
	if err != nil {
		a.Quit(can(a.contender, w))
		return
	}
	r.plan.work(ctx, random, t)
}

// planLimit is how many may hold a name of a plan at once, by slots.
const planLimit = 2

// planElection is the election of a plan.
const planElection = "election"
