package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// Who waits to share goes, or its nodes fail: nothing is left behind, and others go on.

// sharersOf are the processes in the line of those who want to share orders/42 on a node.
func sharersOf(n *redlocktest.Node) []string {
	line, _ := n.Miniredis().ZMembers("redlock:sharers:orders/42") // it fails where there is none
	return line
}

// leaves wants orders/42 beside others in a goroutine, and returns the end of its wait.
func leaves(t *testing.T, l *redlock.Locker) (<-chan locktest.Gained, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	return locktest.WantsUnder(ctx, l, redlock.WithShared()), cancel
}

func TestWhoStopsWaitingToShareLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		other := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, l, "orders/42")
		synctest.Wait()
		leader, end := leaves(t, other)
		second, endSecond := leaves(t, other)
		_, err := other.Acquire(t.Context(), "orders/42", redlock.WithShared(), redlock.WithWait(time.Second))
		locktest.WantError(t, "WithWait", err, context.DeadlineExceeded)
		locktest.WantError(t, "WithWait", err, redlock.ErrNotAcquired)
		end()
		locktest.WantError(t, "the leader's Acquire", (<-leader).Err, context.Canceled)
		time.Sleep(time.Second)
		if got := len(sharersOf(nodes.Node(0))); got != 1 {
			t.Errorf("%d stand in line when one of two has left; want their process", got)
		}
		endSecond()
		locktest.WantError(t, "the other's Acquire", (<-second).Err, context.Canceled)
		time.Sleep(time.Second)
		if keys := locktest.QueueKeys(nodes); keys != nil {
			t.Errorf("left behind: %v", keys)
		}
		locktest.MustRelease(t, lock)
		wantLinesEmpty(t, nodes)
	})
}

// One that leads its group stops waiting: another leads, at the same place.
func TestAnotherLeadsWhenTheLeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		readers := locktest.SeparateLocker(t, nodes)
		before := locktest.MustAcquire(t, readers, "orders/42") // who comes now stands in its Locker's line
		alone := locktest.Wants(t, l)
		leader, end := leaves(t, readers)
		follower, endFollower := leaves(t, readers)
		stays := standsToShare(t, readers)
		locktest.MustRelease(t, before)
		lock := locktest.Got(t, alone).Lock
		synctest.Wait() // they stand in line now
		writer := locktest.Wants(t, locktest.SeparateLocker(t, nodes))
		endFollower()
		locktest.WantError(t, "the follower's Acquire", (<-follower).Err, context.Canceled)
		end()
		locktest.WantError(t, "the leader's Acquire", (<-leader).Err, context.Canceled)
		synctest.Wait()
		now := time.Now()
		locktest.MustRelease(t, lock)
		synctest.Wait()
		locktest.WantWaiting(t, "behind who shares", writer)
		wantTogether(t, now, stays)
		locktest.MustRelease(t, locktest.Got(t, writer).Lock)
		wantLinesEmpty(t, nodes)
	})
}

func TestCloseEndsTheWaitToShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		other := locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42")
		all := []<-chan locktest.Gained{standsToShare(t, other), standsToShare(t, other), locktest.Wants(t, other), standsToShare(t, other)}
		behind := locktest.Wants(t, locktest.SeparateLocker(t, nodes))
		testkit.Must(t, other.Close())
		for i, from := range all {
			if g := <-from; !errors.Is(g.Err, redlock.ErrClosed) {
				t.Errorf("waiter %d: got %v, %v; want ErrClosed", i, g.Lock, g.Err)
			}
		}
		synctest.Wait()
		for i, n := range nodes.Nodes() {
			if line := sharersOf(n); line != nil {
				t.Errorf("node %d: %v stand in line after Close", i, line)
			}
		}
		now := time.Now()
		locktest.MustRelease(t, lock)
		synctest.Wait()
		wantTogether(t, now, behind)
		wantLinesEmpty(t, nodes)
	})
}

