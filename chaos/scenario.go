package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
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

// scriptFor is far more than any script takes: one that waits for what does not come fails.
const scriptFor = 5 * time.Minute

// scenarioNodes is how many nodes a scenario has that says nothing.
const scenarioNodes = 5

// Judge is the judge of the scenario's traces, whose Judge(records) is the verdict: what it
// may take is part of the claim.
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
// has them. It refuses a [Redlock] whose leases are not those of [ScenarioKit], and fails if
// a step can't be done; what the steps showed is for the scenario's Judge.
func (s Scenario) Play(ctx context.Context, stage Stage, kit Kit, guarded bool) ([]Record, error) {
	if n := len(stage.Names()); n < s.Nodes {
		return nil, fmt.Errorf("chaos: %s: %d nodes: it needs %d", s.Name, n, s.Nodes)
	}
	if err := s.suits(kit); err != nil { //nolint:contextcheck // it sends nothing
		return nil, err
	}
	ctx, end := context.WithTimeoutCause(ctx, scriptFor, fmt.Errorf("the scenario is not over after %v", scriptFor))
	sc := &scene{stage: part{stage, s.list}, kit: kit, history: newHistory(), end: end, roster: &roster{stage: stage, maxTTL: scenarioLease, list: s.list}}
	defer end()
	if err := found(sc.stage, scenarioLease); err != nil { //nolint:contextcheck // a Locker's own goroutines outlive every call
		return nil, err
	}
	rest, err := startWitness(stage, sc.history, stage.Connect) //nolint:contextcheck // it looks on after ctx is done
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
	if over := context.Cause(ctx); err != nil && over != nil && !errors.Is(err, over) {
		err = fmt.Errorf("%w: %w", over, err)
	}
	stop(false)
	if err != nil {
		return sc.history.Records(), fmt.Errorf("chaos: %s with %s: %w", s.Name, kit.Name, err)
	}
	return sc.history.Records(), nil
}

// suits says why a kit of redlock's can't play; nil if it can. Scripts wait for the end of a
// lease, so none may be longer than scenarioLease, or renewed where nothing shows renewal. A
// Locker tells neither, but refuses what contradicts them. It is closed first, and so refuses
// all else: nothing is sent, and no observer of the user's is told of an attempt.
func (s Scenario) suits(kit Kit) error {
	if !kit.redlock {
		return nil
	}
	ctx := context.Background()
	node := redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer node.Close()
	c, err := kit.Open([]redis.UniversalClient{node}, []string{"none"})
	if err == nil {
		_ = c.Close()
		_, err = c.Acquire(ctx, scenarioResource, scenarioLease)
	}
	short, longer, renewed := errors.Is(err, redlock.ErrInvalidTTL), false, false
	if r, ours := c.(*redlockContender); ours {
		_, err = r.Acquire(ctx, scenarioResource, scenarioLease+time.Millisecond)
		longer = !errors.Is(err, redlock.ErrInvalidTTL)
		_, err = r.Gather(ctx, only("a", "b"), scenarioLease, false)
		renewed = !errors.Is(err, redlock.ErrInvalidOption)
	}
	shows := func(name string) bool {
		return slices.ContainsFunc(s.Showings, func(c trace.Showing) bool { return c.Contender == name })
	}
	take, fixed := trace.NameRedlock, ", redlock.WithFixedLease()"
	if shows(trace.NameRenewing) && !shows(take) {
		take, fixed = trace.NameRenewing, ""
	}
	if !short && !longer && (!renewed || kit.Name == trace.NameRenewing || shows(trace.NameRenewing)) {
		return nil
	}
	return fmt.Errorf("chaos: %s with %s: its leases do not fit: take ScenarioKit(%q), or give Redlock "+
		"redlock.WithTTL(3*time.Second), redlock.WithMaxTTL(3*time.Second)%s", s.Name, kit.Name, take, fixed)
}

// scene is a scenario while it is played.
type scene struct {
	stage   Stage
	kit     Kit
	history *history
	guard   *fencing.Memory
	roster  *roster

	end  context.CancelFunc // of the script's context
	work sync.WaitGroup     // of those who go on beside the script

	mu      sync.Mutex  // guards the rest
	leaving []io.Closer // all that came on
	stopped []Fault     // that stop a client, and are not mended
}

const (
	scenarioResource = "report"
	// sampleEvery is more than the age at which redlock asks a node's clock again.
	sampleEvery = 120 * time.Millisecond
	// aWhile is for two that both hold to be at work, and for messages to arrive.
	aWhile = scenarioLease / 8
)

// everyWhile is the pause between two attempts, as actors take it.
func everyWhile() time.Duration { return askEvery }

// all is the stage with all its nodes.
func (s *scene) all() Stage { return whole(s.stage) }

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

// leaves closes c with the scene.
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

// rehearse lets actors lock something else first, unrecorded, and for as long as
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

