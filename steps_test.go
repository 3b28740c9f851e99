package redlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

func TestALockOutlivesTheStepOfOneClockAndEndsWithThatOfAQuorum(t *testing.T) {
	t.Parallel()
	for _, offset := range []string{"+20", "-20"} {
		t.Run(offset, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
			var log locktest.Events
			l := fakeClockLocker(t, servers, redlock.WithTTL(5*time.Second), log.Option())
			lock := mustAcquire(t, l, "orders/42")

			setClocks(t, servers[:1], offset)
			eventually(t, 10*time.Second, func() bool { return slices.Equal(log.Nodes(redlock.EventNodeClockStepped), []int{0}) })
			if err := lock.Err(); err != nil {
				t.Fatalf("after one clock stepped: got %v; want the lock held", err)
			}
			setClocks(t, servers[1:3], offset)
			select {
			case <-lock.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("three of five clocks stepped, and the lock did not end")
			}
			if err := lock.Err(); !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), "stepped") {
				t.Errorf("got cause %v; want ErrLost that names the step", err)
			}
			_, err := l.TryAcquire(t.Context(), "another")
			if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), "abstains") {
				t.Errorf("TryAcquire with three nodes in doubt: got %v; want ErrNoQuorum that says why", err)
			}
		})
	}
}

// A quorum of clocks that jump forward expire a lock that is held. The pair shows
// what the watch is worth to a contender who has seen the nodes before.
func TestTheStepOfAQuorumMakesTwoHoldersOnlyWithoutTheWatch(t *testing.T) {
	const tries = 4
	for try := range tries {
		watched := try == 0
		servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
		var opts []redlock.Option
		if !watched {
			opts = append(opts, redlock.WithoutClockWatch())
		}
		holder := fakeClockLocker(t, servers, append(opts, redlock.WithFixedLease(), redlock.WithTTL(15*time.Second))...)
		var log locktest.Events
		other := fakeClockLocker(t, servers, append(opts, log.Option())...)
		held := acquiredOnAll(t, holder, servers)
		if _, err := other.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Fatalf("before the step: got %v; want ErrNotAcquired", err)
		}
		setClocks(t, servers[:3], "+20")
		if watched { // a sample is at most 100 ms old while there is traffic
			eventually(t, 10*time.Second, func() bool {
				if l, err := other.TryAcquire(t.Context(), "another"); err == nil {
					_ = l.Release(t.Context())
				}
				return slices.Equal(log.Nodes(redlock.EventNodeClockStepped), []int{0, 1, 2})
			})
		}
		second, err := other.TryAcquire(t.Context(), "orders/42")
		switch {
		case watched && err == nil && held.Err() == nil:
			t.Errorf("watched: a second holder, token %v, while %v of the first one's validity is left", second.Token(), held.Remaining())
		case !watched && err == nil && held.Err() == nil:
			return
		case !watched: // a node of a busy machine was down for a moment, and the lock was confirmed behind it
			t.Logf("unwatched: got %v and %v; want two holders", err, held.Err())
		}
	}
	t.Errorf("unwatched: one holder in each of %d tries; want two, or this test shows nothing", tries-1)
}

// acquiredOnAll acquires until the key is on every server: an acquire that a slow one meets
// behind a step has the whole lease before it, and one that it never met shows nothing.
func acquiredOnAll(t *testing.T, l *redlock.Locker, servers []*redisserver.Server) *redlock.Lock {
	t.Helper()
	for range 10 {
		held := mustAcquire(t, l, "orders/42")
		for soon := time.Now().Add(time.Second); time.Now().Before(soon); {
			if !slices.ContainsFunc(servers, func(s *redisserver.Server) bool { return keyOn(t, s, "orders/42") == "" }) {
				return held
			}
		}
		mustRelease(t, held)
	}
	t.Fatal("no acquire reached all servers")
	return nil
}

