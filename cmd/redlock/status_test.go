package main_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	main "github.com/quorumkit/redlock/cmd/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// shown is what the tests read of status --json.
type shown struct {
	Key, Verdict, Holder string
	Held, Nodes, Quorum  int
	Waiting              int
	Sharers              []sharing
	ByNode               []struct {
		Node, Vote, Holder, Error string
		Remaining                 int64 `json:"remaining_ms"`
		Counter                   uint64
		Waiting                   []string
		Shared                    bool
		Sharers                   []sharing
	} `json:"by_node"`
}

// sharing is one of those who share a key.
type sharing struct {
	Holder    string
	Remaining int64 `json:"remaining_ms"`
	Nodes     int
}

func status(t *testing.T, nodes, key string) shown {
	t.Helper()
	r := run(t, nodes, "status", "--json", "--node-timeout", "1s", key)
	var s shown
	decode(t, r.out, &s)
	return s
}

func TestStatusTellsHeldFreeSplitAndUnknown(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	if s := status(t, nodes, "k"); s.Verdict != "free" || s.Nodes != 3 || s.Quorum != 2 || s.Held != 0 {
		t.Errorf("nobody holds it: got %+v; want free", s)
	}
	lock, err := open(t, nodes, redlock.WithHolder("worker")).Acquire(t.Context(), "k")
	must(t, err)
	var s shown
	eventually(t, "held by three", func() bool {
		s = status(t, nodes, "k")
		return s.Held == 3
	})
	if s.Verdict != "held" || !strings.HasPrefix(s.Holder, "worker/") {
		t.Errorf("got %+v; want it held by worker", s)
	}
	for _, n := range s.ByNode {
		if n.Vote != "member" || n.Holder != s.Holder || n.Remaining <= 0 || n.Counter < uint64(lock.Token()) {
			t.Errorf("got %+v; want a member that shows %s with token %d", n, s.Holder, lock.Token())
		}
	}
	run(t, nodes, "status", "k", "other", "--node-timeout", "1s").want(t, 0, `"k": held 3/3`, `"other": free`, "worker/")
	must(t, lock.Release(t.Context()))

	for i, owner := range []string{"a", "b", "c"} {
		must(t, servers[i].Client().Set(t.Context(), "k", owner, time.Minute).Err())
	}
	if s := status(t, nodes, "k"); s.Verdict != "split" {
		t.Errorf("three owners: got %+v; want split", s)
	}
	for _, server := range servers[:2] {
		must(t, server.Kill())
	}
	if s := status(t, nodes, "k"); s.Verdict != "unknown" {
		t.Errorf("one node left: got %+v; want unknown", s)
	}
	run(t, nodes, "status", "k").want(t, 69, "unknown", "refused")
}

