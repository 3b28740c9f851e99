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

	"github.com/quorumkit/redlock"
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

// revokes has a goroutine ask for orders/42, for so long.
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
		for i := range nodes.Len() {
			c := nodes.Client(i)
			must(t, c.Set(t.Context(), "orders/42", "fsdUq0f2v1Dm7cZtPw3yXg==", time.Minute).Err())
			must(t, c.HSet(t.Context(), "orders/43", "a", "b").Err())
		}
		wantError(t, "another client's lock", other.Revoke(t.Context(), "orders/42"), redlock.ErrNotRevocable)
		wantError(t, "another program's hash", other.Revoke(t.Context(), "orders/43"), redlock.ErrNotRevocable)
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
		must(t, nodes.Client(0).Del(t.Context(), "orders/42").Err())
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
		second := got(t, next).lock
		must(t, <-done) // the one that was meant is gone
		for i, n := range nodes.Nodes() {
			n.Intercept(nil)
			if heard := nodes.Client(i).Publish(t.Context(), message[1], message[2]).Val(); heard != 1 {
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

// Whatever is published to a Locker asks for nothing that it does not name.
func TestForgedMessagesAskForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation(), redlock.WithValue("v"))
		synctest.Wait()
		owner := nodes.Client(0).Get(t.Context(), "orders/42").Val()
		id := strings.Split(owner, "~")[1]
		channel := "redlock:wake:" + id
		for _, message := range []string{
			"revoke", "revoke ", "revoke orders/42", "revoke " + id, "revoke ~" + id + "~", "revoke v", "REVOKE " + owner, "revoke  " + owner,
			"revoke " + owner + " ", "revoke " + owner[:len(owner)-1], owner, "orders/42", "redlock:push\n" + owner,
		} {
			if n := nodes.Client(0).Publish(t.Context(), channel, message).Val(); n != 1 {
				t.Fatalf("%d heard %q; want 1", n, message)
			}
		}
		synctest.Wait()
		if isAsked(lock.Revoked()) {
			t.Error("it was asked by a message that does not name it")
		}
		for range 3 {
			nodes.Client(0).Publish(t.Context(), channel, "revoke "+owner)
		}
		synctest.Wait()
		if !isAsked(lock.Revoked()) {
			t.Error("it was not asked by a message that names it")
		}
		mustRelease(t, lock)
		if n := redlock.RevocableHolds(l); n != 0 {
			t.Errorf("the Locker knows %d holds after the release; want none", n)
		}
		nodes.Client(0).Publish(t.Context(), channel, "revoke "+owner) // of a hold that is over
		synctest.Wait()
		wantNoLocks(t, nodes, "in the end")
	})
}

func TestEachKindOfHoldCanBeAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithReentry())
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)

		outer := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
		inner, err := l.Acquire(outer.Context(), "orders/42", redlock.WithValue("inner"))
		must(t, err)
		synctest.Wait()
		done := revokes(t, other, time.Minute)
		<-outer.Revoked()
		<-inner.Revoked()
		mustRelease(t, outer)
		time.Sleep(3 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("got %v while a handle is left; want no end", err)
		default:
		}
		mustRelease(t, inner)
		must(t, <-done)

		a := mustAcquire(t, l, "orders/42", redlock.WithShared(), redlock.WithRevocation())
		b := mustAcquire(t, third, "orders/42", redlock.WithShared(), redlock.WithRevocation())
		synctest.Wait()
		done = revokes(t, other, time.Minute)
		<-a.Revoked()
		<-b.Revoked()
		mustRelease(t, a)
		time.Sleep(3 * time.Second)
		c := mustAcquire(t, l, "orders/42", redlock.WithShared(), redlock.WithRevocation())
		select {
		case err := <-done:
			t.Fatalf("got %v while one of two shares it still; want no end", err)
		default:
		}
		mustRelease(t, b)
		must(t, <-done) // though another shares it by now
		if isAsked(c.Revoked()) {
			t.Error("one that came later was asked")
		}
		plain := mustAcquire(t, third, "orders/42", redlock.WithShared())
		wantError(t, "one of two can't be asked", other.Revoke(t.Context(), "orders/42"), redlock.ErrNotRevocable)
		if isAsked(c.Revoked()) {
			t.Error("one was asked in vain: another can't be")
		}
		mustRelease(t, c)
		mustRelease(t, plain)
	})
}

func TestASetIsAskedForByEachOfItsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		names := []string{"orders/43", "orders/42", "orders/41"}
		plain := mustAcquireAll(t, l, names)
		if plain.Revoked() != nil {
			t.Error("got a channel of a set without the option; want nil")
		}
		must(t, plain.Release(t.Context()))
		for range 2 {
			m := mustAcquireAll(t, l, names, redlock.WithRevocation())
			synctest.Wait()
			done := revokes(t, other, time.Minute)
			<-m.Revoked()
			must(t, m.Err())
			must(t, m.Release(t.Context()))
			must(t, <-done)
		}

		// One that was asked for while the set still waits.
		blocker := mustAcquire(t, other, "orders/43")
		gained := wantsAll(t, t.Context(), l, names, redlock.WithRevocation())
		time.Sleep(time.Second)
		done := revokes(t, other, time.Minute)
		time.Sleep(time.Second)
		mustRelease(t, blocker)
		m := (<-gained).locks
		if !isAsked(m.Revoked()) {
			t.Error("the set does not know that it was asked for while it waited")
		}
		must(t, m.Release(t.Context()))
		must(t, <-done)
	})
}

func TestCampaignsCanBeAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder("web/"))
		other := separateLocker(t, nodes)
		told := observes(t, other)
		wantVacant(t, isTold(t, told, time.Second))
		ended := make(chan error, 1)
		go func() {
			ended <- l.Campaign(t.Context(), "jobs", func(_ context.Context, lock *redlock.Lock) error {
				<-lock.Revoked()
				return errWork
			}, redlock.WithRevocation(), redlock.WithValue("10.0.0.7"))
		}()
		if s := isTold(t, told, 2*time.Second); s.Value != "10.0.0.7" { // without the mark
			t.Errorf("the observer was told of %q; want the value", s.Value)
		}
		must(t, other.Revoke(t.Context(), "jobs"))
		wantError(t, "the campaign", <-ended, errWork)
	})
}

// Labels and values are shown as they were given, however the hold was come by.
func TestTheMarkIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder(strings.Repeat("h", 200)), redlock.WithTurns(1))
		other := separateLocker(t, nodes)
		value := strings.Repeat("v", 56) // the mark does not count
		_, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithRevocation(), redlock.WithValue(value+"v"))
		wantError(t, "a value that is too long", err, redlock.ErrInvalidOption)
		first := mustAcquire(t, other, "orders/42")
		var line []<-chan gained
		for range 3 { // a grant by a release, and hand-overs by its own
			line = append(line, wants(t, l, redlock.WithRevocation(), redlock.WithValue(value)))
		}
		time.Sleep(time.Second)
		mustRelease(t, first)
		for i, next := range line {
			lock := got(t, next).lock
			if got, want := shownValue(t, other), strings.Repeat("h", 200)+value+"#56#"; got != want {
				t.Errorf("hold %d: got %q; want %q", i, got, want)
			}
			in, err := other.Inspect(t.Context(), "orders/42")
			must(t, err)
			marked := 0
			for _, n := range in.Nodes {
				if n.Revocable {
					marked++
				}
			}
			if marked < in.Quorum {
				t.Errorf("hold %d is shown as one that can be asked for on %d nodes; want a quorum", i, marked)
			}
			done := revokes(t, other, time.Minute)
			<-lock.Revoked()
			mustRelease(t, lock)
			must(t, <-done)
		}
		shared := mustAcquire(t, l, "orders/42", redlock.WithShared(), redlock.WithRevocation())
		in, err := other.Inspect(t.Context(), "orders/42")
		must(t, err)
		if s := in.Sharers(); len(s) != 1 || !s[0].Revocable || len(s[0].Owner) != 200+36 {
			t.Errorf("got the sharers %+v; want one, without the mark", s)
		}
		mustRelease(t, shared)
		_, err = redlock.New(nodes.NewClients(), redlock.WithNodeNames(nodes.Names()...), redlock.WithHolder("a~AAAAAAAAAAAAAAAAAAAAAA~"))
		wantError(t, "a label that ends as the mark does", err, redlock.ErrInvalidOption)
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

