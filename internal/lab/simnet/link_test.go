package simnet_test

import (
	"context"
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/simnet"
)

// A connection that was made all the same, and not answered, kept a bubble's time from going on.
func TestNobodyIsDialledForAContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := simnet.New(0, 1, nil, simnet.Condition{})
	if _, err := l.Dial(ctx, "", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want the context's error", err)
	}
}