// An entry of ours is called for which nobody waits: it goes, and who stands behind it is called.
func TestAnEntryThatIsLeftBehindGoesWhenItIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		other := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, l) // else a node that a quorum does without does not have the hold
		lock := locktest.MustAcquire(t, l, "orders/42")
		synctest.Wait()
		waits, end := leaves(t, other)
		time.Sleep(time.Second)
		id := sharersOf(nodes.Node(2))[0]
		end()
		<-waits
		beside := locktest.MustAcquire(t, l, "orders/41") // other's sign of life goes on
		go func() { _, _ = other.Acquire(t.Context(), "orders/41", redlock.WithWait(time.Hour)) }()
		writer := locktest.Wants(t, locktest.SeparateLocker(t, nodes))
		for _, n := range nodes.Nodes() { // a late command puts it back
			_, err := n.Miniredis().ZAdd("redlock:sharers:orders/42", 1, id)
			testkit.Must(t, err)
		}
		now := time.Now()
		locktest.MustRelease(t, lock)
		if took := locktest.Got(t, writer).At.Sub(now); took > 100*time.Millisecond {
			t.Errorf("the writer had it %v after the release; want the entry that nobody waits by to go at once", took)
		}
		locktest.MustRelease(t, beside)
	})
}

// While a minority of the nodes is free, who is granted there gives it back. That calls
// nobody else who waits to share: they would call each other for ever.
func TestASharersRollbackWakesNoSharer(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		locktest.Warm(t, l)
		locktest.Stranger(t, nodes)
		var waiting []<-chan locktest.Gained
		for range 3 {
			waiting = append(waiting, standsToShare(t, locktest.SeparateLocker(t, nodes)))
		}
		var asks atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if locktest.ScriptOf(args) == "share" {
					asks.Add(1)
					time.Sleep(time.Millisecond)
				}
				return redlocktest.Pass()
			})
		}
		locktest.FreeName(nodes, 0, 1)
		for _, i := range []int{0, 1} {
			for _, id := range sharersOf(nodes.Node(2)) {
				testkit.Must(t, nodes.Clients()[i].Publish(t.Context(), "redlock:wake:"+id, "orders/42").Err())
			}
		}
		const seconds = 10
		time.Sleep(seconds * time.Second)
		locktest.WantWaiting(t, "on a minority", waiting...)
		if got := asks.Load(); got > 3*5*8+2*3*5*seconds { // a few pauses that double, then a look about each second
			t.Errorf("three who wait asked %d times in %ds; want them to rest", got, seconds)
		}
		locktest.FreeName(nodes, 2, 3, 4)
		for i, from := range waiting {
			g := locktest.Got(t, from)
			defer func() { locktest.MustRelease(t, g.Lock) }()
			if g.Lock == nil {
				t.Errorf("sharer %d has none", i)
			}
		}
	})
}

// Nodes forget all, one after another, while some wait to share and one to be alone: they stand
// in line again, in their order.
func TestWhoWaitsToShareStandsInLineAgainOnANodeThatForgot(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		other := func() *redlock.Locker { return locktest.SeparateLocker(t, nodes) }
		lock := locktest.MustAcquire(t, l, "orders/42")
		first := []<-chan locktest.Gained{standsToShare(t, other()), standsToShare(t, other())}
		writer := locktest.Wants(t, other())
		last := standsToShare(t, other())
		for _, i := range []int{0, 4} {
			nodes.Node(i).Restart()
			time.Sleep(2 * time.Second)
			if line := sharersOf(nodes.Node(i)); len(line) != 3 {
				t.Errorf("node %d has %v in line after it forgot; want all three", i, line)
			}
			time.Sleep(redlock.DefaultMaxTTL)
		}
		testkit.Must(t, lock.Err())
		now := time.Now()
		locktest.MustRelease(t, lock)
		synctest.Wait()
		locktest.WantWaiting(t, "behind who shares", writer, last)
		wantTogether(t, now, first...)
		for _, next := range []<-chan locktest.Gained{writer, last} {
			g := locktest.Got(t, next)
			if late := g.At.Sub(now); late > 100*time.Millisecond { // nodes that were freed one by one may split the first attempt
				t.Errorf("the next had it %v later; want it at once, or after a pause or two", late)
			}
			now = time.Now()
			locktest.MustRelease(t, g.Lock)
		}
		wantLinesEmpty(t, nodes)
	})
}

// The nodes' calls do not arrive: connections for them break in the moment of the release.
func TestWhoWaitsToShareIsFoundWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		lock := locktest.MustAcquire(t, l, "orders/42")
		waiting := []<-chan locktest.Gained{standsToShare(t, locktest.SeparateLocker(t, nodes)), standsToShare(t, locktest.SeparateLocker(t, nodes))}
		breakSubscriptions(nodes, 5)
		released := time.Now()
		locktest.MustRelease(t, lock)
		for i, from := range waiting {
			g := locktest.Got(t, from)
			if took := g.At.Sub(released); took > 1500*time.Millisecond {
				t.Errorf("sharer %d had it %v after the release; want it once it is subscribed again, or has looked", i, took)
			}
			defer locktest.MustRelease(t, g.Lock)
		}
	})
}

