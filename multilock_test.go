package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

func mustAcquireAll(t *testing.T, l *redlock.Locker, names []string, opts ...redlock.AcquireOption) *redlock.MultiLock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := l.AcquireAll(ctx, names, opts...)
	if err != nil {
		t.Fatalf("AcquireAll(%q): %v", names, err)
	}
	return m
}

// gainedAll is one goroutine's acquisition of a set, on its way.
type gainedAll struct {
	locks *redlock.MultiLock
	err   error
	at    time.Time
}

// wantsAll acquires a set in a goroutine, and returns once it waits.
func wantsAll(t *testing.T, ctx context.Context, l *redlock.Locker, names []string, opts ...redlock.AcquireOption) <-chan gainedAll { //nolint:revive // t comes first in this package
	t.Helper()
	done := make(chan gainedAll, 1)
	go func() {
		m, err := l.AcquireAll(ctx, names, opts...)
		done <- gainedAll{m, err, time.Now()}
	}()
	synctest.Wait()
	return done
}

func gotAll(t *testing.T, from <-chan gainedAll) gainedAll {
	t.Helper()
	g := <-from
	if g.err != nil {
		t.Fatalf("AcquireAll: %v", g.err)
	}
	return g
}

// names are n names.
func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("orders/%02d", i)
	}
	return all
}

// lockedOn are the names that are locked on any node, and on how many.
func lockedOn(nodes *redlocktest.Cluster) map[string]int {
	locked := map[string]int{}
	for _, n := range nodes.Nodes() {
		for _, key := range n.Keys() {
			if !strings.HasPrefix(key, "redlock:") {
				locked[key]++
			}
		}
	}
	return locked
}

// wantLocked checks that these names are locked, and no others, once nothing is on its way.
func wantLocked(t *testing.T, nodes *redlocktest.Cluster, want ...string) {
	t.Helper()
	synctest.Wait()
	got := lockedOn(nodes)
	for _, name := range want {
		if got[name] <= len(nodes.Nodes())/2 {
			t.Errorf("%s is on %d nodes; want a quorum", name, got[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("locked: %v; want %q", got, want)
	}
}

// wantNothingLeft checks that nobody holds or waits for anything.
func wantNothingLeft(t *testing.T, nodes *redlocktest.Cluster) {
	t.Helper()
	wantLocked(t, nodes)
	if left := queueKeys(nodes); left != nil {
		t.Errorf("left in line: %v", left)
	}
}

func TestASetIsHeldByOneAndThenByTheNextWithGreaterTokens(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			other := separateLocker(t, nodes)
			set := []string{"c", "a", "b"}
			first := mustAcquireAll(t, l, set)
			if got := first.Resources(); !slices.Equal(got, set) {
				t.Errorf("Resources: got %q; want %q, in the caller's order", got, set)
			}
			wantLocked(t, nodes, set...)
			time.Sleep(time.Minute) // six leases: renewal keeps them
			if err := first.Err(); err != nil || first.Remaining() <= 0 {
				t.Fatalf("%d nodes: after a minute: %v, %v left", n, err, first.Remaining())
			}
			for _, name := range set {
				if _, err := other.TryAcquire(t.Context(), name); !errors.Is(err, redlock.ErrNotAcquired) {
					t.Errorf("%d nodes: TryAcquire(%s) while held: got %v; want ErrNotAcquired", n, name, err)
				}
			}
			next := wantsAll(t, t.Context(), other, []string{"b", "c", "a"})
			released := time.Now()
			must(t, first.Release(t.Context()))
			second := gotAll(t, next)
			if took := second.at.Sub(released); took != 0 {
				t.Errorf("%d nodes: the next had it %v after the release; want at once", n, took)
			}
			for _, name := range set {
				if second.locks.Token(name) <= first.Token(name) || first.Token(name) == 0 {
					t.Errorf("%s: got token %d after %d; want a greater one", name, second.locks.Token(name), first.Token(name))
				}
			}
			if second.locks.Token("d") != 0 {
				t.Error("a name that is not in the set has a token")
			}
			must(t, second.locks.Release(t.Context()))
			wantNothingLeft(t, nodes)
		})
	}
}

