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
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Bad input that only a real server gives.

func TestWrongCredentialsReturnAtOnceAndAreNotShown(t *testing.T) {
	const wrong = "hunter2"
	servers := testserver.Need(t, 3, redisserver.Config{Password: "right"})
	bare, bad := make([]string, 3), make([]string, 3)
	for i, s := range servers {
		bare[i], bad[i] = s.Addr(), "redis://:"+wrong+"@"+s.Addr()
	}
	for name, urls := range map[string][]string{"NOAUTH": bare, "WRONGPASS": bad} {
		began := time.Now()
		l, err := redlock.Open(t.Context(), urls)
		if l != nil {
			must(t, l.Close())
		}
		wantError(t, name+": Open", err, redlock.ErrMisconfigured)
		wantError(t, name+": Open", err, redlock.ErrNoQuorum)
		clients := make([]redis.UniversalClient, len(servers))
		for i, s := range servers {
			o := &redis.Options{Addr: s.Addr()}
			if name == "WRONGPASS" {
				o.Password = wrong
			}
			c := redis.NewClient(o)
			defer c.Close()
			clients[i] = c
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, errAcquire := lockerWith(t, clients).Acquire(ctx, "orders/42")
		cancel()
		wantError(t, name+": Acquire", errAcquire, redlock.ErrMisconfigured)
		for _, err := range []error{err, errAcquire} {
			if err != nil && strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: the error shows the password: %v", name, err)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %v; want an answer at once: waiting does not mend it", name, took)
		}
	}
}

func TestAUserWithoutTheRightsIsMisconfigured(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{Users: []string{"weak on >secret ~* +@all -set"}})
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "weak", Password: "secret"})
		defer c.Close()
		clients[i] = c
	}
	_, err := lockerWith(t, clients).TryAcquire(t.Context(), "orders/42")
	wantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
	for _, s := range servers {
		if left := keysOn(t, s); len(left) > 0 {
			t.Errorf("%s has %q; want nothing", s.Addr(), left)
		}
	}
}

func TestAReplicaIsNoNode(t *testing.T) {
	masters := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, masters)
	allTakePart(t, l, masters)
	lock := mustAcquire(t, l, "orders/42")
	for _, s := range masters[1:] { // one that was not sent it has nothing to release
		pollUntil(t, 5*time.Second, "the key is everywhere", func() bool { return keyOn(t, s, "orders/42") != "" })
	}
	for _, s := range masters[1:] { // demoted under a held lock
		c := s.Client()
		must(t, c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
	}
	before := scriptCalls(t, masters[1])
	_, err := l.TryAcquire(t.Context(), "orders/43")
	wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
	if err != nil && !strings.Contains(err.Error(), "replica") {
		t.Errorf("got %v; want it to speak of a replica", err)
	}
	// Whether the clock watch's look was first, and ended the lock, is a matter of luck.
	if err := lock.Release(t.Context()); !errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrNotHeld) {
		t.Errorf("Release: got %v; want ErrNoQuorum or ErrNotHeld", err)
	}
	if calls := scriptCalls(t, masters[1]) - before; calls > 100 {
		t.Errorf("a demoted node was sent %d scripts while a release was owed; want pauses between", calls)
	}
	for _, s := range masters[1:] {
		c := s.Client()
		must(t, c.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	}
	pollUntil(t, 5*time.Second, "the release that was owed has been made", func() bool {
		return keyOn(t, masters[1], "orders/42") == "" && keyOn(t, masters[2], "orders/42") == ""
	})
}

