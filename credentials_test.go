package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	peers "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// noPassword hands out credentials without a password, and never others.
type noPassword struct{}

func (noPassword) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return auth.NewBasicCredentials("", ""), func() error { return nil }, nil
}

// streaming are clients of the nodes that are handed their credentials.
func streaming(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	var clients []redis.UniversalClient
	for _, n := range nodes.Nodes() {
		o := n.Options()
		o.StreamingCredentialsProvider = noPassword{}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// The cause of the detour in internal/node (pinnable). Where this fails, go-redis is
// mended: take the detour out, and this test.
func TestGoRedisPanicsWhereAPinnedConnectionDialsForStreamingCredentials(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	c := streaming(t, nodes)[0].(*redis.Client)
	for what, use := range map[string]func() error{
		"Conn": func() error { return c.Conn().Ping(t.Context()).Err() },
		"Watch": func() error {
			return c.Watch(t.Context(), func(tx *redis.Tx) error { return tx.Ping(t.Context()).Err() })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of go-redis dials with a StreamingCredentialsProvider, and does not panic any more: "+
						"remove pinnable in internal/node/connection.go, and this test", what)
				}
			}()
			_ = use()
		}()
	}
}

func TestWithCredentialsIsRefusedWhereItCanDoNothing(t *testing.T) {
	provider := redlock.WithCredentials(func(context.Context) (string, string, error) { return "", "", nil })
	_, err := redlock.Open(t.Context(), []string{"127.0.0.1:1", "redis://locks@127.0.0.1:2"}, provider)
	wantError(t, "Open with a user in a URL", err, redlock.ErrInvalidOption)
	_, err = redlock.Open(t.Context(), []string{"127.0.0.1:1"}, redlock.WithCredentials(nil))
	wantError(t, "Open without a provider", err, redlock.ErrInvalidOption)
	_, err = redlock.New(defaultClients(t, "127.0.0.1:1"), provider)
	wantError(t, "New", err, redlock.ErrInvalidOption)
}

// It ended the whole program: the writer pins connections, and verifies over one.
func TestAClientWithStreamingCredentialsOutlivesConnectionsThatAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := lockerWith(t, streaming(t, nodes), redlock.WithNodeNames(nodes.Names()...))
		lock := mustAcquire(t, l, "orders/42")
		for range 3 {
			for i, n := range nodes.Nodes() {
				n.Intercept(func([]string) redlocktest.Verdict { return redlocktest.BreakBefore() })
				time.Sleep(10*time.Second + time.Duration(i)) // every connection is used, and cut
				n.Intercept(nil)
				time.Sleep(10 * time.Second)
			}
			mustRelease(t, mustAcquire(t, l, "orders/43"))
			if err := lock.Context().Err(); err != nil {
				t.Fatalf("the lock that was held is gone: %v", context.Cause(lock.Context()))
			}
		}
	})
}

// What is inside a wrapper can't be seen, and go-redis panics: that is told, and go-redis is
// asked no second time, since it keeps a connection's place in the pool each time.
func TestAWrappedClientWithStreamingCredentialsIsRefusedAndThePoolStaysWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		inside := streaming(t, nodes)
		var clients []redis.UniversalClient
		for _, c := range inside {
			clients = append(clients, wrapped{c})
		}
		l := lockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		for range 30 {
			_, err := l.Acquire(t.Context(), "orders/42")
			wantError(t, "Acquire", err, redlock.ErrMisconfigured)
			if err == nil || !strings.Contains(err.Error(), "StreamingCredentialsProvider") {
				t.Fatalf("Acquire: got %v; want it to name the provider", err)
			}
			time.Sleep(time.Minute)
		}
		for _, c := range inside {
			if got := c.PoolStats().TotalConns; got > 2 {
				t.Errorf("its pool has %d connections; want those of its own commands, and one that go-redis lost", got)
			}
			must(t, c.Ping(t.Context()).Err())
		}
	})
}

// rotate gives the user a new password on each server, takes the old one away once it is
// current, and cuts the connections.
func rotate(t *testing.T, servers []*redisserver.Server, current *atomic.Pointer[string], password string) {
	t.Helper()
	for _, s := range servers {
		must(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "locks", ">"+password).Err())
	}
	old := *current.Swap(&password)
	for _, s := range servers {
		c := s.Client()
		must(t, c.Do(t.Context(), "ACL", "SETUSER", "locks", "<"+old).Err())
		must(t, c.Do(t.Context(), "CLIENT", "KILL", "USER", "locks").Err())
	}
}

