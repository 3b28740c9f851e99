package queue_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// Who waits behind a holder that renews looks now and then, at one node. To ask
// all nodes again at each end of a lease that was renewed long ago costs them
// hundreds of commands a second where a process waits for ten thousand names.
func TestWhoWaitsBehindALiveHolderAsksNobodyAgain(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		other := locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithTTL(6*time.Second))
		synctest.Wait() // it is on all five: a node that an ask finds free is asked again
		waiting := locktest.Wants(t, other)
		time.Sleep(time.Second)
		var asks, looks atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				switch name := locktest.ScriptOf(args); {
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
		testkit.Must(t, lock.Release(t.Context()))
		locktest.Got(t, waiting)
	})
}

// A node that lost the sign of life is told of all by the look that found that out: no
// second sign goes at once.
func TestALookThatFindsItsSignGoneIsTheSign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithTTL(30*time.Second), redlock.WithFixedLease())
		synctest.Wait() // it is on all three: a node that an ask finds free is asked again and again
		waiting := locktest.Wants(t, other)
		time.Sleep(2 * time.Second)
		var last time.Time
		var signs, named, together atomic.Int64
		nodes.Node(2).Intercept(func(args []string) redlocktest.Verdict {
			switch {
			case locktest.ScriptOf(args) != "look":
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
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, waiting).Lock)
	})
}

// That a name is free on a node that does not vote is no news: it may have
// forgotten the holder. Nobody else is asked for that.
func TestLooksAtANodeThatAbstainsHaveNobodyAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		other := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, other)
		lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithTTL(6*time.Second))
		time.Sleep(3 * time.Second) // it is on all nodes
		nodes.Node(0).Restart()
		waiting := locktest.Wants(t, other)
		time.Sleep(time.Second)
		var asks, free atomic.Int64
		for i, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				switch name := locktest.ScriptOf(args); {
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
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, waiting).Lock)
	})
}

// A node on which the name is free, since the holder could not reach it, makes
// nobody ask for it again and again: a quorum holds it, and is looked at.
func TestANodeThatIsFreeAloneSetsOffNoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		head, behind := locktest.SeparateLocker(t, nodes), locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithTTL(30*time.Second), redlock.WithFixedLease())
		synctest.Wait() // it is on all five: an ask that overtakes it would leave two of them free
		first := locktest.Wants(t, head)
		time.Sleep(time.Second)
		nodes.Node(4).Miniredis().Del("orders/42")
		second := locktest.Wants(t, behind)
		time.Sleep(5 * time.Second)
		var asks atomic.Int64
		for i, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if locktest.ScriptOf(args) == "ask" {
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
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, first).Lock)
		locktest.MustRelease(t, locktest.Got(t, second).Lock)
	})
}

// Nobody calls one whose entry somebody deleted on all nodes: it finds by its own look that
// the name is free.
func TestWhoseEntryWasDeletedIsServedByALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		lock := locktest.MustAcquire(t, l, "orders/42")
		next := locktest.Wants(t, locktest.SeparateLocker(t, nodes))
		time.Sleep(time.Second)
		locktest.DeleteName(nodes, "redlock:queue:orders/42")
		released := time.Now()
		locktest.MustRelease(t, lock)
		g := locktest.Got(t, next)
		if took := g.At.Sub(released); took > quorum.HeadLook {
			t.Errorf("it came after %v; want %v at most", took, quorum.HeadLook)
		}
		locktest.MustRelease(t, g.Lock)
	})
}

// Two nodes of five are so slow that each round has ended before its ask has left for
// them. They are told of who waits all the same: else the line stands on a bare quorum
// until the next looks, which are up to 8 s apart and go to one node each.
func TestASlowNodeIsToldWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		first, second := locktest.SeparateLocker(t, nodes), locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, l)
		locktest.Warm(t, first)
		locktest.Warm(t, second)
		wants := func(l *redlock.Locker, slow []*redlocktest.Node) <-chan locktest.Gained {
			for _, n := range slow {
				n.Intercept(locktest.Slowly("ask", 50*time.Millisecond))
			}
			next := locktest.Wants(t, l)
			time.Sleep(300 * time.Millisecond)
			for _, n := range slow {
				n.Intercept(nil)
			}
			return next
		}
		lock := locktest.MustAcquire(t, l, "orders/42")
		synctest.Wait() // it is on all nodes
		a, b := wants(first, nodes.Nodes()[3:]), wants(second, nodes.Nodes()[:2])
		for i, n := range nodes.Nodes() {
			if there, _ := n.Miniredis().ZMembers("redlock:queue:orders/42"); len(locktest.Processes(there)) != 2 {
				t.Errorf("node %d knows of %d who wait; want both", i, len(there))
			}
		}
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, a).Lock)
		locktest.MustRelease(t, locktest.Got(t, b).Lock)
		time.Sleep(time.Second) // an ask that a slow node took may still be there
		if keys := locktest.QueueKeys(nodes); keys != nil {
			t.Errorf("left behind: %v", keys)
		}
	})
}

