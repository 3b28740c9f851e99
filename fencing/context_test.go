package fencing_test

import (
	"context"
	"errors"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/tokenctx"
)

func TestAContextCarriesATokenForEachResource(t *testing.T) {
	ctx, err := fencing.NewContext(t.Context(), "a", 5)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err = fencing.NewContext(ctx, "b", 3) // smaller, and another resource's
	if err != nil {
		t.Fatal(err)
	}
	for resource, want := range map[string]redlock.Token{"a": 5, "b": 3} {
		if got, err := fencing.FromContext(ctx, resource); got != want || err != nil {
			t.Errorf("%s: got %d, %v; want %d", resource, got, err, want)
		}
	}
	if got, err := fencing.FromContext(ctx, "c"); !errors.Is(err, fencing.ErrNoToken) || got != 0 {
		t.Errorf("got %d, %v; want ErrNoToken", got, err)
	}
}

func TestAContextTakesTheTokenThatTheLockSet(t *testing.T) {
	ctx := tokenctx.With(t.Context(), "a", 9)
	if got, err := fencing.FromContext(ctx, "a"); got != 9 || err != nil {
		t.Errorf("got %d, %v; want 9", got, err)
	}
}

func TestAContextRefusesWhatIsNoTokenAndOneThatGoesBackwards(t *testing.T) {
	ctx, err := fencing.NewContext(t.Context(), "a", 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		resource string
		token    redlock.Token
		want     error
	}{
		{"no name", "", 6, fencing.ErrResource},
		{"zero", "a", 0, fencing.ErrZeroToken},
		{"above the largest", "a", redlock.MaxToken + 1, fencing.ErrTokenRange},
		{"backwards", "a", 4, fencing.ErrBackwards},
		{"the same again", "a", 5, nil},
		{"the next", "a", 6, nil},
	} {
		inner, err := fencing.NewContext(ctx, tt.resource, tt.token)
		if !errors.Is(err, tt.want) || (err == nil) != (inner != nil) {
			t.Errorf("%s: got %v, %v; want %v", tt.name, inner, err, tt.want)
		}
		if got, _ := fencing.FromContext(ctx, "a"); got != 5 {
			t.Errorf("%s: got %d; want the outer context as it was: 5", tt.name, got)
		}
	}
}

func TestATokenSurvivesDerivedContexts(t *testing.T) {
	ctx, err := fencing.NewContext(t.Context(), "a", 5)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if got, err := fencing.FromContext(ctx, "a"); got != 5 || err != nil {
		t.Errorf("got %d, %v; want 5", got, err)
	}
}
