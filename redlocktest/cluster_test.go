package redlocktest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// both runs a test inside and outside a synctest bubble.
func both(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, test) })
	t.Run("real", test)
}

func infoField(t *testing.T, c redis.UniversalClient, section, field string) string {
	t.Helper()
	text, err := c.Info(t.Context(), section).Result()
	if err != nil {
		t.Fatalf("INFO %s: %v", section, err)
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return v
		}
	}
	return ""
}

func mustSet(t *testing.T, c redis.UniversalClient, key, value string, ttl time.Duration) {
	t.Helper()
	if err := c.Set(t.Context(), key, value, ttl).Err(); err != nil {
		t.Fatalf("SET %s: %v", key, err)
	}
}

func TestNodesAreIndependentMastersWithNames(t *testing.T) {
	both(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		if got, want := c.Names(), []string{"node-0", "node-1", "node-2"}; !slices.Equal(got, want) {
			t.Errorf("names: got %q; want %q", got, want)
		}
		seen := map[string]bool{}
		for i, client := range c.Clients() {
			id := infoField(t, client, "server", "run_id")
			if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(id) || seen[id] {
				t.Errorf("node %d: got run_id %q; want 40 hex digits of its own", i, id)
			}
			seen[id] = true
			if got := c.Node(i).RunID(); got != id {
				t.Errorf("node %d: RunID is %q; want %q", i, got, id)
			}
			if got := infoField(t, client, "replication", "role"); got != "master" {
				t.Errorf("node %d: got role %q; want master", i, got)
			}
			if got := infoField(t, client, "server", "redis_version"); !strings.HasPrefix(got, "7.2") {
				t.Errorf("node %d: got version %q; want 7.2.x", i, got)
			}
		}
		mustSet(t, c.Clients()[1], "k", "v", 0)
		for i, want := range [][]string{{}, {"k"}, {}} {
			if got := c.Node(i).Keys(); !slices.Equal(got, want) {
				t.Errorf("node %d: got keys %q; want %q", i, got, want)
			}
		}
	})
}

func TestInfoObeysPasswordsTransactionsAndScripts(t *testing.T) {
	both(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		client := c.Clients()[0]
		var cmd *redis.StringCmd
		if _, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Set(t.Context(), "k", "v", 0)
			cmd = p.Info(t.Context(), "server")
			return nil
		}); err != nil || !strings.Contains(cmd.Val(), "run_id:") {
			t.Errorf("INFO in MULTI: got %q, %v; want a run_id", cmd.Val(), err)
		}
		text, err := client.Eval(t.Context(), `return redis.call('INFO', 'server')`, nil).Text()
		if err != nil || !strings.Contains(text, c.Node(0).RunID()) {
			t.Errorf("INFO in a script: got %q, %v; want the run_id", text, err)
		}
		if got := c.Node(0).Calls(); got != c.Node(0).Calls("hello", "client", "multi", "set", "info", "exec", "eval") {
			t.Errorf("got %d calls; want only those that were sent", got)
		}

		c.Node(0).Miniredis().RequireAuth("secret")
		fresh := c.NewClients()[0]
		if err := fresh.Info(t.Context(), "server").Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
			t.Errorf("INFO without the password: got %v; want NOAUTH", err)
		}
		c.Node(0).RestartKeepingData() // drops the scripts, password or not
	})
}

func TestLeasesRunWithTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		mustSet(t, c.Clients()[0], "k", "v", 10*time.Second)
		time.Sleep(9999 * time.Millisecond)
		if n := c.Clients()[0].Exists(t.Context(), "k").Val(); n != 1 {
			t.Errorf("1 ms before the end: got %d keys; want 1", n)
		}
		time.Sleep(time.Millisecond)
		if n := c.Clients()[0].Exists(t.Context(), "k").Val(); n != 0 {
			t.Errorf("at the end: got %d keys; want 0", n)
		}
		mustSet(t, c.Clients()[0], "k", "v", 10*time.Second)
		c.Node(0).Miniredis().SetTime(time.Now().Add(10 * time.Second))
		mustSet(t, c.Clients()[0], "later", "v", 10*time.Second)
		time.Sleep(time.Minute)
		if n := c.Clients()[0].Exists(t.Context(), "k", "later").Val(); n != 1 {
			t.Errorf("at a clock that jumped and stands: got %d keys; want the later one", n)
		}
	})
}

const ttlScript = `
redis.call('HSET', KEYS[2], 'a', 9007199254740991)
local h = redis.call('HMGET', KEYS[2], 'a', 'b')
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX')
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2])
local now = redis.call('TIME')
return {tonumber(h[1]), h[2] == false and 1 or 0, redis.call('PTTL', KEYS[1]), tonumber(now[1])}`

