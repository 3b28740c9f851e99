package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/fencing"
)

// Scenario is a failure that is told in a few steps, on any stage of at least
// five nodes, with any kit.
type Scenario struct {
	Name   string
	Claim  string // what it shows
	Lesson string // what a user should take away

	// Showings are what it shows of each contender: the claim, as a table that can
	// be held against a run.
	Showings []Showing

	script func(context.Context, *scene) error
}

// ScenarioLease is the lease in every scenario: kits need a MaxTTL of at least
// as much.
const ScenarioLease = 2 * time.Second

// Scenarios returns the catalogue.
func Scenarios() []Scenario {
	two, stale := []Rule{TwoHolders}, []Rule{StaleWrite}
	return []Scenario{
		{
			Name:   "gc-pause",
			Claim:  "a holder that is paused between its look at the lock and its write writes after the next holder, unless a guard checks tokens",
			Lesson: "no lock stops a paused writer: let the resource check the token",
			Showings: []Showing{
				{Contender: NameRedlock, Guarded: true, Refused: 1},
				{Contender: NameRedlock, Breaks: stale},
				{Contender: NameTextbook, Guarded: true, Breaks: stale},
				{Contender: NameSingle, Guarded: true, Breaks: stale},
			},
			script: gcPause,
		},
		{
			Name:   "amnesia-minority",
			Claim:  "two of five nodes lose their memory at once: a quorum still remembers the holder",
			Lesson: "five masters bear two that forget; one master bears none",
			Showings: []Showing{
				{Contender: NameRedlock, Guarded: true},
				{Contender: NameWithoutMembership, Guarded: true},
				{Contender: NameTextbook, Guarded: true},
				{Contender: NameSingle, Guarded: true, Breaks: two},
			},
			script: func(ctx context.Context, s *scene) error { return s.amnesia(ctx, 0, 1) },
		},
		{
			Name:   "amnesia-majority",
			Claim:  "three of five nodes lose their memory at once: a second client holds too, unless a node that forgot abstains",
			Lesson: "a node without its memory must not vote before every lease it may have forgotten is over",
			Showings: []Showing{
				{Contender: NameRedlock, Guarded: true},
				{Contender: NameWithoutMembership, Guarded: true, Breaks: []Rule{TokenOrder, TwoHolders}},
				{Contender: NameTextbook, Guarded: true, Breaks: two},
			},
			script: func(ctx context.Context, s *scene) error { return s.amnesia(ctx, 0, 1, 2) },
		},
		{
			Name:   "partition-holder",
			Claim:  "a holder that reaches no node stops believing before the next one holds",
			Lesson: "the end of a lease needs no message: mind your own clock",
			Showings: []Showing{
				{Contender: NameRedlock, Guarded: true},
				{Contender: NameTextbook, Guarded: true},
				{Contender: NameSingle, Guarded: true},
			},
			script: partitionHolder,
		},
		{
			Name:   "hung-node",
			Claim:  "a node that hangs delays nobody for longer than a node timeout",
			Lesson: "bound each node by itself; a quorum does not wait for the last one",
			Showings: []Showing{
				{Contender: NameRedlock, Guarded: true},
				{Contender: NameTextbook, Guarded: true},
			},
			script: hungNode,
		},
	}
}

