package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// The holder knows that it is none before any server could give the name away,
// no matter what became of the nodes.

// lostNodes are ways to lose nodes.
var lostNodes = map[string]func(n *redlocktest.Node, c *cable){
	"hung":    func(n *redlocktest.Node, _ *cable) { n.Hang() },
	"killed":  func(n *redlocktest.Node, _ *cable) { n.Stop() },
	"cut off": func(_ *redlocktest.Node, c *cable) { c.cut.Store(true) },
	"deaf to renewals": func(n *redlocktest.Node, _ *cable) {
		n.Intercept(onScripts("extend", redlocktest.LoseRequest()))
	},
}

func TestLossIsToldBeforeAnyServerCanGiveTheNameAway(t *testing.T) {
	for how, lose := range lostNodes {
		for _, after := range []time.Duration{0, time.Second, 3200 * time.Millisecond, 9 * time.Second, 25 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 5)
				network, told := &cable{}, &events{}
				l := lockerWith(t, network.clients(t, nodes), redlock.WithNodeNames(nodes.Names()...), told.option())
				lock := mustAcquire(t, l, "orders/42")
				time.Sleep(after)
				synctest.Wait()
				left, at := lock.Remaining(), time.Now()
				for _, n := range nodes.Nodes() {
					lose(n, network)
				}
				<-lock.Done()
				if took := time.Since(at); took > left || took < left-time.Millisecond { // the clock of a suspend is real
					t.Errorf("%s after %v: Done came %v later; want the remaining %v", how, after, took, left)
				}
				for _, n := range nodes.Nodes() {
					if ttl := n.Miniredis().TTL("orders/42"); ttl <= 0 {
						t.Errorf("%s after %v: at Done %s has given the name away; want it kept for a while", how, after, n.Name())
					}
				}
				wantLost(t, lock)
				synctest.Wait()
				if got := len(told.of(redlock.EventLockLost)); got != 1 {
					t.Errorf("%s after %v: %d events of the loss; want 1", how, after, got)
				}
				network.cut.Store(false) // for Close
			})
		}
	}
}

// wantLost checks everything that a lost lock says.
func wantLost(t *testing.T, lock *redlock.Lock) {
	t.Helper()
	wantError(t, "Err", lock.Err(), redlock.ErrLost)
	wantError(t, "the context's cause", context.Cause(lock.Context()), redlock.ErrLost)
	if left := lock.Remaining(); left != 0 {
		t.Errorf("Remaining: got %v; want 0", left)
	}
	began := time.Now()
	for what, err := range map[string]error{
		"Extend": lock.Extend(t.Context(), redlock.DefaultMaxTTL), "Release": lock.Release(t.Context()),
	} {
		wantError(t, what, err, redlock.ErrNotHeld)
		wantError(t, what, err, redlock.ErrLost)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("Extend and Release of a lost lock took %v; want them at once", took)
	}
}

func TestALockSurvivesAMinorityInEveryWay(t *testing.T) {
	for how, lose := range lostNodes {
		if how == "cut off" {
			continue // cuts all
		}
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			lock := mustAcquire(t, l, "orders/42")
			synctest.Wait()
			lose(nodes.Node(1), nil)
			lose(nodes.Node(4), nil)
			for range 60 {
				time.Sleep(time.Second)
				if left := lock.Remaining(); left < redlock.DefaultTTL/2 {
					t.Fatalf("two of five %s: got %v remaining, %v; want more than half a TTL all the time", how, left, lock.Err())
				}
			}
			mustRelease(t, lock)
		})
	}
}

// A lock that most nodes answer to be gone ends at the next renewal.
func TestALockThatTheNodesForgotEndsAtTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		for _, i := range []int{0, 1, 2} {
			nodes.Node(i).Miniredis().Del("orders/42")
		}
		began := time.Now()
		<-lock.Done()
		if took := time.Since(began); took > redlock.DefaultTTL/3+time.Millisecond {
			t.Errorf("Done came after %v; want a third of the TTL at the latest", took)
		}
		wantLost(t, lock)
		var failed *redlock.QuorumError
		if !errors.As(lock.Err(), &failed) || failed.Nodes[0].Outcome != redlock.OutcomeTaken {
			t.Errorf("got %v; want a *QuorumError that names the nodes", lock.Err())
		}
		time.Sleep(time.Second)
		wantNoLocks(t, nodes, "after the loss")
	})
}

