package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// What each script refuses, one case after another: another epoch, another's key, what was
// released before, who waits. In a line of commands _ is a space inside of a word, and
// {1000} the node's time in a second.

// The k-th command of some nodes fails, for every k: afterwards the error must be of the right
// class, nobody else holds the lock, tokens increase, and no key is left behind.

// sweptSet are nodes that fail together, of so many.
type sweptSet struct {
	nodes  int
	faulty []int
}

var sweptSets = []sweptSet{
	{3, []int{0}},
	{3, []int{1}},
	{3, []int{2}},
	{3, []int{0, 1}},
	{3, []int{1, 2}},
	{3, []int{0, 1, 2}},
	{5, []int{4}},
	{5, []int{1, 3}},
	{5, []int{0, 2, 4}},
}

// swept is one run: two Lockers, of which the first meets the fault.
type swept struct {
	*testing.T
	nodes    *redlocktest.Cluster
	l, other *redlock.Locker
	minority bool
	mu       sync.Mutex // guards the fields below
	calls    map[int]int
	fired    bool
}

// sweep runs the scenario with the k-th command of the faulty nodes failing, for
// k from 1 until no faulty node is sent that many. Below the deep tier it is each third
// command, from another one for each set; of the quick tier each 24th, for some of the sets.
func sweep(t *testing.T, sets []sweptSet, scenario func(s *swept, arm func())) {
	t.Helper()
	step := testkit.Every(24, 3, 1)
	for i, set := range sets {
		if testkit.Quick() && i%8 != 0 {
			continue
		}
		for fate, verdict := range locktest.SweptFates {
			for k := 1 + 7*i%step; ; k += step {
				if k > 60 {
					t.Fatalf("%v %s: still failing commands at the 60th; want an end", set, fate)
				}
				fired := false
				name := fmt.Sprintf("%d nodes, %v %s at command %d", set.nodes, set.faulty, fate, k)
				synctest.Test(t, func(t *testing.T) {
					s := &swept{T: t, calls: map[int]int{}, minority: len(set.faulty) <= (set.nodes-1)/2}
					// Without membership, which has proofs of its own: a founding for each
					// of some thousand runs takes minutes.
					s.nodes = redlocktest.Start(t, set.nodes, redlocktest.WithoutFounding())
					s.l = locktest.SeparateLocker(t, s.nodes, redlock.WithoutMembership())
					s.other = locktest.SeparateLocker(t, s.nodes, redlock.WithoutMembership())
					locktest.Warm(t, s.other)
					scenario(s, func() { s.arm(set.faulty, k, verdict) })
					fired = s.fired
					if t.Failed() {
						t.Logf("this was: %s", name)
					}
				})
				if !fired || t.Failed() {
					break
				}
			}
		}
	}
}

func (s *swept) arm(faulty []int, k int, verdict redlocktest.Verdict) {
	synctest.Wait()
	for _, i := range faulty {
		s.nodes.Node(i).Intercept(func([]string) redlocktest.Verdict {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.calls[i]++; s.calls[i] != k {
				return redlocktest.Pass()
			}
			s.fired = true
			return verdict
		})
	}
}

// disarm ends the fault once nothing is under way.
func (s *swept) disarm() {
	synctest.Wait()
	for _, n := range s.nodes.Nodes() {
		n.Intercept(nil)
	}
}

// acquire takes the lock through the fault, in less time than anybody's lease.
func (s *swept) acquire(resource string) *redlock.Lock {
	s.Helper()
	began := time.Now()
	lock := locktest.MustAcquire(s.T, s.l, resource)
	if took := time.Since(began); took > 3*time.Second {
		s.Errorf("Acquire(%q) took %v; want no wait for our own litter", resource, took)
	}
	return lock
}

// excluded checks that nobody else can take the name.
func (s *swept) excluded(resource string) {
	s.Helper()
	if second, err := s.other.TryAcquire(s.Context(), resource); err == nil {
		s.Errorf("a second holder, token %v, while the first one holds %q", second.Token(), resource)
	}
}

// finish releases the lock, and checks what comes after.
func (s *swept) finish(lock *redlock.Lock) {
	s.Helper()
	locktest.MustRelease(s.T, lock)
	s.succeeded(lock.Token())
}

// succeeded checks that the others go on with greater tokens and that no key is left.
func (s *swept) succeeded(token redlock.Token) {
	s.Helper()
	time.Sleep(time.Second)
	locktest.WantNoLocks(s.T, s.nodes, "a second after the release")
	next := locktest.MustAcquire(s.T, s.other, "orders/42")
	if next.Token() <= token {
		s.Errorf("got token %v after %v; want a greater one", next.Token(), token)
	}
	locktest.MustRelease(s.T, next)
	last := locktest.MustAcquire(s.T, s.l, "orders/42")
	if last.Token() <= next.Token() {
		s.Errorf("got token %v after %v; want a greater one", last.Token(), next.Token())
	}
	locktest.MustRelease(s.T, last)
	time.Sleep(2 * redlock.DefaultTTL) // the longest lease here
	locktest.WantOnlyRecords(s.T, s.nodes, "a lease after the release")
}

