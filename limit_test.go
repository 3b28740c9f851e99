package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// evals is how many scripts were called on the nodes.
func evals(nodes *redlocktest.Cluster) (n int) {
	for _, node := range nodes.Nodes() {
		n += node.Calls("EVALSHA")
	}
	return n
}

// slotCount counts who holds at once.
type slotCount struct {
	t     *testing.T
	limit int

	mu     sync.Mutex // guards the fields below
	held   map[int]bool
	most   int
	tokens map[int]redlock.Token // the largest of each slot
}

func newSlotCount(t *testing.T, limit int) *slotCount {
	t.Helper()
	return &slotCount{t: t, limit: limit, held: map[int]bool{}, tokens: map[int]redlock.Token{}}
}

func (c *slotCount) enter(lock *redlock.Lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := lock.Slot()
	if slot < 0 || slot >= c.limit {
		c.t.Errorf("slot %d; want 0 to %d", slot, c.limit-1)
	}
	if c.held[slot] {
		c.t.Errorf("two hold slot %d", slot)
	}
	if lock.Token() <= c.tokens[slot] {
		c.t.Errorf("slot %d: token %d behind %d", slot, lock.Token(), c.tokens[slot])
	}
	c.held[slot], c.tokens[slot] = true, lock.Token()
	if c.most = max(c.most, len(c.held)); c.most > c.limit {
		c.t.Errorf("%d hold at once; want %d at most", c.most, c.limit)
	}
}

// leave is called before the release.
func (c *slotCount) leave(lock *redlock.Lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := lock.Err(); err != nil {
		c.t.Errorf("slot %d: %v", lock.Slot(), err)
	}
	delete(c.held, lock.Slot())
}

func TestNeverMoreThanTheLimitHoldAtOnce(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	for _, c := range []struct{ nodes, limit int }{{1, 2}, {4, 1}, {5, 2}, {5, 3}} {
		synctest.Test(t, func(t *testing.T) {
			first, nodes := newLocker(t, c.nodes)
			lockers := []*redlock.Locker{first, separateLocker(t, nodes), separateLocker(t, nodes), separateLocker(t, nodes)}
			holders := newSlotCount(t, c.limit)
			var all sync.WaitGroup
			for i, l := range lockers {
				for g := range 3 {
					rnd := rand.New(rand.NewPCG(uint64(i), uint64(g)))
					all.Go(func() {
						for range 4 {
							time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond)
							lock, err := l.Acquire(t.Context(), "pool", redlock.WithLimit(c.limit))
							if err != nil {
								t.Errorf("Acquire: %v", err)
								return
							}
							holders.enter(lock)
							time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
							holders.leave(lock)
							if err := lock.Release(t.Context()); err != nil {
								t.Errorf("Release: %v", err)
							}
						}
					})
				}
			}
			began := time.Now()
			all.Wait()
			if holders.most != c.limit {
				t.Errorf("%+v: at most %d held at once; want %d, as so many wanted", c, holders.most, c.limit)
			}
			// 48 holds of 10 ms on the average, and nothing between them takes long.
			if took := time.Since(began); took > 2*48*10*time.Millisecond/time.Duration(c.limit)+time.Second {
				t.Errorf("%+v: it took %v", c, took)
			}
			synctest.Wait()
			if left := slotKeys(nodes); len(left) > 0 {
				t.Errorf("%+v: left: %q", c, left)
			}
		})
	}
}

func TestThreeOnThreeNodesDoNotHoldTwoSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // each reaches another two: a count on each node would let them
		_, nodes := newLocker(t, 3)
		held := map[int]bool{}
		for i := range 3 {
			l := separateLocker(t, nodes)
			nodes.Node((i + 2) % 3).Intercept(func([]string) redlocktest.Verdict { return redlocktest.LoseRequest() })
			for range 20 { // a slot that is free on a minority may be drawn
				lock, err := l.TryAcquire(t.Context(), "pool", redlock.WithLimit(2))
				if err == nil {
					held[lock.Slot()] = true
					if i == 2 {
						t.Errorf("the third holds slot %d", lock.Slot())
					}
					break
				}
				if !errors.Is(err, redlock.ErrNotAcquired) {
					t.Errorf("TryAcquire %d: got %v; want ErrNotAcquired", i, err)
				}
			}
			nodes.Node((i + 2) % 3).Intercept(nil)
		}
		if len(held) != 2 {
			t.Errorf("%d slots are held; want two", len(held))
		}
	})
}

func TestADeadHoldersSlotComesBackWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := newLocker(t, 5)
		clients := nodes.NewClients()
		dead := lockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...), redlock.WithoutMembership())
		warm(t, dead)
		limit := redlock.WithLimit(2)
		lock := mustAcquire(t, dead, "orders/42", limit)
		_ = mustAcquire(t, separateLocker(t, nodes), "orders/42", limit)
		next := wants(t, separateLocker(t, nodes), limit)
		granted := time.Now()
		closeAll(clients)
		g := got(t, next)
		if took := g.At.Sub(granted); took > redlock.DefaultTTL+50*time.Millisecond {
			t.Errorf("the next had it after %v; want with the lease, after %v", took, redlock.DefaultTTL)
		}
		if g.Lock.Slot() != lock.Slot() {
			t.Errorf("the next has slot %d; want that of the dead holder, %d", g.Lock.Slot(), lock.Slot())
		}
	})
}

func TestTryAcquireTakesAFreeSlotAndNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		limit := redlock.WithLimit(3)
		began := time.Now()
		var held []*redlock.Lock
		for i := range 3 { // by one Locker, and others: what is free is found by the second round
			from := []*redlock.Locker{l, separateLocker(t, nodes)}[i%2]
			lock, err := from.TryAcquire(t.Context(), "orders/42", limit)
			if err != nil {
				t.Fatalf("TryAcquire %d: %v", i, err)
			}
			held = append(held, lock)
		}
		wantTaken(t, "all slots are held", l, limit)
		next := wants(t, separateLocker(t, nodes), limit)
		mustRelease(t, held[1])
		g := got(t, next)
		wantTaken(t, "all slots are held again", l, limit)
		if took := time.Since(began); took > 50*time.Millisecond { // it may have asked between the releases of two nodes
			t.Errorf("it took %v; want a moment", took)
		}
		mustRelease(t, g.Lock)
		synctest.Wait() // a quorum has released it by now, and the others are about to
		if lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithLimit(3), redlock.WithBarging()); err != nil {
			t.Errorf("barging: %v", err)
		} else {
			mustRelease(t, lock)
		}
		mustRelease(t, held[0])
		mustRelease(t, held[2])
		synctest.Wait()
		if left := slotKeys(nodes); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// takeWhatIsAsked has others come before: each of the first asks finds that its slot was
// just taken. With freed, the one before goes again, so all others are free. It returns
// how many asks the node saw.
func takeWhatIsAsked(n *redlocktest.Node, first int, freed bool) (asks func() int) {
	var count atomic.Int64
	var taken string
	n.Intercept(func(args []string) redlocktest.Verdict {
		if args[0] != "EVALSHA" || args[3] != "redlock:node" || !strings.HasPrefix(args[4], "redlock:slot:") || count.Add(1) > int64(first) {
			return redlocktest.Pass()
		}
		if freed {
			n.Miniredis().Del(taken)
		}
		taken = args[4]
		_ = n.Miniredis().Set(taken, "another") // it fails for data of another type
		n.Miniredis().SetTTL(taken, time.Second)
		return redlocktest.Pass()
	})
	return func() int { return int(count.Load()) }
}

// Several try at one moment, and each may ask for slots that the others have just taken.
func TestTryAcquireTakesTheSlotThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4
		l, nodes := newLocker(t, 1)
		warm(t, l)
		asks := takeWhatIsAsked(nodes.Node(0), limit-1, false)
		lock, err := l.TryAcquire(t.Context(), "pool", redlock.WithLimit(limit))
		if err != nil {
			t.Fatalf("TryAcquire: %v; want the slot that is left", err)
		}
		if asks() != limit {
			t.Errorf("got it by %d asks; want %d", asks(), limit)
		}
		mustRelease(t, lock)
	})
}