// roundTrips are what was sent to each node.
func roundTrips(l *redlock.Locker) (calls []uint64) {
	for _, n := range l.Stats().Nodes {
		calls = append(calls, n.Calls)
	}
	return calls
}

// A set that nobody is in the way of costs what one name does: one round trip to each
// node, with one script call and one reading of its clock. A plain lock sends what it did.
func TestAFreeSetCostsOneRoundTripANode(t *testing.T) {
	for _, tt := range []struct {
		script string
		take   func(t *testing.T, l *redlock.Locker) (release func(context.Context) error)
	}{
		{"acquire", func(t *testing.T, l *redlock.Locker) func(context.Context) error {
			t.Helper()
			return mustAcquire(t, l, "orders/42").Release
		}},
		{"acquire_batch", func(t *testing.T, l *redlock.Locker) func(context.Context) error {
			t.Helper()
			return mustAcquireAll(t, l, names(8)).Release
		}},
		{"acquire_batch", func(t *testing.T, l *redlock.Locker) func(context.Context) error {
			t.Helper()
			return mustAcquireAll(t, l, names(redlock.MaxSet)).Release
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			time.Sleep(time.Millisecond) // a look at the clock's origin counts as none
			for range 3 {
				lock := mustAcquire(t, l, "warm")
				synctest.Wait() // a node that has not been asked yet is not asked for what is released
				mustRelease(t, lock)
				synctest.Wait()
			}
			sent := make([][]string, 5)
			var mu sync.Mutex
			for i, n := range nodes.Nodes() {
				n.Intercept(func(args []string) redlocktest.Verdict {
					mu.Lock()
					defer mu.Unlock()
					what := scriptOf(args)
					if what == "" {
						what = args[0]
					}
					sent[i] = append(sent[i], what)
					return redlocktest.Pass()
				})
			}
			for range 20 { // a writer may be quick to wake
				before := roundTrips(l)
				release := tt.take(t, l)
				synctest.Wait()
				mu.Lock()
				for i, after := range roundTrips(l) {
					if want := []string{tt.script, "TIME"}; !slices.Equal(sent[i], want) || after-before[i] != 1 {
						t.Errorf("node %d was sent %q in %d round trips; want %q in one", i, sent[i], after-before[i], want)
					}
				}
				mu.Unlock()
				must(t, release(t.Context()))
				synctest.Wait()
				mu.Lock()
				clear(sent)
				mu.Unlock()
			}
		})
	}
}

func TestTryAcquireAllIsAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, other, "b")
		for _, taker := range []*redlock.Locker{l, other} { // from the nodes, and from its own line
			_, err := taker.TryAcquireAll(t.Context(), []string{"c", "b", "a"})
			if !errors.Is(err, redlock.ErrNotAcquired) || !strings.Contains(err.Error(), "acquire a set of 3: acquire b: ") {
				t.Errorf("got %v; want ErrNotAcquired of b", err)
			}
			wantLocked(t, nodes, "b")
		}
		mustRelease(t, lock)
		start := time.Now()
		m, err := l.TryAcquireAll(t.Context(), []string{"c", "b", "a"})
		must(t, err)
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v; want one round trip, which takes no time", took)
		}
		must(t, m.Release(t.Context()))
		if s := l.Stats(); s.Acquired != 3 || s.NotAcquired != 1 || s.Acquiring != 0 || s.Held != 0 {
			t.Errorf("got %+v; want three locks, and one call without", s)
		}
		wantNothingLeft(t, nodes)
	})
}

