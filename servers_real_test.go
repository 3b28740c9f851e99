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
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	peers "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// What redlock reads of a server, and takes for granted, is the same whichever runs.
// REDLOCK_TEST_SERVER has another one tried.

func TestEveryServerTellsTheFieldsThatAreRead(t *testing.T) {
	t.Parallel()
	c := testserver.NeedOne(t, redisserver.Config{AOF: redisserver.FsyncEverysec}).Client()
	info := c.Info(t.Context()).Val()
	for _, field := range []string{
		"redis_version", "run_id", "role:master", "master_replid", "connected_slaves:0", "aof_enabled:1", "aof_last_write_status:ok",
		"rdb_last_bgsave_status:ok", "loading:0", "maxmemory:0", "maxmemory_policy:noeviction", "used_memory", "connected_clients", "maxclients", "cluster_enabled:0",
	} {
		if !strings.Contains(info, "\n"+field) {
			t.Errorf("INFO has no %q", field)
		}
	}
	if !strings.Contains(info, "\nredis_mode:standalone\r") && !strings.Contains(info, "\nserver_mode:standalone\r") {
		t.Error("INFO tells no mode")
	}
	for name, want := range map[string]string{ // the defaults that docs/OPERATIONS.md tells
		"appendfsync": "everysec", "maxmemory-policy": "noeviction", "repl-backlog-ttl": "3600", "enable-debug-command": "no",
		"io-threads": "1", "no-appendfsync-on-rewrite": "no", "stop-writes-on-bgsave-error": "yes", "min-replicas-to-write": "0",
	} {
		if got := c.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s is %q by default; want %q", name, got, want)
		}
	}
}

// stale is a key that ends while a script runs: whether the script sees it end.
const stale = `redis.call('SET', KEYS[1], 'v', 'PX', 20)
local spins = 0
while spins < 20000000 do spins = spins + 1 end
return redis.call('EXISTS', KEYS[1])`

func TestEveryServerKeepsTheRulesThatAreTakenForGranted(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 2, redisserver.Config{AOF: redisserver.FsyncEverysec, Users: []string{"weak on >secret &* ~* +@all -pttl"}})
	server, c := servers[0], servers[0].Client()
	refused := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v; want %q", what, err, want)
		}
	}
	began := time.Now()
	if got, err := c.Eval(t.Context(), stale, []string{"k"}).Int(); err != nil || got != 1 || time.Since(began) < 40*time.Millisecond {
		t.Errorf("in a script of %v a key ended (%d, %v): want time to stand still there", time.Since(began), got, err)
	}
	hash := c.ScriptLoad(t.Context(), "return 1").Val()
	must(t, c.EvalSha(t.Context(), hash, nil).Err())
	must(t, c.Do(t.Context(), "SWAPDB", "0", "1").Err())
	must(t, c.EvalSha(t.Context(), hash, nil).Err())

	// In place it may become another's data, with the scripts that it had.
	before := infoOf(t, c, "run_id") + infoOf(t, c, "master_replid")
	must(t, c.Do(t.Context(), "REPLICAOF", "127.0.0.1", strings.TrimPrefix(servers[1].Addr(), "127.0.0.1:")).Err())
	pollUntil(t, 20*time.Second, "it follows", func() bool { return strings.Contains(c.Info(t.Context()).Val(), "master_link_status:up") })
	must(t, c.EvalSha(t.Context(), hash, nil).Err())
	refused("a write on a replica", c.Set(t.Context(), "k", "v", 0).Err(), "READONLY")
	must(t, c.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	if run := infoOf(t, c, "run_id"); !strings.HasPrefix(before, run) || before == run+infoOf(t, c, "master_replid") {
		t.Errorf("after a promotion in place it is %s; was %s: want the process, and another history", run, before)
	}

	weak := clientOf(t, server, func(o *redis.Options) { o.Username, o.Password = "weak", "secret" })
	err := weak.Eval(t.Context(), "return redis.call('PTTL', 'k')", nil).Err()
	if err == nil || !strings.Contains(err.Error(), "ACL") && !strings.Contains(err.Error(), "can't run this command") {
		t.Errorf("a script without the right: got %v; want it to say so", err)
	}
	refused("a command without the right", weak.PTTL(t.Context(), "k").Err(), "NOPERM")
	must(t, c.ScriptFlush(t.Context()).Err())
	refused("after SCRIPT FLUSH", c.EvalSha(t.Context(), hash, nil).Err(), "NOSCRIPT")
	hash = c.ScriptLoad(t.Context(), "return 2").Val()
	must(t, server.Kill())
	must(t, server.Restart())
	refused("after a restart", server.Client().EvalSha(t.Context(), hash, nil).Err(), "NOSCRIPT")
}