// A fresh Locker also loads scripts and verifies: many commands, so fewer sets.
func TestSweepAcquireOfAFreshLocker(t *testing.T) {
	locktest.BesideServers(t)
	sweep(t, []sweptSet{{3, []int{0}}, {3, []int{1, 2}}, {5, []int{0, 2, 4}}}, func(s *swept, arm func()) {
		arm()
		lock := s.acquire("orders/42")
		s.disarm()
		s.excluded("orders/42")
		s.finish(lock)
	})
}

func TestSweepTryAcquire(t *testing.T) {
	locktest.BesideServers(t)
	sweep(t, sweptSets, func(s *swept, arm func()) {
		locktest.Warm(s.T, s.l)
		arm()
		lock, err := s.l.TryAcquire(s.Context(), "orders/42")
		s.disarm()
		if err == nil {
			s.excluded("orders/42")
			s.finish(lock)
			return
		}
		if s.minority {
			s.Errorf("TryAcquire with a minority failing: %v", err)
		}
		locktest.WantError(s.T, "TryAcquire", err, redlock.ErrNoQuorum)
		if errors.Is(err, redlock.ErrNotAcquired) {
			s.Errorf("TryAcquire: got %v; want no word of contention", err)
		}
		s.succeeded(0)
	})
}

func TestSweepRaise(t *testing.T) {
	locktest.BesideServers(t)
	sweep(t, sweptSets, func(s *swept, arm func()) {
		locktest.Warm(s.T, s.l)
		synctest.Wait()
		stripe := strconv.FormatInt(lua.StripeOf("orders/42"), 10)
		for i, n := range s.nodes.Nodes() {
			n.Miniredis().HSet(lua.NodeKey, stripe, strconv.Itoa(2e15+i*1000))
		}
		arm()
		lock := s.acquire("orders/42")
		s.disarm()
		if lock.Token() < 2e15 {
			s.Errorf("got token %v; want one above the stripes", lock.Token())
		}
		s.excluded("orders/42")
		s.finish(lock)
	})
}

func TestSweepExtend(t *testing.T) {
	locktest.BesideServers(t)
	sweep(t, sweptSets, func(s *swept, arm func()) {
		locktest.Warm(s.T, s.l)
		lock := locktest.MustAcquire(s.T, s.l, "orders/42", redlock.WithFixedLease())
		arm()
		before := lock.Remaining()
		err := lock.Extend(s.Context(), 2*redlock.DefaultTTL)
		s.disarm()
		switch {
		case err == nil:
			if left := lock.Remaining(); left < redlock.DefaultTTL {
				s.Errorf("after Extend: got %v remaining; want more than a TTL", left)
			}
		case s.minority:
			s.Errorf("Extend with a minority failing: %v", err)
		default:
			locktest.WantError(s.T, "Extend", err, redlock.ErrNoQuorum)
			if left := lock.Remaining(); left <= 0 || left > before {
				s.Errorf("after a failed Extend: got %v remaining; want the old validity of %v", left, before)
			}
		}
		s.excluded("orders/42")
		testkit.Must(s.T, lock.Extend(s.Context(), 2*redlock.DefaultTTL))
		s.finish(lock)
	})
}

func TestSweepRelease(t *testing.T) {
	locktest.BesideServers(t)
	sweep(t, sweptSets, func(s *swept, arm func()) {
		locktest.Warm(s.T, s.l)
		lock := locktest.MustAcquire(s.T, s.l, "orders/42")
		arm()
		err := lock.Release(s.Context())
		s.disarm()
		if err != nil {
			locktest.WantError(s.T, "Release", err, redlock.ErrNoQuorum)
			if s.minority {
				s.Errorf("Release with a minority failing: %v", err)
			}
		}
		locktest.WantError(s.T, "Err after Release", lock.Err(), redlock.ErrReleased)
		s.succeeded(lock.Token())
	})
}

// Several names at once go in batches, which have scripts of their own.
func TestSweepBatches(t *testing.T) {
	locktest.BesideServers(t)
	sweep(t, []sweptSet{{3, []int{2}}, {3, []int{0, 1}}}, func(s *swept, arm func()) {
		locktest.Warm(s.T, s.l)
		arm()
		var wg sync.WaitGroup
		locks := make([]*redlock.Lock, 4)
		for i := range locks {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(s.Context(), 3*time.Second)
				defer cancel()
				var err error
				if locks[i], err = s.l.Acquire(ctx, fmt.Sprintf("orders/%d", 40+i)); err != nil {
					s.Errorf("Acquire of name %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if s.Failed() {
			return
		}
		for _, lock := range locks {
			s.excluded(lock.Resource())
		}
		for _, lock := range locks {
			wg.Go(func() {
				if err := lock.Release(s.Context()); err != nil && (s.minority || !errors.Is(err, redlock.ErrNoQuorum)) {
					s.Errorf("Release of %q: %v", lock.Resource(), err)
				}
			})
		}
		wg.Wait()
		s.disarm()
		s.succeeded(locks[2].Token())
	})
}
