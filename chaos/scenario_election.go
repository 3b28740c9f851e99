package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Candidates of an election, and an observer of it.
var electionScenarios = []Scenario{{
	Name:   "paused-leader",
	Claim:  "the leader's machine sleeps between its look and its write, the other candidate leads meanwhile, and an observer is told of each in turn: the first one's write comes after the second's, and only a guard refuses it",
	Lesson: "an election is a lock: for a moment two may think that they lead, so give each write the leader's token",
	Showings: append([]trace.Showing{
		{Contender: trace.NameRenewing, Guarded: true, Refused: 1},
		{Contender: trace.NameRenewing, Breaks: []Rule{StaleWrite}},
	}, breaking([]Rule{StaleWrite}, trace.NameTextbook, trace.NameSingle)...),
	judge:  trace.Judge{Progress: scenarioLease + soon, Seen: seenWithin},
	script: pausedLeader,
}}

func pausedLeader(ctx context.Context, s *scene) {
	ann, bob := s.pair(ctx)
	oscar := s.enter("oscar")
	ctx, end := context.WithTimeout(ctx, 20*scenarioLease)
	defer end()
	observing, leave := context.WithCancel(ctx)
	defer leave()
	observed := s.spawn(func() { oscar.Observe(observing, scenarioResource) })
	s.twoReigns(ctx, ann, bob)
	leave()
	must(<-observed)
	if _, observes := oscar.contender.(library); observes {
		must(s.toldOf("ann", "bob"))
	}
}

// twoReigns lets ann lead and sleep before a write, while bob leads. Once awake, ann
// may lead again, and then resigns at once.
func (s *scene) twoReigns(ctx context.Context, ann, bob *actor) {
	asleep := Fault{Kind: Suspend, Client: ann.Name}
	leads, first := make(chan error, 1), true
	annDone := s.stands(ctx, ann, func(leading context.Context, t *Tenure) error {
		if !first {
			return nil
		}
		first = false
		time.Sleep(aWhile)
		leads <- try(func() { s.breakNow(asleep) })
		_ = t.Write(context.WithoutCancel(leading)) // refused or not: the trace says it
		return nil
	})
	must(<-leads)
	wrote, awake := make(chan error, 1), make(chan struct{})
	wake := sync.OnceFunc(func() { close(awake) })
	defer wake()
	bobDone := s.stands(ctx, bob, func(leading context.Context, t *Tenure) error {
		wrote <- t.Write(leading)
		time.Sleep(seenWithin)
		<-awake
		return nil
	})
	err := <-wrote
	time.Sleep(aWhile)
	s.mend(asleep)
	time.Sleep(aWhile)
	wake()
	must(errors.Join(err, <-annDone, <-bobDone))
}

// stands lets an actor stand for the election.
func (s *scene) stands(ctx context.Context, a *actor, lead func(context.Context, *Tenure) error) <-chan error {
	return s.spawn(func() { must(a.Campaign(ctx, scenarioResource, scenarioLease, everyWhile, lead)) })
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
		i := slices.IndexFunc(left, func(value string) bool { return strings.HasPrefix(value, c) })
		if i < 0 {
			return fmt.Errorf("an observer was told of %q; want %q among them, in this order", told, clients)
		}
		left = left[i+1:]
	}
	return nil
}

// A holder that is asked to give up.
var revocationScenarios = []Scenario{{
	Name:     "late-revocation",
	Claim:    "a holder is asked to give up, and has done so and holds anew when the message arrives: the hold that it has now was not asked for; asked for that, too, it hears of it and gives it up",
	Lesson:   "ask for a hold, not for a name: what comes late then speaks of what is over",
	Showings: guarded(trace.NameRenewing),
	judge:    trace.Judge{Progress: soon},
	script:   lateRevocation,
}}

func lateRevocation(ctx context.Context, s *scene) {
	sent := make(chan struct{})
	published := sync.OnceFunc(func() { close(sent) })
	ann := s.enter("ann")
	bob := s.enterWith("bob", tapped{s.stage, func(data []byte) {
		if bytes.Contains(data, []byte("\r\npublish\r\n")) {
			published()
		}
	}})
	s.rehearse(ctx, ann, bob)
	revocable := request{Resources: []string{scenarioResource}, Revocable: true}
	first := s.waits(ctx, ann, revocable, 2*scenarioLease)
	late := Fault{Kind: Slow, Client: bob.Name, Node: Everything, Delay: onItsWay / 3}
	s.breakNow(late)
	revoked := s.revokes(ctx, bob)
	select { // bob has read whose it is, and what he sends for that is on its way
	case <-sent:
	case err := <-revoked:
		must(errors.Join(errors.New("bob asked nobody"), err))
	}
	_ = first.Release(ctx)
	second := s.waits(ctx, ann, revocable, 2*scenarioLease)
	must(<-revoked)
	time.Sleep(aWhile)
	select {
	case <-second.Revoked():
		must(errors.New("ann was asked for a hold by a message of one before"))
	default:
	}
	s.mend(late)
	revoked = s.revokes(ctx, bob)
	select {
	case <-second.Revoked():
	case <-time.After(scenarioLease):
		must(errors.New("ann was not told that she was asked"))
	}
	s.finish(ctx, second)
	must(<-revoked)
}

// revokes asks for the scene's resource by an actor's library.
func (s *scene) revokes(ctx context.Context, a *actor) <-chan error {
	revoker, ok := a.contender.(library)
	if !ok {
		must(fmt.Errorf("%s's library can't ask for a hold", a.Name))
	}
	a.history.Add(Record{Kind: trace.Noted, Client: a.Name, Resource: scenarioResource, Text: "asks for it"})
	return s.spawn(func() { must(revoker.Revoke(ctx, scenarioResource)) })
}