// A set that waits to share a name waits in line, as Acquire does.
func TestASetWaitsToShareInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		other := locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42")
		done := make(chan *redlock.MultiLock, 1)
		go func() {
			m, err := other.AcquireAll(t.Context(), []string{"orders/41", "orders/42", "orders/43"}, redlock.WithShared())
			if err != nil {
				t.Error(err)
			}
			done <- m
		}()
		synctest.Wait()
		writer := locktest.Wants(t, locktest.SeparateLocker(t, nodes))
		time.Sleep(5 * time.Second)
		if at := slices.IndexFunc(nodes.Nodes(), func(n *redlocktest.Node) bool { return len(sharersOf(n)) == 1 }); at < 0 {
			t.Error("the set does not stand in line")
		}
		now := time.Now()
		locktest.MustRelease(t, lock)
		m := <-done
		if m == nil {
			return
		}
		if took := time.Since(now); took != 0 {
			t.Errorf("the set had it %v after the release; want it called", took)
		}
		locktest.WantWaiting(t, "while the set shares", writer)
		testkit.Must(t, m.Release(t.Context()))
		locktest.MustRelease(t, locktest.Got(t, writer).Lock)
		wantLinesEmpty(t, nodes)
	})
}

// TryAcquire stands in no line, and goes where nobody waits to be alone, in this Locker either.
func TestATryToShareGoesWhereNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		held := locktest.Shares(t, l)
		try := func(want bool, when string) {
			t.Helper()
			synctest.Wait() // what was done before has reached node 0
			before := nodes.Node(0).Calls()
			lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared())
			if (err == nil) != want || err != nil && !errors.Is(err, redlock.ErrNotAcquired) {
				t.Fatalf("%s: got %v, %v; want it %v", when, lock, err, want)
			}
			if err == nil {
				locktest.MustRelease(t, lock)
			} else if sent := nodes.Node(0).Calls() - before; sent > 0 && strings.Contains(when, "of this Locker") {
				t.Errorf("%s: %d commands were sent; want none", when, sent)
			}
			synctest.Wait()
			for i, n := range nodes.Nodes() {
				if line := sharersOf(n); line != nil {
					t.Errorf("%s: node %d has %v in line", when, i, line)
				}
			}
		}
		try(true, "beside a shared hold")
		writer := locktest.Wants(t, l)
		try(false, "while one of this Locker waits to be alone")
		locktest.MustRelease(t, held)
		lock := locktest.Got(t, writer).Lock
		try(false, "beside an exclusive hold of this Locker")
		locktest.MustRelease(t, lock)
		try(true, "when it is free")
	})
}

// The entry goes with the release: that takes no command of its own.
func TestAReleaseTakesThePlaceAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, l)
		locktest.Warm(t, other)
		lock := locktest.MustAcquire(t, l, "orders/42")
		synctest.Wait() // all nodes have it
		waits := standsToShare(t, other)
		writer := locktest.Wants(t, locktest.SeparateLocker(t, nodes))
		locktest.MustRelease(t, lock)
		beside := locktest.Got(t, waits).Lock
		time.Sleep(time.Second)
		count := locktest.CountSent(nodes)
		now := time.Now()
		locktest.MustRelease(t, beside)
		g := locktest.Got(t, writer)
		if took := g.At.Sub(now); took != 0 {
			t.Errorf("the writer had it %v after the release; want it called", took)
		}
		synctest.Wait()
		for i := range nodes.Nodes() {
			if n := count(i, "release_shared"); n != 1 {
				t.Errorf("node %d: %d commands took the hold and its place; want one", i, n)
			}
		}
		locktest.MustRelease(t, g.Lock)
		wantLinesEmpty(t, nodes)
	})
}

