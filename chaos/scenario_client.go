package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// A client that stands still, while its lease runs on.
func pauseScenarios() []Scenario {
	stale := []Rule{StaleWrite}
	return []Scenario{
		{
			Name:   "gc-pause",
			Claim:  "a holder that is paused between its look at the lock and its write writes after the next holder, unless a guard checks tokens",
			Lesson: "no lock stops a paused writer: let the resource check the token",
			Showings: []trace.Showing{
				{Contender: trace.NameRedlock, Guarded: true, Refused: 1},
				{Contender: trace.NameRedlock, Breaks: stale},
				{Contender: trace.NameTextbook, Guarded: true, Breaks: stale},
				{Contender: trace.NameSingle, Guarded: true, Breaks: stale},
			},
			script: gcPause,
		},
		{
			Name:     "suspended-client",
			Claim:    "a machine sleeps for four leases with a lock in its hand: the next client has long had it, and the first look after the wake-up says so",
			Lesson:   "after a sleep no signal has come yet: look at the lock before each step that counts",
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
}

func gcPause(ctx context.Context, s *scene) error {
	ann, bob, first, err := s.opening(ctx)
	if err != nil {
		return err
	}
	pause := Fault{Kind: Pause, Client: ann.Name}
	if err := s.breakNow(pause); err != nil {
		return err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = first.Write(ctx) // refused or not: the trace says it
	}()
	next, err := s.insist(ctx, bob, 3*scenarioLease)
	if err == nil {
		err = next.Write(ctx)
	}
	if mended := s.mend(pause); mended != nil {
		return mended // the writer rests for good
	}
	<-written
	return err
}

// suspendFor is how long the machine of suspended-client sleeps: the next client has
// had the lock by then, and a play in real time is not longer than it must be.
const suspendFor = 4 * scenarioLease

func suspendedClient(ctx context.Context, s *scene) error {
	ann, bob, first, err := s.opening(ctx)
	if err != nil {
		return err
	}
	asleep := time.Now()
	suspend := Fault{Kind: Suspend, Client: ann.Name}
	if err := s.breakNow(suspend); err != nil {
		return err
	}
	woken := make(chan error)
	go func() {
		s.stage.Rest(ann.Name, AtWrite)
		woken <- first.Write(ctx)
	}()
	err = s.visit(ctx, bob, 3*scenarioLease)
	if err == nil {
		time.Sleep(suspendFor - time.Since(asleep))
	}
	if mended := s.mend(suspend); mended != nil {
		return mended // ann rests for good
	}
	if wrote := <-woken; err == nil && !errors.Is(wrote, errNotLocked) {
		return errors.Join(errors.New("ann did not see that her lease was over"), wrote)
	}
	return err
}

// kleppmannPause is the last trace of Kleppmann's article of 2016: what is held
// back are the replies, as in the buffers of a machine that stands still.
func kleppmannPause(ctx context.Context, s *scene) error {
	ann, bob, err := s.pair(ctx)
	if err != nil {
		return err
	}
	late := Fault{Kind: Pause, Client: ann.Name, Where: AtReplies}
	if err := s.breakNow(late); err != nil {
		return err
	}
	asked := make(chan error)
	go func() {
		_, err := ann.Ask(ctx, scenarioResource, scenarioLease)
		ann.Quit(scenarioResource)
		asked <- err
	}()
	next, err := s.insist(ctx, bob, 2*scenarioLease)
	if mended := s.mend(late); mended != nil {
		return mended
	}
	if answered := <-asked; err == nil && answered == nil {
		return errors.New("ann got a lock out of replies that came too late")
	}
	if err != nil {
		return err
	}
	time.Sleep(aWhile) // what ann takes back arrives
	return errors.Join(s.prolong(ctx, next), next.Release(ctx))
}

// Many clients that want one name at one moment.
func crowdScenarios() []Scenario {
	return []Scenario{splitVote(), thunderingHerd()}
}

const (
	contenders = 10
	herd       = 25
	// How much later a request is at every other node, for each contender's own.
	farther = 2 * time.Millisecond
)

func splitVote() Scenario {
	return Scenario{
		Name:     "split-vote",
		Claim:    "ten clients ask at one moment, each nearest to another node, so that nobody gets a quorum: soon one does, and then each of them",
		Lesson:   "draw the pause between two attempts at random, and take back at once what brought no quorum",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Progress: 2 * scenarioLease, Patience: 8 * scenarioLease},
		script: func(ctx context.Context, s *scene) error {
			crowd, err := s.crowd(ctx, contenders)
			if err != nil {
				return err
			}
			for i, a := range crowd {
				for node := range s.stage.Names() {
					if node == i%scenarioNodes {
						continue
					}
					if err := s.breakNow(Fault{Kind: Slow, Client: a.Name, Node: node, Delay: farther}); err != nil {
						return err
					}
				}
			}
			return s.rush(ctx, crowd)
		},
	}
}

func thunderingHerd() Scenario {
	return Scenario{
		Name:     "thundering-herd",
		Claim:    "twenty-five clients wait for a name when its holder gives it up: one at a time, and each of them in the end",
		Lesson:   "a crowd costs messages, not exclusion: nobody starves where pauses are drawn at random",
		Showings: guarded(trace.NameRedlock, trace.NameTextbook, trace.NameSingle),
		judge:    trace.Judge{Progress: 2 * scenarioLease, Patience: 8 * scenarioLease},
		script: func(ctx context.Context, s *scene) error {
			ann, err := s.enter("ann")
			if err != nil {
				return err
			}
			crowd, err := s.crowd(ctx, herd)
			if err != nil {
				return err
			}
			first, err := s.holds(ctx, ann)
			if err != nil {
				return err
			}
			rushed := make(chan error)
			go func() { rushed <- s.rush(ctx, crowd) }()
			time.Sleep(aWhile)
			err = first.Release(ctx)
			return errors.Join(err, <-rushed)
		},
	}
}

// crowd has n actors come on.
func (s *scene) crowd(ctx context.Context, n int) ([]*actor, error) {
	var actors []*actor
	for i := range n {
		a, err := s.enter(fmt.Sprintf("client-%d", i))
		if err != nil {
			return nil, err
		}
		actors = append(actors, a)
	}
	return actors, s.rehearse(ctx, actors...)
}

// rush has each actor lock once, all at one moment. They differ in how they draw
// their pauses, and in nothing else.
func (s *scene) rush(ctx context.Context, actors []*actor) error {
	ctx, cancel := context.WithTimeout(ctx, 10*scenarioLease)
	defer cancel()
	errs := make([]error, len(actors))
	var work sync.WaitGroup
	for i, a := range actors {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		work.Go(func() {
			t, err := a.Insist(ctx, scenarioResource, scenarioLease, func() time.Duration {
				return askEvery/2 + spread(random, 4*askEvery)
			})
			if err != nil {
				errs[i] = err
				return
			}
			time.Sleep(spread(random, aWhile/10))
			errs[i] = t.Write(ctx)
			_ = t.Release(ctx) // nobody waits for it
		})
	}
	work.Wait()
	return errors.Join(errs...)
}
