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
	"github.com/quorumkit/redlock/internal/dispatch"
	"github.com/quorumkit/redlock/redlocktest"
)

// kinds are the kinds of the events about locks, in order.
func (e *events) kinds() []redlock.EventKind {
	var out []redlock.EventKind
	for _, ev := range e.All() {
		if ev.Node < 0 {
			out = append(out, ev.Kind)
		}
	}
	return out
}

// forget drops what was collected so far.
func (e *events) forget() {
	e.Forget()
}

func TestAHoldIsToldFromItsBeginningToItsEnd(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, _ := newLocker(t, 5, told.option())
		warm(t, l)
		synctest.Wait()
		told.forget()
		ctx := context.WithValue(t.Context(), key{}, "a trace")
		lock, err := l.Acquire(ctx, "orders/42")
		must(t, err)
		time.Sleep(4 * time.Second) // one renewal
		must(t, lock.Extend(t.Context(), 20*time.Second))
		time.Sleep(time.Second)
		mustRelease(t, lock)
		synctest.Wait()
		want := []redlock.EventKind{
			redlock.EventLockAcquired, redlock.EventLockExtended, redlock.EventLockExtended, redlock.EventLockReleased, redlock.EventReleaseConfirmed,
		}
		if got := told.kinds(); !slices.Equal(got, want) {
			t.Fatalf("got %v; want %v", got, want)
		}
		for _, e := range told.All() {
			if e.Resource != "orders/42" || e.Token != lock.Token() || e.Context.Value(key{}) != "a trace" || e.Time.IsZero() {
				t.Errorf("%v: got %+v; want the resource, the token, the context's values and the time", e.Kind, e)
			}
		}
		e := told.All()
		if e[0].Attempts != 1 || e[0].Rounds != 1 || e[0].Turn != redlock.TurnFirst || e[0].Validity < 9*time.Second {
			t.Errorf("got %+v; want one attempt of one round trip, and its validity", e[0])
		}
		if !e[1].Renewal || e[2].Renewal || e[2].Validity < 19*time.Second {
			t.Errorf("got %+v and %+v; want a renewal, and a call with its validity", e[1], e[2])
		}
		if r := e[3]; r.Reason != redlock.ReasonReleased || r.Err != nil || r.Held.Round(time.Second) != 5*time.Second || r.Validity.Round(time.Second) != 19*time.Second {
			t.Errorf("got %+v; want a hold of 5s, of which 19s were left", r)
		}
	})
}

func TestEveryEndOfAHoldHasItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, nodes := newLocker(t, 3, told.option())
		warm(t, l)
		mustAcquire(t, l, "lapsed", redlock.WithFixedLease())
		mustAcquire(t, l, "max_hold", redlock.WithMaxHold(time.Second))
		mustAcquire(t, l, "closed")
		mustRelease(t, mustAcquire(t, l, "released"))
		mustAcquire(t, l, "gone")
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("gone")
		}
		time.Sleep(redlock.DefaultTTL)
		must(t, l.Close())
		ends := append(told.of(redlock.EventLockReleased), told.of(redlock.EventLockLost)...)
		seen := 0
		for _, e := range ends {
			if e.Resource == "warm" {
				continue
			}
			seen++
			lost := e.Resource == "lapsed" || e.Resource == "gone"
			if e.Reason.String() != e.Resource || (e.Kind == redlock.EventLockLost) != lost || errors.Is(e.Err, redlock.ErrLost) != lost {
				t.Errorf("%s: got %+v; want that reason, and a loss with its error where it is one", e.Resource, e)
			}
		}
		if seen != 5 {
			t.Errorf("got %d ends of holds; want 5: %+v", seen, ends)
		}
		s := l.Stats()
		if s.Held != 0 || s.Lost != 2 || s.Lapsed != 1 || s.Gone != 1 || s.MaxHeld != 1 {
			t.Errorf("got %+v; want 0 held, one lapsed, one gone, one held for its maximum", s)
		}
	})
}

func TestACallThatBringsNoLockHasItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, nodes := newLocker(t, 3, told.option())
		other := lockerOver(t, nodes)
		warm(t, l)
		lock := mustAcquire(t, other, "taken")
		synctest.Wait()
		told.forget()
		try := func(resource string, want redlock.Reason) {
			t.Helper()
			_, err := l.TryAcquire(t.Context(), resource)
			synctest.Wait()
			got := told.of(redlock.EventAcquireFailed)
			if err == nil || len(got) != 1 || got[0].Reason != want || !errors.Is(err, got[0].Err) || got[0].Resource != resource {
				t.Errorf("%s: got %v and %+v; want one event with the error, of reason %v", resource, err, got, want)
			}
			told.forget()
		}
		try("taken", redlock.ReasonNotAcquired)
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		try("orders/42", redlock.ReasonNoQuorum)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.Acquire(ctx, "orders/42")
		wantError(t, "Acquire", err, context.Canceled)
		synctest.Wait()
		if got := told.of(redlock.EventAcquireFailed); len(got) != 1 || got[0].Reason != redlock.ReasonCancelled {
			t.Errorf("got %+v; want one event of reason cancelled", got)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
		mustRelease(t, lock)
		if s := l.Stats(); s.NotAcquired != 1 || s.NoQuorum != 1 || s.Cancelled != 1 || s.Acquiring != 0 {
			t.Errorf("got %+v; want one failure of each kind, and nothing under way", s)
		}
		_, err = l.Acquire(t.Context(), "")
		wantError(t, "Acquire", err, redlock.ErrInvalidResource)
		if s := l.Stats(); s.Acquiring != 0 || s.Cancelled != 1 {
			t.Errorf("after a faulty call: got %+v; want it in no counter", s)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a nil ctx: got no panic")
				}
			}()
			_, _ = l.TryAcquire(nil, "orders/42") //nolint:staticcheck // that is what is tried
		}()
		if s := l.Stats(); s.Acquiring != 0 {
			t.Errorf("after a call that panicked: got %+v; want it in no counter", s)
		}
	})
}

// An observer that never returns is the worst that there is: nodes come and go,
// and what it is not told must not pile up.
func TestAnObserverThatHangsLetsNoLockLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 10
		hung := make(chan struct{})
		stuck := func(redlock.Event) { <-hung }
		l, nodes := newLocker(t, 3, redlock.WithObserver(stuck))
		warm(t, l)
		var held []*redlock.Lock
		for i := range locks {
			held = append(held, mustAcquire(t, l, fmt.Sprintf("orders/%d", i)))
		}
		for i := range 12 { // 36 seconds, three leases
			n := nodes.Node(i % 3)
			n.Stop()
			time.Sleep(time.Second)
			n.Start()
			time.Sleep(2 * time.Second)
		}
		for _, lock := range held {
			if err := lock.Err(); err != nil {
				t.Fatalf("%s: %v; want it held, no matter what the observer does", lock.Resource(), err)
			}
		}
		s := l.Stats()
		if s.Held != locks || s.Extended < 9*locks {
			t.Errorf("got %d held and %d extended; want %d and at least %d", s.Held, s.Extended, locks, 9*locks)
		}
		close(hung)
	})
}

func TestALossIsToldThoughAcquisitionsFloodTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		hung := make(chan struct{})
		var once sync.Once
		l, _ := newLocker(t, 1, redlock.WithObserver(func(redlock.Event) { once.Do(func() { <-hung }) }), told.option())
		for range 2 * dispatch.Bound {
			redlock.Tell(l, redlock.Event{Kind: redlock.EventLockAcquired, Node: -1})
		}
		redlock.Tell(l, redlock.Event{Kind: redlock.EventLockLost, Node: -1, Reason: redlock.ReasonGone})
		close(hung)
		synctest.Wait()
		if got := len(told.of(redlock.EventLockLost)); got != 1 {
			t.Errorf("got %d losses; want the one", got)
		}
		if got, told := l.Stats().EventsDropped, len(told.of(redlock.EventLockAcquired)); got == 0 || got+uint64(told) != 2*dispatch.Bound {
			t.Errorf("got %d dropped and %d told; want %d together", got, told, 2*dispatch.Bound)
		}
	})
}