// No matter what slots they serve, servers in cluster mode are refused at once, and say
// why: CLUSTERDOWN without slots, CROSSSLOT with all.
func TestServersInClusterModeAreMisconfigured(t *testing.T) {
	besideServers(t)
	servers := testserver.Need(t, 2, redisserver.Config{Args: []string{"--cluster-enabled", "yes"}})
	must(t, servers[1].Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	pollUntil(t, 10*time.Second, "the second server serves all slots", func() bool {
		return servers[1].Client().Set(t.Context(), "orders/1", "x", time.Millisecond).Err() == nil
	})
	for i, s := range servers {
		for _, opts := range [][]redlock.Option{nil, {redlock.WithoutMembership()}} {
			l := lockerWith(t, defaultClients(t, s.Addr()), append(opts, redlock.WithNodeTimeout(time.Second))...)
			// One that was too slow for an attempt is told as soon as it answers.
			must(t, s.Pause())
			_, err := l.TryAcquire(t.Context(), "orders/42")
			must(t, s.Resume())
			wantError(t, "TryAcquire, while it is silent", err, redlock.ErrNoQuorum)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err = l.Acquire(ctx, "orders/42")
			cancel()
			wantError(t, "Acquire", err, redlock.ErrMisconfigured)
			wantError(t, "Acquire", err, redlock.ErrNoQuorum)
			if err != nil && !strings.Contains(err.Error(), "cluster-enabled") {
				t.Errorf("got %v; want it to name the setting", err)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("server %d: Acquire waited; want it at once", i)
			}
		}
	}
}

func TestANodeOutOfMemoryRefusesAndIsCleanedAllTheSame(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, servers)
	allTakePart(t, l, servers)
	lock := mustAcquire(t, l, "orders/42")
	pollUntil(t, 5*time.Second, "the key is everywhere", func() bool {
		return keyOn(t, servers[1], "orders/42") != "" && keyOn(t, servers[2], "orders/42") != ""
	})
	for _, s := range servers[1:] {
		must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	}
	_, err := l.TryAcquire(t.Context(), "orders/43")
	wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
	if err != nil && !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v; want it to speak of memory", err)
	}
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL)) // needs no memory
	mustRelease(t, lock)
	for _, s := range servers {
		pollUntil(t, 5*time.Second, "nothing is left", func() bool { return len(keysOn(t, s)) == 0 })
	}
}