func TestALockIsHeldAndWaitedForWhileThePasswordRotates(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{Users: []string{"locks on >first ~* &* +@all"}})
	var current atomic.Pointer[string]
	var asked atomic.Int64
	first := "first"
	current.Store(&first)
	provider := redlock.WithCredentials(func(context.Context) (string, string, error) {
		asked.Add(1)
		return "locks", *current.Load(), nil
	})
	opts := append(short(), provider, redlock.WithNodeTimeout(700*time.Millisecond))
	l, other := openServers(t, servers, opts...), openServers(t, servers, opts...)
	admitted(t, l)
	lock := mustAcquire(t, l, "orders/42")
	got := make(chan error, 1)
	go func() {
		next, err := other.Acquire(t.Context(), "orders/42")
		if err == nil {
			err = next.Release(t.Context())
		}
		got <- err
	}()
	for i := range 3 {
		before := asked.Load()
		rotate(t, servers, &current, fmt.Sprint("password ", i))
		until := lock.ValidUntil()
		pollUntil(t, 10*time.Second, "the lock is renewed over connections with the new password", func() bool {
			return lock.ValidUntil().After(until) && asked.Load() >= before+6
		})
	}
	must(t, lock.Err())
	select {
	case err := <-got:
		t.Fatalf("while the lock was held, the waiter got %v", err)
	default:
	}
	mustRelease(t, lock)
	must(t, <-got)
}

// A provider that fails keeps a node from being reached, and is named.
func TestAProviderThatFailsIsNamed(t *testing.T) {
	t.Parallel()
	s := testserver.NeedOne(t, redisserver.Config{})
	own := errors.New("the vault is sealed")
	_, err := redlock.Open(t.Context(), []string{s.URL()}, redlock.WithCredentials(func(ctx context.Context) (string, string, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("nothing bounds the provider")
		}
		return "", "", own
	}))
	wantError(t, "Open", err, redlock.ErrNoQuorum)
	wantError(t, "Open", err, own)
	if err != nil && strings.Contains(err.Error(), "not reached") {
		t.Errorf("Open: got %v; want no word of the network", err)
	}
}

// What idles is closed by the server, and the first attempt after that dials: over a
// connection that only the client itself may set up.
func TestTheFirstAttemptOfStreamingCredentialsAfterACutSucceeds(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	var clients []redis.UniversalClient
	for _, s := range servers {
		clients = append(clients, clientOf(t, s, func(o *redis.Options) { o.StreamingCredentialsProvider = noPassword{} }))
	}
	l := lockerWith(t, clients, redlock.WithNodeTimeout(700*time.Millisecond))
	admitted(t, l)
	for range 3 {
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		must(t, err)
		mustRelease(t, lock)
		for i, s := range servers {
			pollUntil(t, 10*time.Second, "no connection is in use", func() bool {
				stats := clients[i].PoolStats()
				return stats.IdleConns == stats.TotalConns
			})
			must(t, s.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err())
		}
	}
}

// told is what a server says of itself in INFO: the lines of each section. A section
// that it refuses is not there.
type told map[string][]string

// who is the least that redlock needs: which process, whose data, which role.
func who(i int) told {
	digits := strings.Repeat(string(rune('a'+i)), 40)
	return told{"server": {"run_id:" + digits}, "replication": {"role:master", "master_replid:" + digits}}
}