// lockOnce locks a name for an actor that nobody else wants, and releases it.
func (s *scene) lockOnce(ctx context.Context, a *actor) error {
	ctx, cancel := context.WithTimeout(ctx, 2*scenarioLease)
	defer cancel()
	for {
		hold, err := a.contender.Acquire(ctx, "rehearsal of "+a.Name, scenarioLease)
		if err == nil {
			_ = hold.Release(ctx) // nobody waits for it
			return nil
		}
		if !sleep(ctx, askEvery) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// close closes every contender, once all clients that still wait, work, or stand still have
// ended: nobody outlives the play.
func (s *scene) close() {
	s.mu.Lock()
	leaving, stopped := s.leaving, s.stopped
	s.mu.Unlock()
	s.end()
	for _, f := range stopped {
		_ = s.stage.Mend(f) // of a script that failed: a client that is to end must not stand still
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

// insist asks for an actor until it holds, or until within has passed.
func (s *scene) insist(ctx context.Context, a *actor, within time.Duration) (*Tenure, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	t, err := a.Insist(ctx, only(scenarioResource), scenarioLease, everyWhile)
	return t, late(a, scenarioResource, within, err)
}

// late says which step failed with err; nil if err is.
func late(a *actor, resource string, within time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s waits for %s, for which the scenario gives %v: %w", a.Name, resource, within, err)
}

// gets is insist where the script can't go on without the lock.
func (s *scene) gets(ctx context.Context, a *actor, within time.Duration) *Tenure {
	t, err := s.insist(ctx, a, within)
	must(err)
	return t
}

// holds gets the lock for an actor, which is at work for a while: what it sent to
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

// waits waits until an actor has what it wants.
func (s *scene) waits(ctx context.Context, a *actor, w request, within time.Duration) *Tenure {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	t, err := a.Wait(ctx, w, scenarioLease, everyWhile)
	must(late(a, w.Resources[0], within, err))
	return t
}

// rival lets another actor insist for as long as first believes in its lock. If it
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

// prolong extends an actor's lease, and tries again for as long as it holds: the
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

// visit gets the lock for an actor, writes, and gives it back.
func (s *scene) visit(ctx context.Context, a *actor, within time.Duration) {
	s.finish(ctx, s.gets(ctx, a, within))
}

// finish writes for the holder, and gives the lock back.
func (s *scene) finish(ctx context.Context, t *Tenure) {
	err := t.Write(ctx)
	_ = t.Release(ctx) // nodes may be broken; what it leaves behind is the trace's matter
	must(err)
}

// ScenarioKit is the kit of that name with the lease of the scenarios, three seconds:
// "redlock", "redlock without membership", "redlock without clock watch", "redlock without
// protections", "redlock, renewing", "textbook Redlock" or "single master". Redlock's does not
// renew, but for "redlock, renewing": scenarios extend where they mean to. It fails for another
// name.
func ScenarioKit(name string) (Kit, error) {
	renewed := []redlock.Option{redlock.WithTTL(scenarioLease), redlock.WithMaxTTL(scenarioLease)}
	lease := append(slices.Clip(renewed), redlock.WithFixedLease())
	switch name {
	case trace.NameRedlock:
		return Redlock(name, lease...), nil
	case trace.NameWithoutMembership:
		return Redlock(name, append(lease, redlock.WithoutMembership())...), nil
	case trace.NameWithoutClockWatch:
		return Redlock(name, append(lease, redlock.WithoutClockWatch())...), nil
	case trace.NameWithoutProtections:
		return Redlock(name, append(lease, redlock.WithoutMembership(), redlock.WithoutClockWatch())...), nil
	case trace.NameRenewing:
		return Redlock(name, renewed...), nil
	case trace.NameTextbook:
		return textbookRedlock(), nil
	case trace.NameSingle:
		return singleMaster(), nil
	}
	return Kit{}, fmt.Errorf("chaos: there is no contender %q; there are %s", name, strings.Join(trace.Contenders(), ", "))
}

// exclusion are the rules that two holders break which no guard tells apart.
var exclusion = []Rule{StaleWrite, TwoHolders}

// guarded is the claim of each of them that, with a guard, it keeps all rules.
func guarded(contenders ...string) []trace.Showing { return breaking(nil, contenders...) }

// breaking is the claim of each of them that, with a guard, it breaks these rules.
func breaking(rules []Rule, contenders ...string) []trace.Showing {
	return claimed(trace.Showing{Guarded: true, Breaks: rules}, contenders)
}

// atTimes is the claim of each of them that, with a guard, it may break these rules.
func atTimes(rules []Rule, contenders ...string) []trace.Showing {
	return claimed(trace.Showing{Guarded: true, May: rules}, contenders)
}

func claimed(claim trace.Showing, contenders []string) []trace.Showing {
	claims := make([]trace.Showing, len(contenders))
	for i, name := range contenders {
		claims[i] = claim
		claims[i].Contender = name
	}
	return claims
}

// otherTokens is what redlock shows whose nodes vote though they forgot all they had: their
// tokens begin anew.
var otherTokens = []trace.Showing{
	{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, May: []Rule{TokenOrder}, Refused: 1},
}

// A majority of the five nodes, and a minority.
var (
	aMajority = []int{0, 1, 2}
	aMinority = []int{0, 1}
)

// restart begins a fault and ends it at once.
func (s *scene) restart(f Fault) {
	s.breakNow(f)
	s.mend(f)
}

// throughC is a script in which ann holds by the first three nodes, and bob, who reaches
// the last three, insists. They share the third node, and the fault befalls it.
func throughC(f Fault) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		ann, bob := s.sides(ctx)
		first := s.holds(ctx, ann)
		s.breakNow(f)
		if f.Kind == Forget {
			s.mend(f)
		}
		s.rival(ctx, bob, first)
	}
}

// sides brings on ann, who reaches the first three nodes, and bob, who reaches the last three.
func (s *scene) sides(ctx context.Context) (ann, bob *actor) {
	ann, bob = s.pair(ctx)
	s.breakAll(Fault{Kind: Cut, Client: ann.Name}, 3, 4)
	s.breakAll(Fault{Kind: Cut, Client: bob.Name}, 0, 1)
	return ann, bob
}

// impatient draws the pauses of a client that asks again and again.
func impatient(random *rand.Rand) func() time.Duration {
	return func() time.Duration { return askEvery/2 + spread(random, 4*askEvery) }
}