// That the voting scripts are not there keeps a server from voting which took over
// from another one. So they must not reach it with the data, as functions do: no
// script of redlock's may be one.

// library is a function of the server's, as FUNCTION LOAD takes it.
func library(name string) string {
	return fmt.Sprintf("#!lua name=%s\nredis.register_function{function_name='%s', callback=function() return '%s' end, flags={'no-writes'}}", name, name, name)
}

// load teaches a server a script by SCRIPT LOAD, one by EVAL, and a function.
func load(t *testing.T, c *redis.Client, name string) (hashes []string) {
	t.Helper()
	loaded, evaluated := fmt.Sprintf("return '%s, loaded'", name), fmt.Sprintf("return '%s, evaluated'", name)
	must(t, c.Eval(t.Context(), evaluated, nil).Err())
	must(t, c.FunctionLoad(t.Context(), library(name)).Err())
	return []string{c.ScriptLoad(t.Context(), loaded).Val(), redis.NewScript(evaluated).Hash()}
}

// wantScripts checks which scripts the server knows.
func wantScripts(t *testing.T, when string, c *redis.Client, want bool, hashes ...string) {
	t.Helper()
	for i, there := range c.ScriptExists(t.Context(), hashes...).Val() {
		err := c.EvalSha(t.Context(), hashes[i], nil).Err()
		if there != want || (err == nil) != want || err != nil && !strings.HasPrefix(err.Error(), "NOSCRIPT") {
			t.Errorf("%s, script %d: got %v, and %v; want it known: %v", when, i, there, err, want)
		}
	}
}

// wantFunctions checks which functions the server has.
func wantFunctions(t *testing.T, when string, c *redis.Client, want ...string) {
	t.Helper()
	var got []string
	libraries, err := c.FunctionList(t.Context(), redis.FunctionListQuery{}).Result()
	must(t, err)
	for _, l := range libraries {
		got = append(got, l.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got the functions %q; want %q", when, got, want)
	}
	for _, name := range want {
		if v, err := c.FCallRO(t.Context(), name, nil).Text(); v != name {
			t.Errorf("%s: %s returns %q, %v", when, name, v, err)
		}
	}
}

// roleOf is the server's role, which ROLE and INFO must tell alike.
func roleOf(t *testing.T, c *redis.Client) string {
	t.Helper()
	role, err := c.Do(t.Context(), "ROLE").Slice()
	must(t, err)
	if info := infoOf(t, c, "role"); len(role) == 0 || role[0] != info {
		t.Errorf("ROLE says %v, and INFO %q", role, info)
	}
	return fmt.Sprint(role[0])
}

func TestNoServerHandsScriptsOnWithItsData(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 2, redisserver.Config{AOF: redisserver.FsyncAlways})
	master, replica := servers[0].Client(), servers[1].Client()
	before, own := load(t, master, "before"), load(t, replica, "own")
	follow(t, servers[1], servers[0])
	after := load(t, master, "after") // with the stream, not with the snapshot
	must(t, master.Set(t.Context(), "k", "v", 0).Err())
	pollUntil(t, 15*time.Second, "the replica has all", func() bool { return replica.Exists(t.Context(), "k").Val() == 1 })
	if got := roleOf(t, master) + ", " + roleOf(t, replica); got != "master, slave" {
		t.Errorf("got the roles %s", got)
	}
	wantFunctions(t, "a replica", replica, "after", "before")
	stand(t, servers[1])
	if got := roleOf(t, replica); got != "master" {
		t.Errorf("one that was promoted is a %s", got)
	}
	wantFunctions(t, "a promoted replica", replica, "after", "before")
	wantScripts(t, "a promoted replica", replica, false, append(before, after...)...)
	wantScripts(t, "its own scripts", replica, true, own...)

	follow(t, servers[0], servers[1]) // failed over, and back: it has what it had
	wantScripts(t, "a master that became a replica", master, true, append(before, after...)...)
	wantScripts(t, "the other one's scripts", master, false, own...)
	stand(t, servers[0])
	wantScripts(t, "a master again", master, true, append(before, after...)...)

	must(t, servers[0].Kill())
	must(t, servers[0].Restart())
	restarted := servers[0].Client()
	wantScripts(t, "a restarted server", restarted, false, append(before, after...)...)
	wantFunctions(t, "a restarted server", restarted, "after", "before")
}

