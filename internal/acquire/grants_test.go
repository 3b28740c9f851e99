package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// standing has l wait for orders/42, which another Locker holds, until all nodes know.
func standing(t *testing.T, nodes *redlocktest.Cluster, l *redlock.Locker, opts ...redlock.AcquireOption) <-chan locktest.Gained {
	t.Helper()
	next := locktest.Wants(t, l, opts...)
	time.Sleep(2500 * time.Millisecond) // signs of life are under way
	for i, n := range nodes.Nodes() {
		if on, _ := n.Miniredis().ZMembers("redlock:queue:orders/42"); len(locktest.Processes(on)) != 1 {
			t.Fatalf("node %d knows of %q; want one who waits", i, on)
		}
	}
	return next
}

// Who waits in another process is granted the lock by the release, and asks nobody. What
// it has at first is short, and is lengthened soon.
func TestAReleaseGrantsToTheFirstInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &locktest.Events{}
		holder, nodes := locktest.NewLocker(t, 5)
		l := locktest.SeparateLocker(t, nodes, told.Option())
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, holder, "orders/42")
		synctest.Wait()
		next := standing(t, nodes, l)
		count := locktest.CountSent(nodes)
		locktest.MustRelease(t, lock)
		lock = locktest.Got(t, next).Lock
		// The last sign of life is 100 ms old, and a hundredth of the lease is for drift.
		if left := lock.Remaining(); left > 2900*time.Millisecond || left < 1900*time.Millisecond {
			t.Errorf("%v are left at first; want less than three seconds from the last sign of life", left)
		}
		synctest.Wait()
		for i := range nodes.Nodes() {
			if n := count(i, "ask"); n != 0 {
				t.Errorf("node %d: %d asks; want none", i, n)
			}
		}
		time.Sleep(50 * time.Millisecond)
		if left := lock.Remaining(); left < 9*time.Second {
			t.Errorf("%v are left after 50ms; want the whole lease", left)
		}
		locktest.MustRelease(t, lock)
		synctest.Wait()
		if got := told.Of(redlock.EventLockAcquired); got[len(got)-1].Turn != redlock.TurnGranted {
			t.Errorf("got %+v; want a lock that was granted", got[len(got)-1])
		}
		locktest.WantNoLocks(t, nodes, "in the end")
	})
}

// A lease below three seconds, or one that is not lengthened, can't begin with three
// seconds: who waits with such is called.
func TestAShortOrFixedLeaseIsNotGrantedByARelease(t *testing.T) {
	for name, o := range map[string]redlock.AcquireOption{"short": redlock.WithTTL(2 * time.Second), "fixed": redlock.WithFixedLease()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := &locktest.Events{}
				holder, nodes := locktest.NewLocker(t, 3)
				l := locktest.SeparateLocker(t, nodes, told.Option())
				locktest.Warm(t, l)
				lock := locktest.MustAcquire(t, holder, "orders/42")
				synctest.Wait()
				next := standing(t, nodes, l, o)
				locktest.MustRelease(t, lock)
				locktest.MustRelease(t, locktest.Got(t, next).Lock)
				synctest.Wait()
				if got := told.Of(redlock.EventLockAcquired); got[len(got)-1].Turn != redlock.TurnCalled {
					t.Errorf("got %+v; want a lock that was called for", got[len(got)-1])
				}
			})
		})
	}
}

