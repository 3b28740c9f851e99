package redlock_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// calling counts the calls of one script, over all nodes.
func calling(nodes *redlocktest.Cluster, script string) *atomic.Int32 {
	var calls atomic.Int32
	for _, n := range nodes.Nodes() {
		n.Intercept(func(args []string) redlocktest.Verdict {
			if scriptOf(args) == script {
				calls.Add(1)
			}
			return redlocktest.Pass()
		})
	}
	return &calls
}

// Where no other process waits, the end of a turn costs nothing.
func TestATurnGoesOnWhereNobodyElseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5, redlock.WithTurns(2))
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42")
		var line []<-chan gained
		for range 6 {
			line = append(line, wants(t, l))
		}
		asks := calling(nodes, "ask")
		for i, next := range line {
			must(t, lock.Release(t.Context()))
			g := got(t, next)
			if g.lock.Token() <= lock.Token() {
				t.Errorf("hand-over %d: got token %v; want one above %v", i, g.lock.Token(), lock.Token())
			}
			lock = g.lock
		}
		if n := asks.Load(); n != 0 {
			t.Errorf("got %d asks; want none: each goroutine was handed the lock", n)
		}
		mustRelease(t, lock)
		synctest.Wait()
		wantNoLocks(t, nodes, "after the release")
	})
}

// Nor is the name kept from those who stand in no line.
func TestTurnsEndInTheEnd(t *testing.T) {
	for _, tt := range []struct {
		held, turns  int
		place        int64
		recorded     bool
		beyond, more bool
	}{
		{held: 1, turns: 2, more: true},
		{held: 1, turns: 2, place: 5, recorded: true, more: true},
		{held: 2, turns: 2, beyond: true, more: true},
		{held: 2, turns: 2, place: 5, recorded: true},
		{held: 2, turns: 2, recorded: true},
		{held: 3, turns: 2, more: true},
		{held: 15, turns: 2, more: true},
		{held: 16, turns: 2},
		{held: 7, turns: 1, beyond: true, more: true},
		{held: 8, turns: 1},
	} {
		beyond, more := redlock.Succeeds(tt.held, tt.turns, tt.place, tt.recorded)
		if more != tt.more || more && beyond != tt.beyond {
			t.Errorf("%+v: got %t, beyond %t", tt, more, beyond)
		}
	}
}

// Who has come since the turn began has the next one.
func TestATurnEndsWhereSomebodyElseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5)
		l, other := separateLocker(t, nodes, redlock.WithTurns(2)), separateLocker(t, nodes)
		warm(t, l)
		warm(t, other)
		lock := mustAcquire(t, l, "orders/42")
		var line []<-chan gained
		for range 4 {
			line = append(line, wants(t, l))
		}
		rival := wants(t, other)
		time.Sleep(100 * time.Millisecond)
		must(t, lock.Release(t.Context()))
		lock = got(t, line[0]).lock // the second of the turn
		must(t, lock.Release(t.Context()))
		time.Sleep(time.Second)
		select {
		case <-line[1]:
			t.Fatal("a third of the turn went before who waited")
		default:
		}
		turn := got(t, rival)
		if turn.lock.Token() <= lock.Token() {
			t.Errorf("got token %v; want one above %v", turn.lock.Token(), lock.Token())
		}
		mustRelease(t, turn.lock)
		for _, next := range line[1:] {
			mustRelease(t, got(t, next).lock)
		}
		time.Sleep(time.Second)
		wantNoLocks(t, nodes, "in the end")
	})
}
