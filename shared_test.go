package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/tokenctx"
	"github.com/quorumkit/redlock/redlocktest"
)

func TestThoseWhoShareHoldTogetherAndExcludeAllOthers(t *testing.T) {
	testkit.Unraced(t)
	for _, n := range []int{1, 2, 3, 4, 5, 10} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			other, third := separateLocker(t, nodes), separateLocker(t, nodes)
			before := mustAcquire(t, l, "orders/42")
			wantTaken(t, "beside an exclusive hold", other, redlock.WithShared())
			mustRelease(t, before)
			synctest.Wait()

			held := []*redlock.Lock{shares(t, l), shares(t, l), shares(t, other)}
			synctest.Wait()
			for i, lock := range held {
				if lock.Token() != held[0].Token() || lock.Token() <= before.Token() || !lock.Shared() {
					t.Errorf("%d nodes: sharer %d: token %v, Shared %v; want %v like the first, above %v", n, i, lock.Token(), lock.Shared(), held[0].Token(), before.Token())
				}
			}
			for i, lock := range held {
				wantTaken(t, "while shared", third)
				wantTaken(t, "while shared, by a Locker that shares", l)
				time.Sleep(time.Minute) // six leases
				if err := lock.Err(); err != nil {
					t.Fatalf("%d nodes: sharer %d: %v", n, i, err)
				}
				mustRelease(t, lock)
				synctest.Wait()
				for k, node := range nodes.Nodes() {
					if got := len(members(t, node)); got != len(held)-i-1 {
						t.Errorf("%d nodes: after release %d node %d has %d members; want %d", n, i, k, got, len(held)-i-1)
					}
				}
			}
			after := mustAcquire(t, third, "orders/42")
			if after.Token() <= held[0].Token() || after.Shared() {
				t.Errorf("%d nodes: exclusive after: token %v, Shared %v; want one above %v", n, after.Token(), after.Shared(), held[0].Token())
			}
			mustRelease(t, after)
			if again := shares(t, other); again.Token() <= after.Token() {
				t.Errorf("%d nodes: a later generation has %v; want it above %v", n, again.Token(), after.Token())
			}
		})
	}
}

// Equal tokens where clocks differ: no hint numbers a generation.
func TestThoseWhoBeginToShareTogetherHaveOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		mustRelease(t, mustAcquire(t, l, "orders/42"))
		synctest.Wait()
		held := make(chan *redlock.Lock)
		const sharers = 8
		var raises atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if len(args) > 1 && args[1] == lua.RaiseSharedScript.Hash {
					raises.Add(1)
				}
				return redlocktest.Pass()
			})
		}
		ctx := t.Context()
		for range sharers {
			other := separateLocker(t, nodes)
			go func() {
				lock, err := other.Acquire(ctx, "orders/42", redlock.WithShared())
				if err != nil {
					t.Error(err)
				}
				held <- lock
			}()
		}
		var tokens []redlock.Token
		for range sharers {
			lock := <-held
			if lock == nil {
				continue
			}
			defer func() { mustRelease(t, lock) }()
			tokens = append(tokens, lock.Token())
		}
		if slices.Min(tokens) != slices.Max(tokens) || raises.Load() > 0 {
			t.Errorf("got tokens %v, and %d raises; want one, and none", tokens, raises.Load())
		}
	})
}

// A sharer that ends without a release delays an exclusive hold by its lease, and the
// renewals of those beside it do not lengthen that.
func TestASharerThatDiedIsWaitedForNoLongerThanItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)
		living := shares(t, l)
		began := time.Now()
		synctest.Wait()
		before := members(t, nodes.Node(0))
		shares(t, other, redlock.WithTTL(20*time.Second), redlock.WithFixedLease())
		synctest.Wait()
		dead := slices.DeleteFunc(members(t, nodes.Node(0)), func(m string) bool { return slices.Contains(before, m) })[0]
		for _, n := range nodes.Nodes() { // what it sends from now on is lost: it has died
			n.Intercept(func(args []string) redlocktest.Verdict {
				if len(args) > 1 && args[1] == lua.ReleaseSharedScript.Hash && slices.Contains(args, dead) {
					return redlocktest.LoseRequest()
				}
				return redlocktest.Pass()
			})
		}
		time.Sleep(5 * time.Second)
		mustRelease(t, living)
		g := got(t, wants(t, third))
		waited := g.At.Sub(began)
		if waited < 20*time.Second || waited > 21*time.Second {
			t.Errorf("an exclusive hold came %v after the death of a sharer; want its lease of 20s, and no more than a look longer", waited)
		}
		mustRelease(t, g.Lock)
	})
}