func TestScriptsNeedLoadingAndARestartDropsThem(t *testing.T) {
	both(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		node, client, ctx := c.Node(0), c.Clients()[0], t.Context()
		sha, err := client.ScriptLoad(ctx, ttlScript).Result()
		testkit.Must(t, err)
		got, err := client.EvalSha(ctx, sha, []string{"k", "h"}, "owner", 5000).Int64Slice()
		if err != nil || len(got) != 4 || got[0] != 1<<53-1 || got[1] != 1 || got[2] < 9000 || got[3] < time.Now().Unix()-5 {
			t.Fatalf("got %v, %v; want 2^53-1, 1, about 10000, now", got, err)
		}

		before := node.RunID()
		node.RestartKeepingData()
		if node.RunID() == before || infoField(t, client, "server", "run_id") != node.RunID() {
			t.Error("the restart kept the run_id")
		}
		if got, want := node.Keys(), []string{"h", "k"}; !slices.Equal(got, want) {
			t.Errorf("after a restart with data: got %q; want %q", got, want)
		}
		if err := client.EvalSha(ctx, sha, []string{"k", "h"}, "o", 1).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
			t.Errorf("after a restart with data: got %v; want NOSCRIPT", err)
		}

		client.ScriptLoad(ctx, ttlScript)
		node.Restart()
		if got := node.Keys(); len(got) != 0 {
			t.Errorf("after a restart: got keys %q; want none", got)
		}
		if err := client.EvalSha(ctx, sha, []string{"k", "h"}, "o", 1).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
			t.Errorf("after a restart: got %v; want NOSCRIPT", err)
		}
	})
}

// What pins a connection must notice that it broke.
func TestWatchPinsOneConnectionAndFailsAfterARestart(t *testing.T) {
	both(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		ctx := t.Context()
		err := c.Clients()[0].Watch(ctx, func(tx *redis.Tx) error {
			if err := tx.Ping(ctx).Err(); err != nil {
				t.Errorf("before the restart: %v", err)
			}
			c.Node(0).RestartKeepingData()
			return tx.Ping(ctx).Err()
		})
		if err == nil {
			t.Error("a pinned connection outlived the restart")
		}
		if err := c.Clients()[0].Ping(ctx).Err(); err != nil {
			t.Errorf("the next command: got %v; want no error", err)
		}
	})
}

func TestStopRefusesAndStartKeepsWhatTheServerHas(t *testing.T) {
	both(t, func(t *testing.T) {
		c := redlocktest.Start(t, 2, redlocktest.WithoutFounding())
		node, client, ctx := c.Node(0), c.Clients()[0], t.Context()
		mustSet(t, client, "k", "v", 0)
		sha := client.ScriptLoad(ctx, "return 7").Val()
		runID := node.RunID()
		node.Stop()
		node.Stop()
		started := time.Now()
		if err := client.Ping(ctx).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("while stopped: got %v; want connection refused", err)
		}
		if d := time.Since(started); d > time.Second {
			t.Errorf("the refusal took %v", d)
		}
		if err := c.Clients()[1].Ping(ctx).Err(); err != nil {
			t.Errorf("the other node: %v", err)
		}
		node.Start()
		node.Start()
		if got := client.Get(ctx, "k").Val(); got != "v" {
			t.Errorf("after the start: got %q; want v", got)
		}
		if n, err := client.EvalSha(ctx, sha, nil).Int(); err != nil || n != 7 {
			t.Errorf("after the start the script gives %d, %v; want 7", n, err)
		}
		if node.RunID() != runID {
			t.Error("Stop and Start changed the run_id")
		}
	})
}

// Blocking commands run under a context that miniredis cancels for ever when
// it is closed.
func TestBlockingCommandsWorkAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		c.Node(0).Restart()
		started := time.Now()
		err := c.Clients()[0].BLPop(t.Context(), time.Second, "list").Err()
		if !errors.Is(err, redis.Nil) || time.Since(started) != time.Second {
			t.Errorf("got %v after %v; want nil after 1s", err, time.Since(started))
		}
	})
}

func TestAHungNodeTakesCommandsAndRunsThemOnResume(t *testing.T) {
	both(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		node := c.Node(0)
		opts := node.Options()
		opts.ReadTimeout = short
		client := redis.NewClient(opts)
		defer client.Close()
		mustSet(t, client, "before", "v", 0)

		node.Hang()
		started := time.Now()
		// One on a connection of the pool, one on a connection of its own.
		err1 := client.Set(t.Context(), "late", "v", 0).Err()
		err2 := client.Set(t.Context(), "later", "v", 0).Err()
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("while hung: got %v; want a timeout", err)
			}
		}
		if d := time.Since(started); d < 2*short || d > 10*short {
			t.Errorf("two timeouts of %v took %v", short, d)
		}
		if got := node.Keys(); !slices.Equal(got, []string{"before"}) {
			t.Errorf("while hung: got keys %q; want only the first", got)
		}

		node.Resume()
		// "later" was sent behind a HELLO on a new connection that never
		// answered, so only "late" had left the client.
		eventually(t, func() bool { return slices.Contains(node.Keys(), "late") })
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("after the hang: %v", err)
		}
	})
}

