//go:build unix

package main_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// One master grows to two and shrinks to the other, by commands of which the first of each
// is killed while it waits. Clients of the list before go on.
func TestNodesChangeGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	servers, both := blanks(t, 2, redisserver.Config{})
	one, other := servers[0].URL(), servers[1].URL()
	args := func(words ...string) []string {
		return append(append([]string{"nodes"}, words...), "--node-timeout", "1s", "--max-ttl", "2s")
	}
	run(t, one, args("admit", "--yes")...).want(t, 0)
	token := tokenUnder(t, one)
	next := func(nodes string) {
		t.Helper()
		got := tokenUnder(t, nodes)
		if got <= token {
			t.Errorf("got token %d after %d", got, token)
		}
		token = got
	}
	for _, list := range []string{one, both} {
		run(t, list, args("change", "--add", other, "--dry-run")...).want(t, 0, "1 of 1, add "+servers[1].Addr()+": it waits 2s", "nothing was changed")
	}
	run(t, one, args("change", "--add", servers[0].Addr())...).want(t, 0, "generation 0")
	for _, step := range []struct {
		what, nodes string
		clients     []string
		generation  int
	}{
		{"--add " + servers[1].Addr(), one, []string{one, both}, 1},
		{"--close", both, []string{both}, 2},
		{"--remove " + servers[0].Addr(), both, []string{both, other}, 4}, // it ends with a close
	} {
		words := append([]string{"change", "--yes"}, strings.Fields(step.what)...)
		p := start(t, prepare(t, step.nodes, args(words...)...))
		eventually(t, "its wait", func() bool { return strings.Contains(p.stderr(), "waiting for the longest lease") })
		p.signal(t, os.Kill)
		p.wait(t)
		run(t, step.nodes, args()...).want(t, 0, "a change has begun (not yet proposed): run redlock nodes")
		next(step.nodes)
		run(t, step.nodes, args(words...)...).want(t, 0, fmt.Sprintf("generation %d, MaxTTL 2s: ", step.generation))
		for _, nodes := range step.clients {
			next(nodes)
		}
	}
	lock := []string{"exec", "--node-timeout", "1s", "--ttl", "2s", "orders/42", "--", "true"}
	run(t, both, lock...).want(t, 0)
	run(t, one, lock...).want(t, 78, "its list is of 1 node ("+servers[1].Addr()+"), generation ")
	run(t, other, args()...).want(t, 0, "member")
}

// What can't be a node is refused by its own error, and no server shows that anything was tried.
func TestNodesAddRefusesWhatIsNoNewNodeAndChangesNothing(t *testing.T) {
	t.Parallel()
	servers, _ := blanks(t, 4, redisserver.Config{})
	one, other, spare, replica := servers[0], servers[1], servers[2], servers[3]
	for _, s := range servers[:2] {
		run(t, s.URL(), "nodes", "admit", "--yes", "--node-timeout", "1s").want(t, 0)
	}
	must(t, spare.Client().Set(t.Context(), "somebody's", "data", 0).Err())
	host, port, _ := strings.Cut(spare.Addr(), ":")
	must(t, replica.Client().Do(t.Context(), "REPLICAOF", host, port).Err())
	before := records(t, servers)
	for _, c := range []struct {
		list, what, says string
		code             int
	}{
		{one.URL(), "--add " + other.Addr(), "belongs to another cluster", 78},
		{one.URL(), "--add " + spare.Addr(), "has data", 78},
		{one.URL(), "--add " + replica.Addr(), "is a replica", 78},
		{one.URL() + "," + one.URL(), "--add " + spare.Addr(), "may not vote twice", 78},
		{one.URL(), "--add " + spare.Addr() + " --add " + spare.URL(), spare.Addr() + " is to be added (--add) or removed (--remove) twice", 78},
		{one.URL(), "--remove " + one.Addr() + " --add " + one.Addr(), one.Addr() + " is to be added (--add) or removed (--remove) twice", 78},
		{one.URL(), "--remove " + one.Addr(), "one node at least", 78},
		{one.URL(), "--remove " + spare.Addr(), spare.Addr() + " is not in the list", 64},
		{one.URL(), "--max-ttl 1ms", "--max-ttl 1ms: give 10ms to 24h", 64},
		{one.URL(), "--strict maybe", "--strict: give on or off", 64},
		{one.URL(), "", "give what is to change: --add, --remove, --max-ttl, --strict or --close", 64},
	} {
		run(t, c.list, append(strings.Fields("nodes change "+c.what), "--node-timeout", "1s")...).want(t, c.code, c.says)
		if now := records(t, servers); !reflect.DeepEqual(now, before) {
			t.Errorf("%s: got %v; want what was there: %v", c.what, now, before)
		}
	}
}

// records are what the servers hold of the cluster.
func records(t *testing.T, servers []*redisserver.Server) (all []map[string]string) {
	t.Helper()
	for _, s := range servers {
		record, err := s.Client().HGetAll(t.Context(), "redlock:node").Result()
		must(t, err)
		all = append(all, record)
	}
	return all
}

// An empty server in the place of another node is a mistake in the list of this client. No
// command advises to take it in, and join does not wait for it.
func TestAMistypedServerIsNotToBeTakenIn(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	other, _ := blanks(t, 1, redisserver.Config{})
	mistyped := strings.Replace(nodes, servers[2].URL(), other[0].URL(), 1)
	for args, code := range map[string]int{
		"nodes": 69, "status k": 69, "nodes join": 78, "nodes join --wait": 78, "nodes admit": 64, "nodes admit --yes": 78,
	} {
		r := run(t, mistyped, append(strings.Fields(args), "--node-timeout", "1s")...)
		all := strings.Join(strings.Fields(strings.ReplaceAll(r.out+r.errs, "redlock: ", "")), " ")
		result{errs: all, code: r.code}.want(t, code, "misconfigured", servers[2].Addr()+"), generation 0; this client's of 3 (", "give all clients one list")
		if strings.Contains(all, "join --wait") || strings.Contains(all, "can vote after a wait") || strings.Contains(all, "admit --yes") {
			t.Errorf("%s: got\n%s\nwant no advice to take it in", args, all)
		}
	}
	must(t, servers[1].Stop())
	run(t, mistyped, "exec", "--wait", "3s", "--node-timeout", "1s", "k", "true").want(t, 78, "no quorum, and waiting does not help: ", other[0].Addr(), "give all clients one list")
}