// telling starts servers of which the i-th tells what info(i) has, and no more, to
// clients, and to scripts unless a refusal is given.
func telling(t *testing.T, n int, refusal string, info func(i int) told) (clients []redis.UniversalClient) {
	t.Helper()
	for i := range n {
		m, lines := miniredis.RunT(t), info(i)
		m.ClockTTL(true)
		var outside sync.Map // connections; what a script calls comes by a peer of its own
		m.Server().SetPreHook(func(peer *peers.Peer, command string, args ...string) bool {
			if peer.Ctx == nil {
				outside.Store(peer, true)
			}
			_, client := outside.Load(peer)
			switch {
			case command != "INFO":
				return false
			case !client && refusal != "":
				peer.WriteError(refusal)
				return true
			}
			var text strings.Builder
			for _, section := range []string{"server", "replication"} {
				if len(args) == 0 || slices.Contains(args, section) {
					text.WriteString("# " + section + "\r\n" + strings.Join(append(lines[section], ""), "\r\n"))
				}
			}
			m.Server().Dispatch(peer, []string{"ECHO", text.String()})
			return true
		})
		c := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, DialTimeout: time.Second, DialerRetries: 1, DisableIdentity: true})
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// Services leave fields of INFO out. Three are needed; without all others a lock is
// taken and waited for, and the doctor says what it could not see.
func TestThreeFieldsOfINFOAreEnough(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	clients := telling(t, 3, "", who)
	l, other := lockerWith(t, clients, redlock.WithNodeTimeout(patient)), lockerWith(t, clients, redlock.WithNodeTimeout(patient))
	admitted(t, l)
	warm(t, l)
	warm(t, other)
	lock := mustAcquire(t, l, "orders/42")
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
	next := make(chan error, 1)
	go func() {
		lock, err := other.Acquire(t.Context(), "orders/42")
		if err == nil {
			err = lock.Release(t.Context())
		}
		next <- err
	}()
	pollUntil(t, 20*time.Second, "the other stands in line", func() bool {
		s, err := l.Inspect(t.Context(), "orders/42")
		return err == nil && len(s.Nodes) == 3 && clients[0].Exists(t.Context(), "redlock:queue:orders/42").Val() == 1
	})
	mustRelease(t, lock)
	must(t, <-next)
	wantVotes(t, "without the other fields", l, 3)
	r, err := l.Cluster().Check(t.Context())
	must(t, err)
	var unseen []found
	for i := range clients {
		for _, code := range []redlock.FindingCode{redlock.FindingACL, redlock.FindingEviction, redlock.FindingPersistence, redlock.FindingVersion} {
			unseen = append(unseen, found{faultUnknown, code, i})
		}
	}
	wantFound(t, r, faultUnknown, unseen...)
}

// Without one of the three, or where scripts may not ask, no node votes; the error and
// the doctor say why.
func TestWithoutAFieldOfINFOThatIsNeededNoNodeVotes(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		refusal string
		change  func(told)
	}{
		"no run_id":           {"", func(t told) { t["server"] = nil }},
		"no master_replid":    {"", func(t told) { t["replication"] = t["replication"][:1] }},
		"no role":             {"", func(t told) { t["replication"] = t["replication"][1:] }},
		"no word to scripts":  {"ERR This Redis command is not allowed from script", func(told) {}},
		"unknown to a script": {"ERR Unknown Redis command called from script", func(told) {}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			clients := telling(t, 3, tt.refusal, func(i int) told { w := who(i); tt.change(w); return w })
			l := lockerWith(t, clients, redlock.WithNodeTimeout(patient))
			_, err := l.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
			if err == nil || !strings.Contains(err.Error(), "INFO tells no run_id") {
				t.Errorf("got %v; want what INFO does not tell", err)
			}
			r, err := l.Cluster().Check(t.Context())
			must(t, err)
			for i := range clients {
				if !slices.ContainsFunc(r.AtLeast(faultError), func(f redlock.Finding) bool { return f.Node == i && strings.Contains(f.String(), "INFO tells no") }) {
					t.Errorf("node %d: got %v; want what INFO does not tell", i, r.AtLeast(faultWarning))
				}
			}
		})
	}
}

// pageRights are the rules of the user that the page has for managed servers.
func pageRights(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("docs/OPERATIONS.md")
	must(t, err)
	m := regexp.MustCompile(`(?m)^ACL SETUSER redlock on >SECRET (.*)$`).FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/OPERATIONS.md has no ACL SETUSER redlock")
	}
	return strings.Fields(string(m[1]))
}

