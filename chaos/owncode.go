package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/bubble"
	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Client is one client of the code under test: a process of its own, as far as
// faults can tell. Its methods may be called from several goroutines at once. See [Test].
type Client struct {
	Name string

	actor  *actor
	leases []redlock.Option // of the plan

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
	c.actor.history.witness.listen(c.Name, nodes, c.actor.stage.Names())
	l, err := redlock.New(nodes, slices.Concat([]redlock.Option{redlock.WithNodeNames(c.actor.stage.Names()...)}, c.leases, opts)...)
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

// WithConviction makes the test fail unless the code breaks that rule: it is for code that
// is broken on purpose, to show that the plan would find it. Other broken rules do not
// matter to it.
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
		t.Errorf("%v", convicted(t, p, seen, o.play))
	}
	return v
}

// play runs the code in a bubble, and has the run judged.
func (o *ownCode) play(t *testing.T, p Plan, watched bool) (Run, error) {
	t.Helper()
	p = p.stopsProcesses()
	return p.judged(t, "the code under test", !o.unguarded, func(stage Stage) ([]Record, error) {
		if o.setup != nil {
			o.setup()
		}
		return p.play(stage, watched, func(r *run, i int) error { return o.live(r, i) })
	})
}

// judged plays the plan as play does, and has the run judged. A plan that can't be played ends
// the test.
func (p Plan) judged(t *testing.T, contender string, guarded bool, play func(Stage) ([]Record, error)) (Run, error) {
	t.Helper()
	if err := p.validate(); err != nil {
		t.Fatal(err)
	}
	run := Run{About: trace.About{
		Scenario: t.Name(), Claim: fmt.Sprintf("%d faults, %d clients, %v", len(p.Faults), p.Clients, p.For), Contender: contender,
		Guarded: guarded, Backend: string(Virtual), Seed: p.Seed, Judge: p.Judge(), Nodes: nodeNames(p.Nodes),
	}}
	var err error
	run.Records, err = p.inBubble(t, play)
	run.Verdict = run.About.Judge.Judge(run.Records)
	return run, err
}

// inBubble plays the plan as play does, on a virtual stage in a bubble.
func (p Plan) inBubble(t *testing.T, play func(Stage) ([]Record, error)) (records []Record, err error) {
	t.Helper()
	defer bubble.TakeTurns()()
	synctest.Test(t, func(*testing.T) {
		defer bubble.TidyUp()()
		stage, made := NewVirtual(p.Seed, p.Nodes)
		if err = made; err != nil {
			return
		}
		records, err = play(stage)
		err = errors.Join(err, stage.Close())
	})
	return records, err
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

// live is the life of one client of a run, with code of its own.
func (o *ownCode) live(r *run, i int) error {
	random := rand.New(rand.NewPCG(r.plan.Seed, uint64(i)+1)) //nolint:gosec // i is small
	time.Sleep(spread(random, clientsBegin))
	stage, _ := r.roster.of(i)
	ctx, cancel := r.while(context.Background(), i, 0, r.plan.For)
	defer cancel()
	c := &Client{Name: clientName(i), leases: []redlock.Option{redlock.WithTTL(r.plan.Lease), redlock.WithMaxTTL(r.plan.longest())}}
	guard := r.guard
	if o.unguarded {
		guard = (*fencing.Memory)(nil)
	}
	c.actor = bareActor(c.Name, stage, r.history, guard)
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

// planVariable names the environment variable with a plan, as [Plan.String] writes it,
// that [Test] and [Explore] play in the place of the test's own: what a test that failed
// prints with the command that repeats it.
const planVariable = "REDLOCK_CHAOS_PLAN"

// shrinkFor bounds how long a plan is shrunk, in real time.
const shrinkFor = 30 * time.Second

// planned is the plan that is asked for, or p.
func planned(t *testing.T, p Plan) Plan {
	t.Helper()
	text := os.Getenv(planVariable)
	if text == "" {
		return p
	}
	again, err := ParsePlan(text)
	if err != nil {
		t.Fatalf("%s: %v", planVariable, err)
	}
	t.Logf("played in the place of the test's plan: that of %s, seed %d, %d faults, %d clients, %v", planVariable, again.Seed, len(again.Faults), again.Clients, again.For)
	return again
}

// convicted is what there is to say of a run that broke a rule: the verdict, a plan that
// was shrunk for as long as play shows the same, the end of its trace, its page with what the
// nodes stored, and the command that repeats it in the test's own package.
func convicted(t *testing.T, p Plan, seen Run, play func(t *testing.T, p Plan, watched bool) (Run, error)) string {
	t.Helper()
	rule := seen.Verdict.Violations[0].Rule
	again := func(p Plan, watched bool) (Run, bool) {
		r, err := play(t, p, watched)
		return r, err == nil && r.Verdict.Count(rule) > 0
	}
	small, how := shrunk(p, func(p Plan) bool {
		_, fails := again(p, false)
		return fails
	})
	shown, fails := again(small, true)
	if !fails {
		small, shown = p, seen
		how = "played again, it did not: does something last from one play to the next? (see WithSetup)"
	}
	return fmt.Sprintf("%s: %v\n%s, where %v\n%s\nthe plan: %v\nrepeat it: %s\n%s",
		seen.About.Contender, seen.Verdict, how, shown.Verdict, tail(shown.Records, shown.Verdict), small, repeatIn(t.Name(), small), page.Leave(t, shown))
}

// shrunk is a smaller plan that fails too, for as long as there is time, and how it came
// about. One that was asked for stays as it is.
func shrunk(p Plan, fails func(Plan) bool) (small Plan, how string) {
	if os.Getenv(planVariable) != "" {
		return p, "the plan of " + planVariable
	}
	if !fails(p) {
		return p, "not shrunk"
	}
	until := time.Now().Add(shrinkFor)
	small = Shrink(p, func(p Plan) bool { return time.Now().Before(until) && fails(p) })
	return small, fmt.Sprintf("shrunk to %d faults of %d", len(small.Faults), len(p.Faults))
}

// repeatIn is the command that plays a plan again, in the directory of the test's package.
func repeatIn(test string, p Plan) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return fmt.Sprintf("%s=%s go test -run %s -v .", planVariable, quoted(p.String()), quoted(strings.Join(parts, "/")))
}

// quoted is a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// shownOfTrace is how many records before a violation a failed test prints.
const shownOfTrace = 40

// PlayVirtual plays a plan on a virtual stage in a testing/synctest bubble, with a witness
// ([Plan.PlayWatched]), and returns the run, judged: what [WritePage] takes. That the plan can't
// be played fails the test. t must not be of a bubble. Meanwhile the process has one processor:
// the same plan then gives the same trace.
func PlayVirtual(t *testing.T, p Plan, kit Kit) Run {
	t.Helper()
	run, err := p.judged(t, kit.Name, true, func(stage Stage) ([]Record, error) { return p.PlayWatched(stage, kit) })
	if err != nil {
		t.Error(err)
	}
	return run
}

// Explore plays a plan with a kit and returns the verdict. If a rule was broken,
// the test fails with a plan that was shrunk, the end of its trace, and the
// command that repeats it with the same kit, from the same test, as [Test] does.
// A run in which no attempt ended fails too: it shows nothing. If rules are given, the
// others do not matter, and the verdict does not have them.
func Explore(t *testing.T, p Plan, kit Kit, rules ...Rule) Verdict {
	t.Helper()
	p = planned(t, p)
	play := func(t *testing.T, p Plan, watched bool) (Run, error) {
		t.Helper()
		run, err := p.judged(t, kit.Name, true, func(stage Stage) ([]Record, error) {
			if watched {
				return p.PlayWatched(stage, kit)
			}
			return p.Play(stage, kit)
		})
		run.Verdict.Violations = slices.DeleteFunc(run.Verdict.Violations, func(v Violation) bool {
			return len(rules) > 0 && !slices.Contains(rules, v.Rule)
		})
		return run, err
	}
	seen, err := play(t, p, false)
	if err != nil {
		t.Error(err)
	}
	switch {
	case seen.Verdict.Rounds == 0:
		t.Errorf("%s: no attempt ended: the run shows nothing\nthe plan: %v", kit.Name, p)
	case len(seen.Verdict.Violations) > 0:
		t.Errorf("%v", convicted(t, p, seen, play))
	}
	return seen.Verdict
}

// nodeNames are those that the nodes of a virtual stage have.
func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = virtualName(i)
	}
	return names
}

