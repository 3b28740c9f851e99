package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// What a node granted to others may be as long as the longest lease in the
// cluster, not only as long as this client's.
func TestANodeWhoseClockSteppedAbstainsForTheLongestLeaseOfAnyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		testkit.Must(t, locktest.LockerOver(t, nodes).Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: 2 * time.Minute}, redlock.ChangeOptions{}))
		var seen locktest.Events
		l := locktest.LockerOver(t, nodes, seen.Option())
		locktest.SampleClocks(t, l)
		time.Sleep(time.Second)
		nodes.Node(0).Miniredis().SetTime(time.Now().Add(20 * time.Second))
		locktest.Warm(t, l)
		synctest.Wait()
		steps := seen.Of(redlock.EventNodeClockStepped)
		if len(steps) == 0 || steps[0].Node != 0 {
			t.Fatalf("got %v; want the step of node 0", steps)
		}
		locktest.WantText(t, "the step", steps[0].Err.Error(), "MaxTTL (2m0s)")
	})
}

// A clock that can't be watched is not trusted, and the error says what would do.
func TestAUserWithoutTIMEIsToldOfWithoutClockWatch(t *testing.T) {
	servers := locktest.NeedMasters(t, 3, redisserver.Config{Users: []string{"weak on >secret ~* +@all -time"}})
	over := func(opts ...redlock.Option) *redlock.Locker {
		clients := make([]redis.UniversalClient, len(servers))
		for i, s := range servers {
			c := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "weak", Password: "secret"})
			t.Cleanup(func() { _ = c.Close() })
			clients[i] = c
		}
		return locktest.LockerWith(t, clients, append(opts, redlock.WithNodeTimeout(time.Second))...)
	}
	l := over()
	_, err := l.TryAcquire(t.Context(), "orders/42")
	locktest.WantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
	locktest.WantText(t, "TryAcquire", fmt.Sprint(err), "WithoutClockWatch", "do not vote")
	locktest.PollUntil(t, 5*time.Second, "what was granted before that was known is gone", func() bool {
		return locktest.KeyOn(t, servers[0], "orders/42")+locktest.KeyOn(t, servers[1], "orders/42")+locktest.KeyOn(t, servers[2], "orders/42") == ""
	})
	locktest.MustRelease(t, locktest.MustAcquire(t, over(redlock.WithoutClockWatch()), "orders/42"))
}

// One node's damage, or one name's past, must not carry all names to the end of
// the range.
func TestADamagedCounterOfOneNameDoesNotDragTheOthersAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.SampleClocks(t, l)
		nodes.Node(2).Stop() // so that the damaged counter is in every quorum
		nodes.Node(0).Miniredis().HSet(lua.NodeKey, fmt.Sprint(lua.StripeOf("orders/42")), fmt.Sprint(uint64(redlock.MaxToken)-10))
		far := locktest.MustAcquire(t, l, "orders/42")
		if far.Token() < redlock.MaxToken-10 {
			t.Fatalf("got token %v; want one above the damaged counter", far.Token())
		}
		for i := range 20 {
			near := locktest.MustAcquire(t, l, fmt.Sprintf("others/%d", i))
			if most := time.Now().Add(2 * time.Minute).UnixMicro(); near.Token() > redlock.Token(most) {
				t.Fatalf("another name: got token %v; want one by the clock, below %d", near.Token(), most)
			}
			locktest.MustRelease(t, near)
		}
		locktest.MustRelease(t, far)
	})
}

// A lock that asks nothing of the nodes for as long as it is held: nobody but the
// watch looks at their clocks. A quorum steps, and it ends before a contender who
// never saw these nodes could have had it for more than a quarter of a second.
func TestAHolderSeesAStepWithinAQuarterOfASecondOfIt(t *testing.T) {
	testkit.Unraced(t)
	for _, names := range []int{1, 300} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 5, redlock.WithFixedLease(), redlock.WithTTL(30*time.Second))
			locks := make([]*redlock.Lock, names)
			for i := range locks {
				locks[i] = locktest.MustAcquire(t, l, fmt.Sprintf("orders/%d", i))
			}
			synctest.Wait()
			time.Sleep(5 * time.Second)
			for _, n := range nodes.Nodes()[:3] {
				n.Miniredis().SetTime(time.Now().Add(time.Minute))
			}
			time.Sleep(260 * time.Millisecond)
			synctest.Wait()
			for _, lock := range locks {
				err := lock.Err()
				locktest.WantError(t, "the lock", err, redlock.ErrLost)
				locktest.WantText(t, "the lock", fmt.Sprint(err), "stepped")
			}
		})
	}
}

