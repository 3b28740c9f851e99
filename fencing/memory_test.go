package fencing_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/pausedholder"
)

// wantScenario checks the two runs of the paused holder: last is what stands in
// the resource after each.
func wantScenario(t *testing.T, resource string, plain, guarded pausedholder.Result, plainLast, guardedLast string) {
	t.Helper()
	if err := errors.Join(plain.Early, plain.Next, plain.Late); err != nil {
		t.Fatalf("unguarded: got %v; want three writes", err)
	}
	if plainLast != pausedholder.PausedLate {
		t.Fatalf("unguarded: got %q; want the stale write %q", plainLast, pausedholder.PausedLate)
	}
	if err := errors.Join(guarded.Early, guarded.Next); err != nil {
		t.Fatalf("guarded: got %v; want both holders' writes", err)
	}
	wantStale(t, guarded.Late, resource, pausedholder.PausedToken, pausedholder.NextToken)
	if guardedLast != pausedholder.NextValue {
		t.Errorf("guarded: got %q; want %q", guardedLast, pausedholder.NextValue)
	}
}

func TestMemoryRefusesThePausedHolder(t *testing.T) {
	var value string
	plain := pausedholder.Run(func(_ redlock.Token, v string) error {
		value = v
		return nil
	})
	plainLast := value

	var guard fencing.Memory
	guarded := pausedholder.Run(func(token redlock.Token, v string) error {
		return guard.Write(t.Context(), "r", token, func(context.Context) error {
			value = v
			return nil
		})
	})
	wantScenario(t, "r", plain, guarded, plainLast, value)
}

func TestMemoryWritesOneAtATimeInTheOrderOfTokens(t *testing.T) {
	var guard fencing.Memory
	var wg sync.WaitGroup
	var history []redlock.Token // unguarded on purpose: the race detector judges Write
	for i := range 16 {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for n := range uint64(50) {
				token := redlock.Token(n + rng.Uint64N(20) + 1)
				err := guard.Write(t.Context(), "r", token, func(context.Context) error {
					history = append(history, token)
					return nil
				})
				if err != nil && !errors.Is(err, fencing.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if !slices.IsSorted(history) {
		t.Errorf("the history goes backwards: %d", history)
	}
	if got, want := guard.Highest("r"), history[len(history)-1]; got != want {
		t.Errorf("got %d; want the last one written, %d", got, want)
	}
}

func TestMemoryKeepsTheTokenOfAWriteThatFailsOrPanics(t *testing.T) {
	var guard fencing.Memory
	mine := errors.New("the caller's own")
	err := guard.Write(t.Context(), "r", 2, func(context.Context) error { return mine })
	if !errors.Is(err, mine) || guard.Highest("r") != 2 {
		t.Errorf("got %v, %d; want the write's error, 2", err, guard.Highest("r"))
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = guard.Write(t.Context(), "r", 3, func(context.Context) error { panic("in the write") })
	}()
	// The turn was given back, and the earlier holder is stale all the same.
	wantStale(t, guard.Write(t.Context(), "r", 2, func(context.Context) error { return nil }), "r", 2, 3)
	if err := guard.Write(t.Context(), "r", 3, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestMemoryWaitsForAnotherWriteUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var guard fencing.Memory
		release := make(chan struct{})
		go func() {
			_ = guard.Write(t.Context(), "r", 1, func(context.Context) error {
				<-release
				return nil
			})
		}()
		synctest.Wait() // the first write has its turn

		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error)
		go func() {
			waited <- guard.Write(ctx, "r", 2, func(context.Context) error {
				t.Error("written after the context's end")
				return nil
			})
		}()
		synctest.Wait()
		if err := guard.Write(t.Context(), "another", 1, func(context.Context) error { return nil }); err != nil {
			t.Errorf("another resource: %v", err)
		}
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v; want the context's error", err)
		}
		if got := guard.Highest("r"); got != 1 {
			t.Errorf("got %d; want the waiter's token not to be stored: 1", got)
		}
		close(release)
	})
}

func TestMemoryDoesNotWriteUnderAnEndedContext(t *testing.T) {
	var guard fencing.Memory
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // the turn and the end are ready both: either may be seen first
		err := guard.Write(ctx, "r", 2, func(context.Context) error {
			t.Error("written")
			return nil
		})
		if !errors.Is(err, context.Canceled) || guard.Highest("r") != 0 {
			t.Fatalf("got %v, %d; want the context's error, 0", err, guard.Highest("r"))
		}
	}
	if err := guard.Write(t.Context(), "r", 1, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestMemoryRefusesBadInput(t *testing.T) {
	var guard fencing.Memory
	for _, tt := range []struct {
		resource string
		token    redlock.Token
		want     error
	}{
		{"", 1, fencing.ErrInvalidResource},
		{"r", 0, fencing.ErrZeroToken},
		{"r", redlock.MaxToken + 1, fencing.ErrTokenRange},
	} {
		err := guard.Write(t.Context(), tt.resource, tt.token, func(context.Context) error {
			t.Errorf("%q %d: written", tt.resource, tt.token)
			return nil
		})
		if !errors.Is(err, tt.want) {
			t.Errorf("%q %d: got %v; want %v", tt.resource, tt.token, err, tt.want)
		}
	}
	if got := guard.Highest("r"); got != 0 {
		t.Errorf("got %d; want nothing stored", got)
	}
}

// sharing returns a context that carries token as that of a shared hold.
func sharing(tb testing.TB, resource string, token redlock.Token) context.Context {
	tb.Helper()
	ctx, err := fencing.NewSharedContext(tb.Context(), resource, token)
	testkit.Must(tb, err)
	return ctx
}

func TestMemoryTakesTheKindFromTheContext(t *testing.T) {
	var guard fencing.Memory
	write := func(ctx context.Context, token redlock.Token) error {
		return guard.Write(ctx, "r", token, func(context.Context) error { return nil })
	}
	for _, step := range []struct {
		token   redlock.Token
		shared  bool
		refused redlock.Token // by this number; 0: accepted
	}{
		{5, false, 0},
		{8, true, 0},
		{9, true, 0},
		{8, true, 0},
		{5, false, 9},
		{8, false, 9},
		{9, false, 9},
		{5, true, 5},
		{10, false, 0},
		{10, false, 0},
		{9, true, 10},
		{11, true, 0},
	} {
		ctx := t.Context()
		if step.shared {
			ctx = sharing(t, "r", step.token)
		}
		err := write(ctx, step.token)
		var stale *fencing.StaleError
		switch {
		case step.refused == 0 && err != nil:
			t.Errorf("%+v: got %v; want it accepted", step, err)
		case step.refused != 0 && (!errors.As(err, &stale) || stale.Highest != step.refused || stale.Shared != step.shared):
			t.Errorf("%+v: got %v; want it refused by %d", step, err, step.refused)
		}
	}
	if got := guard.Highest("r"); got != 11 {
		t.Errorf("got %d; want the largest of either kind: 11", got)
	}
}