func TestAWriteIntoAHungNodeKeepsItsDeadline(t *testing.T) {
	both(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		c.Node(0).Hang()
		conn, err := c.Node(0).Dial(t.Context())
		testkit.Must(t, err)
		defer conn.Close()
		testkit.Must(t, conn.SetWriteDeadline(time.Now().Add(short)))
		n, err := conn.Write(make([]byte, 4<<20))
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("got %v; want a timeout", err)
		}
		if n != 1<<20 {
			t.Errorf("got %d bytes taken; want one socket buffer, %d", n, 1<<20)
		}
	})
}

func TestDialsWaitBehindAFullQueueOfAHungNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		c.Node(0).Hang()
		for range 511 {
			if _, err := c.Node(0).Dial(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Node(0).Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v; want deadline exceeded", err)
		}
		go func() {
			time.Sleep(time.Second)
			c.Node(0).Resume()
		}()
		if _, err := c.Node(0).Dial(t.Context()); err != nil {
			t.Errorf("after the hang: %v", err)
		}
	})
}

func TestConnectionsMadeWhileHungAreServedOnResume(t *testing.T) {
	both(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		node := c.Node(0)
		node.Hang()
		abandoned, err := node.Dial(t.Context())
		testkit.Must(t, err)
		waiting, err := node.Dial(t.Context())
		testkit.Must(t, err)
		defer waiting.Close()
		if _, err := io.WriteString(abandoned, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"); err != nil {
			t.Fatal(err)
		}
		testkit.Must(t, abandoned.Close())
		if _, err := io.WriteString(waiting, "*1\r\n$4\r\nPING\r\n"); err != nil {
			t.Fatal(err)
		}
		node.Resume()
		eventually(t, func() bool { return slices.Contains(node.Keys(), "k") })
		testkit.Must(t, waiting.SetReadDeadline(time.Now().Add(10*time.Second)))
		reply := make([]byte, 7)
		if _, err := io.ReadFull(waiting, reply); err != nil || string(reply) != "+PONG\r\n" {
			t.Errorf("got %q, %v; want PONG", reply, err)
		}
	})
}

func TestStoppingAHungNodeLosesWhatItHadNotRead(t *testing.T) {
	both(t, func(t *testing.T) {
		c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		node := c.Node(0)
		conn, err := node.Dial(t.Context())
		testkit.Must(t, err)
		defer conn.Close()
		node.Hang()
		if _, err := io.WriteString(conn, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"); err != nil {
			t.Fatal(err)
		}
		node.Stop()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("reading from the dead node: got %v; want EOF", err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("writing to the dead node: got %v; want a broken pipe", err)
		}
		node.Start()
		if err := c.Clients()[0].Ping(t.Context()).Err(); err != nil {
			t.Fatalf("a node that is started hangs no more; got %v", err)
		}
		if got := node.Keys(); len(got) != 0 {
			t.Errorf("got keys %q; want none", got)
		}
	})
}

func TestCloseLeavesNoGoroutineAndIsIdempotent(t *testing.T) {
	// A bubble panics when it ends with goroutines in it.
	synctest.Test(t, func(t *testing.T) {
		c, err := redlocktest.Run(5, redlocktest.WithoutFounding())
		testkit.Must(t, err)
		for _, client := range append(c.Clients(), c.NewClients()...) {
			mustSet(t, client, "k", "v", time.Minute)
		}
		c.Node(3).Hang()
		c.Node(4).Stop()
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		c.Node(4).Start()
		if _, err := c.Node(4).Dial(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a closed cluster started again: %v", err)
		}
	})
}

// A test must not fail because the machine was slow when its nodes were started.
func TestNodesThatAreSlowToStartAreFounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		for _, n := range c.Nodes() {
			n.Hang()
			time.AfterFunc(4*time.Second, n.Resume) // a default Locker gives up after 250 ms
		}
		if err := redlocktest.Found(c); err != nil {
			t.Error(err)
		}
	})
}

func TestNobodyIsDialledForAContextThatHasEnded(t *testing.T) {
	c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if conn, err := c.Node(0).Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v; want the context's error", conn, err)
	}
}

func TestRunRefusesFewerThanOneNode(t *testing.T) {
	for _, n := range []int{0, -1} {
		if _, err := redlocktest.Run(n); err == nil {
			t.Errorf("%d nodes: got no error", n)
		}
	}
}

// eventually waits for what another goroutine does by itself.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to pass within 10 s")
		}
		time.Sleep(time.Millisecond)
	}
}
