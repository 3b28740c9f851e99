package membership_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// The list of nodes changes while clients run, on nodes in virtual time.

// yard is a cluster, and servers that may be added to it.
type yard struct {
	clients []redis.UniversalClient
	names   []string
	nodes   []*redlocktest.Node
}

func newYard(t *testing.T, members, spares int) *yard {
	t.Helper()
	y := &yard{}
	take := func(c *redlocktest.Cluster, n int) {
		for i := range n {
			y.clients, y.nodes = append(y.clients, c.Clients()[i]), append(y.nodes, c.Node(i))
			y.names = append(y.names, fmt.Sprintf("node-%d", len(y.names)))
		}
	}
	take(redlocktest.Start(t, members), members)
	if spares > 0 {
		take(redlocktest.Start(t, spares, redlocktest.WithoutFounding()), spares)
	}
	return y
}

// locker is a client of these nodes.
func (y *yard) locker(t *testing.T, which ...int) *redlock.Locker {
	t.Helper()
	var clients []redis.UniversalClient
	var names []string
	for _, i := range which {
		clients, names = append(clients, y.clients[i]), append(names, y.names[i])
	}
	return locktest.LockerWith(t, clients, redlock.WithNodeNames(names...))
}

// changeScript names the script of a change, or of a join, that a command runs, or is empty.
func changeScript(args []string) string {
	for _, s := range []*lua.Script{lua.SettleScript, lua.AcceptScript, lua.ForceScript, lua.InstallScript, lua.NoticeScript} {
		if len(args) > 1 && args[0] == "EVALSHA" && args[1] == s.Hash {
			return s.Name
		}
	}
	return ""
}

// heldBy holds so many locks, which the Locker renews.
func heldBy(t *testing.T, l *redlock.Locker, n int) []*redlock.Lock {
	t.Helper()
	locks := make([]*redlock.Lock, n)
	for i := range locks {
		locks[i] = locktest.MustAcquire(t, l, fmt.Sprintf("held/%d", i))
	}
	return locks
}

func wantHeld(t *testing.T, when string, locks []*redlock.Lock) {
	t.Helper()
	for _, lock := range locks {
		if err := lock.Err(); err != nil {
			t.Fatalf("%s: %s: %v; want it held", when, lock.Resource(), err)
		}
	}
}

func TestAnOperatorWhoDiesAtAnyCommandIsFollowedByTheNext(t *testing.T) {
	for _, effect := range []bool{true, false} {
		for _, verb := range []string{"add", "shrink"} {
			t.Run(fmt.Sprintf("%s, the command arrives %t", verb, effect), func(t *testing.T) {
				for k, last := int64(1), false; !last; k += testkit.Every[int64](5, 1, 1) {
					synctest.Test(t, func(t *testing.T) { last = dieAt(t, verb, k, effect) })
				}
			})
		}
	}
}

