package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// sharing is a context that says what that of a shared hold would say.
func sharing(t *testing.T, url string, token redlock.Token) context.Context {
	t.Helper()
	ctx, err := fencing.NewSharedContext(t.Context(), url, token)
	testkit.Must(t, err)
	return ctx
}

// The guard does what Seen.Accept does. Among exclusive tokens the metadata is the
// one number that it always was.
func TestTheStoreAgreesWithTheRule(t *testing.T) {
	for kinds, seeds := range map[int]uint64{1: 5, 2: 20} {
		for seed := range seeds {
			store, guard, url := newStore(t, plain)
			rng := rand.New(rand.NewPCG(seed, 9))
			var seen fencing.Seen
			last := ""
			for range 40 {
				token, shared := redlock.Token(rng.Uint64N(12)+1), rng.IntN(kinds) > 0
				ctx := t.Context()
				if shared {
					ctx = sharing(t, url, token)
				}
				next, want := seen.Accept(url, token, shared)
				got := guard.Put(ctx, url, token, token.String())
				if (got == nil) != (want == nil) || want != nil && got.Error() != want.Error() {
					t.Fatalf("%d, shared %t, after %+v: got %v; want %v", token, shared, seen, got, want)
				}
				if seen = next; got == nil {
					last = token.String()
				}
				if body := store.body("/o"); body != last {
					t.Fatalf("got %q; want %q", body, last)
				}
				if text := store.objects["/o"].token; text != seen.String() || kinds == 1 && text != seen.Exclusive.String() {
					t.Fatalf("got the metadata %q; want %q", text, seen)
				}
			}
		}
	}
}

// The pause falls between the comparison and the write: a sharer's other number is
// compared again, and accepted; a newer exclusive holder's refuses it.
func TestASharerBetweenTheComparisonAndTheWriteIsSeen(t *testing.T) {
	for _, tt := range []struct {
		name   string
		shared bool // the hold in between
		want   error
		body   string
	}{
		{"a newer sharer", true, nil, "late"},
		{"a newer exclusive holder", false, fencing.ErrStale, "next"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var once sync.Once
			var store *Store
			var guard *Guard
			var url string
			store, guard, url = newStore(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPut && r.Header.Get(tokenHeader) == "40 41" {
						once.Do(func() {
							ctx := t.Context()
							if tt.shared {
								ctx = sharing(t, url, 42)
							}
							if err := guard.Put(ctx, url, 42, "next"); err != nil {
								t.Errorf("next: %v", err)
							}
						})
					}
					h.ServeHTTP(w, r)
				})
			})
			testkit.Must(t, guard.Put(t.Context(), url, 40, "first"))
			if err := guard.Put(sharing(t, url, 41), url, 41, "late"); !errors.Is(err, tt.want) {
				t.Errorf("got %v; want %v", err, tt.want)
			}
			if got := store.body("/o"); got != tt.body {
				t.Errorf("got %q; want %q", got, tt.body)
			}
		})
	}
}

func TestMetadataThatNoGuardWroteIsCorrupt(t *testing.T) {
	for _, text := range []string{"0", "5 4", "5 5", "5  6", "5 6 7", "0x5", "5,6"} {
		store, guard, url := newStore(t, plain)
		if _, err := guard.send(t.Context(), http.MethodPut, url, "before", http.Header{tokenHeader: {text}}); err != nil {
			t.Fatal(err)
		}
		if err := guard.Put(sharing(t, url, 9), url, 9, "bad"); !errors.Is(err, fencing.ErrCorrupt) || store.body("/o") != "before" {
			t.Errorf("%q: got %v, and %q; want ErrCorrupt, and what was there", text, err, store.body("/o"))
		}
	}
}
