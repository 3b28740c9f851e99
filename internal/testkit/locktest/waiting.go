package locktest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// Gained is one goroutine's acquisition of orders/42, on its way.
type Gained struct {
	Lock *redlock.Lock
	Err  error
	At   time.Time
}

// Wants acquires orders/42 in a goroutine, and returns once it waits for the nodes.
func Wants(t *testing.T, l *redlock.Locker, opts ...redlock.AcquireOption) <-chan Gained {
	t.Helper()
	return WantsUnder(t.Context(), l, opts...)
}

// WantsUnder is Wants under a context.
func WantsUnder(ctx context.Context, l *redlock.Locker, opts ...redlock.AcquireOption) <-chan Gained {
	done := make(chan Gained, 1)
	go func() {
		lock, err := l.Acquire(ctx, "orders/42", opts...)
		done <- Gained{lock, err, time.Now()}
	}()
	synctest.Wait()
	return done
}

// Got is the lock that was waited for.
func Got(t *testing.T, from <-chan Gained) Gained {
	t.Helper()
	g := <-from
	if g.Err != nil {
		t.Fatalf("Acquire: %v", g.Err)
	}
	return g
}

// SlotKeys are the keys of slots, and of their lines, that are left on the nodes.
func SlotKeys(nodes *redlocktest.Cluster) (keys []string) {
	for _, n := range nodes.Nodes() {
		for _, key := range n.Keys() {
			if strings.HasPrefix(key, "redlock:slot:") {
				keys = append(keys, n.Name()+" "+key)
			}
		}
	}
	return append(keys, QueueKeys(nodes)...)
}

// WantWaiting checks that all still wait.
func WantWaiting(t *testing.T, when string, all ...<-chan Gained) {
	t.Helper()
	for i, from := range all {
		if len(from) != 0 {
			g := <-from
			t.Fatalf("%s: waiter %d has %v, %v; want it to wait", when, i, g.Lock, g.Err)
		}
	}
}

// Shares takes a shared hold of orders/42.
func Shares(t *testing.T, l *redlock.Locker, opts ...redlock.AcquireOption) *redlock.Lock {
	t.Helper()
	return MustAcquire(t, l, "orders/42", append(opts, redlock.WithShared())...)
}

// How long a sign of life stands (lua/ask.lua); what a call leaves of it
// (lua/release.lua), and that and a look.
const (
	Lives     = 3 * time.Second
	Shortened = 700 * time.Millisecond
	InVain    = Shortened + 300*time.Millisecond
)

// LiveKeys are the signs of life on a node.
func LiveKeys(n *redlocktest.Node) (keys []string) {
	for _, key := range n.Keys() {
		if len(key) > len("redlock:live:") && key[:len("redlock:live:")] == "redlock:live:" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Processes are the ids in a queue: behind each stands, where a release may grant to it,
// the same with an owner value.
func Processes(members []string) (ids []string) {
	return slices.DeleteFunc(slices.Clone(members), func(m string) bool { return strings.Contains(m, " ") })
}

// CloseAll closes clients, as the end of their process does.
func CloseAll(clients []redis.UniversalClient) {
	for _, c := range clients {
		_ = c.Close()
	}
}

// QueueKeys are the keys that waiting has left on the nodes, signs of life apart:
// they end by themselves.
func QueueKeys(nodes *redlocktest.Cluster) (keys []string) {
	for _, n := range nodes.Nodes() {
		for _, key := range n.Keys() {
			if strings.HasPrefix(key, "redlock:queue:") || strings.HasPrefix(key, "redlock:sharers:") {
				keys = append(keys, n.Name()+" "+key)
			}
		}
	}
	return keys
}

// Ghost puts a process in front of orders/42 that will never ask, as one does that
// crashed: its sign of life is the last.
func Ghost(t *testing.T, nodes *redlocktest.Cluster) (id string) {
	t.Helper()
	const position = 1
	for _, n := range nodes.Nodes() {
		m := n.Miniredis()
		for _, key := range []string{"redlock:live:ghost", "redlock:waiting"} {
			testkit.Must(t, m.Set(key, "1"))
			m.SetTTL(key, 3*time.Second)
		}
		_, err := m.ZAdd("redlock:queue:orders/42", position, "ghost")
		testkit.Must(t, err)
	}
	return "ghost"
}
