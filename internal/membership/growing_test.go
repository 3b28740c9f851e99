package membership_test

import (
	"cmp"
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

// The configuration changes while clients run, on nodes in virtual time.

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
	if members > 0 {
		take(redlocktest.Start(t, members), members)
	}
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

// change goes from a list to the next, by one operator who has the nodes of both.
func (y *yard) change(t *testing.T, from, to []int) {
	t.Helper()
	var w redlock.Wanted
	both := slices.Clone(from)
	for i, name := range y.names {
		switch was, is := slices.Contains(from, i), slices.Contains(to, i); {
		case is && !was:
			w.Add, both = append(w.Add, name), append(both, i)
		case was && !is:
			w.Remove = append(w.Remove, name)
		}
	}
	testkit.Must(t, y.locker(t, both...).Cluster().Change(t.Context(), w, redlock.ChangeOptions{EndStragglers: true}))
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
		strict := true
		for what, w := range map[string]redlock.Wanted{
			"add, and raise": {Add: []string{"node-2"}, MaxTTL: redlock.DefaultMaxTTL + time.Second, Strict: &strict}, "remove": {Remove: []string{"node-2"}},
			"lower": {MaxTTL: redlock.DefaultMaxTTL / 2},
		} {
			every := testkit.Every[int64](5, 1, 1)
			if what != "add, and raise" { // two steps
				every = testkit.Every[int64](9, 3, 1)
			}
			t.Run(fmt.Sprintf("%s, the command arrives %t", what, effect), func(t *testing.T) {
				for k, last := int64(1), false; !last; k += every {
					synctest.Test(t, func(t *testing.T) { last = dieAt(t, w, k, effect) })
				}
			})
		}
	}
}

