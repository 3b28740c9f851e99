package membership_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// At once after a change nobody knows which clients still have the list before. The next one
// waits until it is known, and changes nothing while there are any.
func TestTheNextChangeWaitsForTheNamesOfClientsOfTheListBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 2)
		old := locktest.LockerWith(t, y.clients[:3], redlock.WithNodeNames(y.names[:3]...), redlock.WithHolder("old"), redlock.WithTTL(redlock.DefaultMaxTTL))
		locks := heldBy(t, old, 1)
		add := func(name string, o redlock.ChangeOptions, which ...int) error {
			return y.locker(t, which...).Cluster().Change(t.Context(), redlock.Wanted{Add: []string{name}}, o)
		}
		testkit.Must(t, add("node-3", redlock.ChangeOptions{}, 0, 1, 2, 3))
		unknown := 0
		o := redlock.ChangeOptions{Progress: func(p redlock.ChangeProgress) {
			if p.Of == 0 && p.Left > 0 {
				unknown++
			}
		}}
		refused := func(when string, err error, words ...string) {
			t.Helper()
			locktest.WantError(t, when, err, redlock.ErrStragglers)
			locktest.WantText(t, when, locktest.ErrorText(err), words...)
			if s := locktest.Status(t, y.locker(t, 0, 1, 2, 3)); s.Generation != 1 || s.Pending != "" {
				t.Errorf("%s: got %+v; want nothing changed", when, s)
			}
			wantHeld(t, when, locks)
		}
		refused("a dry run at once", add("node-4", redlock.ChangeOptions{DryRun: true}, 0, 1, 2, 3, 4), "not yet known")
		refused("at once", add("node-4", o, 0, 1, 2, 3, 4), "old (within the last minute)", "--yes")
		if unknown < 5 {
			t.Errorf("got %d lines of what is not known; want one a second", unknown)
		}
		waited := 0
		wait := redlock.ChangeOptions{Wait: time.Minute, Progress: func(p redlock.ChangeProgress) {
			if p.Left > 0 && p.Stragglers != nil && p.Stragglers[0].Name == "old" {
				waited++
			}
		}}
		began := time.Now()
		refused("once it has waited", add("node-4", wait, 0, 1, 2, 3, 4), "old (within the last minute)", "--yes")
		if took := time.Since(began); (took-wait.Wait).Abs() > 5*time.Second || waited < 50 {
			t.Errorf("got it refused after %v, and named %d times; want %v, and once a second", took, waited, wait.Wait)
		}
		refused("a dry run then", add("node-4", redlock.ChangeOptions{DryRun: true}, 0, 1, 2, 3, 4), "old (within the last minute)")
		time.AfterFunc(time.Minute, func() { _ = old.Close() }) // its name stays for an hour
		wait.Wait = 5 * time.Minute
		testkit.Must(t, add("node-4", wait, 0, 1, 2, 3, 4))
		wantHeldNot := heldBy(t, y.locker(t, 0, 1, 2, 3), 1)
		testkit.Must(t, y.locker(t, 0, 1, 2, 3, 4).Cluster().Change(t.Context(), redlock.Wanted{}, redlock.ChangeOptions{EndStragglers: true}))
		time.Sleep(redlock.DefaultTTL)
		locktest.WantError(t, "its lock, once the change is closed", wantHeldNot[0].Err(), redlock.ErrLost)
	})
}

// A change that a quorum has begun has refused these clients already: it is finished without a
// question. One that fewer have begun still asks.
func TestAChangeThatWasBegunIsFinishedWithoutAQuestion(t *testing.T) {
	for settled, want := range []error{redlock.ErrStragglers, redlock.ErrStragglers, nil} {
		synctest.Test(t, func(t *testing.T) {
			y := newYard(t, 2, 1)
			old := y.locker(t, 0, 1)
			heldBy(t, old, 1)
			testkit.Must(t, y.locker(t, 0, 1, 2).Cluster().Change(t.Context(), redlock.Wanted{Add: []string{"node-2"}}, redlock.ChangeOptions{}))
			time.Sleep(time.Minute)
			shrink := func(ctx context.Context, o redlock.ChangeOptions) error {
				return y.locker(t, 0, 1, 2).Cluster().Change(ctx, redlock.Wanted{Remove: []string{"node-2"}}, o)
			}
			ctx, die := context.WithCancel(t.Context())
			defer die()
			var count atomic.Int64
			for _, n := range y.nodes {
				n.Intercept(func(args []string) redlocktest.Verdict {
					if changeScript(args) != "settle" || count.Add(1) <= int64(settled) {
						return redlocktest.Pass()
					}
					die()
					return redlocktest.ReplyError("ERR the operator died")
				})
			}
			if err := shrink(ctx, redlock.ChangeOptions{EndStragglers: true}); !errors.Is(err, context.Canceled) {
				t.Fatalf("%d nodes: got %v", settled, err)
			}
			for _, n := range y.nodes {
				n.Intercept(nil)
			}
			locktest.WantError(t, "the next operator", shrink(t.Context(), redlock.ChangeOptions{}), want)
			testkit.Must(t, shrink(t.Context(), redlock.ChangeOptions{EndStragglers: true}))
		})
	}
}

// Behind a removal every client of the list before has all nodes of the newest: the close waits for
// nobody's name.
func TestARemovalWaitsForNobodysName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 0)
		locks := heldBy(t, y.locker(t, 0, 1, 2), 3)
		closes := false
		testkit.Must(t, y.locker(t, 0, 1, 2).Cluster().Change(t.Context(), redlock.Wanted{Remove: []string{"node-2"}}, redlock.ChangeOptions{Progress: func(p redlock.ChangeProgress) {
			if closes = closes || p.Step == 2; p.Of == 0 {
				t.Errorf("got %+v; want no wait before a step", p)
			}
		}}))
		if !closes {
			t.Error("got no second step; want the close")
		}
		wantHeld(t, "after the close", locks)
	})
}

// Between an operator's steps another has begun the next, put it in force on one node, and died: who
// finds nothing left to do puts it in force on a quorum before it returns.
func TestWhatARivalBeganIsInForceOnAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 0)
		w := redlock.Wanted{Remove: []string{"node-2"}}
		rival := func() {
			ctx, die := context.WithCancel(t.Context())
			defer die()
			var forced atomic.Int64
			for _, n := range y.nodes {
				n.Intercept(func(args []string) redlocktest.Verdict {
					if changeScript(args) != "force" || forced.Add(1) == 1 {
						return redlocktest.Pass()
					}
					die()
					return redlocktest.ReplyError("ERR the rival died")
				})
			}
			locktest.WantError(t, "the rival", y.locker(t, 0, 1, 2).Cluster().Change(ctx, w, redlock.ChangeOptions{}), context.Canceled)
			for _, n := range y.nodes {
				n.Intercept(nil)
			}
		}
		came := false
		testkit.Must(t, y.locker(t, 0, 1, 2).Cluster().Change(t.Context(), w, redlock.ChangeOptions{Progress: func(p redlock.ChangeProgress) {
			if !came && p.Step == 1 && p.Stage == "done" {
				came = true
				rival()
			}
		}}))
		closed := 0
		for _, n := range y.nodes[:2] {
			if n.Miniredis().HGet(lua.NodeKey, "gen") == "2" {
				closed++
			}
		}
		if !came || closed < 2 {
			t.Errorf("the rival came: %t; got the close on %d nodes; want a quorum", came, closed)
		}
	})
}