// TryAcquireAll tries again where nodes were seen not to vote that may do so by now, as
// TryAcquire does.
func TestTryAcquireAllLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes)
		if _, err := l.TryAcquireAll(t.Context(), names(3)); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Fatalf("on new nodes: got %v; want ErrNoQuorum", err)
		}
		admin := separateLocker(t, nodes)
		must(t, admin.Cluster().Admit(t.Context()))
		m, err := l.TryAcquireAll(t.Context(), names(3))
		if err != nil {
			t.Fatalf("after an Admit that this Locker has not seen: %v", err)
		}
		must(t, m.Release(t.Context()))
	})
}

func TestBadSetsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithPrefix("shop:"))
		synctest.Wait()
		calls := countScripts(nodes)
		set := []string{"a", "b"}
		for name, tt := range map[string]struct {
			names []string
			opts  []redlock.AcquireOption
			want  error
			says  string
		}{
			"none":         {nil, nil, redlock.ErrInvalidResource, "empty: give at least one"},
			"too many":     {names(redlock.MaxSet + 1), nil, redlock.ErrInvalidResource, "65 names: a set has at most 64"},
			"twice":        {[]string{"a", "b", "a"}, nil, redlock.ErrInvalidResource, "names 0 and 2 are both a"},
			"empty name":   {[]string{"a", ""}, nil, redlock.ErrInvalidResource, "name 1"},
			"long name":    {[]string{strings.Repeat("x", redlock.MaxResourceLength)}, nil, redlock.ErrInvalidResource, "name 0"},
			"fixed lease":  {set, []redlock.AcquireOption{redlock.WithFixedLease()}, redlock.ErrInvalidOption, "WithFixedLease"},
			"barging":      {set, []redlock.AcquireOption{redlock.WithBarging()}, redlock.ErrInvalidOption, "WithBarging"},
			"a bad TTL":    {set, []redlock.AcquireOption{redlock.WithTTL(time.Hour)}, redlock.ErrInvalidTTL, "MaxTTL"},
			"a nil option": {set, []redlock.AcquireOption{nil}, redlock.ErrInvalidOption, "nil"},
		} {
			for call, take := range map[string]func(context.Context, []string, ...redlock.AcquireOption) (*redlock.MultiLock, error){"AcquireAll": l.AcquireAll, "TryAcquireAll": l.TryAcquireAll} {
				m, err := take(t.Context(), tt.names, tt.opts...)
				if m != nil || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s, %s: got %v, %v; want %v that says %q", call, name, m, err, tt.want, tt.says)
				}
			}
		}
		if err := l.DoAll(t.Context(), set, nil); !errors.Is(err, redlock.ErrInvalidOption) {
			t.Errorf("DoAll without a function: got %v; want ErrInvalidOption", err)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.AcquireAll(done, set); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that is over: got %v; want Canceled", err)
		}
		if n := calls.Load(); n != 0 {
			t.Errorf("got %d script calls; want none", n)
		}
		must(t, l.Close())
		if _, err := l.AcquireAll(t.Context(), set); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("after Close: got %v; want ErrClosed", err)
		}
	})
}

// A node that is down costs a set what it costs one name.
func TestASetOverAMinorityOfDeadNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		synctest.Wait()
		nodes.Node(0).Stop()
		nodes.Node(3).Stop()
		m := mustAcquireAll(t, l, names(8))
		wantLocked(t, nodes, names(8)...)
		nodes.Node(4).Stop()
		select {
		case <-m.Done():
		case <-time.After(redlock.DefaultTTL + time.Second):
			t.Fatal("it goes on without a quorum")
		}
		start := time.Now()
		if _, err := l.TryAcquireAll(t.Context(), names(8)); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("without a quorum: got %v; want ErrNoQuorum", err)
		}
		if took := time.Since(start); took > 4*redlock.DefaultNodeTimeout {
			t.Errorf("it took %v; want a few node timeouts, for all names together", took)
		}
	})
}

