package queue_test

import (
	"context"
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
	"github.com/quorumkit/redlock/internal/tokenctx"
	"github.com/quorumkit/redlock/redlocktest"
)

// One whose connections are closed: it is called in vain, and so is not asked to
// wait for. While its last sign of life stands it may be one that lives.
func TestADeadHeadIsPassedOver(t *testing.T) {
	for what, tt := range map[string]struct {
		before      time.Duration // the release
		least, most time.Duration
		takesGrants bool
	}{
		"it died just now":                                   {0, locktest.Shortened, locktest.InVain, false},
		"its sign of life has just gone":                     {3500 * time.Millisecond, 0, 0, false},
		"it died just now, and could be granted":             {0, locktest.Shortened, locktest.InVain, true},
		"its sign of life has gone, and it could be granted": {3500 * time.Millisecond, 0, 0, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := locktest.NewLocker(t, 3)
				other := locktest.SeparateLocker(t, nodes)
				lock := locktest.MustAcquire(t, l, "orders/42")
				id := locktest.Ghost(t, nodes)
				for _, n := range nodes.Nodes() {
					if tt.takesGrants {
						_, err := n.Miniredis().ZAdd("redlock:queue:orders/42", 1, id+" 00000000-0000-4000-8000-000000000000")
						testkit.Must(t, err)
					}
				}
				next := locktest.Wants(t, other)
				time.Sleep(tt.before)
				released := time.Now()
				locktest.MustRelease(t, lock)
				if d := locktest.Got(t, next).At.Sub(released); d < tt.least || d > tt.most {
					t.Errorf("the next had it after %v; want %v to %v", d, tt.least, tt.most)
				}
			})
		})
	}
}

// standsFirst leaves an entry for orders/42 on the node, of the process that waits for orders/41.
func standsFirst(t *testing.T, n *redlocktest.Node) {
	t.Helper()
	stands, err := n.Miniredis().ZMembers("redlock:queue:orders/41")
	_, failed := n.Miniredis().ZAdd("redlock:queue:orders/42", 1, strings.Fields(stands[0])[0])
	testkit.Must(t, err, failed)
}

// One node has an entry of a process that waits for another name only. With two of five down,
// that node alone keeps the name from all others. They call the process again.
func TestAnEntryThatNobodyWaitsByOnOneNodeOfThreeGoes(t *testing.T) {
	for what, opts := range map[string][]redlock.AcquireOption{"alone": nil, "shared": {redlock.WithShared()}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := locktest.NewLocker(t, 5)
				gone := locktest.SeparateLocker(t, nodes)
				locktest.Warm(t, l)
				lock, beside := locktest.MustAcquire(t, l, "orders/42", opts...), locktest.MustAcquire(t, l, "orders/41")
				_, err := gone.Acquire(t.Context(), "orders/42", redlock.WithWait(time.Second))
				locktest.WantError(t, "the Acquire that leaves an entry", err, redlock.ErrNotAcquired)
				go func() { _, _ = gone.Acquire(t.Context(), "orders/41", redlock.WithWait(time.Hour)) }()
				time.Sleep(time.Second)
				nodes.Node(3).Stop()
				nodes.Node(4).Stop()
				locktest.MustRelease(t, lock)
				standsFirst(t, nodes.Node(2))
				began := time.Now()
				lock = locktest.MustAcquire(t, locktest.SeparateLocker(t, nodes), "orders/42", append(opts, redlock.WithWait(time.Minute))...)
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it had the name after %v; want the entry gone when it was called again", took)
				}
				locktest.MustRelease(t, lock)
				locktest.MustRelease(t, beside)
			})
		})
	}
}

// One whose connections stand and who does not ask: stopped, cut off, or killed
// when it was called.
func TestASilentHeadIsPassedOverASecondAfterItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		for _, client := range nodes.NewClients() {
			s := client.Subscribe(t.Context(), "redlock:wake:ghost")
			_, err := s.Receive(t.Context())
			testkit.Must(t, err)
			t.Cleanup(func() { _ = s.Close() })
		}
		lock := locktest.MustAcquire(t, l, "orders/42")
		locktest.Ghost(t, nodes)
		next := locktest.Wants(t, other)
		released := time.Now()
		locktest.MustRelease(t, lock)
		if d := locktest.Got(t, next).At.Sub(released); d < locktest.Shortened || d > locktest.InVain {
			t.Errorf("the next had it after %v; want %v to %v", d, locktest.Shortened, locktest.InVain)
		}
	})
}

