package redlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// isAsked tells whether the hold was asked for.
func isAsked(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// revokes asks for orders/42 in a goroutine, for so long.
func revokes(t *testing.T, l *redlock.Locker, patience time.Duration) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx := t.Context()
	go func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		done <- l.Revoke(ctx, "orders/42")
	}()
	return done
}

func TestWhoeverHoldsIsAskedAndDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		beside := mustAcquire(t, l, "orders/43", redlock.WithRevocation())
		plain := mustAcquire(t, l, "orders/44")
		if plain.Revoked() != nil {
			t.Error("got a channel of a hold without the option; want nil")
		}
		synctest.Wait()
		began := time.Now()
		done := revokes(t, other, time.Minute)
		<-lock.Revoked()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v to ask; want no second", took)
		}
		time.Sleep(10 * time.Second) // it goes on
		must(t, lock.Err())
		mustRelease(t, lock)
		let := time.Now()
		must(t, <-done)
		if took := time.Since(let); took > 1100*time.Millisecond {
			t.Errorf("Revoke returned %v after the release; want a second", took)
		}
		if isAsked(beside.Revoked()) {
			t.Error("another hold of the Locker was asked for")
		}
	})
}

// Who lets go at once is seen at once.
func TestRevokeReturnsSoonWhereTheHolderLetsGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		go func() {
			_ = l.Do(t.Context(), "orders/42", func(_ context.Context, lock *redlock.Lock) error {
				<-lock.Revoked()
				return nil
			}, redlock.WithRevocation())
		}()
		time.Sleep(time.Second)
		began := time.Now()
		must(t, <-revokes(t, other, time.Minute))
		if took := time.Since(began); took > 400*time.Millisecond {
			t.Errorf("it took %v; want less than 400 ms", took)
		}
		wantNoLocks(t, nodes, "in the end")
	})
}

func TestRevokeSaysWhyItCantAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		wantError(t, "nobody holds", other.Revoke(t.Context(), "orders/42"), redlock.ErrNotHeld)
		wantError(t, "no name", other.Revoke(t.Context(), ""), redlock.ErrInvalidResource)
		wantError(t, "the library's own", other.Revoke(t.Context(), "redlock:node"), redlock.ErrInvalidResource)

		lock := mustAcquire(t, l, "orders/42")
		wantError(t, "held without the option", other.Revoke(t.Context(), "orders/42"), redlock.ErrNotRevocable)
		mustRelease(t, lock)
		for i := range nodes.Nodes() {
			c := nodes.Clients()[i]
			must(t, c.Set(t.Context(), "orders/42", "fsdUq0f2v1Dm7cZtPw3yXg==", time.Minute).Err())
			must(t, c.HSet(t.Context(), "orders/43", "a", "b").Err())
			must(t, c.ZAdd(t.Context(), "orders/44", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2, Member: "b"}).Err())
		}
		show := func() (all []string) {
			for i, n := range nodes.Nodes() {
				all = append(all, n.Keys()...)
				for _, key := range locksOn(n) {
					all = append(all, under(t, nodes.Clients()[i], key))
				}
			}
			return all
		}
		synctest.Wait()
		before := show()
		wantError(t, "another client's lock", other.Revoke(t.Context(), "orders/42"), redlock.ErrNotRevocable)
		wantError(t, "another program's hash", other.Revoke(t.Context(), "orders/43"), redlock.ErrNotRevocable)
		wantError(t, "another program's sorted set", other.Revoke(t.Context(), "orders/44"), redlock.ErrNotRevocable)
		synctest.Wait()
		if now := show(); !slices.Equal(now, before) {
			t.Errorf("the nodes have %q; want what they had, %q", now, before)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantError(t, "a context that is done", other.Revoke(ctx, "orders/42"), context.Canceled)
		must(t, other.Close())
		wantError(t, "a closed Locker", other.Revoke(t.Context(), "orders/42"), redlock.ErrClosed)
	})
}