// tail is what the trace has before the first violation.
func tail(records []Record, v Verdict) string {
	if len(v.Violations) == 0 {
		return "(it does not show every time: the run leans on something beside the seed)"
	}
	var lines []string
	for _, r := range records {
		if r.At > v.Violations[0].At {
			break
		}
		lines = append(lines, fmt.Sprintf("  %v %s %s %s hold %d token %d until %v %s", r.At, r.Kind, r.Client, r.Resource, r.Hold, r.Token, r.Until, r.Text))
	}
	return strings.Join(lines[max(0, len(lines)-shownOfTrace):], "\n")
}

// Enter says that the client is at work under a lock: from here on, up to [Tenure.Leave],
// nobody else may be, but those who share it where it is shared, or have another slot of
// it. That holds no matter what the lock's validity is and what the code believes: code that
// goes on after its lock was lost breaks the rule of [TwoHolders] as soon as another
// client is at work. So leave before the lock is released.
//
// Only while the client rests in [Client.Step] or [Tenure.Write] is it not at work. After a
// pause in which its lock ended it has a tenth of a second to notice that.
func (c *Client) Enter(lock *redlock.Lock) *Tenure {
	w := request{Resources: []string{lock.Resource()}, Shared: lock.Shared()}
	if slot := lock.Slot(); slot >= 0 {
		w.Limit = slot + 1 // how many there are it does not say
	}
	set, ids := c.actor.history.ask(c.Name, w)
	t := &Tenure{actor: c.actor, work: c, hold: one{redlockHold{lock}}, request: w, set: set, ids: ids, ended: make(chan struct{})}
	t.mu.Lock()
	t.recordLocked(trace.Held)
	t.mu.Unlock()
	c.mu.Lock()
	c.atWork = append(c.atWork, t)
	c.mu.Unlock()
	c.actor.watching.Go(t.tellLoss)
	return t
}

// Step is a step of the client's own code: while a pause or a suspend has stopped the
// client, it blocks, as all that a process does stands still meanwhile. Call it before
// what counts, such as between the look at the lock and the write: a garbage collection
// may come there. It returns ctx's error if ctx is done by then, and else nil; that the
// lock may be lost it does not say.
func (c *Client) Step(ctx context.Context) error {
	c.rest()
	return ctx.Err()
}

// rest blocks while the client is stopped. What it was at rests with it.
func (c *Client) rest() {
	if s, ok := whole(c.actor.stage).(interface {
		stops(string, Moment) bool
	}); !ok || !s.stops(c.Name, AtWrite) {
		return
	}
	resting := c.working()
	for _, t := range resting {
		t.pauses()
	}
	c.actor.rest(AtWrite)
	for _, t := range resting {
		t.goesOn()
	}
}

// left is worker.left.
func (c *Client) left(t *Tenure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.atWork = slices.DeleteFunc(c.atWork, func(of *Tenure) bool { return of == t })
}

// working is what the client is at.
func (c *Client) working() []*Tenure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.atWork)
}
