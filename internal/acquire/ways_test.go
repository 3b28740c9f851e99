package acquire_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// asked is what any node was asked from one call of next to the following, each script once.
type asked struct {
	mu      sync.Mutex
	scripts []string
}

func askedOf(nodes *redlocktest.Cluster) *asked {
	a := &asked{}
	for _, n := range nodes.Nodes() {
		n.Intercept(func(args []string) redlocktest.Verdict {
			a.mu.Lock()
			defer a.mu.Unlock()
			if name := locktest.ScriptOf(args); name != "" && name != "look" && !slices.Contains(a.scripts, name) {
				a.scripts = append(a.scripts, name)
			}
			return redlocktest.Pass()
		})
	}
	return a
}

func (a *asked) next() string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	said := strings.Join(a.scripts, " ")
	a.scripts = nil
	return said
}

// What each way to a name asks of the nodes: where it is free, at its release, where another has
// it, while it waits in line, and when it stops waiting.
func TestWhatEachWayAsks(t *testing.T) {
	const slots = 1
	for name, way := range map[string]struct {
		opts                                []redlock.AcquireOption
		free, release, taken, waits, leaves string
	}{
		"alone":              {nil, "acquire", "hand_one", "acquire", "acquire ask", "release_batch"},
		"alone, fixed lease": {[]redlock.AcquireOption{redlock.WithFixedLease()}, "acquire", "hand_one", "acquire", "acquire ask", "release_batch"},
		"alone, barging":     {[]redlock.AcquireOption{redlock.WithBarging()}, "ask", "hand_one", "ask", "ask", ""}, // it has no place to leave
		"sharing":            {[]redlock.AcquireOption{redlock.WithShared()}, "share", "release_shared", "share", "share", "release_shared"},
		"sharing, barging":   {[]redlock.AcquireOption{redlock.WithShared(), redlock.WithBarging()}, "share", "release_shared", "share", "share", ""},
		"a slot":             {[]redlock.AcquireOption{redlock.WithLimit(slots)}, "ask_slot", "release_slot", "ask_slot", "ask_slot", "release_slot"},
		"a slot, barging":    {[]redlock.AcquireOption{redlock.WithLimit(slots), redlock.WithBarging()}, "ask_slot", "release_slot", "ask_slot", "ask_slot", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := locktest.NewLocker(t, 3)
				holder := locktest.SeparateLocker(t, nodes)
				locktest.Warm(t, l)
				locktest.Warm(t, holder)
				synctest.Wait()
				asked := askedOf(nodes)
				want := func(when, want string) {
					t.Helper()
					if got := asked.next(); got != want {
						t.Errorf("%s: asked %q; want %q", when, got, want)
					}
				}
				lock := locktest.MustAcquire(t, l, "orders/42", way.opts...)
				want("where it is free", way.free)
				locktest.MustRelease(t, lock)
				want("at the release", way.release)
				opts := []redlock.AcquireOption{redlock.WithFixedLease(), redlock.WithTTL(30 * time.Second)}
				if strings.HasPrefix(name, "a slot") {
					opts = append(opts, redlock.WithLimit(slots))
				}
				held := locktest.MustAcquire(t, holder, "orders/42", opts...)
				asked.next()
				_, err := l.TryAcquire(t.Context(), "orders/42", way.opts...)
				locktest.WantError(t, "where another has it", err, redlock.ErrNotAcquired)
				want("where another has it", way.taken)
				ctx, leave := context.WithCancel(t.Context())
				waiting := locktest.WantsUnder(ctx, l, way.opts...)
				time.Sleep(300 * time.Millisecond)
				want("in line", way.waits)
				leave()
				locktest.WantError(t, "when it stops waiting", (<-waiting).Err, context.Canceled)
				want("when it stops waiting", way.leaves)
				locktest.MustRelease(t, held)
				synctest.Wait()
				if left := locktest.SlotKeys(nodes); left != nil {
					t.Errorf("left behind: %q", left)
				}
				locktest.WantNoLocks(t, nodes, "in the end")
			})
		})
	}
}

// A release goes to the next goroutine of the Locker by one hand-over: no node is free meanwhile.
func TestAReleaseIsHandedOnWithinTheLocker(t *testing.T) {
	for name, opts := range map[string][]redlock.AcquireOption{"alone": nil, "a slot": {redlock.WithLimit(1)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := locktest.NewLocker(t, 3)
				lock := locktest.MustAcquire(t, l, "orders/42", opts...)
				next := locktest.Wants(t, l, opts...)
				asked := askedOf(nodes)
				locktest.MustRelease(t, lock)
				lock = locktest.Got(t, next).Lock
				if got := asked.next(); !strings.HasPrefix(got, "pass") {
					t.Errorf("asked %q; want a pass", got)
				}
				locktest.MustRelease(t, lock)
			})
		})
	}
}
