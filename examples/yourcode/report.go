// Package yourcode is code that uses redlock, as somebody writes it in a module of their
// own, and its tests in the lab: a worker that keeps the rules, two that don't, and two
// other lock libraries.
package yourcode

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

// resource is what the lock and the guard call the report.
const resource = "report"

// Store keeps the report. It accepts a line only with a token that is not older than
// those that it has seen.
type Store struct {
	guard fencing.Memory

	mu    sync.Mutex // guards the field below
	lines []string
}

// Append adds a line; a stale one is fencing.ErrStale.
func (s *Store) Append(ctx context.Context, token redlock.Token, line string) error {
	return s.guard.Write(ctx, resource, token, func(context.Context) error {
		s.add(line)
		return nil
	})
}

func (s *Store) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

// errLost means that the lock was lost before the report was complete.
var errLost = errors.New("the lock is lost")

const (
	lines   = 5                      // of a report
	perLine = 200 * time.Millisecond // of work
)

// Worker writes reports.
type Worker struct {
	Store *Store

	// What a test wants to hear, and where it wants to stop the worker; in production
	// they are nil.
	Step  func(ctx context.Context) error
	Wrote func(token redlock.Token, accepted bool)
}

// Report writes a report under a lock. It ends with an error as soon as the lock is lost,
// or the store has seen a later one.
func (w *Worker) Report(ctx context.Context, lock *redlock.Lock) error {
	for range lines {
		select {
		case <-time.After(perLine):
		case <-lock.Done():
			return errLost
		}
		if err := w.step(ctx); err != nil {
			return err
		}
		err := w.Store.Append(ctx, lock.Token(), "a line")
		w.wrote(lock.Token(), err == nil)
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) step(ctx context.Context) error {
	if w.Step == nil {
		return nil
	}
	return w.Step(ctx)
}

func (w *Worker) wrote(token redlock.Token, accepted bool) {
	if w.Wrote != nil {
		w.Wrote(token, accepted)
	}
}
