package locktest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// NewLocker is a Locker over n in-process nodes, closed with the test.
func NewLocker(t *testing.T, n int, opts ...redlock.Option) (*redlock.Locker, *redlocktest.Cluster) {
	t.Helper()
	nodes := redlocktest.Start(t, n)
	return LockerOver(t, nodes, opts...), nodes
}

// LockerOver is one more Locker over the same nodes.
func LockerOver(t *testing.T, nodes *redlocktest.Cluster, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return LockerWith(t, nodes.Clients(), append([]redlock.Option{redlock.WithNodeNames(nodes.Names()...)}, opts...)...)
}

// SeparateLocker is a Locker with connections of its own: another process.
func SeparateLocker(t *testing.T, nodes *redlocktest.Cluster, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return LockerWith(t, nodes.NewClients(), append([]redlock.Option{redlock.WithNodeNames(nodes.Names()...)}, opts...)...)
}

// LockerWith is a Locker over the clients, closed with the test.
func LockerWith(t *testing.T, clients []redis.UniversalClient, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(clients, opts...)
	return closed(t, l, err)
}

// OpenServers is a Locker over real servers, through Open.
func OpenServers(t *testing.T, servers []*redisserver.Server, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	l, err := redlock.Open(t.Context(), urls, opts...)
	Admit(t, closed(t, l, err))
	return l
}

// OpenWithout is a Locker over real servers, some of which it can't reach. It
// admits nothing.
func OpenWithout(t *testing.T, servers []*redisserver.Server, unreachable []int, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		o := s.Options()
		for _, u := range unreachable {
			if i == u {
				o.Addr = Unreachable
			}
		}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return LockerWith(t, clients, append([]redlock.Option{
		redlock.WithNodeNames(Addresses(servers)...), redlock.WithNodeTimeout(time.Second),
	}, opts...)...)
}

// closed closes a Locker with the test.
func closed(t *testing.T, l *redlock.Locker, err error) *redlock.Locker {
	t.Helper()
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
	return l
}

// NeedMasters starts real servers that are a cluster already, which anyone may
// use, no matter what they are called.
func NeedMasters(t *testing.T, n int, config redisserver.Config) []*redisserver.Server {
	t.Helper()
	servers := testserver.Need(t, n, config)
	testkit.Must(t, OpenServers(t, servers).Close())
	return servers
}

// BesideServers runs a test beside those that wait for servers, and so saves its own
// time; not under the race detector, where it would keep the cores from them.
func BesideServers(t *testing.T) {
	t.Helper()
	if !testkit.UnderRace {
		t.Parallel()
	}
}

// Admit takes new servers in at once: nothing was ever locked on them. A busy
// machine may let one miss its node timeout.
func Admit(tb testing.TB, l *redlock.Locker) {
	tb.Helper()
	err := l.Cluster().Admit(tb.Context())
	for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline); err = l.Cluster().Admit(tb.Context()) {
		Pause(10 * time.Millisecond)
	}
	if err != nil {
		tb.Fatalf("Admit: %v", err)
	}
}

// MustRelease releases a lock, confirmed by a quorum.
func MustRelease(t *testing.T, lock *redlock.Lock) {
	t.Helper()
	if err := lock.Release(t.Context()); err != nil {
		t.Fatalf("Release(%q): %v", lock.Resource(), err)
	}
}

// Warm makes every node of the Locker ready to vote.
func Warm(t *testing.T, l *redlock.Locker) {
	t.Helper()
	for range 2 { // the first may win before the last node was verified
		MustRelease(t, MustAcquire(t, l, "warm"))
	}
}

// PollUntil polls until the condition holds, outside of bubbles.
func PollUntil(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s: still not so", within, what)
		}
		Pause(time.Millisecond)
	}
}

// Pause is a poll's interval.
func Pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// WantError fails the test unless errors.Is(got, want).
func WantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v; want %v", what, got, want)
	}
}

// CausesWith counts the nodes of a failed round whose cause has the words: the message says
// what is the same of several once.
func CausesWith(err error, words string) int {
	var failed *redlock.QuorumError
	if !errors.As(err, &failed) {
		return 0
	}
	n := 0
	for _, node := range failed.Nodes {
		if node.Err != nil && strings.Contains(node.Err.Error(), words) {
			n++
		}
	}
	return n
}

// Patient is a node timeout that a busy machine keeps.
const Patient = 3 * time.Second

// SampleClocks makes the Locker, in a bubble, look at the clock of each of its nodes.
func SampleClocks(t *testing.T, l *redlock.Locker) {
	t.Helper()
	for range 3 { // a straggler need not be sampled the first time
		time.Sleep(time.Second)
		Warm(t, l)
		synctest.Wait()
	}
}

// ErrorText is what an error says; empty if it is nil.
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Status is what the nodes are, as the Locker sees them.
func Status(t *testing.T, l *redlock.Locker) redlock.ClusterStatus {
	t.Helper()
	s, err := l.Cluster().Status(t.Context())
	testkit.Must(t, err)
	return s
}

// WantVotes fails the test unless so many nodes vote.
func WantVotes(t *testing.T, when string, l *redlock.Locker, want int) {
	t.Helper()
	if s := Status(t, l); s.Votes() != want {
		t.Errorf("%s: got %d votes; want %d: %+v", when, s.Votes(), want, s.Nodes)
	}
}

// WantText fails the test unless the text says all of it.
func WantText(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: got %q; want it to say %q", what, got, w)
		}
	}
}

// Unreachable is an address where nothing listens.
const Unreachable = "127.0.0.1:1"

// ShortMax is the MaxTTL of ShortLeases.
const ShortMax = 2 * time.Second

// ShortLeases are options under which a test can see MaxTTL pass.
func ShortLeases() []redlock.Option {
	return []redlock.Option{redlock.WithTTL(1500 * time.Millisecond), redlock.WithMaxTTL(ShortMax)}
}

// Votes is how many nodes vote for the Locker.
func Votes(t *testing.T, l *redlock.Locker) int {
	t.Helper()
	return Status(t, l).Votes()
}

// MustAcquire acquires a lock within a minute.
func MustAcquire(t *testing.T, l *redlock.Locker, resource string, opts ...redlock.AcquireOption) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lock, err := l.Acquire(ctx, resource, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", resource, err)
	}
	return lock
}

// WantTaken checks that nobody gets orders/42 exclusively now.
func WantTaken(t *testing.T, when string, l *redlock.Locker, opts ...redlock.AcquireOption) {
	t.Helper()
	if lock, err := l.TryAcquire(t.Context(), "orders/42", opts...); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Fatalf("%s: TryAcquire: got %v, %v; want ErrNotAcquired", when, lock, err)
	}
}
