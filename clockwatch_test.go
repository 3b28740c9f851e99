package redlock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/redlocktest"
)

// sampled has the Locker, in a bubble, look at the clock of each of its nodes.
func sampled(t *testing.T, l *redlock.Locker) {
	t.Helper()
	for range 3 { // a straggler need not be sampled the first time
		time.Sleep(time.Second)
		warm(t, l)
		synctest.Wait()
	}
}

// What a node granted to others may be as long as the longest lease in the
// cluster, not only as long as this client's.
func TestANodeWhoseClockSteppedAbstainsForTheLongestLeaseOfAnyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		more := lockerOver(t, nodes, redlock.WithMaxTTL(2*time.Minute))
		warm(t, more) // the records say two minutes now
		var seen events
		l := lockerOver(t, nodes, seen.option())
		sampled(t, l)
		time.Sleep(time.Second)
		nodes.Node(0).Miniredis().SetTime(time.Now().Add(20 * time.Second))
		warm(t, l)
		synctest.Wait()
		steps := seen.of(redlock.NodeClockStepped)
		if len(steps) == 0 || steps[0].Node != 0 {
			t.Fatalf("got %v; want the step of node 0", steps)
		}
		wantText(t, "the step", steps[0].Err.Error(), "MaxTTL (2m0s)")
	})
}

// A clock that can't be watched is not trusted, and the error says what would do.
func TestAUserWithoutTIMEIsToldOfWithoutClockWatch(t *testing.T) {
	servers := needMasters(t, 3, chaos.ServerConfig{Users: []string{"weak on >secret ~* +@all -time"}})
	over := func(opts ...redlock.Option) *redlock.Locker {
		clients := make([]redis.UniversalClient, len(servers))
		for i, s := range servers {
			c := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "weak", Password: "secret"})
			t.Cleanup(func() { _ = c.Close() })
			clients[i] = c
		}
		return lockerWith(t, clients, append(opts, redlock.WithNodeTimeout(time.Second))...)
	}
	l := over()
	_, err := l.TryAcquire(t.Context(), "orders/42")
	wantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
	wantText(t, "TryAcquire", fmt.Sprint(err), "WithoutClockWatch", "abstain")
	pollUntil(t, 5*time.Second, "what was granted before that was known is gone", func() bool {
		return keyOn(t, servers[0], "orders/42")+keyOn(t, servers[1], "orders/42")+keyOn(t, servers[2], "orders/42") == ""
	})
	mustRelease(t, mustAcquire(t, over(redlock.WithoutClockWatch()), "orders/42"))
}

// One node's damage, or one name's past, must not carry all names to the end of
// the range.
func TestADamagedCounterOfOneNameDoesNotDragTheOthersAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		sampled(t, l)
		nodes.Node(2).Stop() // so that the damaged counter is in every quorum
		nodes.Node(0).Miniredis().HSet(redlock.NodeKey, fmt.Sprint(redlock.StripeOf("orders/42")), fmt.Sprint(uint64(redlock.MaxToken)-10))
		far := mustAcquire(t, l, "orders/42")
		if far.Token() < redlock.MaxToken-10 {
			t.Fatalf("got token %v; want one above the damaged counter", far.Token())
		}
		for i := range 20 {
			near := mustAcquire(t, l, fmt.Sprintf("others/%d", i))
			if most := time.Now().Add(2 * time.Minute).UnixMicro(); near.Token() > redlock.Token(most) {
				t.Fatalf("another name: got token %v; want one by the clock, below %d", near.Token(), most)
			}
			mustRelease(t, near)
		}
		mustRelease(t, far)
	})
}
