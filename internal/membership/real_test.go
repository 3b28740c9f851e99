package membership_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Membership on real servers without persistence. The times are short, and the
// nodes have a second to answer: the machine may be busy.

// busy locks and releases names of its own until the test ends.
func busy(t *testing.T, l *redlock.Locker) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if lock, err := l.Acquire(ctx, fmt.Sprintf("traffic/%d", i%8)); err == nil {
				_ = lock.Release(ctx) // its expiry does as well
			}
			locktest.Pause(20 * time.Millisecond)
		}
	})
}

func TestAServerRestartedEmptyVotesAgainWithinMaxTTLAndASecond(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 5, redisserver.Config{})
	l := locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	locktest.Admit(t, l)
	locktest.Warm(t, l)
	busy(t, l)
	held := locktest.MustAcquire(t, l, "orders/42")
	const tries = 5 // a machine that stood still for a second is forgiven four times
	for try := 1; ; try++ {
		testkit.Must(t, servers[2].RestartEmpty())
		back := time.Now()
		locktest.PollUntil(t, locktest.ShortMax+20*time.Second, "all five vote", func() bool { return locktest.Votes(t, l) == 5 })
		took := time.Since(back)
		if took < locktest.ShortMax-100*time.Millisecond { // the wait began when the process did, at the earliest
			t.Errorf("it voted after %v; want not before MaxTTL (%v)", took, locktest.ShortMax)
		}
		t.Logf("it voted again %v after its restart; MaxTTL is %v", took, locktest.ShortMax)
		if took <= locktest.ShortMax+time.Second {
			break
		}
		if try == tries {
			t.Fatalf("it voted again after %v; want at most MaxTTL plus a second", took)
		}
	}
	locktest.PollUntil(t, 10*time.Second, "the held lock is on it again", func() bool { return locktest.KeyOn(t, servers[2], "orders/42") != "" })
	testkit.Must(t, held.Err())
	locktest.MustRelease(t, held)
	locktest.PollUntil(t, 10*time.Second, "the lock is on no server", func() bool {
		return !slices.ContainsFunc(servers, func(s *redisserver.Server) bool { return locktest.KeyOn(t, s, "orders/42") != "" })
	})
}

func TestScriptFlushOnLiveConnectionsLosesNoVoteBeyondARound(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 5, redisserver.Config{})
	var seen locktest.Events
	l := locktest.OpenWithout(t, servers, nil, seen.Option())
	locktest.Admit(t, l)
	locktest.Warm(t, l)
	held := locktest.MustAcquire(t, l, "orders/1")
	told := len(seen.Of(redlock.EventNodeAbstains)) + len(seen.Of(redlock.EventClusterFounded))
	for range 3 {
		for _, s := range servers {
			testkit.Must(t, s.Client().ScriptFlush(t.Context()).Err())
		}
		if err := held.Extend(t.Context(), redlock.DefaultTTL); err != nil {
			t.Logf("the first round after SCRIPT FLUSH: %v", err)
		}
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		if err != nil {
			t.Fatalf("the round after the first: %v", err)
		}
		locktest.PollUntil(t, 5*time.Second, "all five have the lock", func() bool {
			return !slices.ContainsFunc(servers, func(s *redisserver.Server) bool { return locktest.KeyOn(t, s, "orders/42") == "" })
		})
		locktest.MustRelease(t, lock)
		testkit.Must(t, held.Extend(t.Context(), redlock.DefaultTTL))
	}
	if got := len(seen.Of(redlock.EventNodeAbstains)) + len(seen.Of(redlock.EventClusterFounded)); got != told {
		t.Errorf("got %d events of abstention or founding, of which %d before SCRIPT FLUSH; want no more: nothing was forgotten", got, told)
	}
	locktest.MustRelease(t, held)
}

func TestRacingFoundersOfRealServersAgree(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 5, redisserver.Config{})
	founders := make([]*redlock.Locker, 4)
	for i := range founders {
		founders[i] = locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	}
	began := time.Now()
	var wg sync.WaitGroup
	for _, l := range founders {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := l.Cluster().Join(ctx); err != nil {
				t.Errorf("Join: %v", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took < locktest.ShortMax {
		t.Errorf("the cluster stood after %v; want not before MaxTTL", took)
	}
	ids := map[string]bool{}
	for _, l := range founders {
		s, err := l.Cluster().Status(t.Context())
		testkit.Must(t, err)
		if s.Votes() != 5 {
			t.Errorf("got %d votes; want 5: %+v", s.Votes(), s.Nodes)
		}
		ids[s.ID] = true
	}
	if len(ids) != 1 || ids[""] {
		t.Errorf("got the clusters %v; want one", ids)
	}
	lock := locktest.MustAcquire(t, founders[0], "orders/42")
	_, err := founders[3].TryAcquire(t.Context(), "orders/42")
	locktest.WantError(t, "TryAcquire by another founder", err, redlock.ErrNotAcquired)
	locktest.MustRelease(t, lock)
}

func TestAServerThatDeniesINFOIsRefusedUnlessMembershipIsOff(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{Users: []string{"app on >secret ~* &* +@all -info"}})
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = "redis://app:secret@" + s.Addr()
	}
	for _, protected := range []bool{true, false} {
		opts := []redlock.Option{redlock.WithNodeTimeout(time.Second)}
		if !protected {
			opts = append(opts, redlock.WithoutMembership())
		}
		l, err := redlock.Open(t.Context(), urls, opts...)
		if err == nil {
			var lock *redlock.Lock
			if lock, err = l.Acquire(t.Context(), "orders/42"); err == nil {
				locktest.MustRelease(t, lock)
			}
			testkit.Must(t, l.Close())
		}
		if !protected {
			testkit.Must(t, err)
			continue
		}
		locktest.WantError(t, "without INFO", err, redlock.ErrMisconfigured)
		for _, want := range []string{"INFO", "+info", "WithoutMembership"} {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %q; want it to say %s", err, want)
			}
		}
	}
}