// Half a set is not believed in: it ends with the first of its names.
func TestASetEndsWithTheFirstNameThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		m := mustAcquireAll(t, l, []string{"a", "b", "c"})
		remove(nodes, "b")
		select {
		case <-m.Done():
		case <-time.After(redlock.DefaultTTL):
			t.Fatal("it goes on after a lease")
		}
		if err := m.Err(); !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), "b in a set of 3") {
			t.Errorf("got %v; want ErrLost that names b", err)
		}
		if cause := context.Cause(m.Context()); !errors.Is(cause, redlock.ErrLost) || m.Remaining() != 0 {
			t.Errorf("got cause %v, %v left; want ErrLost and nothing", cause, m.Remaining())
		}
		if err := m.Release(t.Context()); !errors.Is(err, redlock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Release: got %v; want ErrNotHeld and ErrLost", err)
		}
		if err := m.Extend(t.Context(), redlock.DefaultTTL); !errors.Is(err, redlock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Extend: got %v; want ErrNotHeld and ErrLost", err)
		}
		wantNothingLeft(t, nodes)
		err := l.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context, _ *redlock.MultiLock) error {
			remove(nodes, "a")
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), redlock.ErrLost) {
				t.Errorf("DoAll's context: got %v; want ErrLost", context.Cause(ctx))
			}
			return nil
		})
		if !errors.Is(err, redlock.ErrLost) {
			t.Errorf("DoAll: got %v; want ErrLost", err)
		}
	})
}

func TestASetIsExtendedAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		m := mustAcquireAll(t, l, []string{"a", "b", "c"})
		synctest.Wait() // for the nodes that were not waited for
		before := roundTrips(l)
		must(t, m.Extend(t.Context(), 25*time.Second))
		synctest.Wait()
		for i, after := range roundTrips(l) {
			if after-before[i] != 1 {
				t.Errorf("node %d: got %d round trips; want one", i, after-before[i])
			}
		}
		if left := m.Remaining(); left < 24*time.Second || left > 25*time.Second {
			t.Errorf("%v remain; want some 25 s", left)
		}
		for ttl, want := range map[time.Duration]error{time.Second: redlock.ErrInvalidTTL, 0: redlock.ErrInvalidTTL, time.Hour: redlock.ErrInvalidTTL} {
			if err := m.Extend(t.Context(), ttl); !errors.Is(err, want) {
				t.Errorf("Extend(%v): got %v; want %v", ttl, err, want)
			}
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		sent := evals(nodes)
		err := m.Extend(done, 25*time.Second)
		synctest.Wait()
		if calls := evals(nodes) - sent; !errors.Is(err, context.Canceled) || calls != 0 {
			t.Errorf("under a context that is done: got %v and %d calls; want its error, and none", err, calls)
		}
		remove(nodes, "b")
		if err := m.Extend(t.Context(), 25*time.Second); !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), "extend b") {
			t.Errorf("without b: got %v; want ErrLost of b", err)
		}
		if err := m.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("then: got %v; want ErrLost", err)
		}
		wantNothingLeft(t, nodes)
	})
}

// The bound counts from when the set is complete: what it waited is not its holder's time.
func TestASetIsHeldForItsMaximumFromWhenItIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		b := mustAcquire(t, other, "b")
		set := wantsAll(t, t.Context(), l, []string{"a", "b"}, redlock.WithMaxHold(20*time.Second))
		time.Sleep(30 * time.Second)
		if s := l.Stats(); s.Held != 1 || s.Acquired != 1 {
			t.Errorf("while it waits: got %+v; want a, held without a break", s)
		}
		mustRelease(t, b)
		g := gotAll(t, set)
		<-g.locks.Done()
		if held := time.Since(g.at); held < 20*time.Second-time.Millisecond || // the call returned a moment after
			held > 21*time.Second || !errors.Is(g.locks.Err(), redlock.ErrMaxHold) {
			t.Errorf("it ended after %v with %v; want 20 s and ErrMaxHold", held, g.locks.Err())
		}
		wantNothingLeft(t, nodes)
	})
}