// A lapse is final: a confirmation that comes after it counts for nothing.
func TestALateConfirmationRevivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		nodes := redlocktest.Start(t, 3)
		l := lockerOver(t, nodes, redlock.WithTTL(ttl), redlock.WithNodeTimeout(900*time.Millisecond), redlock.WithDriftFactor(0.5))
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease()) // valid for 498 ms
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if scriptOf(args) == "extend" {
					time.Sleep(600 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
		}
		err := lock.Extend(t.Context(), 20*ttl)
		wantError(t, "Extend that was confirmed too late", err, redlock.ErrNotHeld)
		wantLost(t, lock)
		time.Sleep(ttl)
		wantNoLocks(t, nodes, "after the lapse: the long lease is given back")
	})
}

// An observer that takes its time delays nobody's end: many locks that end at
// once have all ended before it hears of the second.
func TestASlowObserverDelaysNoLoss(t *testing.T) {
	const locks = 20
	for how, lose := range map[string]struct {
		opts   []redlock.AcquireOption
		nodes  func(*redlocktest.Cluster)
		within time.Duration
	}{
		"all cut off": {nil, func(c *redlocktest.Cluster) {
			for _, n := range c.Nodes() {
				n.Hang()
			}
		}, redlock.DefaultTTL},
		"leases that ended": {[]redlock.AcquireOption{redlock.WithFixedLease()}, func(*redlocktest.Cluster) {}, redlock.DefaultTTL},
		"forgotten by the nodes": {nil, func(c *redlocktest.Cluster) {
			for _, n := range c.Nodes() {
				for i := range locks {
					n.Miniredis().Del(fmt.Sprintf("orders/%d", i))
				}
			}
		}, redlock.DefaultTTL / 2},
		"the clocks stepped": {nil, func(c *redlocktest.Cluster) {
			for _, n := range c.Nodes() {
				n.Miniredis().SetTime(time.Now().Add(time.Hour))
			}
		}, redlock.DefaultTTL / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			slow := redlock.WithObserver(func(e redlock.Event) {
				if e.Kind == redlock.EventLockLost {
					time.Sleep(time.Minute)
				}
			})
			l, nodes := newLocker(t, 3, slow)
			warm(t, l)
			held := make([]*redlock.Lock, locks)
			for i := range held {
				held[i] = mustAcquire(t, l, fmt.Sprintf("orders/%d", i), lose.opts...)
			}
			synctest.Wait()
			began := time.Now()
			lose.nodes(nodes)
			for _, lock := range held {
				<-lock.Done()
			}
			if took := time.Since(began); took > lose.within {
				t.Errorf("%s: the last Done came after %v; want %v at the most, however slow the observer", how, took, lose.within)
			}
			for _, n := range nodes.Nodes() {
				n.Resume()
			}
			time.Sleep((locks + 1) * time.Minute) // the observer has heard of all
		})
	}
}

// What half of the nodes say is not enough, in each kind of round.

// answeredBy lets the first so many nodes answer these scripts, and no other.
func answeredBy(nodes *redlocktest.Cluster, some int, scripts string) {
	for i, n := range nodes.Nodes() {
		n.Intercept(nil)
		if i >= some {
			n.Intercept(onScripts(scripts, redlocktest.LoseRequest()))
		}
	}
}

func TestAnExtensionIsConfirmedByAQuorumOnly(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, n := range []int{2, 3, 4, 5} {
			t.Run(fmt.Sprintf("%d nodes, shared %t", n, shared), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, nodes := newLocker(t, n)
					warm(t, l)
					opts := []redlock.AcquireOption{redlock.WithFixedLease()}
					if shared {
						opts = append(opts, redlock.WithShared())
					}
					lock := mustAcquire(t, l, "orders/42", opts...)
					synctest.Wait()
					quorum := n/2 + 1
					answeredBy(nodes, quorum-1, "extend")
					before := lock.Remaining()
					wantError(t, fmt.Sprintf("Extend, %d of %d nodes answer", quorum-1, n), lock.Extend(t.Context(), redlock.DefaultTTL), redlock.ErrNoQuorum)
					if left := lock.Remaining(); left > before {
						t.Errorf("got %v remaining after %v; want no more", left, before)
					}
					answeredBy(nodes, quorum, "extend")
					time.Sleep(redlock.DefaultTTL / 4) // those that were lost are talked to again
					if err := lock.Extend(t.Context(), redlock.DefaultTTL); err != nil {
						t.Errorf("Extend, %d of %d nodes answer: %v", quorum, n, err)
					}
					answeredBy(nodes, n, "")
					mustRelease(t, lock)
				})
			})
		}
	}
}