// dieAt has an operator die at its k-th command that changes a node, and the next one
// finish. It returns whether there was none.
func dieAt(t *testing.T, verb string, k int64, effect bool) (last bool) {
	t.Helper()
	y := newYard(t, 2, 1)
	longer, shorter := []int{0, 1, 2}, []int{0, 1}
	holders, next := shorter, longer
	do := func(ctx context.Context, l *redlock.Locker) error {
		return l.Cluster().Add(ctx, "node-2", redlock.ChangeOptions{})
	}
	if verb == "shrink" {
		y = newYard(t, 3, 0)
		holders, next = longer, shorter
		do = func(ctx context.Context, l *redlock.Locker) error {
			return l.Cluster().Shrink(ctx, "node-2", redlock.ChangeOptions{})
		}
	}
	old := y.locker(t, holders...)
	locks := heldBy(t, old, 5)
	before := locktest.MustAcquire(t, old, "order")
	testkit.Must(t, before.Release(t.Context()))

	ctx, die := context.WithCancel(t.Context())
	defer die()
	var count atomic.Int64
	for _, n := range y.nodes {
		n.Intercept(func(args []string) redlocktest.Verdict {
			if changeScript(args) == "" || count.Add(1) != k {
				return redlocktest.Pass()
			}
			die()
			if effect {
				return redlocktest.Pass()
			}
			return redlocktest.ReplyError("ERR the operator died")
		})
	}
	operator := y.locker(t, longer...)
	err := do(ctx, operator)
	last = err == nil
	if last && k == 1 || err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("command %d of %d: got %v", k, count.Load(), err)
	}
	_ = operator.Close()
	time.Sleep(redlock.DefaultMaxTTL / 2)
	if !last {
		testkit.Must(t, do(t.Context(), y.locker(t, longer...)))
	}
	wantHeld(t, fmt.Sprintf("command %d", k), locks)
	fresh := y.locker(t, next...)
	after := locktest.MustAcquire(t, fresh, "order")
	if after.Token() <= before.Token() {
		t.Errorf("command %d: got token %d after %d", k, after.Token(), before.Token())
	}
	if s := locktest.Status(t, fresh); s.Generation != 1 || s.Votes() != len(next) {
		t.Errorf("command %d: got generation %d and %d votes; want 1 and %d", k, s.Generation, s.Votes(), len(next))
	}
	if _, err := fresh.TryAcquire(t.Context(), "held/3"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("command %d: a held lock, by a client of the new list: got %v; want it taken", k, err)
	}
	return last
}

func TestAClusterGrowsAndShrinksUnderLocksAndRefusesListsTwoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 1, 4)
		lists := [][]int{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}, {0, 2, 3, 4}, {2, 3, 4}}
		last := redlock.Token(0)
		var earlier *redlock.Locker
		for g, list := range lists[:len(lists)-1] {
			next := lists[g+1]
			l := y.locker(t, list...)
			locks := heldBy(t, l, 20)
			var err error
			if len(next) > len(list) {
				err = y.locker(t, next...).Cluster().Add(t.Context(), y.names[next[len(next)-1]], redlock.ChangeOptions{EndStragglers: true})
			} else {
				gone := slices.IndexFunc(list, func(i int) bool { return !slices.Contains(next, i) })
				err = l.Cluster().Shrink(t.Context(), y.names[list[gone]], redlock.ChangeOptions{EndStragglers: true})
			}
			testkit.Must(t, err)
			wantHeld(t, fmt.Sprintf("%v to %v", list, next), locks)
			for _, client := range []*redlock.Locker{l, y.locker(t, next...)} {
				lock := locktest.MustAcquire(t, client, "order")
				if lock.Token() <= last {
					t.Errorf("%v to %v: got token %d after %d", list, next, lock.Token(), last)
				}
				last = lock.Token()
				testkit.Must(t, lock.Release(t.Context()))
			}
			if earlier != nil {
				var names []string
				for _, i := range next {
					names = append(names, y.names[i])
				}
				if _, err := earlier.TryAcquire(t.Context(), "order"); !errors.Is(err, redlock.ErrMisconfigured) || !strings.Contains(err.Error(), "("+strings.Join(names, ", ")+")") {
					t.Errorf("%v to %v: a client two lists back: got %v; want ErrMisconfigured that names the list", list, next, err)
				}
			}
			for _, lock := range locks {
				testkit.Must(t, lock.Release(t.Context()))
			}
			earlier = l
		}
	})
}

