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
	script func(context.Context, *scene) error
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
		pauseScenarios(), memoryScenarios(), clockScenarios(), partitionScenarios(),
		messageScenarios(), nodeScenarios(), listScenarios(), crowdScenarios(), queueScenarios(),
		grantScenarios(), shareScenarios(), setScenarios(), electionScenarios(),
		slotScenarios(), revocationScenarios(),
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
	err = s.script(ctx, sc)
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

// enter has an actor come on.
func (s *scene) enter(name string) (*actor, error) { return s.enterWith(name, s.stage) }

// enterWith has an actor come on with a list of nodes of its own.
func (s *scene) enterWith(name string, stage Stage) (*actor, error) {
	a, err := newActor(name, s.kit, stage, s.history, s.guard)
	if err != nil {
		return nil, err
	}
	s.leaves(a)
	return a, nil
}

// leaves has c closed with the scene.
func (s *scene) leaves(c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = append(s.leaving, c)
}

// pair brings on the two actors of most scenarios, and rehearses with them.
func (s *scene) pair(ctx context.Context) (ann, bob *actor, err error) {
	if ann, err = s.enter("ann"); err != nil {
		return nil, nil, err
	}
	if bob, err = s.enter("bob"); err != nil {
		return nil, nil, err
	}
	return ann, bob, s.rehearse(ctx, ann, bob)
}

// rehearse has actors lock something else first, unrecorded, and for as long as
// their libraries need to know the nodes and their clocks: connections are there
// then, and what comes next is judged against something.
func (s *scene) rehearse(ctx context.Context, actors ...*actor) error {
	for range 3 {
		for _, a := range actors {
			if err := s.lockOnce(ctx, a); err != nil {
				return fmt.Errorf("%s at the rehearsal: %w", a.Name, err)
			}
		}
		time.Sleep(sampleEvery)
	}
	return nil
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
func (s *scene) operator() (*redlock.Locker, error) {
	clients, err := s.stage.Connect("operator")
	if err != nil {
		return nil, err
	}
	op, err := redlock.New(clients, redlock.WithNodeNames(s.stage.Names()...), redlock.WithTTL(scenarioLease), redlock.WithMaxTTL(scenarioLease))
	if err != nil {
		return nil, err
	}
	s.leaves(op)
	return op, nil
}

func (s *scene) breakNow(f Fault) error {
	s.history.Add(f.Record(trace.Broke, s.all().Names()))
	if err := s.stage.Break(f); err != nil || !f.Kind.OfClient() {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = append(s.stopped, f)
	return nil
}

func (s *scene) mend(f Fault) error {
	s.mu.Lock()
	s.stopped = slices.DeleteFunc(s.stopped, func(of Fault) bool { return of == f })
	s.mu.Unlock()
	s.history.Add(f.Record(trace.Mended, s.all().Names()))
	return s.stage.Mend(f)
}

// breakAll begins a fault on some nodes.
func (s *scene) breakAll(f Fault, nodes ...int) error {
	for _, n := range nodes {
		f.Node = n
		if err := s.breakNow(f); err != nil {
			return err
		}
	}
	return nil
}

// mendAll ends it, on all of them at once: processes take their time to start.
func (s *scene) mendAll(f Fault, nodes ...int) error {
	var all errgroup.Group
	for _, n := range nodes {
		f := f
		f.Node = n
		s.history.Add(f.Record(trace.Mended, s.all().Names()))
		all.Go(func() error { return s.stage.Mend(f) })
	}
	return all.Wait()
}

// insist has an actor ask until it holds, or until within has passed.
func (s *scene) insist(ctx context.Context, a *actor, within time.Duration) (*Tenure, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return a.Insist(ctx, scenarioResource, scenarioLease, func() time.Duration { return askEvery })
}

// holds has an actor get the lock and be at work for a while: what it sent to
// the nodes that its quorum did not need has arrived then.
func (s *scene) holds(ctx context.Context, a *actor) (*Tenure, error) {
	t, err := s.insist(ctx, a, 2*scenarioLease) // a master that gets its first replica has another history, and abstains for a lease
	if err != nil {
		return nil, err
	}
	time.Sleep(aWhile)
	return t, nil
}

// opening is how most scenarios begin: ann and bob are there, and ann holds.
func (s *scene) opening(ctx context.Context) (ann, bob *actor, first *Tenure, err error) {
	if ann, bob, err = s.pair(ctx); err == nil {
		first, err = s.holds(ctx, ann)
	}
	return ann, bob, first, err
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
func (s *scene) visit(ctx context.Context, a *actor, within time.Duration) error {
	t, err := s.insist(ctx, a, within)
	if err != nil {
		return err
	}
	err = t.Write(ctx)
	_ = t.Release(ctx) // what it leaves behind is the trace's matter
	return err
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
