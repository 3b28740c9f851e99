package redlock_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/tokenctx"
	"github.com/quorumkit/redlock/redlocktest"
)

// How long a sign of life stands (lua/ask.lua); what a call leaves of it
// (lua/release.lua), and that and a look.
const (
	lives     = 3 * time.Second
	shortened = 700 * time.Millisecond
	aSecond   = shortened + 300*time.Millisecond
)

// One whose connections are closed: it is called in vain, and so is not asked to
// wait for. While its last sign of life stands it may be one that lives.
func TestADeadHeadIsPassedOver(t *testing.T) {
	for what, tt := range map[string]struct {
		before      time.Duration // the release
		least, most time.Duration
		takesGrants bool
	}{
		"it died just now":                                   {0, shortened, aSecond, false},
		"its sign of life has just gone":                     {3500 * time.Millisecond, 0, 0, false},
		"it died just now, and could be granted":             {0, shortened, aSecond, true},
		"its sign of life has gone, and it could be granted": {3500 * time.Millisecond, 0, 0, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				other := separateLocker(t, nodes)
				lock := mustAcquire(t, l, "orders/42")
				id := ghost(t, nodes)
				for _, n := range nodes.Nodes() {
					if tt.takesGrants {
						_, err := n.Miniredis().ZAdd("redlock:queue:orders/42", 1, id+" 00000000-0000-4000-8000-000000000000")
						must(t, err)
					}
				}
				next := wants(t, other)
				time.Sleep(tt.before)
				released := time.Now()
				mustRelease(t, lock)
				if d := got(t, next).at.Sub(released); d < tt.least || d > tt.most {
					t.Errorf("the next had it after %v; want %v to %v", d, tt.least, tt.most)
				}
			})
		})
	}
}

// One whose connections stand and who does not ask: stopped, cut off, or killed
// when it was called.
func TestASilentHeadIsPassedOverASecondAfterItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		for _, client := range nodes.NewClients() {
			s := client.Subscribe(t.Context(), "redlock:wake:ghost")
			_, err := s.Receive(t.Context())
			must(t, err)
			t.Cleanup(func() { _ = s.Close() })
		}
		lock := mustAcquire(t, l, "orders/42")
		ghost(t, nodes)
		next := wants(t, other)
		released := time.Now()
		mustRelease(t, lock)
		if d := got(t, next).at.Sub(released); d < shortened || d > aSecond {
			t.Errorf("the next had it after %v; want %v to %v", d, shortened, aSecond)
		}
	})
}

// liveKeys are the signs of life on a node.
func liveKeys(n *redlocktest.Node) (keys []string) {
	for _, key := range n.Keys() {
		if len(key) > len("redlock:live:") && key[:len("redlock:live:")] == "redlock:live:" {
			keys = append(keys, key)
		}
	}
	return keys
}

// shorten does to a sign of life what a call does, whether it is heard or not.
func shorten(t *testing.T, n *redlocktest.Node) (id string) {
	t.Helper()
	keys := liveKeys(n)
	if len(keys) != 1 {
		t.Fatalf("signs of life: %v; want one", keys)
	}
	n.Miniredis().SetTTL(keys[0], shortened)
	return keys[0][len("redlock:live:"):]
}

// A process waits for one name, and is called for another one, that it does not
// want: it stays in line for the first, so its sign of life must not end.
func TestACallEndsNoSignOfLifeOfOneThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42")
		next := wants(t, separateLocker(t, nodes))
		time.Sleep(100 * time.Millisecond) // after a sign of life, and long before the next
		for range 5 {
			for _, n := range nodes.Nodes() {
				n.Miniredis().Publish("redlock:wake:"+shorten(t, n), "another")
			}
			for range 110 {
				time.Sleep(10 * time.Millisecond)
				for i, n := range nodes.Nodes() {
					if len(liveKeys(n)) == 0 {
						t.Fatalf("node %d has no sign of life of one that waits", i)
					}
				}
			}
		}
		mustRelease(t, lock)
		mustRelease(t, got(t, next).lock)
	})
}