// dieAt has an operator die at its k-th command that changes a node, and the next one
// finish. It returns whether there was none.
func dieAt(t *testing.T, w redlock.Wanted, k int64, effect bool) (last bool) {
	t.Helper()
	y := newYard(t, 3-len(w.Add), len(w.Add))
	all := []int{0, 1, 2}
	holders, next := all[:3-len(w.Add)], all[:3-len(w.Remove)]
	do := func(ctx context.Context, l *redlock.Locker) error {
		return l.Cluster().Change(ctx, w, redlock.ChangeOptions{})
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
	operator := y.locker(t, all...)
	err := do(ctx, operator)
	last = err == nil
	if last && k == 1 || err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("command %d of %d: got %v", k, count.Load(), err)
	}
	if !last {
		_ = operator.Close()
		time.Sleep(redlock.DefaultMaxTTL / 2)
		operator = y.locker(t, all...)
		testkit.Must(t, do(t.Context(), operator))
	}
	wantHeld(t, fmt.Sprintf("command %d", k), locks)
	fresh := y.locker(t, next...)
	for who, l := range map[string]*redlock.Locker{"a client of the new list": fresh, "the operator": operator} {
		after := locktest.MustAcquire(t, l, "order")
		if after.Token() <= before.Token() {
			t.Errorf("command %d, %s: got token %d after %d", k, who, after.Token(), before.Token())
		}
		testkit.Must(t, after.Release(t.Context()))
	}
	most, steps := cmp.Or(w.MaxTTL, redlock.DefaultMaxTTL), 1
	if w.Add == nil { // a close is the last
		steps = 2
	}
	if s := locktest.Status(t, fresh); s.Generation != steps || s.Votes() != len(next) || s.MaxTTL != most || s.Strict != (w.Strict != nil) || s.Pending != "" {
		t.Errorf("command %d: got %+v; want %d steps, %d votes, and MaxTTL %v", k, s, steps, len(next), most)
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
		var before []int
		for g, list := range lists[:len(lists)-1] {
			next := lists[g+1]
			l := y.locker(t, list...)
			locks := heldBy(t, l, 20)
			y.change(t, list, next)
			wantHeld(t, fmt.Sprintf("%v to %v", list, next), locks)
			for _, client := range []*redlock.Locker{l, y.locker(t, next...)} {
				lock := locktest.MustAcquire(t, client, "order")
				if lock.Token() <= last {
					t.Errorf("%v to %v: got token %d after %d", list, next, lock.Token(), last)
				}
				last = lock.Token()
				testkit.Must(t, lock.Release(t.Context()))
			}
			if lacks := slices.ContainsFunc(next, func(i int) bool { return !slices.Contains(before, i) }); earlier != nil && lacks {
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
			earlier, before = l, list
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
			all := []int{0, 1, 2, 3}[:few+1]
			y.change(t, all[:few], all)
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

// What is wanted at once comes one node at a time, MaxTTL and strict with the first, and a close
// last; each step is foretold.
func TestOneCallChangesNodesMaxTTLAndStrictStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 1)
		old := y.locker(t, 0, 1, 2)
		locks, strict := heldBy(t, old, 5), true
		w, told := redlock.Wanted{Add: []string{"node-3"}, MaxTTL: 20 * time.Second, Strict: &strict}, []string(nil)
		change := func(dry bool) error {
			told = nil
			return y.locker(t, 0, 1, 2, 3).Cluster().Change(t.Context(), w, redlock.ChangeOptions{DryRun: dry, Progress: func(p redlock.ChangeProgress) {
				now := fmt.Sprintf("%d/%d %s %d nodes", p.Step, p.Steps, p.Words, len(p.List))
				if dry {
					now += fmt.Sprint(", ", p.Left)
				}
				if p.Of > 0 != dry && !slices.Contains(told, now) && p.List != nil {
					told = append(told, now)
				}
			}})
		}
		want := func(when string, generation int, steps ...string) {
			t.Helper()
			if s := locktest.Status(t, y.locker(t, 0, 1, 2, 3)); !slices.Equal(told, steps) || s.Generation != generation || s.Pending != "" {
				t.Errorf("%s: got the steps %q, %+v; want %q, generation %d", when, told, s, steps, generation)
			}
			wantHeld(t, when, locks)
			time.Sleep(time.Second) // what Status tried on the empty node is gone
		}
		add, shut := "add node-3, MaxTTL 20s, strict recovery on 4 nodes", "close 4 nodes"
		testkit.Must(t, change(true))
		want("a dry run", 0, "1/2 "+add+", 30s", "2/2 "+shut+", 30s")
		began := time.Now()
		err := change(false)
		if took := time.Since(began); took > redlock.DefaultMaxTTL+20*time.Second {
			t.Errorf("the first step took %v; want MaxTTL and what stragglers are waited for: the new node waits meanwhile", took)
		}
		locktest.WantError(t, "while clients have the list before", err, redlock.ErrStragglers)
		locktest.WantText(t, "while clients have the list before", locktest.ErrorText(err), "step 2 of 2 (close) is not done")
		want("one step", 1, "1/2 "+add)
		testkit.Must(t, old.Close())
		locks = nil
		time.Sleep(2 * time.Minute)
		testkit.Must(t, change(false))
		want("the other", 2, "1/1 "+shut)
		testkit.Must(t, change(false))
		if s := locktest.Status(t, y.locker(t, 0, 1, 2, 3)); s.MaxTTL != w.MaxTTL || !s.Strict || s.Votes() != 4 || s.Generation != 2 {
			t.Errorf("got %+v; want all in force", s)
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
		y.change(t, []int{0, 1}, []int{0, 1, 2})
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
		y.change(t, []int{0, 1, 2}, []int{0, 1, 2})
		seen("closed", fresh)
	})
}

func TestBadChangesAreRefusedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, other := newYard(t, 3, 1), newYard(t, 1, 0)
		all, three := y.locker(t, 0, 1, 2, 3), y.locker(t, 0, 1, 2)
		want := func(what string, l *redlock.Locker, w redlock.Wanted, err error, words string) {
			t.Helper()
			if got := l.Cluster().Change(t.Context(), w, redlock.ChangeOptions{}); !errors.Is(got, err) || !strings.Contains(got.Error(), words) {
				t.Errorf("%s: got %v; want %v with %q", what, got, err, words)
			}
			if s := locktest.Status(t, y.locker(t, 0, 1, 2)); s.Generation != 0 || s.Pending != "" {
				t.Errorf("%s: got %+v; want nothing changed", what, s)
			}
		}
		add := redlock.Wanted{Add: []string{"node-3"}}
		want("a name that is no node", three, add, redlock.ErrInvalidNode, "no node node-3")
		want("one twice", all, redlock.Wanted{Add: []string{"node-3"}, Remove: []string{"node-3"}}, redlock.ErrInvalidNode, "twice")
		want("all nodes", three, redlock.Wanted{Remove: y.names[:3]}, redlock.ErrInvalidNode, "one node at least")
		want("not all nodes of the list", y.locker(t, 0, 1), redlock.Wanted{MaxTTL: time.Minute}, redlock.ErrMisconfigured, "the cluster's list is")
		for _, out := range []time.Duration{-time.Second, 9 * time.Millisecond, 25 * time.Hour} {
			want(out.String(), three, redlock.Wanted{MaxTTL: out}, redlock.ErrInvalidTTL, "10ms to 24h")
		}
		foreign := locktest.LockerWith(t, []redis.UniversalClient{y.clients[0], y.clients[1], y.clients[2], other.clients[0]},
			redlock.WithNodeNames("node-0", "node-1", "node-2", "node-3"))
		want("another cluster's node", foreign, add, redlock.ErrMisconfigured, "another cluster")
		testkit.Must(t, y.nodes[3].Miniredis().Set("somebody's", "data"))
		want("a node with data", all, add, redlock.ErrMisconfigured, "has data")
		y.nodes[3].FlushAll()
		y.nodes[3].Stop()
		want("a dead node", all, add, redlock.ErrNoQuorum, "does not answer")
		y.nodes[1].Stop()
		want("below what answers", three, redlock.Wanted{Remove: []string{"node-0"}}, redlock.ErrNoQuorum, "are needed")
	})
}