// shorten does to a sign of life what a call does, whether it is heard or not.
func shorten(t *testing.T, n *redlocktest.Node) (id string) {
	t.Helper()
	keys := locktest.LiveKeys(n)
	if len(keys) != 1 {
		t.Fatalf("signs of life: %v; want one", keys)
	}
	n.Miniredis().SetTTL(keys[0], locktest.Shortened)
	return keys[0][len("redlock:live:"):]
}

// A process waits for one name, and is called for another one, that it does not
// want: it stays in line for the first, so its sign of life must not end.
func TestACallEndsNoSignOfLifeOfOneThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		lock := locktest.MustAcquire(t, l, "orders/42")
		next := locktest.Wants(t, locktest.SeparateLocker(t, nodes))
		time.Sleep(100 * time.Millisecond) // after a sign of life, and long before the next
		for range 5 {
			for _, n := range nodes.Nodes() {
				n.Miniredis().Publish("redlock:wake:"+shorten(t, n), "another")
			}
			for range 110 {
				time.Sleep(10 * time.Millisecond)
				for i, n := range nodes.Nodes() {
					if len(locktest.LiveKeys(n)) == 0 {
						t.Fatalf("node %d has no sign of life of one that waits", i)
					}
				}
			}
		}
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, next).Lock)
	})
}

// Who waits says that it lives in time without that; nobody else has anything to say.
func TestACallBringsNoSignOfLifeOfOneThatDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.MustAcquire(t, l, "orders/42")
		other := locktest.SeparateLocker(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { _, err := other.Acquire(ctx, "orders/42"); ended <- err }()
		time.Sleep(500 * time.Millisecond)
		id := locktest.LiveKeys(nodes.Node(0))[0][len("redlock:live:"):]
		locktest.WantError(t, "Acquire", <-ended, redlock.ErrNotAcquired)
		time.Sleep(10 * time.Second) // the last one has ended
		for range 20 {
			for i, n := range nodes.Nodes() {
				if n.Miniredis().Publish("redlock:wake:"+id, "orders/42") != 1 {
					t.Fatalf("node %d has no subscriber; want the call heard", i)
				}
				if keys := locktest.LiveKeys(n); len(keys) > 0 {
					t.Fatalf("node %d: got %v; want no sign of life", i, keys)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// A call into a connection that is broken, which only the node knows. The next sign
// of life finds that there was a call, and has the node looked at.
func TestACallInVainIsFoundByTheNextSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		locktest.MustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		next := locktest.Wants(t, other)
		time.Sleep(600 * time.Millisecond) // the next sign of life comes before this one has ended
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
			shorten(t, n)
		}
		released := time.Now()
		if d := locktest.Got(t, next).At.Sub(released); d > time.Second {
			t.Errorf("the next had it after %v; want a sign of life a second", d)
		}
	})
}

// What a pass leaves behind whose request or reply was lost: nothing of the old holder, and
// nothing of the new one once it has released.
func TestALostPassLeavesNothingBehind(t *testing.T) {
	for what, lost := range map[string]redlocktest.Verdict{"the requests": redlocktest.LoseRequest(), "the replies": redlocktest.LoseReply()} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := locktest.NewLocker(t, 5)
				locktest.Warm(t, l)
				lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithFixedLease()) // nothing is put right by a renewal
				next := locktest.Wants(t, l, redlock.WithFixedLease())
				old, err := nodes.Node(0).Miniredis().Get("orders/42")
				testkit.Must(t, err)
				some := nodes.Nodes()[3:]
				for _, n := range some {
					n.Intercept(locktest.OnScripts("pass", lost))
				}
				testkit.Must(t, lock.Release(t.Context()))
				lock = locktest.Got(t, next).Lock
				time.Sleep(time.Second)
				for _, n := range some {
					if owner, _ := n.Miniredis().Get("orders/42"); owner == old {
						t.Errorf("%s still has the old holder's key", n.Name())
					}
					n.Intercept(nil)
				}
				owner, err := nodes.Node(0).Miniredis().Get("orders/42")
				testkit.Must(t, err)
				testkit.Must(t, lock.Release(t.Context()))
				time.Sleep(time.Second)
				locktest.WantNoLocks(t, nodes, "after the second release")
				for _, n := range some {
					if !n.Miniredis().Exists(lua.TombstoneKey + owner) {
						t.Errorf("%s has no tombstone of the new holder; want one: the pass may still come", n.Name())
					}
				}
			})
		})
	}
}

