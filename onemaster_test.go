package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

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
				wantError(t, "the lock of before", held.Err(), redlock.ErrLost)
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

// The steps of docs/WHICH.md, from one master to three; without its step 3 the old
// record keeps the new list out.
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
				if err == nil {
					t.Error("the new list was admitted over the old record; want an error")
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
