package redlock_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// hidden is a client whose type says nothing, so that nobody can bound it.
type hidden struct{ redis.UniversalClient }

// patientClients read for half a minute, no matter what the context says.
func patientClients(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, nodes.Len())
	for i, n := range nodes.Nodes() {
		o := n.Options()
		o.ReadTimeout, o.ContextTimeoutEnabled = 30*time.Second, false
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients
}

// wrappedClients are patient, and can't be given another timeout.
func wrappedClients(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	clients := patientClients(t, nodes)
	for i, c := range clients {
		clients[i] = hidden{c}
	}
	return clients
}

func boundedClients(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	return nodes.NewClients()
}

// Inspect returns when its context ends, or a node timeout has passed, no matter what
// the clients do, and says which of the two it was.
func TestInspectIsBoundedByItsContextAndTheNodeTimeout(t *testing.T) {
	const soon = redlock.DefaultNodeTimeout / 5
	for name, tt := range map[string]struct {
		context func(context.Context) (context.Context, context.CancelFunc)
		after   time.Duration
		want    error // nil: no context's error
	}{
		"no bound": {context.WithCancel, redlock.DefaultNodeTimeout, nil},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, soon)
		}, soon, context.DeadlineExceeded},
		"cancel": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(soon, cancel)
			return ctx, cancel
		}, soon, context.Canceled},
	} {
		for kind, clients := range map[string]func(*testing.T, *redlocktest.Cluster) []redis.UniversalClient{
			"patient": patientClients, "wrapped": wrappedClients, "bounded by their context": boundedClients,
		} {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				l := lockerWith(t, clients(t, nodes), redlock.WithNodeNames(nodes.Names()...))
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				for i := range 2 {
					nodes.Node(i).Hang()
				}
				ctx, cancel := tt.context(t.Context())
				defer cancel()
				began := time.Now()
				in, err := l.Inspect(ctx, "orders/42")
				if took := time.Since(began); took != tt.after {
					t.Errorf("%s, clients %s: took %v; want %v", name, kind, took, tt.after)
				}
				wantError(t, name, err, redlock.ErrNoQuorum)
				ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
				if ended != (tt.want != nil) || ended && !errors.Is(err, tt.want) {
					t.Errorf("%s, clients %s: got %v; want %v in it", name, kind, err, tt.want)
				}
				if blamed := strings.Contains(err.Error(), "node timeout"); blamed != (tt.want == nil) {
					t.Errorf("%s, clients %s: got %v; want the node blamed for its own silence only", name, kind, err)
				}
				if in.Nodes[0].Err == nil || in.Nodes[0].Name != "node-0" || in.Nodes[2].Err != nil {
					t.Errorf("%s: got %+v; want two nodes that said nothing, and the third", name, in.Nodes)
				}
				for i := range 2 {
					nodes.Node(i).Resume()
				}
			})
		}
	}
}

// Who stands in line is shown in its order, without those that are dead.
func TestInspectTellsWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithPrefix("locks:"))
		lock := mustAcquire(t, l, "orders/42")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var left sync.WaitGroup
		for range 2 { // two processes, of which each has two goroutines that wait
			other := lockerOver(t, nodes, redlock.WithPrefix("locks:"))
			for range 2 {
				left.Go(func() {
					if _, err := other.Acquire(ctx, "orders/42"); !errors.Is(err, context.Canceled) {
						t.Errorf("a waiter: got %v; want its cancellation", err)
					}
				})
			}
			time.Sleep(time.Second)
		}
		if _, err := nodes.Node(1).Miniredis().ZAdd("redlock:queue:locks:orders/42", 1, "ghost"); err != nil {
			t.Fatal(err)
		}
		in, err := l.Inspect(t.Context(), "orders/42")
		must(t, err)
		lines, standing := map[string]bool{}, map[string]int{}
		for i, n := range in.Nodes {
			if slices.Contains(n.Waiting, "ghost") || len(n.Waiting) > 2 {
				t.Errorf("node %d: got %q in line; want the two that wait, or one", i, n.Waiting)
			}
			for _, process := range n.Waiting {
				standing[process]++
			}
			if len(n.Waiting) == 2 {
				lines[strings.Join(n.Waiting, " ")] = true
			}
		}
		if _, held := in.Holder(); !held || lock.Err() != nil {
			t.Errorf("got %+v; want the holder as well", in)
		}
		if len(lines) != 1 || len(standing) != 2 || slices.Min(slices.Collect(maps.Values(standing))) < 2 {
			t.Errorf("got %+v; want each on a quorum, and one order", in.Nodes)
		}
		cancel()
		left.Wait()
		synctest.Wait()
		in, err = l.Inspect(t.Context(), "orders/42")
		must(t, err)
		for i, n := range in.Nodes {
			if len(n.Waiting) != 0 {
				t.Errorf("node %d: got %q in line; want nobody", i, n.Waiting)
			}
		}
	})
}