// Half of the nodes still have the key, and say so: that is no lock any more.
func TestALockThatHalfOfTheNodesHaveIsLost(t *testing.T) {
	for _, n := range []int{3, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			warm(t, l)
			lock := mustAcquire(t, l, "orders/42")
			synctest.Wait()
			for _, node := range nodes.Nodes()[n/2:] {
				node.Miniredis().Del("orders/42")
			}
			wantError(t, fmt.Sprintf("Extend, %d of %d nodes have it", n/2, n), lock.Extend(t.Context(), redlock.DefaultTTL), redlock.ErrLost)
			wantLost(t, lock)
		})
	}
}

func TestAReleaseIsConfirmedByAQuorumOnly(t *testing.T) {
	for _, n := range []int{2, 3, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			warm(t, l)
			for _, some := range []int{n / 2, n/2 + 1} {
				lock := mustAcquire(t, l, "orders/42")
				synctest.Wait()
				for _, node := range nodes.Nodes()[some:] {
					node.Hang()
				}
				err := lock.Release(t.Context())
				for _, node := range nodes.Nodes()[some:] {
					node.Resume()
				}
				if some <= n/2 {
					wantError(t, fmt.Sprintf("Release, %d of %d nodes answer", some, n), err, redlock.ErrNoQuorum)
				} else if err != nil {
					t.Errorf("Release, %d of %d nodes answer: %v", some, n, err)
				}
				time.Sleep(2 * redlock.DefaultTTL)
			}
		})
	}
}

// A node without the key gets it back from a round in which a quorum has confirmed it, and
// from no other: somebody else may have had it meanwhile.
func TestALockThatNoQuorumConfirmedIsNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		var reseeds atomic.Int64
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		hear := func(lost bool) redlocktest.Interceptor {
			return func(args []string) redlocktest.Verdict {
				switch name := scriptOf(args); {
				case strings.HasPrefix(name, "reseed"):
					reseeds.Add(1)
				case lost && strings.HasPrefix(name, "extend"):
					return redlocktest.LoseRequest()
				}
				return redlocktest.Pass()
			}
		}
		for i, n := range nodes.Nodes() {
			if i < 2 {
				n.Miniredis().Del("orders/42")
			}
			n.Intercept(hear(i == 2))
		}
		wantError(t, "Extend, two have it and two have not", lock.Extend(t.Context(), redlock.DefaultTTL), redlock.ErrNoQuorum)
		synctest.Wait()
		if got := reseeds.Load(); got > 0 {
			t.Errorf("it was put back %d times; want none without a quorum", got)
		}
		nodes.Node(2).Intercept(hear(false))
		time.Sleep(redlock.DefaultTTL / 2)
		synctest.Wait()
		if got := reseeds.Load(); got != 2 {
			t.Errorf("it was put back %d times once a quorum confirmed it; want 2", got)
		}
		mustRelease(t, lock)
	})
}

// The other quorum needs the node that forgot: there is none until it has waited.
func TestANodeThatForgotGivesNoVoteBeforeMaxTTLIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		nodes.Node(0).FlushAll()
		forgot := time.Now()
		_, err := l.TryAcquire(t.Context(), "orders/41") // which finds that out
		must(t, err)
		nodes.Node(1).Intercept(onScripts("acquire", redlocktest.ReplyError("OOM command not allowed"))) // so that the one that forgot is needed
		for {
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil {
				if took := time.Since(forgot); took < redlock.DefaultMaxTTL {
					t.Errorf("it votes %v after it forgot; want %v at least", took, redlock.DefaultMaxTTL)
				}
				mustRelease(t, lock)
				return
			}
			if time.Since(forgot) > 2*redlock.DefaultMaxTTL {
				t.Fatalf("it does not vote after %v: %v", time.Since(forgot), err)
			}
			time.Sleep(time.Second)
		}
	})
}

