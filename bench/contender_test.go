package main

import (
	"context"
	"strconv"
	"testing"
	"time"
)

// Every contender does what is measured of it: so many pairs as were asked for,
// none failed, and nothing stays on the masters but our record.
func TestContendersTakeAndReleaseWhatIsCounted(t *testing.T) {
	specs := append(field(openFloor), spec{name: "floor for many", masters: nodes, commands: scriptsOnly, open: openFloorLoad},
		spec{name: "redlock over default clients", masters: nodes, commands: scriptsOnly, open: openRedlockDefault})
	for _, sp := range specs {
		t.Run(sp.name, func(t *testing.T) {
			e := newTestEnv(t)
			c := open(t, sp.open, e)
			goroutines, pairs := 8, 25
			if sp.name == nameFloor {
				goroutines = 1 // it has one caller by design
			}
			s, err := measure(t.Context(), e, sp, c, goroutines, 0, pairs)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.pairs) != goroutines*pairs || s.failures != 0 {
				t.Fatalf("got %d pairs, %d failures (%v); want %d, 0", len(s.pairs), s.failures, s.last, goroutines*pairs)
			}
			if s.script <= 0 {
				t.Errorf("script time: got %v; want some", s.script)
			}
			awaitEmpty(t, e.servers)
		})
	}
}

// awaitEmpty waits for stragglers: a pair is over when a quorum has answered.
func awaitEmpty(t *testing.T, c cluster) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		var left []string
		for _, s := range c {
			keys, err := s.control.Keys(t.Context(), "*").Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				if k != nodeKey {
					left = append(left, k)
				}
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got keys %q on the masters; want none", left)
		}
	}
}

// The floor pays for the token's second round trip where one is needed;
// otherwise it would not be the same work.
func TestFloorRaisesUnevenTokens(t *testing.T) {
	e := newTestEnv(t)
	const name = "uneven"
	stripe := strconv.FormatInt(stripeOf(name), 10)
	for i, s := range e.servers[:3] {
		ahead := time.Now().UnixMicro() + int64(i+1)*1e12
		if err := s.control.HSet(t.Context(), nodeKey, "epoch", "bench", stripe, ahead).Err(); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, openFloorLoad, e).(*floorLoad)
	h, err := f.acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	token := h.(*floorLock).token
	if f.raises.Load() != 1 {
		t.Errorf("got %d raises; want 1", f.raises.Load())
	}
	same := 0
	for _, s := range e.servers {
		if v, err := s.control.HGet(t.Context(), nodeKey, stripe).Int64(); err == nil && v == token {
			same++
		}
	}
	if same < f.quorum {
		t.Errorf("token %d stands on %d nodes; want a quorum", token, same)
	}
	if err := h.release(t.Context()); err != nil {
		t.Error(err)
	}
	awaitEmpty(t, e.servers)
}

// A key that somebody else holds on a quorum is taken, for the floor too.
func TestFloorIsExcluded(t *testing.T) {
	for name, opener := range map[string]func(context.Context, *env) (contender, error){"one": openFloor, "many": openFloorLoad} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv(t)
			for _, s := range e.servers {
				if err := s.control.Set(t.Context(), "taken", "someone", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := open(t, opener, e).acquire(t.Context(), "taken"); err == nil {
				t.Error("got the lock; want an error")
			}
		})
	}
}