// Of two who want to share, one has taken a place for both and given up. The other, whose
// first question was slow, is granted by that: it has no place, so the place goes.
func TestAPlaceGoesWhereTheLastOfItsGroupIsGrantedWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := locktest.NewLocker(t, 3)
		l := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, holder, "orders/42")
		synctest.Wait()
		slow := func(d time.Duration, which ...int) {
			for _, i := range which {
				nodes.Node(i).Intercept(locktest.Slowly("share", d))
			}
		}
		slow(10*time.Millisecond, 0, 1, 2)
		leader, end := leaves(t, l)
		other := locktest.Wants(t, l, redlock.WithShared()) // its question goes when the leader's is answered
		time.Sleep(5 * time.Millisecond)
		slow(0, 0)
		slow(100*time.Millisecond, 1, 2)
		time.Sleep(20 * time.Millisecond)
		if len(sharersOf(nodes.Node(0))) != 1 || len(leader)+len(other) != 0 {
			t.Fatal("node 0 knows of no place, or one of them is done: this test shows nothing")
		}
		end()
		locktest.WantError(t, "the leader", (<-leader).Err, context.Canceled)
		locktest.MustRelease(t, lock)
		beside := locktest.Got(t, other).Lock
		synctest.Wait()
		if keys := locktest.QueueKeys(nodes); keys != nil {
			t.Errorf("with the last of them granted: left in line: %v", keys)
		}
		locktest.MustRelease(t, beside)
		wantLinesEmpty(t, nodes)
	})
}

// stripeOn sets the counter of orders/42 on a node.
func stripeOn(n *redlocktest.Node, to int64) {
	n.Miniredis().HSet(lua.NodeKey, strconv.FormatInt(lua.StripeOf("orders/42"), 10), strconv.FormatInt(to, 10))
}

func TestTheTokenOfASharedHoldIsANumberThatAQuorumShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		last := locktest.MustAcquire(t, l, "orders/42")
		locktest.MustRelease(t, last)
		synctest.Wait()
		for i, n := range nodes.Nodes() {
			stripeOn(n, int64(last.Token())+int64(1000*i))
		}
		check := func(lock *redlock.Lock) {
			t.Helper()
			same := 0
			for _, n := range nodes.Nodes() {
				if number(t, n) == lock.Token() {
					same++
				}
			}
			if same < 3 {
				t.Errorf("token %v is the number on %d of 5 nodes; want a quorum", lock.Token(), same)
			}
		}
		first := locktest.Shares(t, l)
		check(first)
		second := locktest.Shares(t, locktest.SeparateLocker(t, nodes))
		check(second)
		if second.Token() < first.Token() {
			t.Errorf("shared tokens fall: %v, then %v", first.Token(), second.Token())
		}
		locktest.MustRelease(t, first)
		locktest.MustRelease(t, second)
		after := locktest.MustAcquire(t, l, "orders/42")
		if after.Token() <= second.Token() {
			t.Errorf("got token %v after %v", after.Token(), second.Token())
		}
		locktest.MustRelease(t, after)
	})
}

// Other names that have the same counter move it between the grants and the raise, which
// then answers with the number as it is: a further raise goes beyond the clock.
func TestARaiseThatOtherNamesOutranIsMadeAgain(t *testing.T) {
	for _, outrun := range []int{1, 4, 5} { // raises
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 5)
			last := locktest.MustAcquire(t, l, "orders/42")
			locktest.MustRelease(t, last)
			synctest.Wait()
			var raises atomic.Int64
			for i, n := range nodes.Nodes() {
				stripeOn(n, int64(last.Token())+int64(1000*i))
				left := outrun
				n.Intercept(func(args []string) redlocktest.Verdict {
					if len(args) > 1 && args[1] == lua.RaiseSharedScript.Hash {
						raises.Add(1)
						if left--; left >= 0 {
							to, _ := strconv.ParseInt(args[len(args)-2], 10, 64)
							stripeOn(n, to+1)
						}
					}
					return redlocktest.Pass()
				})
			}
			lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared())
			if outrun == 5 {
				if !errors.Is(err, redlock.ErrNotAcquired) || !strings.Contains(err.Error(), "without a settled token") {
					t.Errorf("five raises outrun: got %v, %v; want ErrNotAcquired that says so", lock, err)
				}
			} else {
				testkit.Must(t, err)
				if lock.Token() <= last.Token() {
					t.Errorf("got token %v after %v", lock.Token(), last.Token())
				}
				locktest.MustRelease(t, lock)
			}
			synctest.Wait()
			rounds := int64(min(outrun+1, 5))
			if least, most := 3*rounds-1, 5*rounds-1; raises.Load() < least || raises.Load() > most { // the largest grant needs none at first
				t.Errorf("%d raises outrun: %d were sent; want %d to %d", outrun, raises.Load(), least, most)
			}
			for i, n := range nodes.Nodes() {
				if left := locktest.Members(t, n); left != nil {
					t.Errorf("node %d keeps %v", i, left)
				}
			}
		})
	}
}

