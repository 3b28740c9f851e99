package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Links that are cut; what they hold back arrives when they are healed.
var partitionScenarios = []Scenario{
	{
		Name:     "partition-holder",
		Claim:    "a holder that reaches no node stops believing before the next one holds",
		Lesson:   "the end of a lease needs no message: mind your own clock",
		Showings: guarded(trace.NameRedlock, trace.NameRenewing, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   partitionHolder,
	},
	{
		Name:     "partition-waiter",
		Claim:    "a client that waits is cut off in the middle of an attempt: it delays nobody, and what it sent does no harm when it arrives",
		Lesson:   "an attempt that failed is taken back until the node has said so",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   partitionWaiter,
	},
	{
		Name:     "partition-minority",
		Claim:    "two of five nodes are cut off from everybody: the other three go on as before, and one master that is cut off grants nothing",
		Lesson:   "five masters bear two that are out of reach, and nobody has to notice",
		Showings: append(guarded(trace.NameRedlock, trace.NameTextbook), breaking([]Rule{Starved}, trace.NameSingle)...),
		judge:    trace.Judge{Patience: scenarioLease},
		script:   partitionMinority,
	},
	{
		Name:     "partition-majority",
		Claim:    "three of five nodes are cut off from everybody: nobody gets the lock, its holder loses it in time, and after the healing it goes on",
		Lesson:   "without a quorum there is no lock, and that is the point: it would rather stop than be wrong",
		Showings: guarded(trace.NameRedlock, trace.NameRenewing, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   partitionMajority,
	},
	{
		Name:     "partition-sides",
		Claim:    "one client reaches nodes 0, 1 and 2, the other 2, 3 and 4: the node that both reach lets one of them have the lock at a time",
		Lesson:   "any two quorums share a node: that is why there is an odd number of them",
		Showings: guarded(trace.NameRedlock, trace.NameWithoutProtections, trace.NameTextbook),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   partitionSides,
	},
}

func partitionHolder(ctx context.Context, s *scene) {
	ann, bob, first := s.opening(ctx)
	cut := Fault{Kind: Cut, Client: ann.Name, Node: Everything}
	s.breakNow(cut)
	next := s.gets(ctx, bob, 3*scenarioLease)
	first.Remaining()
	s.mend(cut)
	must(next.Release(ctx))
}

func partitionWaiter(ctx context.Context, s *scene) {
	ann, bob := s.pair(ctx)
	cara := s.enter("cara")
	s.rehearse(ctx, cara)
	first := s.holds(ctx, ann)
	cut := Fault{Kind: Cut, Client: bob.Name, Node: Everything}
	s.breakNow(cut)
	waited := s.spawn(func() { must(s.gets(ctx, bob, 4*scenarioLease).Release(ctx)) })
	time.Sleep(aWhile)
	must(first.Release(ctx))
	s.visit(ctx, cara, 2*scenarioLease)
	s.mend(cut)
	must(<-waited)
}

func partitionMinority(ctx context.Context, s *scene) {
	ann, bob := s.pair(ctx)
	s.breakAll(Fault{Kind: Cut}, aMinority...)
	for _, a := range []*actor{ann, bob} {
		err := try(func() { s.visit(ctx, a, 3*scenarioLease/2) })
		if !errors.Is(err, context.DeadlineExceeded) { // the trace says who got nothing
			must(err)
		}
	}
	s.mendAll(Fault{Kind: Cut}, aMinority...)
}

func partitionMajority(ctx context.Context, s *scene) {
	_, bob, first := s.opening(ctx)
	s.history.Add(Record{Kind: trace.Sick})
	s.breakAll(Fault{Kind: Cut}, aMajority...)
	if t, err := s.insist(ctx, bob, 3*scenarioLease/2); err == nil {
		must(errors.Join(errors.New("bob got a lock without a quorum"), t.Release(ctx)))
	}
	if first.Remaining() > 0 {
		must(errors.New("ann still believes"))
	}
	s.mendAll(Fault{Kind: Cut}, aMajority...)
	s.history.Add(Record{Kind: trace.Well})
	s.visit(ctx, bob, 3*scenarioLease)
}

func partitionSides(ctx context.Context, s *scene) {
	ann, bob := s.sides(ctx)
	first := s.holds(ctx, ann)
	if s.rivalFor(ctx, bob, first, scenarioLease/2) != nil {
		return // the trace says it
	}
	must(first.Release(ctx))
	s.visit(ctx, bob, 2*scenarioLease)
}

// Messages that arrive when nobody thinks of them any more.
var messageScenarios = []Scenario{
	{
		Name:     "late-acquire",
		Claim:    "an attempt is given up, and its requests reach the nodes afterwards: nobody wants those keys, and the name is blocked for a lease, unless the attempt was taken back for good",
		Lesson:   "taking back once is not enough: the delete must be repeated, and must win against a set that comes after it",
		Showings: append(guarded(trace.NameRedlock), breaking([]Rule{Starved}, trace.NameTextbook)...),
		judge:    trace.Judge{Patience: scenarioLease / 2},
		script: func(ctx context.Context, s *scene) {
			bob, cut, asked := s.delayedAsk(ctx, scenarioLease/2)
			s.arrives(cut, asked)
			s.visit(ctx, bob, 2*scenarioLease)
		},
	},
	{
		Name:     "message-delayed",
		Claim:    "requests of an attempt that was given up reach the nodes after more than a lease, while another client holds: they change nothing",
		Lesson:   "a key is set where there is none, and removed by its owner: age makes a command harmless",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script: func(ctx context.Context, s *scene) {
			bob, cut, asked := s.delayedAsk(ctx, 5*scenarioLease/4)
			next := s.gets(ctx, bob, 2*scenarioLease)
			s.arrives(cut, asked)
			must(errors.Join(s.prolong(ctx, next), next.Write(ctx), next.Release(ctx)))
		},
	},
	{
		Name:     "late-release",
		Claim:    "a release reaches the nodes after its lease, while the next client holds: it removes nothing, since the key is not its own",
		Lesson:   "never delete a lock by its name alone: compare the owner",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   lateRelease,
	},
}

// delayedAsk holds back the requests of one attempt of ann's, for a time at first.
func (s *scene) delayedAsk(ctx context.Context, delay time.Duration) (bob *actor, cut Fault, asked <-chan error) {
	ann, bob := s.pair(ctx)
	cut = Fault{Kind: CutRequests, Client: ann.Name, Node: Everything}
	s.breakNow(cut)
	asked = s.asksOnce(ctx, ann, delay/2)
	time.Sleep(delay)
	return bob, cut, asked
}

// arrives lets them go on to the nodes.
func (s *scene) arrives(cut Fault, asked <-chan error) {
	s.mend(cut)
	if <-asked == nil {
		must(errors.New("ann's attempt went on until the cut was mended, and got the lock: bound it by the context that Acquire has (of go-redis: ContextTimeoutEnabled), or by a timeout of its own"))
	}
	time.Sleep(aWhile / 2) // all arrives
}

func lateRelease(ctx context.Context, s *scene) {
	ann, bob, first := s.opening(ctx)
	cut := Fault{Kind: CutRequests, Client: ann.Name, Node: Everything}
	s.breakNow(cut)
	released := s.spawn(func() { _ = first.Release(ctx) }) // nobody confirms it
	next := s.gets(ctx, bob, 2*scenarioLease)
	s.mend(cut)
	must(<-released)
	time.Sleep(aWhile) // it arrives
	if err := s.prolong(ctx, next); err != nil {
		must(fmt.Errorf("bob's key is gone: %w", err))
	}
	if s.rivalFor(ctx, ann, next, scenarioLease/2) != nil {
		return // the trace says it
	}
	must(errors.Join(next.Write(ctx), next.Release(ctx)))
}
