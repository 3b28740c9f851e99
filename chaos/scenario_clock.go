package chaos

import (
	"context"
	"slices"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Clocks of nodes that are moved: a lease is a time of the node's own.
var clockScenarios = []Scenario{
	{
		Name:   "clock-forward-node",
		Claim:  "the clock of one node jumps past the lease: that node forgets the lock, four remember it",
		Lesson: "five masters bear two wrong clocks; one master bears none",
		Showings: append(guarded(trace.NameRedlock, trace.NameRenewing, trace.NameWithoutClockWatch, trace.NameTextbook),
			breaking(exclusion, trace.NameSingle)...),
		clocks: true,
		script: jump(0),
	},
	{
		Name:   "clock-forward-quorum",
		Claim:  "the clocks of three nodes jump past the lease: a second client holds too, unless clients compare what the nodes say of the time",
		Lesson: "slew the nodes' clocks, never step them; and let clients watch them",
		Showings: slices.Concat(guarded(trace.NameRedlock, trace.NameRenewing),
			[]trace.Showing{{Contender: trace.NameWithoutClockWatch, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1}},
			breaking(exclusion, trace.NameTextbook, trace.NameSingle)),
		clocks: true,
		script: jump(aMajority...),
	},
	{
		Name:     "clock-back-node",
		Claim:    "the holder dies, and the clock of one node is set back: that node keeps the dead holder's key for longer, four do not",
		Lesson:   "one clock that is late delays nobody",
		Showings: append(guarded(trace.NameRedlock, trace.NameRenewing, trace.NameTextbook), breaking([]Rule{Starved}, trace.NameSingle)...),
		clocks:   true,
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   setBack(0),
	},
	{
		Name:     "clock-back-quorum",
		Claim:    "the holder dies, and the clocks of three nodes are set back: nobody else gets the lock for as long as that, and never two at once",
		Lesson:   "a clock that is set back costs time, not exclusion",
		Showings: breaking([]Rule{Starved}, trace.NameRedlock, trace.NameRenewing, trace.NameTextbook, trace.NameSingle),
		clocks:   true,
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   setBack(aMajority...),
	},
	{
		Name:   "kleppmann-clock",
		Claim:  "client 1 holds by nodes A, B and C; the clock of C jumps; client 2, which reaches C, D and E, holds too, unless it knows that C's clock jumped",
		Lesson: "with as many nodes out of reach as a quorum can spare, one clock is enough",
		Showings: slices.Concat(guarded(trace.NameRedlock, trace.NameRenewing),
			[]trace.Showing{{Contender: trace.NameWithoutClockWatch, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1}},
			breaking(exclusion, trace.NameTextbook)),
		clocks: true,
		script: throughC(Fault{Kind: Step, Delay: 2 * scenarioLease, Node: 2}),
	},
}

// jump moves nodes' clocks past the end of ann's lease; when it is over, bob may hold.
func jump(nodes ...int) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		_, bob, first := s.opening(ctx)
		s.breakAll(Fault{Kind: Step, Delay: 2 * scenarioLease}, nodes...)
		if s.rival(ctx, bob, first) != nil {
			return
		}
		_ = first.Release(ctx) // or it is renewed; one whose lock is lost has nothing to give up
		s.gets(ctx, bob, 3*scenarioLease)
	}
}

// setBack sets nodes' clocks back by two leases while ann holds; then ann vanishes.
func setBack(nodes ...int) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		ann, bob, first := s.opening(ctx)
		s.breakAll(Fault{Kind: Step, Delay: -2 * scenarioLease}, nodes...)
		suspend := Fault{Kind: Suspend, Client: ann.Name}
		s.breakNow(suspend)
		next := s.gets(ctx, bob, 5*scenarioLease)
		s.mend(suspend)
		first.Remaining()
		must(next.Release(ctx))
	}
}
