package redlock_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// writeRefusals are what servers say that answer and do not write.
var writeRefusals = []string{
	"OOM command not allowed when used memory > 'maxmemory'.",
	"READONLY You can't write against a read only replica.",
	"MISCONF Redis is configured to save RDB snapshots, but is unable to.",
	"NOREPLICAS Not enough good replicas to write.",
}

func TestANodeThatRefusesWritesIsToldOnceAndWhenItIsOver(t *testing.T) {
	for _, reply := range writeRefusals {
		synctest.Test(t, func(t *testing.T) {
			told := &events{}
			l, nodes := newLocker(t, 3, told.option())
			warm(t, l)
			nodes.Node(1).Intercept(func(args []string) redlocktest.Verdict {
				if name := scriptOf(args); name != "" && name != "read" {
					return redlocktest.ReplyError(reply)
				}
				return redlocktest.Pass()
			})
			for range 5 {
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				time.Sleep(time.Second)
			}
			got := told.of(redlock.NodeRefusesWrites)
			if len(got) != 1 || got[0].Node != 1 || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), reply) {
				t.Fatalf("%s: got %v; want one event of node 1, with the reply", reply, got)
			}
			if down := told.of(redlock.NodeDown); len(down) > 0 {
				t.Errorf("%s: got %v; want no node down: it answers", reply, down)
			}
			if s := l.Stats().Nodes; !s[1].Refuses || s[0].Refuses || s[1].Down {
				t.Errorf("%s: got %+v; want node 1 alone to refuse", reply, s)
			}
			nodes.Node(1).Intercept(nil)
			rest := 4 * time.Second                   // an acquire may be over before its command leaves for node 1
			if strings.HasPrefix(reply, "READONLY") { // it was a replica: it forgot
				rest += redlock.DefaultMaxTTL + 5*time.Second
			}
			for range rest / time.Second {
				time.Sleep(time.Second)
				mustRelease(t, mustAcquire(t, l, "orders/42"))
			}
			synctest.Wait()
			over := told.of(redlock.NodeTakesWrites)
			if len(over) != 1 || over[0].Node != 1 || over[0].Duration < 5*time.Second || over[0].Duration > rest+7*time.Second {
				t.Errorf("%s: got %v; want that node 1 takes writes, after %v at the most", reply, over, rest+7*time.Second)
			}
			if l.Stats().Nodes[1].Refuses {
				t.Errorf("%s: node 1 refuses still; want it to take writes", reply)
			}
		})
	}
}

// A full memory refuses what takes memory, and nothing else: a renewal that a node
// confirms is no sign that it could grant a lock.
func TestARenewalIsNoSignThatANodeTakesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, nodes := newLocker(t, 3, told.option())
		lock := mustAcquire(t, l, "orders/42")
		nodes.Node(1).Intercept(onScripts("acquire", redlocktest.ReplyError(writeRefusals[0])))
		other := mustAcquire(t, l, "orders/43")
		synctest.Wait() // node 1 was asked, too
		mustRelease(t, other)
		time.Sleep(8 * time.Second) // two renewals
		if over := told.of(redlock.NodeTakesWrites); len(over) > 0 || len(told.of(redlock.NodeRefusesWrites)) != 1 {
			t.Errorf("got %v; want node 1 to refuse until it has granted a lock", over)
		}
		mustRelease(t, lock)
	})
}
