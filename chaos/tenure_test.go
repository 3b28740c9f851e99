package chaos_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// announced is a lock of some library that its test ends.
type announced struct {
	lost chan struct{}

	mu    sync.Mutex // guards the next
	until time.Time
}

// prolong is a renewal.
func (h *announced) prolong(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = h.until.Add(d)
}

func (h *announced) Remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(time.Until(h.until), 0)
}

func (h *announced) Token() redlock.Token                      { return 0 }
func (h *announced) Lost() <-chan struct{}                     { return h.lost }
func (*announced) Extend(context.Context, time.Duration) error { return nil }
func (*announced) Release(context.Context) error               { return nil }
func (*announced) Close() error                                { return nil }
func (h *announced) Acquire(context.Context, string, time.Duration) (chaos.Hold, error) {
	return h, nil
}

// The end of a belief, and a renewal, are in the trace when they happen, though
// the actor does not look.
func TestWhatALibrarySaysIsRecordedWhenItSaysIt(t *testing.T) {
	type line struct {
		kind      trace.Kind
		at, until time.Duration
	}
	for _, c := range []struct {
		name string
		with func(h *announced, tenure *chaos.Tenure)
		want []line
	}{
		{"lost before the validity ends", func(h *announced, _ *chaos.Tenure) {
			time.Sleep(2 * time.Second)
			close(h.lost)
			time.Sleep(10 * time.Second)
		}, []line{{kind: trace.Lost, at: 2 * time.Second}, {kind: trace.Told, at: 2 * time.Second}}},
		{"lapsed, and nobody says so", func(*announced, *chaos.Tenure) {
			time.Sleep(10 * time.Second)
		}, []line{{kind: trace.Lost, at: 5500 * time.Millisecond}}},
		{"lapsed, and its channel closes with the validity", func(h *announced, _ *chaos.Tenure) {
			time.Sleep(5 * time.Second)
			close(h.lost)
			time.Sleep(10 * time.Second)
		}, []line{{kind: trace.Lost, at: 5 * time.Second}, {kind: trace.Told, at: 5 * time.Second}}},
		{"lapsed, and its channel closes much later", func(h *announced, _ *chaos.Tenure) {
			time.Sleep(12 * time.Second)
			close(h.lost)
			time.Sleep(time.Second)
		}, []line{{kind: trace.Lost, at: 5500 * time.Millisecond}, {kind: trace.Told, at: 12 * time.Second}}},
		{"renewed by the library", func(h *announced, _ *chaos.Tenure) {
			time.Sleep(2 * time.Second)
			h.prolong(4 * time.Second)
			time.Sleep(10 * time.Second)
		}, []line{{trace.Extended, 4999 * time.Millisecond, 9 * time.Second}, {kind: trace.Lost, at: 9500 * time.Millisecond}}},
		{"released, and then its channel closes", func(h *announced, tenure *chaos.Tenure) {
			time.Sleep(time.Second)
			_ = tenure.Release(context.Background())
			close(h.lost)
			time.Sleep(10 * time.Second)
		}, []line{{kind: trace.Released, at: time.Second}}},
		{"the actor leaves while it holds", func(*announced, *chaos.Tenure) {}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stage, err := chaos.NewVirtual(1, 1)
				testkit.Must(t, err)
				defer stage.Close()
				h := &announced{lost: make(chan struct{}), until: time.Now().Add(5 * time.Second)}
				kit := chaos.Kit{Name: "announced", Open: func([]redis.UniversalClient, []string) (chaos.Contender, error) { return h, nil }}
				history := chaos.NewHistory()
				ann, err := chaos.NewActor("ann", kit, stage, history, nil)
				testkit.Must(t, err)
				tenure, err := ann.Ask(t.Context(), chaos.Only("report"), 5*time.Second)
				testkit.Must(t, err)
				c.with(h, tenure)
				testkit.Must(t, ann.Close())
				testkit.Must(t, ann.Close())
				got := history.Records()[2:] // it asked, and it holds
				if len(got) != len(c.want) {
					t.Fatalf("got %+v; want %+v", got, c.want)
				}
				for i, r := range got {
					if (line{r.Kind, r.At, r.Until}) != c.want[i] {
						t.Errorf("got %+v; want %+v", r, c.want[i])
					}
				}
			})
		})
	}
}