func TestScriptFlushUnderAHeldLockAndUnderTraffic(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, servers)
	lock := mustAcquire(t, l, "orders/42")
	flush := func() {
		for _, s := range servers {
			c := redis.NewClient(s.Options())
			err := c.ScriptFlush(t.Context()).Err()
			_ = c.Close()
			if err != nil {
				t.Errorf("SCRIPT FLUSH: %v", err)
			}
		}
	}
	flush()
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
	flush()
	mustRelease(t, lock)
	stop := make(chan struct{})
	var flusher, workers sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				flush()
				pause(20 * time.Millisecond)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, name := range []string{"a", "b", "c", "d"} {
		workers.Go(func() {
			var last redlock.Token
			for range 50 {
				lock, err := l.Acquire(ctx, name)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				if lock.Token() <= last {
					t.Errorf("got token %v after %v; want a greater one", lock.Token(), last)
				}
				last = lock.Token()
				if err := lock.Release(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	flusher.Wait()
	for _, s := range servers {
		pollUntil(t, 5*time.Second, "nothing is left", func() bool { return len(keysOn(t, s)) == 0 })
	}
}

func TestAUnixSocketIsANodeToo(t *testing.T) {
	dir := t.TempDir()
	s := testserver.NeedOne(t, redisserver.Config{Args: []string{"--unixsocket", dir + "/s"}})
	l, err := redlock.Open(t.Context(), []string{"unix://" + dir + "/s"})
	must(t, err)
	defer l.Close()
	admitted(t, l)
	lock := mustAcquire(t, l, "orders/42")
	if keyOn(t, s, "orders/42") == "" {
		t.Error("the server has no key; want the lock's")
	}
	mustRelease(t, lock)
}

// doctorRights are what redlock doctor is given besides.
const doctorRights = " +acl|dryrun +acl|whoami +config|get"

// asUsers are the clients of three servers, each with these rights.
func asUsers(t *testing.T, rights string) (clients []redis.UniversalClient) {
	t.Helper()
	config := redisserver.Config{AOF: redisserver.FsyncAlways, Users: []string{"redlock on >SECRET " + rights + doctorRights}}
	for _, s := range testserver.Need(t, 3, config) {
		clients = append(clients, clientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "redlock", "SECRET" }))
	}
	return clients
}

// lacks is what the doctor says of rights that are missing.
func lacks(t *testing.T, l *redlock.Locker) (found []redlock.Finding) {
	t.Helper()
	r, err := l.Cluster().Check(t.Context())
	must(t, err)
	for _, f := range r.AtLeast(redlock.SeverityUnknown) {
		if f.Code == redlock.FindingACL || f.Code == redlock.FindingRefuses || f.Code == redlock.FindingRunID {
			found = append(found, f)
		}
	}
	return found
}

// Where scripts may not call INFO, this is what is left.
func TestWithoutMembershipOneRightMoreIsNeeded(t *testing.T) {
	t.Parallel()
	page := strings.Join(pageRights(t), " ")
	opts := []redlock.Option{redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient), redlock.WithoutMembership()}
	l := lockerWith(t, asUsers(t, page+" +hsetnx"), opts...)
	lock := mustAcquire(t, l, "42")
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
	mustRelease(t, lock)
	if found := lacks(t, l); len(found) > 0 {
		t.Errorf("with +hsetnx: got %v; want no finding", found)
	}
	l = lockerWith(t, asUsers(t, page), opts...)
	_, err := l.TryAcquire(t.Context(), "42")
	wantError(t, "TryAcquire without +hsetnx", err, redlock.ErrMisconfigured)
	if found := lacks(t, l); len(found) != 3 || !strings.Contains(found[0].String(), "may not HSETNX") {
		t.Errorf("without +hsetnx: got %v; want what is missing, of each node", found)
	}
}

// A provider that grants by categories leaves out what the page says, and no more.
func TestTheRightsThatThePageListsAreOfTheseCategories(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/OPERATIONS.md")
	must(t, err)
	m := regexp.MustCompile("By categories, `([^`]+)`").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/OPERATIONS.md has no rights by categories")
	}
	names, rights := "", pageRights(t)
	for _, right := range rights {
		if right[0] != '+' {
			names += right + " "
		}
	}
	categories := strings.Fields(string(m[1]))
	clients := asUsers(t, names+strings.Join(categories, " "))
	l := lockerWith(t, clients, redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient))
	admitted(t, l)
	mustRelease(t, mustAcquire(t, l, "42"))
	if found := lacks(t, l); len(found) > 0 {
		t.Errorf("with %q: got %v; want no finding", categories, found)
	}

	c := testserver.NeedOne(t, redisserver.Config{}).Client()
	refused := map[string]bool{}
	for _, category := range []string{"admin", "dangerous"} {
		for _, command := range c.Do(t.Context(), "ACL", "CAT", category).Val().([]any) {
			refused["+"+command.(string)] = true
		}
	}
	for _, right := range append(rights, "+hsetnx") {
		if right[0] == '+' && refused[right] != slices.Contains(categories, right) {
			t.Errorf("%s is refused by category: %v; the page has it besides: %v", right, refused[right], slices.Contains(categories, right))
		}
	}
	if !refused["+config|get"] {
		t.Errorf("ACL CAT told %v", refused)
	}
}

