package chaos

import (
	"context"
	"errors"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Those who have a slot of a name.
func slotScenarios() []Scenario { return []Scenario{slotHolderDies()} }

func slotHolderDies() Scenario {
	return Scenario{
		Name:     "slot-holder-dies",
		Claim:    "two clients have the two slots of a name, two more wait, and one of the holders dies: the first who waits has that slot as soon as its lease is over, and the second the other one, when it is given up",
		Lesson:   "a permit that is a lease comes back by itself: nobody has to count who is still alive",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		script:   deathInASlot,
	}
}

func deathInASlot(ctx context.Context, s *scene) error {
	slot := request{Resources: []string{scenarioResource}, Limit: 2}
	var holders []*Tenure
	for _, name := range []string{"ann", "bob"} {
		a, err := s.enter(name)
		if err != nil {
			return err
		}
		if err := s.rehearse(ctx, a); err != nil {
			return err
		}
		t, err := s.waitsFor(ctx, a, slot)
		if err != nil {
			return err
		}
		holders = append(holders, t)
	}
	l := &line{scene: s, holder: holders[0]}
	var waits []*inLineFor
	for _, name := range []string{"cara", "dave"} {
		w, err := l.wants(ctx, name, slot)
		if err != nil {
			return err
		}
		waits = append(waits, w)
	}
	if err := s.dies("bob"); err != nil {
		return err
	}
	if err := l.keepUntil(ctx, func(context.Context) error { return <-waits[0].done }); err != nil {
		return err
	}
	if holders[1].Remaining() > 0 {
		return errors.New("cara had a slot while both were held")
	}
	waits[0].gone = true // it has had its turn
	return l.handOver(ctx)
}

// waitsFor has an actor wait until it has something.
func (s *scene) waitsFor(ctx context.Context, a *actor, w request) (*Tenure, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*scenarioLease)
	defer cancel()
	return a.WaitFor(ctx, w, scenarioLease, nil)
}

// dies has a client's connections end for good.
func (s *scene) dies(client string) error {
	for _, k := range []Break{Refuse, Reset} {
		if err := s.breakNow(Fault{Kind: k, Client: client, Node: Everything}); err != nil {
			return err
		}
	}
	return nil
}