// Who waits says that it lives in time without that; nobody else has anything to say.
func TestACallBringsNoSignOfLifeOfOneThatDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		mustAcquire(t, l, "orders/42")
		other := separateLocker(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { _, err := other.Acquire(ctx, "orders/42"); ended <- err }()
		time.Sleep(500 * time.Millisecond)
		id := liveKeys(nodes.Node(0))[0][len("redlock:live:"):]
		wantError(t, "Acquire", <-ended, redlock.ErrNotAcquired)
		time.Sleep(10 * time.Second) // the last one has ended
		for range 20 {
			for i, n := range nodes.Nodes() {
				if n.Miniredis().Publish("redlock:wake:"+id, "orders/42") != 1 {
					t.Fatalf("node %d has no subscriber; want the call heard", i)
				}
				if keys := liveKeys(n); len(keys) > 0 {
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
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		next := wants(t, other)
		time.Sleep(600 * time.Millisecond) // the next sign of life comes before this one has ended
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
			shorten(t, n)
		}
		released := time.Now()
		if d := got(t, next).at.Sub(released); d > time.Second {
			t.Errorf("the next had it after %v; want a sign of life a second", d)
		}
	})
}

// Anyone who learns that a lock has ended, by Done, Err or a Release of his own,
// finds its name free for the Locker's next acquire. Here the name can't become
// free for a while, so that nobody may learn of the end meanwhile.
func TestNobodySeesTheEndBeforeTheNameIsFree(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	l := separateLocker(t, nodes)
	lock := mustAcquire(t, l, "orders/42")
	var seen sync.WaitGroup
	saw := make(chan string, 4)
	see := func(how string, end func()) {
		seen.Go(func() {
			end()
			saw <- how
		})
	}
	free := redlock.KeepNames(l)
	done := lock.Done()
	see("Done", func() { <-done })
	see("Release", func() { _ = lock.Release(t.Context()) })
	pollUntil(t, 5*time.Second, "the release has been sent", func() bool { return len(locksOn(nodes.Node(0))) == 0 })
	see("Err", func() { _ = lock.Err() })
	see("a second Release", func() { _ = lock.Release(t.Context()) })
	pause(20 * time.Millisecond) // long enough for all of them to learn too early
	early := len(saw)
	free()
	seen.Wait()
	for range early {
		t.Errorf("%s told the end while the name was still taken", <-saw)
	}
	next, err := l.TryAcquire(t.Context(), "orders/42")
	must(t, err)
	mustRelease(t, next)
}

// What a pass leaves behind whose request or reply was lost: nothing of the old holder, and
// nothing of the new one once it has released.
func TestALostPassLeavesNothingBehind(t *testing.T) {
	for what, lost := range map[string]redlocktest.Verdict{"the requests": redlocktest.LoseRequest(), "the replies": redlocktest.LoseReply()} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 5)
				warm(t, l)
				lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease()) // nothing is put right by a renewal
				next := wants(t, l, redlock.WithFixedLease())
				old, err := nodes.Node(0).Miniredis().Get("orders/42")
				must(t, err)
				some := nodes.Nodes()[3:]
				for _, n := range some {
					n.Intercept(onScripts("pass", lost))
				}
				must(t, lock.Release(t.Context()))
				lock = got(t, next).lock
				time.Sleep(time.Second)
				for _, n := range some {
					if owner, _ := n.Miniredis().Get("orders/42"); owner == old {
						t.Errorf("%s still has the old holder's key", n.Name())
					}
					n.Intercept(nil)
				}
				owner, err := nodes.Node(0).Miniredis().Get("orders/42")
				must(t, err)
				must(t, lock.Release(t.Context()))
				time.Sleep(time.Second)
				wantNoLocks(t, nodes, "after the second release")
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
		l, nodes := newLocker(t, 3)
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		synctest.Wait()
		nodes.Node(0).Miniredis().Del("orders/42")
		nodes.Node(0).Intercept(slowly("extend", 100*time.Millisecond))
		must(t, lock.Extend(t.Context(), redlock.DefaultTTL)) // by the two others
		must(t, lock.Release(t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		wantNoLocks(t, nodes, "after the release")
	})
}

