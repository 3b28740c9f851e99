package redlock_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// Who waits behind a holder that renews looks now and then, at one node. To ask
// all nodes again at each end of a lease that was renewed long ago costs them
// hundreds of commands a second where a process waits for ten thousand names.
func TestWhoWaitsBehindALiveHolderAsksNobodyAgain(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithTTL(6*time.Second))
		synctest.Wait() // it is on all five: a node that an ask finds free is asked again
		waiting := wants(t, other)
		time.Sleep(time.Second)
		var asks, looks atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				switch name := scriptOf(args); {
				case strings.HasPrefix(name, "ask"):
					asks.Add(1)
				case strings.HasPrefix(name, "look"):
					looks.Add(1)
				}
				return redlocktest.Pass()
			})
		}
		const minutes = 5
		time.Sleep(minutes * time.Minute)
		if got := asks.Load(); got != 0 {
			t.Errorf("got %d asks in %d minutes; want none", got, minutes)
		}
		if got, most := looks.Load(), int64(minutes*60*5*5/2+minutes*60/2); got > most { // 2.5 signs of life a second and node
			t.Errorf("got %d looks and signs of life in %d minutes; want at most %d", got, minutes, most)
		}
		must(t, lock.Release(t.Context()))
		got(t, waiting)
	})
}

// A node that lost the sign of life is told of all by the look that found that out: no
// second sign goes at once.
func TestALookThatFindsItsSignGoneIsTheSign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithTTL(30*time.Second), redlock.WithFixedLease())
		synctest.Wait() // it is on all three: a node that an ask finds free is asked again and again
		waiting := wants(t, other)
		time.Sleep(2 * time.Second)
		var last time.Time
		var signs, named, together atomic.Int64
		nodes.Node(2).Intercept(func(args []string) redlocktest.Verdict {
			switch {
			case scriptOf(args) != "look":
			case args[2] == "0":
				if signs.Add(1) > 1 && time.Since(last) < 100*time.Millisecond {
					together.Add(1)
				}
				last = time.Now()
			default:
				named.Add(1)
			}
			return redlocktest.Pass()
		})
		for range 5 {
			for _, key := range nodes.Node(2).Miniredis().Keys() {
				if strings.HasPrefix(key, "redlock:live:") {
					nodes.Node(2).Miniredis().Del(key)
				}
			}
			time.Sleep(time.Second)
		}
		if signs.Load() < 5 || named.Load() < 5 {
			t.Errorf("%d signs of life and %d looks at the name; want both after each loss", signs.Load(), named.Load())
		}
		if n := together.Load(); n > 0 {
			t.Errorf("%d of %d signs of life came at once behind another", n, signs.Load())
		}
		mustRelease(t, lock)
		mustRelease(t, got(t, waiting).lock)
	})
}

// That a name is free on a node that does not vote is no news: it may have
// forgotten the holder. Nobody else is asked for that.
func TestLooksAtANodeThatAbstainsHaveNobodyAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		warm(t, other)
		lock := mustAcquire(t, l, "orders/42", redlock.WithTTL(6*time.Second))
		time.Sleep(3 * time.Second) // it is on all nodes
		nodes.Node(0).Restart()
		waiting := wants(t, other)
		time.Sleep(time.Second)
		var asks, free atomic.Int64
		for i, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				switch name := scriptOf(args); {
				case strings.HasPrefix(name, "ask"):
					asks.Add(1)
				case strings.HasPrefix(name, "look") && i == 0 && args[2] == "1" && !n.Miniredis().Exists("orders/42"):
					free.Add(1)
				}
				return redlocktest.Pass()
			})
		}
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if free.Load() > 1 {
				break
			}
		}
		if free.Load() < 2 {
			t.Fatal("nobody looked at the node while it abstained: the test shows nothing")
		}
		if got := asks.Load(); got != 0 {
			t.Errorf("got %d asks; want none", got)
		}
		mustRelease(t, lock)
		mustRelease(t, got(t, waiting).lock)
	})
}

// A node on which the name is free, since the holder could not reach it, makes
// nobody ask for it again and again: a quorum holds it, and is looked at.
func TestANodeThatIsFreeAloneSetsOffNoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		head, behind := separateLocker(t, nodes), separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithTTL(30*time.Second), redlock.WithFixedLease())
		synctest.Wait() // it is on all five: an ask that overtakes it would leave two of them free
		first := wants(t, head)
		time.Sleep(time.Second)
		nodes.Node(4).Miniredis().Del("orders/42")
		second := wants(t, behind)
		time.Sleep(5 * time.Second)
		var asks atomic.Int64
		for i, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if scriptOf(args) == "ask" {
					asks.Add(1)
					if i < 4 {
						time.Sleep(time.Millisecond) // the free one answers first
					}
				}
				return redlocktest.Pass()
			})
		}
		time.Sleep(20 * time.Second)
		if n := asks.Load(); n > 50 {
			t.Errorf("%d asks in 20 s; want the two of them to ask all five nodes some three times each", n)
		}
		mustRelease(t, lock)
		mustRelease(t, got(t, first).lock)
		mustRelease(t, got(t, second).lock)
	})
}

// Nobody calls one whose entry somebody deleted on all nodes: it finds by its own look that
// the name is free.
func TestWhoseEntryWasDeletedIsServedByALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42")
		next := wants(t, separateLocker(t, nodes))
		time.Sleep(time.Second)
		remove(nodes, "redlock:queue:orders/42")
		released := time.Now()
		mustRelease(t, lock)
		g := got(t, next)
		if took := g.at.Sub(released); took > quorum.HeadLook {
			t.Errorf("it came after %v; want %v at most", took, quorum.HeadLook)
		}
		mustRelease(t, g.lock)
	})
}
