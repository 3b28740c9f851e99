package redlock_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
)

type requestKey struct{}

// The connections on which a Locker is called outlive the one who waited first: they
// must not keep the values of his context, nor show them to a client's hooks.
func TestASubscriptionKeepsNothingOfTheFirstWaitersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := newLocker(t, 1)
		var saw atomic.Int32
		o := nodes.Node(0).Options()
		dial := o.Dialer
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if ctx.Value(requestKey{}) != nil {
				saw.Add(1)
			}
			return dial(ctx, network, addr)
		}
		client := redis.NewClient(o)
		defer func() { must(t, client.Close()) }()
		l := lockerWith(t, []redis.UniversalClient{client}, redlock.WithNodeNames(nodes.Names()...))
		lock := mustAcquire(t, holder, "orders/42")
		done := make(chan gained, 1)
		go func() {
			next, err := l.Acquire(context.WithValue(t.Context(), requestKey{}, "a request"), "orders/42")
			done <- gained{lock: next, err: err}
		}()
		synctest.Wait()
		mustRelease(t, lock)
		mustRelease(t, got(t, done).lock)
		if n := saw.Load(); n > 0 {
			t.Errorf("%d connections were made with the values of one acquisition's context", n)
		}
		must(t, l.Close())
	})
}

// Who gives up keeps the process's place for the goroutine behind it. Where that one
// quits at the same moment, nobody is left to come when the place is called.
func TestAPlaceThatIsKeptForNobodyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := other.Acquire(ctx, "orders/42")
				results <- err
			}()
		}
		time.Sleep(time.Second)
		free := redlock.KeepNames(other)
		cancel()
		synctest.Wait() // the first has seen that there is another, who goes as well
		free()
		for range 2 {
			wantError(t, "Acquire", <-results, context.Canceled)
		}
		time.Sleep(time.Second)
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("nobody waits, and the process stands in line: %v", keys)
		}
		mustRelease(t, lock)
	})
}
