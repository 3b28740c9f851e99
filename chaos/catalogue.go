package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumkit/redlock/internal/lab/bubble"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Scenarios returns the catalogue.
func Scenarios() []Scenario {
	all := slices.Concat(
		pauseScenarios, memoryScenarios, clockScenarios, partitionScenarios, messageScenarios,
		nodeScenarios, listScenarios, changeScenarios, crowdScenarios, queueScenarios, grantScenarios,
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

// scenarioSeed draws the latencies of [PlayScenario]: those that redlock-lab shows.
const scenarioSeed = 1

// PlayScenario plays a scenario of the catalogue with one kit after the other, on the virtual
// stage, and has each run judged: what [WritePage] takes. The resource checks the tokens of a
// kit that has them.
//
// It is for a program or an example, and blocks for some seconds at most, in
// virtual time: meanwhile the process has one processor, and what is printed to os.Stdout is
// lost. It fails if there is no scenario of that name, no kit is given, a kit can't be opened,
// or a step can't be done, and then returns the other kits' runs. [ScenarioKit] has kits whose
// leases fit, such as "redlock": three seconds, not renewed. A [Redlock] with others is refused.
func PlayScenario(name string, kits ...Kit) ([]Run, error) {
	s, ok := FindScenario(name)
	if !ok {
		return nil, fmt.Errorf("chaos: there is no scenario %q: Scenarios lists them", name)
	}
	if len(kits) == 0 {
		return nil, fmt.Errorf("chaos: %s: no kit is given: give one at least", name)
	}
	var runs []Run
	var failed error
	for _, kit := range kits {
		run := Run{About: trace.About{
			Scenario: s.Name, Claim: s.Claim, Lesson: s.Lesson, Contender: kit.Name, Guarded: true,
			Backend: string(Virtual), Seed: scenarioSeed, Judge: s.Judge(),
		}}
		err := bubble.Run(func() error {
			stage, err := NewVirtual(scenarioSeed, s.Nodes)
			if err != nil {
				return err
			}
			run.About.Nodes = stage.Names()
			run.Records, err = s.Play(context.Background(), stage, kit, true)
			return errors.Join(err, stage.Close())
		})
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		run.Verdict = run.About.Judge.Judge(run.Records)
		runs = append(runs, run)
	}
	return runs, failed
}