// A node that is away, and one that forgot, say nothing of who holds: neither that nobody
// does, nor that all are gone.
func TestRevokeNeedsAQuorumThatMayVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		synctest.Wait()
		nodes.Node(0).Stop()
		done := revokes(t, other, time.Minute)
		<-lock.Revoked() // on the two that are left
		nodes.Node(1).Stop()
		time.Sleep(3 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("got %v while one node of three answers; want no end", err)
		default:
		}
		err := other.Revoke(t.Context(), "orders/42")
		wantError(t, "two nodes away", err, redlock.ErrNoQuorum)
		var round *redlock.QuorumError
		if !errors.As(err, &round) || round.Nodes[0].Err == nil || round.Nodes[1].Err == nil {
			t.Errorf("got %v; want the causes of two nodes", err)
		}
		nodes.Node(1).Start()
		time.Sleep(time.Second)
		must(t, lock.Err())
		mustRelease(t, lock)
		must(t, <-done)
	})
}

// Two of three nodes show nothing, and one of those forgot: the third one's word stands.
func TestANodeThatForgotDoesNotSayThatAHolderIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithTTL(20*time.Second))
		other := separateLocker(t, nodes)
		warm(t, other)
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		synctest.Wait()
		done := revokes(t, other, 30*time.Second)
		<-lock.Revoked()
		must(t, nodes.Clients()[0].Del(t.Context(), "orders/42").Err())
		nodes.Node(1).Restart()
		time.Sleep(3 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("got %v; want no end, for it is held: %v", err, lock.Err())
		default:
		}
		must(t, lock.Err())
		mustRelease(t, lock)
		must(t, <-done)
	})
}

// The first message gets lost on all nodes.
func TestALostMessageIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		var asks atomic.Bool
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if strings.EqualFold(args[0], "publish") && !asks.Load() {
					return redlocktest.LoseRequest()
				}
				return redlocktest.Pass()
			})
		}
		began := time.Now()
		done := revokes(t, other, time.Minute)
		time.Sleep(500 * time.Millisecond)
		asks.Store(true)
		<-lock.Revoked()
		if took := time.Since(began); took < 900*time.Millisecond || took > 1500*time.Millisecond {
			t.Errorf("it was asked after %v; want a second", took)
		}
		mustRelease(t, lock)
		must(t, <-done)
	})
}

func TestAHolderMayIgnoreIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		wantError(t, "a holder that ignores it", <-revokes(t, other, time.Minute), context.DeadlineExceeded)
		if !isAsked(lock.Revoked()) {
			t.Error("it was not asked")
		}
		must(t, lock.Err())
		mustRelease(t, lock)
	})
}

// The holder releases, and another takes the lock, between the look and the message.
func TestAMessageThatComesLateReachesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		first := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		synctest.Wait()
		next := wants(t, l, redlock.WithRevocation()) // of the same Locker: it is handed on
		synctest.Wait()
		late := make(chan []string, 100)
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if !strings.EqualFold(args[0], "publish") {
					return redlocktest.Pass()
				}
				late <- slices.Clone(args)
				return redlocktest.LoseRequest()
			})
		}
		done := revokes(t, other, time.Minute)
		message := <-late
		mustRelease(t, first)
		second := got(t, next).Lock
		must(t, <-done) // the one that was meant is gone
		for i, n := range nodes.Nodes() {
			n.Intercept(nil)
			if heard := nodes.Clients()[i].Publish(t.Context(), message[1], message[2]).Val(); heard != 1 {
				t.Errorf("%d heard the late message; want 1", heard)
			}
		}
		synctest.Wait()
		if isAsked(second.Revoked()) {
			t.Error("the next holder was asked")
		}
		must(t, second.Err())
		done = revokes(t, other, time.Minute)
		<-second.Revoked() // once it is meant
		mustRelease(t, second)
		must(t, <-done)
	})
}

