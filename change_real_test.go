//go:build unix

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// A waiter of a list that gets no vote any more is told so by its next looks, leaves the line, and
// holds up nobody behind it.
func TestAWaiterThatTheNextListRefusesLeavesTheLine(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 2, redisserver.Config{})
	open := func(n int) *redlock.Locker {
		return locktest.OpenWithout(t, servers[:n], nil, redlock.WithTTL(3*time.Second), redlock.WithMaxTTL(3*time.Second))
	}
	ctx := t.Context()
	old, next := open(1), open(2)
	must(t, old.Cluster().Admit(ctx))
	must(t, next.Cluster().Change(ctx, redlock.Wanted{Add: []string{servers[1].Addr()}}, redlock.ChangeOptions{}))
	o := look(t, servers[:1])
	held, err := next.Acquire(ctx, "orders/42")
	must(t, err)
	refused := make(chan error, 1)
	go func() {
		_, err := old.Acquire(ctx, "orders/42")
		refused <- err
	}()
	o.inLine(1)
	behind := o.comes(open(2), "behind", 2)
	must(t, open(2).Cluster().Change(ctx, redlock.Wanted{}, redlock.ChangeOptions{EndStragglers: true}))
	select {
	case err := <-refused:
		if !errors.Is(err, redlock.ErrMisconfigured) {
			t.Errorf("the waiter ended with %v; want ErrMisconfigured", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the waiter of the old list was not told")
	}
	o.inLine(1)
	must(t, o.turns(held, behind, time.Second).Release(ctx))
}

// One master grows to five, and shrinks to one. After each step each node of the list restarts,
// empty and with its data: the cluster locks again within MaxTTL and seconds, and tokens grow.
func TestEachNodeMayRestartAfterEachStepOfGrowingAndShrinking(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	servers := testserver.Need(t, 5, redisserver.Config{AOF: redisserver.FsyncAlways})
	open := func(n int) *redlock.Locker {
		return locktest.OpenWithout(t, servers[:n], nil, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL), redlock.WithNodeTimeout(maxTTL/4))
	}
	ctx, last := t.Context(), redlock.Token(0)
	locks := func(l *redlock.Locker, when string) {
		began := time.Now()
		pollUntil(t, maxTTL+5*time.Second, when+": the cluster locks", func() bool {
			lock, err := l.TryAcquire(ctx, "orders/42")
			if err != nil {
				return false
			}
			if lock.Token() <= last {
				t.Errorf("%s: token %v after %v", when, lock.Token(), last)
			}
			last = lock.Token()
			return lock.Release(ctx) == nil
		})
		t.Logf("%s: locked after %v", when, time.Since(began).Round(time.Millisecond))
		pollUntil(t, maxTTL+5*time.Second, when+": all vote", func() bool { return locktest.Votes(t, l) == len(l.Stats().Nodes) })
	}
	before := 1
	must(t, open(1).Cluster().Admit(ctx))
	for _, n := range []int{1, 2, 3, 5, 3, 2, 1} {
		wanted := redlock.Wanted{}
		for _, s := range servers[min(before, n):max(before, n)] {
			wanted.Add = append(wanted.Add, s.Addr())
		}
		if n < before {
			wanted.Add, wanted.Remove = nil, wanted.Add
		}
		must(t, open(max(before, n)).Cluster().Change(ctx, wanted, redlock.ChangeOptions{EndStragglers: true}))
		before = n
		at := open(n)
		for i, s := range servers[:n] {
			must(t, s.RestartEmpty())
			locks(at, fmt.Sprintf("of %d, %d restarted empty", n, i))
			must(t, s.Restart())
			locks(at, fmt.Sprintf("of %d, %d restarted with its data", n, i))
		}
	}
}