func TestStatusShowsWhoStandsInLine(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	lock, err := open(t, nodes).Acquire(t.Context(), "k")
	must(t, err)
	p := start(t, prepare(t, nodes, "hold", "--node-timeout", "1s", "k"))
	var s shown
	eventually(t, "one in line on a quorum", func() bool {
		s = status(t, nodes, "k")
		return s.Waiting == 1
	})
	on := 0
	for _, n := range s.ByNode {
		on += len(n.Waiting)
	}
	if on < s.Quorum {
		t.Errorf("got it on %d nodes; want a quorum, in %+v", on, s)
	}
	run(t, nodes, "status", "--node-timeout", "1s", "k").want(t, 0, "WAITING", "held", ", 1 in line")
	p.signal(t, sigTERM)
	p.wait(t).want(t, 128+int(sigTERM), "while waiting")
	eventually(t, "nobody in line", func() bool {
		for _, n := range status(t, nodes, "k").ByNode {
			if len(n.Waiting) > 0 {
				return false
			}
		}
		return true
	})
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// Who shares a key is shown with what remains of each, on each node and on a quorum. A
// sharer of one node is shown there only.
func TestStatusShowsWhoShares(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	for _, label := range []string{"reader", "other"} {
		if _, err := open(t, nodes, redlock.WithHolder(label)).Acquire(t.Context(), "k", redlock.WithShared()); err != nil {
			t.Fatal(err)
		}
	}
	var s shown
	eventually(t, "two who share it on three nodes", func() bool {
		s = status(t, nodes, "k")
		return s.Held == 3 && len(s.Sharers) == 2 && s.Sharers[0].Nodes == 3 && s.Sharers[1].Nodes == 3
	})
	if s.Verdict != "shared" || s.Holder != "" {
		t.Errorf("got %+v; want it shared, and nobody's alone", s)
	}
	one := s.Sharers[0].Holder
	stray := redis.Z{Score: float64(time.Now().Add(time.Minute).UnixMilli()), Member: "stray"}
	must(t, servers[0].Client().ZAdd(t.Context(), "k", stray).Err(), servers[1].Client().ZRem(t.Context(), "k", one).Err())
	s = status(t, nodes, "k")
	on := 0
	for i, n := range s.ByNode {
		on += len(n.Sharers)
		if !n.Shared || n.Holder != "" || n.Remaining <= 0 || n.Counter == 0 || n.Counter != s.ByNode[0].Counter {
			t.Errorf("node %d: got %+v; want it shared, with one number", i, n)
		}
	}
	shares := map[string]bool{}
	for _, who := range s.Sharers {
		shares[strings.Split(who.Holder, "/")[0]] = true
		if want := 3; who.Holder != one && who.Nodes != want || who.Remaining <= 0 || who.Remaining > 10_000 {
			t.Errorf("got %+v; want it on %d nodes, with what is left of a lease", who, want)
		}
	}
	if len(s.Sharers) != 2 || !shares["reader"] || !shares["other"] || on < 6 {
		t.Errorf("got %+v, %d in all; want the two, and the stray on its node only", s.Sharers, on)
	}
	run(t, nodes, "status", "--node-timeout", "1s", "k").want(t, 0, `"k": shared 3/3, by 2`, "shared by 3", "SHARED BY", "reader/", "other/")
	must(t, servers[0].Client().RPush(t.Context(), "list", "theirs").Err())
	if n := status(t, nodes, "list").ByNode[0]; n.Shared || !strings.Contains(n.Error, "another type") {
		t.Errorf("another program's list: got %+v; want it shown as such", n)
	}
}

// What release takes away of a shared key is taken from all who share it, and does not
// come back by their renewals.
func TestReleaseTakesASharedKeyAwayFromAllWhoShareIt(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	var held []*redlock.Lock
	for _, label := range []string{"reader", "other"} {
		lock, err := open(t, nodes, redlock.WithHolder(label), redlock.WithTTL(9*time.Second)).Acquire(t.Context(), "k", redlock.WithShared(), redlock.WithRevocation())
		must(t, err)
		held = append(held, lock)
	}
	eventually(t, "both on three nodes", func() bool {
		s := status(t, nodes, "k")
		return len(s.Sharers) == 2 && s.Sharers[0].Nodes+s.Sharers[1].Nodes == 6
	})
	run(t, nodes, "release", "k", "--force", "--node-timeout", "1s").want(t, 64, "would remove", "reader/", "other/")
	r := run(t, nodes, "release", "k", "--force", "--yes", "--node-timeout", "1s")
	if r.want(t, 0, "removed", "reader/", "other/"); strings.Contains(r.out, "~") {
		t.Errorf("got %s; want owners without the mark of WithRevocation", r.out)
	}
	for _, lock := range held {
		eventually(t, "its holder knows", func() bool { return lock.Err() != nil })
	}
	for i, s := range servers {
		if n, err := s.Client().Exists(t.Context(), "k").Result(); n != 0 || err != nil {
			t.Errorf("server %d: got %d keys, %v; want none", i, n, err)
		}
		dead, err := s.Client().Keys(t.Context(), "redlock:dead:*").Result()
		if len(dead) != 2 || err != nil {
			t.Errorf("server %d: got tombstones %q, %v; want two", i, dead, err)
		}
	}
	must(t, servers[0].Client().ZAdd(t.Context(), "theirs", redis.Z{Score: 1, Member: "member"}).Err())
	run(t, nodes, "release", "theirs", "--force", "--yes", "--node-timeout", "1s").want(t, 0, "failed", "another type")
	if n, err := servers[0].Client().ZCard(t.Context(), "theirs").Result(); n != 1 || err != nil {
		t.Errorf("another program's set: got %d members, %v; want the one", n, err)
	}
}

func TestStatusWatchesUntilASignal(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 1)
	p := start(t, prepare(t, nodes, "status", "--watch", "--interval", "10ms", "--json", "k"))
	eventually(t, "three looks", func() bool { return strings.Count(p.stdout(), "\n") >= 3 })
	p.signal(t, sigTERM)
	p.wait(t).want(t, 0, `"verdict":"free"`)
}

