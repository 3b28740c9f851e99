package locktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// LocksOn are the keys on an in-process node that are not the library's own.
func LocksOn(node *redlocktest.Node) []string {
	return slices.DeleteFunc(node.Keys(), func(key string) bool { return strings.HasPrefix(key, "redlock:") })
}

// WantNoLocks fails the test if a node still has a lock's key, or more of the
// library's own than the one hash.
func WantNoLocks(t *testing.T, nodes *redlocktest.Cluster, when string) {
	t.Helper()
	for _, n := range nodes.Nodes() {
		if left := LocksOn(n); len(left) > 0 {
			t.Errorf("%s: %s has %q; want no lock", when, n.Name(), left)
		}
	}
}

// WantOnlyRecords is WantNoLocks once the tombstones are gone too.
func WantOnlyRecords(t *testing.T, nodes *redlocktest.Cluster, when string) {
	t.Helper()
	for _, n := range nodes.Nodes() {
		left := slices.DeleteFunc(n.Keys(), func(key string) bool { return key == lua.NodeKey })
		if len(left) > 0 {
			t.Errorf("%s: %s has %q; want only its record", when, n.Name(), left)
		}
	}
}

// ScriptOf names the script that an intercepted command runs; empty if none.
func ScriptOf(args []string) string {
	if len(args) < 2 || args[0] != "EVALSHA" {
		return ""
	}
	for _, s := range slices.Concat(lua.VotingScripts, lua.KeepingScripts) {
		if s.Hash == args[1] {
			return s.Name
		}
	}
	return ""
}

// OnScripts applies the verdict to every call of the scripts whose names begin
// so, and passes the rest.
func OnScripts(prefix string, v redlocktest.Verdict) redlocktest.Interceptor {
	return func(args []string) redlocktest.Verdict {
		if name := ScriptOf(args); name != "" && strings.HasPrefix(name, prefix) {
			return v
		}
		return redlocktest.Pass()
	}
}

// Slowly has every call of the scripts whose names begin so take its time.
func Slowly(prefix string, d time.Duration) redlocktest.Interceptor {
	return func(args []string) redlocktest.Verdict {
		if strings.HasPrefix(ScriptOf(args), prefix) {
			time.Sleep(d)
		}
		return redlocktest.Pass()
	}
}

// FirstOnScripts is OnScripts for the first such call on each node.
func FirstOnScripts(nodes *redlocktest.Cluster, prefix string, v redlocktest.Verdict) {
	for _, n := range nodes.Nodes() {
		var done atomic.Bool
		all := OnScripts(prefix, v)
		n.Intercept(func(args []string) redlocktest.Verdict {
			if all(args) != redlocktest.Pass() && done.CompareAndSwap(false, true) {
				return v
			}
			return redlocktest.Pass()
		})
	}
}