func TestOfTwoOperatorsAtOnceOneFinishes(t *testing.T) {
	for _, w := range [][2]redlock.Wanted{
		{{Add: []string{"node-3"}}, {Remove: []string{"node-2"}}}, {{MaxTTL: longMax}, {MaxTTL: time.Minute}}, {{MaxTTL: longMax}, {MaxTTL: 20 * time.Second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			y := newYard(t, 3, 1)
			locks := heldBy(t, y.locker(t, 0, 1, 2), 5)
			results, overtaken := make(chan error, 2), false
			go func() {
				told := func(p redlock.ChangeProgress) { overtaken = overtaken || p.Of == 0 }
				results <- y.locker(t, 0, 1, 2, 3).Cluster().Change(t.Context(), w[0], redlock.ChangeOptions{Progress: told})
			}()
			time.Sleep(time.Second)
			go func() {
				results <- y.locker(t, 0, 1, 2).Cluster().Change(t.Context(), w[1], redlock.ChangeOptions{})
			}()
			first, second := <-results, <-results
			if !errors.Is(first, redlock.ErrContested) || second != nil || overtaken {
				t.Errorf("%+v: got %v and %v, and progress without nodes %t; want that the first was overtaken, and nothing", w, first, second, overtaken)
			}
			wantHeld(t, "after both", locks)
			left := 3 - len(w[1].Remove)
			if s := locktest.Status(t, y.locker(t, []int{0, 1, 2}[:left]...)); s.Votes() != left || s.MaxTTL != cmp.Or(w[1].MaxTTL, redlock.DefaultMaxTTL) {
				t.Errorf("%+v: got %+v; want the configuration of the second", w, s)
			}
		})
	}
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
	for _, book := range []bool{false, true} {
		t.Run(fmt.Sprintf("all have all addresses %t", book), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { liveThroughChanges(t, book) })
		})
	}
}

// liveThroughChanges changes the list under clients of the one before and of the next, or, with book,
// of clients that have all nodes from the beginning.
func liveThroughChanges(t *testing.T, book bool) {
	t.Helper()
	y := newYard(t, 3, 2)
	client := func(list ...int) *redlock.Locker {
		if book {
			list = []int{0, 1, 2, 3, 4}
		}
		return y.locker(t, list...)
	}
	lists := [][]int{{0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}, {1, 2, 3, 4}}
	for g, list := range lists[:len(lists)-1] {
		next, when := lists[g+1], fmt.Sprintf("%v to %v", list, lists[g+1])
		slot, l := redlock.WithLimit(2), client(list...)
		k, held := &line{served: make(chan int, 10)}, []*redlock.Lock(nil)
		first := locktest.MustAcquire(t, l, "line")
		for range 2 {
			held = append(held, locktest.MustAcquire(t, client(list...), "shared", redlock.WithShared()), locktest.MustAcquire(t, client(list...), "slots", slot))
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
			k.queue(t, client(list...))
		}
		y.change(t, list, next)
		for range 3 { // behind them, by the next list
			k.queue(t, client(next...))
		}
		wantHeld(t, when, append(held, first, leader))
		for _, client := range []*redlock.Locker{l, client(next...)} {
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
}

// A Locker made after a change lacks the node that was taken out. It can't ask that one whether the
// change is done.
func TestWhatIsInForceIsDoneForOneWhoLacksANodeOfTheListBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 2, 0)
		y.change(t, []int{0, 1}, []int{0})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		testkit.Must(t, y.locker(t, 0).Cluster().Change(ctx, redlock.Wanted{MaxTTL: redlock.DefaultMaxTTL}, redlock.ChangeOptions{}))
	})
}