// A node that votes keeps its scripts, no matter what others evaluate there: Redis 8 and
// Valkey 8 drop what EVAL left, the oldest first, and never what SCRIPT LOAD did.
func TestNoServerDropsAScriptThatWasLoaded(t *testing.T) {
	t.Parallel()
	c := testserver.NeedOne(t, redisserver.Config{}).Client()
	hash := c.ScriptLoad(t.Context(), "return 'loaded'").Val()
	_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 2000 {
			p.Eval(t.Context(), fmt.Sprintf("return %d", i), nil)
		}
		return nil
	})
	must(t, err)
	wantScripts(t, "after 2,000 others", c, true, hash)
}

// Nothing of redlock's is left in a server as a function, which would outlive a
// restart, and reach a replica.
func TestNoFunctionIsLeftOnANode(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, servers)
	allTakePart(t, l, servers)
	mustRelease(t, mustAcquire(t, l, "orders/42"))
	for _, s := range servers {
		wantFunctions(t, s.Addr(), s.Client())
		if s.Client().HGet(t.Context(), lua.NodeKey, "epoch").Val() == "" {
			t.Error("the node is no member: this test shows nothing")
		}
	}
}

// docs/OPERATIONS.md, "Restarts and upgrades, node by node": each node in turn, and
// before the next one what `redlock nodes join --wait` waits for. Every lock that two
// processes hold survives it. Before a node that votes again was given them, the
// second restart left them one node of three.
func TestARollingRestartByTheRecipeLosesNoLock(t *testing.T) {
	t.Parallel()
	const (
		ttl    = 6 * time.Second
		maxTTL = 8 * time.Second
		held   = 20
	)
	servers := testserver.Need(t, 3, redisserver.Config{AOF: redisserver.FsyncEverysec})
	open := func() *redlock.Locker {
		return openWithout(t, servers, nil, redlock.WithTTL(ttl), redlock.WithMaxTTL(maxTTL))
	}
	processes := []*redlock.Locker{open(), open()}
	admitted(t, processes[0])
	var renewed, fixed []*redlock.Lock
	for p, l := range processes {
		for i := range held {
			renewed = append(renewed, mustAcquire(t, l, fmt.Sprintf("renewed/%d/%d", p, i)))
		}
	}
	var taken time.Time // the oldest of the fixed leases
	for turn, s := range servers {
		must(t, s.Stop())
		must(t, s.Restart())
		for _, lock := range fixed { // they rest on the node that came back before
			if err := lock.Extend(t.Context(), maxTTL); err != nil {
				if age := time.Since(taken); age > maxTTL-time.Second {
					t.Skipf("the restart took until %v after the fixed leases began: a busy machine, on which they end", age)
				}
				t.Errorf("restart %d: a fixed lease from before: %v", turn, err)
			}
		}
		fixed = nil
		operator := open()
		pollUntil(t, 4*maxTTL, "the node waits for its last second", func() bool {
			return slices.ContainsFunc(slices.Concat(processes, []*redlock.Locker{operator}), func(l *redlock.Locker) bool { // each counts for itself
				status, err := l.Cluster().Status(t.Context())
				must(t, err)
				n := status.Nodes[turn]
				return n.State == redlock.NodeJoining && n.Left < time.Second
			})
		})
		taken = time.Now()
		for p, l := range processes {
			for i := range held {
				fixed = append(fixed, mustAcquire(t, l, fmt.Sprintf("fixed/%d/%d/%d", turn, p, i), redlock.WithFixedLease(), redlock.WithTTL(maxTTL)))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		must(t, operator.Cluster().Join(ctx))
		cancel()
		must(t, operator.Close())
		for _, lock := range renewed {
			if err := lock.Err(); err != nil {
				t.Errorf("after restart %d: %v", turn, err)
			}
		}
	}
	for _, lock := range append(renewed, fixed...) {
		must(t, lock.Extend(t.Context(), maxTTL))
		mustRelease(t, lock)
	}
}

// An application with strict recovery, and one client without it, over servers of
// which all, or all but one, forgot.
func TestOneClientWithoutTheOptionDoesNotUndoStrictRecoveryOnRealServers(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]int{"one record is left": 2, "no record is left": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 3, redisserver.Config{})
			app := openWithout(t, servers, nil, append(short(), redlock.WithStrictRecovery())...)
			admitted(t, app)
			warm(t, app)
			if forget == 3 {
				must(t, app.Close()) // it would claim a node that it finds empty before the next one forgets
			}
			for _, s := range servers[:forget] {
				must(t, s.RestartEmpty())
			}
			command := openWithout(t, servers, nil, short()...)
			if forget < 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 3*shortMax)
				defer cancel()
				_, err := command.Acquire(ctx, "reports")
				wantError(t, "Acquire without the option", err, redlock.ErrNoQuorum)
				wantText(t, "Acquire without the option", errorText(err), "(strict recovery)", "Cluster.Admit")
				if n := status(t, command).Nodes; n[0].State == redlock.NodeMember || n[1].State == redlock.NodeMember || n[2].State != redlock.NodeMember {
					t.Errorf("got %+v; want one member, the server that remembers", n)
				}
			} else {
				mustRelease(t, mustAcquire(t, command, "reports")) // nothing says strict any more
				app = openWithout(t, servers, nil, append(short(), redlock.WithStrictRecovery())...)
				var err error
				pollUntil(t, 10*time.Second, "the application is told", func() bool {
					_, err = app.TryAcquire(t.Context(), "orders/42")
					return errorText(err) != "" && errors.Is(err, redlock.ErrMisconfigured)
				})
				wantText(t, "TryAcquire", errorText(err), "the cluster has no strict recovery, which this client asks for")
				on := true
				must(t, app.Cluster().Change(t.Context(), redlock.Wanted{Strict: &on}, redlock.ChangeOptions{}))
			}
			admitted(t, app)
			mustRelease(t, mustAcquire(t, app, "orders/42"))
			if !status(t, app).Strict {
				t.Error("the cluster is not strict after the operator's word")
			}
		})
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
		l, err := redlock.Open(t.Context(), urls, append(opts, redlock.WithPrefix("orders/"), redlock.WithMaxTTL(redlock.DefaultTTL), redlock.WithNodeTimeout(patient))...)
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	var log locktest.Events
	l, other := opened(), opened(log.Option())
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
	operate(t, opened())
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
func operate(t *testing.T, l *redlock.Locker) {
	t.Helper()
	wantVotes(t, "with these rights", l, 3)
	must(t, l.Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: redlock.DefaultMaxTTL}, redlock.ChangeOptions{}))
	if got := status(t, l).MaxTTL; got != redlock.DefaultMaxTTL {
		t.Errorf("got a MaxTTL of %v after it was changed; want %v", got, redlock.DefaultMaxTTL)
	}
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
		for _, f := range r.Findings {
			switch {
			case f.Code == redlock.FindingACL && f.Severity != redlock.SeverityUnknown:
				acl = append(acl, f)
			case f.Code != redlock.FindingFewNodes && f.Severity >= redlock.SeverityWarning: // which it is
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
