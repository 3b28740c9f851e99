package fencing_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

// wantAgreement puts random tokens of both kinds to a guard, whose resource "r"
// has seen nothing, and wants it to do what Seen.Accept does. compare looks at
// what the guard then keeps.
func wantAgreement(t *testing.T, rng *rand.Rand, kinds int, write func(context.Context, redlock.Token) error, compare func(fencing.Seen)) {
	t.Helper()
	var seen fencing.Seen
	for range 40 {
		token, shared := redlock.Token(rng.Uint64N(12)+1), rng.IntN(kinds) > 0
		ctx := t.Context()
		if shared {
			ctx = sharing(t, "r", token)
		}
		next, want := seen.Accept("r", token, shared)
		got := write(ctx, token)
		if (got == nil) != (want == nil) || want != nil && got.Error() != want.Error() {
			t.Fatalf("%d, shared %t, after %+v: got %v; want %v", token, shared, seen, got, want)
		}
		compare(next)
		seen = next
	}
}

func TestMemoryAgreesWithTheRule(t *testing.T) {
	for seed := range uint64(200) {
		var guard fencing.Memory
		wantAgreement(t, rand.New(rand.NewPCG(seed, 1)), 2, func(ctx context.Context, token redlock.Token) error {
			return guard.Write(ctx, "r", token, func(context.Context) error { return nil })
		}, func(want fencing.Seen) {
			if got := guard.Highest("r"); got != want.Highest() {
				t.Fatalf("got %d; want %d", got, want.Highest())
			}
		})
	}
}

// With kinds 1 all tokens are exclusive: then what the key holds is what it always
// held.
func TestRedisAgreesWithTheRule(t *testing.T) {
	guard, client, srv := newRedis(t)
	for kinds, seeds := range map[int]uint64{1: 10, 2: 30} {
		for seed := range seeds {
			srv.FlushAll()
			wantAgreement(t, rand.New(rand.NewPCG(seed, 2)), kinds, func(ctx context.Context, token redlock.Token) error {
				return guard.Do(ctx, "r", token, "SET", "doc", token.String()).Err()
			}, func(want fencing.Seen) {
				text := client.Get(t.Context(), guard.TokenKey("r")).Val()
				if text != want.String() || kinds == 1 && text != want.Exclusive.String() {
					t.Fatalf("got %q in the key; want %q", text, want)
				}
				if got, err := guard.Highest(t.Context(), "r"); got != want.Highest() || err != nil {
					t.Fatalf("got %d, %v; want %d", got, err, want.Highest())
				}
			})
		}
	}
}

// By HTTP: the kind travels in a header, and a refusal comes back as it was.
func TestHTTPAgreesWithTheRule(t *testing.T) {
	for seed := range uint64(20) {
		var guard fencing.Memory
		put := putting(t, "r", &guard)
		wantAgreement(t, rand.New(rand.NewPCG(seed, 3)), 2, put, func(want fencing.Seen) {
			if got := guard.Highest("r"); got != want.Highest() {
				t.Fatalf("got %d; want %d", got, want.Highest())
			}
		})
	}
}