// A leader on a quorum by one list may be on fewer by another: an observer with that list
// does not know, and says so. That nobody leads it says once a quorum of its nodes is free.
// Nor does Revoke say that nobody holds.
func TestAnObserverWithAnotherListThanTheLeaderDoesNotSayThatNobodyLeads(t *testing.T) {
	for _, c := range []struct {
		leads, observes []int
		without         int // a node that lost the leader's key
	}{{[]int{0, 1, 2}, []int{0, 1, 2, 3}, 2}, {[]int{0, 1, 2}, []int{0, 1}, 0}} {
		synctest.Test(t, func(t *testing.T) {
			few := min(len(c.leads), len(c.observes))
			y := newYard(t, few, 1)
			testkit.Must(t, y.locker(t, []int{0, 1, 2, 3}[:few+1]...).Cluster().Add(t.Context(), y.names[few], redlock.ChangeOptions{}))
			lock := locktest.MustAcquire(t, y.locker(t, c.leads...), "jobs", redlock.WithFixedLease(), redlock.WithRevocation())
			time.Sleep(time.Second) // it is on all its nodes
			y.nodes[c.without].Miniredis().Del("jobs")
			var told []string
			for leader, err := range y.locker(t, c.observes...).Observe(t.Context(), "jobs") {
				if told = append(told, fmt.Sprint(leader.Held, errors.Is(err, redlock.ErrNoQuorum))); err == nil {
					break
				}
				locktest.WantText(t, "what is not known", err.Error(), "may be a lock by another list of nodes")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				locktest.WantError(t, "Revoke", y.locker(t, c.observes...).Revoke(ctx, "jobs"), context.DeadlineExceeded)
				cancel()
				testkit.Must(t, lock.Release(t.Context()))
			}
			if want := []string{"false true", "false false"}; !slices.Equal(told, want) {
				t.Errorf("list %v observes a leader of %v: got %q (held, no quorum); want %q", c.observes, c.leads, told, want)
			}
		})
	}
}

// Both renew the epochs of the records. The lowering that waits stops, and says why; the change
// settles once more.
func TestMaxTTLIsLoweredBesideAChangeOfTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 1)
		more := locktest.LockerWith(t, y.clients[:3], redlock.WithNodeNames(y.names[:3]...), redlock.WithMaxTTL(longMax))
		locktest.Warm(t, more)
		testkit.Must(t, more.Close())
		time.Sleep(time.Second)
		old, next := y.locker(t, 0, 1, 2).Cluster(), y.locker(t, 0, 1, 2, 3).Cluster()
		began, added := time.Now(), make(chan error)
		time.AfterFunc(time.Second, func() { added <- next.Add(t.Context(), "node-3", redlock.ChangeOptions{}) })
		err := old.LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL)
		locktest.WantText(t, "the lowering", locktest.ErrorText(err), "the list of nodes changes", "run this again")
		testkit.Must(t, old.LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL))
		testkit.Must(t, <-added)
		if took := time.Since(began); took < longMax {
			t.Errorf("both took %v; want the pause of the change that had begun, %v, at least", took, longMax)
		}
		for i, n := range y.nodes {
			if got := n.Miniredis().HGet(lua.NodeKey, "maxttl") + n.Miniredis().HGet(lua.NodeKey, "maxttl_was"); got != "30000" {
				t.Errorf("node %d: got MaxTTL %q; want 30000", i, got)
			}
		}
	})
}