// AdvanceClocks makes the clocks of nodes, in a bubble, run ahead by so much until undo is called:
// SetTime by itself makes a clock stand still.
func AdvanceClocks(by time.Duration, nodes ...*redlocktest.Node) (undo func()) {
	set := func() {
		for _, n := range nodes {
			n.Miniredis().SetTime(time.Now().Add(by))
		}
	}
	set()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				set()
			case <-stop:
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// FoundedAs writes a member's record, as a founder did that got no further.
func FoundedAs(nodes *redlocktest.Cluster, i int, cluster string) {
	n := nodes.Node(i)
	n.Miniredis().HSet(lua.NodeKey, "format", "4", "epoch", fmt.Sprintf("epoch %d", i), "cluster", cluster,
		"names", strings.Join(nodes.Names(), "\n"), "maxttl", "30000", "run", Identity(n), "base", "7")
}

// Identity is what a record names the node by.
func Identity(node *redlocktest.Node) string {
	c := redis.NewClient(node.Options())
	defer func() { _ = c.Close() }()
	info := c.InfoMap(context.Background(), "server", "replication").Item
	return info("Server", "run_id") + "." + info("Replication", "master_replid")
}

// DeleteName takes a name away on all nodes, as an operator might.
func DeleteName(nodes *redlocktest.Cluster, name string) {
	for _, n := range nodes.Nodes() {
		n.Miniredis().Del(name)
	}
}

// NoRight is what a server says to a user that may not touch a name.
const NoRight = "NOPERM this user has no permissions to access one of the keys used as arguments"

// Refusing answers so to every script that is called with the name.
func Refusing(name, reply string) redlocktest.Interceptor {
	return func(args []string) redlocktest.Verdict {
		if ScriptOf(args) != "" && slices.Contains(args, name) {
			return redlocktest.ReplyError(reply)
		}
		return redlocktest.Pass()
	}
}

// SweptFates are what befalls a command in a sweep.
var SweptFates = map[string]redlocktest.Verdict{
	"break before": redlocktest.BreakBefore(), "break after": redlocktest.BreakAfter(),
	"lose request": redlocktest.LoseRequest(), "lose reply": redlocktest.LoseReply(),
}

// Members are the owner values that share orders/42 on a node.
func Members(t *testing.T, n *redlocktest.Node) []string {
	t.Helper()
	if !n.Miniredis().Exists("orders/42") {
		return nil
	}
	all, err := n.Miniredis().ZMembers("orders/42")
	testkit.Must(t, err)
	return slices.DeleteFunc(all, func(m string) bool { return m == lua.SharedMark })
}

// Stranger has somebody hold orders/42 on every node, with a value of redlock's
// own form: nobody looks there without a hint, but for its end.
func Stranger(t *testing.T, nodes *redlocktest.Cluster) {
	t.Helper()
	for _, n := range nodes.Nodes() {
		testkit.Must(t, n.Miniredis().Set("orders/42", "00000000-0000-4000-8000-000000000000"))
		n.Miniredis().SetTTL("orders/42", time.Hour)
	}
}

// FreeName ends what the stranger holds on some nodes, without a word.
func FreeName(nodes *redlocktest.Cluster, which ...int) {
	for _, i := range which {
		nodes.Node(i).Miniredis().Del("orders/42")
	}
}

// CallWaiters has nodes call the one process that waits for orders/42, no matter what is held
// there: a hint may be forged.
func CallWaiters(t *testing.T, nodes *redlocktest.Cluster, which ...int) {
	t.Helper()
	var ids []string
	for _, n := range nodes.Nodes() { // it stands on a quorum at least
		if on, err := n.Miniredis().ZMembers("redlock:queue:orders/42"); err == nil {
			ids = Processes(on)
		}
	}
	if len(ids) == 0 {
		return // it was granted, and stands in line no more
	}
	for _, i := range which {
		testkit.Must(t, nodes.Clients()[i].Publish(t.Context(), "redlock:wake:"+ids[0], "orders/42").Err())
	}
}

// Holders are the nodes that have the key of a lock, by its owner value.
func Holders(nodes *redlocktest.Cluster) map[string][]int {
	on := map[string][]int{}
	for i, n := range nodes.Nodes() {
		if owner, err := n.Miniredis().Get("orders/42"); err == nil {
			on[owner] = append(on[owner], i)
		}
	}
	return on
}

// CountSent counts what each node is sent from now on, by script or by command.
func CountSent(nodes *redlocktest.Cluster) func(node int, what string) int {
	var mu sync.Mutex
	counts := map[string]int{}
	for i, n := range nodes.Nodes() {
		n.Intercept(func(args []string) redlocktest.Verdict {
			what := ScriptOf(args)
			if what == "" {
				what = strings.ToLower(args[0])
			}
			mu.Lock()
			counts[fmt.Sprint(i, what)]++
			mu.Unlock()
			return redlocktest.Pass()
		})
	}
	return func(node int, what string) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[fmt.Sprint(node, what)]
	}
}