// One process waits for many names that stay held: what it costs the nodes is few signs of life,
// and few looks; and nothing is left when it goes. The looks of 250 names are one command: with
// ten thousand it was tried once, and is too slow for nodes in memory to be tried each time.
func TestSearchManyNamesWaitedForAtTheCostOfFewCommands(t *testing.T) {
	testkit.Unraced(t)
	names := 300
	if testkit.Deep() {
		names = 2000
	}
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		locktest.Warm(t, l)
		for i := range names {
			for _, n := range nodes.Nodes() {
				key := fmt.Sprintf("orders/%d", i)
				testkit.Must(t, n.Miniredis().Set(key, "00000000-0000-4000-8000-000000000000"))
				n.Miniredis().SetTTL(key, time.Hour)
			}
		}
		before := footprint()
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range names {
			all.Go(func() {
				if lock, err := l.Acquire(ctx, fmt.Sprintf("orders/%d", i)); err == nil {
					t.Errorf("a name that is held was granted, token %d", lock.Token())
				}
			})
		}
		time.Sleep(30 * time.Second) // all stand in line
		each := (footprint() - before) / names
		sent := func() (n int) {
			for _, node := range nodes.Nodes() {
				n += node.Calls()
			}
			return n
		}
		const idle = 30
		start := sent()
		time.Sleep(idle * time.Second)
		persecond := float64(sent()-start) / idle
		t.Logf("%d waiters: %d B each, that of the nodes in memory included; %.1f commands a second over five nodes", names, each, persecond)
		if persecond >= 55 { // 40 of them look at the clocks, and at who answers; 12.5 are signs of life
			t.Errorf("got %.1f commands a second; want fewer than 55", persecond)
		}
		if each > 32<<10 {
			t.Errorf("got %d B a waiter; want 32 KiB at most", each)
		}
		leave()
		all.Wait()
		time.Sleep(redlock.DefaultTTL)
		if keys := locktest.QueueKeys(nodes); keys != nil {
			t.Errorf("left behind: %d queues", len(keys))
		}
	})
}

// footprint is what the heap and the stacks hold.
func footprint() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}

// A node that forgot is told again who waits, long before it votes: else somebody
// who comes later may get its vote first.
func TestANodeThatForgotSoonKnowsWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		other := locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42")
		next := locktest.Wants(t, other)
		time.Sleep(time.Second) // a sign of life on every node
		for _, i := range []int{1, 4} {
			m := nodes.Node(i).Miniredis()
			m.FlushAll()
			time.Sleep(1100 * time.Millisecond) // one more
			if !m.Exists("redlock:queue:orders/42") {
				t.Errorf("node %d was flushed, and a sign of life later it does not know who waits", i)
			}
		}
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, next).Lock)
	})
}

// Nor does it record who comes while it abstains, by his ask.
func TestANodeThatAbstainsKnowsWhoCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, other)
		lock, another := locktest.MustAcquire(t, l, "orders/42"), locktest.MustAcquire(t, l, "orders/43")
		synctest.Wait() // the third node's grant too: a lock on two of three ends with the first of them that forgets
		nodes.Node(0).Restart()
		ctx := t.Context()
		go func() { _, _ = other.Acquire(ctx, "orders/43", redlock.WithWait(10*time.Second)) }()
		time.Sleep(2 * time.Second) // the node knows that it lives, and nothing of what comes now
		var asks atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if locktest.ScriptOf(args) == "ask" {
					asks.Add(1)
				}
				return redlocktest.Pass()
			})
		}
		next := locktest.Wants(t, other)
		time.Sleep(100 * time.Millisecond) // no matter what the others said, and when: before its first look
		if !nodes.Node(0).Miniredis().Exists("redlock:queue:orders/42") {
			t.Error("a node that abstains was not told who came to wait")
		}
		time.Sleep(time.Second)
		if n := asks.Load(); n > 6 {
			t.Errorf("%d asks in a second; want a place's, and no more: that the name is free on a node that abstains is no news", n)
		}
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, next).Lock)
		locktest.MustRelease(t, another)
	})
}

