package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/bubble"
	"github.com/quorumkit/redlock/internal/lab/process"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Scenario is a failure that is told in a few steps, on any stage, with any kit.
type Scenario struct {
	Name   string
	Claim  string // what it shows
	Lesson string // what a user should take away

	// Nodes is how many nodes the stage must have.
	Nodes int
	// Showings are what it shows of each contender, guarded or not: the rules that it breaks,
	// or may break, and how many writes are refused: the claim, as a table that can
	// be held against a run.
	Showings []trace.Showing

	judge  trace.Judge
	clocks bool  // it moves the nodes' clocks
	list   []int // the nodes of all clients, unless they are given others; nil: all
	script func(context.Context, *scene)
}

// scenarioLease is the lease in every scenario: kits need a MaxTTL of at least
// as much. It is long beside what a busy machine takes to start a process again:
// with two seconds, and eight processes for each processor, a lease was over at
// times before three servers were back.
const scenarioLease = 3 * time.Second

// scenarioNodes is how many nodes a scenario has that says nothing.
const scenarioNodes = 5

// Scenarios returns the catalogue.
func Scenarios() []Scenario {
	all := slices.Concat(
		pauseScenarios, memoryScenarios, clockScenarios, partitionScenarios, messageScenarios,
		nodeScenarios, listScenarios, crowdScenarios, queueScenarios, grantScenarios,
		shareScenarios, setScenarios, electionScenarios, slotScenarios, revocationScenarios,
	)
	for i := range all {
		if all[i].Nodes == 0 {
			all[i].Nodes = scenarioNodes
		}
	}
	return all
}

// FindScenario returns the scenario of that name; ok is false if there is none.
func FindScenario(name string) (s Scenario, ok bool) {
	all := Scenarios()
	i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return all[i], true
}

// Judge is the judge of the scenario's traces: what it may take is part of the
// claim.
func (s Scenario) Judge() trace.Judge { return s.judge }

// Fit says whether the scenario can be played on a backend, here: nil, or why
// not. All of them fit all backends, if the machine has what [Real] needs: a
// server in PATH and, for a scenario that moves clocks, Linux and a C compiler.
func (s Scenario) Fit(b Backend) error {
	if !slices.Contains(backends(), b) {
		return fmt.Errorf("chaos: %s: no backend %q: there are %q", s.Name, b, backends())
	}
	if b != Real {
		return nil
	}
	if _, err := process.Find(""); err != nil {
		return err
	}
	if !s.clocks {
		return nil
	}
	_, err := process.FakeClock()
	return err
}

// Play runs the scenario on a stage that was just made, with Nodes nodes, and
// returns the trace. With guarded, the resource checks the tokens of a kit that
// has them. It fails if a step can't be done; what the steps showed is for the
// scenario's Judge.
func (s Scenario) Play(ctx context.Context, stage Stage, kit Kit, guarded bool) ([]Record, error) {
	if n := len(stage.Names()); n < s.Nodes {
		return nil, fmt.Errorf("chaos: %s: %d nodes: it needs %d", s.Name, n, s.Nodes)
	}
	ctx, end := context.WithCancel(ctx)
	sc := &scene{stage: part{stage, s.list}, kit: kit, history: newHistory(), end: end}
	defer end()
	if err := found(sc.stage, scenarioLease); err != nil { //nolint:contextcheck // a Locker's own goroutines outlive every call
		return nil, err
	}
	rest, err := attest(stage, sc.history, stage.Connect) //nolint:contextcheck // it looks on after ctx is done
	if err != nil {
		return nil, err
	}
	defer rest()
	stop := observe(stage, sc.history, scenarioLease)
	if guarded {
		sc.guard = &fencing.Memory{}
	}
	defer sc.close()
	err = try(func() { s.script(ctx, sc) })
	stop(false)
	if err != nil {
		return sc.history.Records(), fmt.Errorf("chaos: %s with %s: %w", s.Name, kit.Name, err)
	}
	return sc.history.Records(), nil
}

// scenarioSeed draws the latencies of [PlayScenario]: those that redlock-lab shows.
const scenarioSeed = 1

// PlayScenario plays a scenario of the catalogue with one kit after the other, on the virtual
// stage, and has each run judged: what [WritePage] takes. The resource
// accepts every write, so that the runs show what the locks alone do.
//
// It is for a program or an example, and blocks for some seconds at most, in
// virtual time: meanwhile the process has one processor, and what is printed to os.Stdout is
// lost. Kits need a MaxTTL of at least three seconds. It fails if
// there is no scenario of that name, if no kit is given, and where a kit can't be opened.
func PlayScenario(name string, kits ...Kit) ([]Run, error) {
	s, ok := FindScenario(name)
	if !ok {
		return nil, fmt.Errorf("chaos: there is no scenario %q: Scenarios lists them", name)
	}
	if len(kits) == 0 {
		return nil, fmt.Errorf("chaos: %s: no kit is given: give one at least", name)
	}
	var runs []Run
	for _, kit := range kits {
		run := Run{About: trace.About{
			Scenario: s.Name, Claim: s.Claim, Lesson: s.Lesson, Contender: kit.Name,
			Backend: string(Virtual), Seed: scenarioSeed, Judge: s.Judge(),
		}}
		err := bubble.Run(func() error {
			stage, err := NewVirtual(scenarioSeed, s.Nodes)
			if err != nil {
				return err
			}
			run.About.Nodes = stage.Names()
			run.Records, err = s.Play(context.Background(), stage, kit, false)
			return errors.Join(err, stage.Close())
		})
		if err != nil {
			return nil, fmt.Errorf("chaos: %s with %s: %w", name, kit.Name, err)
		}
		run.Verdict = run.About.Judge.Judge(run.Records)
		runs = append(runs, run)
	}
	return runs, nil
}