// eventually polls until the condition holds, or fails the test.
func eventually(t *testing.T, limit time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v", limit)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A holder dies, and clocks jump back: on the nodes that jumped its key stays for
// two hours more. One such node keeps nobody waiting; a quorum does, and says why.
// Without the watch they go on voting at once, as if nothing had happened; with it
// they do so after MaxTTL.
func TestAJumpBackKeepsADeadHoldersLeaseAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		stepped int
		opts    []redlock.Option
		watched bool
	}{
		{"one of five", 1, nil, true},
		{"three of five", 3, nil, true},
		{"three of five, without the watch", 3, []redlock.Option{redlock.WithoutClockWatch()}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
			var log locktest.Events
			l := fakeClockLocker(t, servers, append(append(short(), tt.opts...), log.Option())...)
			warm(t, l)
			for _, s := range servers { // the key of one whom nobody will see again
				must(t, s.Client().Set(t.Context(), "orders/42", "the dead holder", 1500*time.Millisecond).Err())
			}
			setClocks(t, servers[:tt.stepped], "-7200")
			if tt.stepped == 1 {
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				return
			}
			if tt.watched {
				eventually(t, 10*time.Second, func() bool {
					_, err := l.TryAcquire(t.Context(), "another")
					return errors.Is(err, redlock.ErrNoQuorum) && causesWith(err, "abstains") == tt.stepped
				})
			} else { // of any three nodes that grant, one has stepped
				mustRelease(t, mustAcquire(t, l, "another"))
			}
			var err error
			eventually(t, 10*time.Second, func() bool {
				_, err = l.TryAcquire(t.Context(), "orders/42")
				// By the two whose clocks stand right, and the others are believed again.
				return err != nil && strings.Contains(err.Error(), "; 2 granted it; it takes 3") && !strings.Contains(err.Error(), "not vote")
			})
			if !errors.Is(err, redlock.ErrNotAcquired) || causesWith(err, "beyond MaxTTL (2s): the node's clock stepped back") != tt.stepped {
				t.Errorf("got %v; want ErrNotAcquired, and why", err)
			}
			if causesWith(err, "held by another for 2h")+causesWith(err, "held by another for 1h59m") != tt.stepped {
				t.Errorf("got %v; want it to say for how long", err)
			}
			var want []int
			if tt.watched {
				want = []int{0, 1, 2}
			}
			if got := log.Nodes(redlock.EventNodeClockStepped); !slices.Equal(got, want) {
				t.Errorf("got the nodes %v reported; want %v", got, want)
			}
		})
	}
}

func TestALeaseBeyondMaxTTLSaysWhyItStays(t *testing.T) {
	l, nodes := newLocker(t, 3, redlock.WithNodeTimeout(patient))
	for _, n := range nodes.Nodes() {
		must(t, n.Miniredis().Set("orders/42", "somebody"))
		n.Miniredis().SetTTL("orders/42", 3*time.Hour)
	}
	_, err := l.TryAcquire(t.Context(), "orders/42")
	if !errors.Is(err, redlock.ErrNotAcquired) || !strings.Contains(err.Error(), "beyond MaxTTL") {
		t.Errorf("got %v; want ErrNotAcquired that says why it stays", err)
	}
}

// oneClock is three nodes of which the first two have what is held, and what befalls them:
// the clock of the second jumps by a minute, and the first is out of reach. So who comes then
// asks the second and the third. Without the clock watch that is a second holder.
type oneClock struct {
	first, other *redlock.Locker
	nodes        *redlocktest.Cluster
}

func newOneClock(t *testing.T, watched bool) *oneClock {
	t.Helper()
	var opts []redlock.Option
	if !watched {
		opts = append(opts, redlock.WithoutClockWatch())
	}
	nodes := redlocktest.Start(t, 3)
	c := &oneClock{separateLocker(t, nodes, opts...), separateLocker(t, nodes, opts...), nodes}
	sampled(t, c.other)
	sampled(t, c.first) // the last: after a silence it would send nothing to one that loses its requests
	c.loses(2)
	return c
}

// loses drops the requests to one node, and lets those to the others arrive.
func (c *oneClock) loses(node int) {
	for i, n := range c.nodes.Nodes() {
		n.Intercept(nil)
		if i == node {
			n.Intercept(func([]string) redlocktest.Verdict { return redlocktest.LoseRequest() })
		}
	}
}

