package main

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/pausedholder"
)

func Example() {
	main()
	// Output:
	// without the guard: <nil>; the object holds: the paused holder, too late
	// with the guard: refused: true; the object holds: the next holder
}

func newStore(t *testing.T, wrap func(http.Handler) http.Handler) (*Store, *Guard, string) {
	t.Helper()
	store := new(Store)
	srv := httptest.NewServer(wrap(store))
	t.Cleanup(srv.Close)
	return store, &Guard{client: srv.Client()}, srv.URL + "/o"
}

func plain(h http.Handler) http.Handler { return h }

func TestTheStoreRefusesThePausedHolder(t *testing.T) {
	store, guard, url := newStore(t, plain)
	r := pausedholder.Run(func(token redlock.Token, value string) error {
		return guard.Put(t.Context(), url, token, value)
	})
	var stale *fencing.StaleError
	if r.Early != nil || r.Next != nil || !errors.As(r.Late, &stale) {
		t.Fatalf("got %+v; want the last one refused", r)
	}
	if stale.Token != pausedholder.PausedToken || stale.Highest != pausedholder.NextToken {
		t.Errorf("got %+v; want both tokens", stale)
	}
	if got := store.body("/o"); got != pausedholder.NextValue {
		t.Errorf("got %q; want %q", got, pausedholder.NextValue)
	}
}

// The pause falls between the comparison and the write, where only the store can
// refuse. The next holder's write is made in there.
func TestAWriterBetweenTheComparisonAndTheWriteIsSeen(t *testing.T) {
	for _, existing := range []bool{false, true} {
		ctx := t.Context()
		var once sync.Once
		next := make(chan error, 1)
		var store *Store
		var guard *Guard
		var url string
		store, guard, url = newStore(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut && r.Header.Get(tokenHeader) == "41" {
					once.Do(func() { next <- guard.Put(ctx, url, 42, "next") })
				}
				h.ServeHTTP(w, r)
			})
		})
		if existing {
			testkit.Must(t, guard.Put(t.Context(), url, 40, "first"))
		}
		if err := guard.Put(t.Context(), url, 41, "stale"); !errors.Is(err, fencing.ErrStale) {
			t.Errorf("existing %t: got %v; want ErrStale", existing, err)
		}
		if err := <-next; err != nil {
			t.Errorf("existing %t: next: %v", existing, err)
		}
		if got := store.body("/o"); got != "next" {
			t.Errorf("existing %t: got %q; want next", existing, got)
		}
	}
}

func TestManyWritersLeaveANonDecreasingHistory(t *testing.T) {
	var mu sync.Mutex // guards history
	var history []string
	_, guard, url := newStore(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if r.Method == http.MethodPut && rec.Code == http.StatusOK {
				history = append(history, r.Header.Get(tokenHeader))
			}
			for name, values := range rec.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(rec.Code)
		})
	})
	var wg sync.WaitGroup
	var issued atomic.Uint64
	for i := range 4 {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		wg.Go(func() {
			for range 25 {
				token := redlock.Token(100 + issued.Add(1) + rng.Uint64N(10)) // three digits: text sorts as numbers
				if err := guard.Put(t.Context(), url, token, token.String()); err != nil && !errors.Is(err, fencing.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if !slices.IsSorted(history) || len(history) == 0 {
		t.Errorf("the history goes backwards: %s", history)
	}
}

func TestBadInputIsRefusedAndNothingIsWritten(t *testing.T) {
	store, guard, url := newStore(t, plain)
	if _, err := guard.send(t.Context(), http.MethodPut, url, "before", nil); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[redlock.Token]error{0: fencing.ErrZeroToken, redlock.MaxToken + 1: fencing.ErrTokenRange} {
		if err := guard.Put(t.Context(), url, token, "bad"); !errors.Is(err, want) {
			t.Errorf("%d: got %v; want %v", token, err, want)
		}
	}
	if got := store.body("/o"); got != "before" {
		t.Errorf("got %q; want before", got)
	}
	if err := guard.Put(t.Context(), url, 1, "first"); err != nil { // existing data, never guarded
		t.Errorf("first: %v", err)
	}
	if _, err := guard.send(t.Context(), http.MethodPut, url, "before", http.Header{tokenHeader: {"word"}}); err != nil {
		t.Fatal(err)
	}
	if err := guard.Put(t.Context(), url, 2, "bad"); !errors.Is(err, fencing.ErrCorrupt) {
		t.Errorf("got %v; want ErrCorrupt", err)
	}
	if got := store.body("/o"); got != "before" {
		t.Errorf("got %q; want before", got)
	}
}
