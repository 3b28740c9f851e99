package redlock_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

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
		if err != nil {
			t.Fatal(err)
		}
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