// Each who has a slot is asked, and whoever waits for one is not. A slot's holder that
// can't be asked keeps all from being asked.
func TestHoldersOfSlotsAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder("web/"))
		other, third := separateLocker(t, nodes), separateLocker(t, nodes, redlock.WithHolder("cron/"))
		a := mustAcquire(t, l, "orders/42", redlock.WithLimit(3), redlock.WithRevocation(), redlock.WithValue("a"))
		b := mustAcquire(t, l, "orders/42", redlock.WithLimit(3), redlock.WithRevocation())
		plain := mustAcquire(t, third, "orders/42", redlock.WithLimit(3))
		synctest.Wait()

		err := other.Revoke(t.Context(), "orders/42")
		wantError(t, "one of three can't be asked", err, redlock.ErrNotRevocable)
		if !strings.Contains(err.Error(), "by cron/") {
			t.Errorf("got %v; want who can't be asked", err)
		}
		if isAsked(a.Revoked()) || isAsked(b.Revoked()) {
			t.Error("one was asked in vain: another can't be")
		}
		mustRelease(t, plain)
		c := mustAcquire(t, third, "orders/42", redlock.WithLimit(3), redlock.WithRevocation())
		next := wants(t, l, redlock.WithLimit(3), redlock.WithRevocation())
		synctest.Wait()

		in, err := other.Inspect(t.Context(), "orders/42")
		must(t, err)
		slots := in.Slots()
		for _, s := range slots {
			if !s.Revocable || strings.Contains(s.Owner, "~") {
				t.Errorf("slot %d is shown as %+v; want one that can be asked for, without the mark", s.Slot, s)
			}
		}
		if len(slots) != 3 {
			t.Errorf("got %d slots; want 3", len(slots))
		}
		done := revokes(t, other, time.Minute)
		for _, lock := range []*redlock.Lock{a, b, c} {
			<-lock.Revoked()
		}
		mustRelease(t, a)
		later := got(t, next).lock // has the slot of one that was asked
		mustRelease(t, b)
		time.Sleep(3 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("got %v while one of three holds on; want no end", err)
		default:
		}
		mustRelease(t, c)
		must(t, <-done)
		if isAsked(later.Revoked()) {
			t.Error("one that came later was asked")
		}
		mustRelease(t, later)
		wantError(t, "nobody has a slot", other.Revoke(t.Context(), "orders/42"), redlock.ErrNotHeld)
	})
}

// A node that shows who holds the name alone, but not who has its slots, counts for nothing.
func TestANodeThatKeepsItsSlotsToItselfSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithLimit(2), redlock.WithRevocation())
		synctest.Wait()
		for _, n := range nodes.Nodes()[:2] {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if strings.EqualFold(args[0], "mget") && strings.HasPrefix(args[1], "redlock:slot:") {
					return redlocktest.ReplyError("NOPERM no permissions to access one of the keys")
				}
				return redlocktest.Pass()
			})
		}
		wantError(t, "two nodes of three", other.Revoke(t.Context(), "orders/42"), redlock.ErrNoQuorum)
		for _, n := range nodes.Nodes() {
			n.Intercept(nil)
		}
		done := revokes(t, other, time.Minute)
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