// Two lists that share one server of three: with membership the second finds no
// quorum that it may use, without it there are two holders.
func TestClientsWithDifferentListsNeverBothHold(t *testing.T) {
	t.Parallel()
	for _, protected := range []bool{true, false} {
		t.Run(fmt.Sprintf("protected %v", protected), func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 5, redisserver.Config{})
			opts := locktest.ShortLeases()
			if !protected {
				opts = append(opts, redlock.WithoutMembership())
			}
			ours := locktest.OpenWithout(t, servers[:3], nil, opts...)
			if protected {
				locktest.Admit(t, ours)
			}
			locktest.Warm(t, ours)
			lock := locktest.MustAcquire(t, ours, "orders/42")
			theirs := locktest.OpenWithout(t, servers[2:], nil, opts...)
			if !protected {
				locktest.PollUntil(t, 10*time.Second, "there is a second holder", func() bool {
					_, err := theirs.TryAcquire(t.Context(), "orders/42")
					return err == nil
				})
				testkit.Must(t, lock.Err())
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.ShortMax) // the wait of a new cluster, and more
			defer cancel()
			_, err := theirs.Acquire(ctx, "orders/42")
			locktest.WantError(t, "the other list", err, redlock.ErrNoQuorum)
			for _, want := range append(locktest.Addresses(servers[:3]), "one list") {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got %q; want it to say %q", err, want)
				}
			}
			if err := theirs.Cluster().Admit(t.Context()); err == nil {
				t.Error("Admit: got no error; want the rule on names, which no operator's word stands in for")
			}
			testkit.Must(t, lock.Err())
		})
	}
}

// referee notices two who hold at once.
type referee struct {
	holders, rounds, twice atomic.Int32
	last                   atomic.Uint64
	disorder               atomic.Int32
}

// plays takes the lock again and again, as a client, until ctx is done.
func (r *referee) plays(ctx context.Context, l *redlock.Locker) {
	for ctx.Err() == nil {
		err := l.Do(ctx, "orders/42", func(_ context.Context, lock *redlock.Lock) error {
			if r.holders.Add(1) > 1 && lock.Err() == nil {
				r.twice.Add(1)
			}
			if last := r.last.Swap(uint64(lock.Token())); last >= uint64(lock.Token()) {
				r.disorder.Add(1)
			}
			locktest.Pause(2 * time.Millisecond)
			if lock.Err() == nil {
				r.rounds.Add(1)
			}
			r.holders.Add(-1)
			return nil
		})
		if errors.Is(err, redlock.ErrMisconfigured) { // its list is old
			return
		}
	}
}

func TestReplacingAServerWhileClientsOfBothListsRun(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 6, redisserver.Config{})
	before, after := servers[:5], slices.Concat(servers[:4], servers[5:])
	operator := locktest.OpenWithout(t, before, nil, locktest.ShortLeases()...)
	locktest.Admit(t, operator)
	ctx, cancel := context.WithCancel(t.Context())
	var r referee
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	play := func(list []*redisserver.Server) {
		l := locktest.OpenWithout(t, list, nil, locktest.ShortLeases()...)
		wg.Go(func() { r.plays(ctx, l) })
	}
	play(before)
	play(before)

	// The wrong order: the new list first.
	early := locktest.OpenWithout(t, after, nil, locktest.ShortLeases()...)
	joinCtx, done := context.WithTimeout(ctx, locktest.ShortMax+time.Second)
	err := early.Cluster().Join(joinCtx)
	done()
	if err == nil || !strings.Contains(err.Error(), before[4].Addr()) {
		t.Errorf("joining first: got %v; want it refused, naming %s", err, before[4].Addr())
	}

	testkit.Must(t, before[4].Kill())
	all := locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	for range 2 { // the second to no effect
		testkit.Must(t, all.Cluster().Change(ctx, redlock.Wanted{Add: []string{servers[5].Addr()}}, redlock.ChangeOptions{EndStragglers: true}))
	}
	play(servers)
	for range 2 {
		testkit.Must(t, all.Cluster().Change(ctx, redlock.Wanted{Remove: []string{servers[4].Addr()}}, redlock.ChangeOptions{EndStragglers: true}))
	}
	play(after)
	play(after)
	locktest.PollUntil(t, locktest.ShortMax+30*time.Second, "the new server votes", func() bool { return locktest.Votes(t, early) == 5 })
	had := r.rounds.Load()
	locktest.PollUntil(t, 30*time.Second, "all go on", func() bool { return r.rounds.Load() >= had+50 })
	// A third list has no place in the cluster.
	third := locktest.OpenWithout(t, slices.Concat(servers[:4], testserver.Need(t, 1, redisserver.Config{})), nil, locktest.ShortLeases()...)
	if err := third.Cluster().Admit(ctx); err == nil {
		t.Error("a second server in the place of the first: got no error; want it refused")
	}
	cancel()
	wg.Wait()
	if r.twice.Load() > 0 || r.disorder.Load() > 0 {
		t.Errorf("%d rounds: got %d with two holders, %d tokens out of order; want none", r.rounds.Load(), r.twice.Load(), r.disorder.Load())
	}
	t.Logf("%d rounds", r.rounds.Load())
}