func TestNodesAreListedAdmittedAndJoined(t *testing.T) {
	t.Parallel()
	servers, nodes := blanks(t, 3, redisserver.Config{})
	flags := []string{"--node-timeout", "1s", "--max-ttl", "4s"}
	redlockWith := func(args ...string) result {
		t.Helper()
		return run(t, nodes, append(args, flags...)...)
	}
	redlockWith("nodes").want(t, 69, "0 votes of 3 nodes", "cluster none yet", "taken in after a wait, by:\n  redlock nodes join --wait\n", "\n  redlock nodes admit --yes\n")
	redlockWith("nodes", "--strict-recovery").want(t, 69, "redlock nodes admit --yes --strict-recovery\n")
	redlockWith("nodes", "join").want(t, 75, "believes that no client takes a lease above 4s", "give --wait")
	redlockWith("nodes", "join", "--timeout", "100ms").want(t, 69, "no quorum")
	redlockWith("nodes", "admit").want(t, 64, "believes that no lock made before", "nothing done")
	redlockWith("nodes").want(t, 69)
	redlockWith("nodes", "admit", "--yes").want(t, 0, "3 votes of 3 nodes")
	redlockWith("nodes", "list").want(t, 0, "3 votes", "member", "4s")
	redlockWith("nodes", "join", "--wait").want(t, 0, "3 votes")
	run(t, strings.ReplaceAll(nodes, "127.0.0.1", "localhost"), append([]string{"nodes"}, flags...)...).want(t, 0, "3 votes")

	must(t, servers[2].RestartEmpty())
	var list struct {
		Cluster string
		Votes   int
		Nodes   []struct {
			Node, State, Until string
			Left               int64 `json:"left_ms"`
		}
	}
	p := start(t, prepare(t, nodes, append([]string{"nodes", "join", "--wait"}, flags...)...))
	eventually(t, "the wait", func() bool {
		r := redlockWith("nodes", "--json")
		decode(t, r.out, &list)
		return list.Nodes[2].State == "joining"
	})
	if n := list.Nodes[2]; list.Votes != 2 || n.Left <= 0 || n.Left > 4000 || n.Until == "" || list.Cluster == "" {
		t.Errorf("got %+v; want two votes, and one that joins within 4s", list)
	}
	if r := redlockWith("nodes"); !strings.Contains(r.out, "\n  redlock nodes join --wait\n") || strings.Contains(r.out, "admit --yes") {
		t.Errorf("got %s; want no advice to admit while locks may be held", r.out)
	}
	joined := p.wait(t)
	if joined.want(t, 0, "3 votes of 3 nodes", "1 node can vote after a wait", "nodes join waits: "+servers[2].Addr()+" voting in "); strings.Contains(joined.errs, "admit --yes") {
		t.Errorf("got %s; want no advice to admit while locks may be held", joined.errs)
	}
}

// A master that forgot is not taken in beside one that is down, after any wait or on any word,
// while only one is left that knows the cluster.
func TestNodesGivesNoAdviceThatDoesNotHelp(t *testing.T) {
	t.Parallel()
	servers, nodes := blanks(t, 3, redisserver.Config{AOF: redisserver.FsyncEverysec})
	run(t, nodes, "nodes", "admit", "--yes").want(t, 0)
	must(t, servers[2].RestartEmpty(), servers[1].Kill())
	r := run(t, nodes, "nodes", "--node-timeout", "1s")
	r.want(t, 69, "cluster unknown (too few records): 0 votes of 3", "blank  ", "every node must answer, and", servers[1].Addr()+" does not")
	if strings.Contains(r.out, "taken in") || strings.Contains(r.out, "admit") {
		t.Errorf("got %s; want no advice", r.out)
	}
	run(t, nodes, "nodes", "join", "--node-timeout", "1s").want(t, 75, "the list says what must happen first")
	r = run(t, nodes, "exec", "-n", "--node-timeout", "1s", "k", "true")
	if r.want(t, 69, "every node must answer"); strings.Contains(r.errs, "join --wait") || strings.Contains(r.errs, "admit") || strings.Contains(r.errs, "votes after") {
		t.Errorf("got %s; want no advice", r.errs)
	}
	must(t, servers[1].Restart())
	run(t, nodes, "nodes", "--node-timeout", "1s").want(t, 69, "0 votes ", "joining  <= ", "\n  redlock nodes join --wait\n")
}