// managed starts servers as a provider does: what it keeps for itself is gone, and
// the user has the rights of the page.
func managed(t *testing.T, n int) []string {
	t.Helper()
	config := redisserver.Config{AOF: redisserver.FsyncEverysec, Users: []string{"redlock on >SECRET " + strings.Join(pageRights(t), " ")}}
	for _, command := range []string{"CONFIG", "DEBUG", "ACL", "FLUSHALL", "FLUSHDB", "KEYS", "EVAL", "FUNCTION", "REPLICAOF", "SHUTDOWN"} {
		config.Args = append(config.Args, "--rename-command", command, "")
	}
	var urls []string
	for _, s := range testserver.Need(t, n, config) {
		urls = append(urls, "redis://redlock:SECRET@"+s.Addr())
	}
	return urls
}

func TestTheRightsThatThePageListsAreEnough(t *testing.T) {
	t.Parallel()
	urls := managed(t, 3)
	opened := func(opts ...redlock.Option) *redlock.Locker {
		l, err := redlock.Open(t.Context(), urls, append(opts, redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient))...)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	var log eventLog
	l, other := opened(), opened(redlock.WithObserver(log.observe))
	admitted(t, l)
	warm(t, l)
	warm(t, other)
	lock := mustAcquire(t, l, "42")
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
	waiting := make(chan error, 1)
	go func() {
		lock, err := other.Acquire(t.Context(), "42")
		if err == nil {
			err = lock.Release(t.Context())
		}
		waiting <- err
	}()
	pollUntil(t, 20*time.Second, "the other stands in line", func() bool {
		s, err := l.Inspect(t.Context(), "42")
		return err == nil && slices.ContainsFunc(s.Nodes, func(n redlock.NodeInspection) bool { return len(n.Waiting) > 0 })
	})
	mustRelease(t, lock)
	select {
	case err := <-waiting:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("who waits was not let in")
	}
	sharing(t, l, other)
	r, err := l.Cluster().Check(t.Context())
	must(t, err)
	for _, f := range r.AtLeast(redlock.SeverityUnknown) {
		if f.Severity != redlock.SeverityUnknown || f.Code != redlock.FindingPersistence && f.Code != redlock.FindingACL && f.Code != redlock.FindingBacklog {
			t.Errorf("got %v; want nothing but what CONFIG and ACL would have told", f)
		}
	}
	operate(t, opened)
	for _, url := range urls {
		wantManaged(t, url)
	}
	if len(r.AtLeast(redlock.SeverityUnknown)) == 0 || slices.Contains(r.Servers, "") {
		t.Errorf("got %v and the servers %q; want what is unknown, and each server", r.Findings, r.Servers)
	}
}

// sharing has both kinds wait for a name with these rights, and go.
func sharing(t *testing.T, l, other *redlock.Locker) {
	t.Helper()
	alone := mustAcquire(t, l, "42")
	waits := func(l *redlock.Locker, opts ...redlock.AcquireOption) <-chan *redlock.Lock {
		done, ctx := make(chan *redlock.Lock, 1), t.Context()
		go func() {
			lock, err := l.Acquire(ctx, "42", append(opts, redlock.WithWait(20*time.Second))...)
			if err != nil {
				t.Error(err)
			}
			done <- lock
		}()
		return done
	}
	beside := waits(other, redlock.WithShared())
	pollUntil(t, 20*time.Second, "the other stands in line, to share", func() bool {
		s, err := l.Inspect(t.Context(), "42")
		return err == nil && slices.ContainsFunc(s.Nodes, func(n redlock.NodeInspection) bool { return len(n.Waiting) > 0 })
	})
	mustRelease(t, alone)
	first := <-beside
	if first == nil {
		t.Fatal("who waits to share was not let in")
	}
	must(t, first.Extend(t.Context(), redlock.DefaultTTL))
	second := mustAcquire(t, l, "42", redlock.WithShared())
	next := waits(l)
	pollUntil(t, 20*time.Second, "the next stands in line, to be alone", func() bool {
		s, err := l.Inspect(t.Context(), "42")
		return err == nil && slices.ContainsFunc(s.Nodes, func(n redlock.NodeInspection) bool { return len(n.Waiting) > 0 })
	})
	mustRelease(t, first)
	mustRelease(t, second)
	if lock := <-next; lock == nil {
		t.Error("who waits to be alone was not let in")
	} else {
		mustRelease(t, lock)
	}
}

