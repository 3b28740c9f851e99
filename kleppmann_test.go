package redlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// The traces of Kleppmann, "How to do distributed locking" (2016), and what
// Sanfilippo answered in "Is Redlock safe?" (2016). Each comes with its contrast:
// the same events without the rule that answers them. docs/BESIDE.md lists them.
// Those that need a process to be stopped are in kleppmann_unix_test.go.

// register is a resource in three copies: one that believes every writer, one
// behind a fencing guard, one that knows its holder by a random name.
type register struct {
	guard fencing.Memory

	mu      sync.Mutex // guards the fields below
	believe []string
	fenced  []string

	holder string
	named  []string
}

// write writes to the copy that believes everybody, and to the fenced one, whose
// answer it returns.
func (r *register) write(ctx context.Context, token redlock.Token, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.believe = append(r.believe, value)
	return r.guard.Write(ctx, "orders/42", token, func(context.Context) error {
		r.fenced = append(r.fenced, value)
		return nil
	})
}

// claim makes a random name the holder's, as the answer to Kleppmann proposes
// for resources that can compare and set.
func (r *register) claim(name string) { r.holder = name }

// writeAs writes to the copy that knows its holder by name.
func (r *register) writeAs(name, value string) {
	if r.holder == name {
		r.named = append(r.named, value)
	}
}

// The first figure, and the packet that is 90 seconds under way: the holder looks
// at its lock, and the write comes when another holds.
func TestKleppmannAWriteComesAfterTheLeaseOfItsHolder(t *testing.T) {
	for name, late := range map[string]time.Duration{
		"the holder pauses between its look and the write": 12 * time.Second,
		"the write is delayed in the network":              90 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			other := separateLocker(t, nodes)
			var r register
			lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
			must(t, lock.Err()) // the last look
			arrived := make(chan error, 1)
			go func() {
				time.Sleep(late)
				arrived <- r.write(t.Context(), lock.Token(), "late")
			}()
			next := mustAcquire(t, other, "orders/42")
			must(t, r.write(t.Context(), next.Token(), "next"))
			err := <-arrived

			wantError(t, name+": the late write", err, fencing.ErrStale)
			if want := []string{"next"}; !slices.Equal(r.fenced, want) {
				t.Errorf("%s: the fenced copy: got %q; want %q", name, r.fenced, want)
			}
			if want := []string{"next", "late"}; !slices.Equal(r.believe, want) {
				t.Errorf("%s: without the guard: got %q; want the late write to land, %q, or this test shows nothing", name, r.believe, want)
			}
			wantError(t, name+": the lock, at the first look", lock.Err(), redlock.ErrLost)
			if left := lock.Remaining(); left != 0 {
				t.Errorf("%s: got %v remaining; want 0", name, left)
			}
			must(t, next.Err())
		})
	}
}

// Sanfilippo: a random token does as well, where the resource can compare and
// set. It does not: a name says who holds, and not who came later.
func TestAntirezARandomTokenDoesNotTellWhoIsNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		var r register
		lock, name := mustAcquire(t, l, "orders/42", redlock.WithFixedLease()), uuid.NewString()
		must(t, lock.Err())
		next, nextName := mustAcquire(t, other, "orders/42"), uuid.NewString()
		r.claim(nextName)
		r.writeAs(nextName, "next")
		must(t, r.write(t.Context(), next.Token(), "next"))

		// The first one goes on where it was paused: before it had claimed.
		r.claim(name)
		r.writeAs(name, "late")
		err := r.write(t.Context(), lock.Token(), "late")
		wantError(t, "the late write, with a token", err, fencing.ErrStale)
		if want := []string{"next", "late"}; !slices.Equal(r.named, want) {
			t.Errorf("by random names: got %q; want the late write to land, %q, or this test shows nothing", r.named, want)
		}
	})
}

// route is one client's way to the servers: a proxy before each.
type route []*tcpproxy.Proxy

func newRoute(t *testing.T, servers []*redisserver.Server) route {
	t.Helper()
	var r route
	for _, s := range servers {
		p, err := tcpproxy.New(s.Addr())
		must(t, err)
		t.Cleanup(p.Close)
		r = append(r, p)
	}
	return r
}

