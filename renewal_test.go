package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// A renewal that fails is no loss: it is tried again, at a pace that leaves the
// nodes alone, while the lock is still valid.
func TestAFailedRenewalIsTriedAgainWithinTheValidity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		before := nodes.Node(0).Calls("EVALSHA")
		for _, i := range []int{0, 1, 2} {
			nodes.Node(i).Intercept(onScripts("extend", redlocktest.LoseRequest()))
		}
		const sick = 5 * time.Second // the first renewal comes after 3.3 s at the latest
		time.Sleep(sick)
		if left := lock.Remaining(); left > redlock.DefaultTTL-sick {
			t.Fatalf("got %v remaining; want the renewal to have failed", left)
		}
		if got := nodes.Node(0).Calls("EVALSHA") - before; got < 3 || got > 5 {
			t.Errorf("got %d renewals in the first %v; want one each half second from the first on: 250 ms of trying, 250 ms of pause", got, sick)
		}
		for _, n := range nodes.Nodes() {
			n.Intercept(nil)
		}
		time.Sleep(2 * redlock.DefaultTTL)
		if left := lock.Remaining(); left < redlock.DefaultTTL/2 {
			t.Errorf("three leases later: got %v remaining, %v; want the lock renewed", left, lock.Err())
		}
		mustRelease(t, lock)
	})
}

// An operator's DEL of one live key costs nothing: the next renewal puts it back.
func TestOneDeletedKeyIsPutBackByTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		for i, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
			time.Sleep(redlock.DefaultTTL/3 + time.Millisecond)
			synctest.Wait()
			if !n.Miniredis().Exists("orders/42") {
				t.Errorf("a third of the TTL after its DEL node %d lacks the key; want it put back", i)
			}
			if left := lock.Remaining(); left < redlock.DefaultTTL/2 {
				t.Fatalf("got %v remaining, %v; want the lock renewed", left, lock.Err())
			}
		}
		mustRelease(t, lock)
	})
}

// A lock on exactly a quorum has no key to spare: one more DEL ends it.
func TestADeletedKeyEndsALockOnExactlyAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		nodes.Node(3).Stop()
		nodes.Node(4).Stop()
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		nodes.Node(0).Miniredis().Del("orders/42")
		began := time.Now()
		nodes.Node(3).Start() // which have not the key, and are none of its quorum
		nodes.Node(4).Start()
		<-lock.Done()
		if took := time.Since(began); took > redlock.DefaultTTL/3+time.Millisecond {
			t.Errorf("Done came after %v; want it at the next renewal, a third of the TTL at the latest", took)
		}
		wantLost(t, lock)
	})
}

// An acquire without a reply may still come, also after the reply to a later
// command that put the same lock there: its connection may be the slower one.
func TestADoubtAboutAnAcquireOutlivesTheReplyToAReseed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		doubted := nodes.Node(0)
		var lost, reseeds atomic.Int64
		doubted.Intercept(func(args []string) redlocktest.Verdict {
			switch {
			case strings.HasPrefix(scriptOf(args), "acquire") && slices.Contains(args, "orders/42"):
				lost.Add(1)
				return redlocktest.LoseRequest()
			case scriptOf(args) == "reseed":
				reseeds.Add(1)
			}
			return redlocktest.Pass()
		})
		synctest.Wait()
		lock := mustAcquire(t, l, "orders/42")
		for synctest.Wait(); lost.Load() == 0; synctest.Wait() { // the others had decided before it was sent
			mustRelease(t, lock)
			lock = mustAcquire(t, l, "orders/42")
		}
		time.Sleep(redlock.DefaultTTL) // it is renewed, and put on the node that has not got it
		synctest.Wait()
		if lost.Load() == 0 || reseeds.Load() == 0 {
			t.Fatalf("%d acquires lost, %d re-seeds; the test wants both", lost.Load(), reseeds.Load())
		}
		owner, err := doubted.Miniredis().Get("orders/42")
		must(t, err)
		mustRelease(t, lock)
		synctest.Wait()
		if !doubted.Miniredis().Exists("redlock:dead:" + owner) {
			t.Error("the release left no tombstone; want one: the acquire may still come")
		}
	})
}

// Many locks are confirmed in one round. What becomes of one is no other's concern.