// A re-seed that is due behind the release is not sent.
func TestALockThatIsReleasedIsNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		synctest.Wait()
		nodes.Node(0).Miniredis().Del("orders/42")
		nodes.Node(0).Intercept(locktest.Slowly("extend", 100*time.Millisecond))
		testkit.Must(t, lock.Extend(t.Context(), redlock.DefaultTTL)) // by the two others
		testkit.Must(t, lock.Release(t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		locktest.WantNoLocks(t, nodes, "after the release")
	})
}

// The token is what the nodes counted, in all that says it: also where that is not what the
// attempt suggested, and behind a pass.
func TestTheTokenIsTheNumberOnTheNodesWhereverItIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = 1 << 52 // of what the clock suggests
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		stripe := strconv.FormatInt(lua.StripeOf("orders/42"), 10)
		for _, n := range nodes.Nodes() {
			n.Miniredis().HSet(lua.NodeKey, stripe, strconv.Itoa(ahead))
		}
		lock := locktest.MustAcquire(t, l, "orders/42")
		next := locktest.Wants(t, l)
		wantToken(t, nodes, lock, stripe, ahead+1)
		testkit.Must(t, lock.Release(t.Context()))
		lock = locktest.Got(t, next).Lock
		synctest.Wait()
		wantToken(t, nodes, lock, stripe, ahead+2)

		nodes.Node(0).Miniredis().Del("orders/42")
		nodes.Node(0).Miniredis().HDel(lua.NodeKey, stripe)
		testkit.Must(t, lock.Extend(t.Context(), redlock.DefaultMaxTTL)) // which puts it back
		synctest.Wait()
		wantToken(t, nodes, lock, stripe, ahead+2)
		locktest.MustRelease(t, lock)
	})
}

func wantToken(t *testing.T, nodes *redlocktest.Cluster, lock *redlock.Lock, stripe string, want uint64) {
	t.Helper()
	if got := lock.Token(); got != redlock.Token(want) {
		t.Errorf("Token: got %d; want %d", got, want)
	}
	if got, ok := tokenctx.From(lock.Context(), "orders/42"); !ok || got != want {
		t.Errorf("the context's token: got %d, %t; want %d", got, ok, want)
	}
	for _, n := range nodes.Nodes() {
		if got := n.Miniredis().HGet(lua.NodeKey, stripe); got != strconv.FormatUint(want, 10) {
			t.Errorf("%s counts %q; want %d", n.Name(), got, want)
		}
	}
}

// A node that is slower than the goroutines hand the lock on must not lose it on
// the way: after a turn the lock would rest on a bare quorum.
func TestALockThatIsHandedOnStaysOnASlowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithFixedLease()) // nothing is put back by a renewal
		var line []<-chan locktest.Gained
		for range 4 {
			line = append(line, locktest.Wants(t, l, redlock.WithFixedLease()))
		}
		nodes.Node(4).Intercept(locktest.Slowly("pass", 50*time.Millisecond))
		for _, next := range line {
			testkit.Must(t, lock.Release(t.Context()))
			lock = locktest.Got(t, next).Lock
		}
		time.Sleep(time.Second)
		want, err := nodes.Node(0).Miniredis().Get("orders/42")
		testkit.Must(t, err)
		for i, n := range nodes.Nodes() {
			if got, _ := n.Miniredis().Get("orders/42"); got != want {
				t.Errorf("node %d: got %q; want the last holder's value %q", i, got, want)
			}
		}
		testkit.Must(t, lock.Release(t.Context()))
		time.Sleep(time.Second)
		for i, n := range nodes.Nodes() {
			if n.Miniredis().Exists("orders/42") {
				t.Errorf("node %d still has the key after the release", i)
			}
		}
	})
}

// What is asked of a claim travels behind the hand-over that brings it, also where
// both have waited for the node.
func TestAnExtensionFollowsTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		lock := handOnPastSlowNodes(t, l, nodes)
		testkit.Must(t, lock.Extend(t.Context(), 20*time.Second))
		time.Sleep(time.Second)
		for i, n := range nodes.Nodes() {
			if left := n.Miniredis().TTL("orders/42"); left < 15*time.Second {
				t.Errorf("node %d keeps it for %v; want some 20 s", i, left)
			}
		}
		locktest.MustRelease(t, lock)
	})
}