// steps makes the second clock jump, and lets other see it; undo ends the jump.
func (c *oneClock) steps(t *testing.T) (undo func()) {
	t.Helper()
	synctest.Wait()
	undo = ahead(time.Minute, c.nodes.Node(1))
	c.loses(0)
	for range 3 {
		time.Sleep(200 * time.Millisecond)
		if lock, err := c.other.TryAcquire(t.Context(), "another"); err == nil {
			mustRelease(t, lock)
		}
		synctest.Wait()
	}
	return undo
}

func TestAStepOfOneClockLetsNoMoreHoldThanTheLimit(t *testing.T) {
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, limit := newOneClock(t, watched), redlock.WithLimit(2)
			held := []*redlock.Lock{
				mustAcquire(t, c.first, "orders/42", limit, redlock.WithFixedLease()),
				mustAcquire(t, c.first, "orders/42", limit, redlock.WithFixedLease()),
			}
			defer c.steps(t)()
			for _, slot := range []string{"redlock:slot:0:orders/42", "redlock:slot:1:orders/42"} {
				c.nodes.Node(2).Miniredis().Del(slot) // where a late one came all the same
			}
			third, err := c.other.TryAcquire(t.Context(), "orders/42", limit)
			valid := 0
			for _, lock := range append(held, third) {
				if lock != nil && lock.Err() == nil {
					valid++
				}
			}
			switch {
			case watched && (valid > 2 || !errors.Is(err, redlock.ErrNoQuorum)):
				t.Errorf("%d hold two slots, and the third got %v; want ErrNoQuorum", valid, err)
			case !watched && valid != 3:
				t.Errorf("unwatched: %d hold, %v; want three, or this test shows nothing", valid, err)
			}
		})
	}
}

func TestAStepOfOneClockLetsNoTwoLead(t *testing.T) {
	testkit.Unraced(t)
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newOneClock(t, watched)
			a := campaigns(t, c.first, "a")
			lead := <-a.leads
			undo := c.steps(t)
			b := campaigns(t, c.other, "b")
			all, most := []*redlock.Lock{lead}, 0
			leading := func(during time.Duration) (now int) {
				for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
					for len(a.leads) > 0 {
						all = append(all, <-a.leads)
					}
					for len(b.leads) > 0 {
						all = append(all, <-b.leads)
					}
					now = 0
					for _, lock := range all {
						if lock.Err() == nil {
							now++
						}
					}
					most = max(most, now)
				}
				return now
			}
			leading(5 * time.Second)
			if !watched {
				if most != 2 {
					t.Errorf("unwatched: at most %d lead at once; want two, or this test shows nothing", most)
				}
			} else {
				c.nodes.Node(0).Intercept(nil)
				if now := leading(5 * time.Minute); now != 1 || most != 1 {
					t.Errorf("%d lead in the end, and %d at most; want one at every time", now, most)
				}
			}
			undo()
			a.cancel()
			b.cancel()
			wantError(t, "a's campaign", <-a.done, context.Canceled)
			wantError(t, "b's campaign", <-b.done, context.Canceled)
		})
	}
}

// The request is pending; then two nodes of three show nothing: one has lost the key, and the
// clock of the other is past the lease.
func TestAStepOfOneClockDoesNotSayThatAHolderIsGone(t *testing.T) {
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newOneClock(t, watched)
			c.loses(-1)
			beside := mustAcquire(t, c.other, "another") // who holds something looks at the clocks
			lock := mustAcquire(t, c.first, "orders/42", redlock.WithRevocation(), redlock.WithTTL(20*time.Second))
			synctest.Wait()
			done := revokes(t, c.other, time.Minute)
			<-lock.Revoked()
			time.Sleep(100 * time.Millisecond)
			defer ahead(time.Minute, c.nodes.Node(1))()
			time.Sleep(300 * time.Millisecond) // a look at the clocks
			must(t, c.nodes.Clients()[0].Del(t.Context(), "orders/42").Err())
			time.Sleep(3 * time.Second)
			synctest.Wait()
			must(t, lock.Err())
			if ended := len(done) > 0; ended == watched {
				t.Errorf("watched %v: ended %v while it is held; want it to go on if watched, and else to end, or this test shows nothing", watched, ended)
			}
			mustRelease(t, lock)
			if watched {
				must(t, <-done)
			}
			mustRelease(t, beside)
		})
	}
}