// operate does what an operator does with `redlock nodes`.
func operate(t *testing.T, opened func(...redlock.Option) *redlock.Locker) {
	t.Helper()
	longest := func(l *redlock.Locker) (longest time.Duration) {
		for _, n := range status(t, l).Nodes {
			longest = max(longest, n.MaxTTL)
		}
		return longest
	}
	l := opened()
	wantVotes(t, "with these rights", l, 3)
	longer := opened(redlock.WithMaxTTL(2 * redlock.DefaultMaxTTL))
	warm(t, longer)
	pollUntil(t, 20*time.Second, "MaxTTL is raised", func() bool { return longest(l) == 2*redlock.DefaultMaxTTL })
	must(t, longer.Close())
	must(t, l.Cluster().LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL))
	if got := longest(l); got != redlock.DefaultMaxTTL {
		t.Errorf("got a MaxTTL of %v after it was lowered", got)
	}
	must(t, l.Cluster().Retire(t.Context(), 2))
	wantVotes(t, "with one that was retired", opened(), 2)
}

// wantManaged checks that the server refuses what a provider refuses, and that nobody
// has asked it to drop its scripts so far.
func wantManaged(t *testing.T, url string) {
	t.Helper()
	o, err := redis.ParseURL(url)
	must(t, err)
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	stats, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil || !strings.Contains(stats, "cmdstat_script|load:") || strings.Contains(stats, "cmdstat_script|flush:") {
		t.Errorf("want scripts that were loaded, and no SCRIPT FLUSH (%v): %s", err, stats)
	}
	for _, command := range [][]any{
		{"SCRIPT", "FLUSH"}, {"SCRIPT", "KILL"}, {"CONFIG", "GET", "appendfsync"}, {"DEBUG", "SLEEP", "0"}, {"ACL", "WHOAMI"}, {"FLUSHALL"}, {"EVAL", "return 1", "0"},
	} {
		if err := c.Do(t.Context(), command...).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("%v: got %v; want it refused", command, err)
		}
	}
}

// The doctor says of a right that is missing that it is missing. It may call unknown
// what it can't see without it, and finds nothing else.
func TestTheRightsThatThePageListsAreNeeded(t *testing.T) {
	t.Parallel()
	rights, config := pageRights(t), redisserver.Config{AOF: redisserver.FsyncAlways}
	const doctor = " +acl|dryrun +acl|whoami +config|get"
	config.Users = []string{"all on >SECRET " + strings.Join(rights, " ") + doctor}
	var taken []string
	for i, right := range rights {
		if right[0] == '+' || right[0] == '&' || right == "~redlock:*" {
			taken = append(taken, right)
			lacking := slices.Delete(slices.Clone(rights), i, i+1)
			config.Users = append(config.Users,
				"without-"+right[1:]+" on >SECRET "+strings.Join(lacking, " ")+doctor, "blind-"+right[1:]+" on >SECRET "+strings.Join(lacking, " "))
		}
	}
	server := testserver.NeedOne(t, config)
	findings := func(user string) (acl, others []redlock.Finding) {
		c := clientOf(t, server, func(o *redis.Options) { o.Username, o.Password = user, "SECRET" })
		l := lockerWith(t, []redis.UniversalClient{c}, redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient))
		r, err := l.Cluster().Check(t.Context())
		must(t, err)
		for _, f := range r.AtLeast(redlock.SeverityWarning) {
			switch {
			case f.Code == redlock.FindingACL:
				acl = append(acl, f)
			case f.Code != redlock.FindingFewNodes: // which it is
				others = append(others, f)
			}
		}
		return acl, others
	}
	if acl, others := findings("all"); len(acl)+len(others) > 0 {
		t.Errorf("with all rights: got %v and %v; want no finding", acl, others)
	}
	for _, right := range taken {
		if acl, others := findings("without-" + right[1:]); len(acl) == 0 || len(others) > 0 {
			t.Errorf("without %s: got %v, and %v; want what is missing, and nothing else", right, acl, others)
		}
		_, others := findings("blind-" + right[1:])
		for _, f := range others {
			if f.Code != redlock.FindingRefuses { // what it was refused, since it can't ask for its rights
				t.Errorf("without %s, and without ACL DRYRUN: got %v; want no such finding", right, f)
			}
		}
	}
	if len(taken) < 20 {
		t.Errorf("%d rights were taken away: %q; want all", len(taken), taken)
	}
}