// A push counts under the epoch that we know of its node, and for the attempt that is
// open. Any other brings about a question at most.
func TestAPushThatIsNotOfOurEpochAndAttemptIsNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := locktest.NewLocker(t, 5)
		l := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, holder, "orders/42", redlock.WithTTL(20*time.Second))
		synctest.Wait()
		next := standing(t, nodes, l)
		for i, n := range nodes.Nodes() {
			members, err := n.Miniredis().ZMembers("redlock:queue:orders/42")
			testkit.Must(t, err)
			at := slices.IndexFunc(members, func(m string) bool { return strings.Contains(m, " ") })
			if at < 0 {
				t.Fatalf("node %d has %q; want an attempt in line", i, members)
			}
			id, owner, _ := strings.Cut(members[at], " ")
			epoch := n.Miniredis().HGet("redlock:node", "epoch")
			sign, err := n.Miniredis().Get("redlock:live:" + id)
			testkit.Must(t, err)
			for _, p := range [][]any{{"another", sign, owner}, {epoch, sign, "another"}, {epoch, "-99999999", owner}, {epoch, "99999999999999", owner}} {
				n.Miniredis().Publish("redlock:wake:"+id, fmt.Sprintf("redlock:push\n%v\n946684802000123\n%v\n%v\norders/42", p...))
			}
			n.Miniredis().Publish("redlock:wake:"+id, "redlock:push\n"+epoch)
		}
		time.Sleep(time.Second)
		select {
		case g := <-next:
			t.Fatalf("got %+v; want nobody to hold what another holds", g)
		default:
		}
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, next).Lock)
	})
}

// Clients that stand in no line get their chance: one release in 32 calls who waits, and
// leaves the name free until it is asked for.
func TestOneReleaseInThirtyTwoLeavesTheNameFree(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		told := &locktest.Events{}
		a, nodes := locktest.NewLocker(t, 3, told.Option())
		b := locktest.SeparateLocker(t, nodes, told.Option())
		locktest.Warm(t, b)
		lock := locktest.MustAcquire(t, a, "orders/42")
		for i := range 64 {
			next := locktest.Wants(t, []*redlock.Locker{b, a}[i%2])
			time.Sleep(500 * time.Millisecond)
			locktest.MustRelease(t, lock)
			lock = locktest.Got(t, next).Lock
			time.Sleep(100 * time.Millisecond)
		}
		locktest.MustRelease(t, lock)
		synctest.Wait()
		turns := map[redlock.Turn]int{}
		for _, e := range told.Of(redlock.EventLockAcquired) {
			turns[e.Turn]++
		}
		if turns[redlock.TurnGranted] < 56 || turns[redlock.TurnCalled] < 2 {
			t.Errorf("they had their turns so: %v; want nearly all granted, and two called", turns)
		}
	})
}

// What a minority of nodes granted is given back, and the process keeps its place: what
// stands there then is its next attempt, which the release grants.
func TestASplitGrantIsGivenBackAndThePlaceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &locktest.Events{}
		holder, nodes := locktest.NewLocker(t, 5)
		l := locktest.SeparateLocker(t, nodes, told.Option())
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, holder, "orders/42", redlock.WithTTL(20*time.Second), redlock.WithFixedLease())
		synctest.Wait()
		next := standing(t, nodes, l)
		inLine := func(i int) []string {
			members, err := nodes.Node(i).Miniredis().ZMembers("redlock:queue:orders/42")
			testkit.Must(t, err)
			return members
		}
		before := inLine(4)
		locktest.FreeName(nodes, 0, 1)
		locktest.CallWaiters(t, nodes, 0, 1)
		time.Sleep(200 * time.Millisecond)
		after := inLine(4)
		if len(before) != 2 || len(after) != 2 || locktest.Processes(before)[0] != locktest.Processes(after)[0] {
			t.Fatalf("node 4 had %q in line, and has %q; want the process, with an attempt", before, after)
		}
		if slices.Equal(before, after) {
			t.Errorf("%q stand in line still; want another attempt, since that one was given back", after)
		}
		testkit.Must(t, lock.Release(t.Context()))
		locktest.MustRelease(t, locktest.Got(t, next).Lock)
		synctest.Wait()
		locktest.WantNoLocks(t, nodes, "in the end")
	})
}

