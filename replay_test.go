package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// Replies get lost, and a middlebox may send a command twice: each script, run
// twice in a row, must give what it gave, and leave what it left.

// replayed is one script call on one state of a node.
type replayed struct {
	script string
	keys   []string
	args   []any
	again  string // what the second run gives, where it is another word for the same
}

const (
	replayEpoch = "e1"
	replayKey   = "orders/42"
	replayOwner = "mine"
	replayDead  = lua.TombstoneKey + replayOwner
)

// replayStates prepare a node.
var replayStates = map[string]func(ctx context.Context, c redis.UniversalClient) error{
	"free": func(context.Context, redis.UniversalClient) error { return nil },
	"ours": func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, replayKey, replayOwner, 5*time.Second).Err()
	},
	"another's": func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, replayKey, "another", 5*time.Second).Err()
	},
	"another's, without an end": func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, replayKey, "another", 0).Err()
	},
	holes: func(ctx context.Context, c redis.UniversalClient) error {
		return c.RPush(ctx, replayKey, "a").Err()
	},
	"given up": func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, replayDead, 1, 5*time.Second).Err()
	},
	"of another epoch": func(ctx context.Context, c redis.UniversalClient) error {
		return c.HSet(ctx, lua.NodeKey, "epoch", "e2").Err()
	},
	"of no epoch": func(ctx context.Context, c redis.UniversalClient) error {
		return c.Del(ctx, lua.NodeKey).Err()
	},
	"at the counter's end": func(ctx context.Context, c redis.UniversalClient) error {
		return c.HSet(ctx, lua.NodeKey, replayStripe(), strconv.FormatUint(uint64(redlock.MaxToken), 10)).Err()
	},
}

// holes is the state in which each try of an acquire leaves a hole in the counter.
const holes = "of another type"

func replayStripe() string { return strconv.FormatInt(lua.StripeOf(replayKey), 10) }

// replayCalls are the scripts with arguments as the library gives them.
func replayCalls() []replayed {
	const other, otherOwner = "orders/43", "mine too"
	stripe, hint, token := replayStripe(), 1000, 2000
	otherStripe := strconv.FormatInt(lua.StripeOf(other), 10)
	otherDead := lua.TombstoneKey + otherOwner
	return []replayed{
		{"acquire", []string{replayKey, lua.NodeKey, replayDead}, []any{replayOwner, 9000, hint, stripe, replayEpoch}, ""},
		{
			"acquire_batch",
			[]string{lua.NodeKey, replayKey, other, replayDead, otherDead},
			[]any{replayEpoch, stripe, otherStripe, replayOwner, otherOwner, 9000, 9000, hint, hint},
			"",
		},
		{"raise", []string{replayKey, lua.NodeKey}, []any{replayOwner, stripe, token, replayEpoch}, ""},
		{"extend", []string{lua.NodeKey, replayKey, other}, []any{replayEpoch, replayOwner, otherOwner, 9000, 9000}, ""},
		{
			"reseed",
			[]string{lua.NodeKey, replayKey, replayDead},
			[]any{replayEpoch, stripe, replayOwner, 9000, token},
			"",
		},
		// A release that finds nothing is as good as one that deletes.
		{"release", []string{replayKey}, []any{replayOwner}, "0"},
		{"release", []string{replayKey, replayDead}, []any{replayOwner, 9000}, "0"},
		{"release_batch", []string{replayKey, other, replayDead}, []any{2, replayOwner, otherOwner, 9000}, "0"},
	}
}

// replay runs every call twice on every state.
func replay(t *testing.T, c redis.UniversalClient) {
	t.Helper()
	ctx := t.Context()
	for name, prepare := range replayStates {
		for _, call := range replayCalls() {
			what := fmt.Sprintf("%s where the name is %s", call.script, name)
			must(t, c.FlushAll(ctx).Err())
			must(t, c.HSet(ctx, lua.NodeKey, "epoch", replayEpoch, "base", 500).Err())
			must(t, prepare(ctx, c))
			before := leases(t, c)
			first := runScript(t, c, call)
			after := contents(t, c)
			between := leases(t, c)
			second := runScript(t, c, call)
			if second != first && second != call.again && !tooNarrow(call.script, first, second) {
				t.Errorf("%s: got %s, and then %s; want the same", what, first, second)
			}
			if again := contents(t, c); !slices.Equal(again, after) && name != holes {
				t.Errorf("%s: the second run left\n%q, the first\n%q; want the same", what, again, after)
			}
			for key, left := range before {
				if now, there := between[key]; there && now < left-time.Second {
					t.Errorf("%s: the lease of %s fell from %v to %v; want none lowered", what, key, left, now)
				}
			}
			if left := leases(t, c)[replayKey]; left > 0 && left < between[replayKey]-time.Second {
				t.Errorf("%s: the second run lowered the lease from %v to %v", what, between[replayKey], left)
			}
		}
	}
}

// tooNarrow tells a difference that is only the remaining lease, which runs.
func tooNarrow(script, first, second string) bool {
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(second)
	return script == "acquire" && errA == nil && errB == nil && a <= -10 && b <= -10 && b-a < 1000 && b >= a
}

func runScript(t *testing.T, c redis.UniversalClient, call replayed) string {
	t.Helper()
	for _, s := range slices.Concat(lua.VotingScripts, lua.KeepingScripts) {
		if s.Name == call.script {
			reply, err := c.Eval(t.Context(), s.Body, call.keys, call.args...).Result()
			if err != nil {
				t.Fatalf("%s: %v", call.script, err)
			}
			if list, ok := reply.([]any); ok { // a batch's remaining leases run, too
				for i := range list {
					if n, ok := list[i].(int64); ok && n <= -10 {
						list[i] = "taken"
					}
				}
			}
			return fmt.Sprint(reply)
		}
	}
	t.Fatalf("there is no script %q", call.script)
	return ""
}

// contents are the keys and what they hold, less the leases.
func contents(t *testing.T, c redis.UniversalClient) []string {
	t.Helper()
	ctx := t.Context()
	keys, err := c.Keys(ctx, "*").Result()
	must(t, err)
	slices.Sort(keys)
	var out []string
	for _, key := range keys {
		kind := c.Type(ctx, key).Val()
		value := ""
		switch kind {
		case "string":
			value = c.Get(ctx, key).Val()
		case "hash":
			value = fmt.Sprint(c.HGetAll(ctx, key).Val())
		case "list":
			value = fmt.Sprint(c.LRange(ctx, key, 0, -1).Val())
		}
		out = append(out, key+" "+kind+" "+value)
	}
	return out
}

// leases are the remaining leases of the keys that end.
func leases(t *testing.T, c redis.UniversalClient) map[string]time.Duration {
	t.Helper()
	out := map[string]time.Duration{}
	keys, err := c.Keys(t.Context(), "*").Result()
	must(t, err)
	for _, key := range keys {
		if left := c.PTTL(t.Context(), key).Val(); left > 0 {
			out[key] = left
		}
	}
	return out
}

func TestEveryScriptTwiceGivesWhatItGaveInProcess(t *testing.T) {
	replay(t, redlocktest.Start(t, 1, redlocktest.WithoutFounding()).Client(0))
}

func TestEveryScriptTwiceGivesWhatItGaveOnARealServer(t *testing.T) {
	replay(t, redisserver.Need(t, redisserver.Config{}).Client())
}
