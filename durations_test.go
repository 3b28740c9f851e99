package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

const longest = time.Duration(math.MaxInt64)

// The longest duration that there is means "without a bound", or is refused with
// the option's name. It never turns into a moment in the past.
func TestTheLongestDurationIsAsGoodAsNoBound(t *testing.T) {
	testkit.Unraced(t)
	for name, opt := range map[string]redlock.Option{
		"WithMaxHold":      redlock.WithMaxHold(longest),
		"WithWait":         redlock.WithWait(longest),
		"WithCloseTimeout": redlock.WithCloseTimeout(longest),
		"WithRetry":        redlock.WithRetry(time.Millisecond, longest),
		"WithRetry, both":  redlock.WithRetry(longest, longest),
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3, opt)
			time.Sleep(time.Second) // the clock begins with the Locker
			lock := mustAcquire(t, l, "orders/42")
			time.Sleep(time.Minute)
			if err := lock.Err(); err != nil {
				t.Errorf("%s: a minute later: %v; want the lock held", name, err)
			}
			other := lockerOver(t, nodes, opt)
			before := nodes.Node(0).Calls("EVALSHA")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := other.Acquire(ctx, "orders/42", redlock.WithBarging())
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: Acquire of a held lock: %v; want the context's end", name, err)
			}
			if calls := nodes.Node(0).Calls("EVALSHA") - before; calls > 100 {
				t.Errorf("%s: %d calls in a second; want pauses between them", name, calls)
			}
			for _, n := range nodes.Nodes() {
				n.Intercept(func(args []string) redlocktest.Verdict {
					if scriptOf(args) == "release" {
						time.Sleep(50 * time.Millisecond)
					}
					return redlocktest.Pass()
				})
			}
			if err := l.Close(); err != nil {
				t.Errorf("%s: Close: %v; want the release confirmed", name, err)
			}
		})
	}
	for name, opt := range map[string]redlock.Option{
		"WithTTL": redlock.WithTTL(longest), "WithMaxTTL": redlock.WithMaxTTL(longest), "WithNodeTimeout": redlock.WithNodeTimeout(longest),
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			_, err := redlock.New(nodes.Clients(), opt)
			if !errors.Is(err, redlock.ErrInvalidOption) && !errors.Is(err, redlock.ErrInvalidTTL) {
				t.Errorf("%s: got %v; want it refused", name, err)
			}
			wantError(t, fmt.Sprintf("Extend by %v", longest), mustAcquire(t, l, "orders/42").Extend(t.Context(), longest), redlock.ErrInvalidTTL)
		})
	}
}