// One look a node every quarter of a second, no matter the number of locks; what
// traffic reads counts; and who holds nothing and waits for nothing sends nothing.
func TestTheWatchLooksAtEachNodeOnceForAllLocks(t *testing.T) {
	looks := func(t *testing.T, n *redlocktest.Node, d time.Duration) (times, all int) {
		t.Helper()
		times, all = n.Calls("TIME"), n.Calls()
		time.Sleep(d)
		synctest.Wait()
		return n.Calls("TIME") - times, n.Calls() - all
	}
	for _, names := range []int{1, 300} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 3, redlock.WithFixedLease(), redlock.WithTTL(30*time.Second))
			var held []*redlock.Lock
			for i := range names {
				held = append(held, locktest.MustAcquire(t, l, fmt.Sprintf("orders/%d", i)))
			}
			time.Sleep(time.Second)
			if times, all := looks(t, nodes.Node(1), 10*time.Second); times < 39 || times > 41 || all != 2*times {
				t.Errorf("%d locks: got %d looks at a clock and %d commands in ten seconds; want 40, each with who answers beside it", names, times, all)
			}
			for _, lock := range held {
				locktest.MustRelease(t, lock)
			}
			time.Sleep(time.Second)
			if _, all := looks(t, nodes.Node(1), 10*time.Second); all != 0 {
				t.Errorf("an idle Locker: got %d commands; want none", all)
			}
			locktest.MustAcquire(t, l, "orders/42") // and it begins again
			time.Sleep(time.Second)
			if times, _ := looks(t, nodes.Node(1), 10*time.Second); times < 39 || times > 41 {
				t.Errorf("after a pause: got %d looks in ten seconds; want 40", times)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3, redlock.WithoutClockWatch(), redlock.WithoutMembership(), redlock.WithFixedLease(), redlock.WithTTL(30*time.Second))
		locktest.MustAcquire(t, l, "orders/42")
		time.Sleep(time.Second)
		if times, _ := looks(t, nodes.Node(1), 10*time.Second); times != 0 {
			t.Errorf("neither clocks nor members: got %d looks; want none", times)
		}
	})
}

// A release, or a grant, that comes while a node's reply is out waits for that reply. So
// what a Locker sends by itself is never out to a quorum at once.
func TestWhatIsSentBesideALockGoesToOneNodeAtATime(t *testing.T) {
	for what, is := range map[string]func(args []string) bool{
		"look at the clock": func(args []string) bool { return strings.EqualFold(args[0], "TIME") },
		"sign of life":      func(args []string) bool { return strings.HasPrefix(locktest.ScriptOf(args), "look") && args[2] == "0" },
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 5)
			other := locktest.SeparateLocker(t, nodes)
			lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithTTL(30*time.Second), redlock.WithFixedLease())
			synctest.Wait() // or a node that it has not reached grants the other
			var waiting <-chan locktest.Gained
			if what == "sign of life" {
				waiting = locktest.Wants(t, other)
			}
			time.Sleep(2 * time.Second) // they find their own times
			var mu sync.Mutex
			at, all := map[time.Duration]int{}, 0
			start := time.Now()
			for _, n := range nodes.Nodes() {
				n.Intercept(func(args []string) redlocktest.Verdict {
					if is(args) {
						mu.Lock()
						defer mu.Unlock()
						at[time.Since(start)/(10*time.Millisecond)]++
						all++
					}
					return redlocktest.Pass()
				})
			}
			time.Sleep(10 * time.Second)
			mu.Lock()
			most := 0
			for _, n := range at {
				most = max(most, n)
			}
			sent := all
			mu.Unlock()
			if sent < 100 || most > 2 {
				t.Errorf("%s: got %d, up to %d of them within 10 ms; want at least 100, and at most 2 there: not a quorum", what, sent, most)
			}
			testkit.Must(t, lock.Release(t.Context()))
			if waiting != nil {
				locktest.Got(t, waiting)
			}
		})
	}
}

