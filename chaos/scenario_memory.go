package chaos

import (
	"context"
	"slices"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Nodes that come back with less than they had, and answer as if nothing had
// happened.
var memoryScenarios = []Scenario{
	{
		Name:     "amnesia-minority",
		Claim:    "two of five nodes lose their memory at once: a quorum still remembers the holder",
		Lesson:   "five masters bear two that forget; one master bears none",
		Showings: append(guarded(trace.NameRedlock, trace.NameWithoutMembership, trace.NameTextbook), breaking(exclusion, trace.NameSingle)...),
		script:   amnesia(aMinority),
	},
	{
		Name:     "amnesia-majority",
		Claim:    "three of five nodes lose their memory at once: a second client holds too, unless a node that forgot abstains",
		Lesson:   "a node without its memory must not vote before every lease it may have forgotten is over",
		Showings: slices.Concat(guarded(trace.NameRedlock), otherTokens, breaking(exclusion, trace.NameTextbook)),
		script:   amnesia(aMajority),
	},
	{
		Name:     "old-data",
		Claim:    "three of five nodes come back with a backup from before the lock was taken: they grant it again, unless a node that restarted must show that it is up to date",
		Lesson:   "a backup is a memory gap too: a process that restarted does not vote until it is known what it missed",
		Showings: unlessAbstaining(trace.NameTextbook, trace.NameSingle),
		script:   relapse(Old, aMajority),
	},
	{
		Name:     "failover",
		Claim:    "a master fails over to a replica that lags and has not seen the lock: with that one master there are two holders, with five there is one",
		Lesson:   "a lock on a master with replicas does not survive its failover: use masters that know nothing of each other",
		Showings: append(guarded(trace.NameRedlock, trace.NameWithoutMembership, trace.NameTextbook), breaking(exclusion, trace.NameSingle)...),
		script:   relapse(Failover, []int{0}),
	},
	{
		Name:     "failover-majority",
		Claim:    "three of five masters fail over at once to replicas that lag: a promoted replica is another process, and abstains until every lease it may have missed is over",
		Lesson:   "replicas behind the five masters add nothing and cost a wait: leave them out",
		Showings: unlessAbstaining(trace.NameTextbook, trace.NameSingle),
		script:   relapse(Failover, aMajority),
	},
	{
		Name:     "kleppmann-crash",
		Claim:    "client 1 holds by nodes A, B and C; C restarts empty; client 2, which reaches C, D and E, holds too, unless C abstains",
		Lesson:   "with as many nodes out of reach as a quorum can spare, one that forgets is enough",
		Showings: unlessAbstaining(trace.NameTextbook),
		script:   throughC(Fault{Kind: Forget, Node: 2}),
	},
	{
		Name:     "flushall",
		Claim:    "somebody runs FLUSHALL on three of five nodes: the processes are the same, their memory is gone",
		Lesson:   "a node that was emptied looks healthy to everybody who does not ask what it remembers",
		Showings: unlessAbstaining(trace.NameTextbook, trace.NameSingle),
		script:   lose(Fault{Kind: Flush}),
	},
	{
		Name:   "evicted-keys",
		Claim:  "three of five nodes are short of memory and evict the lock itself: no protocol survives that, but the guard does",
		Lesson: "set maxmemory-policy noeviction on the nodes, and guard the resource",
		Showings: append([]trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1},
			{Contender: trace.NameRedlock, Breaks: exclusion},
		}, breaking(exclusion, trace.NameTextbook, trace.NameSingle)...),
		script: lose(Fault{Kind: Evict, Key: scenarioResource}),
	},
}

// unlessAbstaining are the showings where a node that abstains makes the difference: the
// others have no membership, and no token.
func unlessAbstaining(others ...string) []trace.Showing {
	return slices.Concat(guarded(trace.NameRedlock),
		[]trace.Showing{{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, Refused: 1}},
		breaking(exclusion, others...))
}

// amnesia wipes nodes while ann holds; then bob, who is new, insists.
func amnesia(nodes []int) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		ann, bob := s.enter("ann"), s.enter("bob")
		first := s.holds(ctx, ann)
		f := Fault{Kind: Forget}
		s.breakAll(f, nodes...)
		s.mendAll(f, nodes...)
		s.rival(ctx, bob, first)
	}
}

// relapse takes nodes back to what they knew before ann got the lock.
func relapse(kind Break, nodes []int) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		ann, bob := s.pair(ctx)
		f := Fault{Kind: kind}
		s.breakAll(f, nodes...)
		first := s.holds(ctx, ann)
		s.mendAll(f, nodes...)
		s.rival(ctx, bob, first)
	}
}

// lose makes a majority lose keys while ann holds.
func lose(f Fault) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		_, bob, first := s.opening(ctx)
		s.breakAll(f, aMajority...)
		s.rival(ctx, bob, first)
	}
}
