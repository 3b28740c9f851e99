package membership_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// A client's list is its address book: it goes by the cluster's list, if it has all nodes of that.

// bookLists are changes of the list under clients that have all nodes.
var bookLists = [][]int{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {1, 2, 3}, {1, 2}, {2}}

func TestALockOfAnAddressBookIsHeldThroughEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 1, 3)
		l, other := y.locker(t, 0, 1, 2, 3), y.locker(t, 3, 2, 1, 0)
		locks := heldBy(t, l, 5)
		locks = append(locks, locktest.MustAcquire(t, l, "shared", redlock.WithShared()), locktest.MustAcquire(t, l, "slots", redlock.WithLimit(1)))
		fixed, err := l.Acquire(t.Context(), "fixed", redlock.WithTTL(redlock.DefaultMaxTTL), redlock.WithFixedLease())
		testkit.Must(t, err)
		began, last := time.Now(), redlock.Token(0)
		for g, list := range bookLists[:len(bookLists)-1] {
			when := fmt.Sprintf("%v to %v", list, bookLists[g+1])
			y.change(t, list, bookLists[g+1])
			wantHeld(t, when, locks)
			if time.Since(began) < redlock.DefaultMaxTTL/2 {
				wantHeld(t, when, []*redlock.Lock{fixed})
			}
			for _, name := range []string{"held/0", "held/4", "shared"} {
				if _, err := other.TryAcquire(t.Context(), name); !errors.Is(err, redlock.ErrNotAcquired) {
					t.Errorf("%s: %s: got %v; want it taken", when, name, err)
				}
			}
			if _, err := other.TryAcquire(t.Context(), "slots", redlock.WithLimit(1)); !errors.Is(err, redlock.ErrNotAcquired) {
				t.Errorf("%s: the slot: got %v; want it taken", when, err)
			}
			for _, client := range []*redlock.Locker{l, other, y.locker(t, bookLists[g+1]...)} {
				lock := locktest.MustAcquire(t, client, "order")
				if lock.Token() <= last {
					t.Errorf("%s: got token %d after %d", when, lock.Token(), last)
				}
				last = lock.Token()
				locktest.MustRelease(t, lock)
			}
			s := locktest.Status(t, l)
			for i, n := range s.Nodes {
				want := redlock.NodeMember
				if !slices.Contains(bookLists[g+1], i) && g < 3 {
					want = redlock.NodeUnlisted // later ones were members
				}
				if n.State != want && (want == redlock.NodeUnlisted || n.State != redlock.NodeBehind) {
					t.Errorf("%s: node %d is %s; want %s", when, i, n.State, want)
				}
			}
			if s.Quorum != len(bookLists[g+1])/2+1 || len(s.Stragglers) > 0 {
				t.Errorf("%s: got a quorum of %d, and stragglers %v; want none", when, s.Quorum, s.Stragglers)
			}
		}
		for _, lock := range locks {
			locktest.MustRelease(t, lock)
		}
	})
}

// A lock goes over in time, though the next change begins as soon as it may.
func TestALockGoesOverBeforeTheNextChangeEndsItsList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 1, 2)
		l := y.locker(t, 0, 1, 2)
		locks := heldBy(t, l, 300) // more than go in one call
		y.change(t, []int{0}, []int{0, 1})
		began := time.Now()
		y.change(t, []int{0, 1}, []int{0, 1, 2})
		time.Sleep(2 * time.Second) // they are put on the third
		y.nodes[0].Stop()           // on which alone they were held
		time.Sleep(2 * redlock.DefaultTTL)
		wantHeld(t, fmt.Sprintf("after %v", time.Since(began)), locks)
	})
}

// Of the commands that come to a node outside the list none writes.
func TestANodeOutsideTheListIsAskedForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 2, 1)
		var written atomic.Int64
		y.nodes[2].Intercept(func(args []string) redlocktest.Verdict {
			if changeScript(args) != "" {
				written.Add(1)
			}
			return redlocktest.Pass()
		})
		l, other := y.locker(t, 0, 1, 2), y.locker(t, 2, 0, 1)
		lock := locktest.MustAcquire(t, l, "orders/42")
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := other.Acquire(ctx, "orders/42"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a waiter got %v; want its deadline", err)
			}
			if keys := y.nodes[2].Keys(); len(keys) > 0 {
				t.Errorf("got keys %q, while one waits; want none", keys)
			}
		}
		locktest.MustRelease(t, lock)
		_, err := l.Inspect(t.Context(), "orders/42")
		testkit.Must(t, err)
		locktest.Status(t, l)
		if keys := y.nodes[2].Keys(); len(keys) > 0 {
			t.Errorf("got keys %q, after Status; want none", keys)
		}
		time.Sleep(redlock.DefaultMaxTTL)
		if keys := y.nodes[2].Keys(); len(keys) > 0 || written.Load() > 0 {
			t.Errorf("got keys %q, and %d scripts of changes; want none", keys, written.Load())
		}
		y.nodes[2].Stop() // and it is missed by none
		locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
		testkit.Must(t, l.Cluster().Join(t.Context()))
	})
}