func TestClientsOfTheListBeforeAreSeenUntilTheyIdleForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 2, 1)
		seen := func(when string, l *redlock.Locker, want ...string) {
			t.Helper()
			var names []string
			for _, s := range locktest.Status(t, l).Stragglers {
				names = append(names, s.Name)
				if s.Name == "holder" && s.Seen > 2*membership.SignEvery {
					t.Errorf("%s: got %+v; want a sign each minute", when, s)
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, want) {
				t.Errorf("%s: got %q; want %q", when, names, want)
			}
		}
		old := func(label string) *redlock.Locker {
			return locktest.LockerWith(t, y.clients[:2], redlock.WithNodeNames(y.names[:2]...), redlock.WithHolder(label))
		}
		holder, short, idle := old("holder"), old("short"), old("idle")
		heldBy(t, holder, 1)
		use := func(l *redlock.Locker) { testkit.Must(t, locktest.MustAcquire(t, l, "order").Release(t.Context())) }
		use(short)
		use(idle)
		fresh := y.locker(t, 0, 1, 2)
		seen("before", holder)
		testkit.Must(t, fresh.Cluster().Add(t.Context(), "node-2", redlock.ChangeOptions{}))
		use(short)
		use(idle)
		use(fresh)
		for range 30 {
			time.Sleep(time.Minute)
			use(short) // too short for the clock watch
		}
		seen("idle", fresh, "holder", "idle", "short")
		if s := locktest.Status(t, fresh); s.Stragglers[2].Name != "idle" || s.Stragglers[1].Seen > 2*membership.SignEvery || s.Pending != "" {
			t.Errorf("got %+v; want the idle one last, and nothing begun", s)
		}
		time.Sleep(29 * time.Minute)
		seen("idle", holder, "holder", "idle", "short")
		time.Sleep(2 * time.Minute)
		seen("an hour", fresh, "holder", "short")
		testkit.Must(t, fresh.Cluster().Settle(t.Context(), redlock.ChangeOptions{EndStragglers: true}))
		seen("settled", fresh)
	})
}

func TestBadChangesOfTheListAreRefusedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, other := newYard(t, 3, 1), newYard(t, 1, 0)
		add := func(l *redlock.Locker, name string) error {
			return l.Cluster().Add(t.Context(), name, redlock.ChangeOptions{})
		}
		shrink := func(l *redlock.Locker, name string) error {
			return l.Cluster().Shrink(t.Context(), name, redlock.ChangeOptions{})
		}
		all := y.locker(t, 0, 1, 2, 3)
		want := func(what string, got, err error, words string) {
			t.Helper()
			if !errors.Is(got, err) || !strings.Contains(got.Error(), words) {
				t.Errorf("%s: got %v; want %v with %q", what, got, err, words)
			}
			if s := locktest.Status(t, y.locker(t, 0, 1, 2)); s.Generation != 0 || s.Pending != "" {
				t.Errorf("%s: got %+v; want nothing changed", what, s)
			}
		}
		want("a name that is no node", add(all, "x"), redlock.ErrInvalidNode, "no such node")
		want("a name that is there", add(y.locker(t, 0, 1, 2), "node-2"), redlock.ErrInvalidNode, "already")
		want("another list", shrink(all, "node-2"), redlock.ErrMisconfigured, "the cluster's list is")
		foreign := locktest.LockerWith(t, []redis.UniversalClient{y.clients[0], y.clients[1], y.clients[2], other.clients[0]},
			redlock.WithNodeNames("node-0", "node-1", "node-2", "node-3"))
		want("another cluster's node", add(foreign, "node-3"), redlock.ErrMisconfigured, "another cluster")
		testkit.Must(t, y.nodes[3].Miniredis().Set("somebody's", "data"))
		want("a node with data", add(all, "node-3"), redlock.ErrMisconfigured, "has data")
		y.nodes[3].FlushAll()
		y.nodes[3].Stop()
		want("a dead node", add(all, "node-3"), redlock.ErrNoQuorum, "does not answer")
		y.nodes[1].Stop()
		want("below what answers", shrink(y.locker(t, 0, 1, 2), "node-0"), redlock.ErrNoQuorum, "are needed")
	})
}

func TestOfTwoOperatorsAtOnceOneFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 1)
		locks := heldBy(t, y.locker(t, 0, 1, 2), 5)
		results, overtaken := make(chan error, 2), false
		go func() {
			told := func(p redlock.ChangeProgress) { overtaken = overtaken || p.Of == 0 }
			results <- y.locker(t, 0, 1, 2, 3).Cluster().Add(t.Context(), "node-3", redlock.ChangeOptions{Progress: told})
		}()
		time.Sleep(time.Second)
		go func() {
			results <- y.locker(t, 0, 1, 2).Cluster().Shrink(t.Context(), "node-2", redlock.ChangeOptions{})
		}()
		first, second := <-results, <-results
		if !errors.Is(first, redlock.ErrContested) || second != nil || overtaken {
			t.Errorf("got %v and %v, and progress without nodes %t; want that the first was overtaken, and nothing", first, second, overtaken)
		}
		wantHeld(t, "after both", locks)
		if s := locktest.Status(t, y.locker(t, 0, 1)); s.Generation != 1 || s.Votes() != 2 {
			t.Errorf("got %+v; want the list of the second", s)
		}
	})
}