// One full server of three keeps a new cluster from being founded.
func TestJoinAndAdmitSayWhyNothingIsFounded(t *testing.T) {
	t.Parallel()
	servers, nodes := blanks(t, 3, redisserver.Config{Args: []string{"--maxmemory", "1", "--maxmemory-policy", "noeviction"}})
	for _, s := range servers[1:] {
		must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	}
	flags := []string{"--node-timeout", "1s", "--max-ttl", "4s"}
	if r := run(t, nodes, append([]string{"nodes"}, flags...)...); r.code != 69 || !strings.Contains(strings.Join(strings.Fields(r.out), " "), "every node must be waited for, and "+servers[0].Addr()+" can't be") || strings.Contains(r.out, "taken in") {
		t.Errorf("got %s; want why nobody is taken in, and no advice", r.out)
	}
	// nodes shows it at once, and a join without an end is silent of it no more.
	p := start(t, prepare(t, nodes, append([]string{"nodes", "join", "--wait"}, flags...)...))
	eventually(t, "why it waits", func() bool {
		return strings.Contains(p.stderr(), "nodes join waits: "+servers[0].Addr()+" blank: refuses writes: out of memory: ")
	})
	p.signal(t, sigTERM)
	p.wait(t).want(t, 143, "notice", "OOM", servers[0].Addr())
	run(t, nodes, append([]string{"nodes", "admit", "--yes"}, flags...)...).want(t, 69, "notice", "OOM", servers[0].Addr())
}

// --max-ttl bounds one command's own lease. The cluster's is changed by nodes change alone: a
// lease above it is refused, a longer one counts after the shorter one's wait, and a shorter
// one after two steps.
func TestMaxTTLIsChangedByNodesChangeAlone(t *testing.T) {
	t.Parallel()
	servers, nodes := blanks(t, 3, redisserver.Config{})
	redlockWith := func(maxTTL string, args ...string) result {
		t.Helper()
		return run(t, nodes, append([]string{"--node-timeout", "750ms", "--max-ttl", maxTTL}, args...)...)
	}
	longest := func(node int) (maxTTL, left int64) {
		t.Helper()
		var list struct {
			Nodes []struct {
				MaxTTL int64 `json:"max_ttl_ms"`
				Left   int64 `json:"left_ms"`
			}
		}
		decode(t, redlockWith("3s", "nodes", "--json").out, &list)
		return list.Nodes[node].MaxTTL, list.Nodes[node].Left
	}
	want := func(when string, maxTTL int64) {
		t.Helper()
		for i := range servers {
			if got, _ := longest(i); got != maxTTL {
				t.Errorf("%s: node %d: got MaxTTL %d ms; want %d", when, i, got, maxTTL)
			}
		}
	}
	changed := func(maxTTL string, atLeast time.Duration, words ...string) {
		t.Helper()
		began := time.Now()
		run(t, nodes, "nodes", "change", "--max-ttl", maxTTL, "--node-timeout", "750ms").want(t, 0, append(words, ", MaxTTL "+maxTTL+": ", "3 votes")...)
		if took := time.Since(began); took < atLeast {
			t.Errorf("MaxTTL %s took %v; want the leases before it, %v", maxTTL, took, atLeast)
		}
	}
	redlockWith("3s", "nodes", "admit", "--yes").want(t, 0, "3 votes")
	if r := redlockWith("24h", "exec", "--ttl", "3s", "k", "--", "true"); r.code != 0 || r.errs != "" {
		t.Errorf("with a lease that the cluster allows: got %d and %q; want it taken, without a word", r.code, r.errs)
	}
	redlockWith("24h", "exec", "--ttl", "4s", "k", "--", "true").want(t, 78, "a lease of 4s is above the cluster's MaxTTL, 3s: take less (--ttl), or raise it: redlock nodes change --max-ttl 4s")
	want("after one that is refused", 3000)
	changed("4s", 3*time.Second, "1 of 1, MaxTTL 4s: ")
	redlockWith("4s", "exec", "--ttl", "4s", "k", "--", "true").want(t, 0)
	redlockWith("4s", "nodes", "change", "--max-ttl", "3s", "--timeout", "500ms").want(t, 69, "1 of 2 (MaxTTL 3s) is not done", "run it again")
	want("after it was cut short", 4000)
	changed("3s", 8*time.Second, "1 of 2, MaxTTL 3s: ", "2 of 2, close: ")
	want("after it was brought down", 3000)

	// A node that restarts waits the smaller time.
	must(t, servers[0].RestartEmpty())
	p := start(t, prepare(t, nodes, "nodes", "join", "--wait", "--node-timeout", "750ms"))
	eventually(t, "the wait", func() bool {
		_, left := longest(0)
		if left > 3000 {
			t.Errorf("it waits %d ms more; want 3000 at most", left)
		}
		return left > 0
	})
	p.wait(t).want(t, 0, "3 votes")
}

