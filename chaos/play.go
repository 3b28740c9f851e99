package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
// too, which a page draws. On a virtual stage all else happens as it
// does without.
func (p Plan) PlayWatched(stage Stage, kit Kit) ([]Record, error) {
	return p.play(stage, true, func(r *run, i int) error { return r.client(kit, i) })
}

// play runs the plan with clients that live as client says.
func (p Plan) play(stage Stage, watched bool, client func(r *run, i int) error) ([]Record, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if err := found(stage, p.MaxTTL); err != nil {
		return nil, err
	}
	r := &run{plan: p, stage: stage, history: newHistory(), guard: &fencing.Memory{}}
	r.history.lines = newLines(stage, r.history)
	r.history.senders = newSenders(r.history)
	if watched {
		rest, err := witnessed(stage, r.history)
		if err != nil {
			return nil, err
		}
		defer rest()
	}
	stop := observe(stage, r.history, p.shortest())
	var (
		work sync.WaitGroup
		errs = make([]error, p.Clients+1)
	)
	for i := range p.Clients {
		work.Go(func() { errs[i] = client(r, i) })
	}
	work.Go(func() { errs[p.Clients] = r.breakAndMend() })
	work.Wait()
	stop(true)
	return r.history.Records(), errors.Join(errs...)
}

// witnessed lets a witness follow the history, apart from all clients where that can be.
func witnessed(stage Stage, history *history) (func(), error) {
	if v, ok := stage.(*virtual); ok {
		return attest(stage, history, v.connectAside)
	}
	return attest(stage, history, stage.Connect)
}

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
			r.history.Add(Record{Kind: s.kind})
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
	a, err := newActor(clientName(i), kit, r.stage, r.history, r.guard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlessUnconfirmed(a.Close())) }()
	for {
		ends := r.plan.lifeEnds(random, r.history.Now())
		if r.plan.Waits {
			r.waiters(a, i, ends)
		} else {
			r.asks(a, i, ends, random)
		}
		if ends == r.plan.For {
			return nil
		}
		if err := unlessUnconfirmed(a.Close()); err != nil {
			return err
		}
		if a, err = a.reopened(kit); err != nil {
			return err
		}
	}
}

// asks is the life of a client that asks again and again.
func (r *run) asks(a *actor, i int, ends time.Duration, random *rand.Rand) {
	ctx, cancel := r.while(i, 0, ends)
	defer cancel()
	for ctx.Err() == nil {
		time.Sleep(spread(random, time.Second))
		if r.plan.seldom(random, r.plan.Bursts) {
			r.burst(ctx, a, random)
			continue
		}
		w, lease := r.plan.onTerms(random, r.plan.want(random)), r.plan.lease(random)
		t, err := a.Insist(ctx, w, lease, func() time.Duration { return r.plan.pause(random) })
		if err == nil {
			r.plan.work(ctx, random, t)
		}
	}
}

// while is up to a point in time, for one goroutine of a client: not all end at one
// moment.
func (r *run) while(client, thread int, ends time.Duration) (context.Context, context.CancelFunc) {
	own := time.Duration(1 + client + thread*r.plan.Clients)
	return context.WithTimeout(context.Background(), ends-r.history.Now()+own)
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
