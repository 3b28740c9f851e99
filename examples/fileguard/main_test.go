//go:build unix

package main

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	// without the guard: <nil>; the file holds: the paused holder, too late
	// with the guard: refused: true; the file holds: the next holder, under token 42
}

func TestTheFileRefusesThePausedHolder(t *testing.T) {
	guard := &Guard{dir: t.TempDir()}
	r := pausedholder.Run(func(token redlock.Token, value string) error {
		return guard.Write(t.Context(), token, []byte(value))
	})
	var stale *fencing.StaleError
	if r.Early != nil || r.Next != nil || !errors.As(r.Late, &stale) {
		t.Fatalf("got %+v; want the last one refused", r)
	}
	if stale.Token != pausedholder.PausedToken || stale.Highest != pausedholder.NextToken {
		t.Errorf("got %+v; want both tokens", stale)
	}
	if got, token, err := guard.Read(); string(got) != pausedholder.NextValue || token != pausedholder.NextToken || err != nil {
		t.Errorf("got %q, %d, %v; want the next holder's", got, token, err)
	}
}

// Where flock does not reach, the stale writer is not refused: but what it makes
// is an older version, which nobody reads.
func TestTheNameAloneKeepsAStaleWriteFromBeingRead(t *testing.T) {
	guard := &Guard{dir: t.TempDir()}
	testkit.Must(t, guard.Write(t.Context(), 42, []byte("next")))
	if err := guard.place(fencing.Seen{Exclusive: 41}, []byte("stale")); err != nil { // it compared before 42 came
		t.Fatal(err)
	}
	if got, token, err := guard.Read(); string(got) != "next" || token != 42 || err != nil {
		t.Errorf("got %q, %d, %v; want next, 42", got, token, err)
	}
	testkit.Must(t, guard.Write(t.Context(), 43, []byte("third")))
	if got, err := guard.versions(); !slices.Equal(got, []fencing.Seen{{Exclusive: 43}}) || err != nil {
		t.Errorf("got %d, %v; want the older ones removed: [43]", got, err)
	}
}

func TestManyWritersEndWithTheLargestTokenAndReadersNeverGoBack(t *testing.T) {
	guard := &Guard{dir: t.TempDir()}
	testkit.Must(t, guard.Write(t.Context(), 1, []byte("1")))
	var writers, reader sync.WaitGroup
	var issued, most atomic.Uint64
	stop := make(chan struct{})
	reader.Go(func() {
		var last redlock.Token
		for {
			got, token, err := guard.Read()
			if err != nil || string(got) != token.String() || token < last {
				t.Errorf("read %q, %d, %v after %d", got, token, err, last)
				return
			}
			last = token
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i := range 4 {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		writers.Go(func() {
			for range 15 {
				token := issued.Add(1) + rng.Uint64N(10)
				for m := most.Load(); token > m && !most.CompareAndSwap(m, token); m = most.Load() {
				}
				err := guard.Write(t.Context(), redlock.Token(token), []byte(redlock.Token(token).String()))
				if err != nil && !errors.Is(err, fencing.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	reader.Wait()
	if _, got, err := guard.Read(); uint64(got) != most.Load() || err != nil {
		t.Errorf("got %d, %v; want %d", got, err, most.Load())
	}
	entries, err := os.ReadDir(guard.dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("got %v, %v; want the lock and one version", entries, err)
	}
}

func TestAWriterThatIsStoppedInsideIsNotWaitedForBeyondTheContext(t *testing.T) {
	guard := &Guard{dir: t.TempDir()}
	unlock, err := guard.lock(t.Context())
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- guard.Write(ctx, 1, []byte("x")) }()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want the context's error", err)
	}
	testkit.Must(t, unlock())
	if _, _, err := guard.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v; want nothing written", err)
	}
	if err := guard.Write(t.Context(), 1, []byte("x")); err != nil {
		t.Errorf("after the unlock: %v", err)
	}
}

func TestBadInputIsRefusedAndNothingIsWritten(t *testing.T) {
	guard := &Guard{dir: t.TempDir()}
	for token, want := range map[redlock.Token]error{0: fencing.ErrZeroToken, redlock.MaxToken + 1: fencing.ErrTokenRange} {
		if err := guard.Write(t.Context(), token, nil); !errors.Is(err, want) {
			t.Errorf("%d: got %v; want %v", token, err, want)
		}
	}
	if entries, err := os.ReadDir(guard.dir); err != nil || len(entries) > 0 {
		t.Errorf("got %v, %v; want an empty directory", entries, err)
	}
	if err := (&Guard{dir: filepath.Join(guard.dir, "missing")}).Write(t.Context(), 1, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v; want fs.ErrNotExist", err)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(guard.dir, "vword"), nil, 0o600))
	if err := guard.Write(t.Context(), 1, nil); !errors.Is(err, fencing.ErrCorrupt) {
		t.Errorf("got %v; want ErrCorrupt", err)
	}
}
