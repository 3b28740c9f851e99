package yourcode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// What docs/CHAOS.md shows, word for word, and a scenario.

func TestTheWorkerKeepsTheRules(t *testing.T) {
	plan := chaos.NewPlan(1, time.Minute, chaos.Mix{
		Clients: 3, Kinds: []chaos.Break{chaos.Pause}, Every: 2 * time.Second, Longest: 9 * time.Second,
	})
	var store *Store
	chaos.Test(t, plan, func(ctx context.Context, c *chaos.Client) error {
		locker, err := c.Locker() // over connections that the faults are between
		if err != nil {
			return err
		}
		worker := Worker{Store: store, Step: c.Step}
		for ctx.Err() == nil {
			lock, err := locker.Acquire(ctx, "report")
			if err != nil {
				return err
			}
			at := c.Enter(lock) // from here on nobody else may be at work
			worker.Wrote = at.Wrote
			_ = worker.Report(ctx, lock) // the code under test
			at.Leave()
			_ = lock.Release(ctx) // unconfirmed: it lapses
		}
		return nil
	}, chaos.WithSetup(func() { store = &Store{} }))
}

func TestAWorkerThatIsBrokenIsConvicted(t *testing.T) {
	var store *Store
	setup := func() { store = &Store{} }
	broken := underFaults(&store, func(w Worker) reporter { return &forgetful{w} })
	plan := plans(0)[0]
	chaos.Test(t, plan, broken, chaos.WithSetup(setup), chaos.WithConviction(chaos.StaleWrite))
}

func TestAnotherLockIsPlayedAndJudged(t *testing.T) {
	found := 0
	for seed := range uint64(3) {
		plan := chaos.Swarm(seed, 30*time.Second)
		plan.Renews = false // for a kit that does not renew
		kit := plan.Redlock("redlock")
		chaos.Explore(t, plan, kit)            // fails the test if a rule was broken
		run := chaos.PlayVirtual(t, plan, kit) // or look at it yourself
		found += run.Verdict.Count(chaos.TwoHolders)
	}
	if found > 0 {
		t.Errorf("got %d moments of two holders; want none", found)
	}
}

// The same plan gives the same run: so the output is known.
func Example_scenario() {
	page := &bytes.Buffer{}
	redlock, err := chaos.ScenarioKit("redlock") // its leases are those of the scenarios
	if err != nil {
		log.Fatal(err)
	}
	runs, err := chaos.PlayScenario("amnesia-majority", Redsync(), redlock)
	for _, run := range runs {
		fmt.Println(run.About.Contender, "violates", len(run.Verdict.Violations), "times")
	}
	err = errors.Join(err, chaos.WritePage(page, runs...)) // page is a file, or any io.Writer
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a page:", page.Len() > 0)
	// Output:
	// redsync violates 2 times
	// redlock violates 0 times
	// a page: true
}