// scene is a scenario while it is played.
type scene struct {
	stage   Stage
	kit     Kit
	history *history
	guard   *fencing.Memory

	end  context.CancelFunc // of the script's context
	work sync.WaitGroup     // of those who go on beside the script

	mu      sync.Mutex  // guards the rest
	leaving []io.Closer // all that came on
	stopped []Fault     // that stop a client, and are not mended
}

const (
	scenarioResource = "report"
	// askEvery is the pause between two attempts of a client that waits.
	askEvery = 50 * time.Millisecond
	// sampleEvery is more than the age at which redlock asks a node's clock again.
	sampleEvery = 120 * time.Millisecond
	// aWhile is for two that both hold to be at work, and for messages to arrive.
	aWhile = scenarioLease / 8
)

// everyWhile is the pause between two attempts, as actors take it.
func everyWhile() time.Duration { return askEvery }

// all is the stage with all its nodes.
func (s *scene) all() Stage { return whole(s.stage) }

// whole is the stage of which clients may know a part.
func whole(stage Stage) Stage {
	for {
		p, ok := stage.(part)
		if !ok {
			return stage
		}
		stage = p.Stage
	}
}

// failedStep is what a step of a script panics with that can't be done.
type failedStep struct{ err error }

// must ends the script, or the part of it that calls, if err is not nil: as t.Fatal ends a
// test. So do the steps below that return no error; [try] recovers the error.
func must(err error) {
	if err != nil {
		panic(failedStep{err})
	}
}

// try runs a script, or a part of one, and returns the error of the step that ended it.
func try(part func()) (err error) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case failedStep:
			err = failed.err
		default:
			panic(failed)
		}
	}()
	part()
	return nil
}

// spawn runs a part of the script beside the rest. What it returns yields the part's error.
func (s *scene) spawn(part func()) <-chan error {
	done := make(chan error, 1)
	s.work.Go(func() { done <- try(part) })
	return done
}

// enter brings an actor on.
func (s *scene) enter(name string) *actor { return s.enterWith(name, s.stage) }

// enterWith brings on an actor with a list of nodes of its own.
func (s *scene) enterWith(name string, stage Stage) *actor {
	a, err := newActor(name, s.kit, stage, s.history, s.guard)
	must(err)
	s.leaves(a)
	return a
}

// leaves has c closed with the scene.
func (s *scene) leaves(c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = append(s.leaving, c)
}

// pair brings on the two actors of most scenarios, and rehearses with them.
func (s *scene) pair(ctx context.Context) (ann, bob *actor) {
	ann, bob = s.enter("ann"), s.enter("bob")
	s.rehearse(ctx, ann, bob)
	return ann, bob
}

// rehearse has actors lock something else first, unrecorded, and for as long as
// their libraries need to know the nodes and their clocks: connections are there
// then, and what comes next is judged against something.
func (s *scene) rehearse(ctx context.Context, actors ...*actor) {
	for range 3 {
		for _, a := range actors {
			if err := s.lockOnce(ctx, a); err != nil {
				must(fmt.Errorf("%s at the rehearsal: %w", a.Name, err))
			}
		}
		time.Sleep(sampleEvery)
	}
}

// lockOnce has an actor lock a name that nobody else wants.
func (s *scene) lockOnce(ctx context.Context, a *actor) error {
	ctx, cancel := context.WithTimeout(ctx, 2*scenarioLease)
	defer cancel()
	for {
		hold, err := a.contender.Acquire(ctx, "rehearsal of "+a.Name, scenarioLease)
		if err == nil {
			_ = hold.Release(ctx) // nobody waits for it
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(askEvery):
		}
	}
}

// close closes every contender, once all who still wait, work, or stand still have ended:
// nobody outlives the play.
func (s *scene) close() {
	s.mu.Lock()
	leaving, stopped := s.leaving, s.stopped
	s.mu.Unlock()
	s.end()
	for _, f := range stopped {
		_ = s.stage.Mend(f) // of a script that failed: who is to end must not stand still
	}
	s.work.Wait()
	var work sync.WaitGroup
	for _, c := range leaving {
		work.Go(func() { _ = c.Close() }) // a release that no broken quorum confirms is no news
	}
	work.Wait()
}

// operator returns what the nodes' operator has, no matter what the contenders are.
func (s *scene) operator() *redlock.Locker {
	clients, err := s.stage.Connect("operator")
	must(err)
	op, err := redlock.New(clients, redlock.WithNodeNames(s.stage.Names()...), redlock.WithTTL(scenarioLease), redlock.WithMaxTTL(scenarioLease))
	must(err)
	s.leaves(op)
	return op
}

