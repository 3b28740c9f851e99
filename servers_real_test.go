package redlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
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