func TestDoctorTellsTheSeverityByItsStatus(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	flags := []string{"doctor", "--node-timeout", "1s"}
	r := run(t, nodes, flags...)
	r.want(t, 1, "3 of 3 nodes answered", "persistence", "warning", "servers: ", " on 3 nodes")
	var report struct {
		Servers  []string
		Worst    string
		Findings []struct{ Severity, Code, Node, What, Why, Remedy string }
	}
	decode(t, run(t, nodes, append(flags, "--json")...).out, &report)
	if len(report.Findings) == 0 || report.Worst != "warning" || report.Findings[0].Remedy == "" {
		t.Errorf("got %+v; want findings with remedies, the worst a warning", report)
	}
	if len(report.Servers) != 3 || !strings.Contains(r.out, report.Servers[0]+" on 3 nodes") {
		t.Errorf("got the servers %q; want three alike, and the name in %s", report.Servers, r.out)
	}
	must(t, servers[0].Kill())
	run(t, nodes, flags...).want(t, 2, "unreachable", servers[0].Addr(), "2 of 3")
}

// Two of three nodes that refuse to write: nothing can be locked, and both commands
// say so, and why. What was locked before is shown on each, though at maxmemory Redis queues no
// command for EXEC, not even a read.
func TestNodesThatRefuseWritesGiveNoVote(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	l := open(t, nodes, redlock.WithHolder("worker"))
	_, err := l.Acquire(t.Context(), "k")
	must(t, err)
	_, err = l.Acquire(t.Context(), "book", redlock.WithShared())
	must(t, err)
	for _, key := range []string{"k", "book"} {
		eventually(t, key+" on three", func() bool { return status(t, nodes, key).Held == 3 })
	}
	for _, s := range servers[1:] {
		must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	}
	run(t, nodes, "status", "--node-timeout", "1s", "k", "book", "none").want(t, 0, `"k": held 3/3`, `"book": shared 3/3, by 1`, `"none": free`)
	for _, n := range slices.Concat(status(t, nodes, "k").ByNode, status(t, nodes, "book").ByNode) {
		if n.Error != "" || n.Remaining <= 0 || n.Counter == 0 || n.Holder == "" && len(n.Sharers) == 0 {
			t.Errorf("at maxmemory: got %+v; want what it has", n)
		}
	}
	run(t, nodes, "nodes", "--node-timeout", "1s").want(t, 69, "1 vote of 3 nodes", "refuses writes", "OOM")
	run(t, nodes, "nodes", "--json", "--node-timeout", "1s").want(t, 69, `"votes":1`, `"refuses":"out of memory: OOM`)
	run(t, nodes, "doctor", "--node-timeout", "1s").want(t, 2, "take a lock: OOM")
	for _, s := range servers[1:] {
		must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	}
	run(t, nodes, "nodes", "--node-timeout", "1s").want(t, 0, "3 votes of 3 nodes")
}