// Anyone who may publish can name anything in a call. A Locker sends nothing for a name
// that it never stood in line for, and leaves the line of one that it did.
func TestACallForANameThatWasNeverWaitedForIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42")
		left := locktest.MustAcquire(t, l, "orders/41")
		go func() { _, _ = other.Acquire(t.Context(), "orders/41", redlock.WithWait(time.Second)) }()
		waiting := locktest.Wants(t, other)
		locktest.MustRelease(t, locktest.MustAcquire(t, other, "orders/40")) // held, and never waited for
		time.Sleep(2 * time.Second)
		testkit.Must(t, left.Release(t.Context()))
		time.Sleep(time.Second)
		sent := map[string]*atomic.Int64{"secret/1": {}, "orders/40": {}, "orders/41": {}, "": {}}
		at := slices.IndexFunc(nodes.Nodes(), func(n *redlocktest.Node) bool { // one may have found the name free, and keep no entry
			return n.Miniredis().Exists("redlock:queue:orders/42")
		})
		node := nodes.Node(at)
		node.Intercept(func(args []string) redlocktest.Verdict {
			for name, n := range sent {
				if strings.HasPrefix(locktest.ScriptOf(args), "release") && slices.Contains(args, name) {
					n.Add(1)
				}
			}
			return redlocktest.Pass()
		})
		id, err := node.Miniredis().ZMembers("redlock:queue:orders/42")
		testkit.Must(t, err)
		for name := range sent {
			if heard := node.Miniredis().Publish("redlock:wake:"+id[0], name); heard != 1 {
				t.Fatalf("%d heard the call; want the process that waits", heard)
			}
		}
		time.Sleep(time.Second)
		for name, n := range sent {
			if want := map[bool]int64{true: 1}[name == "orders/41"]; n.Load() != want {
				t.Errorf("a call for %q sent %d commands; want %d", name, n.Load(), want)
			}
		}
		node.Intercept(nil)
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, waiting).Lock)
	})
}

// On a server whose ACL lacks the name, a call for it took the node from all names
// until the leave's lease was over.
func TestAForgedCallTakesNoServerFromAnyName(t *testing.T) {
	servers := testserver.Need(t, 3, redisserver.Config{Users: []string{"lock on >secret &* ~redlock:* ~orders/* ~warm +@all"}})
	var clients []redis.UniversalClient
	for _, s := range servers {
		clients = append(clients, locktest.ClientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "lock", "secret" }))
	}
	l, other := locktest.LockerWith(t, clients), locktest.LockerWith(t, clients)
	locktest.Admit(t, l)
	locktest.Warm(t, l)
	locktest.MustAcquire(t, l, "orders/42")
	go func() { _, _ = other.Acquire(t.Context(), "orders/42") }()
	admins := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		admins[i] = locktest.ClientOf(t, s)
	}
	var server *redisserver.Server // one that was told who waits: one whose reply nobody waited for may not be
	var admin redis.UniversalClient
	var id []string
	locktest.PollUntil(t, 5*time.Second, "the other stands in line", func() bool {
		for i := range servers {
			server, admin = servers[i], admins[i]
			if id = admin.ZRange(t.Context(), "redlock:queue:orders/42", 0, -1).Val(); len(locktest.Processes(id)) == 1 {
				return true
			}
		}
		return false
	})
	before := locktest.ScriptCalls(t, server)
	for _, name := range []string{"secret/1", "orders/42"} { // the second has the node asked, behind what the first brings
		testkit.Must(t, admin.Publish(t.Context(), "redlock:wake:"+id[0], name).Err())
	}
	locktest.PollUntil(t, 5*time.Second, "the second call was answered by an ask", func() bool { return locktest.ScriptCalls(t, server) > before })
	stats := admin.Info(t.Context(), "commandstats").Val()
	for line := range strings.Lines(stats) {
		if strings.HasPrefix(line, "cmdstat_evalsha:") && !strings.Contains(line, "rejected_calls=0") {
			t.Errorf("the server refused a script: %s; want none sent for a name that nobody wanted", line)
		}
	}
	locktest.PollUntil(t, 5*time.Second, "the server votes for another name", func() bool {
		lock := locktest.MustAcquire(t, other, "orders/99")
		defer locktest.MustRelease(t, lock)
		return locktest.KeyOn(t, server, "orders/99") != ""
	})
}
