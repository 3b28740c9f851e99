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
	waits  []*inLineFor
}

// inLineFor is one who waits.
type inLineFor struct {
	*actor

	wants request
	end   context.CancelFunc
	done  chan error // what came of it
	gone  bool       // nobody waits for its turn
}

// line has ann hold, and the others come on one by one and wait.
func (s *scene) line(ctx context.Context, names ...string) (*line, error) {
	ann, err := s.enter("ann")
	if err != nil {
		return nil, err
	}
	actors := []*actor{ann}
	for _, name := range names {
		a, err := s.enter(name)
		if err != nil {
			return nil, err
		}
		actors = append(actors, a)
	}
	if err := s.rehearse(ctx, actors...); err != nil {
		return nil, err
	}
	l := &line{scene: s}
	if l.holder, err = s.holds(ctx, ann); err != nil {
		return nil, err
	}
	for i, a := range actors[1:] {
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
	return l.waitsNext(ctx, a, uint64(len(l.waits)+1))
}

// first is who was there first.
func (l *line) first() *inLineFor { return l.waits[0] }

// leaves says that one who waits is not there for its turn, no matter what it goes on
// asking.
func (l *line) leaves(w *inLineFor) {
	w.gone = true
	w.quit(w.wants)
}

// dies has the process of one who waits be gone: its connections end, there are no
// new ones, and it asks no more.
func (l *line) dies(w *inLineFor) error {
	if err := l.scene.dies(w.Name); err != nil {
		return err
	}
	l.leaves(w)
	w.end()
	return nil
}

// waitsNext has an actor wait, and work and release when it holds. It returns once
// the next one may come.
func (l *line) waitsNext(ctx context.Context, a *actor, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	waiting, end := context.WithTimeout(ctx, 10*scenarioLease)
	w := &inLineFor{actor: a, wants: request{Resources: []string{scenarioResource}}, end: end, done: make(chan error, 1)}
	l.waits = append(l.waits, w)
	l.scene.work.Go(func() {
		defer end()
		t, err := a.Wait(waiting, scenarioResource, scenarioLease, func() time.Duration {
			return askEvery/2 + spread(random, 4*askEvery)
		})
		if err != nil {
			w.done <- fmt.Errorf("%s: %w", a.Name, err)
			return
		}
		time.Sleep(aWhile / 10)
		err = t.Write(waiting)
		_ = t.Release(waiting) // nodes may be broken
		w.done <- err
	})
	return l.keep(ctx, aWhile)
}

// keep has the holder hold on for d.
func (l *line) keep(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); {
		_ = l.holder.Extend(ctx, scenarioLease) // or not: the old lease stands
		select {
		case <-time.After(min(aWhile/2, time.Until(until))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// keepUntil has the holder hold on until something is done.
func (l *line) keepUntil(ctx context.Context, do func(context.Context) error) error {
	done := make(chan error, 1)
	l.scene.work.Go(func() { done <- do(ctx) })
	for {
		if err := l.keep(ctx, aWhile); err != nil {
			return err
		}
		select {
		case err := <-done:
			return err
		default:
		}
	}
}

// handOver has the holder give up, and returns when all have had their turn that
// are still there.
func (l *line) handOver(ctx context.Context) error {
	_ = l.holder.Release(ctx) // nodes may be broken
	var errs []error
	for _, w := range l.waits {
		if w.gone {
			continue
		}
		select {
		case err := <-w.done:
			errs = append(errs, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// ofThree is the script in which something befalls a line of three, and the holder
// gives up then.
func ofThree(befalls func(context.Context, *line) error) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		l, err := s.line(ctx, "bob", "cara", "dave")
		if err == nil {
			err = befalls(ctx, l)
		}
		if err != nil {
			return err
		}
		return l.handOver(ctx)
	}
}