// The lease of an extension counts from its sending, however long the confirmations take.
func TestAnExtensionCountsFromItsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow, ttl = 200 * time.Millisecond, 12 * time.Second // whose drift is less than that
		l, nodes := newLocker(t, 3)
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Intercept(slowly("extend", slow))
		}
		began := time.Now()
		must(t, lock.Extend(t.Context(), ttl))
		if took := time.Since(began); took < slow {
			t.Fatalf("Extend took %v; the test wants %v at least", took, slow)
		}
		if ends, most := time.Now().Add(lock.Remaining()), began.Add(ttl); !ends.Before(most) {
			t.Errorf("it is valid for %v longer than %v from its sending; want less", ends.Sub(most), ttl)
		}
		mustRelease(t, lock)
	})
}

// One master is a cluster of one: docs/WHICH.md says what it does, what it can't promise,
// and how to grow.

// It can't know what it forgot, also where it forgot nothing.
func TestOneMasterThatRestartsGivesNoLockForMaxTTL(t *testing.T) {
	for name, restart := range map[string]func(*redlocktest.Node){
		"without its data": (*redlocktest.Node).Restart,
		"with its data":    (*redlocktest.Node).RestartKeepingData,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 1)
				holder, other := separateLocker(t, nodes), separateLocker(t, nodes)
				held := mustAcquire(t, holder, "orders/42")
				began := time.Now()
				restart(nodes.Node(0))
				<-held.Done()
				wantError(t, "the earlier lock", held.Err(), redlock.ErrLost)
				if took := time.Since(began); took > redlock.DefaultTTL {
					t.Errorf("the holder learned after %v; want a TTL at most", took)
				}
				_, err := other.TryAcquire(t.Context(), "orders/42")
				wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
				next, err := other.Acquire(t.Context(), "orders/42")
				must(t, err)
				if took := time.Since(began); took < redlock.DefaultMaxTTL-time.Second || took > redlock.DefaultMaxTTL+5*time.Second {
					t.Errorf("the next lock came after %v; want MaxTTL", took)
				}
				if next.Token() <= held.Token() {
					t.Errorf("got token %v after %v; want a greater one", next.Token(), held.Token())
				}
				mustRelease(t, next)
			})
		})
	}
}

// A failover of the only master is another server behind its address: the same wait.
func TestOneMasterThatIsDownHasItsHolderKnowInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 1)
		held := mustAcquire(t, separateLocker(t, nodes), "orders/42")
		began := time.Now()
		nodes.Node(0).Stop()
		<-held.Done()
		wantError(t, "the lock", held.Err(), redlock.ErrLost)
		if took := time.Since(began); took > redlock.DefaultTTL {
			t.Errorf("the holder learned after %v; want a TTL at most", took)
		}
	})
}

// The steps of docs/WHICH.md, from one master to three; without its step 3 the new clients go by
// the old record's list.
func TestOneMasterGrowsToThreeByThePagesSteps(t *testing.T) {
	for _, flushed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
			one := lockerWith(t, nodes.NewClients()[:1], redlock.WithNodeNames(nodes.Names()[:1]...))
			must(t, one.Cluster().Admit(t.Context()))
			held := mustAcquire(t, one, "orders/42")
			mustRelease(t, held)
			must(t, one.Close())
			time.Sleep(redlock.DefaultMaxTTL)
			if flushed {
				nodes.Node(0).FlushAll()
			}
			three := separateLocker(t, nodes)
			err := three.Cluster().Admit(t.Context())
			if !flushed {
				must(t, err)
				if s := status(t, three); len(s.List) != 1 || s.Quorum != 1 || s.Votes() != 1 {
					t.Errorf("got %d votes of %d, by the list %v; want one of the one node", s.Votes(), s.Quorum, s.List)
				}
				return
			}
			must(t, err)
			lock, err := three.TryAcquire(t.Context(), "orders/42")
			must(t, err)
			if lock.Token() <= held.Token() {
				t.Errorf("got token %v after %v; want a greater one", lock.Token(), held.Token())
			}
			if s := status(t, three); s.Votes() != 3 {
				t.Errorf("got %d votes; want 3", s.Votes())
			}
			mustRelease(t, lock)
		})
	}
}
