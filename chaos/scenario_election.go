package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Those who stand for an election, and one who observes it.
func electionScenarios() []Scenario { return []Scenario{pausedLeader()} }

func pausedLeader() Scenario {
	stale := []Rule{StaleWrite}
	return Scenario{
		Name:   "paused-leader",
		Claim:  "the leader's machine sleeps between its look and its write, the other candidate leads meanwhile, and an observer is told of each in turn: the first one's write comes after the second's, and only a guard refuses it",
		Lesson: "an election is a lock: for a moment two may think that they lead, so give each write the leader's token",
		Showings: []trace.Showing{
			{Contender: trace.NameRenewing, Guarded: true, Refused: 1},
			{Contender: trace.NameRenewing, Breaks: stale},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: stale},
			{Contender: trace.NameSingle, Guarded: true, Breaks: stale},
		},
		judge:  trace.Judge{Progress: scenarioLease + soon, Seen: seenWithin},
		script: theLeaderSleeps,
	}
}

func theLeaderSleeps(ctx context.Context, s *scene) error {
	ann, bob, err := s.pair(ctx)
	if err != nil {
		return err
	}
	oscar, err := s.enter("oscar")
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, 20*scenarioLease)
	defer end()
	observing, leave := context.WithCancel(ctx)
	observed := make(chan struct{})
	go func() {
		defer close(observed)
		oscar.Observe(observing, scenarioResource)
	}()
	err = s.twoReigns(ctx, ann, bob)
	leave()
	<-observed
	if _, observes := oscar.contender.(elector); err == nil && observes {
		err = s.toldOf("ann", "bob")
	}
	return err
}

// twoReigns has ann lead and sleep before a write, and bob lead meanwhile. Once awake, ann
// may lead again, and then resigns at once.
func (s *scene) twoReigns(ctx context.Context, ann, bob *actor) error {
	asleep := Fault{Kind: Suspend, Client: ann.Name}
	leads, first := make(chan error, 1), true
	annDone, bobDone := make(chan error, 1), make(chan error, 1)
	go func() {
		annDone <- s.stands(ctx, ann, func(leading context.Context, t *Tenure) error {
			if !first {
				return nil
			}
			first = false
			time.Sleep(aWhile)
			leads <- s.breakNow(asleep)
			_ = t.Write(context.WithoutCancel(leading)) // refused or not: the trace says it
			return nil
		})
	}()
	if err := <-leads; err != nil {
		return err
	}
	wrote := make(chan error, 1)
	awake := make(chan struct{})
	go func() {
		bobDone <- s.stands(ctx, bob, func(leading context.Context, t *Tenure) error {
			wrote <- t.Write(leading)
			time.Sleep(seenWithin)
			<-awake
			return nil
		})
	}()
	err := <-wrote
	time.Sleep(aWhile)
	err = errors.Join(err, s.mend(asleep)) // or ann rests for good
	time.Sleep(aWhile)
	close(awake)
	return errors.Join(err, <-annDone, <-bobDone)
}

// stands has an actor stand for the election.
func (s *scene) stands(ctx context.Context, a *actor, lead func(context.Context, *Tenure) error) error {
	return a.Campaign(ctx, scenarioResource, scenarioLease, func() time.Duration { return askEvery }, lead)
}

// toldOf looks whether an observer was told of these in this order, others between them.
func (s *scene) toldOf(clients ...string) error {
	told := []string{}
	for _, r := range s.history.Records() {
		if r.Kind == trace.Saw {
			told = append(told, r.Value)
		}
	}
	left := told
	for _, c := range clients {
		i := slices.IndexFunc(left, func(value string) bool { return len(value) > len(c) && value[:len(c)] == c })
		if i < 0 {
			return fmt.Errorf("an observer was told of %q; want %q among them, in this order", told, clients)
		}
		left = left[i+1:]
	}
	return nil
}