// A process that only waits sends signs of life, for minutes. It knows of a step before it is
// granted anything, however small the step is against the time that it has waited.
func TestAProcessThatOnlyWaitsSeesAStep(t *testing.T) {
	testkit.Unraced(t)
	locktest.BesideServers(t)
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := locktest.NewLocker(t, 5)
		locktest.MustAcquire(t, holder, "orders/42")
		var seen locktest.Events
		other := locktest.LockerOver(t, nodes, seen.Option())
		ctx, leave := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		waits.Go(func() {
			if _, err := other.Acquire(ctx, "orders/42"); err == nil {
				t.Error("two holders")
			}
		})
		time.Sleep(345 * time.Second)
		for _, n := range nodes.Nodes()[:3] {
			n.Miniredis().SetTime(time.Now().Add(3300 * time.Millisecond))
		}
		time.Sleep(260 * time.Millisecond)
		synctest.Wait()
		if got := seen.Nodes(redlock.EventNodeClockStepped); !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("got the steps of %v reported; want those of 0, 1 and 2", got)
		}
		leave()
		waits.Wait()
	})
}

// quiet waits until the servers have been sent no script for three seconds.
func quiet(t *testing.T, servers []*redisserver.Server) {
	t.Helper()
	last, since := 0, time.Now()
	locktest.PollUntil(t, 20*time.Second, "nobody sends a script", func() bool {
		calls := 0
		for _, s := range servers {
			calls += locktest.ScriptCalls(t, s)
		}
		if calls != last {
			last, since = calls, time.Now()
		}
		locktest.Pause(50 * time.Millisecond)
		return time.Since(since) > 3*time.Second
	})
}

// On real servers: a client that has just begun knows nothing of the step, and may
// be granted what is held. The holder, which asks nothing of the nodes for itself,
// learns of it all the same.
func TestAHolderLearnsOfAStepBeforeAFreshClientHasHeldForLong(t *testing.T) {
	servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
	holder := locktest.FakeClockLocker(t, servers, redlock.WithFixedLease(), redlock.WithTTL(15*time.Second))
	held := locktest.MustAcquire(t, holder, "orders/42")
	quiet(t, servers) // what confirms a lock on nodes that have just begun to vote would notice as well
	knew := make(chan time.Time, 1)
	go func() {
		<-held.Done()
		knew <- time.Now()
	}()
	locktest.SetClocks(t, servers[:3], "+60")
	stepped := time.Now()
	fresh := locktest.FakeClockLocker(t, servers)
	var granted time.Time
	locktest.PollUntil(t, 20*time.Second, "the fresh client is granted it", func() bool {
		_, err := fresh.TryAcquire(t.Context(), "orders/42", redlock.WithFixedLease())
		granted = time.Now()
		return err == nil
	})
	select {
	case at := <-knew:
		t.Logf("the holder knew %v after the step; the fresh client had it after %v", at.Sub(stepped).Round(time.Millisecond), granted.Sub(stepped).Round(time.Millisecond))
		if both := at.Sub(granted); both > 1500*time.Millisecond { // a quarter of a second and a round, and what a busy machine adds
			t.Errorf("both held it for %v; want at most 1.5s", both)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("three of five clocks stepped, and nobody looked")
	}
	// A round that was out when the clocks stepped may be told first that the keys have ended.
	if err := held.Err(); !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), "stepped") && !strings.Contains(err.Error(), "no longer there") {
		t.Errorf("got cause %v; want ErrLost that names the step, or its effect", err)
	}
}