// What is published to a Locker asks for nothing that it does not name.
func TestForgedMessagesAskForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation(), redlock.WithValue("v"))
		synctest.Wait()
		owner := nodes.Clients()[0].Get(t.Context(), "orders/42").Val()
		id := strings.Split(owner, "~")[1]
		channel := "redlock:wake:" + id
		for _, message := range []string{
			"revoke", "revoke ", "revoke orders/42", "revoke " + id, "revoke ~" + id + "~", "revoke v", "REVOKE " + owner, "revoke  " + owner,
			"revoke " + owner + " ", "revoke " + owner[:len(owner)-1], owner, "orders/42", "redlock:push\n" + owner,
		} {
			if n := nodes.Clients()[0].Publish(t.Context(), channel, message).Val(); n != 1 {
				t.Fatalf("%d heard %q; want 1", n, message)
			}
		}
		synctest.Wait()
		if isAsked(lock.Revoked()) {
			t.Error("it was asked by a message that does not name it")
		}
		for range 3 {
			nodes.Clients()[0].Publish(t.Context(), channel, "revoke "+owner)
		}
		synctest.Wait()
		if !isAsked(lock.Revoked()) {
			t.Error("it was not asked by a message that names it")
		}
		mustRelease(t, lock)
		if n := redlock.RevocableHolds(l); n != 0 {
			t.Errorf("the Locker knows %d holds after the release; want none", n)
		}
		nodes.Clients()[0].Publish(t.Context(), channel, "revoke "+owner) // of a hold that is over
		synctest.Wait()
		wantNoLocks(t, nodes, "in the end")
	})
}

// A Locker that only holds says no more to the nodes than one without the option, but for
// the subscriptions; and Close ends those, and every call of Revoke: the bubble ends only
// when no goroutine is left.
func TestCloseEndsWhatRevocationRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := lockerOver(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		time.Sleep(time.Second)
		for _, key := range nodes.Node(0).Keys() {
			if strings.HasPrefix(key, "redlock:live:") || key == "redlock:waiting" {
				t.Errorf("a holder gives signs of life: %s", key)
			}
		}
		done := revokes(t, other, time.Hour)
		<-lock.Revoked()
		began := time.Now()
		must(t, other.Close())
		wantError(t, "Revoke of a Locker that closes", <-done, redlock.ErrClosed)
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v; want less than a second", took)
		}
		must(t, l.Close()) // with the hold
		wantError(t, "the hold", lock.Err(), redlock.ErrClosed)
		wantNoLocks(t, nodes, "in the end")
	})
}

// A subscription that breaks is made anew, and the message that was missed is sent again.
func TestAHolderWhoseSubscriptionsBreakIsStillAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		synctest.Wait()
		for _, n := range nodes.Nodes() { // the subscriptions stay broken for a while
			n.Intercept(func(args []string) redlocktest.Verdict {
				if strings.EqualFold(args[0], "subscribe") || strings.EqualFold(args[0], "ping") {
					return redlocktest.BreakBefore()
				}
				return redlocktest.Pass()
			})
		}
		time.Sleep(6 * time.Second) // a quiet one asks whether its node is there
		done := revokes(t, other, time.Minute)
		time.Sleep(5 * time.Second)
		if isAsked(lock.Revoked()) {
			t.Error("it was asked over subscriptions that are broken: the test shows nothing")
		}
		for _, n := range nodes.Nodes() {
			n.Intercept(nil)
		}
		<-lock.Revoked()
		mustRelease(t, lock)
		must(t, <-done)
	})
}

// A subscription that may not PING is answered by the refusal, and stays.
func TestASubscriptionThatMayNotPingStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		var asked atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if strings.EqualFold(args[0], "ping") {
					asked.Add(1)
					return redlocktest.ReplyError("NOPERM User redlock has no permissions to run the 'ping' command")
				}
				return redlocktest.Pass()
			})
		}
		time.Sleep(time.Minute)
		for _, n := range nodes.Nodes() {
			if calls := n.Calls("SUBSCRIBE"); calls != 1 {
				t.Errorf("%s: %d subscriptions were made; want 1", n.Name(), calls)
			}
		}
		if asked.Load() == 0 {
			t.Error("nobody was asked: the test shows nothing")
		}
		mustRelease(t, lock)
	})
}

