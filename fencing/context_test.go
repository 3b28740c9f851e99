package fencing_test

import (
	"context"
	"errors"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/tokenctx"
)

func TestAContextCarriesATokenForEachResource(t *testing.T) {
	ctx, err := fencing.NewContext(t.Context(), "a", 5)
	testkit.Must(t, err)
	ctx, err = fencing.NewContext(ctx, "b", 3) // smaller, and another resource's
	testkit.Must(t, err)
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
	testkit.Must(t, err)
	for _, tt := range []struct {
		name     string
		resource string
		token    redlock.Token
		want     error
	}{
		{"no name", "", 6, fencing.ErrInvalidResource},
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
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if got, err := fencing.FromContext(ctx, "a"); got != 5 || err != nil {
		t.Errorf("got %d, %v; want 5", got, err)
	}
}

func TestAContextCarriesTheKindOfItsToken(t *testing.T) {
	shared, err := fencing.NewSharedContext(t.Context(), "a", 5)
	testkit.Must(t, err)
	exclusive, err := fencing.NewContext(t.Context(), "a", 5)
	testkit.Must(t, err)
	again, err := fencing.NewContext(shared, "a", 5) // the same hold
	testkit.Must(t, err)
	next, err := fencing.NewContext(shared, "a", 6)
	testkit.Must(t, err)
	raised, err := fencing.NewSharedContext(shared, "a", 6)
	testkit.Must(t, err)
	derived, cancel := context.WithCancel(shared)
	defer cancel()
	for _, tt := range []struct {
		name     string
		ctx      context.Context //nolint:containedctx // a table of contexts is what is tested
		resource string
		token    redlock.Token
		want     bool
	}{
		{"shared", shared, "a", 5, true},
		{"derived", derived, "a", 5, true},
		{"the lock's own", tokenctx.WithShared(t.Context(), "a", 9), "a", 9, true},
		{"said again without the kind", again, "a", 5, true},
		{"raised", raised, "a", 6, true},
		{"exclusive", exclusive, "a", 5, false},
		{"the next one, exclusive", next, "a", 6, false},
		{"another number than is carried", shared, "a", 4, false},
		{"another number than is carried", shared, "a", 6, false},
		{"another resource", shared, "b", 5, false},
		{"nothing is carried", t.Context(), "a", 5, false},
		{"nothing is carried, no token", t.Context(), "a", 0, false},
	} {
		if got := fencing.IsShared(tt.ctx, tt.resource, tt.token); got != tt.want {
			t.Errorf("%s: got %t; want %t", tt.name, got, tt.want)
		}
	}
	if got, err := fencing.FromContext(shared, "a"); got != 5 || err != nil {
		t.Errorf("got %d, %v; want 5", got, err)
	}
}

func TestAContextMakesNoSharedTokenOfAnExclusiveOne(t *testing.T) {
	ctx, err := fencing.NewContext(t.Context(), "a", 5)
	testkit.Must(t, err)
	for _, tt := range []struct {
		name     string
		resource string
		token    redlock.Token
		want     error
	}{
		{"the exclusive's own number", "a", 5, fencing.ErrKind},
		{"backwards", "a", 4, fencing.ErrBackwards},
		{"no name", "", 6, fencing.ErrInvalidResource},
		{"zero", "a", 0, fencing.ErrZeroToken},
		{"above the largest", "a", redlock.MaxToken + 1, fencing.ErrTokenRange},
		{"a later sharer", "a", 6, nil},
	} {
		inner, err := fencing.NewSharedContext(ctx, tt.resource, tt.token)
		if !errors.Is(err, tt.want) || (err == nil) != (inner != nil) {
			t.Errorf("%s: got %v, %v; want %v", tt.name, inner, err, tt.want)
		}
	}
}