// A process whose turn is over, and in which others wait, has the release put them in line
// again: nobody asks for a place, or by it.
func TestAReleasePutsTheNextGoroutineInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &locktest.Events{}
		a, nodes := locktest.NewLocker(t, 5, told.Option(), redlock.WithTurns(1))
		b := locktest.SeparateLocker(t, nodes, told.Option(), redlock.WithTurns(1))
		locktest.Warm(t, b)
		var count func(int, string) int
		for _, heard := range []bool{false, true} { // by the first of these, both processes can be told
			lock := locktest.MustAcquire(t, a, "orders/42")
			synctest.Wait()
			held := make(chan string, 5)
			for i, l := range []*redlock.Locker{b, a, b, a, b} {
				go func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					g := locktest.MustAcquire(t, l, "orders/42")
					held <- string("ba"[i%2])
					time.Sleep(5 * time.Millisecond)
					locktest.MustRelease(t, g)
				}()
			}
			time.Sleep(500 * time.Millisecond)
			if heard {
				count = locktest.CountSent(nodes)
			}
			locktest.MustRelease(t, lock)
			order := ""
			for range 5 {
				order += <-held
			}
			if order != "babab" {
				t.Errorf("they had their turns so: %s; want babab", order)
			}
			time.Sleep(2 * time.Second) // nobody is in line
		}
		for i := range nodes.Nodes() {
			if n, m := count(i, "ask"), count(i, "acquire"); n+m != 0 {
				t.Errorf("node %d: %d asks and %d acquires; want none", i, n, m)
			}
		}
		all := told.Of(redlock.EventLockAcquired)
		for _, e := range all[len(all)-5:] {
			if e.Turn != redlock.TurnGranted {
				t.Errorf("got %+v; want a lock that was granted", e)
			}
		}
		locktest.WantNoLocks(t, nodes, "in the end")
	})
}

// So does a release that calls who waits, for those who stand in no line: only who was
// called asks.
func TestAReleaseThatCallsPutsTheNextGoroutineInLineAsWell(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		told := &locktest.Events{}
		a, nodes := locktest.NewLocker(t, 5, told.Option(), redlock.WithTurns(1))
		b := locktest.SeparateLocker(t, nodes, told.Option(), redlock.WithTurns(1))
		locktest.Warm(t, a)
		locktest.Warm(t, b)
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				for range 40 {
					g := locktest.MustAcquire(t, []*redlock.Locker{a, b}[i%2], "orders/42")
					time.Sleep(2 * time.Millisecond)
					locktest.MustRelease(t, g)
				}
			})
		}
		time.Sleep(100 * time.Millisecond) // all are in line
		var tickets atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if strings.HasPrefix(locktest.ScriptOf(args), "ask") && args[12] == "0" {
					tickets.Add(1)
				}
				return redlocktest.Pass()
			})
		}
		time.Sleep(250 * time.Millisecond) // and are still, in the end
		called := 0
		for _, e := range told.Of(redlock.EventLockAcquired) {
			if e.Turn == redlock.TurnCalled {
				called++
			}
		}
		if n := tickets.Load(); n != 0 || called < 2 {
			t.Errorf("%d nodes were asked for a place, and %d holders were called; want no node, and at least two", n, called)
		}
		all.Wait()
		synctest.Wait()
		locktest.WantNoLocks(t, nodes, "in the end")
	})
}

// Behind slow links the nodes' places take longer than the pause in which who was granted
// waits for the others: nobody is asked meanwhile.
func TestWhoIsPutInLineBySlowNodesAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, nodes := locktest.NewLocker(t, 5, redlock.WithTurns(1))
		b := locktest.SeparateLocker(t, nodes, redlock.WithTurns(1))
		locktest.Warm(t, b)
		lock := locktest.MustAcquire(t, b, "orders/42")
		synctest.Wait()
		first, second := locktest.Wants(t, a), locktest.Wants(t, a)
		time.Sleep(500 * time.Millisecond)
		locktest.MustRelease(t, lock)
		lock = locktest.Got(t, first).Lock
		third := locktest.Wants(t, b) // so that the next of a's is behind it
		time.Sleep(500 * time.Millisecond)
		asks := make([]atomic.Int32, 5)
		for i, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				switch {
				case strings.HasPrefix(locktest.ScriptOf(args), "hand"):
					time.Sleep(10 * time.Millisecond)
				case strings.HasPrefix(locktest.ScriptOf(args), "ask"):
					asks[i].Add(1)
				}
				return redlocktest.Pass()
			})
		}
		locktest.MustRelease(t, lock)
		lock = locktest.Got(t, third).Lock
		time.Sleep(15 * time.Millisecond)
		for i := range asks {
			if n := asks[i].Load(); n != 0 {
				t.Errorf("node %d was asked %d times; want never", i, n)
			}
		}
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, second).Lock)
	})
}

