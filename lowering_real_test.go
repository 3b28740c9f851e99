package redlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// A client raised MaxTTL and lives. It comes down all the same, under traffic, and
// that client raises it again before a node votes for it.
func TestMaxTTLComesDownOnRealServers(t *testing.T) {
	t.Parallel()
	const raised = 6 * time.Second
	servers := testserver.Need(t, 3, redisserver.Config{})
	l := openWithout(t, servers, nil, short()...)
	admitted(t, l)
	more := openWithout(t, servers, nil, redlock.WithTTL(1500*time.Millisecond), redlock.WithMaxTTL(raised))
	warm(t, more)
	pollUntil(t, 20*time.Second, "MaxTTL is raised", func() bool { return recordedMaxTTL(t, servers[0]) == "6000" })
	held := mustAcquire(t, l, "orders/1")
	busy(t, l)
	operator := openWithout(t, servers, nil, short()...)
	began := time.Now()
	must(t, operator.Cluster().LowerMaxTTL(t.Context(), shortMax))
	if took := time.Since(began); took < raised {
		t.Errorf("it took %v; want the old MaxTTL, %v", took, raised)
	}
	must(t, held.Err())
	for _, s := range servers {
		if got := recordedMaxTTL(t, s); got != "2000" {
			t.Errorf("%s: got MaxTTL %s ms; want 2000", s.Addr(), got)
		}
	}
	must(t, servers[2].RestartEmpty())
	back := time.Now()
	pollUntil(t, 30*time.Second, "all three vote", func() bool { return votes(t, l) == 3 })
	took := time.Since(back)
	t.Logf("it voted again %v after its restart", took)
	if took < shortMax-100*time.Millisecond || took > raised {
		t.Errorf("it voted again after %v; want %v, the new MaxTTL, and not %v", took, shortMax, raised)
	}
	lock := mustAcquire(t, more, "orders/2", redlock.WithTTL(4*time.Second))
	on := 0
	for _, s := range servers {
		if keyOn(t, s, "orders/2") == "" {
			continue
		}
		on++
		if got := recordedMaxTTL(t, s); got != "6000" {
			t.Errorf("%s holds a lease of 4 s, and its MaxTTL is %s ms", s.Addr(), got)
		}
	}
	if on < 2 {
		t.Errorf("the lock is on %d servers", on)
	}
	mustRelease(t, lock)
	mustRelease(t, held)
}

// recordedMaxTTL is what the server's record says, in ms.
func recordedMaxTTL(t *testing.T, s *redisserver.Server) string {
	t.Helper()
	c := redis.NewClient(s.Options())
	defer func() { _ = c.Close() }()
	got, err := c.HGet(t.Context(), lua.NodeKey, "maxttl").Result()
	must(t, err)
	return got
}