// A node confirms a release when it has nothing of the lock any more: where the
// hand-over has not come yet, what it was to be handed over from has to go first.
func TestAReleaseIsNotConfirmedByWhatAHandOverHasYetToTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		lock := handOnPastSlowNodes(t, l, nodes)
		for _, i := range []int{1, 2} {
			nodes.Node(i).Intercept(locktest.Slowly("release", 100*time.Millisecond))
		}
		locktest.MustRelease(t, lock)
		wantReleased(t, nodes)
	})
}

// wantReleased wants a quorum without the key at once, and all nodes a second later.
func wantReleased(t *testing.T, nodes *redlocktest.Cluster) {
	t.Helper()
	held := 0
	for _, n := range nodes.Nodes() {
		if n.Miniredis().Exists("orders/42") {
			held++
		}
	}
	if held > 2 {
		t.Errorf("the release is confirmed, and %d of 5 nodes have the key; want a quorum without", held)
	}
	time.Sleep(time.Second)
	locktest.WantNoLocks(t, nodes, "in the end")
}

// handOnPastSlowNodes hands a lock on twice while the first hand-over is still
// on its way to nodes 3 and 4: the second waits there.
func handOnPastSlowNodes(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster) *redlock.Lock {
	t.Helper()
	locktest.Warm(t, l)
	lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithFixedLease())
	first, second := locktest.Wants(t, l, redlock.WithFixedLease()), locktest.Wants(t, l, redlock.WithFixedLease())
	for _, i := range []int{3, 4} {
		nodes.Node(i).Intercept(locktest.Slowly("pass", 20*time.Millisecond))
	}
	for _, next := range []<-chan locktest.Gained{first, second} {
		testkit.Must(t, lock.Release(t.Context()))
		lock = locktest.Got(t, next).Lock
	}
	return lock
}

// A node that refused the hand-over has the key that it was to be handed over from,
// until that one's release was answered: the new lock is not gone from it before.
func TestAReleaseIsNotConfirmedByANodeThatRefusedTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		next := locktest.Wants(t, l, redlock.WithFixedLease())
		for i, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				switch name := locktest.ScriptOf(args); {
				case i >= 3 && name == "pass":
					return redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'.")
				case i >= 1 && strings.HasPrefix(name, "release"):
					time.Sleep(100 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
		}
		go func() { _ = lock.Release(t.Context()) }()
		locktest.MustRelease(t, locktest.Got(t, next).Lock)
		wantReleased(t, nodes)
	})
}

// A round that is lost gives back what it was granted, while its reason is still
// open. A hint in that moment must not have a node asked again: with two more
// grants, one that is given back would count towards the quorum.
func TestAGrantThatWasGivenBackIsNeverCountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		locktest.Warm(t, l)
		locktest.Stranger(t, nodes)
		next := locktest.Wants(t, l)
		locktest.FreeName(nodes, 0)
		for _, i := range []int{2, 3} {
			nodes.Node(i).Intercept(locktest.OnScripts("ask", redlocktest.ReplyError("OOM no room")))
		}
		nodes.Node(4).Intercept(locktest.OnScripts("ask", redlocktest.LoseRequest()))
		locktest.CallWaiters(t, nodes, 0)
		time.Sleep(20 * time.Millisecond) // one granted, one taken, two failed, one is silent
		nodes.Node(2).Intercept(nil)
		locktest.FreeName(nodes, 1, 2)
		locktest.CallWaiters(t, nodes, 1, 2)
		g := locktest.Got(t, next)
		owned := 0
		for _, on := range locktest.Holders(nodes) {
			if !slices.Contains(on, 3) {
				owned = len(on)
			}
		}
		if owned < 3 {
			t.Errorf("it has the lock by %d nodes of five: %v", owned, locktest.Holders(nodes))
		}
		locktest.MustRelease(t, g.Lock)
	})
}

// An ask that comes after its process has left, as from a node that was stopped,
// must not put it in line again: nobody would come when it is called.
func TestAnAskThatComesLateRecordsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		locktest.Stranger(t, nodes)
		left := locktest.Wants(t, l, redlock.WithWait(time.Second))
		time.Sleep(700 * time.Millisecond)
		nodes.Node(0).Intercept(locktest.Slowly("ask", 2*redlock.DefaultNodeTimeout))
		locktest.CallWaiters(t, nodes, 0)
		locktest.WantError(t, "Acquire", (<-left).Err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		if keys := locktest.QueueKeys(nodes); keys != nil {
			t.Errorf("it has left, and stands in line: %v", keys)
		}
	})
}

