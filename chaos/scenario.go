package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

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
	// Showings are what it shows of each contender: the claim, as a table that can
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
// not. All of them fit all backends, if the machine has what [Real] needs:
// ErrNoServer, ErrNoFakeClock.
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
// scenario's [Judge].
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