func TestTryAcquireAsksForASlotOnceMoreThanThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4
		l, nodes := newLocker(t, 1)
		warm(t, l)
		asks := takeWhatIsAsked(nodes.Node(0), 100, true)
		if _, err := l.TryAcquire(t.Context(), "pool", redlock.WithLimit(limit)); !errors.Is(err, redlock.ErrNotAcquired) || asks() != limit+1 {
			t.Errorf("got %v after %d asks; want ErrNotAcquired after %d", err, asks(), limit+1)
		}
	})
}

// As many as there are slots try at one moment: each has one.
func TestAsManyAsThereAreSlotsTryAndNoneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 8
		_, nodes := newLocker(t, 3)
		var lockers []*redlock.Locker
		for range limit {
			l := separateLocker(t, nodes)
			warm(t, l)
			lockers = append(lockers, l)
		}
		for round := range 5 {
			name := fmt.Sprint("pool ", round) // a Locker asks for the slot that it had last of a name
			var all sync.WaitGroup
			for _, l := range lockers {
				all.Go(func() {
					lock, err := l.TryAcquire(t.Context(), name, redlock.WithLimit(limit))
					if err != nil {
						t.Errorf("TryAcquire: %v; want a slot of %d, one for each", err, limit)
						return
					}
					time.Sleep(time.Second) // until all have one
					mustRelease(t, lock)
				})
			}
			all.Wait()
			synctest.Wait()
		}
	})
}

// Right after a release a quorum of nodes has the slot free, and the others do not. One who
// asks for another slot, and hears of those first, hears the rest out.
func TestTryAcquireTakesASlotThatOnlyAQuorumHasFree(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	for range 20 { // the slot that is asked for first is drawn
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			other, limit := separateLocker(t, nodes), redlock.WithLimit(2)
			first := mustAcquire(t, l, "orders/42", limit)
			second := mustAcquire(t, other, "orders/42", limit)
			synctest.Wait()
			for i, n := range nodes.Nodes() {
				var release atomic.Bool // is held up there
				release.Store(i < 2)
				n.Intercept(func([]string) redlocktest.Verdict {
					switch {
					case release.Swap(false):
						time.Sleep(time.Second)
					case i < 3:
						time.Sleep(2 * time.Millisecond)
					default:
						time.Sleep(3 * time.Millisecond)
					}
					return redlocktest.Pass()
				})
			}
			mustRelease(t, first)
			lock, err := other.TryAcquire(t.Context(), "orders/42", limit)
			if err != nil {
				t.Fatalf("TryAcquire: %v; want slot %d", err, first.Slot())
			}
			mustRelease(t, lock)
			mustRelease(t, second)
		})
	}
}

func TestInspectShowsWhoHoldsTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		limit := redlock.WithLimit(2)
		held := []*redlock.Lock{mustAcquire(t, l, "orders/42", limit), mustAcquire(t, l, "orders/42", limit, redlock.WithValue("v"))}
		next := wants(t, separateLocker(t, nodes), limit)
		must(t, nodes.Node(0).Miniredis().Set("redlock:slot:7:orders/42", "stray"))
		in, err := l.Inspect(t.Context(), "orders/42")
		must(t, err)
		slots := in.Slots()
		if len(slots) != 2 || slots[0].Slot != 0 || slots[1].Slot != 1 || slots[0].Remaining < 9*time.Second {
			t.Errorf("got %+v; want slots 0 and 1", slots)
		}
		if _, holds := in.Holder(); holds {
			t.Error("somebody holds the name itself; want nobody")
		}
		for i, n := range in.Nodes {
			if len(n.SlotsWaiting) != 1 || len(n.Waiting) != 0 {
				t.Errorf("node %d: %q wait for a slot, %q for the name; want one, and none", i, n.SlotsWaiting, n.Waiting)
			}
		}
		if got := in.Nodes[0].Slots; !slices.ContainsFunc(got, func(s redlock.SlotHolder) bool { return s.Slot == 7 }) {
			t.Errorf("node 0 shows %+v; want the stray too", got)
		}
		mustRelease(t, held[0])
		mustRelease(t, held[1])
		mustRelease(t, got(t, next).Lock)
	})
}

func TestASlotIsALockForItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		limit := redlock.WithLimit(1)
		plain := mustAcquire(t, l, "orders/42") // does not exclude it
		lock := mustAcquire(t, separateLocker(t, nodes), "orders/42", limit)
		if plain.Slot() != -1 || lock.Slot() != 0 || lock.Resource() != "orders/42" {
			t.Errorf("slots %d and %d, resource %q; want -1, 0, orders/42", plain.Slot(), lock.Slot(), lock.Resource())
		}
		time.Sleep(time.Minute)
		must(t, lock.Err())
		must(t, lock.Extend(t.Context(), 20*time.Second))
		if left := lock.Remaining(); left < 19*time.Second {
			t.Errorf("%v remain; want nearly 20 s", left)
		}
		nodes.Node(0).Miniredis().Del("redlock:slot:0:orders/42")
		time.Sleep(10 * time.Second)
		if !nodes.Node(0).Miniredis().Exists("redlock:slot:0:orders/42") {
			t.Error("a renewal did not put the slot back")
		}
		nodes.Node(1).Miniredis().Del("redlock:slot:0:orders/42")
		nodes.Node(2).Miniredis().Del("redlock:slot:0:orders/42")
		nodes.Node(0).Miniredis().Del("redlock:slot:0:orders/42")
		<-lock.Done()
		if err := lock.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("got %v; want ErrLost", err)
		}
		wantTaken(t, "beside the plain lock", separateLocker(t, nodes))
	})
}

func TestALimitThatCanNotBeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		calls := evals(nodes)
		long := strings.Repeat("x", redlock.MaxResourceLength-16)
		try := func(name string, opts ...redlock.AcquireOption) error {
			_, err := l.TryAcquire(t.Context(), name, opts...)
			return err
		}
		for _, c := range []struct {
			what string
			err  error
			want error
			says string
		}{
			{"0", try("pool", redlock.WithLimit(0)), redlock.ErrInvalidOption, "WithLimit 0: give 1 to 48"},
			{"-1", try("pool", redlock.WithLimit(-1)), redlock.ErrInvalidOption, "WithLimit -1"},
			{"49", try("pool", redlock.WithLimit(49)), redlock.ErrInvalidOption, "WithLimit 49"},
			{"shared", try("pool", redlock.WithLimit(2), redlock.WithShared()), redlock.ErrInvalidOption, "WithShared"},
			{"reentry", try("pool", redlock.WithReentry(), redlock.WithLimit(2)), redlock.ErrInvalidOption, "WithReentry"},
			{"a long name", try(long+"x", redlock.WithLimit(2)), redlock.ErrInvalidResource, "WithLimit"},
			{"a slot's key", try("redlock:slot:0:pool"), redlock.ErrInvalidResource, "library's own"},
			{"the line's key", try("redlock:slots:pool", redlock.WithLimit(2)), redlock.ErrInvalidResource, "library's own"},
			{"a set", func() error {
				_, err := l.AcquireAll(t.Context(), []string{"a", "b"}, redlock.WithLimit(2))
				return err
			}(), redlock.ErrInvalidOption, "WithLimit"},
			{"a campaign", l.Campaign(t.Context(), "a", func(context.Context, *redlock.Lock) error { return nil }, redlock.WithLimit(2)), redlock.ErrInvalidOption, "WithLimit"},
		} {
			if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.says) {
				t.Errorf("%s: got %v; want %v that says %q", c.what, c.err, c.want, c.says)
			}
		}
		if sent := evals(nodes) - calls; sent != 0 {
			t.Errorf("%d commands were sent; want none", sent)
		}
		for _, opts := range [][]redlock.AcquireOption{{redlock.WithLimit(48)}, {redlock.WithLimit(1)}} {
			lock, err := l.TryAcquire(t.Context(), long, opts...)
			must(t, err)
			mustRelease(t, lock)
		}
	})
}