// A waiter goes on by the next list, which may have none of the nodes that it asked before.
func TestAWaiterGoesOnByTheNextList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 1, 2)
		l := y.locker(t, 0, 1, 2)
		held := locktest.MustAcquire(t, l, "orders/42")
		got := make(chan *redlock.Lock, 1)
		go func() {
			lock, err := y.locker(t, 0, 1, 2).Acquire(t.Context(), "orders/42")
			if err != nil {
				t.Errorf("the waiter: %v", err)
			}
			got <- lock
		}()
		synctest.Wait()
		for _, c := range [][2][]int{{{0}, {0, 1}}, {{0, 1}, {1}}, {{1}, {1, 2}}, {{1, 2}, {2}}} {
			y.change(t, c[0], c[1])
		}
		locktest.MustRelease(t, held)
		released := time.Now()
		if lock := <-got; lock == nil || time.Since(released) > time.Second {
			t.Fatalf("the waiter got %v after %v; want the lock at once", lock, time.Since(released))
		}
	})
}

// The list by which a waiter began ends with the next change but one: it stands by the next by then.
func TestAWaiterIsServedWhileTheNextChangeButOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 1, 2)
		held := locktest.MustAcquire(t, y.locker(t, 0, 1, 2), "orders/42")
		got := make(chan *redlock.Lock, 1)
		go func() {
			lock, _ := y.locker(t, 0, 1, 2).Acquire(t.Context(), "orders/42")
			got <- lock
		}()
		synctest.Wait()
		y.change(t, []int{0}, []int{0, 1})
		done := make(chan struct{})
		go func() {
			y.change(t, []int{0, 1}, []int{0, 1, 2})
			close(done)
		}()
		time.Sleep(redlock.DefaultMaxTTL / 2) // it has begun
		locktest.MustRelease(t, held)
		released := time.Now()
		if lock := <-got; lock == nil || time.Since(released) > time.Second {
			t.Errorf("the waiter got %v after %v; want the lock at once", lock, time.Since(released))
		}
		<-done
	})
}

// What an old list founded on one node is met first, and the cluster a moment later, which has that
// node or took it out: a client that knows neither locks by the cluster.
func TestAFreshClientLocksNothingOnWhatAnOldListFounded(t *testing.T) {
	for _, removed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			y := newYard(t, 3, 0)
			holder := y.locker(t, 0, 1, 2)
			if removed {
				y.change(t, []int{0, 1, 2}, []int{1, 2})
			}
			held := locktest.MustAcquire(t, holder, "orders/42")
			y.nodes[1].Hang()
			y.nodes[2].Hang()
			y.nodes[0].Restart()
			testkit.Must(t, y.locker(t, 0).Cluster().Admit(t.Context()))
			for _, i := range []int{1, 2} {
				y.nodes[i].Intercept(func([]string) redlocktest.Verdict {
					time.Sleep(5 * time.Millisecond)
					return redlocktest.Pass()
				})
				y.nodes[i].Resume()
			}
			fresh := y.locker(t, 0, 1, 2)
			go func() { _, _ = fresh.TryAcquire(t.Context(), "orders/41") }()
			for range 4 {
				time.Sleep(time.Millisecond) // it knows the first node by now
				if _, err := fresh.TryAcquire(t.Context(), "orders/42"); err == nil && held.Err() == nil {
					t.Errorf("two hold it, and the first node was taken out: %t", removed)
				}
			}
		})
	}
}

