package redlock_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

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
