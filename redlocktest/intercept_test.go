package redlocktest_test

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/redlocktest"
)

// short is how long a client waits here for what does not come. What does come must
// come within it, on a busy machine, too.
const short = time.Second

func TestVerdictsDecideEffectAndReply(t *testing.T) {
	for _, tc := range []struct {
		name     string
		verdict  redlocktest.Verdict
		executed bool
		want     func(error) bool
	}{
		{"pass", redlocktest.Pass(), true, func(err error) bool { return err == nil }},
		{"error", redlocktest.ReplyError("OOM full"), false, func(err error) bool { return redis.HasErrorPrefix(err, "OOM") }},
		{"request lost", redlocktest.LoseRequest(), false, isTimeout},
		{"reply lost", redlocktest.LoseReply(), true, isTimeout},
		{"broken before", redlocktest.BreakBefore(), false, isEOF},
		{"broken after", redlocktest.BreakAfter(), true, isEOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			both(t, func(t *testing.T) {
				c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
				node := c.Node(0)
				opts := node.Options()
				opts.ReadTimeout = short
				client := redis.NewClient(opts)
				defer client.Close()
				node.Intercept(func(args []string) redlocktest.Verdict {
					if args[0] == "EVAL" {
						return tc.verdict
					}
					return redlocktest.Pass()
				})
				err := client.Eval(t.Context(), `return redis.call('SET', KEYS[1], 'v')`, []string{"k"}).Err()
				if !tc.want(err) {
					t.Errorf("got %v", err)
				}
				eventually(t, func() bool { return node.Calls("eval") == 1 }) // the client waits no longer than it does
				if tc.executed {
					eventually(t, func() bool { return len(node.Keys()) == 1 })
				}
				node.Intercept(nil)
				if err := client.Ping(t.Context()).Err(); err != nil {
					t.Errorf("the next command: %v", err)
				}
				if got := node.Calls("eval"); got != 1 {
					t.Errorf("got %d calls of EVAL; want 1", got)
				}
				if got := len(node.Keys()) == 1; got != tc.executed {
					t.Errorf("executed: got %t; want %t", got, tc.executed)
				}
			})
		})
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
func isEOF(err error) bool     { return errors.Is(err, io.EOF) }

// The rest of a pipeline whose connection broke must not be executed: a server
// that is cut off does not see it either.
func TestNothingRunsOnAConnectionAfterItsVerdict(t *testing.T) {
	for name, verdict := range map[string]redlocktest.Verdict{
		"lost": redlocktest.LoseReply(), "broken": redlocktest.BreakAfter(),
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T) {
				c := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
				opts := c.Node(0).Options()
				opts.ReadTimeout = short
				client := redis.NewClient(opts)
				defer client.Close()
				c.Node(0).Intercept(func(args []string) redlocktest.Verdict {
					if args[0] == "SET" && args[1] == "b" {
						return verdict
					}
					return redlocktest.Pass()
				})
				_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
					for _, k := range []string{"a", "b", "c"} {
						p.Set(t.Context(), k, "v", 0)
					}
					return nil
				})
				if err == nil {
					t.Error("got no error; want one for the lost replies")
				}
				eventually(t, func() bool { return len(c.Node(0).Keys()) >= 2 })
				if got := c.Node(0).Keys(); len(got) != 2 {
					t.Errorf("got keys %q; want a and b", got)
				}
			})
		})
	}
}
