package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Those who want several names at once.
func setScenarios() []Scenario { return []Scenario{setHolderDies()} }

// ledger stands before the scene's resource, in the order in which sets are taken.
const ledger = "ledger"

func setHolderDies() Scenario {
	return Scenario{
		Name:     "set-holder-dies",
		Claim:    "a client wants two names at once, has the first and waits for the second when it dies: one who wants the first has it when that lease is over, and the next who wants both has both, as soon as the second is given up",
		Lesson:   "what a set holds while it waits is a lease like any other: it ends with who had it, and no order of names is left behind",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Progress: scenarioLease + soon},
		script:   deathWithinASet,
	}
}

func deathWithinASet(ctx context.Context, s *scene) error {
	l, err := s.line(ctx) // ann holds, nobody waits
	if err != nil {
		return err
	}
	both := request{Resources: []string{scenarioResource, ledger}}
	bob, err := l.wants(ctx, "bob", both)
	if err != nil {
		return err
	}
	cara, err := l.wants(ctx, "cara", request{Resources: []string{ledger}})
	if err != nil {
		return err
	}
	if err := l.dies(bob); err != nil {
		return err
	}
	if err := l.keepUntil(ctx, func(context.Context) error { return <-cara.done }); err != nil {
		return err
	}
	cara.gone = true // it has had its turn
	if _, err := l.wants(ctx, "dave", both); err != nil {
		return err
	}
	return l.handOver(ctx)
}

// wants has one more come on, and wait for something.
func (l *line) wants(ctx context.Context, name string, w request) (*inLineFor, error) {
	a, err := l.scene.enter(name)
	if err != nil {
		return nil, err
	}
	if err := l.scene.rehearse(ctx, a); err != nil {
		return nil, err
	}
	waiting, end := context.WithTimeout(ctx, 10*scenarioLease)
	one := &inLineFor{actor: a, end: end, wants: w, done: make(chan error, 1)}
	l.waits = append(l.waits, one)
	go func() {
		defer end()
		t, err := a.WaitFor(waiting, w, scenarioLease, func() time.Duration { return askEvery })
		if err == nil {
			time.Sleep(aWhile / 10)
			err = t.Write(waiting)
			err = errors.Join(err, t.Release(waiting))
		}
		one.done <- err
	}()
	return one, l.keep(ctx, aWhile)
}