// line is waiters for one name, as they are served.
type line struct {
	served  chan int
	waiting int
}

// queue makes a client of its own wait in line, behind all who wait already.
func (k *line) queue(t *testing.T, l *redlock.Locker) {
	t.Helper()
	me := k.waiting
	k.waiting++
	go func() {
		lock, err := l.Acquire(t.Context(), "line")
		if err != nil {
			t.Errorf("waiter %d: %v", me, err)
			return
		}
		k.served <- me
		_ = lock.Release(t.Context()) // its expiry does as well
	}()
	time.Sleep(100 * time.Millisecond)
}

func TestWaitersSharersSlotsAndLeadersLiveThroughChangesOfTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 2)
		lists := [][]int{{0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}, {1, 2, 3, 4}}
		for g, list := range lists[:len(lists)-1] {
			next, when := lists[g+1], fmt.Sprintf("%v to %v", list, lists[g+1])
			slot, l := redlock.WithLimit(2), y.locker(t, list...)
			k, held := &line{served: make(chan int, 10)}, []*redlock.Lock(nil)
			first := locktest.MustAcquire(t, l, "line")
			for range 2 {
				held = append(held, locktest.MustAcquire(t, y.locker(t, list...), "shared", redlock.WithShared()), locktest.MustAcquire(t, y.locker(t, list...), "slots", slot))
			}
			leads, resign := make(chan *redlock.Lock), make(chan struct{})
			go func() {
				_ = l.Campaign(t.Context(), "jobs", func(_ context.Context, lock *redlock.Lock) error {
					leads <- lock
					<-resign
					return context.Canceled
				})
			}()
			leader := <-leads
			for range 3 {
				k.queue(t, y.locker(t, list...))
			}
			var err error
			if len(next) > len(list) {
				err = y.locker(t, next...).Cluster().Add(t.Context(), y.names[next[len(next)-1]], redlock.ChangeOptions{EndStragglers: true})
			} else {
				err = l.Cluster().Shrink(t.Context(), y.names[0], redlock.ChangeOptions{EndStragglers: true})
			}
			testkit.Must(t, err)
			for range 3 { // behind them, by the next list
				k.queue(t, y.locker(t, next...))
			}
			wantHeld(t, when, append(held, first, leader))
			for _, client := range []*redlock.Locker{l, y.locker(t, next...)} {
				for name, opts := range map[string][]redlock.AcquireOption{"shared": nil, "slots": {slot}, "jobs": nil, "line": nil} {
					if _, err := client.TryAcquire(t.Context(), name, opts...); !errors.Is(err, redlock.ErrNotAcquired) {
						t.Errorf("%s: %s: got %v; want it taken", when, name, err)
					}
				}
				testkit.Must(t, locktest.MustAcquire(t, client, "shared", redlock.WithShared()).Release(t.Context()))
				for seen, err := range client.Observe(t.Context(), "jobs") {
					if err != nil || !seen.Held {
						t.Errorf("%s: the observer is told %+v, %v; want the leader", when, seen, err)
					}
					if seen.Token == leader.Token() || t.Failed() { // it is told a moment later than the name
						break
					}
				}
			}
			testkit.Must(t, first.Release(t.Context()))
			for i := range k.waiting {
				if got := <-k.served; got != i {
					t.Errorf("%s: waiter %d is served as number %d", when, got, i)
				}
			}
			for _, lock := range held {
				testkit.Must(t, lock.Release(t.Context()))
			}
			close(resign)
		}
	})
}