func (r route) addresses() []string {
	var addrs []string
	for _, p := range r {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

// lose makes nodes unreachable by this route.
func (r route) lose(nodes ...int) {
	for _, i := range nodes {
		r[i].Refuse()
		r[i].Reset()
	}
}

// fiveNames name the nodes as Kleppmann does: clients that come by different
// routes see different addresses.
func fiveNames() redlock.Option { return redlock.WithNodeNames("A", "B", "C", "D", "E") }

// Client 1 acquires on A, B and C and does not reach D and E. The clock of C
// jumps forward. Client 2 acquires on C, D and E and does not reach A and B.
func TestKleppmannTheClockOfCJumps(t *testing.T) {
	besideServers(t)
	for _, watched := range []bool{true, false} {
		servers := testserver.Need(t, 5, redisserver.Config{FakeClock: true})
		one, two := newRoute(t, servers), newRoute(t, servers)
		opts := []redlock.Option{fiveNames(), redlock.WithNodeTimeout(time.Second)}
		if !watched {
			opts = append(opts, redlock.WithoutClockWatch())
		}
		var log locktest.Events
		first := lockerWith(t, defaultClients(t, one.addresses()...), append(opts, redlock.WithTTL(15*time.Second))...)
		second := lockerWith(t, defaultClients(t, two.addresses()...), append(opts, log.Option())...)
		admitted(t, first)
		for made := time.Now(); time.Since(made) < 300*time.Millisecond; {
			allTakePart(t, first, servers)
			allTakePart(t, second, servers) // a first sample of every clock goes along
		}
		one.lose(3, 4)
		two.lose(0, 1)
		lock := mustAcquire(t, first, "orders/42", redlock.WithFixedLease())
		setClocks(t, servers[2:3], "+20")
		if watched { // a sample is at most 100 ms old while there is traffic
			eventually(t, 10*time.Second, func() bool {
				if l, err := second.TryAcquire(t.Context(), "another"); err == nil {
					_ = l.Release(t.Context())
				}
				return slices.Contains(log.Nodes(redlock.EventNodeClockStepped), 2)
			})
		}
		next, err := second.TryAcquire(t.Context(), "orders/42")
		switch {
		case watched && (err == nil || !errors.Is(err, redlock.ErrNoQuorum)):
			t.Errorf("watched: got %v, %v; want ErrNoQuorum: C is not believed", next, err)
		case !watched && (err != nil || lock.Err() != nil):
			t.Errorf("unwatched: got %v and %v; want two holders, or this test shows nothing", err, lock.Err())
		}
		if watched {
			eventually(t, 10*time.Second, func() bool {
				if l, err := first.TryAcquire(t.Context(), "another"); err == nil {
					_ = l.Release(t.Context())
				}
				return errors.Is(lock.Err(), redlock.ErrLost)
			})
		}
	}
}

// The same, with C crashing and restarting without what it had: "a similar issue
// could happen if C crashes before persisting the lock to disk".
func TestKleppmannCCrashesAndForgets(t *testing.T) {
	for _, remembers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 5)
			var opts []redlock.Option
			if !remembers {
				opts = append(opts, redlock.WithoutMembership())
			}
			first, second := separateLocker(t, nodes, opts...), separateLocker(t, nodes, opts...)
			warm(t, second)
			nodes.Node(3).Stop()
			nodes.Node(4).Stop()
			lock := mustAcquire(t, first, "orders/42", redlock.WithFixedLease())
			synctest.Wait() // or a straggler of the acquire reaches D and E
			nodes.Node(3).Start()
			nodes.Node(4).Start()
			nodes.Node(0).Stop()
			nodes.Node(1).Stop()
			nodes.Node(2).Restart()

			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := second.Acquire(ctx, "orders/42")
			must(t, lock.Err()) // its lease is twice as long
			switch {
			case remembers && !errors.Is(err, redlock.ErrNoQuorum):
				t.Errorf("got %v; want ErrNoQuorum: C must wait until what it forgot is over", err)
			case !remembers && err != nil:
				t.Errorf("without membership: got %v; want two holders, or this test shows nothing", err)
			}
		})
	}
}
