package redlock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

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
