package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Links that are cut; what they hold back arrives when they are healed.
func partitionScenarios() []Scenario {
	return []Scenario{partitionHolder(), partitionWaiter(), partitionMinority(), partitionMajority(), partitionSides()}
}

func partitionHolder() Scenario {
	return Scenario{
		Name:     "partition-holder",
		Claim:    "a holder that reaches no node stops believing before the next one holds",
		Lesson:   "the end of a lease needs no message: mind your own clock",
		Showings: guarded(trace.NameRedlock, trace.NameRenewing, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script: func(ctx context.Context, s *scene) error {
			ann, bob, first, err := s.opening(ctx)
			if err != nil {
				return err
			}
			cut := Fault{Kind: Cut, Client: ann.Name, Node: Everything}
			if err := s.breakNow(cut); err != nil {
				return err
			}
			next, err := s.insist(ctx, bob, 3*scenarioLease)
			first.Remaining()
			if err := errors.Join(err, s.mend(cut)); err != nil {
				return err
			}
			return next.Release(ctx)
		},
	}
}

func partitionWaiter() Scenario {
	return Scenario{
		Name:     "partition-waiter",
		Claim:    "a client that waits is cut off in the middle of an attempt: it delays nobody, and what it sent does no harm when it arrives",
		Lesson:   "an attempt that failed is taken back until the node has said so",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   partitionOfTheWaiter,
	}
}

func partitionOfTheWaiter(ctx context.Context, s *scene) error {
	ann, bob, err := s.pair(ctx)
	if err != nil {
		return err
	}
	cara, err := s.enter("cara")
	if err != nil {
		return err
	}
	if err := s.rehearse(ctx, cara); err != nil {
		return err
	}
	first, err := s.holds(ctx, ann)
	if err != nil {
		return err
	}
	cut := Fault{Kind: Cut, Client: bob.Name, Node: Everything}
	if err := s.breakNow(cut); err != nil {
		return err
	}
	waited := make(chan error)
	go func() {
		waiting, err := s.insist(ctx, bob, 4*scenarioLease)
		if err == nil {
			err = waiting.Release(ctx)
		}
		waited <- err
	}()
	time.Sleep(aWhile)
	err = errors.Join(first.Release(ctx), s.visit(ctx, cara, 2*scenarioLease))
	err = errors.Join(err, s.mend(cut))
	return errors.Join(err, <-waited)
}

func partitionMinority() Scenario {
	return Scenario{
		Name:   "partition-minority",
		Claim:  "two of five nodes are cut off from everybody: the other three go on as before, and one master that is cut off grants nothing",
		Lesson: "five masters bear two that are out of reach, and nobody has to notice",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{Starved}},
		},
		judge: trace.Judge{Patience: scenarioLease},
		script: func(ctx context.Context, s *scene) error {
			ann, bob, err := s.pair(ctx)
			if err != nil {
				return err
			}
			if err := s.breakAll(Fault{Kind: Cut}, aMinority...); err != nil {
				return err
			}
			err = errors.Join(s.visit(ctx, ann, 3*scenarioLease/2), s.visit(ctx, bob, 3*scenarioLease/2))
			if errors.Is(err, context.DeadlineExceeded) {
				err = nil // the trace says who got nothing
			}
			return errors.Join(err, s.mendAll(Fault{Kind: Cut}, aMinority...))
		},
	}
}

func partitionMajority() Scenario {
	return Scenario{
		Name:     "partition-majority",
		Claim:    "three of five nodes are cut off from everybody: nobody gets the lock, its holder loses it in time, and after the healing it goes on",
		Lesson:   "without a quorum there is no lock, and that is the point: it would rather stop than be wrong",
		Showings: guarded(trace.NameRedlock, trace.NameRenewing, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   partitionOfAMajority,
	}
}

func partitionOfAMajority(ctx context.Context, s *scene) error {
	_, bob, first, err := s.opening(ctx)
	if err != nil {
		return err
	}
	s.history.Add(Record{Kind: trace.Sick})
	if err := s.breakAll(Fault{Kind: Cut}, aMajority...); err != nil {
		return err
	}
	if t, err := s.insist(ctx, bob, 3*scenarioLease/2); err == nil {
		return errors.Join(errors.New("bob got a lock without a quorum"), t.Release(ctx))
	}
	if left := first.Remaining(); left > 0 {
		return errors.New("ann still believes")
	}
	if err := s.mendAll(Fault{Kind: Cut}, aMajority...); err != nil {
		return err
	}
	s.history.Add(Record{Kind: trace.Well})
	return s.visit(ctx, bob, 3*scenarioLease)
}

func partitionSides() Scenario {
	return Scenario{
		Name:     "partition-sides",
		Claim:    "one client reaches nodes 0, 1 and 2, the other 2, 3 and 4: the node that both reach lets one of them have the lock at a time",
		Lesson:   "any two quorums share a node: that is why there is an odd number of them",
		Showings: guarded(trace.NameRedlock, trace.NameWithoutProtections, trace.NameTextbook),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script: func(ctx context.Context, s *scene) error {
			ann, bob, err := s.pair(ctx)
			if err != nil {
				return err
			}
			if err := s.breakAll(Fault{Kind: Cut, Client: ann.Name}, 3, 4); err != nil {
				return err
			}
			if err := s.breakAll(Fault{Kind: Cut, Client: bob.Name}, 0, 1); err != nil {
				return err
			}
			first, err := s.holds(ctx, ann)
			if err != nil {
				return err
			}
			if s.rivalFor(ctx, bob, first, scenarioLease/2) != nil {
				return nil // the trace says it
			}
			return errors.Join(first.Release(ctx), s.visit(ctx, bob, 2*scenarioLease))
		},
	}
}

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

// late delays the requests of one attempt of ann's; with held, they arrive
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