func TestASharedHoldIsPutBackOnNodesThatForgot(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		held := []*redlock.Lock{shares(t, l), shares(t, other)}
		for i := range 5 {
			nodes.Node(i).Restart()
			time.Sleep(redlock.DefaultMaxTTL + 10*time.Second)
			if got := len(members(t, nodes.Node(i))); got != 2 {
				t.Fatalf("node %d has %d members after it forgot; want 2", i, got)
			}
			wantTaken(t, "after a node forgot", other)
		}
		for i, lock := range held {
			if err := lock.Err(); err != nil {
				t.Errorf("sharer %d: %v", i, err)
			}
			must(t, lock.Extend(t.Context(), 20*time.Second))
			mustRelease(t, lock)
		}
		synctest.Wait()
		after := mustAcquire(t, l, "orders/42")
		if after.Token() <= held[1].Token() {
			t.Errorf("got token %v after %v", after.Token(), held[1].Token())
		}
		mustRelease(t, after)
	})
}

// under is what a node has under a name: its type, when it ends, and all that is in it.
func under(t *testing.T, c redis.UniversalClient, key string) string {
	t.Helper()
	ctx := t.Context()
	kind, err := c.Type(ctx, key).Result()
	must(t, err)
	left, err := c.PTTL(ctx, key).Result()
	must(t, err)
	if left > 0 {
		kind += " until " + time.Now().Add(left).Round(100*time.Millisecond).String()
	}
	var all any
	switch strings.Fields(kind)[0] {
	case "zset":
		all, err = c.ZRangeWithScores(ctx, key, 0, -1).Result()
	case "hash":
		all, err = c.HGetAll(ctx, key).Result()
	case "string":
		all, err = c.Get(ctx, key).Result()
	}
	must(t, err)
	return fmt.Sprint(kind, " ", all)
}

// wantsForeign checks what each call that takes a name says of one that another program has.
func wantsForeign(t *testing.T, what string, l *redlock.Locker, opts ...redlock.AcquireOption) {
	t.Helper()
	_, err := l.TryAcquire(t.Context(), "orders/42", opts...)
	wantError(t, what+": TryAcquire", err, redlock.ErrNotAcquired)
	_, err = l.TryAcquireAll(t.Context(), []string{"orders/41", "orders/42"}, opts...)
	wantError(t, what+": TryAcquireAll", err, redlock.ErrNotAcquired)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = l.Acquire(ctx, "orders/42", opts...)
	wantError(t, what+": Acquire", err, context.DeadlineExceeded)
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = l.AcquireAll(ctx, []string{"orders/41", "orders/42"}, opts...)
	wantError(t, what+": AcquireAll", err, context.DeadlineExceeded)
}

// What another program keeps under the name is no hold, and stays as it is, to the last
// member, score and moment; and nothing is left beside it.
func TestSharingLeavesOtherProgramsDataAlone(t *testing.T) {
	testkit.Unraced(t)
	set := []redis.Z{{Score: 1, Member: "one"}, {Score: 2.5, Member: "two"}, {Score: 2e15, Member: "three"}}
	for name, put := range map[string]func(ctx context.Context, c redis.UniversalClient) error{
		"a sorted set": func(ctx context.Context, c redis.UniversalClient) error {
			return c.ZAdd(ctx, "orders/42", set...).Err()
		},
		"a sorted set that ends": func(ctx context.Context, c redis.UniversalClient) error {
			return errors.Join(c.ZAdd(ctx, "orders/42", set...).Err(), c.Expire(ctx, "orders/42", time.Hour).Err())
		},
		"a hash": func(ctx context.Context, c redis.UniversalClient) error {
			return c.HSet(ctx, "orders/42", "f", "v", "g", "w").Err()
		},
		"a string": func(ctx context.Context, c redis.UniversalClient) error {
			return c.Set(ctx, "orders/42", "theirs", 0).Err()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			var before []string
			for _, c := range nodes.Clients() {
				must(t, put(t.Context(), c))
				before = append(before, under(t, c, "orders/42"))
			}
			_, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared())
			if name != "a sorted set that ends" && !strings.Contains(fmt.Sprint(err), "held by another, without an end") {
				t.Errorf("%s: got %v; want it to say that it has no end", name, err)
			}
			wantsForeign(t, name+", shared", l, redlock.WithShared())
			wantsForeign(t, name+", alone", l)
			wantError(t, name+": Revoke", l.Revoke(t.Context(), "orders/42"), redlock.ErrNotRevocable)
			time.Sleep(6 * time.Minute) // what says that somebody may wait ends, and tombstones
			for i, c := range nodes.Clients() {
				if now := under(t, c, "orders/42"); now != before[i] {
					t.Errorf("%s: node %d has %s; want what was put there, %s", name, i, now, before[i])
				}
				must(t, c.Del(t.Context(), "orders/42").Err())
			}
			wantOnlyRecords(t, nodes, name+": beside it")
		})
	}
}

func TestAForeignClientIsRefusedWhileANameIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := shares(t, l)
		synctest.Wait()
		for i, c := range nodes.Clients() {
			if ok, err := c.SetNX(t.Context(), "orders/42", "theirs", time.Minute).Result(); ok || err != nil {
				t.Errorf("SET NX on node %d: %v, %v; want it refused", i, ok, err)
			}
			if left := c.PTTL(t.Context(), "orders/42").Val(); left <= 0 || left > redlock.DefaultTTL {
				t.Errorf("node %d: PTTL %v; want the lease", i, left)
			}
		}
		must(t, lock.Err())
		mustRelease(t, lock)
	})
}

func TestReentryKnowsBothKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		reentry := redlock.WithReentry()
		outer := shares(t, l, reentry)
		synctest.Wait() // its commands have reached node 0
		before := nodes.Node(0).Calls()
		inner, err := l.Acquire(outer.Context(), "orders/42", reentry, redlock.WithShared())
		must(t, err)
		if _, err := l.Acquire(outer.Context(), "orders/42", reentry); !errors.Is(err, redlock.ErrUpgrade) {
			t.Errorf("exclusive inside shared: got %v; want ErrUpgrade", err)
		}
		if _, err := l.TryAcquireAll(inner.Context(), []string{"orders/41", "orders/42"}, reentry); !errors.Is(err, redlock.ErrUpgrade) {
			t.Errorf("an exclusive set inside shared: got %v; want ErrUpgrade", err)
		}
		if inner.Token() != outer.Token() || !inner.Shared() || nodes.Node(0).Calls() != before {
			t.Errorf("inner: token %v of %v, Shared %v, %d commands", inner.Token(), outer.Token(), inner.Shared(), nodes.Node(0).Calls()-before)
		}
		mustRelease(t, outer)
		must(t, inner.Err())
		mustRelease(t, inner)
		after, err := l.Acquire(inner.Context(), "orders/42", reentry) // after the last release it is one like any other
		if err == nil {
			t.Errorf("Acquire under a context that has ended: got %v", after)
		}
		alone := mustAcquire(t, l, "orders/42", reentry)
		in, err := l.Acquire(alone.Context(), "orders/42", reentry, redlock.WithShared())
		must(t, err)
		if in.Token() != alone.Token() || in.Shared() {
			t.Errorf("shared inside exclusive: token %v of %v, Shared %v; want a handle on the exclusive hold", in.Token(), alone.Token(), in.Shared())
		}
		mustRelease(t, in)
		mustRelease(t, alone)
	})
}

func TestTheContextOfASharedHoldSaysItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3)
		for _, shared := range []bool{true, false} {
			opts := []redlock.AcquireOption{}
			if shared {
				opts = append(opts, redlock.WithShared())
			}
			must(t, l.Do(t.Context(), "orders/42", func(ctx context.Context, lock *redlock.Lock) error {
				if tokenctx.Shared(ctx, "orders/42") != shared || tokenctx.Shared(lock.Context(), "orders/42") != shared {
					return fmt.Errorf("the context says another kind than shared %v", shared)
				}
				return nil
			}, opts...))
		}
	})
}

func TestASetIsSharedAsAWhole(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		names := []string{"orders/42", "orders/41", "orders/43"}
		first, err := l.AcquireAll(t.Context(), names, redlock.WithShared())
		must(t, err)
		second, err := other.TryAcquireAll(t.Context(), names[:2], redlock.WithShared())
		must(t, err)
		third, err := l.TryAcquireAll(t.Context(), names[1:], redlock.WithShared())
		must(t, err)
		if _, err := other.TryAcquireAll(t.Context(), names); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("exclusively: got %v; want ErrNotAcquired", err)
		}
		time.Sleep(time.Minute)
		for _, m := range []*redlock.MultiLock{first, second, third} {
			must(t, m.Err())
			must(t, m.Release(t.Context()))
		}
		all, err := other.TryAcquireAll(t.Context(), names)
		must(t, err)
		if _, err := l.TryAcquireAll(t.Context(), names, redlock.WithShared()); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("beside an exclusive set: got %v; want ErrNotAcquired", err)
		}
		must(t, all.Release(t.Context()))
	})
}

func TestCloseReleasesSharedHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		lock, beside := shares(t, other), shares(t, l)
		alone := mustAcquire(t, l, "orders/43")
		waits := make(chan error, 1)
		go func() {
			_, err := other.Acquire(context.Background(), "orders/43", redlock.WithShared())
			waits <- err
		}()
		time.Sleep(time.Second)
		must(t, other.Close())
		if err := <-waits; !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("a shared Acquire that waits: got %v; want ErrClosed", err)
		}
		if !errors.Is(lock.Err(), redlock.ErrClosed) {
			t.Errorf("a shared hold: %v; want ErrClosed", lock.Err())
		}
		for i, n := range nodes.Nodes() {
			if got := members(t, n); len(got) != 1 {
				t.Errorf("node %d has the members %v; want the one that is left", i, got)
			}
		}
		mustRelease(t, alone)
		mustRelease(t, beside)
		if _, err := other.TryAcquire(t.Context(), "orders/42", redlock.WithShared()); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("after Close: got %v", err)
		}
	})
}

// Who asks again for what the Locker itself holds may wait for itself: its error says so,
// and not that another holds it.
func TestAnErrorSaysThatTheLockerItselfHoldsTheName(t *testing.T) {
	alone, shared, slots := []redlock.AcquireOption{}, []redlock.AcquireOption{redlock.WithShared()}, []redlock.AcquireOption{redlock.WithLimit(1)}
	for _, tt := range []struct {
		name        string
		outer, then []redlock.AcquireOption
		want        string
	}{
		{"exclusive inside exclusive", alone, alone, "this Locker holds it, or queues for it (under the context of the hold, WithReentry enters it)"},
		{"shared inside exclusive", alone, shared, "this Locker holds it, or queues for it"},
		{"exclusive inside shared", shared, alone, "this Locker holds it"},
		{"a slot inside a slot", slots, slots, "this Locker holds 1 of its slots"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				other := separateLocker(t, nodes)
				says := func(call string, err error, want bool) {
					t.Helper()
					if got := strings.Contains(errorText(err), tt.want); !errors.Is(err, redlock.ErrNotAcquired) || got != want {
						t.Errorf("%s: got %v; want ErrNotAcquired, and %q: %v", call, err, tt.want, want)
					}
				}
				wait := append(slices.Clone(tt.then), redlock.WithWait(time.Second))
				outer := mustAcquire(t, l, "orders/42", tt.outer...)
				_, err := l.Acquire(outer.Context(), "orders/42", wait...)
				says("Acquire", err, true)
				_, err = l.TryAcquire(outer.Context(), "orders/42", tt.then...)
				says("TryAcquire", err, true)
				_, err = other.Acquire(t.Context(), "orders/42", wait...)
				says("Acquire of another Locker", err, false)
				if tt.want != "this Locker holds 1 of its slots" {
					_, err = l.AcquireAll(outer.Context(), []string{"orders/41", "orders/42"}, wait...)
					says("AcquireAll", err, true)
				}
				mustRelease(t, outer)
				held := mustAcquire(t, other, "orders/42", tt.outer...)
				_, err = l.Acquire(t.Context(), "orders/42", wait...)
				says("Acquire behind another's", err, false)
				mustRelease(t, held)
			})
		})
	}
}

func TestAnExclusiveHoldIsCalledWhenTheLastWhoSharesReleases(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		first, second := shares(t, l), shares(t, l)
		next := wants(t, other)
		time.Sleep(time.Second)
		mustRelease(t, first)
		time.Sleep(time.Minute)
		select {
		case g := <-next:
			t.Fatalf("got %v, %v beside a sharer", g.Lock, g.Err)
		default:
		}
		wantTaken(t, "while an exclusive hold is waited for", l, redlock.WithShared())
		released := time.Now()
		mustRelease(t, second)
		g := got(t, next)
		if took := g.At.Sub(released); took > 50*time.Millisecond {
			t.Errorf("had it %v after the last release; want it to be called", took)
		}
		if g.Lock.Token() <= second.Token() {
			t.Errorf("got token %v after %v", g.Lock.Token(), second.Token())
		}
		mustRelease(t, g.Lock)
		synctest.Wait()
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("left behind: %v", keys)
		}
	})
}

