package chaos_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

// quietPlan is a plan without faults.
func quietPlan(clients int) chaos.Plan {
	p := chaos.NewPlan(1, 20*time.Second, chaos.Mix{Clients: clients})
	p.Faults = nil
	return p
}

// pausing is a plan in which client-0 is stopped for much longer than a lease, while it is at
// work for the first time: see [leads]. No draw of a scheduler decides whether that befalls
// one who holds, so that one play is enough.
func pausing(seed uint64) chaos.Plan {
	p := quietPlan(3)
	p.Seed, p.For = seed, 13*time.Second
	p.Faults = []chaos.Fault{{Kind: chaos.Pause, Client: "client-0", At: 3 * time.Second, For: 8 * time.Second}}
	return p
}

// writesEach is how often one who holds writes in those plans, each time after a tenth of a
// second. So client-0, which is there within a second, is at work when it is stopped, and
// somebody else is when it goes on.
const writesEach = 50

// leads has client-0 be the first who asks.
func leads(c *chaos.Client) {
	if c.Name != "client-0" {
		time.Sleep(2 * time.Second)
	}
}

// overstays is code that works for twice as long as its lock is its own, or looks at the
// lock every now and then.
func overstays(looks bool) func(context.Context, *chaos.Client) error {
	return func(ctx context.Context, c *chaos.Client) error {
		locker, err := c.Locker(redlock.WithFixedLease())
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			lock, err := locker.Acquire(ctx, "report")
			if err != nil {
				return err
			}
			at := c.Enter(lock)
			for end := time.Now().Add(2 * lock.Remaining()); time.Now().Before(end) && (!looks || lock.Remaining() > 50*time.Millisecond); {
				time.Sleep(20 * time.Millisecond)
			}
			at.Leave()
			_ = lock.Release(ctx) // lost, if it was overstayed
		}
		return nil
	}
}

// At work is who has entered and not left, no matter what the lock says and the code believes.
func TestCodeThatOverstaysItsLeaseIsConvicted(t *testing.T) {
	chaos.Test(t, quietPlan(4), overstays(false), chaos.WithConviction(chaos.TwoHolders))
	if v := chaos.Test(t, quietPlan(4), overstays(true)); v.Won < 5 {
		t.Errorf("got %v of code that looks at its lock; the run shows nothing", v)
	}
}

// store is a user's own, with a guard or without one.
type store struct {
	guarded bool

	mu   sync.Mutex // guards last
	last redlock.Token
}

// write is under the lock of token, in the tenure at. It tells whether it was accepted.
func (s *store) write(at *chaos.Tenure, token redlock.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	accepted := !s.guarded || token >= s.last
	if accepted {
		s.last = max(s.last, token)
	}
	at.Wrote(token, accepted)
	return accepted
}

// worker writes under each lock that it gets, until it is told that a write was refused.
func worker(write func(context.Context, *chaos.Client, *chaos.Tenure, *redlock.Lock) bool) func(context.Context, *chaos.Client) error {
	return func(ctx context.Context, c *chaos.Client) error {
		locker, err := c.Locker()
		if err != nil {
			return err
		}
		leads(c)
		for ctx.Err() == nil {
			lock, err := locker.Acquire(ctx, "report")
			if err != nil {
				return err
			}
			at := c.Enter(lock)
			for range writesEach {
				time.Sleep(100 * time.Millisecond)
				if !write(ctx, c, at, lock) {
					break
				}
			}
			at.Leave()
			_ = lock.Release(ctx) // unconfirmed: it lapses
			time.Sleep(30 * time.Millisecond)
		}
		return nil
	}
}

