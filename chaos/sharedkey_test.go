package chaos_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// The keys of those who share are looked at on every backend: who was released, and when
// the key ends. Nothing is found where all is as the scripts leave it.
func TestASharedKeyIsLookedAtOnEveryBackend(t *testing.T) {
	testkit.Unraced(t)
	for _, b := range chaos.Backends() {
		t.Run(string(b), func(t *testing.T) {
			if b == chaos.Virtual {
				synctest.Test(t, func(t *testing.T) { lookAtASharedKey(t, b) })
				return
			}
			lookAtASharedKey(t, b)
		})
	}
}

func lookAtASharedKey(t *testing.T, b chaos.Backend) {
	t.Helper()
	const lease = 5 * time.Second
	within, cancel := context.WithTimeout(t.Context(), lease)
	defer cancel()
	stage, err := chaos.OpenStage(t.Context(), b, 1, 3)
	needThere(t, err)
	defer stage.Close()
	history := chaos.NewHistory()
	stop := chaos.Observe(stage, history, lease)
	var holds []*redlock.Lock
	var nodes []redis.UniversalClient
	for _, name := range []string{"ann", "bob"} {
		nodes = connect(t, stage, name)
		locker, err := redlock.New(nodes, redlock.WithoutMembership(), redlock.WithTTL(lease), redlock.WithFixedLease())
		testkit.Must(t, err)
		defer locker.Close()
		lock, err := locker.Acquire(within, "report", redlock.WithShared())
		testkit.Must(t, err)
		holds = append(holds, lock)
		time.Sleep(10 * time.Millisecond) // the leases do not end at one time
	}
	// A majority is enough to be through: the others follow.
	members := func(want int) (first []redis.Z) {
		for _, n := range slices.Backward(nodes) {
			testkit.Eventually(t, "the members", func() bool {
				first = n.ZRangeWithScores(t.Context(), "report", 0, -1).Val()
				return len(first) == want
			})
		}
		return first
	}
	both := members(3) // and the mark
	testkit.Must(t, holds[1].Release(t.Context()))
	one := members(2)
	released := slices.DeleteFunc(both, func(z redis.Z) bool { return slices.Contains(one, z) })
	if len(released) != 1 {
		t.Fatalf("got %v released; want one", released)
	}
	time.Sleep(300 * time.Millisecond) // a look
	if got := history.Records(); len(got) > 0 {
		t.Errorf("got %+v; want nothing while all is as it should be", got)
	}
	testkit.Must(t, nodes[0].ZAdd(t.Context(), "report", released[0]).Err())
	testkit.Must(t, nodes[1].PExpire(t.Context(), "report", lease).Err())
	broken := func() []chaos.Rule { return trace.Judge{}.Judge(history.Records()).Broken() }
	for deadline := time.Now().Add(lease / 2); len(broken()) < 2 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := broken(); !slices.Equal(got, []chaos.Rule{chaos.KeyEnd, chaos.Litter}) {
		t.Errorf("got %q; want a key that ends too late, and one who was released: %+v", got, history.Records())
	}
	before := len(history.Records())
	stop(true)
	shown := 0
	for _, r := range history.Records()[before:] {
		if r.Kind == trace.Shown && r.Node == stage.Names()[2] && r.Shared && r.Until == r.Ends && r.Until > r.At {
			shown++
		}
	}
	if shown != 1 {
		t.Errorf("got %d of node 2; want the one who shares it still: %+v", shown, history.Records()[before:])
	}
}
