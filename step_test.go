package redlock_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// log keeps the events that a Locker tells.
type eventLog struct {
	mu     sync.Mutex // guards the field below
	events []redlock.Event
}

func (l *eventLog) observe(e redlock.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *eventLog) nodes(k redlock.EventKind) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var nodes []int
	for _, e := range l.events {
		if e.Kind == k && !slices.Contains(nodes, e.Node) {
			nodes = append(nodes, e.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// fakeClockLocker is a Locker over real servers whose clocks can be set.
func fakeClockLocker(t *testing.T, servers []*redisserver.Server, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	l, err := redlock.Open(t.Context(), urls, append([]redlock.Option{redlock.WithNodeTimeout(time.Second)}, opts...)...)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	admitted(t, l)
	return l
}

func setClocks(t *testing.T, servers []*redisserver.Server, offset string) {
	t.Helper()
	for _, s := range servers {
		if err := s.SetClock(offset); err != nil {
			t.Fatalf("SetClock(%q): %v", offset, err)
		}
	}
}

func TestALockOutlivesTheStepOfOneClockAndEndsWithThatOfAQuorum(t *testing.T) {
	t.Parallel()
	for _, offset := range []string{"+20", "-20"} {
		t.Run(offset, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
			var log eventLog
			l := fakeClockLocker(t, servers, redlock.WithTTL(5*time.Second), redlock.WithObserver(log.observe))
			lock := mustAcquire(t, l, "orders/42")

			setClocks(t, servers[:1], offset)
			eventually(t, 10*time.Second, func() bool { return slices.Equal(log.nodes(redlock.NodeClockStepped), []int{0}) })
			if err := lock.Err(); err != nil {
				t.Fatalf("after one clock stepped: got %v; want the lock held", err)
			}
			setClocks(t, servers[1:3], offset)
			select {
			case <-lock.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("three of five clocks stepped, and the lock did not end")
			}
			if err := lock.Err(); !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), "stepped") {
				t.Errorf("got cause %v; want ErrLost that names the step", err)
			}
			_, err := l.TryAcquire(t.Context(), "another")
			if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), "abstains") {
				t.Errorf("TryAcquire with three nodes in doubt: got %v; want ErrNoQuorum that says why", err)
			}
		})
	}
}

// A quorum of clocks that jump forward expire a lock that is held. The pair shows
// what the watch is worth to a contender who has seen the nodes before.
func TestTheStepOfAQuorumMakesTwoHoldersOnlyWithoutTheWatch(t *testing.T) {
	for _, watched := range []bool{true, false} {
		servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
		var opts []redlock.Option
		if !watched {
			opts = append(opts, redlock.WithoutClockWatch())
		}
		holder := fakeClockLocker(t, servers, append(opts, redlock.WithFixedLease(), redlock.WithTTL(15*time.Second))...)
		var log eventLog
		other := fakeClockLocker(t, servers, append(opts, redlock.WithObserver(log.observe))...)
		held := acquiredOnAll(t, holder, servers)
		if _, err := other.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Fatalf("before the step: got %v; want ErrNotAcquired", err)
		}
		setClocks(t, servers[:3], "+20")
		if watched { // a sample is at most 100 ms old while there is traffic
			eventually(t, 10*time.Second, func() bool {
				if l, err := other.TryAcquire(t.Context(), "another"); err == nil {
					_ = l.Release(t.Context())
				}
				return slices.Equal(log.nodes(redlock.NodeClockStepped), []int{0, 1, 2})
			})
		}
		second, err := other.TryAcquire(t.Context(), "orders/42")
		switch {
		case watched && err == nil && held.Err() == nil:
			t.Errorf("watched: a second holder, token %v, while %v of the first one's validity is left", second.Token(), held.Remaining())
		case !watched && (err != nil || held.Err() != nil):
			t.Errorf("unwatched: got %v and %v; want two holders, or this test shows nothing", err, held.Err())
		}
	}
}