// Each kind of hold lives its life with the rights that the page lists, and the servers have
// refused nothing by then: what is refused and not told would be seen there.
func TestEachKindOfHoldLivesWithTheRightsThatThePageLists(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{AOF: redisserver.FsyncAlways, Users: []string{"redlock on >SECRET " + strings.Join(pageRights(t), " ")}})
	opened := func() *redlock.Locker {
		var clients []redis.UniversalClient
		for _, s := range servers {
			clients = append(clients, clientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "redlock", "SECRET" }))
		}
		return lockerWith(t, clients, redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient), redlock.WithTTL(3*patient/2))
	}
	l, other := opened(), opened()
	admitted(t, l)
	for _, c := range []struct {
		name   string
		beside bool // two hold at once
		option redlock.AcquireOption
	}{
		{"shared", true, redlock.WithShared()},
		{"a slot", false, redlock.WithLimit(1)},
		{"two slots", true, redlock.WithLimit(2)},
		{"alone", false, redlock.WithValue("v")},
	} {
		t.Log(c.name)
		held := []*redlock.Lock{mustAcquire(t, l, "42", c.option, redlock.WithRevocation())}
		if c.beside {
			held = append(held, mustAcquire(t, other, "42", c.option, redlock.WithRevocation()))
		}
		pause(5 * time.Second) // it is renewed
		next := make(chan error, 1)
		ctx := t.Context()
		waiting := []redlock.AcquireOption{redlock.WithWait(time.Minute)}
		if c.name != "shared" { // else a writer waits
			waiting = append(waiting, c.option)
		}
		go func() {
			lock, err := other.Acquire(ctx, "42", waiting...)
			if err == nil {
				err = lock.Release(ctx)
			}
			next <- err
		}()
		pollUntil(t, 20*time.Second, "another stands in line", func() bool {
			in, err := l.Inspect(ctx, "42")
			return err == nil && slices.ContainsFunc(in.Nodes, func(n redlock.NodeInspection) bool { return len(n.Waiting)+len(n.SlotsWaiting) > 0 })
		})
		revoked := make(chan error, 1)
		go func() { revoked <- other.Revoke(ctx, "42") }()
		for _, lock := range held {
			select {
			case <-lock.Revoked():
			case <-time.After(time.Minute):
				t.Fatalf("%s: it was not asked for", c.name)
			}
			must(t, lock.Err())
			must(t, lock.Extend(ctx, 3*patient))
			mustRelease(t, lock)
		}
		must(t, <-next)
		must(t, <-revoked)
	}
	for _, s := range servers {
		for _, entry := range s.Client().Do(t.Context(), "ACL", "LOG").Val().([]any) {
			if what := fmt.Sprint(entry); !strings.Contains(what, "object:ping") { // of a quiet subscription, to which any answer will do
				t.Errorf("a server has refused %s", what)
			}
		}
	}
}

// A server reads its append-only file as the default user. What that user may not do is
// left out: the doctor says so before, and the recipe of docs/OPERATIONS.md keeps it all.
func TestTheDefaultUserDecidesWhatTheAppendOnlyFileKeeps(t *testing.T) {
	t.Parallel()
	for rules, keeps := range map[string]bool{
		"off":                            false,
		"on nopass ~cache:* +get":        false,
		"off ~* &* +@all":                true, // the recipe
		"off ~redlock:* ~orders/* +@all": true,
	} {
		t.Run(rules, func(t *testing.T) {
			t.Parallel()
			s := testserver.NeedOne(t, redisserver.Config{
				AOF: redisserver.FsyncAlways, Users: []string{"admin on >secret ~* &* +@all"}, Args: []string{"--enable-debug-command", "local"},
			})
			c := clientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "admin", "secret" })
			l := lockerWith(t, []redis.UniversalClient{c}, redlock.WithNodeTimeout(patient))
			admitted(t, l)
			mustRelease(t, mustAcquire(t, l, "orders/42"))
			set := []any{"ACL", "SETUSER", "default", "reset"}
			for _, rule := range strings.Fields(rules) {
				set = append(set, rule)
			}
			must(t, c.Do(t.Context(), set...).Err())
			r, err := l.Cluster().Check(t.Context())
			must(t, err)
			found := slices.ContainsFunc(r.Findings, func(f redlock.Finding) bool { return f.Code == redlock.FindingReplay })
			if found == keeps {
				t.Errorf("the doctor has %v; want %s there: %v", r.Findings, redlock.FindingReplay, !keeps)
			}
			before := c.HLen(t.Context(), "redlock:node").Val()
			must(t, c.Do(t.Context(), "DEBUG", "LOADAOF").Err()) // as a restart does
			after := c.HLen(t.Context(), "redlock:node").Val()
			if kept := after == before; before == 0 || kept != keeps {
				t.Errorf("the record had %d fields, and has %d when the file is read again; want them kept: %v", before, after, keeps)
			}
		})
	}
}