// A command that comes late, or whose reply is lost, leaves nothing behind that lasts.
func TestWhatASharedAttemptLeftInDoubtIsCleaned(t *testing.T) {
	for name, fate := range map[string]func() redlocktest.Verdict{
		"reply lost": redlocktest.LoseReply, "request lost": redlocktest.LoseRequest,
		"broken before": redlocktest.BreakBefore, "broken after": redlocktest.BreakAfter,
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 5)
			beside := locktest.Shares(t, locktest.SeparateLocker(t, nodes))
			locktest.Warm(t, l)
			synctest.Wait() // that share has reached all nodes
			for _, n := range nodes.Nodes()[:3] {
				var once atomic.Bool
				n.Intercept(func(args []string) redlocktest.Verdict {
					if len(args) > 1 && args[1] == lua.ShareScript.Hash && !once.Swap(true) {
						return fate()
					}
					return redlocktest.Pass()
				})
			}
			lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared())
			switch {
			case err == nil && name == "broken after": // it was made again, since nodes were seen not to vote
				locktest.MustRelease(t, lock)
			case !errors.Is(err, redlock.ErrNoQuorum):
				t.Fatalf("%s: got %v, %v; want ErrNoQuorum", name, lock, err)
			}
			time.Sleep(2 * time.Second)
			for i, n := range nodes.Nodes() {
				if got := locktest.Members(t, n); len(got) != 1 {
					t.Errorf("%s: node %d has the members %v; want the one beside only", name, i, got)
				}
			}
			testkit.Must(t, beside.Err())
			locktest.MustRelease(t, beside)
		})
	}
}

// A command that comes when its attempt was rolled back, and nobody shares any more.
func TestALateShareMeetsItsTombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		var late [2]atomic.Pointer[[]any]
		for i := range late {
			nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
				if len(args) > 1 && args[1] == lua.ShareScript.Hash {
					var all []any
					for _, a := range args {
						all = append(all, a)
					}
					late[i].Store(&all)
					return redlocktest.LoseRequest()
				}
				return redlocktest.Pass()
			})
		}
		if lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared()); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Fatalf("got %v, %v; want ErrNoQuorum", lock, err)
		}
		time.Sleep(2 * time.Second)
		for i := range late {
			nodes.Node(i).Intercept(nil)
			reply, err := nodes.Clients()[i].Do(t.Context(), *late[i].Load()...).Int64Slice()
			if err != nil || reply[0] != -1 {
				t.Errorf("node %d: the late command: got %v, %v; want -1, dead", i, reply, err)
			}
			if left := locktest.Members(t, nodes.Node(i)); left != nil {
				t.Errorf("node %d has %v", i, left)
			}
		}
	})
}

// Each grant comes with a reading of the node's clock, which its script takes. It costs no
// command, and shows a step that another's lease may have ended by.
func TestAShareIsFollowedByAReadingOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		for range 3 {
			locktest.MustRelease(t, locktest.Shares(t, l))
			synctest.Wait()
		}
		const pairs = 20
		commands, times := nodes.Node(0).Calls(), nodes.Node(0).Calls("TIME")
		for range pairs {
			locktest.MustRelease(t, locktest.Shares(t, l))
			synctest.Wait()
		}
		if got := nodes.Node(0).Calls("TIME") - times; got > 1 {
			t.Errorf("%d shared pairs: TIME %d times; want it read by the scripts", pairs, got)
		}
		if got := nodes.Node(0).Calls() - commands; got > 2*pairs+pairs/2 {
			t.Errorf("%d shared pairs: %d commands; want %d or so at most", pairs, got, 2*pairs)
		}
		for _, n := range nodes.Nodes()[:3] {
			n.Miniredis().SetTime(time.Now().Add(3 * time.Second))
		}
		_, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared())
		locktest.WantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		locktest.WantText(t, "TryAcquire", fmt.Sprint(err), "its clock stepped forward")
	})
}

// number is the generation's number of orders/42 on a node; 0: nobody shares it there.
func number(t *testing.T, n *redlocktest.Node) redlock.Token {
	t.Helper()
	if !n.Miniredis().Exists("orders/42") {
		return 0
	}
	score, err := n.Miniredis().ZScore("orders/42", lua.SharedMark)
	testkit.Must(t, err)
	return redlock.Token(-score)
}