// Ten locks without their key on one node wait for another that hangs; those that
// a quorum has confirmed do not wait with them.
func TestAnUndecidedLockHoldsUpNoOther(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		const locks, deleted = 200, 10
		l, nodes := newLocker(t, 3, redlock.WithNodeTimeout(250*time.Millisecond)) // nearly the TTL
		warm(t, l)
		held := make([]*redlock.Lock, locks)
		for i := range held {
			held[i] = mustAcquire(t, l, fmt.Sprintf("orders/%d", i), redlock.WithTTL(300*time.Millisecond))
		}
		synctest.Wait()
		nodes.Node(2).Hang()
		for _, lock := range held[:deleted] {
			nodes.Node(0).Miniredis().Del(lock.Resource())
		}
		time.Sleep(3 * time.Second)
		lost := 0
		for _, lock := range held[deleted:] {
			if lock.Err() != nil {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%d of %d locks were lost that a quorum confirmed; want none", lost, locks-deleted)
		}
		nodes.Node(2).Resume()
	})
}

// The node timeout is at most a quarter of the lock's own TTL, unless it was given.
func TestCallsWaitNoLongerThanHalfOfTheLocksOwnTTL(t *testing.T) {
	const ttl = 300 * time.Millisecond
	for _, tt := range []struct {
		opts []redlock.Option
		want time.Duration
	}{
		{nil, ttl / 4},
		{[]redlock.Option{redlock.WithNodeTimeout(200 * time.Millisecond)}, 200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3, tt.opts...)
			lock := mustAcquire(t, l, "orders/41", redlock.WithTTL(ttl), redlock.WithFixedLease())
			synctest.Wait()
			nodes.Node(1).Hang()
			nodes.Node(2).Hang()
			began := time.Now()
			wantError(t, "Extend", lock.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
			extended := time.Since(began)
			_, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithTTL(ttl))
			wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
			acquired := time.Since(began) - extended
			if extended > 2*tt.want || acquired > 2*tt.want {
				t.Errorf("at a TTL of %v Extend took %v, TryAcquire %v; want at most two node timeouts of %v", ttl, extended, acquired, tt.want)
			}
			nodes.Node(1).Resume()
			nodes.Node(2).Resume()
		})
	}
}

// One name that a node's ACL forbids has the call for all of them refused there: the
// others are asked for one by one.
func TestAForbiddenNameTakesNoOtherLocksRenewal(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, nodes := newLocker(t, 3, told.option())
		forbidden := mustAcquire(t, l, "forbidden")
		var held []*redlock.Lock
		for i := range 300 {
			held = append(held, mustAcquire(t, l, fmt.Sprintf("orders/%d", i)))
		}
		synctest.Wait()
		nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
			if scriptOf(args) == "extend" && slices.Contains(args, "forbidden") {
				return redlocktest.ReplyError("NOPERM this user has no permissions to access one of the keys")
			}
			return redlocktest.Pass()
		})
		nodes.Node(2).Stop() // the others rest on the node that refuses
		time.Sleep(3 * redlock.DefaultTTL)
		for _, lock := range held {
			if err := lock.Err(); err != nil {
				t.Fatalf("%s: %v; want it renewed", lock.Resource(), err)
			}
		}
		for _, e := range told.of(redlock.EventExtendFailed) {
			if e.Resource != "forbidden" {
				t.Fatalf("%s was not renewed at once: %v", e.Resource, e.Err)
			}
		}
		wantError(t, "the lock that may not be renewed", forbidden.Err(), redlock.ErrLost)
		nodes.Node(0).Intercept(nil)
	})
}

// A node confirms an extension, and is found to have stepped, or to have forgotten, while
// the others' word is still out. Their verdict does not make it count again.
func TestANodeThatIsDoubtedBeforeTheVerdictConfirmsNothing(t *testing.T) {
	readOnly := onScripts("acquire", redlocktest.ReplyError("READONLY You can't write against a read only replica."))
	for name, doubt := range map[string]func(n *redlocktest.Node) (undo func()){
		"its clock stepped": func(n *redlocktest.Node) func() { return ahead(time.Minute, n) },
		"it forgot":         func(n *redlocktest.Node) func() { n.Intercept(readOnly); return func() { n.Intercept(nil) } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				lock := mustAcquire(t, l, "orders/42")
				time.Sleep(time.Second)
				nodes.Node(2).Hang()
				nodes.Node(1).Intercept(slowly("extend", 100*time.Millisecond))
				mustRelease(t, mustAcquire(t, l, "looked")) // so that the extension has no look of its own
				extended := make(chan error, 1)
				go func() { extended <- lock.Extend(t.Context(), redlock.DefaultTTL) }()
				synctest.Wait() // node 0 has confirmed
				defer doubt(nodes.Node(0))()
				if other, err := l.TryAcquire(t.Context(), "orders/41"); err == nil {
					t.Errorf("got token %v; want no quorum", other.Token())
				}
				wantError(t, "Extend", <-extended, redlock.ErrLost)
				wantError(t, "the lock", lock.Err(), redlock.ErrLost)
				nodes.Node(2).Resume()
			})
		})
	}
}

