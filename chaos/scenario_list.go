package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Clients that do not mean the same nodes.
func listScenarios() []Scenario {
	return []Scenario{twoLists(), replaceNode()}
}

func twoLists() Scenario {
	return Scenario{
		Name:   "two-lists",
		Claim:  "one client has the list 0, 1, 2 and another 2, 3, 4: both hold, unless the node that they share remembers which cluster it belongs to",
		Lesson: "give all clients one list; a node that belongs to another list must not vote",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, May: []Rule{TokenOrder}, Refused: 1},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		list: []int{0, 1, 2},
		script: func(ctx context.Context, s *scene) error {
			ann, err := s.enter("ann")
			if err != nil {
				return err
			}
			bob, err := s.enterWith("bob", part{s.all(), []int{2, 3, 4}})
			if err != nil {
				return err
			}
			first, err := s.holds(ctx, ann)
			if err != nil {
				return err
			}
			s.rival(ctx, bob, first)
			return nil
		},
	}
}

func replaceNode() Scenario {
	return Scenario{
		Name:   "replace-node",
		Claim:  "a client holds by nodes 2, 3 and 4 when node 4 is replaced by an empty one: clients of the new list find a quorum at once, unless the new node waits until the old one's leases are over",
		Lesson: "retire the old node first, then roll out the new list; the new node sees to the rest",
		Nodes:  scenarioNodes + 1,
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, May: []Rule{TokenOrder}, Refused: 1},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{StaleWrite, TwoHolders}},
		},
		list:   []int{0, 1, 2, 3, 4},
		script: replace,
	}
}

// retire has an operator retire a node, and call again while others do not answer
// in time.
func retire(ctx context.Context, op *redlock.Locker, node int) error {
	ctx, cancel := context.WithTimeout(ctx, 4*scenarioLease)
	defer cancel()
	for {
		err := op.Cluster().Retire(ctx, node)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("retiring node %d: %w", node, err)
		case <-time.After(askEvery):
		}
	}
}

// replace has an operator retire node 4 while ann holds by it, and bob come on
// with node 5 in its place.
func replace(ctx context.Context, s *scene) error {
	ann, err := s.enter("ann")
	if err != nil {
		return err
	}
	if err := s.rehearse(ctx, ann); err != nil {
		return err
	}
	op, err := s.operator() //nolint:contextcheck // a Locker's own goroutines outlive every call
	if err != nil {
		return err
	}
	if err := op.Cluster().Join(ctx); err != nil { // it has seen all nodes
		return err
	}
	if err := s.breakAll(Fault{Kind: Cut, Client: ann.Name}, aMinority...); err != nil {
		return err
	}
	first, err := s.holds(ctx, ann)
	if err != nil {
		return err
	}
	if err := retire(ctx, op, 4); err != nil {
		return err
	}
	if err := s.breakNow(Fault{Kind: Crash, Node: 4}); err != nil {
		return err
	}
	bob, err := s.enterWith("bob", part{s.all(), []int{0, 1, 2, 3, 5}})
	if err != nil {
		return err
	}
	if s.rival(ctx, bob, first) != nil {
		return nil // the trace says it
	}
	if err := s.visit(ctx, bob, 3*scenarioLease); err != nil {
		return err
	}
	time.Sleep(2 * scenarioLease) // node 5 is taken in
	if err := s.breakAll(Fault{Kind: Crash}, aMinority...); err != nil {
		return err
	}
	return s.visit(ctx, bob, scenarioLease) // by node 5 too
}