// A contender that tried a moment ago has a fresh sample of every clock. The clocks
// of a quorum step, which ends the holder's leases there, and it tries again at once:
// what it is granted comes with a sample of its own.
func TestWhatAStepGaveAwayIsNotTakenByWhoTriedAMomentAgo(t *testing.T) {
	for name, opts := range map[string][]redlock.AcquireOption{"plain": nil, "by its place in line": {redlock.WithBarging()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holder, nodes := locktest.NewLocker(t, 5, redlock.WithFixedLease(), redlock.WithTTL(30*time.Second))
				locktest.MustAcquire(t, holder, "orders/42")
				other := locktest.LockerOver(t, nodes)
				locktest.SampleClocks(t, other)
				for range 3 {
					_, err := other.TryAcquire(t.Context(), "orders/42", opts...)
					locktest.WantError(t, "before the step", err, redlock.ErrNotAcquired)
					synctest.Wait()
					time.Sleep(10 * time.Millisecond)
				}
				for _, n := range nodes.Nodes()[:3] {
					n.Miniredis().SetTime(time.Now().Add(time.Minute))
					n.Miniredis().Del("orders/42") // miniredis ends no lease for its clock
				}
				_, err := other.TryAcquire(t.Context(), "orders/42", opts...)
				locktest.WantError(t, "just after the step", err, redlock.ErrNoQuorum)
				if err != nil && locktest.CausesWith(err, "its clock stepped forward") != 3 {
					t.Errorf("got %v; want it to name the three that stepped", err)
				}
			})
		})
	}
}

// Where the sample behind a grant is lost, nobody can tell whether the clock has
// stepped before: the grant counts for nothing, and is given back.
func TestAGrantWithoutItsSampleDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		locktest.Warm(t, l)
		synctest.Wait()
		for _, n := range nodes.Nodes()[:3] {
			granted := false
			n.Intercept(func(args []string) redlocktest.Verdict {
				granted = granted || strings.HasPrefix(locktest.ScriptOf(args), "acquire")
				if granted && args[0] == "TIME" {
					n.Intercept(nil)
					return redlocktest.ReplyError("ERR not now")
				}
				return redlocktest.Pass()
			})
		}
		_, err := l.TryAcquire(t.Context(), "orders/42")
		locktest.WantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		locktest.WantText(t, "TryAcquire", fmt.Sprint(err), "its clock was not read behind the grant")
		time.Sleep(time.Second)
		synctest.Wait()
		locktest.WantNoLocks(t, nodes, "given back")
		locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
	})
}

// A hand-over within the Locker is a grant as well: it counts only with a sample
// behind it, however fresh the last one is.
func TestAHandOverWithoutASampleThatShowsNoStepDoesNotCount(t *testing.T) {
	for want, spoil := range map[string]func(n *redlocktest.Node){
		"its clock stepped forward": func(n *redlocktest.Node) { // by less than the lease: its key is there to hand over
			n.Miniredis().SetTime(time.Now().Add(3 * time.Second))
		},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told locktest.Events
				l, nodes := locktest.NewLocker(t, 5, told.Option(), redlock.WithFixedLease(), redlock.WithTTL(30*time.Second))
				locktest.Warm(t, l)
				lock := locktest.MustAcquire(t, l, "orders/42")
				ctx, leave := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if next, err := l.Acquire(ctx, "orders/42"); err == nil {
						_ = next.Release(ctx)
					}
				}()
				synctest.Wait()
				for _, n := range nodes.Nodes()[:3] {
					spoil(n)
				}
				_ = lock.Release(t.Context()) // in doubt, a quorum need not confirm it
				synctest.Wait()
				failed := told.Of(redlock.EventAttemptFailed)
				if len(failed) == 0 || locktest.CausesWith(failed[0].Err, want) != 3 {
					t.Errorf("got %v as the failed attempts; want the hand-over to be the first, with %q of three nodes", failed, want)
				}
				for _, e := range told.Of(redlock.EventLockAcquired) {
					if e.Turn == redlock.TurnHandedOver {
						t.Error("the hand-over counts; want it to end with nothing")
					}
				}
				leave()
				<-ended
				time.Sleep(time.Second)
				synctest.Wait()
				locktest.WantNoLocks(t, nodes, "given back")
			})
		})
	}
}

// On real servers, as it was found: two holders every time.
func TestAStepThatIsAMomentOldMakesNoSecondHolder(t *testing.T) {
	for range 3 {
		servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
		holder := locktest.FakeClockLocker(t, servers, redlock.WithFixedLease(), redlock.WithTTL(30*time.Second))
		other := locktest.FakeClockLocker(t, servers)
		held := locktest.MustAcquire(t, holder, "orders/42")
		for range 3 {
			if _, err := other.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
				t.Fatalf("before the step: got %v; want ErrNotAcquired", err)
			}
		}
		locktest.SetClocks(t, servers[:3], "+60")
		// What the holder knows by then, this client has seen the clocks before.
		if second, err := other.TryAcquire(t.Context(), "orders/42"); err == nil {
			t.Errorf("granted with token %v by clocks that stepped; the holder has %v of its validity left", second.Token(), held.Remaining())
		}
		testkit.Must(t, errors.Join(holder.Close(), other.Close(), redisserver.CloseAll(servers)))
	}
}

