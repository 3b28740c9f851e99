package guardtest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/pausedholder"
)

func openRedis(tb testing.TB) (*fencing.Redis, *redis.Client) {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: dsnOf(tb, redisAt)})
	tb.Cleanup(func() { client.Close() })
	if err := client.FlushAll(tb.Context()).Err(); err != nil {
		tb.Fatal(err)
	}
	return fencing.NewRedis(client), client
}

func TestRedisRefusesThePausedHolder(t *testing.T) {
	guard, client := openRedis(t)
	ctx := t.Context()
	plain := pausedholder.Run(func(_ redlock.Token, v string) error { return client.Set(ctx, "doc", v, 0).Err() })
	if err := errors.Join(plain.Early, plain.Next, plain.Late); err != nil {
		t.Fatalf("unguarded: got %v; want three writes", err)
	}
	if got := client.Get(ctx, "doc").Val(); got != pausedholder.PausedLate {
		t.Fatalf("unguarded: got %q; want the stale write %q", got, pausedholder.PausedLate)
	}
	guarded := pausedholder.Run(func(token redlock.Token, v string) error {
		return guard.Do(ctx, account, token, "SET", "doc", v).Err()
	})
	if err := errors.Join(guarded.Early, guarded.Next); err != nil {
		t.Fatalf("guarded: got %v; want both holders' writes", err)
	}
	wantStale(t, guarded.Late, account, pausedholder.PausedToken, pausedholder.NextToken)
	if got := client.Get(ctx, "doc").Val(); got != pausedholder.NextValue {
		t.Errorf("guarded: got %q; want %q", got, pausedholder.NextValue)
	}
}

func TestRedisWritersLeaveANonDecreasingHistory(t *testing.T) {
	guard, client := openRedis(t)
	ctx := t.Context()
	var wg sync.WaitGroup
	var issued, most atomic.Uint64
	for w := range 8 {
		rng := rand.New(rand.NewPCG(uint64(w), 7))
		wg.Go(func() {
			for range 50 {
				token := issued.Add(1) + rng.Uint64N(10)
				for m := most.Load(); token > m && !most.CompareAndSwap(m, token); m = most.Load() {
				}
				err := guard.Do(ctx, account, redlock.Token(token), "RPUSH", "history", token).Err()
				if err != nil && !errors.Is(err, fencing.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var history []uint64
	for _, text := range client.LRange(ctx, "history", 0, -1).Val() {
		n, err := strconv.ParseUint(text, 10, 64)
		testkit.Must(t, err)
		history = append(history, n)
	}
	if !slices.IsSorted(history) || len(history) == 0 || history[len(history)-1] != most.Load() {
		t.Errorf("got %d; want it not to go backwards, and to end with %d", history, most.Load())
	}
}

// Doubles are exact below 2^53 only, and a Lua number that becomes text loses
// digits above 14.
func TestRedisComparesTheLargestTokensExactly(t *testing.T) {
	guard, _ := openRedis(t)
	ctx := t.Context()
	for _, token := range []redlock.Token{redlock.MaxToken - 1, redlock.MaxToken - 1, redlock.MaxToken} {
		if err := guard.Do(ctx, account, token, "SET", "doc", "x").Err(); err != nil {
			t.Errorf("%d: %v", token, err)
		}
		if got, err := guard.Highest(ctx, account); got != token || err != nil {
			t.Errorf("got %d, %v; want %d", got, err, token)
		}
	}
	err := guard.Do(ctx, account, redlock.MaxToken-1, "SET", "doc", "y").Err()
	wantStale(t, err, account, redlock.MaxToken-1, redlock.MaxToken)
	// As numbers, not as text: "9" is more than "10" by its letters.
	for _, token := range []redlock.Token{9, 10} {
		if err := guard.Do(ctx, "another", token, "SET", "doc", "x").Err(); err != nil {
			t.Errorf("%d: %v", token, err)
		}
	}
}

func TestRedisScriptsSeeTheirOwnKeysAndArguments(t *testing.T) {
	guard, client := openRedis(t)
	ctx := t.Context()
	const body = "return {#KEYS, #ARGV, KEYS[1], KEYS[2], ARGV[1]}"
	for name, text := range map[string]string{"plain": body, "with a shebang": "#!lua flags=allow-oom\n" + body} {
		t.Run(name, func(t *testing.T) {
			script := fencing.NewRedisScript(text)
			for range 2 { // the second time by its hash: the tables are new again
				got, err := guard.Run(ctx, script, account, 1, []string{"a", "b"}, "x").Slice()
				want := []any{int64(2), int64(1), "a", "b", "x"}
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("got %v, %v; want %v", got, err, want)
				}
			}
		})
	}
	// The prologue by other means than Run: the reply's first word is the code.
	err := client.Eval(ctx, fencing.RedisPrologue()+"return redis.call('SET', KEYS[1], ARGV[1])",
		[]string{guard.TokenKey("loaded"), "doc"}, 5, "five").Err()
	testkit.Must(t, err)
	err = client.Eval(ctx, fencing.RedisPrologue()+"return 1", []string{guard.TokenKey("loaded")}, 4).Err()
	if err == nil || err.Error() != "FENCED 5" {
		t.Errorf("got %v; want the reply FENCED 5", err)
	}
}

func TestRedisRefusesWhatIsNoTokenAndWritesNothing(t *testing.T) {
	guard, client := openRedis(t)
	ctx := t.Context()
	key := guard.TokenKey(account)
	for name, fill := range map[string]func(){
		"a word":   func() { client.Set(ctx, key, "word", 0) },
		"a list":   func() { client.RPush(ctx, key, "1") },
		"too long": func() { client.Set(ctx, key, strings.Repeat("1", 17), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			client.FlushAll(ctx)
			fill()
			before := client.Dump(ctx, key).Val()
			if err := guard.Do(ctx, account, 1, "SET", "doc", "bad").Err(); !errors.Is(err, fencing.ErrCorrupt) {
				t.Errorf("got %v; want ErrCorrupt", err)
			}
			if _, err := guard.Highest(ctx, account); !errors.Is(err, fencing.ErrCorrupt) {
				t.Errorf("Highest: got %v; want ErrCorrupt", err)
			}
			if client.Exists(ctx, "doc").Val() != 0 || client.Dump(ctx, key).Val() != before {
				t.Error("something was written")
			}
		})
	}
}

// What the body does wrong is the body's error, and not the guard's: WRONGTYPE
// says nothing of the token key here.
func TestRedisKeepsTheTokenOfACommandThatFails(t *testing.T) {
	guard, client := openRedis(t)
	ctx := t.Context()
	client.RPush(ctx, "list", "x")
	err := guard.Do(ctx, account, 5, "INCR", "list").Err()
	if err == nil || errors.Is(err, fencing.ErrCorrupt) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v; want the command's own WRONGTYPE", err)
	}
	wantStale(t, guard.Do(ctx, account, 4, "SET", "doc", "x").Err(), account, 4, 5)
}

func TestRedisEndsWithTheContext(t *testing.T) {
	guard, client := openRedis(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := guard.Do(ctx, account, 5, "SET", "doc", "x").Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want the context's error", err)
	}
	if client.Exists(t.Context(), "doc", guard.TokenKey(account)).Val() != 0 {
		t.Error("something was written")
	}
}