func TestAllServersRestartedEmptyRecoverAndTokensGrow(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	var seen locktest.Events
	l := locktest.OpenWithout(t, servers, nil, append(locktest.ShortLeases(), seen.Option())...)
	locktest.Admit(t, l)
	locktest.Warm(t, l)
	first := locktest.MustAcquire(t, l, "orders/42")
	founded := len(seen.Of(redlock.EventClusterFounded))
	for _, s := range servers {
		testkit.Must(t, s.RestartEmpty())
	}
	back := time.Now()
	fresh := locktest.OpenWithout(t, servers, nil, append(locktest.ShortLeases(), seen.Option())...)
	second := locktest.MustAcquire(t, fresh, "orders/42") // waits, and founds
	if took := time.Since(back); took < locktest.ShortMax {
		t.Errorf("got the lock after %v; want not before MaxTTL", took)
	}
	if !errors.Is(first.Err(), redlock.ErrLost) {
		t.Errorf("the first holder: got %v; want ErrLost", first.Err())
	}
	if second.Token() <= first.Token() {
		t.Errorf("got token %v after %v; want it greater", second.Token(), first.Token())
	}
	if len(seen.Of(redlock.EventClusterFounded)) <= founded {
		t.Error("got no event of a founding; want it told that tokens leaned on the clocks")
	}
	locktest.MustRelease(t, second)
}

// To replace a dead node, its successor is added first: by a client of a list that the nodes
// don't have yet. A list that no one change leads to is refused as before.
func TestOpenTakesTheNextListWhileANodeIsDown(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 5, redisserver.Config{})
	opts := append(locktest.ShortLeases(), redlock.WithNodeTimeout(time.Second))
	testkit.Must(t, locktest.OpenServers(t, servers[:3], opts...).Close())
	testkit.Must(t, servers[2].Kill())
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	l, err := redlock.Open(t.Context(), urls, opts...)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testkit.Must(t, l.Cluster().Change(ctx, redlock.Wanted{Add: []string{servers[3].Addr()}, Remove: []string{servers[2].Addr()}}, redlock.ChangeOptions{EndStragglers: true}))
	after, err := redlock.Open(ctx, []string{urls[0], urls[1], urls[3]}, opts...)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = after.Close() })
	testkit.Must(t, locktest.MustAcquire(t, after, "orders/42").Release(t.Context()))
}

// Two names of one server on this machine are one: else the first change would end the lock.
func TestAClientThatSaysLocalhostLivesThroughAChange(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 2, redisserver.Config{})
	open := func(addrs ...string) *redlock.Locker {
		l, err := redlock.Open(t.Context(), addrs, locktest.ShortLeases()...)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	_, port, err := net.SplitHostPort(servers[0].Addr())
	testkit.Must(t, err)
	local := open("localhost:" + port)
	locktest.Admit(t, local)
	lock := locktest.MustAcquire(t, local, "orders/42")
	operator := open(locktest.Addresses(servers)...)
	testkit.Must(t, operator.Cluster().Change(t.Context(), redlock.Wanted{Add: []string{servers[1].Addr()}}, redlock.ChangeOptions{}))
	testkit.Must(t, lock.Extend(t.Context(), locktest.ShortMax), lock.Err())
	locktest.MustRelease(t, lock)
}

// Two of the list's three nodes are down. Two servers that are of no list yet answer, and make no quorum.
func TestOpenCountsNoNodeOutsideTheList(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 5, redisserver.Config{})
	opts := append(locktest.ShortLeases(), redlock.WithNodeTimeout(time.Second))
	founder := locktest.OpenServers(t, servers[:3], opts...)
	testkit.Must(t, founder.Close(), servers[1].Kill(), servers[2].Kill())
	l, err := redlock.Open(t.Context(), locktest.Addresses(servers), opts...)
	locktest.WantError(t, "Open", err, redlock.ErrNoQuorum)
	if err == nil {
		_ = l.Close()
	}
}
