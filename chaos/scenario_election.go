package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Those who stand for an election, and one who observes it.
func electionScenarios() []Scenario { return []Scenario{pausedLeader()} }

func pausedLeader() Scenario {
	stale := []Rule{StaleWrite}
	return Scenario{
		Name:   "paused-leader",
		Claim:  "the leader's machine sleeps between its look and its write, the other candidate leads meanwhile, and an observer is told of each in turn: the first one's write comes after the second's, and only a guard refuses it",
		Lesson: "an election is a lock: for a moment two may think that they lead, so give each write the leader's token",
		Showings: []trace.Showing{
			{Contender: trace.NameRenewing, Guarded: true, Refused: 1},
			{Contender: trace.NameRenewing, Breaks: stale},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: stale},
			{Contender: trace.NameSingle, Guarded: true, Breaks: stale},
		},
		judge:  trace.Judge{Progress: scenarioLease + soon, Seen: seenWithin},
		script: theLeaderSleeps,
	}
}

func theLeaderSleeps(ctx context.Context, s *scene) error {
	ann, bob, err := s.pair(ctx)
	if err != nil {
		return err
	}
	oscar, err := s.enter("oscar")
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, 20*scenarioLease)
	defer end()
	observing, leave := context.WithCancel(ctx)
	observed := make(chan struct{})
	go func() {
		defer close(observed)
		oscar.Observe(observing, scenarioResource)
	}()
	err = s.twoReigns(ctx, ann, bob)
	leave()
	<-observed
	if _, observes := oscar.contender.(elector); err == nil && observes {
		err = s.toldOf("ann", "bob")
	}
	return err
}

// twoReigns has ann lead and sleep before a write, and bob lead meanwhile. Once awake, ann
// may lead again, and then resigns at once.
func (s *scene) twoReigns(ctx context.Context, ann, bob *actor) error {
	asleep := Fault{Kind: Suspend, Client: ann.Name}
	leads, first := make(chan error, 1), true
	annDone, bobDone := make(chan error, 1), make(chan error, 1)
	go func() {
		annDone <- s.stands(ctx, ann, func(leading context.Context, t *Tenure) error {
			if !first {
				return nil
			}
			first = false
			time.Sleep(aWhile)
			leads <- s.breakNow(asleep)
			_ = t.Write(context.WithoutCancel(leading)) // refused or not: the trace says it
			return nil
		})
	}()
	if err := <-leads; err != nil {
		return err
	}
	wrote := make(chan error, 1)
	awake := make(chan struct{})
	go func() {
		bobDone <- s.stands(ctx, bob, func(leading context.Context, t *Tenure) error {
			wrote <- t.Write(leading)
			time.Sleep(seenWithin)
			<-awake
			return nil
		})
	}()
	err := <-wrote
	time.Sleep(aWhile)
	err = errors.Join(err, s.mend(asleep)) // or ann rests for good
	time.Sleep(aWhile)
	close(awake)
	return errors.Join(err, <-annDone, <-bobDone)
}

// stands has an actor stand for the election.
func (s *scene) stands(ctx context.Context, a *actor, lead func(context.Context, *Tenure) error) error {
	return a.Campaign(ctx, scenarioResource, scenarioLease, func() time.Duration { return askEvery }, lead)
}

// toldOf looks whether an observer was told of these in this order, others between them.
func (s *scene) toldOf(clients ...string) error {
	told := []string{}
	for _, r := range s.history.Records() {
		if r.Kind == trace.Saw {
			told = append(told, r.Value)
		}
	}
	left := told
	for _, c := range clients {
		i := slices.IndexFunc(left, func(value string) bool { return len(value) > len(c) && value[:len(c)] == c })
		if i < 0 {
			return fmt.Errorf("an observer was told of %q; want %q among them, in this order", told, clients)
		}
		left = left[i+1:]
	}
	return nil
}

// A holder that is asked to give up.
func revocationScenarios() []Scenario { return []Scenario{lateRevocation()} }

func lateRevocation() Scenario {
	return Scenario{
		Name:     "late-revocation",
		Claim:    "a holder is asked to give up, and has done so and holds anew when the message arrives: the hold that it has now was not asked for; asked for that, too, it hears of it and gives it up",
		Lesson:   "ask for a hold, not for a name: what comes late then speaks of what is over",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Progress: soon},
		script:   revokedLate,
	}
}

func revokedLate(ctx context.Context, s *scene) error {
	asks := published{Stage: s.stage, sent: make(chan struct{})}
	ann, err := s.enter("ann")
	if err != nil {
		return err
	}
	bob, err := s.enterWith("bob", &asks)
	if err != nil {
		return err
	}
	if err := s.rehearse(ctx, ann, bob); err != nil {
		return err
	}
	revocable := request{Resources: []string{scenarioResource}, Revocable: true}
	first, err := s.waitsFor(ctx, ann, revocable)
	if err != nil {
		return err
	}
	late := Fault{Kind: Slow, Client: bob.Name, Node: Everything, Delay: onItsWay / 3}
	if err := s.breakNow(late); err != nil {
		return err
	}
	revoked := bob.revokes(ctx)
	select { // bob has read whose it is, and what he sends for that is on its way
	case <-asks.sent:
	case err := <-revoked:
		return errors.Join(errors.New("bob asked nobody"), err)
	}
	_ = first.Release(ctx)
	second, err := s.waitsFor(ctx, ann, revocable)
	if err != nil {
		return err
	}
	if err := <-revoked; err != nil {
		return err
	}
	time.Sleep(aWhile)
	select {
	case <-second.Revoked():
		return errors.New("ann was asked for a hold by a message of one before")
	default:
	}
	if err := s.mend(late); err != nil {
		return err
	}
	revoked = bob.revokes(ctx)
	select {
	case <-second.Revoked():
	case <-time.After(scenarioLease):
		return errors.New("ann was not told that she was asked")
	}
	err = second.Write(ctx)
	_ = second.Release(ctx)
	return errors.Join(err, <-revoked)
}

// revokes asks for the scene's resource by the actor's library.
func (a *actor) revokes(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	r, ok := a.contender.(revoker)
	if !ok {
		done <- fmt.Errorf("%s's library can't ask for a hold", a.Name)
		return done
	}
	a.history.Add(Record{Kind: trace.Noted, Client: a.Name, Resource: scenarioResource, Text: "asks for it"})
	go func() { done <- r.Revoke(ctx, scenarioResource) }()
	return done
}

// published is a stage that tells when a client first publishes something.
type published struct {
	Stage

	once sync.Once
	sent chan struct{}
}

// Connect is [Stage.Connect].
func (p *published) Connect(client string) ([]redis.UniversalClient, error) {
	nodes, err := p.Stage.Connect(client)
	if err == nil {
		overhear(nodes, ears{sent: func(data []byte) {
			if bytes.Contains(bytes.ToLower(data), []byte("\r\npublish\r\n")) {
				p.once.Do(func() { close(p.sent) })
			}
		}})
	}
	return nodes, err
}
