package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Many clients that want one name at one moment.
func crowdScenarios() []Scenario {
	return []Scenario{splitVote(), thunderingHerd()}
}

const (
	contenders = 10
	herd       = 25
	// How much later a request is at every other node, for each contender's own.
	farther = 2 * time.Millisecond
)

func splitVote() Scenario {
	return Scenario{
		Name:     "split-vote",
		Claim:    "ten clients ask at one moment, each nearest to another node, so that nobody gets a quorum: soon one does, and then each of them",
		Lesson:   "draw the pause between two attempts at random, and take back at once what brought no quorum",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Progress: 2 * scenarioLease, Patience: 8 * scenarioLease},
		script: func(ctx context.Context, s *scene) error {
			crowd, err := s.crowd(ctx, contenders)
			if err != nil {
				return err
			}
			for i, a := range crowd {
				for node := range s.stage.Names() {
					if node == i%scenarioNodes {
						continue
					}
					if err := s.breakNow(Fault{Kind: Slow, Client: a.Name, Node: node, Delay: farther}); err != nil {
						return err
					}
				}
			}
			return s.rush(ctx, crowd)
		},
	}
}

func thunderingHerd() Scenario {
	return Scenario{
		Name:     "thundering-herd",
		Claim:    "twenty-five clients wait for a name when its holder gives it up: one at a time, and each of them in the end",
		Lesson:   "a crowd costs messages, not exclusion: nobody starves where pauses are drawn at random",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Progress: 2 * scenarioLease, Patience: 8 * scenarioLease},
		script: func(ctx context.Context, s *scene) error {
			ann, err := s.enter("ann")
			if err != nil {
				return err
			}
			crowd, err := s.crowd(ctx, herd)
			if err != nil {
				return err
			}
			first, err := s.holds(ctx, ann)
			if err != nil {
				return err
			}
			rushed := make(chan error)
			go func() { rushed <- s.rush(ctx, crowd) }()
			time.Sleep(aWhile)
			err = first.Release(ctx)
			return errors.Join(err, <-rushed)
		},
	}
}

// crowd has n actors come on.
func (s *scene) crowd(ctx context.Context, n int) ([]*actor, error) {
	var actors []*actor
	for i := range n {
		a, err := s.enter(fmt.Sprintf("client-%d", i))
		if err != nil {
			return nil, err
		}
		actors = append(actors, a)
	}
	return actors, s.rehearse(ctx, actors...)
}

// rush has each actor lock once, all at one moment. They differ in how they draw
// their pauses, and in nothing else.
func (s *scene) rush(ctx context.Context, actors []*actor) error {
	ctx, cancel := context.WithTimeout(ctx, 10*scenarioLease)
	defer cancel()
	errs := make([]error, len(actors))
	var work sync.WaitGroup
	for i, a := range actors {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		work.Go(func() {
			t, err := a.Insist(ctx, scenarioResource, scenarioLease, func() time.Duration {
				return askEvery/2 + spread(random, 4*askEvery)
			})
			if err != nil {
				errs[i] = err
				return
			}
			time.Sleep(spread(random, aWhile/10))
			errs[i] = t.Write(ctx)
			_ = t.Release(ctx) // nobody waits for it
		})
	}
	work.Wait()
	return errors.Join(errs...)
}
