package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// oneClock is three nodes of which the first two have what is held, and what befalls them:
// the clock of the second jumps by a minute, and the first is out of reach. So who comes then
// asks the second and the third. Without the clock watch that is a second holder.
type oneClock struct {
	first, other *redlock.Locker
	nodes        *redlocktest.Cluster
}

func newOneClock(t *testing.T, watched bool) *oneClock {
	t.Helper()
	var opts []redlock.Option
	if !watched {
		opts = append(opts, redlock.WithoutClockWatch())
	}
	nodes := redlocktest.Start(t, 3)
	c := &oneClock{separateLocker(t, nodes, opts...), separateLocker(t, nodes, opts...), nodes}
	sampled(t, c.first)
	sampled(t, c.other)
	c.loses(2)
	return c
}

// loses drops the requests to one node, and lets those to the others arrive.
func (c *oneClock) loses(node int) {
	for i, n := range c.nodes.Nodes() {
		n.Intercept(nil)
		if i == node {
			n.Intercept(func([]string) redlocktest.Verdict { return redlocktest.LoseRequest() })
		}
	}
}

// steps makes the second clock jump, and lets other see it; undo ends the jump.
func (c *oneClock) steps(t *testing.T) (undo func()) {
	t.Helper()
	synctest.Wait()
	undo = ahead(time.Minute, c.nodes.Node(1))
	c.loses(0)
	for range 3 {
		time.Sleep(200 * time.Millisecond)
		if lock, err := c.other.TryAcquire(t.Context(), "another"); err == nil {
			mustRelease(t, lock)
		}
		synctest.Wait()
	}
	return undo
}

func TestAStepOfOneClockLetsNoMoreHoldThanTheLimit(t *testing.T) {
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, limit := newOneClock(t, watched), redlock.WithLimit(2)
			held := []*redlock.Lock{
				mustAcquire(t, c.first, "orders/42", limit, redlock.WithFixedLease()),
				mustAcquire(t, c.first, "orders/42", limit, redlock.WithFixedLease()),
			}
			defer c.steps(t)()
			for _, slot := range []string{"redlock:slot:0:orders/42", "redlock:slot:1:orders/42"} {
				c.nodes.Node(2).Miniredis().Del(slot) // where a late one came all the same
			}
			third, err := c.other.TryAcquire(t.Context(), "orders/42", limit)
			valid := 0
			for _, lock := range append(held, third) {
				if lock != nil && lock.Err() == nil {
					valid++
				}
			}
			switch {
			case watched && (valid > 2 || !errors.Is(err, redlock.ErrNoQuorum)):
				t.Errorf("%d hold two slots, and the third got %v; want ErrNoQuorum", valid, err)
			case !watched && valid != 3:
				t.Errorf("unwatched: %d hold, %v; want three, or this test shows nothing", valid, err)
			}
		})
	}
}

func TestAStepOfOneClockLetsNoTwoLead(t *testing.T) {
	testkit.Unraced(t)
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newOneClock(t, watched)
			a := campaigns(t, c.first, "a")
			lead := <-a.leads
			undo := c.steps(t)
			b := campaigns(t, c.other, "b")
			all, most := []*redlock.Lock{lead}, 0
			leading := func(during time.Duration) (now int) {
				for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
					for len(a.leads) > 0 {
						all = append(all, <-a.leads)
					}
					for len(b.leads) > 0 {
						all = append(all, <-b.leads)
					}
					now = 0
					for _, lock := range all {
						if lock.Err() == nil {
							now++
						}
					}
					most = max(most, now)
				}
				return now
			}
			leading(5 * time.Second)
			if !watched {
				if most != 2 {
					t.Errorf("unwatched: at most %d lead at once; want two, or this test shows nothing", most)
				}
			} else {
				c.nodes.Node(0).Intercept(nil)
				if now := leading(5 * time.Minute); now != 1 || most != 1 {
					t.Errorf("%d lead in the end, and %d at most; want one at every time", now, most)
				}
			}
			undo()
			a.cancel()
			b.cancel()
			wantError(t, "a's campaign", <-a.done, context.Canceled)
			wantError(t, "b's campaign", <-b.done, context.Canceled)
		})
	}
}

// The request is pending; then two nodes of three show nothing: one has lost the key, and the
// clock of the other is past the lease.
func TestAStepOfOneClockDoesNotSayThatAHolderIsGone(t *testing.T) {
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newOneClock(t, watched)
			c.loses(-1)
			beside := mustAcquire(t, c.other, "another") // who holds something looks at the clocks
			lock := mustAcquire(t, c.first, "orders/42", redlock.WithRevocation(), redlock.WithTTL(20*time.Second))
			synctest.Wait()
			done := revokes(t, c.other, time.Minute)
			<-lock.Revoked()
			time.Sleep(100 * time.Millisecond)
			defer ahead(time.Minute, c.nodes.Node(1))()
			time.Sleep(300 * time.Millisecond) // a look at the clocks
			must(t, c.nodes.Client(0).Del(t.Context(), "orders/42").Err())
			time.Sleep(3 * time.Second)
			synctest.Wait()
			must(t, lock.Err())
			if ended := len(done) > 0; ended == watched {
				t.Errorf("watched %v: ended %v while it is held; want it to go on if watched, and else to end, or this test shows nothing", watched, ended)
			}
			mustRelease(t, lock)
			if watched {
				must(t, <-done)
			}
			mustRelease(t, beside)
		})
	}
}