func TestAClientGoesByTheNewestListThatItHas(t *testing.T) {
	at := func(cluster string, gen int, names, before []string) membership.Observation {
		rec := listed(gen, names, before)
		rec.Cluster = cluster
		return observed(0, "r", &rec, 7, membership.Notice{})
	}
	from := func(o membership.Observation, from string) membership.Observation {
		o.Record.From = from
		return o
	}
	a, ab, abc, abx := nodeNames[:1], nodeNames[:2], nodeNames[:3], []string{"a", "b", "x"}
	none := observed(0, "r", nil, 0, membership.Notice{})
	claimed := none
	claimed.Notice = membership.Notice{Nonce: "n", Run: "r", Claim: claimText(claimBy("c1", 1, ab...))}
	claimedNext := none
	claimedNext.Notice = membership.Notice{Nonce: "n", Run: "r", Claim: claimText(claimBy("c1", 2, abx...))}
	unanswered := func(o membership.Observation) membership.Observation {
		return membership.Unread(o, 1, 1, "no answer")
	}
	known, from2 := claimBy("c1", 2, ab...), claimBy("c2", 0, a...)
	from2.From = "c1 2"
	for _, c := range []struct {
		name  string
		known membership.Claim
		seen  []membership.Observation
		want  []string
	}{
		{"nothing is there", membership.Claim{}, []membership.Observation{none, none, none}, abc},
		{"a shorter list", membership.Claim{}, []membership.Observation{at("c1", 1, ab, a), none, none}, ab},
		{"the later of two", membership.Claim{}, []membership.Observation{at("c1", 1, ab, a), at("c1", 2, a, ab), none}, a},
		{"a list with another node: the one before", membership.Claim{}, []membership.Observation{at("c1", 2, abx, ab), none, none}, ab},
		{"both with another node", membership.Claim{}, []membership.Observation{at("c1", 2, append(abx, "y"), abx), none, none}, abc},
		{"a claim", membership.Claim{}, []membership.Observation{claimed, none, none}, ab},
		{"what an old list founded beside", membership.Claim{}, []membership.Observation{at("c2", 0, a, nil), at("c1", 2, abx, ab), none}, ab},
		{"two of one length", membership.Claim{}, []membership.Observation{at("c2", 0, a, nil), at("c1", 0, []string{"b"}, nil), none}, abc},
		{"founded anew with fewer", membership.Claim{}, []membership.Observation{from(at("c2", 0, a, nil), "c1 2"), at("c1", 2, ab, a), none}, a},
		{"known, and all forgot", known, []membership.Observation{none, none, none}, ab},
		{"known, and another is there", known, []membership.Observation{at("c2", 0, a, nil), none, none}, ab},
		{"known, and a longer one is on a quorum", known, []membership.Observation{at("c2", 0, abc, nil), at("c2", 0, abc, nil), none}, abc},
		{"known, and a longer one is on one node", known, []membership.Observation{at("c2", 0, abc, nil), none, none}, ab},
		{"known, and founded anew from it", known, []membership.Observation{from(at("c2", 0, a, nil), "c1 2"), none, none}, a},
		{"known, and founded from an earlier one", known, []membership.Observation{from(at("c2", 0, a, nil), "c1 1"), none, none}, ab},
		{"known, and what it was founded from is back", from2, []membership.Observation{unanswered(from(at("c2", 0, a, nil), "c1 2")), at("c1", 2, abc, nil), at("c1", 2, abc, nil)}, a},
		{"a claim first, and a list with another node", membership.Claim{}, []membership.Observation{claimedNext, at("c1", 2, abx, ab), at("c1", 2, abx, ab)}, ab},
		{"the next list on one node, the one before on a quorum", membership.Claim{}, []membership.Observation{at("c1", 3, abc, ab), at("c1", 2, ab, a), none}, ab},
		{"the next list on one node that is gone", membership.Claim{}, []membership.Observation{unanswered(at("c1", 3, abc, ab)), at("c1", 2, ab, a), none}, ab},
		{"the next list on a quorum", membership.Claim{}, []membership.Observation{at("c1", 3, abc, ab), at("c1", 2, ab, a), at("c1", 3, abc, ab)}, abc},
		{"the next list, to which a new node has to come", membership.Claim{}, []membership.Observation{at("c1", 2, ab, a), none, none}, ab},
		{"known, and an earlier list", known, []membership.Observation{at("c1", 1, a, nil), none, none}, ab},
	} {
		cfg := membership.NewConfig(abc, maxTTL, false)
		if c.known.Cluster != "" {
			cfg = cfg.By(c.known.Names)
		}
		if got := cfg.GoesBy(c.seen, c.known); !slices.Equal(got, c.want) {
			t.Errorf("%s: it goes by %v; want %v", c.name, got, c.want)
		}
	}
}