// A node that is out of memory refuses a release that grants, for its writes, and takes one
// that deletes. So what was refused, or had no reply, goes again as one that calls.
func TestAReleaseThatMayHaveGrantedGoesAgainAsOneThatCalls(t *testing.T) {
	for name, v := range map[string]redlocktest.Verdict{
		"out of memory": redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'."),
		"no reply":      redlocktest.BreakAfter(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holder, nodes := locktest.NewLocker(t, 3)
				l := locktest.SeparateLocker(t, nodes)
				locktest.Warm(t, l)
				lock := locktest.MustAcquire(t, holder, "orders/42")
				synctest.Wait()
				next := standing(t, nodes, l)
				grants := make([]atomic.Int64, len(nodes.Nodes()))
				for i, n := range nodes.Nodes() {
					n.Intercept(func(args []string) redlocktest.Verdict {
						if !strings.HasPrefix(locktest.ScriptOf(args), "hand") {
							return redlocktest.Pass()
						}
						grants[i].Add(1)
						return v
					})
				}
				released := time.Now()
				locktest.MustRelease(t, lock)
				locktest.Got(t, next)
				if d := time.Since(released); d > time.Second {
					t.Errorf("the next one had it after %v; want it within a second", d)
				}
				time.Sleep(time.Second)
				for i := range grants {
					if n := grants[i].Load(); n != 1 {
						t.Errorf("node %d: got %d releases that grant; want one", i, n)
					}
				}
			})
		})
	}
}

// A node that was away for longer than a release is repeated may have an entry in line of
// an attempt that is over. The next release there grants the name to it, and the process
// that hears of it gives it back; else that node would keep the key for three seconds.
func TestAGrantToAnAttemptThatIsOverIsGivenBack(t *testing.T) {
	testkit.Unraced(t)
	for _, tt := range []struct {
		name                  string
		handedOn, wantedAgain bool
		turns                 int
	}{
		{name: "of a name that is not wanted"},
		{name: "of one that is", wantedAgain: true},
		{name: "of a lock that was handed on", handedOn: true},
		{name: "of one whose process went on in line", handedOn: true, turns: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holder, nodes := locktest.NewLocker(t, 5)
				var opts []redlock.Option
				if tt.turns > 0 {
					opts = append(opts, redlock.WithTurns(tt.turns))
				}
				l := locktest.SeparateLocker(t, nodes, opts...)
				locktest.Warm(t, l)
				lock := locktest.MustAcquire(t, holder, "orders/42")
				synctest.Wait()
				next := standing(t, nodes, l)
				var second <-chan locktest.Gained
				if tt.handedOn {
					second = locktest.Wants(t, l)
				}
				node := nodes.Node(3).Miniredis()
				entry, err := node.ZMembers("redlock:queue:orders/42")
				testkit.Must(t, err)
				place, err := node.ZScore("redlock:queue:orders/42", entry[0])
				testkit.Must(t, err)
				locktest.MustRelease(t, lock)
				locktest.MustRelease(t, locktest.Got(t, next).Lock)
				if tt.handedOn {
					locktest.MustRelease(t, locktest.Got(t, second).Lock)
				}
				synctest.Wait() // a node that is not yet free would refuse the next
				another := locktest.MustAcquire(t, holder, "orders/41")
				lives := make(chan *redlock.Lock, 1)
				go func() {
					lock, err := l.Acquire(t.Context(), "orders/41")
					if err != nil {
						t.Error(err)
					}
					lives <- lock
				}()
				lock = locktest.MustAcquire(t, holder, "orders/42")
				synctest.Wait() // one that it has not reached may grant the next attempt
				if tt.wantedAgain {
					next = locktest.Wants(t, l)
				}
				time.Sleep(2500 * time.Millisecond) // signs of life are under way
				if held, _ := node.Get("orders/42"); held == "" {
					t.Fatal("the node has not granted the lock; its release would show nothing")
				}
				for _, member := range entry {
					_, err = node.ZAdd("redlock:queue:orders/42", place, member)
					testkit.Must(t, err)
				}
				at := slices.IndexFunc(entry, func(m string) bool { return strings.Contains(m, " ") })
				if at < 0 {
					t.Fatalf("got %q; want an attempt in line", entry)
				}
				_, owner, _ := strings.Cut(entry[at], " ")
				locktest.MustRelease(t, lock)
				synctest.Wait()
				time.Sleep(10 * time.Millisecond)
				if key, _ := node.Get("orders/42"); key == owner {
					t.Errorf("the node keeps %q, of an attempt that is over", key)
				}
				if tt.wantedAgain {
					locktest.MustRelease(t, locktest.Got(t, next).Lock)
				}
				locktest.MustRelease(t, another)
				locktest.MustRelease(t, <-lives)
			})
		})
	}
}