// Of a cluster that grew from one node to three, the first restarts empty. To a client with the
// list of that one it looks like a new cluster. A pin keeps it from founding one.
func TestAPinnedClientWithAnOldListFoundsNoCluster(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	servers := testserver.Need(t, 3, redisserver.Config{})
	open := func(n int, more ...redlock.Option) *redlock.Locker {
		return locktest.OpenWithout(t, servers[:n], nil, append(more, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))...)
	}
	ctx := t.Context()
	must(t, open(1).Cluster().Admit(ctx))
	for n := 2; n <= 3; n++ {
		must(t, open(n).Cluster().Change(ctx, redlock.Wanted{Add: []string{servers[n-1].Addr()}}, redlock.ChangeOptions{}))
	}
	now := open(3)
	id := locktest.Status(t, now).ID
	old := open(1, redlock.WithCluster(id))
	must(t, now.Close()) // the clients of the list are idle, or gone
	must(t, servers[0].RestartEmpty())
	joining, cancel := context.WithTimeout(ctx, 2*maxTTL)
	defer cancel()
	locktest.WantError(t, "Join by the old list", old.Cluster().Join(joining), redlock.ErrMisconfigured)
	locktest.WantError(t, "Admit by the old list", old.Cluster().Admit(ctx), redlock.ErrMisconfigured)
	_, err := old.TryAcquire(ctx, "orders/42")
	locktest.WantError(t, "the old list", err, redlock.ErrMisconfigured)
	locktest.WantText(t, "the old list", locktest.ErrorText(err), id, "is not here", "redlock nodes admit")
	now = open(3, redlock.WithCluster(id))
	must(t, now.Cluster().Join(ctx))
	locktest.WantVotes(t, "by the list, pinned", now, 3)
	lock, err := now.TryAcquire(ctx, "orders/42")
	must(t, err)
	must(t, lock.Release(ctx))
	_, err = open(3, redlock.WithCluster("another")).TryAcquire(ctx, "orders/42")
	locktest.WantError(t, "pinned to another cluster", err, redlock.ErrMisconfigured)

	// The control: without the pin it founds one, and only the list in force can tell.
	must(t, now.Close())
	must(t, servers[0].RestartEmpty())
	old = open(1)
	must(t, old.Cluster().Join(ctx))
	if got := locktest.Status(t, old).ID; got == id || got == "" {
		t.Errorf("without a pin: got cluster %q; want another one", got)
	}
}

// Of a cluster that grew from one node to three, the first restarts empty. To a client with the
// list of that one it looks like a new cluster; but a client of the list is there, and claims it.
func TestAnOldListFoundsNothingBesideClientsThatTheClusterServes(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	servers, open, id := grown(t, 3, maxTTL)
	now := open(3)
	lock, err := now.Acquire(t.Context(), "orders/42")
	must(t, err)
	for range 2 { // the second time it has a claim to come after
		must(t, servers[0].RestartEmpty())
		joining, cancel := context.WithTimeout(t.Context(), 3*maxTTL)
		old := open(1)
		err = old.Cluster().Join(joining)
		cancel()
		locktest.WantError(t, "Join by the old list", err, redlock.ErrMisconfigured)
		cronJobs(t, "the old list", func() *redlock.Locker { return open(1) }, redlock.ErrMisconfigured)
		must(t, now.Cluster().Join(t.Context()))
		locktest.WantVotes(t, "by the list", now, 3)
		must(t, lock.Err())
	}
	if got := locktest.Status(t, now).ID; got != id {
		t.Errorf("got cluster %q; want %q still", got, id)
	}
	must(t, lock.Release(t.Context()))
}

// All clients of the list are gone when the first node restarts empty, and one with an old list
// founds a cluster of it. The list's next client ends that, and locks once its leases are over.
func TestWhatAnOldListFoundedIsSeizedByClientsThatTheClusterServes(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	servers, open, id := grown(t, 3, maxTTL)
	must(t, servers[0].RestartEmpty())
	old := open(1)
	must(t, old.Cluster().Join(t.Context()))
	held, err := old.Acquire(t.Context(), "orders/42")
	must(t, err)
	cronJobs(t, "the list", func() *redlock.Locker { return open(3) }, redlock.ErrNoQuorum)
	now := open(3)
	lock, err := now.Acquire(t.Context(), "orders/42")
	must(t, err)
	select {
	case <-held.Done():
	default:
		t.Errorf("two hold it: %v and %v", held.Token(), lock.Token())
	}
	must(t, lock.Release(t.Context()))
	must(t, now.Cluster().Join(t.Context()))
	locktest.WantVotes(t, "by the list", now, 3)
	if got := locktest.Status(t, now).ID; got != id {
		t.Errorf("got cluster %q; want %q still", got, id)
	}
	_, err = old.TryAcquire(t.Context(), "orders/42")
	locktest.WantError(t, "the old list", err, redlock.ErrMisconfigured)
}