// A restart reads the file in the same way.
func TestARestartLeavesOutWhatTheDefaultUserMayNotWrite(t *testing.T) {
	t.Parallel()
	s := testserver.NeedOne(t, redisserver.Config{
		AOF: redisserver.FsyncAlways, Users: []string{"admin on >secret ~* &* +@all", "default on nopass resetkeys -@all +ping +info"},
	})
	c := clientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "admin", "secret" })
	l := lockerWith(t, []redis.UniversalClient{c}, redlock.WithNodeTimeout(patient))
	admitted(t, l)
	mustRelease(t, mustAcquire(t, l, "orders/42"))
	must(t, l.Close())
	before := c.HLen(t.Context(), "redlock:node").Val()
	must(t, s.Stop())
	must(t, s.Restart())
	if after := c.HLen(t.Context(), "redlock:node").Val(); after >= before {
		t.Errorf("the record had %d fields, and has %d after a restart: where servers keep them, %s is not needed", before, after, redlock.FindingReplay)
	}
}

// A node is known by the same signs, no matter what channels its replicas have: the first
// replica makes it abstain for MaxTTL, locks stay held, and the second one changes
// nothing.
func TestASecondReplicationChannelChangesNothing(t *testing.T) {
	t.Parallel()
	const maxTTL = 4 * time.Second
	servers, replicas := testserver.Need(t, 3, redisserver.Config{}), testserver.Need(t, 2, redisserver.Config{Args: []string{"--loglevel", "verbose"}})
	secondChannel(t, slices.Concat(servers, replicas))
	l := openWithout(t, servers, nil, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))
	admitted(t, l)
	warm(t, l)
	wantVotes(t, "without replicas", l, 3)
	held := mustAcquire(t, l, "orders/42")
	c := servers[0].Client()
	epoch := func() string { return c.HGet(t.Context(), lua.NodeKey, "epoch").Val() }
	run, history, before := infoOf(t, c, "run_id"), infoOf(t, c, "master_replid"), epoch()

	began := time.Now()
	follow(t, replicas[0], servers[0])
	if log, err := replicas[0].Log(); err != nil || !strings.Contains(log, "RDB channel") {
		t.Fatalf("the replica used no second channel (%v): %s", err, log)
	}
	if infoOf(t, c, "run_id") != run || infoOf(t, c, "master_replid") == history {
		t.Error("want the same process, with another replication id")
	}
	pollUntil(t, 10*maxTTL, "the node votes again, under another epoch", func() bool {
		return status(t, l).Nodes[0].State == redlock.NodeMember && epoch() != before
	})
	if took := time.Since(began); took < maxTTL {
		t.Errorf("it voted again after %v; want MaxTTL, %v, at least", took, maxTTL)
	}

	history = infoOf(t, c, "master_replid")
	follow(t, replicas[1], servers[0])
	if infoOf(t, c, "master_replid") != history {
		t.Error("a second replica made another replication id")
	}
	wantVotes(t, "with two replicas", l, 3)
	must(t, held.Err())
	mustRelease(t, held)
}

// Threads of the server read and write for it, and the order of things is the same:
// processes take turns in line, one after the other, with rising tokens.
func TestServersWithIOThreadsKeepTheOrder(t *testing.T) {
	t.Parallel()
	const processes, clients, turns = 3, 8, 5
	servers := testserver.Need(t, 3, redisserver.Config{Args: []string{"--io-threads", "4"}})
	var lockers []*redlock.Locker
	for range processes {
		lockers = append(lockers, openWithout(t, servers, nil, redlock.WithTTL(4*patient), redlock.WithNodeTimeout(patient)))
	}
	admitted(t, lockers[0])
	var inside atomic.Int32
	var last redlock.Token // guarded by the lock
	var done sync.WaitGroup
	for i := range processes * clients {
		done.Go(func() {
			for range turns {
				lock, err := lockers[i%processes].Acquire(t.Context(), "orders/42")
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 || lock.Token() <= last {
					t.Errorf("%d hold it, with token %d after %d", n, lock.Token(), last)
				}
				last = lock.Token()
				inside.Add(-1)
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if got := servers[0].Client().ConfigGet(t.Context(), "io-threads").Val()["io-threads"]; got != "4" {
		t.Errorf("it had %q threads", got)
	}
}
