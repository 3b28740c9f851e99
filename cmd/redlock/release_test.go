package main_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
)

// What release takes away of a key that is held by slots is each slot, from who holds
// it; it does not come back by renewals, and who waits for a slot is told. Without --yes
// nothing is taken.
func TestReleaseTakesAllSlotsAwayAndTellsWhoWaits(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	var held []*redlock.Lock
	for i, opts := range [][]redlock.AcquireOption{{redlock.WithRevocation()}, nil} {
		l := open(t, nodes, redlock.WithHolder(fmt.Sprintf("victim%d", i)), redlock.WithTTL(9*time.Second), redlock.WithPrefix("app/"))
		lock, err := l.Acquire(t.Context(), "k", append(opts, redlock.WithLimit(2))...)
		must(t, err)
		held = append(held, lock)
	}
	next := make(chan error, 1)
	waits := open(t, nodes, redlock.WithHolder("next"), redlock.WithTTL(9*time.Second), redlock.WithPrefix("app/"))
	go func() {
		_, err := waits.Acquire(t.Context(), "k", redlock.WithLimit(2))
		next <- err
	}()
	eventually(t, "two slots on three nodes, and one who waits", func() bool {
		r := run(t, nodes, "release", "app/k", "--force", "--node-timeout", "1s")
		r.want(t, 64, "would remove", "slot ", "--yes")
		return strings.Count(r.out, "would remove") == 6 &&
			strings.Contains(run(t, nodes, "status", "--node-timeout", "1s", "app/k").out, "slots: 2 held, 1 in line")
	})
	for i, lock := range held {
		if err := lock.Err(); err != nil {
			t.Fatalf("slot of victim %d: %v, without --yes; want it held", i, err)
		}
	}
	r := run(t, nodes, "release", "app/k", "--force", "--yes", "--node-timeout", "1s")
	r.want(t, 0, "removed", "slot 0: ", "slot 1: ", ": victim0/", ": victim1/")
	if n := strings.Count(r.out, "removed"); n < 6 || strings.Contains(r.out, "~") || strings.Contains(r.out, "nothing there") {
		t.Errorf("got %d slots removed; want two on each of three nodes, without marks:\n%s", n, r.out)
	}
	select {
	case err := <-next:
		if err != nil {
			t.Errorf("who waited: %v; want a slot", err)
		}
	case <-time.After(4 * time.Second): // by itself the first in line looks after eight
		t.Error("who waited was not told that a slot is free")
	}
	for i, lock := range held {
		eventually(t, "its holder knows", func() bool { return lock.Err() != nil })
		if err := lock.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("victim %d: %v; want it lost", i, err)
		}
	}
	for i, s := range servers {
		dead, err := s.Client().Keys(t.Context(), "redlock:dead:victim*").Result()
		if len(dead) != 2 || err != nil {
			t.Errorf("server %d: got tombstones %q, %v; want two", i, dead, err)
		}
	}
	run(t, nodes, "release", "app/k", "--force", "--yes", "--json", "--node-timeout", "1s").want(t, 0, `"slots":[{"slot":`, `"holder":"next/`, `"removed":true`)
	run(t, nodes, "release", "app/k", "--force", "--yes", "--node-timeout", "1s").want(t, 0, "nothing there")
}
