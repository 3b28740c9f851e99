package fencing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

func TestAcceptTakesATokenThatIsAtLeastTheHighest(t *testing.T) {
	for _, tt := range []struct {
		name           string
		resource       string
		token, highest redlock.Token
		want           error
	}{
		{"the first write", "r", 7, 0, nil},
		{"the smallest token", "r", 1, 0, nil},
		{"the same holder again", "r", 7, 7, nil},
		{"the next holder", "r", 8, 7, nil},
		{"the largest token", "r", redlock.MaxToken, redlock.MaxToken, nil},
		{"an earlier holder", "r", 6, 7, fencing.ErrStale},
		{"zero", "r", 0, 0, fencing.ErrZeroToken},
		{"zero after a token", "r", 0, 7, fencing.ErrZeroToken},
		{"above the largest", "r", redlock.MaxToken + 1, 0, fencing.ErrTokenRange},
		{"no name", "", 7, 0, fencing.ErrResource},
	} {
		if err := fencing.Accept(tt.resource, tt.token, tt.highest); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v; want %v", tt.name, err, tt.want)
		}
	}
}

func TestAStaleErrorNamesTheResourceAndBothTokens(t *testing.T) {
	err := fmt.Errorf("saving: %w", fencing.Accept("invoice:7", 41, 42))
	wantStale(t, err, "invoice:7", 41, 42)
	for _, part := range []string{`"invoice:7"`, "41", "42"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q; want %s in it", err, part)
		}
	}
}

func wantStale(tb testing.TB, err error, resource string, token, highest redlock.Token) {
	tb.Helper()
	var stale *fencing.StaleError
	if !errors.As(err, &stale) || !errors.Is(err, fencing.ErrStale) {
		tb.Fatalf("got %v; want a *StaleError", err)
	}
	if want := (fencing.StaleError{Resource: resource, Token: token, Highest: highest}); *stale != want {
		tb.Errorf("got %+v; want %+v", *stale, want)
	}
}
