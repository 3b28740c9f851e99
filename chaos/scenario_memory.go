package chaos

import (
	"context"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// A majority of the five nodes, and a minority.
var (
	aMajority = []int{0, 1, 2}
	aMinority = []int{0, 1}
)

// Nodes that come back with less than they had, and answer as if nothing had
// happened.
func memoryScenarios() []Scenario {
	return []Scenario{
		amnesiaMinority(), amnesiaMajority(), oldData(), failover(), failoverMajority(), kleppmannCrash(), flushAll(), evictedKeys(),
	}
}

func amnesiaMinority() Scenario {
	return Scenario{
		Name:   "amnesia-minority",
		Claim:  "two of five nodes lose their memory at once: a quorum still remembers the holder",
		Lesson: "five masters bear two that forget; one master bears none",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		script: func(ctx context.Context, s *scene) error { return s.amnesia(ctx, aMinority) },
	}
}

func amnesiaMajority() Scenario {
	return Scenario{
		Name:   "amnesia-majority",
		Claim:  "three of five nodes lose their memory at once: a second client holds too, unless a node that forgot abstains",
		Lesson: "a node without its memory must not vote before every lease it may have forgotten is over",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, May: []Rule{TokenOrder}, Refused: 1},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		script: func(ctx context.Context, s *scene) error { return s.amnesia(ctx, aMajority) },
	}
}

// amnesia has nodes forget while ann holds, and bob, who is new, insist.
func (s *scene) amnesia(ctx context.Context, nodes []int) error {
	ann, err := s.enter("ann")
	if err != nil {
		return err
	}
	bob, err := s.enter("bob")
	if err != nil {
		return err
	}
	first, err := s.holds(ctx, ann)
	if err != nil {
		return err
	}
	f := Fault{Kind: Forget}
	if err := s.breakAll(f, nodes...); err != nil {
		return err
	}
	if err := s.mendAll(f, nodes...); err != nil {
		return err
	}
	s.rival(ctx, bob, first)
	return nil
}

func oldData() Scenario {
	return Scenario{
		Name:   "old-data",
		Claim:  "three of five nodes come back with a backup from before the lock was taken: they grant it again, unless a node that restarted must show that it is up to date",
		Lesson: "a backup is a memory gap too: a process that restarted does not vote until it is known what it missed",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		script: func(ctx context.Context, s *scene) error { return s.relapse(ctx, Old, aMajority) },
	}
}

func failover() Scenario {
	return Scenario{
		Name:   "failover",
		Claim:  "a master fails over to a replica that lags and has not seen the lock: with that one master there are two holders, with five there is one",
		Lesson: "a lock on a master with replicas does not survive its failover: use masters that know nothing of each other",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		script: func(ctx context.Context, s *scene) error { return s.relapse(ctx, Failover, []int{0}) },
	}
}

func failoverMajority() Scenario {
	return Scenario{
		Name:   "failover-majority",
		Claim:  "three of five masters fail over at once to replicas that lag: a promoted replica is another process, and abstains until every lease it may have missed is over",
		Lesson: "replicas behind the five masters add nothing and cost a wait: leave them out",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		script: func(ctx context.Context, s *scene) error { return s.relapse(ctx, Failover, aMajority) },
	}
}

// relapse has nodes end up with what they knew before ann got the lock.
func (s *scene) relapse(ctx context.Context, kind Break, nodes []int) error {
	ann, bob, err := s.pair(ctx)
	if err != nil {
		return err
	}
	f := Fault{Kind: kind}
	if err := s.breakAll(f, nodes...); err != nil {
		return err
	}
	first, err := s.holds(ctx, ann)
	if err != nil {
		return err
	}
	if err := s.mendAll(f, nodes...); err != nil {
		return err
	}
	s.rival(ctx, bob, first)
	return nil
}

func kleppmannCrash() Scenario {
	return Scenario{
		Name:   "kleppmann-crash",
		Claim:  "client 1 holds by nodes A, B and C; C restarts empty; client 2, which reaches C, D and E, holds too, unless C abstains",
		Lesson: "with as many nodes out of reach as a quorum can spare, one that forgets is enough",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		script: func(ctx context.Context, s *scene) error {
			return s.throughC(ctx, Fault{Kind: Forget, Node: 2})
		},
	}
}

func flushAll() Scenario {
	return Scenario{
		Name:   "flushall",
		Claim:  "somebody runs FLUSHALL on three of five nodes: the processes are the same, their memory is gone",
		Lesson: "a node that was emptied looks healthy to everybody who does not ask what it remembers",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		script: func(ctx context.Context, s *scene) error { return s.lose(ctx, Fault{Kind: Flush}) },
	}
}

func evictedKeys() Scenario {
	return Scenario{
		Name:   "evicted-keys",
		Claim:  "three of five nodes are short of memory and evict the lock itself: no protocol survives that, but the guard does",
		Lesson: "set maxmemory-policy noeviction on the nodes, and guard the resource",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1},
			{Contender: trace.NameRedlock, Breaks: []Rule{StaleWrite, TwoHolders}},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		script: func(ctx context.Context, s *scene) error {
			return s.lose(ctx, Fault{Kind: Evict, Key: scenarioResource})
		},
	}
}

// lose makes a majority lose keys while ann holds.
func (s *scene) lose(ctx context.Context, f Fault) error {
	_, bob, first, err := s.opening(ctx)
	if err != nil {
		return err
	}
	if err := s.breakAll(f, aMajority...); err != nil {
		return err
	}
	s.rival(ctx, bob, first)
	return nil
}