func TestASharedAcquireWaitsForAnExclusiveHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		next := []<-chan gained{wants(t, other, redlock.WithShared()), wants(t, other, redlock.WithShared()), wants(t, l, redlock.WithShared())}
		if _, err := other.Acquire(t.Context(), "orders/42", redlock.WithShared(), redlock.WithWait(time.Second)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("WithWait: got %v", err)
		}
		released := time.Now()
		mustRelease(t, lock)
		for _, from := range next {
			g := got(t, from)
			if took := g.At.Sub(released); took > redlock.DefaultRetryMax {
				t.Errorf("had it %v after the release; want %v at most", took, redlock.DefaultRetryMax)
			}
			defer mustRelease(t, g.Lock)
		}
	})
}

// The line of a Locker's goroutines is of those who want to be alone: a shared hold of the
// same Locker is handed to none of them.
func TestASharedHoldIsHandedToNobody(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock, beside := shares(t, l), shares(t, separateLocker(t, nodes))
		next := []<-chan gained{wants(t, l), wants(t, l)}
		mustRelease(t, lock)
		time.Sleep(time.Minute)
		if a, b := len(next[0]), len(next[1]); a+b != 0 {
			t.Fatalf("%d goroutines were given the hold; want none, it is still shared", a+b)
		}
		must(t, beside.Err())
		mustRelease(t, beside)
		first := got(t, next[0])
		time.Sleep(time.Minute)
		if len(next[1]) != 0 {
			t.Fatal("two hold it exclusively")
		}
		mustRelease(t, first.Lock)
		mustRelease(t, got(t, next[1]).Lock)
	})
}

func TestBargingSharesPastThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := shares(t, l)
		next := wants(t, separateLocker(t, nodes))
		wantTaken(t, "while an exclusive hold is waited for", l, redlock.WithShared())
		beside, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared(), redlock.WithBarging())
		must(t, err)
		mustRelease(t, lock)
		mustRelease(t, beside)
		mustRelease(t, got(t, next).Lock)
	})
}

// One who barges has no place in line, so nobody waits for it: the others who want to share
// stand in line on the nodes, whichever came first.
func TestThoseWhoShareDoNotWaitForOneWhoBarges(t *testing.T) {
	for _, first := range []string{"barges", "stands in line"} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			held := mustAcquire(t, separateLocker(t, nodes), "orders/42")
			synctest.Wait() // or a node that it has not reached grants the next
			var barging <-chan gained
			if first == "barges" {
				barging = wants(t, l, redlock.WithShared(), redlock.WithBarging())
				time.Sleep(time.Second)
			}
			next := wants(t, l, redlock.WithShared())
			time.Sleep(3 * time.Second) // a node that the ask has not reached is told by a look
			if first != "barges" {
				barging = wants(t, l, redlock.WithShared(), redlock.WithBarging())
				time.Sleep(time.Second)
			}
			for i, n := range nodes.Nodes() {
				if in, err := n.Miniredis().ZMembers(lua.SharersKey + "orders/42"); err != nil || len(in) != 1 {
					t.Errorf("first one who %s: node %d has the line %q, %v; want one entry", first, i, in, err)
				}
			}
			behind := wants(t, separateLocker(t, nodes))
			mustRelease(t, held)
			shared := got(t, next).Lock
			mustRelease(t, got(t, barging).Lock) // which shares past the one behind
			mustRelease(t, shared)
			mustRelease(t, got(t, behind).Lock)
		})
	}
}

// One who barges asks in no turn of its Locker either: where the others of it wait, to share
// or to be alone, it goes past them at once.
func TestOneWhoBargesWaitsForNobodyOfItsLocker(t *testing.T) {
	for _, kind := range [][]redlock.AcquireOption{{redlock.WithShared()}, nil} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			held := shares(t, separateLocker(t, nodes))
			alone := wants(t, separateLocker(t, nodes))
			time.Sleep(time.Second)
			next := wants(t, l, kind...)
			time.Sleep(time.Second)
			barging := wants(t, l, redlock.WithShared(), redlock.WithBarging())
			time.Sleep(time.Second)
			if len(barging) == 0 {
				t.Fatal("it waits")
			}
			mustRelease(t, got(t, barging).Lock)
			mustRelease(t, held)
			mustRelease(t, got(t, alone).Lock)
			mustRelease(t, got(t, next).Lock)
		})
	}
}
