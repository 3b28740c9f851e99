package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Messages that arrive when nobody thinks of them any more.
func messageScenarios() []Scenario {
	return []Scenario{lateAcquire(), messageDelayed(), lateRelease()}
}

func lateAcquire() Scenario {
	return Scenario{
		Name:   "late-acquire",
		Claim:  "an attempt is given up, and its requests reach the nodes afterwards: nobody wants those keys, and the name is blocked for a lease, unless the attempt was taken back for good",
		Lesson: "taking back once is not enough: the delete must be repeated, and must win against a set that comes after it",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{Starved}},
		},
		judge:  trace.Judge{Patience: scenarioLease / 2},
		script: func(ctx context.Context, s *scene) error { return s.late(ctx, scenarioLease/2, false) },
	}
}

func messageDelayed() Scenario {
	return Scenario{
		Name:     "message-delayed",
		Claim:    "requests of an attempt that was given up reach the nodes after more than a lease, while another client holds: they change nothing",
		Lesson:   "a key is set where there is none, and removed by its owner: age makes a command harmless",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   func(ctx context.Context, s *scene) error { return s.late(ctx, 5*scenarioLease/4, true) },
	}
}

// late has the requests of one attempt of ann's arrive after a delay; with held,
// while bob holds.
func (s *scene) late(ctx context.Context, delay time.Duration, held bool) error {
	ann, bob, err := s.pair(ctx)
	if err != nil {
		return err
	}
	cut := Fault{Kind: CutRequests, Client: ann.Name, Node: Everything}
	if err := s.breakNow(cut); err != nil {
		return err
	}
	asked := make(chan error)
	go func() {
		_, err := ann.Ask(ctx, scenarioResource, scenarioLease)
		ann.Quit(scenarioResource)
		asked <- err
	}()
	time.Sleep(delay)
	var next *Tenure
	if held {
		if next, err = s.insist(ctx, bob, 2*scenarioLease); err != nil {
			return err
		}
	}
	if err := s.mend(cut); err != nil {
		return err
	}
	if err := <-asked; err == nil {
		return errors.New("ann got a lock although nothing of hers arrived")
	}
	time.Sleep(aWhile / 2) // all arrives
	if held {
		return errors.Join(s.prolong(ctx, next), next.Write(ctx), next.Release(ctx))
	}
	return s.visit(ctx, bob, 2*scenarioLease)
}

func lateRelease() Scenario {
	return Scenario{
		Name:     "late-release",
		Claim:    "a release reaches the nodes after its lease, while the next client holds: it removes nothing, since the key is not its own",
		Lesson:   "never delete a lock by its name alone: compare the owner",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   releaseTooLate,
	}
}

func releaseTooLate(ctx context.Context, s *scene) error {
	ann, bob, first, err := s.opening(ctx)
	if err != nil {
		return err
	}
	cut := Fault{Kind: CutRequests, Client: ann.Name, Node: Everything}
	if err := s.breakNow(cut); err != nil {
		return err
	}
	released := make(chan struct{})
	go func() {
		defer close(released)
		_ = first.Release(ctx) // nobody confirms it
	}()
	next, err := s.insist(ctx, bob, 2*scenarioLease)
	if err := errors.Join(err, s.mend(cut)); err != nil {
		return err
	}
	<-released
	time.Sleep(aWhile) // it arrives
	if err := s.prolong(ctx, next); err != nil {
		return fmt.Errorf("bob's key is gone: %w", err)
	}
	if s.rivalFor(ctx, ann, next, scenarioLease/2) != nil {
		return nil // the trace says it
	}
	return errors.Join(next.Write(ctx), next.Release(ctx))
}