// The end of the caller's context is no fault of the nodes.
func TestAnExtensionWhoseContextEndsBlamesNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		before := evals(nodes)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		err := lock.Extend(done, redlock.DefaultTTL)
		if synctest.Wait(); !errors.Is(err, context.Canceled) || evals(nodes) != before {
			t.Errorf("a context that is done: got %v, and %d scripts; want its error, and none", err, evals(nodes)-before)
		}
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err = lock.Extend(short, redlock.DefaultTTL)
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(errorText(err), "node timeout") {
			t.Errorf("a context that ends meanwhile: got %v; want its error, and no word of the node timeout", err)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
		must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
		mustRelease(t, lock)
	})
}

// shownValue is the owner value of orders/42 on a quorum, without its random part.
func shownValue(t *testing.T, l *redlock.Locker) string {
	t.Helper()
	in, err := l.Inspect(t.Context(), "orders/42")
	must(t, err)
	owner, _ := in.Holder()
	if len(owner) < 36 {
		t.Fatalf("got the owner value %q; want one of a holder", owner)
	}
	return owner[:len(owner)-36]
}

// Each way to a hold has its own value: a first attempt, a hand-over, a grant by a
// release, and a place in line that another goroutine had taken, and left.
func TestAHoldShowsItsOwnValueHoweverItWasComeBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder("web"))
		other := separateLocker(t, nodes, redlock.WithHolder("db"))
		rnd := rand.New(rand.NewPCG(1, 2))
		var all sync.WaitGroup
		for i := range 60 {
			locker, label := l, "web/"
			if i%3 == 0 {
				locker, label = other, "db/"
			}
			value := fmt.Sprintf("v%d", i%5)
			start, hold, patience := time.Duration(rnd.IntN(3000))*time.Millisecond, time.Duration(rnd.IntN(60))*time.Millisecond, time.Minute
			if i%4 == 0 {
				patience = time.Duration(rnd.IntN(500)) * time.Millisecond
			}
			all.Go(func() {
				time.Sleep(start)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				lock, err := locker.Acquire(ctx, "orders/42", redlock.WithValue(value))
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Acquire: %v", err)
					}
					return
				}
				if got, want := shownValue(t, locker), fmt.Sprintf("%s%s#2#", label, value); got != want {
					t.Errorf("got %q; want %q", got, want)
				}
				time.Sleep(hold)
				must(t, lock.Release(t.Context()))
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		wantNoLocks(t, nodes, "in the end")
		if left := queueKeys(nodes); len(left) > 0 {
			t.Errorf("left in line: %v", left)
		}
	})
}

// A place that somebody left is gone on with under the value of who goes on.
func TestAPlaceThatWasLeftIsGoneOnWithUnderTheNextOnesValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		held := mustAcquire(t, other, "orders/42")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := l.Acquire(ctx, "orders/42", redlock.WithValue("gone"))
			gone <- err
		}()
		synctest.Wait()
		next := wants(t, l, redlock.WithValue("next"))
		cancel()
		wantError(t, "who left", <-gone, context.Canceled)
		synctest.Wait()
		mustRelease(t, held)
		lock := got(t, next).Lock
		if got := shownValue(t, l); got != "next#4#" {
			t.Errorf("got %q; want the value of who holds it", got)
		}
		mustRelease(t, lock)
		time.Sleep(time.Minute)
		wantNoLocks(t, nodes, "in the end")
	})
}

func TestAValueThatCantBePublishedIsRefusedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder(strings.Repeat("h", 100)))
		warm(t, l)
		synctest.Wait()
		sent := nodes.Node(0).Calls()
		for name, value := range map[string]string{
			"257 bytes":                   strings.Repeat("v", 257),
			"157 bytes behind a label":    strings.Repeat("v", 157),
			"a line feed":                 "a\nb",
			"what turns the direction":    "a\u202eb",
			"no UTF-8":                    "a\xff",
			"a tab, which is not printed": "\t",
		} {
			_, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithValue(value))
			wantError(t, name, err, redlock.ErrInvalidOption)
			if err != nil && !strings.Contains(err.Error(), "WithValue") {
				t.Errorf("%s: got %v; want the option's name", name, err)
			}
		}
		if got := nodes.Node(0).Calls(); got != sent {
			t.Errorf("%d commands were sent; want none", got-sent)
		}
		lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithValue(strings.Repeat("v", 156)))
		must(t, err)
		mustRelease(t, lock)
	})
}

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
