//go:build unix

package main_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	main "github.com/quorumkit/redlock/cmd/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// askedTTL is what the commands ask for in these tests, where main.FirstLease is granted.
const askedTTL = 30 * time.Second

// leased is three nodes, and a lock of lease that they have just granted. Call it in a
// bubble.
func leased(t *testing.T, lease time.Duration) ([]*redlocktest.Node, *redlock.Lock) {
	t.Helper()
	nodes := redlocktest.Start(t, 3)
	locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...), redlock.WithTTL(lease))
	must(t, err)
	t.Cleanup(func() { _ = locker.Close() })
	lock, err := locker.Acquire(t.Context(), "k")
	must(t, err)
	synctest.Wait()
	return nodes.Nodes(), lock
}

func scripts(nodes []*redlocktest.Node) int {
	sum := 0
	for _, n := range nodes {
		sum += n.Calls("evalsha")
	}
	return sum
}

func TestAShortLeaseIsLengthenedAndALongOneIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, lock := leased(t, main.FirstLease)
		must(t, main.Lengthen(t.Context(), lock, askedTTL))
		if left := lock.Remaining(); left < askedTTL*9/10 {
			t.Errorf("got %v left; want nearly %v", left, askedTTL)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		nodes, lock := leased(t, askedTTL)
		time.Sleep(5 * time.Second)
		before, left := scripts(nodes), lock.Remaining()
		must(t, main.Lengthen(t.Context(), lock, askedTTL))
		if sent := scripts(nodes) - before; sent != 0 || lock.Remaining() > left {
			t.Errorf("got %d scripts sent, and %v left after %v; want nothing done", sent, lock.Remaining(), left)
		}
	})
}

// One lost round costs no lock: it is tried again while the lock is held.
func TestAShortLeaseIsLengthenedOnceAQuorumIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, lock := leased(t, main.FirstLease)
		for _, n := range nodes[:2] {
			n.Hang()
		}
		time.AfterFunc(time.Second, func() {
			for _, n := range nodes[:2] {
				n.Resume()
			}
		})
		must(t, main.Lengthen(t.Context(), lock, askedTTL))
		if left := lock.Remaining(); left < askedTTL*9/10 {
			t.Errorf("got %v left; want nearly %v", left, askedTTL)
		}
	})
}

func TestALockThatNoQuorumLengthensIsLostBeforeTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, lock := leased(t, main.FirstLease)
		for _, n := range nodes[:2] {
			n.Hang()
		}
		left, began := lock.Remaining(), time.Now()
		err := main.Lengthen(t.Context(), lock, askedTTL)
		took := time.Since(began)
		if main.ExitCode(err) != 124 || !errors.Is(err, redlock.ErrLost) || !errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("got %v, exit status %d; want it lost, 124, for want of a quorum", err, main.ExitCode(err))
		}
		// An extension that is under way when the lock ends takes two node timeouts at most.
		if took > left+2*redlock.DefaultNodeTimeout || took < left-100*time.Millisecond {
			t.Errorf("got it given up after %v; want %v, when it ended, or an extension later", took, left)
		}
	})
}

func TestALockThatHasEndedIsNotLengthened(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(nodes []*redlocktest.Node, lock *redlock.Lock){
		"taken away": func(nodes []*redlocktest.Node, _ *redlock.Lock) {
			for _, n := range nodes {
				n.Miniredis().Del("k")
			}
		},
		"lapsed": func(nodes []*redlocktest.Node, lock *redlock.Lock) {
			for _, n := range nodes {
				n.Hang()
			}
			<-lock.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes, lock := leased(t, main.FirstLease)
				end(nodes, lock)
				began := time.Now()
				err := main.Lengthen(t.Context(), lock, askedTTL)
				if main.ExitCode(err) != 124 || !errors.Is(err, redlock.ErrLost) || !strings.HasPrefix(err.Error(), "k: ") && !strings.HasPrefix(err.Error(), "k was taken away (") {
					t.Errorf("got %v, exit status %d; want k lost, 124", err, main.ExitCode(err))
				}
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Errorf("got it given up after %v; want at once", took)
				}
			})
		})
	}
}

// A signal cancels the context: it is not kept waiting for nodes that hang.
func TestLengtheningEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, lock := leased(t, main.FirstLease)
		for _, n := range nodes {
			n.Hang()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := main.Lengthen(ctx, lock, askedTTL)
		if took := time.Since(began); err == nil || took > 310*time.Millisecond {
			t.Errorf("got %v after %v; want an error with the context's end", err, took)
		}
		if err := lock.Err(); err != nil {
			t.Errorf("the lock: got %v; want it held", err)
		}
	})
}
