package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
		{"no name", "", 7, 0, fencing.ErrInvalidResource},
	} {
		if err := accept(tt.resource, tt.token, tt.highest); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v; want %v", tt.name, err, tt.want)
		}
	}
}

// accept puts an exclusive token to a guard that has only seen such.
func accept(resource string, token, highest redlock.Token) error {
	_, err := fencing.Seen{Exclusive: highest}.Accept(resource, token, false)
	return err
}

func TestSeenKeepsANumberForEachKind(t *testing.T) {
	for _, tt := range []struct {
		name   string
		seen   fencing.Seen
		token  redlock.Token
		shared bool
		want   fencing.Seen
		stale  fencing.StaleError // the zero value: accepted
	}{
		{"the first is exclusive", fencing.Seen{}, 7, false, fencing.Seen{Exclusive: 7}, fencing.StaleError{}},
		{"the first is shared", fencing.Seen{}, 7, true, fencing.Seen{Shared: 7}, fencing.StaleError{}},
		{"a sharer after an exclusive", fencing.Seen{Exclusive: 7}, 8, true, fencing.Seen{Exclusive: 7, Shared: 8}, fencing.StaleError{}},
		{"another sharer of that generation", fencing.Seen{Exclusive: 7, Shared: 8}, 8, true, fencing.Seen{Exclusive: 7, Shared: 8}, fencing.StaleError{}},
		{"a sharer whose number was raised", fencing.Seen{Exclusive: 5, Shared: 8}, 9, true, fencing.Seen{Exclusive: 5, Shared: 9}, fencing.StaleError{}},
		{"a sharer from before the raise", fencing.Seen{Exclusive: 5, Shared: 9}, 8, true, fencing.Seen{Exclusive: 5, Shared: 9}, fencing.StaleError{}},
		{"an exclusive after the sharers", fencing.Seen{Exclusive: 5, Shared: 9}, 10, false, fencing.Seen{Exclusive: 10}, fencing.StaleError{}},
		{"a stale sharer after an exclusive", fencing.Seen{Exclusive: 10}, 9, true, fencing.Seen{Exclusive: 10}, fencing.StaleError{Token: 9, Shared: true, Highest: 10}},
		{"a staler sharer than the standing ones", fencing.Seen{Exclusive: 5, Shared: 9}, 4, true, fencing.Seen{Exclusive: 5, Shared: 9}, fencing.StaleError{Token: 4, Shared: true, Highest: 5}},
		{"a stale exclusive after a sharer", fencing.Seen{Exclusive: 5, Shared: 9}, 8, false, fencing.Seen{Exclusive: 5, Shared: 9}, fencing.StaleError{Token: 8, Highest: 9, HighestShared: true}},
		{"the exclusive before the sharers, again", fencing.Seen{Exclusive: 5, Shared: 9}, 5, false, fencing.Seen{Exclusive: 5, Shared: 9}, fencing.StaleError{Token: 5, Highest: 9, HighestShared: true}},
		{"an exclusive with the sharers' number", fencing.Seen{Exclusive: 5, Shared: 9}, 9, false, fencing.Seen{Exclusive: 5, Shared: 9}, fencing.StaleError{Token: 9, Highest: 9, HighestShared: true}},
		{"a sharer with the exclusive's number", fencing.Seen{Exclusive: 9}, 9, true, fencing.Seen{Exclusive: 9}, fencing.StaleError{Token: 9, Shared: true, Highest: 9}},
		{"a number that decides nothing any more", fencing.Seen{Exclusive: 9, Shared: 8}, 8, false, fencing.Seen{Exclusive: 9, Shared: 8}, fencing.StaleError{Token: 8, Highest: 9}},
	} {
		got, err := tt.seen.Accept("r", tt.token, tt.shared)
		if got != tt.want {
			t.Errorf("%s: got %+v; want %+v", tt.name, got, tt.want)
		}
		if tt.stale == (fencing.StaleError{}) {
			if err != nil {
				t.Errorf("%s: got %v; want it accepted", tt.name, err)
			}
			continue
		}
		var stale *fencing.StaleError
		tt.stale.Resource = "r"
		if !errors.As(err, &stale) || *stale != tt.stale {
			t.Errorf("%s: got %+v; want %+v", tt.name, err, tt.stale)
		}
	}
}

func TestSeenRefusesBadInputOfBothKinds(t *testing.T) {
	before := fencing.Seen{Exclusive: 5, Shared: 9}
	for _, shared := range []bool{false, true} {
		for _, tt := range []struct {
			resource string
			token    redlock.Token
			want     error
		}{
			{"", 10, fencing.ErrInvalidResource},
			{"r", 0, fencing.ErrZeroToken},
			{"r", redlock.MaxToken + 1, fencing.ErrTokenRange},
		} {
			if got, err := before.Accept(tt.resource, tt.token, shared); !errors.Is(err, tt.want) || got != before {
				t.Errorf("%q %d, shared %t: got %+v, %v; want %+v, %v", tt.resource, tt.token, shared, got, err, before, tt.want)
			}
		}
	}
}

// oneNumber is the rule of a guard without shared tokens.
func oneNumber(token, highest redlock.Token) bool { return token >= highest }

// A guard that only ever sees exclusive tokens must not notice that there are
// two numbers.
func TestAmongExclusiveTokensTheRuleIsThatOfOneNumber(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2_000 {
		var highest redlock.Token
		var seen fencing.Seen
		var guard fencing.Memory
		for range 30 {
			token := redlock.Token(rng.Uint64N(12) + 1)
			want := oneNumber(token, highest)
			next, bySeen := seen.Accept("r", token, false)
			byMemory := guard.Write(t.Context(), "r", token, func(context.Context) error { return nil })
			for what, err := range map[string]error{"Seen": bySeen, "Memory": byMemory} {
				if (err == nil) != want {
					t.Fatalf("%s: %d after %d: got %v; want accepted: %t", what, token, highest, err, want)
				}
				if !want {
					wantStale(t, err, "r", token, highest)
				}
			}
			if seen = next; want {
				highest = token
			}
			if seen != (fencing.Seen{Exclusive: highest}) || guard.Highest("r") != highest {
				t.Fatalf("got %+v, %d; want %d alone", seen, guard.Highest("r"), highest)
			}
		}
	}
}

func TestAStaleErrorSaysWhichTokensAreShared(t *testing.T) {
	for _, tt := range []struct {
		seen   fencing.Seen
		token  redlock.Token
		shared bool
		want   string
	}{
		{fencing.Seen{Exclusive: 42}, 41, false, `fencing: write "r": stale token: got 41, the highest seen is 42`},
		{fencing.Seen{Shared: 42}, 41, false, `fencing: write "r": stale token: got 41, the highest shared seen is 42`},
		{fencing.Seen{Exclusive: 42}, 41, true, `fencing: write "r": stale token: got shared 41, the highest seen is 42`},
		{fencing.Seen{Shared: 42}, 42, false, `fencing: write "r": stale token: got 42, the highest shared seen is 42, one number of two kinds: was the guard handed the lock's context? See NewSharedContext`},
	} {
		if _, err := tt.seen.Accept("r", tt.token, tt.shared); err == nil || err.Error() != tt.want {
			t.Errorf("got %q; want %q", err, tt.want)
		}
	}
}

func TestAStaleErrorNamesTheResourceAndBothTokens(t *testing.T) {
	err := fmt.Errorf("saving: %w", accept("invoice:7", 41, 42))
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