// A call that comes while the ask to its node is out, in a round that the others
// end, begins the next: that reply may be older than the call.
func TestACallThatOutlivesItsRoundBeginsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		locktest.Stranger(t, nodes)
		next := locktest.Wants(t, l)
		nodes.Node(0).Intercept(locktest.Slowly("ask", redlock.DefaultNodeTimeout))
		locktest.CallWaiters(t, nodes, 0)
		time.Sleep(time.Millisecond)
		locktest.CallWaiters(t, nodes, 0)
		time.Sleep(2 * time.Millisecond) // the others were asked, and refused
		locktest.FreeName(nodes, 0, 1, 2)
		time.Sleep(100 * time.Millisecond)
		select {
		case g := <-next:
			testkit.Must(t, g.Err)
			locktest.MustRelease(t, g.Lock)
		default:
			t.Error("it was called, and waits for its next look")
			locktest.MustRelease(t, locktest.Got(t, next).Lock)
		}
	})
}

// An ask without a reply may still come, also after the reply to a later one of the
// same attempt: what that one was granted is given back with a tombstone.
func TestADoubtAboutAnAskOutlivesTheReplyToTheNext(t *testing.T) {
	for name, second := range map[string]redlocktest.Verdict{
		"granted": redlocktest.Pass(), "sent once more": redlocktest.ReplyError("NOSCRIPT No matching script."),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { doubtedAsk(t, second) })
		})
	}
}

// doubtedAsk loses the first ask to a node, brings the second to that end, and
// checks that the node's grant is given back.
func doubtedAsk(t *testing.T, second redlocktest.Verdict) {
	t.Helper()
	l, nodes := locktest.NewLocker(t, 3)
	locktest.Warm(t, l)
	locktest.Stranger(t, nodes)
	next := locktest.Wants(t, l, redlock.WithWait(5*time.Second))
	doubted := nodes.Node(0)
	time.Sleep(10 * time.Millisecond) // a node that breaks now is asked again by the attempt that began before
	locktest.FreeName(nodes, 0)
	for _, i := range []int{1, 2} {
		nodes.Node(i).Intercept(locktest.Slowly("ask", redlock.DefaultNodeTimeout*4/5))
	}
	var asks atomic.Int64
	doubted.Intercept(func(args []string) redlocktest.Verdict {
		if locktest.ScriptOf(args) == "ask" {
			switch asks.Add(1) {
			case 1:
				return redlocktest.BreakBefore()
			case 2:
				return second
			}
		}
		return redlocktest.Pass()
	})
	owner := ""
	for range 20 {
		locktest.CallWaiters(t, nodes, 0)
		time.Sleep(time.Millisecond)
		if owner, _ = doubted.Miniredis().Get("orders/42"); owner != "" {
			break
		}
	}
	if owner == "" {
		t.Fatalf("the node was asked %d times, and did not grant", asks.Load())
	}
	time.Sleep(redlock.DefaultNodeTimeout) // the others have refused
	if now, _ := doubted.Miniredis().Get("orders/42"); now == owner {
		t.Fatal("the grant was not given back")
	}
	if !doubted.Miniredis().Exists("redlock:dead:" + owner) {
		t.Error("it was given back without a tombstone; want one: the first ask may still come")
	}
	locktest.WantError(t, "Acquire", (<-next).Err, context.DeadlineExceeded)
}

// The hints of a bare quorum are enough to win. A lock that rested on these nodes
// only would be lost with the first of them.
func TestALockThatWasWaitedForRestsOnAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		locktest.Warm(t, l)
		locktest.Stranger(t, nodes)
		next := locktest.Wants(t, l)
		locktest.FreeName(nodes, 0, 1, 2, 3, 4)
		locktest.CallWaiters(t, nodes, 0, 1, 2)
		g := locktest.Got(t, next)
		synctest.Wait()
		for _, on := range locktest.Holders(nodes) {
			if len(on) != 5 {
				t.Errorf("it is held on the nodes %v; want all five", on)
			}
		}
		locktest.MustRelease(t, g.Lock)
	})
}
