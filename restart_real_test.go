package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// docs/OPERATIONS.md, "Restarts and upgrades, node by node": each node in turn, and
// before the next one what `redlock nodes join --wait` waits for. Every lock that two
// processes hold survives it. Before a node that votes again was given them, the
// second restart left them one node of three.
func TestARollingRestartByTheRecipeLosesNoLock(t *testing.T) {
	t.Parallel()
	const (
		ttl    = 6 * time.Second
		maxTTL = 8 * time.Second
		held   = 20
	)
	servers := testserver.Need(t, 3, redisserver.Config{AOF: redisserver.FsyncEverysec})
	open := func() *redlock.Locker {
		return openWithout(t, servers, nil, redlock.WithTTL(ttl), redlock.WithMaxTTL(maxTTL))
	}
	processes := []*redlock.Locker{open(), open()}
	admitted(t, processes[0])
	var renewed, fixed []*redlock.Lock
	for p, l := range processes {
		for i := range held {
			renewed = append(renewed, mustAcquire(t, l, fmt.Sprintf("renewed/%d/%d", p, i)))
		}
	}
	var taken time.Time // the oldest of the fixed leases
	for turn, s := range servers {
		must(t, s.Stop())
		must(t, s.Restart())
		for _, lock := range fixed { // they rest on the node that came back before
			if err := lock.Extend(t.Context(), maxTTL); err != nil {
				if age := time.Since(taken); age > maxTTL-time.Second {
					t.Skipf("the restart took until %v after the fixed leases began: a busy machine, on which they end", age)
				}
				t.Errorf("restart %d: a fixed lease from before: %v", turn, err)
			}
		}
		fixed = nil
		operator := open()
		pollUntil(t, 4*maxTTL, "the node waits for its last second", func() bool {
			return slices.ContainsFunc(slices.Concat(processes, []*redlock.Locker{operator}), func(l *redlock.Locker) bool { // each counts for itself
				status, err := l.Cluster().Status(t.Context())
				must(t, err)
				n := status.Nodes[turn]
				return n.State == redlock.NodeJoining && n.Left < time.Second
			})
		})
		taken = time.Now()
		for p, l := range processes {
			for i := range held {
				fixed = append(fixed, mustAcquire(t, l, fmt.Sprintf("fixed/%d/%d/%d", turn, p, i), redlock.WithFixedLease(), redlock.WithTTL(maxTTL)))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		must(t, operator.Cluster().Join(ctx))
		cancel()
		must(t, operator.Close())
		for _, lock := range renewed {
			if err := lock.Err(); err != nil {
				t.Errorf("after restart %d: %v", turn, err)
			}
		}
	}
	for _, lock := range append(renewed, fixed...) {
		must(t, lock.Extend(t.Context(), maxTTL))
		mustRelease(t, lock)
	}
}
