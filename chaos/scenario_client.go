package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// A client that stands still, while its lease runs on.
var pauseScenarios = []Scenario{
	{
		Name:   "gc-pause",
		Claim:  "a holder that is paused between its look at the lock and its write writes after the next holder, unless a guard checks tokens",
		Lesson: "no lock stops a paused writer: let the resource check the token",
		Showings: append([]trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true, Refused: 1},
			{Contender: trace.NameRedlock, Breaks: []Rule{StaleWrite}},
		}, breaking([]Rule{StaleWrite}, trace.NameTextbook, trace.NameSingle)...),
		script: gcPause,
	},
	{
		Name:     "suspended-client",
		Claim:    "a machine sleeps for four leases with a lock in its hand: the next client has long had it, and the first look after the wake-up says so",
		Lesson:   "after a sleep no signal may have come yet (here the timers of ann's library ran on): look at the lock before each step that counts",
		Showings: guarded(trace.NameRedlock, trace.NameRenewing, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   suspendedClient,
	},
	{
		Name:     "kleppmann-pause",
		Claim:    "the grants are on their way when the client is stopped, and it reads them after the lease: they bring no lock",
		Lesson:   "a validity counts from before the request was sent, not from when the reply was read",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Patience: 2 * scenarioLease},
		script:   kleppmannPause,
	},
}

func gcPause(ctx context.Context, s *scene) {
	ann, bob, first := s.opening(ctx)
	pause := Fault{Kind: Pause, Client: ann.Name}
	s.breakNow(pause)
	written := s.spawn(func() { _ = first.Write(ctx) }) // refused or not: the trace says it
	must(s.gets(ctx, bob, 3*scenarioLease).Write(ctx))
	s.mend(pause)
	must(<-written)
}

// suspendFor is how long the machine of suspended-client sleeps: the next client has
// had the lock by then, and a play in real time is not longer than it must be.
const suspendFor = 4 * scenarioLease

func suspendedClient(ctx context.Context, s *scene) {
	ann, bob, first := s.opening(ctx)
	asleep := time.Now()
	suspend := Fault{Kind: Suspend, Client: ann.Name}
	s.breakNow(suspend)
	woken := s.spawn(func() {
		s.stage.Rest(ann.Name, AtWrite)
		must(first.Write(ctx))
	})
	s.visit(ctx, bob, 3*scenarioLease)
	time.Sleep(suspendFor - time.Since(asleep))
	s.mend(suspend)
	if wrote := <-woken; !errors.Is(wrote, errNotLocked) {
		must(errors.Join(errors.New("ann did not see that her lease was over"), wrote))
	}
}

// kleppmannPause is the last trace of Kleppmann's article of 2016: what is held
// back are the replies, as in the buffers of a machine that stands still.
func kleppmannPause(ctx context.Context, s *scene) {
	ann, bob := s.pair(ctx)
	late := Fault{Kind: Pause, Client: ann.Name, Where: AtReplies}
	s.breakNow(late)
	asked := s.asksOnce(ctx, ann, scriptFor)
	time.Sleep(aWhile) // her grants are given: bob, who asked at once, got there first in most plays
	began := time.Now()
	next := s.gets(ctx, bob, 2*scenarioLease)
	if time.Since(began) < scenarioLease/2 {
		must(errors.New("bob did not wait for the lease that ann was granted: nothing of hers was on its way"))
	}
	s.mend(late)
	if <-asked == nil {
		must(errors.New("ann got a lock out of replies that came too late"))
	}
	time.Sleep(aWhile) // what ann takes back arrives
	must(errors.Join(s.prolong(ctx, next), next.Release(ctx)))
}

// asksOnce asks once for an actor, beside the script, and yields what came of it.
func (s *scene) asksOnce(ctx context.Context, a *actor, within time.Duration) <-chan error {
	return s.spawn(func() {
		ctx, end := context.WithTimeout(ctx, within)
		defer end()
		_, err := a.Ask(ctx, only(scenarioResource), scenarioLease)
		a.Quit(only(scenarioResource))
		must(err)
	})
}

// Many clients that want one name at one moment.
var crowdScenarios = []Scenario{
	{
		Name:     "split-vote",
		Claim:    "ten clients ask at one moment, each nearest to another node, so that nobody gets a quorum: soon one does, and then each of them",
		Lesson:   "draw the pause between two attempts at random, and take back at once what brought no quorum",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Progress: 2 * scenarioLease, Patience: 8 * scenarioLease},
		script:   splitVote,
	},
	{
		Name:     "thundering-herd",
		Claim:    "twenty-five clients wait for a name when its holder gives it up: one at a time, and each of them in the end",
		Lesson:   "a crowd costs messages, not exclusion: nobody starves where pauses are drawn at random",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Progress: 2 * scenarioLease, Patience: 8 * scenarioLease},
		script:   thunderingHerd,
	},
}

const (
	contenders = 10
	herd       = 25
	// How much later a request is at every other node, for each contender's own.
	farther = 2 * time.Millisecond
)

func splitVote(ctx context.Context, s *scene) {
	crowd := s.crowd(ctx, contenders)
	for i, a := range crowd {
		for node := range s.stage.Names() {
			if node != i%scenarioNodes {
				s.breakNow(Fault{Kind: Slow, Client: a.Name, Node: node, Delay: farther})
			}
		}
	}
	s.rush(ctx, crowd)
}

func thunderingHerd(ctx context.Context, s *scene) {
	ann := s.enter("ann")
	crowd := s.crowd(ctx, herd)
	first := s.holds(ctx, ann)
	rushed := s.spawn(func() { s.rush(ctx, crowd) })
	time.Sleep(aWhile)
	must(errors.Join(first.Release(ctx), <-rushed))
}

// crowd brings n actors on.
func (s *scene) crowd(ctx context.Context, n int) []*actor {
	actors := make([]*actor, n)
	for i := range actors {
		actors[i] = s.enter(fmt.Sprintf("client-%d", i))
	}
	s.rehearse(ctx, actors...)
	return actors
}

// rush lets each actor lock once, all at one moment. They differ in how they draw
// their pauses, and in nothing else.
func (s *scene) rush(ctx context.Context, actors []*actor) {
	const within = 10 * scenarioLease
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var all []<-chan error
	for i, a := range actors {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		all = append(all, s.spawn(func() {
			t, err := a.Insist(ctx, only(scenarioResource), scenarioLease, impatient(random))
			must(late(a, scenarioResource, within, err))
			time.Sleep(spread(random, aWhile/10))
			s.finish(ctx, t)
		}))
	}
	for _, done := range all {
		must(<-done)
	}
}
