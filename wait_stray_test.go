package redlock_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// Anyone who may publish can name anything in a call. A Locker sends nothing for a name
// that it never stood in line for, and leaves the line of one that it did.
func TestACallForANameThatWasNeverWaitedForIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		left := mustAcquire(t, l, "orders/41")
		go func() { _, _ = other.Acquire(t.Context(), "orders/41", redlock.WithWait(time.Second)) }()
		waiting := wants(t, other)
		mustRelease(t, mustAcquire(t, other, "orders/40")) // held, and never waited for
		time.Sleep(2 * time.Second)
		must(t, left.Release(t.Context()))
		time.Sleep(time.Second)
		sent := map[string]*atomic.Int64{"secret/1": {}, "orders/40": {}, "orders/41": {}, "": {}}
		at := slices.IndexFunc(nodes.Nodes(), func(n *redlocktest.Node) bool { // one may have found the name free, and keep no entry
			return n.Miniredis().Exists("redlock:queue:orders/42")
		})
		node := nodes.Node(at)
		node.Intercept(func(args []string) redlocktest.Verdict {
			for name, n := range sent {
				if strings.HasPrefix(scriptOf(args), "release") && slices.Contains(args, name) {
					n.Add(1)
				}
			}
			return redlocktest.Pass()
		})
		id, err := node.Miniredis().ZMembers("redlock:queue:orders/42")
		must(t, err)
		for name := range sent {
			if heard := node.Miniredis().Publish("redlock:wake:"+id[0], name); heard != 1 {
				t.Fatalf("%d heard the call; want the process that waits", heard)
			}
		}
		time.Sleep(time.Second)
		for name, n := range sent {
			if want := map[bool]int64{true: 1}[name == "orders/41"]; n.Load() != want {
				t.Errorf("a call for %q sent %d commands; want %d", name, n.Load(), want)
			}
		}
		node.Intercept(nil)
		mustRelease(t, lock)
		mustRelease(t, got(t, waiting).lock)
	})
}

// On a server whose ACL lacks the name, a call for it took the node from all names
// until the leave's lease was over.
func TestAForgedCallTakesNoServerFromAnyName(t *testing.T) {
	servers := testserver.Need(t, 3, redisserver.Config{Users: []string{"lock on >secret &* ~redlock:* ~orders/* ~warm +@all"}})
	var clients []redis.UniversalClient
	for _, s := range servers {
		clients = append(clients, clientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "lock", "secret" }))
	}
	l, other := lockerWith(t, clients), lockerWith(t, clients)
	admitted(t, l)
	warm(t, l)
	mustAcquire(t, l, "orders/42")
	go func() { _, _ = other.Acquire(t.Context(), "orders/42") }()
	admins := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		admins[i] = clientOf(t, s)
	}
	var server *redisserver.Server // one that was told who waits: one whose reply nobody waited for may not be
	var admin redis.UniversalClient
	var id []string
	pollUntil(t, 5*time.Second, "the other stands in line", func() bool {
		for i := range servers {
			server, admin = servers[i], admins[i]
			if id = admin.ZRange(t.Context(), "redlock:queue:orders/42", 0, -1).Val(); len(processes(id)) == 1 {
				return true
			}
		}
		return false
	})
	before := scriptCalls(t, server)
	for _, name := range []string{"secret/1", "orders/42"} { // the second has the node asked, behind what the first brings
		must(t, admin.Publish(t.Context(), "redlock:wake:"+id[0], name).Err())
	}
	pollUntil(t, 5*time.Second, "the second call was answered by an ask", func() bool { return scriptCalls(t, server) > before })
	stats := admin.Info(t.Context(), "commandstats").Val()
	for line := range strings.Lines(stats) {
		if strings.HasPrefix(line, "cmdstat_evalsha:") && !strings.Contains(line, "rejected_calls=0") {
			t.Errorf("the server refused a script: %s; want none sent for a name that nobody wanted", line)
		}
	}
	pollUntil(t, 5*time.Second, "the server votes for another name", func() bool {
		lock := mustAcquire(t, other, "orders/99")
		defer mustRelease(t, lock)
		return keyOn(t, server, "orders/99") != ""
	})
}