// breakNow begins a fault.
func (s *scene) breakNow(f Fault) {
	s.history.Add(f.Record(trace.Broke, s.all().Names()))
	must(s.stage.Break(f))
	if !f.Kind.OfClient() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = append(s.stopped, f)
}

// mend ends it.
func (s *scene) mend(f Fault) {
	s.mu.Lock()
	s.stopped = slices.DeleteFunc(s.stopped, func(of Fault) bool { return of == f })
	s.mu.Unlock()
	s.history.Add(f.Record(trace.Mended, s.all().Names()))
	must(s.stage.Mend(f))
}

// breakAll begins a fault on some nodes.
func (s *scene) breakAll(f Fault, nodes ...int) {
	for _, n := range nodes {
		f.Node = n
		s.breakNow(f)
	}
}

// mendAll ends it, on all of them at once: processes take their time to start.
func (s *scene) mendAll(f Fault, nodes ...int) {
	var all errgroup.Group
	for _, n := range nodes {
		f := f
		f.Node = n
		s.history.Add(f.Record(trace.Mended, s.all().Names()))
		all.Go(func() error { return s.stage.Mend(f) })
	}
	must(all.Wait())
}

// insist has an actor ask until it holds, or until within has passed.
func (s *scene) insist(ctx context.Context, a *actor, within time.Duration) (*Tenure, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return a.Insist(ctx, only(scenarioResource), scenarioLease, everyWhile)
}

// gets is insist where the script can't go on without the lock.
func (s *scene) gets(ctx context.Context, a *actor, within time.Duration) *Tenure {
	t, err := s.insist(ctx, a, within)
	must(err)
	return t
}

// holds has an actor get the lock and be at work for a while: what it sent to
// the nodes that its quorum did not need has arrived then.
func (s *scene) holds(ctx context.Context, a *actor) *Tenure {
	t := s.gets(ctx, a, 2*scenarioLease) // a master that gets its first replica has another history, and abstains for a lease
	time.Sleep(aWhile)
	return t
}

// opening is how most scenarios begin: ann and bob are there, and ann holds.
func (s *scene) opening(ctx context.Context) (ann, bob *actor, first *Tenure) {
	ann, bob = s.pair(ctx)
	return ann, bob, s.holds(ctx, ann)
}

// waits has an actor wait until it has what it wants.
func (s *scene) waits(ctx context.Context, a *actor, w request, within time.Duration) *Tenure {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	t, err := a.Wait(ctx, w, scenarioLease, everyWhile)
	if err != nil {
		must(fmt.Errorf("%s: %w", a.Name, err))
	}
	return t
}

// rival has another actor insist for as long as first believes in its lock. If it
// gets the lock, both write, and are at work for a while. It returns the rival's tenure,
// or nil.
func (s *scene) rival(ctx context.Context, a *actor, first *Tenure) *Tenure {
	return s.rivalFor(ctx, a, first, first.Remaining()-2*askEvery)
}

// rivalFor is rival for a time that leaves something of first's lease.
func (s *scene) rivalFor(ctx context.Context, a *actor, first *Tenure, within time.Duration) *Tenure {
	t, err := s.insist(ctx, a, within)
	if err == nil {
		for _, who := range []*Tenure{first, t, first} { // the harm of it: refused or not, the trace says it
			_ = who.Write(ctx)
		}
		time.Sleep(min(aWhile, first.Remaining()))
	}
	first.Remaining() // it may have been told
	return t
}

// prolong has an actor extend its lease, and try again for as long as it holds: the
// nodes of a busy machine may take longer than a node timeout.
func (s *scene) prolong(ctx context.Context, t *Tenure) error {
	for {
		err := t.Extend(ctx, scenarioLease)
		if err == nil || t.Remaining() == 0 || ctx.Err() != nil {
			return err
		}
		time.Sleep(askEvery)
	}
}

// visit has an actor get the lock, write, and give it back.
func (s *scene) visit(ctx context.Context, a *actor, within time.Duration) {
	s.finish(ctx, s.gets(ctx, a, within))
}

// finish has the holder write, and give the lock back.
func (s *scene) finish(ctx context.Context, t *Tenure) {
	err := t.Write(ctx)
	_ = t.Release(ctx) // nodes may be broken; what it leaves behind is the trace's matter
	must(err)
}

// part is a stage of which clients know some nodes only; nil: all.
type part struct {
	Stage

	nodes []int
}

func (p part) Names() []string {
	names := p.Stage.Names()
	if p.nodes == nil {
		return names
	}
	return pick(names, p.nodes)
}

func (p part) Connect(client string) ([]redis.UniversalClient, error) {
	clients, err := p.Stage.Connect(client)
	if err != nil || p.nodes == nil {
		return clients, err
	}
	return pick(clients, p.nodes), nil
}

func pick[T any](all []T, which []int) []T {
	picked := make([]T, len(which))
	for i, n := range which {
		picked[i] = all[n]
	}
	return picked
}