// Short holds that can't be asked for follow each other: each look shows another one.
func TestRevokeSaysThatShortHoldsCantBeAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		warm(t, l)
		warm(t, other)
		time.Sleep(3 * time.Millisecond) // no look is at the moment between two holds
		var over atomic.Bool
		ended := make(chan int)
		go func() {
			holds := 0
			for ; !over.Load(); holds++ {
				if lock, err := l.Acquire(t.Context(), "orders/42"); err == nil {
					time.Sleep(10 * time.Millisecond)
					_ = lock.Release(t.Context())
				}
			}
			ended <- holds
		}()
		time.Sleep(5 * time.Millisecond)
		for range 5 {
			began := time.Now()
			wantError(t, "short holds", <-revokes(t, other, time.Minute), redlock.ErrNotRevocable)
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v; want less than a second", took)
			}
		}
		over.Store(true)
		if holds := <-ended; holds < 10 {
			t.Errorf("there were %d holds: the test shows nothing", holds)
		}
	})
}

// Where a name is held at every other look, no two show the same: the looks have pauses, and
// Close ends them.
func TestCloseEndsARevokeThatSeesNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		other := separateLocker(t, nodes, redlock.WithoutMembership()) // which looks at votes meanwhile
		began := nodes.Node(0).Calls("MGET")
		done := revokes(t, other, time.Hour)
		time.Sleep(10 * time.Millisecond)
		for held := range 100 {
			for i := range nodes.Nodes() {
				if held%2 == 0 {
					must(t, nodes.Clients()[i].Set(t.Context(), "orders/42", "other", time.Minute).Err())
				} else {
					must(t, nodes.Clients()[i].Del(t.Context(), "orders/42").Err())
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		if looks := nodes.Node(0).Calls("MGET") - began; looks < 100 || looks > 250 {
			t.Errorf("a node was sent %d MGETs in two seconds; want a look in 20 ms", looks)
		}
		closing := time.Now()
		must(t, other.Close())
		wantError(t, "Revoke of a Locker that closes", <-done, redlock.ErrClosed)
		if took := time.Since(closing); took > time.Second {
			t.Errorf("Close took %v; want less than a second", took)
		}
	})
}

// The context ends at every command, and at every few milliseconds between them, with a
// holder that ignores the request: all nodes are well, and no error says otherwise.
func TestAContextThatEndsIsNoMissingQuorum(t *testing.T) {
	testkit.Unraced(t)
	for name, fresh := range map[string]bool{"first call": true, "later call": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 5, redlock.WithTTL(20*time.Second))
				other := separateLocker(t, nodes)
				warm(t, other)
				lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
				synctest.Wait()
				ends := func(what string, n int, ctx context.Context) {
					asks := other
					if fresh {
						asks = separateLocker(t, nodes)
					}
					err := asks.Revoke(ctx, "orders/42")
					if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, redlock.ErrNoQuorum) {
						t.Errorf("%s %d: got %v; want the context's error alone", what, n, err)
					}
					if fresh {
						must(t, asks.Close())
					}
				}
				for k := int64(1); k <= 150; k++ {
					ctx, cancel := context.WithCancel(t.Context())
					var sent atomic.Int64
					for _, n := range nodes.Nodes() {
						n.Intercept(func([]string) redlocktest.Verdict {
							if sent.Add(1) == k {
								cancel()
							}
							return redlocktest.Pass()
						})
					}
					ends("command", int(k), ctx)
					cancel()
				}
				for _, n := range nodes.Nodes() {
					n.Intercept(nil)
				}
				for after := 1; after < 300; after += 7 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(after)*time.Millisecond)
					ends("millisecond", after, ctx)
					cancel()
				}
				must(t, lock.Err())
				mustRelease(t, lock)
			})
		})
	}
}
