package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// line is a holder, and clients that wait for it, one after another.
type line struct {
	scene  *scene
	holder *Tenure
	actors []*Actor
	waits  []chan error
}

// line has ann hold, and the others come on one by one and wait.
func (s *scene) line(ctx context.Context, names ...string) (*line, error) {
	ann, err := s.enter("ann")
	if err != nil {
		return nil, err
	}
	l := &line{scene: s}
	for _, name := range names {
		a, err := s.enter(name)
		if err != nil {
			return nil, err
		}
		l.actors = append(l.actors, a)
	}
	if err := s.rehearse(ctx, append([]*Actor{ann}, l.actors...)...); err != nil {
		return nil, err
	}
	if l.holder, err = s.holds(ctx, ann); err != nil {
		return nil, err
	}
	for i, a := range l.actors {
		if err := l.waitsNext(ctx, a, uint64(i)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// joins has one more come on and wait.
func (l *line) joins(ctx context.Context, name string) error {
	a, err := l.scene.enter(name)
	if err != nil {
		return err
	}
	l.actors = append(l.actors, a)
	return l.waitsNext(ctx, a, uint64(len(l.actors)))
}

// first is who was there first.
func (l *line) first() *Actor { return l.actors[0] }

// waitsNext has an actor wait, and work and release when it holds. It returns once
// the next one may come.
func (l *line) waitsNext(ctx context.Context, a *Actor, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	done := make(chan error, 1)
	l.waits = append(l.waits, done)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, 10*ScenarioLease)
		defer cancel()
		t, err := a.Wait(ctx, scenarioResource, ScenarioLease, func() time.Duration {
			return askEvery/2 + spread(random, 4*askEvery)
		})
		if err != nil {
			done <- fmt.Errorf("%s: %w", a.Name, err)
			return
		}
		time.Sleep(aWhile / 10)
		err = t.Write(ctx)
		_ = t.Release(ctx) // nodes may be broken
		done <- err
	}()
	return l.keep(ctx, aWhile)
}

// keep has the holder hold on for d.
func (l *line) keep(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); {
		_ = l.holder.Extend(ctx, ScenarioLease) // or not: the old lease stands
		select {
		case <-time.After(min(aWhile/2, time.Until(until))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// handOver has the holder give up, and returns when all have had their turn that
// have not quit.
func (l *line) handOver(ctx context.Context) error {
	_ = l.holder.Release(ctx) // nodes may be broken
	var errs []error
	for i, a := range l.actors {
		if !l.scene.history.asks(a.Name) {
			continue
		}
		select {
		case err := <-l.waits[i]:
			errs = append(errs, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// asks tells whether the client's last word is that it wants something, or has it.
func (h *History) asks(client string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	asks := false
	for _, r := range h.records {
		if r.Client == client {
			asks = r.Kind != Quit && (asks || r.Kind == Asked)
		}
	}
	return asks
}