func TestCloseEndsSetsThatAreHeldOrWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		b := mustAcquire(t, other, "b")
		held := mustAcquireAll(t, l, []string{"x", "y", "z"})
		set := wantsAll(t, t.Context(), l, []string{"a", "b", "c"})
		must(t, l.Close())
		if g := <-set; !errors.Is(g.err, redlock.ErrClosed) {
			t.Errorf("the one that waits: got %v; want ErrClosed", g.err)
		}
		<-held.Done()
		if err := held.Err(); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("the one that is held: got %v; want ErrClosed", err)
		}
		wantLocked(t, nodes, "b")
		mustRelease(t, b)
		wantNothingLeft(t, nodes)
	})
}

// A name that the context carries a hold of is entered, and neither waited for nor given
// back; a name of the set can be entered in turn.
func TestASetEntersTheHoldsOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithReentry())
		other := separateLocker(t, nodes)
		outer := mustAcquire(t, l, "b")
		m, err := l.AcquireAll(outer.Context(), []string{"c", "b", "a"})
		must(t, err)
		if m.Token("b") != outer.Token() {
			t.Errorf("got token %d for b; want that of the hold, %d", m.Token("b"), outer.Token())
		}
		inner := reenter(t, l, m.Context(), "a")
		if inner.Token() != m.Token("a") {
			t.Errorf("got token %d inside the set; want %d", inner.Token(), m.Token("a"))
		}
		mustRelease(t, inner)
		must(t, m.Release(t.Context()))
		wantLocked(t, nodes, "b")

		c := mustAcquire(t, other, "c")
		if _, err := l.TryAcquireAll(outer.Context(), []string{"a", "b", "c"}); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("with c held: got %v; want ErrNotAcquired", err)
		}
		set := wantsAll(t, outer.Context(), l, []string{"a", "b", "c"})
		wantLocked(t, nodes, "a", "b", "c")
		mustRelease(t, c)
		g := gotAll(t, set)
		mustRelease(t, outer) // the set's handle is the last
		if err := g.locks.Err(); err != nil {
			t.Errorf("after the outer hold's release: %v; want the set to go on", err)
		}
		must(t, g.locks.Release(t.Context()))
		wantNothingLeft(t, nodes)

		outer = mustAcquire(t, l, "b")
		remove(nodes, "b")
		<-outer.Done()
		if _, err := l.AcquireAll(context.WithoutCancel(outer.Context()), []string{"a", "b"}); !errors.Is(err, redlock.ErrNotHeld) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("inside a hold that was lost: got %v; want ErrNotHeld and ErrLost", err)
		}
		if s := l.Stats(); s.Acquiring != 0 || s.Held != 0 {
			t.Errorf("got %+v; want nothing under way", s)
		}
		wantNothingLeft(t, nodes)
	})
}

// A hold that the set entered is lost while the set waits, wherever its name stands: what
// the set has taken by itself goes back.
func TestASetThatLosesAHoldThatItEnteredGivesAllBack(t *testing.T) {
	for _, entered := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3, redlock.WithReentry())
			other := separateLocker(t, nodes)
			d := mustAcquire(t, other, "d")
			outer := mustAcquire(t, l, entered)
			set := wantsAll(t, context.WithoutCancel(outer.Context()), l, []string{"a", "b", "c", "d"})
			wantLocked(t, nodes, "a", "b", "c", "d")
			remove(nodes, entered)
			if g := <-set; !errors.Is(g.err, redlock.ErrNotHeld) || !errors.Is(g.err, redlock.ErrLost) {
				t.Errorf("inside %s, which is lost: got %v; want ErrNotHeld and ErrLost", entered, g.err)
			}
			wantLocked(t, nodes, "d")
			if s := l.Stats(); s.Acquiring != 0 || s.Held != 0 {
				t.Errorf("inside %s, which is lost: got %+v; want nothing under way, and nothing held", entered, s)
			}
			mustRelease(t, d)
			wantNothingLeft(t, nodes)
		})
	}
}