// The second operator's Locker lacks the node that the first has proposed, and did not put in force.
func TestAnOperatorWhoLacksTheNodeThatWasProposedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 3, 1)
		ctx, die := context.WithCancel(t.Context())
		defer die()
		for _, n := range y.nodes {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if changeScript(args) == "force" && ctx.Err() == nil {
					die()
					return redlocktest.ReplyError("ERR died")
				}
				return redlocktest.Pass()
			})
		}
		locktest.WantError(t, "the first", y.locker(t, 0, 1, 2, 3).Cluster().Change(ctx, redlock.Wanted{Add: []string{"node-3"}}, redlock.ChangeOptions{}), context.Canceled)
		second := y.locker(t, 0, 1, 2)
		locktest.WantError(t, "the second", second.Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: time.Minute}, redlock.ChangeOptions{}), redlock.ErrContested)
		locktest.MustRelease(t, locktest.MustAcquire(t, second, "orders/42")) // by the list before
	})
}

// A Locker that has changed the list holds locks by the list that was in force then: through a dry
// run, and while another node is added. A node that it took out holds up nothing any more.
func TestAnOperatorsLockerHoldsItsLocksThroughItsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 4, 1)
		l := y.locker(t, 0, 1, 2, 3, 4)
		y.nodes[3].Stop()
		testkit.Must(t, l.Cluster().Change(t.Context(), redlock.Wanted{Remove: []string{"node-3"}}, redlock.ChangeOptions{}))
		lock := locktest.MustAcquire(t, l, "orders/42")
		testkit.Must(t, l.Cluster().Change(t.Context(), redlock.Wanted{Add: []string{"node-4"}}, redlock.ChangeOptions{DryRun: true, EndStragglers: true}))
		time.Sleep(2 * redlock.DefaultTTL)
		testkit.Must(t, lock.Err())
		y.nodes[4].FlushAll() // so nothing has begun there
		began := time.Now()
		testkit.Must(t, l.Cluster().Change(t.Context(), redlock.Wanted{Add: []string{"node-4"}}, redlock.ChangeOptions{EndStragglers: true}))
		if took := time.Since(began); took > redlock.DefaultMaxTTL+3*time.Second {
			t.Errorf("adding took %v; want MaxTTL, since the new node waits meanwhile", took)
		}
		testkit.Must(t, lock.Err())
		locktest.MustRelease(t, lock)
		testkit.Must(t, l.Cluster().Join(t.Context()))
		testkit.Must(t, l.Cluster().Admit(t.Context()))
		y.nodes[3].Start() // with the list of then
		testkit.Must(t, l.Cluster().Admit(t.Context()))
		for _, i := range []int{0, 1, 2, 4} {
			y.nodes[i].Restart()
		}
		locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42")) // it founds the list anew
	})
}

// All records are lost. Who saw a longer MaxTTL in them waits for that before it founds.
func TestWhoSawALongerMaxTTLWaitsForItWhereAllIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		op := locktest.SeparateLocker(t, c)
		testkit.Must(t, op.Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: time.Minute}, redlock.ChangeOptions{}))
		testkit.Must(t, op.Close())
		long, short := locktest.SeparateLocker(t, c, redlock.WithTTL(time.Minute), redlock.WithMaxTTL(time.Minute)), locktest.SeparateLocker(t, c)
		locktest.MustRelease(t, locktest.MustAcquire(t, short, "orders/41"))
		held := locktest.MustAcquire(t, long, "orders/42")
		for i := range 3 {
			c.Node(i).Restart()
		}
		next, err := short.Acquire(t.Context(), "orders/42")
		testkit.Must(t, err)
		if held.Err() == nil {
			t.Errorf("two hold it, for %v and %v", held.Remaining(), next.Remaining())
		}
		locktest.MustRelease(t, next)
	})
}

// Settling begins a new epoch: a client of the list before learns at its next renewal that the change
// has begun, and loses its lock while the change waits for that.
func TestAChangeThatHasBegunEndsTheLocksOfTheListBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 1, 2)
		lock := locktest.MustAcquire(t, y.locker(t, 0), "orders/42")
		y.change(t, []int{0}, []int{0, 1})
		testkit.Must(t, lock.Err())
		done := make(chan struct{})
		go func() {
			y.change(t, []int{0, 1}, []int{0, 1, 2})
			close(done)
		}()
		time.Sleep(redlock.DefaultTTL + redlock.DefaultTTL/2)
		select {
		case <-done:
			t.Error("the change did not wait")
		default:
			locktest.WantError(t, "half of the wait later", lock.Err(), redlock.ErrLost)
		}
		<-done
	})
}