// A Locker that was idle for ten minutes: its own samples allow for six seconds.
func TestAStepWhileTheLockerWasIdleIsSeenByTheWordOfOneNodeThatDidNot(t *testing.T) {
	for _, stepped := range []int{1, 3, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 5)
			var log locktest.Events
			l := lockerOver(t, nodes, log.Option())
			sampled(t, l)
			time.Sleep(10 * time.Minute)
			var want []int
			for i := range nodes.Nodes()[:stepped] {
				if stepped < 5 {
					want = append(want, i)
				}
			}
			defer ahead(3*time.Second, nodes.Nodes()[:stepped]...)()
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			synctest.Wait()
			for range 5 { // one that was not sent that, since it was decided, says its time to the next
				if slices.Equal(log.Nodes(redlock.EventNodeClockStepped), want) {
					break
				}
				time.Sleep(200 * time.Millisecond)
				_, _ = l.TryAcquire(t.Context(), "orders/43")
				synctest.Wait()
			}
			got := log.Nodes(redlock.EventNodeClockStepped)
			if stepped == 4 && len(got) == 3 { // once three abstain, nobody needs to ask the fourth
				want = want[:3]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d of 5 stepped: got %v reported; want %v", stepped, got, want)
			}
			held := err == nil && lock.Err() == nil
			if quorum := stepped == 3 || stepped == 4; quorum && held || stepped == 5 && !held {
				t.Errorf("%d of 5 stepped: got held %v (%v); want it only where nobody can tell", stepped, held, err)
			}
		})
	}
}

// The control of the test before: without the watch nobody is asked, and a quorum
// that stepped grants.
func TestAStepWhileTheLockerWasIdleIsNotSeenWithoutTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5)
		var log locktest.Events
		l := lockerOver(t, nodes, redlock.WithoutClockWatch(), log.Option())
		sampled(t, l)
		time.Sleep(10 * time.Minute)
		for _, n := range nodes.Nodes()[:3] {
			n.Miniredis().SetTime(time.Now().Add(3 * time.Second))
		}
		lock := mustAcquire(t, l, "orders/42") // of any three nodes that grant, one has stepped
		synctest.Wait()
		if got := log.Nodes(redlock.EventNodeClockStepped); len(got) > 0 || lock.Err() != nil {
			t.Errorf("got %v reported, and %v; want nothing reported and the lock held", got, lock.Err())
		}
	})
}

// A limit: a new client believes clocks that have just jumped, and a holder that is cut off
// learns nothing of them.
func TestTwoHoldWhereAQuorumJumpedUntilTheFirstHears(t *testing.T) {
	for _, cut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 5)
			var wire cable
			first := mustAcquire(t, lockerWith(t, wire.clients(t, nodes), redlock.WithNodeNames(nodes.Names()...)), "orders/42")
			time.Sleep(time.Second)
			wire.cut.Store(cut)
			for _, n := range nodes.Nodes()[:3] {
				n.Miniredis().SetTime(time.Now().Add(time.Minute))
			}
			began := time.Now()
			mustAcquire(t, separateLocker(t, nodes), "orders/42")
			if err := first.Err(); err != nil {
				t.Fatalf("cut %v: %v; want two holders, or this test shows nothing", cut, err)
			}
			left := first.Remaining()
			<-first.Done()
			both := time.Since(began)
			if !cut && both > 300*time.Millisecond || cut && (both < left-time.Second || both > left) {
				t.Errorf("cut %v: two held for %v, with %v of validity left: %v", cut, both, left, first.Err())
			}
		})
	}
}