// The token is what the nodes counted, in all that says it: also where that is not what the
// attempt suggested, and behind a pass.
func TestTheTokenIsTheNumberOnTheNodesWhereverItIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = 1 << 52 // of what the clock suggests
		l, nodes := newLocker(t, 3)
		warm(t, l)
		stripe := strconv.FormatInt(lua.StripeOf("orders/42"), 10)
		for _, n := range nodes.Nodes() {
			n.Miniredis().HSet(lua.NodeKey, stripe, strconv.Itoa(ahead))
		}
		lock := mustAcquire(t, l, "orders/42")
		next := wants(t, l)
		wantToken(t, nodes, lock, stripe, ahead+1)
		must(t, lock.Release(t.Context()))
		lock = got(t, next).lock
		synctest.Wait()
		wantToken(t, nodes, lock, stripe, ahead+2)

		nodes.Node(0).Miniredis().Del("orders/42")
		nodes.Node(0).Miniredis().HDel(lua.NodeKey, stripe)
		must(t, lock.Extend(t.Context(), redlock.DefaultMaxTTL)) // which puts it back
		synctest.Wait()
		wantToken(t, nodes, lock, stripe, ahead+2)
		mustRelease(t, lock)
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
		l, nodes := newLocker(t, 5)
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease()) // nothing is put back by a renewal
		var line []<-chan gained
		for range 4 {
			line = append(line, wants(t, l, redlock.WithFixedLease()))
		}
		nodes.Node(4).Intercept(slowly("pass", 50*time.Millisecond))
		for _, next := range line {
			must(t, lock.Release(t.Context()))
			lock = got(t, next).lock
		}
		time.Sleep(time.Second)
		want, err := nodes.Node(0).Miniredis().Get("orders/42")
		must(t, err)
		for i, n := range nodes.Nodes() {
			if got, _ := n.Miniredis().Get("orders/42"); got != want {
				t.Errorf("node %d: got %q; want the last holder's value %q", i, got, want)
			}
		}
		must(t, lock.Release(t.Context()))
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
		l, nodes := newLocker(t, 5)
		lock := handOnPastSlowNodes(t, l, nodes)
		must(t, lock.Extend(t.Context(), 20*time.Second))
		time.Sleep(time.Second)
		for i, n := range nodes.Nodes() {
			if left := n.Miniredis().TTL("orders/42"); left < 15*time.Second {
				t.Errorf("node %d keeps it for %v; want some 20 s", i, left)
			}
		}
		mustRelease(t, lock)
	})
}

// A node confirms a release when it has nothing of the lock any more: where the
// hand-over has not come yet, what it was to be handed over from has to go first.
func TestAReleaseIsNotConfirmedByWhatAHandOverHasYetToTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := handOnPastSlowNodes(t, l, nodes)
		for _, i := range []int{1, 2} {
			nodes.Node(i).Intercept(slowly("release", 100*time.Millisecond))
		}
		mustRelease(t, lock)
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
		wantNoLocks(t, nodes, "in the end")
	})
}

// handOnPastSlowNodes hands a lock on twice while the first hand-over is still
// on its way to nodes 3 and 4: the second waits there.
func handOnPastSlowNodes(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster) *redlock.Lock {
	t.Helper()
	warm(t, l)
	lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
	first, second := wants(t, l, redlock.WithFixedLease()), wants(t, l, redlock.WithFixedLease())
	for _, i := range []int{3, 4} {
		nodes.Node(i).Intercept(slowly("pass", 20*time.Millisecond))
	}
	for _, next := range []<-chan gained{first, second} {
		must(t, lock.Release(t.Context()))
		lock = got(t, next).lock
	}
	return lock
}

// A node that refused the hand-over has the key that it was to be handed over from,
// until that one's release was answered: the new lock is not gone from it before.
func TestAReleaseIsNotConfirmedByANodeThatRefusedTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		next := wants(t, l, redlock.WithFixedLease())
		for i, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				switch name := scriptOf(args); {
				case i >= 3 && name == "pass":
					return redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'.")
				case i >= 1 && strings.HasPrefix(name, "release"):
					time.Sleep(100 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
		}
		go func() { _ = lock.Release(t.Context()) }()
		mustRelease(t, got(t, next).lock)
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
		wantNoLocks(t, nodes, "in the end")
	})
}

// stranger has somebody hold orders/42 on every node, with a value of redlock's
// own form: nobody looks there without a hint, but for its end.
func stranger(t *testing.T, nodes *redlocktest.Cluster) {
	t.Helper()
	for _, n := range nodes.Nodes() {
		must(t, n.Miniredis().Set("orders/42", "00000000-0000-4000-8000-000000000000"))
		n.Miniredis().SetTTL("orders/42", time.Hour)
	}
}

// freed ends what the stranger holds on some nodes, without a word.
func freed(nodes *redlocktest.Cluster, which ...int) {
	for _, i := range which {
		nodes.Node(i).Miniredis().Del("orders/42")
	}
}

// processes are the ids in a queue: behind each stands, where a release may grant to it,
// the same with an owner value.
func processes(members []string) (ids []string) {
	return slices.DeleteFunc(slices.Clone(members), func(m string) bool { return strings.Contains(m, " ") })
}