// Play runs the scenario on a stage that was just made, and returns the trace.
// With guarded, the resource checks the tokens of a kit that has them. It fails
// if a step can't be done; what the steps showed is for a [Judge].
func (s Scenario) Play(ctx context.Context, stage Stage, kit Kit, guarded bool) ([]Record, error) {
	if err := found(stage, ScenarioLease); err != nil { //nolint:contextcheck // a Locker's own goroutines outlive every call
		return nil, err
	}
	sc := &scene{stage: stage, history: NewHistory()}
	rest, err := attest(stage, sc.history) //nolint:contextcheck // it looks on after ctx is done
	if err != nil {
		return nil, err
	}
	defer rest()
	var guard *fencing.Memory
	if guarded {
		guard = &fencing.Memory{}
	}
	for _, part := range []struct {
		name  string
		actor **Actor
	}{{"ann", &sc.ann}, {"bob", &sc.bob}} {
		a, err := NewActor(part.name, kit, stage, sc.history, guard)
		if err != nil {
			return nil, err
		}
		defer func() { _ = a.Close() }() // a release that no broken quorum confirms is no news
		*part.actor = a
	}
	if err := s.script(ctx, sc); err != nil {
		return sc.history.Records(), fmt.Errorf("chaos: %s with %s: %w", s.Name, kit.Name, err)
	}
	return sc.history.Records(), nil
}

// scene is a scenario while it is played.
type scene struct {
	stage    Stage
	history  *History
	ann, bob *Actor
}

const scenarioResource = "report"

func (s *scene) breakNow(f Fault) error {
	s.history.Add(Record{Kind: Broke, Text: f.String(), Fault: &f})
	return s.stage.Break(f)
}

func (s *scene) mend(f Fault) error {
	s.history.Add(Record{Kind: Mended, Text: f.String(), Fault: &f})
	return s.stage.Mend(f)
}

// insist has an actor ask until it holds, or until within has passed.
func (s *scene) insist(ctx context.Context, a *Actor, within time.Duration) (*Tenure, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return a.Insist(ctx, scenarioResource, ScenarioLease, func() time.Duration { return 50 * time.Millisecond })
}

func gcPause(ctx context.Context, s *scene) error {
	first, err := s.insist(ctx, s.ann, ScenarioLease)
	if err != nil {
		return err
	}
	pause := Fault{Kind: Pause, Client: s.ann.Name}
	if err := s.breakNow(pause); err != nil {
		return err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = first.Write(ctx) // refused or not: the trace says it
	}()
	next, err := s.insist(ctx, s.bob, 3*ScenarioLease)
	if err == nil {
		err = next.Write(ctx)
	}
	if mended := s.mend(pause); mended != nil {
		return mended // the writer rests for good
	}
	<-written
	return err
}

// amnesia has nodes forget while ann holds, and bob ask for half a lease.
func (s *scene) amnesia(ctx context.Context, nodes ...int) error {
	first, err := s.insist(ctx, s.ann, ScenarioLease)
	if err != nil {
		return err
	}
	time.Sleep(ScenarioLease / 8) // at work
	for _, n := range nodes {
		f := Fault{Kind: Forget, Node: n}
		if err := s.breakNow(f); err != nil {
			return err
		}
		if err := s.mend(f); err != nil {
			return err
		}
	}
	if _, err := s.insist(ctx, s.bob, ScenarioLease/2); err == nil {
		time.Sleep(ScenarioLease / 8) // both at work, if both hold
	}
	first.Remaining() // ann may have been told
	return nil
}

func partitionHolder(ctx context.Context, s *scene) error {
	first, err := s.insist(ctx, s.ann, ScenarioLease)
	if err != nil {
		return err
	}
	cut := Fault{Kind: Cut, Client: s.ann.Name, Node: Everything}
	if err := s.breakNow(cut); err != nil {
		return err
	}
	next, err := s.insist(ctx, s.bob, 3*ScenarioLease)
	if err != nil {
		return err
	}
	first.Remaining()
	if err := s.mend(cut); err != nil {
		return err
	}
	return next.Release(ctx)
}

func hungNode(ctx context.Context, s *scene) error {
	if err := s.breakNow(Fault{Kind: Stall, Node: 4}); err != nil {
		return err
	}
	t, err := s.insist(ctx, s.ann, ScenarioLease)
	if err != nil {
		return err
	}
	if err := t.Release(ctx); err != nil {
		return err
	}
	return s.mend(Fault{Kind: Stall, Node: 4})
}
