package chaos

import (
	"context"
	"errors"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Clocks of nodes that are moved: a lease is a time of the node's own.
func clockScenarios() []Scenario {
	return []Scenario{clockForwardNode(), clockForwardQuorum(), clockBackNode(), clockBackQuorum(), kleppmannClock()}
}

func clockForwardNode() Scenario {
	return Scenario{
		Name:   "clock-forward-node",
		Claim:  "the clock of one node jumps past the lease: that node forgets the lock, four remember it",
		Lesson: "five masters bear two wrong clocks; one master bears none",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameRenewing, Guarded: true},
			{Contender: trace.NameWithoutClockWatch, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		clocks: true,
		script: func(ctx context.Context, s *scene) error { return s.jump(ctx, []int{0}) },
	}
}

func clockForwardQuorum() Scenario {
	return Scenario{
		Name:   "clock-forward-quorum",
		Claim:  "the clocks of three nodes jump past the lease: a second client holds too, unless clients compare what the nodes say of the time",
		Lesson: "slew the nodes' clocks, never step them; and let clients watch them",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameRenewing, Guarded: true},
			{Contender: trace.NameWithoutClockWatch, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		clocks: true,
		script: func(ctx context.Context, s *scene) error { return s.jump(ctx, aMajority) },
	}
}

// jump has nodes' clocks jump past ann's lease; when it is over, bob may hold.
func (s *scene) jump(ctx context.Context, nodes []int) error {
	_, bob, first, err := s.opening(ctx)
	if err != nil {
		return err
	}
	if err := s.breakAll(Fault{Kind: Step, Delay: 2 * scenarioLease}, nodes...); err != nil {
		return err
	}
	if s.rival(ctx, bob, first) != nil {
		return nil
	}
	_ = first.Release(ctx) // or it is renewed; one whose lock is lost has nothing to give up
	_, err = s.insist(ctx, bob, 3*scenarioLease)
	return err
}

func clockBackNode() Scenario {
	return Scenario{
		Name:   "clock-back-node",
		Claim:  "the holder dies, and the clock of one node is set back: that node keeps the dead holder's key for longer, four do not",
		Lesson: "one clock that is late delays nobody",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameRenewing, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{Starved}},
		},
		clocks: true,
		judge:  trace.Judge{Patience: 2 * scenarioLease},
		script: func(ctx context.Context, s *scene) error { return s.setBack(ctx, []int{0}) },
	}
}

func clockBackQuorum() Scenario {
	return Scenario{
		Name:   "clock-back-quorum",
		Claim:  "the holder dies, and the clocks of three nodes are set back: nobody else gets the lock for as long as that, and never two at once",
		Lesson: "a clock that is set back costs time, not exclusion",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true, Breaks: []Rule{Starved}},
			{Contender: trace.NameRenewing, Guarded: true, Breaks: []Rule{Starved}},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{Starved}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{Starved}},
		},
		clocks: true,
		judge:  trace.Judge{Patience: 2 * scenarioLease},
		script: func(ctx context.Context, s *scene) error { return s.setBack(ctx, aMajority) },
	}
}

// setBack has nodes' clocks go back by two leases while ann holds, and ann vanish.
func (s *scene) setBack(ctx context.Context, nodes []int) error {
	ann, bob, first, err := s.opening(ctx)
	if err != nil {
		return err
	}
	if err := s.breakAll(Fault{Kind: Step, Delay: -2 * scenarioLease}, nodes...); err != nil {
		return err
	}
	suspend := Fault{Kind: Suspend, Client: ann.Name}
	if err := s.breakNow(suspend); err != nil {
		return err
	}
	next, err := s.insist(ctx, bob, 5*scenarioLease)
	if err := errors.Join(err, s.mend(suspend)); err != nil {
		return err
	}
	first.Remaining()
	return next.Release(ctx)
}

func kleppmannClock() Scenario {
	return Scenario{
		Name:   "kleppmann-clock",
		Claim:  "client 1 holds by nodes A, B and C; the clock of C jumps; client 2, which reaches C, D and E, holds too, unless it knows that C's clock jumped",
		Lesson: "with as many nodes out of reach as a quorum can spare, one clock is enough",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameRenewing, Guarded: true},
			{Contender: trace.NameWithoutClockWatch, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		clocks: true,
		script: func(ctx context.Context, s *scene) error {
			return s.throughC(ctx, Fault{Kind: Step, Delay: 2 * scenarioLease, Node: 2})
		},
	}
}

// throughC has ann hold by the first three nodes, and bob insist, who reaches the
// last three: what they share is the third, and something happens to it.
func (s *scene) throughC(ctx context.Context, f Fault) error {
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
	if err := s.breakNow(f); err != nil {
		return err
	}
	if f.Kind == Forget {
		if err := s.mend(f); err != nil {
			return err
		}
	}
	s.rival(ctx, bob, first)
	return nil
}