// calls has nodes call the one process that waits for orders/42, no matter what is held
// there: a hint may be forged.
func calls(t *testing.T, nodes *redlocktest.Cluster, which ...int) {
	t.Helper()
	var ids []string
	for _, n := range nodes.Nodes() { // it stands on a quorum at least
		if on, err := n.Miniredis().ZMembers("redlock:queue:orders/42"); err == nil {
			ids = processes(on)
		}
	}
	if len(ids) == 0 {
		return // it was granted, and stands in line no more
	}
	for _, i := range which {
		must(t, nodes.Client(i).Publish(t.Context(), "redlock:wake:"+ids[0], "orders/42").Err())
	}
}

// holders are the nodes that have the key of a lock, by its owner value.
func holders(nodes *redlocktest.Cluster) map[string][]int {
	on := map[string][]int{}
	for i, n := range nodes.Nodes() {
		if owner, err := n.Miniredis().Get("orders/42"); err == nil {
			on[owner] = append(on[owner], i)
		}
	}
	return on
}

// A round that is lost gives back what it was granted, while its reason is still
// open. A hint in that moment must not have a node asked again: with two more
// grants, one that is given back would count towards the quorum.
func TestAGrantThatWasGivenBackIsNeverCountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		stranger(t, nodes)
		next := wants(t, l)
		freed(nodes, 0)
		for _, i := range []int{2, 3} {
			nodes.Node(i).Intercept(onScripts("ask", redlocktest.ReplyError("OOM no room")))
		}
		nodes.Node(4).Intercept(onScripts("ask", redlocktest.LoseRequest()))
		calls(t, nodes, 0)
		time.Sleep(20 * time.Millisecond) // one granted, one taken, two failed, one is silent
		nodes.Node(2).Intercept(nil)
		freed(nodes, 1, 2)
		calls(t, nodes, 1, 2)
		g := got(t, next)
		owned := 0
		for _, on := range holders(nodes) {
			if !slices.Contains(on, 3) {
				owned = len(on)
			}
		}
		if owned < 3 {
			t.Errorf("it has the lock by %d nodes of five: %v", owned, holders(nodes))
		}
		mustRelease(t, g.lock)
	})
}

// An ask that comes after its process has left, as from a node that was stopped,
// must not put it in line again: nobody would come when it is called.
func TestAnAskThatComesLateRecordsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		stranger(t, nodes)
		left := wants(t, l, redlock.WithWait(time.Second))
		time.Sleep(700 * time.Millisecond)
		nodes.Node(0).Intercept(slowly("ask", 2*redlock.DefaultNodeTimeout))
		calls(t, nodes, 0)
		wantError(t, "Acquire", (<-left).err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("it has left, and stands in line: %v", keys)
		}
	})
}

// A call that comes while the ask to its node is out, in a round that the others
// end, begins the next: that reply may be older than the call.
func TestACallThatOutlivesItsRoundBeginsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		stranger(t, nodes)
		next := wants(t, l)
		nodes.Node(0).Intercept(slowly("ask", redlock.DefaultNodeTimeout))
		calls(t, nodes, 0)
		time.Sleep(time.Millisecond)
		calls(t, nodes, 0)
		time.Sleep(2 * time.Millisecond) // the others were asked, and refused
		freed(nodes, 0, 1, 2)
		time.Sleep(100 * time.Millisecond)
		select {
		case g := <-next:
			must(t, g.err)
			mustRelease(t, g.lock)
		default:
			t.Error("it was called, and waits for its next look")
			mustRelease(t, got(t, next).lock)
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
	l, nodes := newLocker(t, 3)
	warm(t, l)
	stranger(t, nodes)
	next := wants(t, l, redlock.WithWait(5*time.Second))
	doubted := nodes.Node(0)
	time.Sleep(10 * time.Millisecond) // a node that breaks now is asked again by the attempt that began before
	freed(nodes, 0)
	for _, i := range []int{1, 2} {
		nodes.Node(i).Intercept(slowly("ask", redlock.DefaultNodeTimeout*4/5))
	}
	var asks atomic.Int64
	doubted.Intercept(func(args []string) redlocktest.Verdict {
		if scriptOf(args) == "ask" {
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
		calls(t, nodes, 0)
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
	wantError(t, "Acquire", (<-next).err, context.DeadlineExceeded)
}

// The hints of a bare quorum are enough to win. A lock that rested on these nodes
// only would be lost with the first of them.
func TestALockThatWasWaitedForRestsOnAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		stranger(t, nodes)
		next := wants(t, l)
		freed(nodes, 0, 1, 2, 3, 4)
		calls(t, nodes, 0, 1, 2)
		g := got(t, next)
		synctest.Wait()
		for _, on := range holders(nodes) {
			if len(on) != 5 {
				t.Errorf("it is held on the nodes %v; want all five", on)
			}
		}
		mustRelease(t, g.lock)
	})
}