// docs/BESIDE.md: callers who disagree on the number are as many as the largest says.
func TestWhileLimitsDifferTheLargestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, nodes := newLocker(t, 3)
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)
		held := mustAcquire(t, first, "pool", redlock.WithLimit(1))
		_, err := other.TryAcquire(t.Context(), "pool", redlock.WithLimit(1))
		wantError(t, "TryAcquire of the only slot", err, redlock.ErrNotAcquired)
		beside, err := other.TryAcquire(t.Context(), "pool", redlock.WithLimit(2))
		must(t, err)
		if held.Slot() != 0 || beside.Slot() != 1 {
			t.Errorf("got slots %d and %d; want 0 and 1", held.Slot(), beside.Slot())
		}
		_, err = third.TryAcquire(t.Context(), "pool", redlock.WithLimit(2))
		wantError(t, "TryAcquire of two slots that are held", err, redlock.ErrNotAcquired)
		mustRelease(t, beside)
		mustRelease(t, held)
	})
}

// Who comes with a smaller number sees its first slots alone: it waits while these are
// held, though a higher one is free, and is granted none of the higher ones.
func TestASmallerLimitSeesItsFirstSlotsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, nodes := newLocker(t, 3)
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)
		held := make([]*redlock.Lock, 3) // by slot
		for range held {
			lock := mustAcquire(t, first, "orders/42", redlock.WithLimit(3))
			held[lock.Slot()] = lock
		}
		next := wants(t, other, redlock.WithLimit(1))
		mustRelease(t, held[2])
		time.Sleep(30 * time.Second)
		select {
		case g := <-next:
			t.Fatalf("got %+v while the only slot that it may have is held; want it to wait", g)
		default:
		}
		wantTaken(t, "two of two slots are held", third, redlock.WithLimit(2))
		mustRelease(t, held[0])
		small := got(t, next).Lock
		if small.Slot() != 0 {
			t.Errorf("with a limit of 1 it got slot %d; want 0", small.Slot())
		}
		wantTaken(t, "slot 1 is held, by one with a larger limit, and slot 0", third, redlock.WithLimit(2))
		wantTaken(t, "slot 0 is held", third, redlock.WithLimit(1))
		high, err := third.TryAcquire(t.Context(), "orders/42", redlock.WithLimit(3))
		must(t, err)
		if high.Slot() != 2 {
			t.Errorf("with a limit of 3 it got slot %d; want 2", high.Slot())
		}
		wantTaken(t, "as many hold as the largest limit says", other, redlock.WithLimit(3))
		mustRelease(t, small)
		again, err := other.TryAcquire(t.Context(), "orders/42", redlock.WithLimit(1)) // while 1 and 2 are held
		must(t, err)
		if again.Slot() != 0 {
			t.Errorf("with a limit of 1, beside slots 1 and 2, it got slot %d; want 0", again.Slot())
		}
		for _, lock := range []*redlock.Lock{again, high, held[1]} {
			must(t, lock.Err())
			mustRelease(t, lock)
		}
	})
}

// While limits differ, who waits for one of fewer slots stands before those who want any of
// more, and who is refused is told so.
func TestOneLineIsBeforeTheSlotsOfAllLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, nodes := newLocker(t, 3)
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)
		held := mustAcquire(t, first, "orders/42", redlock.WithLimit(1))
		mustRelease(t, mustAcquire(t, third, "orders/42", redlock.WithLimit(3))) // it asks for that one first
		small := wants(t, other, redlock.WithLimit(1))
		_, err := third.TryAcquire(t.Context(), "orders/42", redlock.WithLimit(3))
		wantText(t, "one of three", fmt.Sprint(err), "a slot is free, and another waits before")
		large := wants(t, third, redlock.WithLimit(3))
		time.Sleep(5 * time.Second)
		wantWaiting(t, "behind one who waits for the only slot", small, large)
		mustRelease(t, held)
		for _, from := range []<-chan gained{small, large} {
			mustRelease(t, got(t, from).Lock)
		}
	})
}
