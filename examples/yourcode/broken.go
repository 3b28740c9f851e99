package yourcode

import (
	"context"
	"time"

	"github.com/quorumkit/redlock"
)

// forgetful is the worker that writes past the guard: it has the lock, after all.
type forgetful struct{ Worker }

func (w *forgetful) Report(ctx context.Context, lock *redlock.Lock) error {
	for range lines {
		select {
		case <-time.After(perLine):
		case <-lock.Done():
			return errLost
		}
		if err := w.step(ctx); err != nil { // a garbage collection, of all moments
			return err
		}
		w.Store.add("a line")
		w.wrote(lock.Token(), true)
	}
	return nil
}

// unheeding is the worker that goes on, no matter what becomes of its lock.
type unheeding struct{ Worker }

func (w *unheeding) Report(ctx context.Context, lock *redlock.Lock) error {
	for range lines {
		time.Sleep(2 * time.Second)
		if err := w.step(ctx); err != nil {
			return err
		}
		err := w.Store.Append(ctx, lock.Token(), "a line")
		w.wrote(lock.Token(), err == nil)
	}
	return nil
}