// foreignOn holds orders/42 on these nodes as a client that is not redlock's.
func foreignOn(t *testing.T, nodes *redlocktest.Cluster, which ...int) {
	t.Helper()
	for _, i := range which {
		testkit.Must(t, nodes.Node(i).Miniredis().Set("orders/42", "c29tZWJvZHkgZWxzZQ=="))
	}
}

// Clients that stand in no line find the name free where one of them was seen on it
// lately: the release calls who waits. It may have been seen by any attempt.
func TestAReleaseCallsWhereAForeignHolderWasSeen(t *testing.T) {
	for name, take := range map[string]func(*testing.T, *redlock.Locker, *redlocktest.Cluster) *redlock.Lock{
		"by an attempt that no release can grant":      seenByABid,
		"by an attempt that was refused, and given up": seenByARefusal,
		"by the attempt that brought the lock":         seenByAGrant,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := &locktest.Events{}
				l, nodes := locktest.NewLocker(t, 5, redlock.WithTurns(1))
				next := locktest.SeparateLocker(t, nodes, told.Option())
				locktest.Warm(t, l)
				locktest.Warm(t, next)
				lock := take(t, l, nodes)
				synctest.Wait()
				waits := locktest.Wants(t, next)
				time.Sleep(500 * time.Millisecond)
				locktest.MustRelease(t, lock)
				locktest.MustRelease(t, locktest.Got(t, waits).Lock)
				synctest.Wait()
				if got := told.Of(redlock.EventLockAcquired); got[len(got)-1].Turn != redlock.TurnCalled {
					t.Errorf("got %+v; want a lock that was called for", got[len(got)-1])
				}
			})
		})
	}
}

// seenByABid gives up an attempt whose lease is too short for a grant.
func seenByABid(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster) *redlock.Lock {
	t.Helper()
	return seenInVain(t, l, nodes, redlock.WithTTL(2*time.Second))
}

// seenByARefusal gives up an attempt that a release could have granted.
func seenByARefusal(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster) *redlock.Lock {
	t.Helper()
	return seenInVain(t, l, nodes)
}

func seenInVain(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster, opts ...redlock.AcquireOption) *redlock.Lock {
	t.Helper()
	foreignOn(t, nodes, 0, 1, 2, 3, 4)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := l.Acquire(ctx, "orders/42", opts...); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v; want the end of the context", err)
	}
	synctest.Wait()
	locktest.FreeName(nodes, 0, 1, 2, 3, 4)
	return locktest.MustAcquire(t, l, "orders/42")
}

// seenByAGrant has two nodes become a foreign client's while the lock is waited for, and
// the others free.
func seenByAGrant(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster) *redlock.Lock {
	t.Helper()
	holder := locktest.SeparateLocker(t, nodes)
	locktest.Warm(t, holder)
	locktest.MustAcquire(t, holder, "orders/42", redlock.WithTTL(20*time.Second), redlock.WithFixedLease())
	synctest.Wait()
	next := standing(t, nodes, l)
	foreignOn(t, nodes, 3, 4)
	locktest.FreeName(nodes, 0, 1, 2)
	nodes.Node(2).Intercept(locktest.Slowly("ask", 5*time.Millisecond)) // so that the others are asked, and answer
	locktest.CallWaiters(t, nodes, 0, 1)
	lock := locktest.Got(t, next).Lock
	locktest.FreeName(nodes, 3, 4)
	return lock
}