// The sums hold in every snapshot, and in the end the counters are what the
// observer counted, no matter what the nodes did.
func TestStatsAgreeWithThemselvesAndWithTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, nodes := newLocker(t, 3, told.option(), redlock.WithTTL(2*time.Second))
		other := lockerOver(t, nodes, redlock.WithTTL(2*time.Second))
		warm(t, l)
		over, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		var wg sync.WaitGroup
		var acquired, failed atomic.Uint64
		for g := range 8 {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			wg.Go(func() {
				for over.Err() == nil {
					from := []*redlock.Locker{l, other}[g%2]
					ctx, cancel := context.WithTimeout(over, time.Duration(rng.IntN(1500))*time.Millisecond)
					lock, err := from.Acquire(ctx, fmt.Sprint("orders/", rng.IntN(3)))
					cancel()
					if from == l && err == nil {
						acquired.Add(1)
					} else if from == l {
						failed.Add(1)
					}
					if err == nil {
						time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
						_ = lock.Release(t.Context())
					}
				}
			})
		}
		wg.Go(func() {
			for i := 0; over.Err() == nil; i++ {
				time.Sleep(500 * time.Millisecond)
				nodes.Node(i % 3).Hang()
				time.Sleep(500 * time.Millisecond)
				nodes.Node(i % 3).Resume()
			}
		})
		wg.Go(func() {
			for over.Err() == nil {
				agree(t, l.Stats())
				time.Sleep(7 * time.Millisecond)
			}
		})
		wg.Wait()
		must(t, l.Close())
		s := l.Stats()
		agree(t, s)
		if s.Acquired != acquired.Load()+2 || s.NotAcquired+s.NoQuorum+s.Cancelled+s.Misconfigured != failed.Load() { // two of warm
			t.Errorf("got %+v; want %d acquired and %d failed", s, acquired.Load()+2, failed.Load())
		}
		for k, got := range map[redlock.EventKind]uint64{
			redlock.EventLockAcquired: s.Acquired, redlock.EventAttemptFailed: s.Rollbacks, redlock.EventLockExtended: s.Extended, redlock.EventExtendFailed: s.ExtendFailed,
			redlock.EventLockReleased: s.Released, redlock.EventLockLost: s.Lost, redlock.EventReleaseConfirmed: s.Confirmed, redlock.EventReleaseUnconfirmed: s.Unconfirmed,
		} {
			if want := uint64(len(told.of(k))); got != want {
				t.Errorf("%v: got %d counted; want %d, as many as were told", k, got, want)
			}
		}
		if s.Rollbacks == 0 || s.Held != 0 || s.Acquiring != 0 {
			t.Errorf("got %+v; want rollbacks, and nothing left", s)
		}
		for _, n := range s.Nodes {
			votes := n.Granted + n.Taken + n.Abstained + n.Unknown + n.Failed + n.Late
			if votes != s.Acquired+s.Rollbacks || n.Calls == 0 || n.Time == 0 {
				t.Errorf("%s: got %+v; want a vote for each of %d attempts, and calls", n.Name, n, s.Acquired+s.Rollbacks)
			}
		}
	})
}

// agree checks what must hold in every snapshot.
func agree(t *testing.T, s redlock.Stats) {
	t.Helper()
	if s.Held < 0 || s.Acquiring < 0 || s.Acquired != uint64(s.Held)+s.Released+s.Lost || s.Lost != s.Lapsed+s.Gone+s.ClockStepped {
		t.Errorf("got %+v; want what was acquired held, released or lost", s)
	}
}

func TestStatsTellWhichNodesAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		synctest.Wait()
		nodes.Node(1).Stop()
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		mustRelease(t, lock)
		synctest.Wait()
		for i, n := range l.Stats().Nodes {
			if n.Down != (i == 1) || (n.Errors > 0) != (i == 1) || n.Name != nodes.Names()[i] {
				t.Errorf("node %d: got %+v; want node 1 alone down, with errors", i, n)
			}
		}
		nodes.Node(1).Start()
		time.Sleep(time.Second)
		lock = mustAcquire(t, l, "orders/42")
		synctest.Wait()
		mustRelease(t, lock)
		if l.Stats().Nodes[1].Down {
			t.Error("after its return: got node 1 down; want it up")
		}
	})
}

func TestAHandOverIsToldAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, nodes := newLocker(t, 3, told.option())
		other := lockerOver(t, nodes)
		warm(t, l)
		first := mustAcquire(t, l, "orders/42")
		var wg sync.WaitGroup
		wg.Go(func() { mustRelease(t, mustAcquire(t, l, "orders/42")) })
		time.Sleep(time.Second)
		mustRelease(t, first)
		wg.Wait()
		synctest.Wait()
		got := told.of(redlock.EventLockAcquired)
		last := got[len(got)-1]
		if last.Turn != redlock.TurnHandedOver || last.Waited.Round(time.Second) != time.Second || last.Duration < last.Waited {
			t.Errorf("got %+v; want a lock that was handed over after a second", last)
		}
		lock := mustAcquire(t, other, "orders/43")
		synctest.Wait() // on all nodes
		wg.Go(func() { mustRelease(t, mustAcquire(t, l, "orders/43")) })
		time.Sleep(time.Second)
		mustRelease(t, lock)
		wg.Wait()
		synctest.Wait()
		got = told.of(redlock.EventLockAcquired)
		if last := got[len(got)-1]; last.Turn != redlock.TurnGranted || last.Attempts < 2 || last.Waited.Round(time.Second) != time.Second {
			t.Errorf("got %+v; want a lock that was granted after a second", last)
		}
	})
}

// eventKinds are all kinds of events.
func eventKinds() (kinds []redlock.EventKind) {
	for k := redlock.EventKind(1); k.String() != "invalid"; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

func TestKindsReasonsAndTurnsHaveWords(t *testing.T) {
	seen, kinds := map[string]bool{}, eventKinds()
	for _, k := range kinds {
		seen[k.String()] = true
	}
	for r := redlock.ReasonNotAcquired; r <= redlock.ReasonClockStepped; r++ {
		seen[r.String()] = true
	}
	if len(kinds) < 18 || len(seen) != len(kinds)+10 || seen[""] {
		t.Errorf("got %v; want a word for each", seen)
	}
	if got := redlock.EventKind(200).String() + redlock.Reason(200).String() + redlock.Turn(200).String(); strings.Count(got, "invalid") != 3 {
		t.Errorf("got %q for values that do not exist; want invalid", got)
	}
}

// What nobody observes is counted, and no more: no memory, for no kind.
func TestObservingCostsNoMemoryWhereNobodyObserves(t *testing.T) {
	nodes, err := redlocktest.Run(1)
	must(t, err)
	defer nodes.Close()
	l := lockerOver(t, nodes)
	lock := mustAcquire(t, l, "orders/42")
	_, err = l.TryAcquire(t.Context(), "orders/42")
	var failed error = &redlock.QuorumError{}
	for _, k := range eventKinds() {
		e := redlock.Event{Kind: k, Resource: "orders/42", Err: err, Context: t.Context(), Rounds: 2}
		if got := testing.AllocsPerRun(100, func() { redlock.Tell(l, e) }); got != 0 {
			t.Errorf("%v: got %v allocations; want none", e.Kind, got)
		}
	}
	if got := testing.AllocsPerRun(100, func() { _ = redlock.RefusalOf(failed); _ = redlock.EndingOf(redlock.ErrReleased) }); got != 0 {
		t.Errorf("the reasons: got %v allocations; want none", got)
	}
	mustRelease(t, lock)
}

func TestAnEntryIntoAHoldIsNoSecondLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, _ := newLocker(t, 3, told.option(), redlock.WithReentry())
		must(t, l.Do(t.Context(), "orders/42", func(ctx context.Context, _ *redlock.Lock) error {
			return l.Do(ctx, "orders/42", func(context.Context, *redlock.Lock) error {
				if s := l.Stats(); s.Held != 1 || s.Acquired != 1 || s.Reentered != 1 || s.Acquiring != 0 {
					t.Errorf("inside: got %+v; want one lock, entered once more", s)
				}
				return nil
			})
		}))
		synctest.Wait()
		want := []redlock.EventKind{redlock.EventLockAcquired, redlock.EventLockReentered, redlock.EventLockReleased, redlock.EventReleaseConfirmed}
		if got := told.kinds(); !slices.Equal(got, want) {
			t.Errorf("got %v; want %v", got, want)
		}
	})
}

func TestTheObservingPageHasEveryEvent(t *testing.T) {
	page := read(t, "docs/OBSERVING.md")
	for _, kind := range eventKinds() {
		if !strings.Contains(page, kind.String()) {
			t.Errorf("docs/OBSERVING.md has no row for %q; want one", kind)
		}
	}
}