// Clients with all nodes take one lock in turns, while the list changes at random: no two hold it, its
// tokens grow, and none loses it.
func TestAddressBooksExcludeEachOtherThroughRandomChanges(t *testing.T) {
	for seed := range uint64(testkit.Every(2, 6, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { changeAtRandom(t, seed) }) })
	}
}

func changeAtRandom(t *testing.T, seed uint64) {
	t.Helper()
	const servers, clients, changes = 4, 4, 6
	rnd := rand.New(rand.NewPCG(seed, 0))
	list := rnd.Perm(servers)[:1+rnd.IntN(3)]
	y := newYard(t, 0, servers)
	testkit.Must(t, y.locker(t, list...).Cluster().Admit(t.Context()))
	var mu sync.Mutex
	var held *redlock.Lock // the last
	holds, last := 0, redlock.Token(0)
	ctx, end := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for range clients {
		l, pauses := y.locker(t, rnd.Perm(servers)...), rand.New(rand.NewPCG(rnd.Uint64(), 0))
		work.Go(func() {
			for ctx.Err() == nil {
				lock, err := l.Acquire(ctx, "orders/42")
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("Acquire: %v", err)
					}
					return
				}
				mu.Lock()
				if held != nil && held.Err() == nil {
					t.Errorf("tokens %d and %d hold it at once", held.Token(), lock.Token())
				}
				if lock.Token() <= last {
					t.Errorf("token %d after %d", lock.Token(), last)
				}
				held, last, holds = lock, lock.Token(), holds+1
				mu.Unlock()
				time.Sleep(time.Duration(pauses.IntN(9)) * redlock.DefaultTTL / 4)
				if err := lock.Err(); err != nil {
					t.Errorf("token %d: %v", lock.Token(), err)
				}
				_ = lock.Release(t.Context())
			}
		})
	}
	for range changes {
		next := slices.Clone(list)
		if k := rnd.IntN(servers); slices.Contains(list, k) && len(list) > 1 {
			next = slices.DeleteFunc(next, func(i int) bool { return i == k })
		} else if !slices.Contains(list, k) {
			y.nodes[k].FlushAll() // it may have been removed
			next = append(next, k)
		}
		y.change(t, list, next)
		list = next
		time.Sleep(time.Duration(rnd.IntN(5)) * redlock.DefaultTTL / 2)
	}
	end()
	work.Wait()
	if holds < changes {
		t.Errorf("got %d holds; want more than changes", holds)
	}
}

// A lock that stands on a bare quorum is held on, though a node of that is taken out.
func TestALockOnABareQuorumOutlivesTheRemovalOfItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 0)
		l := y.locker(t, 0, 1, 2)
		locks := heldBy(t, l, 3)
		// The third lost its keys just now, and a renewal has not put them back yet.
		forced := make(chan bool)
		tell := sync.OnceFunc(func() { close(forced) })
		y.nodes[2].Intercept(func(args []string) redlocktest.Verdict {
			if changeScript(args) == "force" {
				tell()
			}
			return redlocktest.Pass()
		})
		var change sync.WaitGroup
		change.Go(func() { y.change(t, []int{0, 1, 2}, []int{1, 2}) })
		<-forced
		for range 20 {
			for _, lock := range locks {
				y.nodes[2].Miniredis().Del(lock.Resource())
			}
			time.Sleep(10 * time.Millisecond)
		}
		change.Wait()
		time.Sleep(2 * redlock.DefaultTTL)
		wantHeld(t, "after the removal", locks)
	})
}

// An operator founded the cluster anew on one node, while the others were cut off. They are back, and
// that node hangs: who knows of it does not go back to the others.
func TestNobodyGoesBackToWhatItsClusterWasFoundedFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 0)
		l, m := y.locker(t, 0, 1, 2), y.locker(t, 0, 1, 2)
		for _, c := range []*redlock.Locker{l, m} {
			locktest.MustRelease(t, locktest.MustAcquire(t, c, "orders/42"))
		}
		y.nodes[1].Hang()
		y.nodes[2].Hang()
		y.nodes[0].Restart()
		_, _ = l.TryAcquire(t.Context(), "orders/41") // claims the first node
		_ = locktest.Status(t, l)
		time.Sleep(5 * time.Second)
		testkit.Must(t, y.locker(t, 0).Cluster().Admit(t.Context()))
		time.Sleep(5 * time.Second)
		held := locktest.MustAcquire(t, l, "orders/42", redlock.WithTTL(redlock.DefaultMaxTTL))
		locktest.MustRelease(t, locktest.MustAcquire(t, m, "orders/43"))
		y.nodes[1].Resume()
		y.nodes[2].Resume()
		time.Sleep(20 * time.Second) // the next acquisition looks at all nodes
		locktest.MustRelease(t, locktest.MustAcquire(t, m, "orders/43"))
		y.nodes[0].Hang()
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			if lock, err := m.TryAcquire(t.Context(), "orders/42"); err == nil && held.Err() == nil {
				t.Fatalf("two hold it, by tokens %v and %v", held.Token(), lock.Token())
			}
		}
	})
}