// MaxTTL as it was when the Locker opened is not what it is now: it was raised, and the leases
// of others are as long. The step is seen once, though readings just before it were compared
// with other nodes'.
func TestTheWaitAfterAStepIsForTheMaxTTLOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.SampleClocks(t, l)
		testkit.Must(t, locktest.LockerOver(t, nodes).Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: 2 * time.Minute}, redlock.ChangeOptions{}))
		locktest.SampleClocks(t, l)
		defer locktest.AdvanceClocks(20*time.Second, nodes.Nodes()[:2]...)()
		_, err := l.TryAcquire(t.Context(), "orders/42")
		locktest.WantError(t, "after the step", err, redlock.ErrNoQuorum)
		abstain := func() []bool {
			s := l.Stats().Nodes
			return []bool{s[0].Abstains, s[1].Abstains, s[2].Abstains}
		}
		if got, want := abstain(), []bool{true, true, false}; !slices.Equal(got, want) {
			t.Errorf("Stats after the step of nodes 0 and 1: abstain %v; want %v", got, want)
		}
		time.Sleep(redlock.DefaultMaxTTL + 10*time.Second)
		_, err = l.TryAcquire(t.Context(), "orders/42")
		locktest.WantError(t, "after the earlier MaxTTL", err, redlock.ErrNoQuorum)
		locktest.WantText(t, "after the earlier MaxTTL", fmt.Sprint(err), "MaxTTL (2m0s)")
		time.Sleep(2*time.Minute - redlock.DefaultMaxTTL)
		locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
		if got, want := abstain(), make([]bool, 3); !slices.Equal(got, want) {
			t.Errorf("Stats after the wait: abstain %v; want %v", got, want)
		}
	})
}

// On real servers: MaxTTL was raised since the records were read last.
func TestTheWaitAfterAStepIsForTheMaxTTLOfNowOnRealServers(t *testing.T) {
	t.Parallel()
	const raised = 3 * locktest.ShortMax
	servers := testserver.Need(t, 3, redisserver.Config{FakeClock: true})
	l := locktest.FakeClockLocker(t, servers, locktest.ShortLeases()...)
	locktest.Warm(t, l)
	testkit.Must(t, locktest.FakeClockLocker(t, servers, locktest.ShortLeases()...).Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: raised}, redlock.ChangeOptions{}))
	locktest.Warm(t, l)
	stepped, said := time.Now(), false
	locktest.SetClocks(t, servers[:2], "+20")
	locktest.PollUntil(t, raised+20*time.Second, "it locks again", func() bool {
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		if err == nil {
			locktest.MustRelease(t, lock)
		}
		said = said || strings.Contains(locktest.ErrorText(err), fmt.Sprintf("MaxTTL (%v)", raised))
		return err == nil
	})
	if took := time.Since(stepped); took < raised {
		t.Errorf("a quorum that had stepped voted again after %v; want MaxTTL, %v, first", took, raised)
	}
	if !said {
		t.Errorf("no refusal named MaxTTL as it is now")
	}
}

// A lease of the raised MaxTTL is a healthy one: nobody is told to delete its key.
func TestALeaseOfARaisedMaxTTLIsNotCalledAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.SampleClocks(t, l)
		time.Sleep(time.Second)
		more := locktest.LockerOver(t, nodes, redlock.WithMaxTTL(2*time.Minute))
		testkit.Must(t, more.Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: 2 * time.Minute}, redlock.ChangeOptions{}))
		locktest.MustAcquire(t, more, "orders/42", redlock.WithTTL(2*time.Minute), redlock.WithFixedLease())
		_, err := l.TryAcquire(t.Context(), "orders/42")
		locktest.WantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
		if err != nil && (strings.Contains(err.Error(), "beyond MaxTTL") || !strings.Contains(err.Error(), "held by another, ")) {
			t.Errorf("got %v; want no word of a clock", err)
		}
	})
}
