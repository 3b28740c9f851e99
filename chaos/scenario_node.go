package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Nodes that are slow, or come and go.
func nodeScenarios() []Scenario {
	return []Scenario{slowNode(), hungNode(), flappingNode(), rollingRestart(), patientRestart()}
}

// aNodeTimeout is the patience of a client whose attempts last for a node timeout
// at the most, and some for the machine's.
const aNodeTimeout = 3 * aWhile

func slowNode() Scenario {
	return Scenario{
		Name:     "slow-node",
		Claim:    "a node that takes longer than its timeout delays nobody",
		Lesson:   "do not wait for the last node: a quorum is enough",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook),
		judge:    trace.Judge{Patience: aNodeTimeout},
		script: func(ctx context.Context, s *scene) error {
			return s.lame(ctx, Fault{Kind: Slow, Node: 4, Delay: scenarioLease / 4})
		},
	}
}

func hungNode() Scenario {
	return Scenario{
		Name:     "hung-node",
		Claim:    "a node that hangs delays nobody for longer than a node timeout",
		Lesson:   "bound each node by itself; a quorum does not wait for the last one",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook),
		judge:    trace.Judge{Patience: aNodeTimeout},
		script:   func(ctx context.Context, s *scene) error { return s.lame(ctx, Fault{Kind: Stall, Node: 4}) },
	}
}

// lame has one node not keep up, and ann lock and release three times.
func (s *scene) lame(ctx context.Context, f Fault) error {
	ann, _, err := s.pair(ctx)
	if err != nil {
		return err
	}
	if err := s.breakNow(f); err != nil {
		return err
	}
	for range 3 {
		if err := s.visit(ctx, ann, scenarioLease); err != nil {
			return err
		}
	}
	return s.mend(f)
}

func flappingNode() Scenario {
	return Scenario{
		Name:   "flapping-node",
		Claim:  "one node crashes and comes back empty, again and again, while two clients work: the other four carry them",
		Lesson: "a node that flaps is worth nothing, and costs nothing: let it abstain until it has stayed",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{TwoHolders}},
		},
		judge:  trace.Judge{Patience: 2 * scenarioLease},
		script: flap,
	}
}

// flaps is how often the node of flapping-node crashes.
const flaps = 8

func flap(ctx context.Context, s *scene) error {
	ann, bob, err := s.pair(ctx)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	for _, a := range []*actor{ann, bob} {
		work.Go(func() {
			for working.Err() == nil {
				s.shift(working, a, 2*scenarioLease)
				time.Sleep(aWhile)
			}
		})
	}
	f := Fault{Kind: Forget, Node: 0}
	for range flaps {
		if err = s.breakNow(f); err != nil {
			break
		}
		time.Sleep(aWhile / 4)
		if err = s.mend(f); err != nil {
			break
		}
		time.Sleep(aWhile / 2)
	}
	stop()
	work.Wait()
	return err
}

// shift has an actor work for half a lease, if it gets the lock.
func (s *scene) shift(ctx context.Context, a *actor, within time.Duration) {
	t, err := s.insist(ctx, a, within)
	if err != nil {
		return
	}
	time.Sleep(scenarioLease / 2)
	_ = t.Write(ctx)   // refused or not: the trace says it
	_ = t.Release(ctx) // a node that is down can't confirm it
}

func rollingRestart() Scenario {
	return Scenario{
		Name:   "rolling-restart",
		Claim:  "all five nodes are restarted one after the other without their data, as fast as they come back: the holder's key is gone from all of them before its lease is over",
		Lesson: "wait between two restarts until the node votes again; or lose the lock's availability, not its exclusion",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{TwoHolders}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{TwoHolders}},
		},
		judge: trace.Judge{Patience: 6 * scenarioLease},
		script: func(ctx context.Context, s *scene) error {
			_, bob, first, err := s.opening(ctx)
			if err != nil {
				return err
			}
			waited := make(chan struct{})
			go func() {
				defer close(waited)
				s.shift(ctx, bob, 7*scenarioLease)
			}()
			for i := range s.stage.Names() {
				f := Fault{Kind: Forget, Node: i}
				if err = errors.Join(s.breakNow(f), s.mend(f)); err != nil {
					break
				}
			}
			<-waited
			first.Remaining()
			return err
		},
	}
}

func patientRestart() Scenario {
	return Scenario{
		Name:   "rolling-restart-patient",
		Claim:  "the same, with a wait after each node until it votes again: the holder keeps its lock through all five, since each renewal gives the node its key back",
		Lesson: "wait for `redlock nodes join --wait` between two restarts",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{TwoHolders}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{TwoHolders}},
		},
		script: restartPatiently,
	}
}

func restartPatiently(ctx context.Context, s *scene) error {
	ann, bob, err := s.pair(ctx)
	if err != nil {
		return err
	}
	op, err := s.operator() //nolint:contextcheck // a Locker's own goroutines outlive every call
	if err != nil {
		return err
	}
	first, err := s.holds(ctx, ann)
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	resting, stop := context.WithCancel(ctx)
	defer stop()
	work.Go(func() { s.keep(resting, ctx, first) })
	work.Go(func() { s.shift(ctx, bob, time.Minute) })
	for i := range s.stage.Names() {
		f := Fault{Kind: Forget, Node: i}
		if err = errors.Join(s.breakNow(f), s.mend(f)); err != nil {
			break
		}
		if err = op.Cluster().Join(ctx); err != nil {
			break
		}
		time.Sleep(2 * aWhile) // a renewal
	}
	stop()
	work.Wait()
	return err
}

// keep extends a lock for as long as its holder believes in it, or until is done,
// and releases it then.
func (s *scene) keep(until, ctx context.Context, t *Tenure) {
	for until.Err() == nil && t.Remaining() > 0 {
		_ = t.Extend(ctx, scenarioLease) // or not: the old lease stands
		select {
		case <-until.Done():
		case <-time.After(aWhile / 2):
		}
	}
	_ = t.Release(ctx) // it may be lost
}

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