// Two nodes have no quorum where an old list has founded a cluster of one: an operator's word ends it.
func TestAdmitSeizesWhatAnOldListFoundedWithoutAQuorum(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	servers, open, _ := grown(t, 2, maxTTL)
	must(t, servers[0].RestartEmpty())
	old := open(1)
	must(t, old.Cluster().Join(t.Context()))
	now := open(2)
	_, err := now.TryAcquire(t.Context(), "orders/42")
	locktest.WantError(t, "the list", err, redlock.ErrNoQuorum)
	must(t, now.Cluster().Admit(t.Context()))
	locktest.MustRelease(t, locktest.MustAcquire(t, now, "orders/42"))
	locktest.WantVotes(t, "by the list", now, 2)
	_, err = old.TryAcquire(t.Context(), "orders/42")
	locktest.WantError(t, "the old list", err, redlock.ErrMisconfigured)
}

// cronJobs are processes that each try once, and are refused.
func cronJobs(t *testing.T, who string, open func() *redlock.Locker, want error) {
	t.Helper()
	for range 5 {
		_, err := open().TryAcquire(t.Context(), "orders/42")
		locktest.WantError(t, who, err, want)
	}
}

// grown is a cluster that grew from one server to n, one at a time, and how its clients are made
// whose list is the first of them.
func grown(t *testing.T, n int, maxTTL time.Duration) (servers []*redisserver.Server, open func(n int, more ...redlock.Option) *redlock.Locker, id string) {
	t.Helper()
	servers = testserver.Need(t, n, redisserver.Config{})
	open = func(n int, more ...redlock.Option) *redlock.Locker {
		return locktest.OpenWithout(t, servers[:n], nil, append(more, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))...)
	}
	must(t, open(1).Cluster().Admit(t.Context()))
	for i := 1; i < n; i++ {
		l := open(i + 1)
		must(t, l.Cluster().Change(t.Context(), redlock.Wanted{Add: []string{servers[i].Addr()}}, redlock.ChangeOptions{}))
		id = locktest.Status(t, l).ID
	}
	return servers, open, id
}

// A client that was given all addresses, before the servers are of the list, holds its lock while one
// server grows to three and the first is taken out. Another waits for it all the time.
func TestALockOutlivesEveryNodeThatItWasTakenOn(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Second
	servers := testserver.Need(t, 3, redisserver.Config{})
	open := func(n int) *redlock.Locker {
		return locktest.OpenWithout(t, servers[:n], nil, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))
	}
	ctx := t.Context()
	must(t, open(1).Cluster().Admit(ctx))
	held, err := open(3).Acquire(ctx, "orders/42")
	must(t, err)
	next := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := open(3).Acquire(ctx, "orders/42")
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
		next <- lock
	}()
	for _, w := range []redlock.Wanted{
		{Add: []string{servers[1].Addr()}}, {Add: []string{servers[2].Addr()}}, {Remove: []string{servers[0].Addr()}},
	} {
		must(t, open(3).Cluster().Change(ctx, w, redlock.ChangeOptions{}), held.Err())
	}
	must(t, servers[0].Kill())
	if _, err := open(3).TryAcquire(ctx, "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("by the last list: got %v; want it taken", err)
	}
	pollUntil(t, maxTTL/2, "its holder looked at the nodes again", func() bool { return held.Extend(ctx, maxTTL) == nil })
	must(t, held.Release(ctx))
	released := time.Now()
	if lock := <-next; lock == nil || lock.Token() <= held.Token() || time.Since(released) > time.Second {
		t.Errorf("the waiter got %v after %v; want the lock at once, by a greater token", lock, time.Since(released))
	} else {
		must(t, lock.Release(ctx))
	}
}
