//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// sharing is a context that says what that of a shared hold would say.
func sharing(t *testing.T, guard *Guard, token redlock.Token) context.Context {
	t.Helper()
	ctx, err := fencing.NewSharedContext(t.Context(), guard.dir, token)
	testkit.Must(t, err)
	return ctx
}

// names are those of the versions.
func names(t *testing.T, guard *Guard) []string {
	t.Helper()
	entries, err := os.ReadDir(guard.dir)
	testkit.Must(t, err)
	var found []string
	for _, e := range entries {
		if e.Name() != lockName {
			found = append(found, e.Name())
		}
	}
	return found
}

// The guard does what Seen.Accept does, what was written last is what is read, and
// one version is left. Among exclusive tokens it has the name that it always had.
func TestTheFileAgreesWithTheRule(t *testing.T) {
	for kinds, seeds := range map[int]uint64{1: 5, 2: 20} {
		for seed := range seeds {
			guard := &Guard{dir: t.TempDir()}
			rng := rand.New(rand.NewPCG(seed, 9))
			var seen fencing.Seen
			last := ""
			for range 40 {
				token, shared := redlock.Token(rng.Uint64N(12)+1), rng.IntN(kinds) > 0
				ctx := t.Context()
				if shared {
					ctx = sharing(t, guard, token)
				}
				next, want := seen.Accept(guard.dir, token, shared)
				got := guard.Write(ctx, token, []byte(token.String()))
				if (got == nil) != (want == nil) || want != nil && got.Error() != want.Error() {
					t.Fatalf("%d, shared %t, after %+v: got %v; want %v", token, shared, seen, got, want)
				}
				if seen = next; got == nil {
					last = token.String()
				}
				content, highest, err := guard.Read()
				if err != nil || string(content) != last || highest != seen.Highest() {
					t.Fatalf("got %q, %d, %v; want %q, %d", content, highest, err, last, seen.Highest())
				}
				left := names(t, guard)
				if len(left) != 1 || kinds == 1 && left[0] != "v"+strings.Repeat("0", 16-len(highest.String()))+highest.String() {
					t.Fatalf("got the versions %q; want one of %+v", left, seen)
				}
			}
		}
	}
}

// A sharer that compared, was stopped, and renames after a newer exclusive holder's
// write: where flock does not reach.
func TestTheNameAloneKeepsAStaleSharersWriteFromBeingRead(t *testing.T) {
	guard := &Guard{dir: t.TempDir()}
	testkit.Must(t, guard.Write(t.Context(), 42, []byte("next")))
	testkit.Must(t, guard.place(fencing.Seen{Exclusive: 40, Shared: 41}, []byte("stale")))
	if got, token, err := guard.Read(); string(got) != "next" || token != 42 || err != nil {
		t.Errorf("got %q, %d, %v; want next, 42", got, token, err)
	}
	// And a sharer that had not seen the exclusive holder before it: both count.
	testkit.Must(t, guard.place(fencing.Seen{Exclusive: 40, Shared: 43}, []byte("sharer")))
	if got, token, err := guard.Read(); string(got) != "sharer" || token != 43 || err != nil {
		t.Errorf("got %q, %d, %v; want sharer, 43", got, token, err)
	}
	for _, token := range []redlock.Token{41, 42} {
		if err := guard.Write(sharing(t, guard, token), token, nil); !errors.Is(err, fencing.ErrStale) {
			t.Errorf("shared %d: got %v; want ErrStale", token, err)
		}
	}
	testkit.Must(t, guard.Write(sharing(t, guard, 43), 43, []byte("again")))
	if got, want := names(t, guard), []string{"v0000000000000043.0000000000000042"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestSharersThatWriteAtOnceAreAllAccepted(t *testing.T) {
	guard := &Guard{dir: t.TempDir()}
	var wg sync.WaitGroup
	for i := range 4 {
		token := redlock.Token(10 + i)
		ctx := sharing(t, guard, token)
		wg.Go(func() {
			for range 10 {
				if err := guard.Write(ctx, token, []byte(token.String())); err != nil {
					t.Errorf("%d: %v", token, err)
				}
			}
		})
	}
	wg.Wait()
	if err := guard.Write(t.Context(), 12, nil); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("got %v; want the exclusive holder before them refused", err)
	}
	if err := guard.Write(t.Context(), 14, []byte("14")); err != nil {
		t.Errorf("got %v; want the one after them accepted", err)
	}
}

func TestANameThatNoGuardGaveIsCorrupt(t *testing.T) {
	for _, name := range []string{
		"v", "v1", "v0000000000000000", "v0000000000000005.", "v0000000000000005.4", "v0000000000000005.0000000000000005",
		"v0000000000000005.0000000000000006", "v0000000000000000.0000000000000000", "v.0000000000000004",
		"v0000000000000005.0000000000000004.", "v9999999999999999", "v000000000000000x", "v0000000000000005.000000000000000x",
	} {
		guard := &Guard{dir: t.TempDir()}
		testkit.Must(t, os.WriteFile(filepath.Join(guard.dir, name), nil, 0o600))
		if err := guard.Write(t.Context(), 9, nil); !errors.Is(err, fencing.ErrCorrupt) {
			t.Errorf("%s: got %v; want ErrCorrupt", name, err)
		}
	}
}
