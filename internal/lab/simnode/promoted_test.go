package simnode_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// asked is what a client asks of a node that may be another than it was, and what
// redlock rests on: it has none of the scripts, and does not bear the record's
// identity, no matter what its data are. before is the identity of the node that it was.
func asked(p *peer, before string) string {
	p.t.Helper()
	var hashes, out []string
	for _, name := range []string{"acquire", "acquire_batch", "raise", "extend", "reseed", "release", "read"} {
		hash := strings.Trim(p.do("EVAL", "return redis.sha1hex(ARGV[1])", "0", p.script(name)), `"`)
		hashes = append(hashes, hash)
		out = append(out, p.do("EVALSHA", hash, "0"))
	}
	out = append(out, p.do(append([]string{"SCRIPT", "EXISTS"}, hashes...)...))
	out = append(out, p.take(call("read", []string{node}, "0")), p.take(call("install", []string{node}, "nonce-1", "RUN", "1", "e2", "c1", "a", "30000", "0", "", "", "", "1", "", "", "", "", "", "")))
	return strings.NewReplacer(before, "BEFORE", ends(before), "BEFORE").Replace(strings.Join(append(out, p.stored()), "\n"))
}

// member makes a member of a blank node, with a lock.
func member(p *peer) {
	p.t.Helper()
	p.do("FLUSHALL")
	p.do("SCRIPT", "FLUSH")
	p.take(call("notice", []string{node}, "nonce-1", "", ""))
	p.take(call("install", []string{node}, "nonce-1", "RUN", "1", "e1", "c1", "a", "30000", "0", "", "", "", "1", "", "", "", "", "", ""))
	if got := p.take(call("acquire", []string{"name-0", node}, "owner-0", "3600000", "0", "7", "e1")); got != ":1" {
		p.t.Fatalf("a member replies %s", got)
	}
}

// A replica that is promoted in a node's place, and a restart, are to virtual runs
// one and the same: another process with the data of then. So they are to redlock.
func TestAPromotedReplicaIsAnotherProcessWithItsData(t *testing.T) {
	servers := testserver.Need(t, 2, redisserver.Config{AOF: redisserver.FsyncAlways})
	master := newRealPeer(t, servers[0])
	member(master)
	host, port, _ := net.SplitHostPort(servers[0].Addr())
	c := servers[1].Client()
	until(t, "the replica has all", func() bool {
		_ = c.ReplicaOf(t.Context(), host, port).Err()
		return strings.Contains(c.Info(t.Context(), "replication").Val(), "master_link_status:up") && c.Exists(t.Context(), "name-0").Val() == 1
	})
	testkit.Must(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
	promoted := newRealPeer(t, servers[1])
	want := asked(promoted, master.run)

	testkit.Must(t, servers[0].Kill())
	testkit.Must(t, servers[0].Restart())
	restarted := newRealPeer(t, servers[0])
	if got := asked(restarted, master.run); got != want {
		t.Errorf("a restarted server: got\n%s; want what a promoted one says\n%s", got, want)
	}
	old, n := newSimPeer(t)
	member(old)
	data := n.Copy()
	n.Crash()
	n.Wipe()
	n.Load(data)
	n.Start()
	again := newSession(t, n)
	if got := asked(again, old.run); got != want {
		t.Errorf("got\n%s; want\n%s", got, want)
	}
	if !strings.Contains(want, "BEFORE") || !strings.Contains(want, "NOSCRIPT") || !strings.Contains(want, `"owner-0"`) {
		t.Errorf("got\n%s; want the earlier record, no script, and the lock: else this shows nothing", want)
	}
}

// until polls a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not so in time: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
