package redlocktest_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock/redlocktest"
)

// The node keeps loaded scripts itself: what a client sees of them is as on a server.
func TestScriptsAreLoadedKnownRunAndForgottenAsOnAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		client, ctx := nodes.Clients()[0], t.Context()
		sha := client.ScriptLoad(ctx, "return redis.call('INCR', KEYS[1])").Val()
		if got := client.ScriptExists(ctx, sha, "no hash").Val(); len(got) != 2 || !got[0] || got[1] {
			t.Errorf("got %v; want the script known, and the other not", got)
		}
		if got, err := client.EvalSha(ctx, strings.ToUpper(sha), []string{"n"}).Int(); got != 1 || err != nil {
			t.Errorf("got %d, %v; want 1", got, err)
		}
		nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
			if args[0] == "EVALSHA" {
				return redlocktest.BreakAfter()
			}
			return redlocktest.Pass()
		})
		if err := client.EvalSha(ctx, sha, []string{"n"}).Err(); err == nil {
			t.Error("got a reply; want the connection broken")
		}
		if got := client.Get(ctx, "n").Val(); got != "2" {
			t.Errorf("got %s; want the script run all the same", got)
		}
		nodes.Node(0).Intercept(nil)
		client.ScriptFlush(ctx)
		if err := client.EvalSha(ctx, sha, []string{"n"}).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
			t.Errorf("after a flush: got %v; want NOSCRIPT", err)
		}
		if err := client.ScriptLoad(ctx, "return return").Err(); err == nil {
			t.Error("what is no Lua was loaded; want it refused")
		}
	})
}