func TestReleaseTakesALockAwayAndKeepsItAway(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	lock, err := open(t, nodes, redlock.WithHolder("victim"), redlock.WithTTL(9*time.Second)).Acquire(t.Context(), "k", redlock.WithRevocation())
	must(t, err)
	eventually(t, "held by three", func() bool { return status(t, nodes, "k").Held == 3 })
	run(t, nodes, "release", "k", "--force", "--node-timeout", "1s").want(t, 64, "would remove", "victim/", "--yes")
	if lock.Err() != nil || status(t, nodes, "k").Held != 3 {
		t.Fatalf("got a lock that %v, without --yes; want it held", lock.Err())
	}
	r := run(t, nodes, "release", "k", "--force", "--yes", "--node-timeout", "1s")
	r.want(t, 0, "removed", "victim/")
	if got := strings.Count(r.out, "removed"); got != 3 {
		t.Errorf("got %d nodes; want 3:\n%s", got, r.out)
	}
	// The holder's renewal must not repair what was taken away.
	eventually(t, "the holder knows", func() bool { return lock.Err() != nil })
	for i, s := range servers {
		if n, err := s.Client().Exists(t.Context(), "k").Result(); n != 0 || err != nil {
			t.Errorf("server %d: got %d keys, %v; want none", i, n, err)
		}
		dead, err := s.Client().Keys(t.Context(), "redlock:dead:victim/*").Result()
		if len(dead) != 1 || err != nil {
			t.Errorf("server %d: got tombstones %q, %v; want one", i, dead, err)
		}
	}
	run(t, nodes, "release", "k", "--force", "--yes", "--node-timeout", "1s").want(t, 0, "nothing there")
	must(t, servers[0].Kill())
	run(t, nodes, "release", "k", "--force", "--yes", "--node-timeout", "1s").want(t, 0, "failed")
	must(t, servers[1].Kill())
	run(t, nodes, "release", "k", "--force", "--yes").want(t, 69, "may stand")
	run(t, nodes, "nodes").want(t, 69, "cluster unknown (2 of 3 nodes do not answer): 0 votes of 3 nodes")
	run(t, nodes, "doctor").want(t, 2, "vote, quorum 2", "nothing can be locked by this client until 2 vote", "No new lock is given")
}

// What became another program's after the look at it is not removed.
func TestNoForeignSetIsTakenForASharedKey(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	client := redis.NewClient(nodes.Node(0).Options())
	t.Cleanup(func() { _ = client.Close() })
	must(t, client.ZAdd(t.Context(), "k", redis.Z{Score: 1, Member: "theirs"}, redis.Z{Score: 2, Member: "redlock:shared"}).Err())
	if gone, err := main.RemoveShared(t.Context(), client, "k", time.Minute); len(gone) > 0 || err != nil {
		t.Errorf("got %q removed, %v; want nothing", gone, err)
	}
	left, err := client.ZCard(t.Context(), "k").Result()
	dead, deadErr := client.Keys(t.Context(), "redlock:dead:*").Result()
	if must(t, err, deadErr); left != 2 || len(dead) > 0 {
		t.Errorf("got %d members and tombstones %q; want theirs as it was", left, dead)
	}
}

// With --json every command speaks JSON only, one value a line, also where it
// fails and where it says what it believes.
func TestJSONIsWhatEveryCommandSpeaks(t *testing.T) {
	t.Parallel()
	_, nodes := blanks(t, 3, redisserver.Config{})
	for _, c := range []struct {
		args string
		code int
	}{
		{"nodes", 69},
		{"nodes join", 75},
		{"nodes admit", 64},
		{"nodes admit --yes", 0},
		{"nodes join --wait", 0},
		{"doctor", -1}, // as the servers of the test are
		{"status k other", 0},
		{"exec k true", 0},
		{"exec --max-hold 300ms --kill-after 100ms k sleep 9", 123},
		{"exec k no-such-command-here", 127},
		{"hold --max-hold 100ms k", 123},
		{"release k", 64},
		{"release k --force", 64},
		{"release k --force --yes", 0},
		{"bench --duration 50ms", 0},
		{"nodes change", 64},
		{"nodes change --max-ttl 31s --dry-run", 0},
		{"nodes change --max-ttl 30s", 0},
		{"status", 64},
		{"no-such-command", 64},
	} {
		r := run(t, nodes, append([]string{"--json", "--node-timeout", "1s"}, strings.Fields(c.args)...)...)
		if r.code != c.code && c.code >= 0 {
			t.Errorf("%s: got exit status %d; want %d\n%s%s", c.args, r.code, c.code, r.out, r.errs)
		}
		if r.out+r.errs == "" {
			t.Errorf("%s: got nothing; want JSON", c.args)
		}
		for line := range strings.Lines(r.out + r.errs) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: got %q; want JSON", c.args, line)
			}
		}
	}
}
