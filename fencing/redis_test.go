package fencing_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/pausedholder"
)

// These tests run on miniredis; the guardtest module has the same guard on a
// real server.
func newRedis(t *testing.T) (*fencing.Redis, *redis.Client, *miniredis.Miniredis) {
	t.Helper()
	srv := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	t.Cleanup(func() { client.Close() })
	return fencing.NewRedis(client), client, srv
}

func TestRedisRefusesThePausedHolder(t *testing.T) {
	guard, client, _ := newRedis(t)
	ctx := t.Context()
	plain := pausedholder.Run(func(_ redlock.Token, v string) error {
		return client.Set(ctx, "doc", v, 0).Err()
	})
	plainLast := client.Get(ctx, "doc").Val()
	guarded := pausedholder.Run(func(token redlock.Token, v string) error {
		return guard.Do(ctx, "r", token, "SET", "doc", v).Err()
	})
	wantScenario(t, "r", plain, guarded, plainLast, client.Get(ctx, "doc").Val())
}

func TestRedisRefusesBadInputAndWritesNothing(t *testing.T) {
	guard, client, srv := newRedis(t)
	ctx := t.Context()
	for _, tt := range []struct {
		name     string
		resource string
		token    redlock.Token
		stored   string // under the token key
		want     error
	}{
		{"no name", "", 1, "", fencing.ErrInvalidResource},
		{"zero", "r", 0, "", fencing.ErrZeroToken},
		{"above the largest", "r", redlock.MaxToken + 1, "", fencing.ErrTokenRange},
		{"a word in the token's place", "r", 1, "word", fencing.ErrCorrupt},
		{"a fraction", "r", 1, "0.5", fencing.ErrCorrupt},
		{"hexadecimal", "r", 1, "0x1", fencing.ErrCorrupt},
		{"too long to compare exactly", "r", 1, strings.Repeat("1", 17), fencing.ErrCorrupt},
		{"zero in the token's place", "r", 1, "0", fencing.ErrCorrupt},
		{"no number of sharers", "r", 1, "0 0", fencing.ErrCorrupt},
		{"a number of sharers below the other", "r", 9, "8 7", fencing.ErrCorrupt},
		{"the same number twice", "r", 9, "8 8", fencing.ErrCorrupt},
		{"three numbers", "r", 9, "6 7 8", fencing.ErrCorrupt},
		{"a word behind a number", "r", 9, "6 word", fencing.ErrCorrupt},
		{"sharers' number too long to compare exactly", "r", 9, "6 " + strings.Repeat("1", 17), fencing.ErrCorrupt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv.FlushAll()
			if tt.stored != "" {
				client.Set(ctx, guard.TokenKey(tt.resource), tt.stored, 0)
			}
			if err := guard.Do(ctx, tt.resource, tt.token, "SET", "doc", "bad").Err(); !errors.Is(err, tt.want) {
				t.Errorf("got %v; want %v", err, tt.want)
			}
			if client.Exists(ctx, "doc").Val() != 0 || client.Get(ctx, guard.TokenKey(tt.resource)).Val() != tt.stored {
				t.Errorf("written: %s", srv.Dump())
			}
			if tt.stored != "" {
				if _, err := guard.Highest(ctx, tt.resource); !errors.Is(err, fencing.ErrCorrupt) {
					t.Errorf("Highest: got %v; want ErrCorrupt", err)
				}
			}
		})
	}
}

func TestRedisKeepsTheClientsErrors(t *testing.T) {
	testkit.Full(t)
	guard, _, srv := newRedis(t)
	if err := guard.Do(t.Context(), "r", 1, "GET", "nothing").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("got %v; want redis.Nil", err)
	}
	srv.Close()
	err := guard.Do(t.Context(), "r", 1, "SET", "doc", "x").Err()
	if err == nil || errors.Is(err, fencing.ErrStale) || errors.Is(err, fencing.ErrCorrupt) {
		t.Errorf("got %v; want the client's own error", err)
	}
	if _, err := guard.Highest(t.Context(), "r"); err == nil || errors.Is(err, fencing.ErrCorrupt) {
		t.Errorf("Highest: got %v; want the client's own error", err)
	}
}

// What the prologue can't do, as its comment says: Redis undoes nothing of a MULTI.
func TestTheCommandsBesideAPrologueAreNotGuarded(t *testing.T) {
	guard, client, _ := newRedis(t)
	ctx := t.Context()
	if err := guard.Do(ctx, "r", 7, "SET", "doc", "new").Err(); err != nil {
		t.Fatal(err)
	}
	var guarded *redis.Cmd
	_, _ = client.TxPipelined(ctx, func(p redis.Pipeliner) error { // each has its own error
		guarded = p.Eval(ctx, fencing.RedisPrologue()+"return redis.call('SET', KEYS[2], 'stale')", []string{guard.TokenKey("r"), "doc"}, "5")
		p.Set(ctx, "beside", "stale", 0)
		return nil
	})
	if err := guarded.Err(); err == nil || !strings.HasPrefix(err.Error(), "FENCED ") {
		t.Errorf("the script: got %v; want FENCED", err)
	}
	if doc, beside := client.Get(ctx, "doc").Val(), client.Get(ctx, "beside").Val(); doc != "new" || beside != "stale" {
		t.Errorf("got doc %q, beside %q; want the script's write refused, and the other one done", doc, beside)
	}
}

func TestRedisPrologueRefusesWhatIsNoTokenInItsArgument(t *testing.T) {
	guard, client, _ := newRedis(t)
	ctx := t.Context()
	for _, argument := range []string{"", "0", "07", "-1", "word", "5 ", "5 exclusive", "5  shared", "5shared", "shared", strings.Repeat("1", 17)} {
		err := client.Eval(ctx, fencing.RedisPrologue()+"return redis.call('SET', KEYS[1], 'x')", []string{guard.TokenKey("r"), "doc"}, argument).Err()
		if err == nil || !strings.HasPrefix(err.Error(), "FENCEBAD ") {
			t.Errorf("%q: got %v; want FENCEBAD", argument, err)
		}
	}
	if n := client.Exists(ctx, "doc", guard.TokenKey("r")).Val(); n != 0 {
		t.Errorf("got %d keys; want nothing written", n)
	}
}