// The next list is in force on one node, when the operator and that node are gone. The others have the
// list before, and clients go by that: those that saw the next one, and those that did not.
func TestAChangeThatIsCutShortStopsNobodyThoughItsFirstNodeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 1)
		l := y.locker(t, 0, 1, 2, 3)
		locks := heldBy(t, l, 3)
		var cut atomic.Bool
		cut.Store(true)
		for i := 1; i < 4; i++ {
			y.nodes[i].Intercept(func(args []string) redlocktest.Verdict {
				if cut.Load() && changeScript(args) == "force" {
					return redlocktest.LoseRequest()
				}
				return redlocktest.Pass()
			})
		}
		ctx, die := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			_ = y.locker(t, 0, 1, 2, 3).Cluster().Change(ctx, redlock.Wanted{Add: []string{y.names[3]}}, redlock.ChangeOptions{EndStragglers: true})
			close(done)
		}()
		for locktest.Status(t, l).Generation == 0 {
			time.Sleep(50 * time.Millisecond)
		}
		die()
		y.nodes[0].Stop()
		<-done
		time.Sleep(10 * time.Second) // what the operator had sent is gone
		cut.Store(false)
		time.Sleep(3 * redlock.DefaultTTL)
		wantHeld(t, "the first node is gone", locks)
		for _, client := range []*redlock.Locker{l, y.locker(t, 0, 1, 2, 3)} {
			locktest.MustRelease(t, locktest.MustAcquire(t, client, "orders/42"))
		}
	})
}

// A node that the list adds takes no lock: its memory is full. Locks stay with the list before, and
// are renewed as often as ever.
func TestLocksThatCannotGoOverAreRenewedAtTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 1, 1)
		locks := heldBy(t, y.locker(t, 0, 1), 20)
		var renewals atomic.Int64
		y.nodes[0].Intercept(func(args []string) redlocktest.Verdict {
			if len(args) > 1 && args[0] == "EVALSHA" && args[1] == lua.ExtendScript.Hash {
				renewals.Add(1)
			}
			return redlocktest.Pass()
		})
		y.nodes[1].Intercept(func(args []string) redlocktest.Verdict {
			if len(args) > 1 && args[0] == "EVALSHA" && args[1] == lua.ReseedScript.Hash {
				return redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'.")
			}
			return redlocktest.Pass()
		})
		y.change(t, []int{0}, []int{0, 1})
		time.Sleep(5 * time.Second)
		renewals.Store(0)
		time.Sleep(redlock.DefaultTTL)
		if most := int64(4 * len(locks)); renewals.Load() > most { // three for each would be on its own
			t.Errorf("got %d renewals in a lease; want %d at most", renewals.Load(), most)
		}
		wantHeld(t, "a lease later", locks)
	})
}

// One node of three is of the list: observers are told who leads, and a holder is asked, by its word.
func TestObserversAndRequestsGoByTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 1, 2)
		l, other := y.locker(t, 0, 1, 2), y.locker(t, 0, 1, 2)
		leads, resign := make(chan *redlock.Lock), make(chan struct{})
		go func() {
			_ = l.Campaign(t.Context(), "jobs", func(_ context.Context, lock *redlock.Lock) error {
				leads <- lock
				<-resign
				return context.Canceled
			})
		}()
		leader := <-leads
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		token := redlock.Token(0)
		for seen, err := range other.Observe(ctx, "jobs") {
			if token = seen.Token; err != nil || token == leader.Token() {
				break
			}
		}
		if token != leader.Token() {
			t.Errorf("the observer is told token %v; want %v", token, leader.Token())
		}
		close(resign)
		held := locktest.MustAcquire(t, l, "orders/42", redlock.WithRevocation())
		go func() {
			<-held.Revoked()
			_ = held.Release(t.Context())
		}()
		if err := other.Revoke(ctx, "orders/42"); err != nil {
			t.Errorf("Revoke: %v", err)
		}
	})
}
