package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/bubble"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Client is one client of the code under test: a process of its own, as far as
// faults can tell. Its methods may be called from several goroutines at once. See [Test].
type Client struct {
	Name string

	plan  *Plan
	actor *actor

	mu      sync.Mutex // guards the rest
	lockers []*redlock.Locker
	atWork  []*Tenure
}

// Locker returns a Locker over connections of the client's own, which the faults
// are between, with the plan's lease and MaxTTL; options come on top. A client
// makes one. It is closed when the client's code has returned.
func (c *Client) Locker(opts ...redlock.Option) (*redlock.Locker, error) {
	nodes, err := c.actor.stage.Connect(c.Name)
	if err != nil {
		return nil, err
	}
	c.actor.history.witness.overhear(c.Name, nodes, c.actor.stage.Names())
	all := append([]redlock.Option{
		redlock.WithNodeNames(c.actor.stage.Names()...), redlock.WithTTL(c.plan.Lease), redlock.WithMaxTTL(c.plan.MaxTTL),
	}, opts...)
	l, err := redlock.New(nodes, all...)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lockers = append(c.lockers, l)
	}
	return l, err
}

// TestOption changes what [Test] does.
type TestOption interface{ change(o *ownCode) }

type testOption func(*ownCode)

func (f testOption) change(o *ownCode) { f(o) }

// WithoutGuard has [Tenure.Write] write past the lab's guard: all that is written is
// accepted, and a stale write fails the test.
func WithoutGuard() TestOption { return testOption(func(o *ownCode) { o.unguarded = true }) }

// WithSetup has setup called before each play of the code, in its bubble: a test that
// fails plays it again and again, to shrink the plan. Make there what the clients share,
// such as a store, so that no play finds what an earlier one has left.
func WithSetup(setup func()) TestOption {
	return testOption(func(o *ownCode) { o.setup = setup })
}

// WithConviction has the test fail unless the code breaks that rule: it is for code that
// is broken on purpose, to show that the plan would find it. What else is broken is
// nothing to it.
func WithConviction(rule Rule) TestOption {
	return testOption(func(o *ownCode) { o.guilty = rule })
}

// ownCode is code under test.
type ownCode struct {
	code      func(context.Context, *Client) error
	setup     func()
	unguarded bool
	guilty    Rule // it is to be found so; empty: of nothing
}

// Test runs code under the plan's faults, once for each of its clients and all of
// them at once, in virtual time, and returns the verdict. The code should go on
// until ctx is done: plan.For has passed then. A pause of a client is one of its whole
// process: its links are held, so that nothing is renewed, and [Client.Step] blocks.
//
// t fails with the end of the trace if a rule was broken, with what the code returned if
// that is an error other than ctx's own, and if no client was ever at work: such a run
// shows nothing. A plan that broke a rule is shrunk, and the command that repeats it is
// printed: in the environment, REDLOCK_CHAOS_PLAN is the plan that is played in the place of
// p. The page goes to the directory REDLOCK_CHAOS_PAGES, or among the artifacts of go test
// -artifacts. t must not be of a bubble. Meanwhile the process has one processor.
func Test(t *testing.T, p Plan, code func(ctx context.Context, c *Client) error, opts ...TestOption) Verdict {
	t.Helper()
	o := &ownCode{code: code}
	for _, opt := range opts {
		opt.change(o)
	}
	p = planned(t, p)
	seen, err := o.play(t, p, false)
	if err != nil {
		t.Error(err)
	}
	v := seen.Verdict
	switch {
	case v.Rounds == 0:
		t.Errorf("no client was ever at work: the run shows nothing (see Client.Enter)\nthe plan: %v", p)
	case o.guilty != "":
		if v.Count(o.guilty) == 0 {
			t.Errorf("got %v\nwant the code to be convicted: %s\nthe plan: %v", v, o.guilty, p)
		}
	case len(v.Violations) > 0:
		t.Errorf("%v", o.convict(t, p, seen))
	}
	return v
}

// convict is what there is to say of a run that broke a rule.
func (o *ownCode) convict(t *testing.T, p Plan, seen Run) string {
	t.Helper()
	return convicted(t, p, seen, func(p Plan, watched bool) (Run, error) { return o.play(t, p, watched) })
}

// play runs the code in a bubble, and has the run judged.
func (o *ownCode) play(t *testing.T, p Plan, watched bool) (Run, error) {
	t.Helper()
	defer bubble.TakeTurns()()
	p = p.stopsProcesses()
	seen := Run{About: trace.About{
		Scenario: t.Name(), Claim: fmt.Sprintf("%d faults, %d clients, %v", len(p.Faults), p.Clients, p.For), Contender: "the code under test",
		Guarded: !o.unguarded, Backend: string(Virtual), Seed: p.Seed, Judge: p.Judge(),
	}}
	var err error
	synctest.Test(t, func(*testing.T) {
		defer bubble.TidyUp()()
		stage, made := NewVirtual(p.Seed, p.Nodes)
		if err = made; err != nil {
			return
		}
		if o.setup != nil {
			o.setup()
		}
		seen.About.Nodes = stage.Names()
		seen.Records, err = p.play(stage, watched, func(r *run, i int) error { return r.own(i, o) })
		err = errors.Join(err, stage.Close())
	})
	seen.Verdict = seen.About.Judge.Judge(seen.Records)
	return seen, err
}

// stopsProcesses is the plan whose pauses stop the whole process of a client, as a garbage
// collection does, and not only the step of it that they name: own code has no such steps.
func (p Plan) stopsProcesses() Plan {
	p.Faults = slices.Clone(p.Faults)
	for i := range p.Faults {
		if f := &p.Faults[i]; f.Kind == Pause {
			f.Kind, f.Where = Suspend, ""
		}
	}
	return p
}

// own is the life of one client with code of its own.
func (r *run) own(i int, o *ownCode) error {
	random := rand.New(rand.NewPCG(r.plan.Seed, uint64(i)+1)) //nolint:gosec // i is small
	time.Sleep(spread(random, clientsBegin))
	ctx, cancel := r.while(i, 0, r.plan.For)
	defer cancel()
	c := &Client{Name: clientName(i), plan: &r.plan}
	guard := r.guard
	if o.unguarded {
		guard = (*fencing.Memory)(nil)
	}
	c.actor = bareActor(c.Name, r.stage, r.history, guard)
	defer c.actor.leave()
	err := o.code(ctx, c)
	for _, t := range c.working() {
		t.Leave() // its code has returned
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	for _, l := range c.lockers {
		err = errors.Join(err, unlessUnconfirmed(l.Close()))
	}
	return err
}