// acquiredOnAll acquires until the key is on every server: an acquire that a slow one meets
// behind a step has the whole lease before it, and one that it never met shows nothing.
func acquiredOnAll(t *testing.T, l *redlock.Locker, servers []*redisserver.Server) *redlock.Lock {
	t.Helper()
	for range 10 {
		held := mustAcquire(t, l, "orders/42")
		for soon := time.Now().Add(time.Second); time.Now().Before(soon); {
			if !slices.ContainsFunc(servers, func(s *redisserver.Server) bool { return keyOn(t, s, "orders/42") == "" }) {
				return held
			}
		}
		mustRelease(t, held)
	}
	t.Fatal("no acquire reached all servers")
	return nil
}

// eventually polls until the condition holds, or fails the test.
func eventually(t *testing.T, limit time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v", limit)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A holder dies, and clocks jump back: on the nodes that jumped its key stays for
// two hours more. One such node keeps nobody waiting; a quorum does, and says why.
// Without the watch they go on voting at once, as if nothing had happened; with it
// they do so after MaxTTL.
func TestAJumpBackKeepsADeadHoldersLeaseAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		stepped int
		opts    []redlock.Option
		watched bool
	}{
		{"one of five", 1, nil, true},
		{"three of five", 3, nil, true},
		{"three of five, without the watch", 3, []redlock.Option{redlock.WithoutClockWatch()}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
			var log eventLog
			l := fakeClockLocker(t, servers, append(append(short(), tt.opts...), redlock.WithObserver(log.observe))...)
			warm(t, l)
			for _, s := range servers { // the key of one whom nobody will see again
				must(t, s.Client().Set(t.Context(), "orders/42", "the dead holder", 1500*time.Millisecond).Err())
			}
			setClocks(t, servers[:tt.stepped], "-7200")
			if tt.stepped == 1 {
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				return
			}
			if tt.watched {
				eventually(t, 10*time.Second, func() bool {
					_, err := l.TryAcquire(t.Context(), "another")
					return errors.Is(err, redlock.ErrNoQuorum) && causesWith(err, "abstains") == tt.stepped
				})
			} else { // of any three nodes that grant, one has stepped
				mustRelease(t, mustAcquire(t, l, "another"))
			}
			var err error
			eventually(t, 10*time.Second, func() bool {
				_, err = l.TryAcquire(t.Context(), "orders/42")
				// By the two whose clocks stand right, and the others are believed again.
				return err != nil && strings.Contains(err.Error(), "2/5 granted") && !strings.Contains(err.Error(), "abstained")
			})
			if !errors.Is(err, redlock.ErrNotAcquired) || causesWith(err, "beyond MaxTTL (2s): the node's clock stepped back") != tt.stepped {
				t.Errorf("got %v; want ErrNotAcquired, and why", err)
			}
			if causesWith(err, "held by another for 2h")+causesWith(err, "held by another for 1h59m") != tt.stepped {
				t.Errorf("got %v; want it to say for how long", err)
			}
			var want []int
			if tt.watched {
				want = []int{0, 1, 2}
			}
			if got := log.nodes(redlock.NodeClockStepped); !slices.Equal(got, want) {
				t.Errorf("got the nodes %v reported; want %v", got, want)
			}
		})
	}
}

func TestALeaseBeyondMaxTTLSaysWhyItStays(t *testing.T) {
	l, nodes := newLocker(t, 3, redlock.WithNodeTimeout(patient))
	for _, n := range nodes.Nodes() {
		if err := n.Miniredis().Set("orders/42", "somebody"); err != nil {
			t.Fatal(err)
		}
		n.Miniredis().SetTTL("orders/42", 3*time.Hour)
	}
	_, err := l.TryAcquire(t.Context(), "orders/42")
	if !errors.Is(err, redlock.ErrNotAcquired) || !strings.Contains(err.Error(), "beyond MaxTTL") {
		t.Errorf("got %v; want ErrNotAcquired that says why it stays", err)
	}
}
