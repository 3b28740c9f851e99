package redlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// slotReleases keeps what a node is sent by release_slot.lua.
func slotReleases(n *redlocktest.Node) (sent func() [][]any) {
	var mu sync.Mutex // guards all
	var all [][]any
	n.Intercept(func(args []string) redlocktest.Verdict {
		if len(args) > 1 && args[1] == lua.ReleaseSlotScript.Hash {
			command := make([]any, len(args))
			for i, a := range args {
				command[i] = a
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, command)
		}
		return redlocktest.Pass()
	})
	return func() [][]any {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// A leave of the slots' line says its place, and who waits anew stands behind it. So one that
// a node is sent again later, by the network or for a call that comes late, takes no entry
// of a later wait.
func TestALeaveThatComesAgainTakesNoEntryOfALaterWait(t *testing.T) {
	const line = lua.QueueKey + "redlock:slots:orders/42"
	for _, stray := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			held, other := mustAcquire(t, l, "orders/42", redlock.WithLimit(1)), separateLocker(t, nodes)
			ctx, quit := context.WithCancel(t.Context())
			left := make(chan error, 1)
			go func() {
				_, err := other.Acquire(ctx, "orders/42", redlock.WithLimit(1))
				left <- err
			}()
			time.Sleep(time.Second)
			ids, err := nodes.Node(0).Miniredis().ZMembers(line)
			if err != nil || len(ids) != 1 {
				t.Fatalf("got the line %q, %v; want one process", ids, err)
			}
			sent := make([]func() [][]any, 3)
			for i, n := range nodes.Nodes() {
				sent[i] = slotReleases(n)
			}
			quit()
			wantError(t, "the first wait", <-left, context.Canceled)
			synctest.Wait()
			if stray {
				for i, n := range nodes.Nodes() {
					sent[i] = slotReleases(n)
					must(t, nodes.Clients()[i].Publish(t.Context(), lua.WakeChannel+ids[0], lua.SlotKey("orders/42", 0)).Err())
				}
				synctest.Wait()
			}
			next := wants(t, other, redlock.WithLimit(1))
			time.Sleep(time.Second)
			for i, n := range nodes.Nodes() {
				leaves := sent[i]()
				if len(leaves) == 0 {
					t.Fatalf("stray: %v: node %d was sent no leave", stray, i)
				}
				for _, leave := range leaves {
					must(t, nodes.Clients()[i].Do(t.Context(), leave...).Err())
				}
				if in, err := n.Miniredis().ZMembers(line); err != nil || len(in) != 1 {
					t.Errorf("stray: %v: node %d has the line %q, %v; want the entry of who waits", stray, i, in, err)
				}
			}
			mustRelease(t, held)
			mustRelease(t, got(t, next).lock)
		})
	}
}