// A pause befalls own code, between its look at the lock and its write: the store without a
// guard takes the stale write in, and the one with a guard refuses it.
func TestAStoreOfOnesOwnIsJudged(t *testing.T) {
	testkit.Unraced(t)
	var s *store
	code := worker(func(ctx context.Context, c *chaos.Client, at *chaos.Tenure, lock *redlock.Lock) bool {
		if lock.Remaining() == 0 {
			return false
		}
		_ = c.Step(ctx) // a pause may come in between; the loop ends with ctx
		return s.write(at, lock.Token())
	})
	for seed := range uint64(3) {
		if v := chaos.Test(t, pausing(seed), code, chaos.WithSetup(func() { s = &store{guarded: true} })); v.Refused == 0 {
			t.Errorf("seed %d: got %v with a guard; want a write that it refuses", seed, v)
		}
		chaos.Test(t, pausing(seed), code, chaos.WithSetup(func() { s = &store{} }), chaos.WithConviction(chaos.StaleWrite))
	}
}

// Past the lab's guard a paused writer's write goes through, and with it it does not.
func TestTheLabsGuardCanBeLeftOut(t *testing.T) {
	code := worker(func(ctx context.Context, _ *chaos.Client, at *chaos.Tenure, _ *redlock.Lock) bool {
		return at.Write(ctx) == nil // it looks, may be stopped, and writes
	})
	chaos.Test(t, pausing(1), code, chaos.WithoutGuard(), chaos.WithConviction(chaos.StaleWrite))
	if v := chaos.Test(t, pausing(1), code); v.Refused == 0 {
		t.Errorf("got %v; want writes that the guard refuses", v)
	}
}

// A pause of own code is one of its whole process: nothing is renewed meanwhile.
func TestAPauseStopsRenewals(t *testing.T) {
	p := quietPlan(2)
	p.Faults = []chaos.Fault{{Kind: chaos.Pause, Client: "client-0", At: 4 * time.Second, For: 8 * time.Second, Where: chaos.AtExtend}}
	var mu sync.Mutex // guards the rest
	others, rested, left := 0, time.Duration(0), time.Duration(-1)
	chaos.Test(t, p, func(ctx context.Context, c *chaos.Client) error {
		locker, err := c.Locker()
		if err != nil {
			return err
		}
		if c.Name != "client-0" {
			time.Sleep(2 * time.Second)
		}
		lock, err := locker.Acquire(ctx, "report")
		if err != nil {
			return err
		}
		at := c.Enter(lock)
		defer at.Leave()
		mu.Lock()
		defer mu.Unlock()
		if c.Name != "client-0" {
			others++
			return nil
		}
		mu.Unlock()
		for begin := time.Now(); rested < time.Second; begin = time.Now() {
			time.Sleep(10 * time.Millisecond)
			if err := c.Step(ctx); err != nil {
				mu.Lock()
				return err
			}
			rested = time.Since(begin)
		}
		mu.Lock()
		left = lock.Remaining()
		return nil
	}, chaos.WithSetup(func() { others, rested, left = 0, 0, -1 }))
	if rested < 7*time.Second || left != 0 || others != 1 {
		t.Errorf("got a rest of %v, %v left after it, and %d others that held; want nearly 8s, none, and one", rested, left, others)
	}
}

// A run in which nobody was at work, or asked, shows nothing.
func TestARunWithoutARoundFails(t *testing.T) {
	if passes(func(t *testing.T) { //nolint:thelper // it is a test
		chaos.Test(t, quietPlan(1), func(context.Context, *chaos.Client) error { return nil })
	}) {
		t.Error("got a test that passes, of code that never entered")
	}
	p := quietPlan(1)
	p.For = time.Millisecond                                                      // before any client is there
	if passes(func(t *testing.T) { chaos.Explore(t, p, p.Redlock("redlock")) }) { //nolint:thelper // it is a test
		t.Error("got an exploration that passes, in which nobody asked")
	}
	if passes(func(t *testing.T) { //nolint:thelper // it is a test
		chaos.Test(t, quietPlan(2), overstays(true), chaos.WithConviction(chaos.TwoHolders))
	}) {
		t.Error("got a test that passes, of code that is not convicted as it was to be")
	}
}
