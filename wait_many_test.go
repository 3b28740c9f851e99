package redlock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
)

// One process waits for many names that stay held: what it costs the nodes is
// few signs of life, and few looks; and nothing is left when it goes. The
// looks of 250 names are one command: with ten thousand it was tried once, and is
// too slow for nodes in memory to be tried each time.
func TestSearchManyNamesWaitedForAtTheCostOfFewCommands(t *testing.T) {
	testkit.Unraced(t)
	names := 300
	if testkit.Deep() {
		names = 2000
	}
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		for i := range names {
			for _, n := range nodes.Nodes() {
				key := fmt.Sprintf("orders/%d", i)
				must(t, n.Miniredis().Set(key, "00000000-0000-4000-8000-000000000000"))
				n.Miniredis().SetTTL(key, time.Hour)
			}
		}
		before := footprint()
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range names {
			all.Go(func() {
				if lock, err := l.Acquire(ctx, fmt.Sprintf("orders/%d", i)); err == nil {
					t.Errorf("a name that is held was granted, token %d", lock.Token())
				}
			})
		}
		time.Sleep(30 * time.Second) // all stand in line
		each := (footprint() - before) / names
		sent := func() (n int) {
			for _, node := range nodes.Nodes() {
				n += node.Calls()
			}
			return n
		}
		const idle = 30
		start := sent()
		time.Sleep(idle * time.Second)
		persecond := float64(sent()-start) / idle
		t.Logf("%d waiters: %d B each, that of the nodes in memory included; %.1f commands a second over five nodes", names, each, persecond)
		if persecond >= 55 { // 40 of them look at the clocks, and at who answers; 12.5 are signs of life
			t.Errorf("got %.1f commands a second; want fewer than 55", persecond)
		}
		if each > 32<<10 {
			t.Errorf("got %d B a waiter; want 32 KiB at most", each)
		}
		leave()
		all.Wait()
		time.Sleep(redlock.DefaultTTL)
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("left behind: %d queues", len(keys))
		}
	})
}

// footprint is what the heap and the stacks hold.
func footprint() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}
