package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
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

// infoOf is a field of INFO.
func infoOf(t *testing.T, c redis.UniversalClient, field string) string {
	t.Helper()
	_, rest, found := strings.Cut(c.Info(t.Context()).Val(), "\n"+field+":")
	if !found {
		t.Fatalf("INFO has no %s", field)
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
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
				if got := votes(t, command); got != 1 {
					t.Errorf("got %d votes; want one, of the server that remembers", got)
				}
			} else {
				mustRelease(t, mustAcquire(t, command, "reports")) // nothing says strict any more
				var err error
				pollUntil(t, 10*time.Second, "the application is told", func() bool {
					_, err = app.TryAcquire(t.Context(), "orders/42")
					return errorText(err) != "" && errors.Is(err, redlock.ErrMisconfigured)
				})
				wantText(t, "TryAcquire", errorText(err), "was founded without strict recovery")
			}
			admitted(t, app)
			mustRelease(t, mustAcquire(t, app, "orders/42"))
			for i, n := range status(t, app).Nodes {
				if !n.Strict {
					t.Errorf("node %d: not strict after the operator's word", i)
				}
			}
		})
	}
}
