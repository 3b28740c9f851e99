package chaos

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// aNodeTimeout is the patience of a client whose attempts last for a node timeout
// at the most, and some for the machine's.
const aNodeTimeout = 3 * aWhile

// Nodes that are slow, or come and go.
var nodeScenarios = []Scenario{
	{
		Name:     "slow-node",
		Claim:    "a node that takes longer than its timeout delays nobody",
		Lesson:   "do not wait for the last node: a quorum is enough",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook),
		judge:    trace.Judge{Patience: aNodeTimeout},
		script:   lame(Fault{Kind: Slow, Node: 4, Delay: scenarioLease / 4}),
	},
	{
		Name:     "hung-node",
		Claim:    "a node that hangs delays nobody for longer than a node timeout",
		Lesson:   "bound each node by itself; a quorum does not wait for the last one",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook),
		judge:    trace.Judge{Patience: aNodeTimeout},
		script:   lame(Fault{Kind: Stall, Node: 4}),
	},
	{
		Name:     "flapping-node",
		Claim:    "one node crashes and comes back empty, again and again, while two clients work: the other four carry them",
		Lesson:   "a node that flaps is worth nothing, and costs nothing: let it abstain until it has stayed",
		Showings: append(guarded(trace.NameRedlock, trace.NameTextbook), breaking([]Rule{TwoHolders}, trace.NameSingle)...),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   flappingNode,
	},
	{
		Name:   "rolling-restart",
		Claim:  "all five nodes are restarted one after the other without their data, as fast as they come back: the holder's key is gone from all of them before its lease is over",
		Lesson: "wait between two restarts until the node votes again; or lose the lock's availability, not its exclusion",
		Showings: append(guarded(trace.NameRedlock),
			breaking([]Rule{TwoHolders}, trace.NameWithoutMembership, trace.NameTextbook, trace.NameSingle)...),
		judge:  trace.Judge{Patience: 6 * scenarioLease},
		script: rollingRestart,
	},
	{
		Name:     "rolling-restart-patient",
		Claim:    "the same, with a wait after each node until it votes again: the holder keeps its lock through all five, since each renewal gives the node its key back",
		Lesson:   "wait for `redlock nodes join --wait` between two restarts",
		Showings: append(guarded(trace.NameRedlock), breaking([]Rule{TwoHolders}, trace.NameTextbook, trace.NameSingle)...),
		script:   patientRestart,
	},
}

// lame slows one node down, while ann locks and releases three times.
func lame(f Fault) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		ann, _ := s.pair(ctx)
		s.breakNow(f)
		for range 3 {
			s.visit(ctx, ann, scenarioLease)
		}
		s.mend(f)
	}
}

// flaps is how often the node of flapping-node crashes.
const flaps = 8

func flappingNode(ctx context.Context, s *scene) {
	ann, bob := s.pair(ctx)
	working, stop := context.WithCancel(ctx)
	defer stop()
	work := func(a *actor) <-chan error {
		return s.spawn(func() {
			for working.Err() == nil {
				s.shift(working, a, 2*scenarioLease)
				time.Sleep(aWhile)
			}
		})
	}
	anns, bobs := work(ann), work(bob)
	f := Fault{Kind: Forget, Node: 0}
	for range flaps {
		s.breakNow(f)
		time.Sleep(aWhile / 4)
		s.mend(f)
		time.Sleep(aWhile / 2)
	}
	stop()
	must(errors.Join(<-anns, <-bobs))
}

// shift works for half a lease, if the actor gets the lock.
func (s *scene) shift(ctx context.Context, a *actor, within time.Duration) {
	t, err := s.insist(ctx, a, within)
	if err != nil {
		return
	}
	time.Sleep(scenarioLease / 2)
	_ = t.Write(ctx)   // refused or not: the trace says it
	_ = t.Release(ctx) // a node that is down can't confirm it
}

func rollingRestart(ctx context.Context, s *scene) {
	_, bob, first := s.opening(ctx)
	waited := s.spawn(func() { s.shift(ctx, bob, 7*scenarioLease) })
	for i := range s.stage.Names() {
		s.restart(Fault{Kind: Forget, Node: i})
	}
	must(<-waited)
	first.Remaining()
}

func patientRestart(ctx context.Context, s *scene) {
	ann, bob := s.pair(ctx)
	op := s.operator() //nolint:contextcheck // a Locker's own goroutines outlive every call
	first := s.holds(ctx, ann)
	stop := s.keep(ctx, first)
	waited := s.spawn(func() { s.shift(ctx, bob, time.Minute) })
	for i := range s.stage.Names() {
		s.restart(Fault{Kind: Forget, Node: i})
		must(op.Cluster().Join(ctx))
		time.Sleep(2 * aWhile) // a renewal
	}
	stop()
	must(<-waited)
}

// keep extends a lock for as long as its holder believes in it, or until stop is called,
// and releases it then.
func (s *scene) keep(ctx context.Context, t *Tenure) (stop func()) {
	resting, end := context.WithCancel(ctx)
	kept := s.spawn(func() {
		for resting.Err() == nil && t.Remaining() > 0 {
			_ = t.Extend(ctx, scenarioLease) // or not: the old lease stands
			sleep(resting, aWhile/2)
		}
		_ = t.Release(ctx) // it may be lost
	})
	return func() {
		end()
		must(<-kept)
	}
}

// Clients that do not mean the same nodes.
var listScenarios = []Scenario{
	{
		Name:     "two-lists",
		Claim:    "one client has the list 0, 1, 2 and another 2, 3, 4: both hold, unless the node that they share remembers which cluster it belongs to",
		Lesson:   "give all clients one list; a node that belongs to another list must not vote",
		Showings: slices.Concat(guarded(trace.NameRedlock), otherTokens, breaking(exclusion, trace.NameTextbook, trace.NameSingle)),
		list:     []int{0, 1, 2},
		script:   twoLists,
	},
	{
		Name:     "replace-node",
		Claim:    "a client holds by nodes 2, 3 and 4 when node 4 is replaced by an empty one: clients of the new list find a quorum at once, unless the new node waits until the old one's leases are over",
		Lesson:   "add the new node, then take the old one out of the list, and give clients the new list",
		Nodes:    scenarioNodes + 1,
		Showings: slices.Concat(guarded(trace.NameRedlock), otherTokens, breaking(exclusion, trace.NameTextbook)),
		list:     []int{0, 1, 2, 3, 4},
		script:   replaceNode,
	},
}

func twoLists(ctx context.Context, s *scene) {
	ann, bob := s.enter("ann"), s.enterWith("bob", part{s.all(), []int{2, 3, 4}})
	s.rival(ctx, bob, s.holds(ctx, ann))
}

// replaceNode has node 5 in the place of node 4, by which ann holds; bob has the new list.
func replaceNode(ctx context.Context, s *scene) {
	ann := s.enter("ann")
	s.rehearse(ctx, ann)
	s.breakAll(Fault{Kind: Cut, Client: ann.Name}, aMinority...)
	first := s.holds(ctx, ann)
	s.breakNow(Fault{Kind: Crash, Node: 4})
	bob := s.enterWith("bob", part{s.all(), []int{0, 1, 2, 3, 5}})
	if s.rival(ctx, bob, first) != nil {
		return // the trace says it
	}
	s.relist(ctx, 5, "")
	s.relist(ctx, 4, "")
	s.visit(ctx, bob, 3*scenarioLease)
	s.breakAll(Fault{Kind: Crash}, aMinority...)
	s.visit(ctx, bob, scenarioLease) // by node 5 too
}
