package redlockotel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlockotel"
	"github.com/quorumkit/redlock/redlocktest"
)

// observed is docs/OBSERVING.md's.
func observed(ctx context.Context, urls []string) (*redlock.Locker, func() error, error) {
	o, err := redlockotel.New() // the global providers, or WithMeterProvider, WithTracerProvider
	if err != nil {
		return nil, nil, err
	}
	locker, err := redlock.Open(ctx, urls, redlock.WithObserver(o.Observe))
	if err != nil {
		return nil, nil, err
	}
	stop, err := o.Watch(locker) // what is read from Stats
	if err != nil {
		return nil, nil, errors.Join(err, locker.Close())
	}
	return locker, stop, nil
}

func TestThePagesLinesMakeALockerThatIsObserved(t *testing.T) {
	nodes, err := redlocktest.Run(3, redlocktest.WithTCP())
	testkit.Must(t, err)
	defer nodes.Close()
	locker, stop, err := observed(t.Context(), nodes.URLs())
	testkit.Must(t, err)
	if _, err := locker.Acquire(t.Context(), "orders/42"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(stop(), locker.Close()); err != nil {
		t.Error(err)
	}
}
