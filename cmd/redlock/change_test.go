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
func TestNodesAddAndShrinkGoOnAfterAKill(t *testing.T) {
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
	run(t, one, args("add", servers[1].Addr(), "--dry-run")...).want(t, 0, "nothing was changed")
	run(t, both, args("add", other, "--dry-run")...).want(t, 0, "nothing was changed")
	run(t, one, args("shrink", servers[1].Addr())...).want(t, 64, "is not in the list")
	run(t, one, args("add", servers[0].Addr())...).want(t, 78, "already")
	for g, step := range []struct {
		verb, nodes, addr string
		clients           []string
	}{
		{"add", one, servers[1].Addr(), []string{one, both}},
		{"shrink", both, servers[0].Addr(), []string{both, other}},
		{"settle", other, "", []string{other}},
	} {
		words := append([]string{step.verb, "--yes"}, strings.Fields(step.addr)...)
		p := start(t, prepare(t, step.nodes, args(words...)...))
		eventually(t, "its wait", func() bool { return strings.Contains(p.stderr(), "waiting for the longest lease") })
		p.signal(t, os.Kill)
		p.wait(t)
		run(t, step.nodes, args()...).want(t, 0, "list has begun")
		next(step.nodes)
		run(t, step.nodes, args(words...)...).want(t, 0, "nodes "+step.verb, fmt.Sprintf("generation %d", g+1))
		for _, nodes := range step.clients {
			next(nodes)
		}
	}
	run(t, both, "exec", "--node-timeout", "1s", "orders/42", "--", "true").want(t, 78, "generation 3")
	run(t, other, args()...).want(t, 0, "member")
}

// What can't be a node is refused by its own error, and no server shows that anything was tried.
func TestNodesAddRefusesWhatIsNoNewNodeAndChangesNothing(t *testing.T) {
	t.Parallel()
	servers, _ := blanks(t, 4, redisserver.Config{})
	one, other, spare, replica := servers[0], servers[1], servers[2], servers[3]
	args := func(words ...string) []string { return append(words, "--node-timeout", "1s", "--max-ttl", "2s") }
	for _, s := range servers[:2] {
		run(t, s.URL(), args("nodes", "admit", "--yes")...).want(t, 0)
	}
	must(t, spare.Client().Set(t.Context(), "somebody's", "data", 0).Err())
	host, port, _ := strings.Cut(spare.Addr(), ":")
	must(t, replica.Client().Do(t.Context(), "REPLICAOF", host, port).Err())
	dump := func() (all []map[string]string) {
		for _, s := range servers {
			record, err := s.Client().HGetAll(t.Context(), "redlock:node").Result()
			must(t, err)
			all = append(all, record)
		}
		return all
	}
	before := dump()
	for _, c := range []struct {
		list, verb, addr, says string
		code                   int
	}{
		{one.URL(), "add", other.Addr(), "belongs to another cluster", 78},
		{one.URL(), "add", spare.Addr(), "has data", 78},
		{one.URL(), "add", replica.Addr(), "is a replica", 78},
		{one.URL(), "add", one.Addr(), "already", 78},
		{one.URL() + "," + one.URL(), "add", spare.Addr(), "may not vote twice", 78},
		{one.URL(), "shrink", one.Addr(), "one node at least", 78},
		{one.URL(), "shrink", spare.Addr(), "is not in the list", 64},
	} {
		run(t, c.list, args("nodes", c.verb, c.addr)...).want(t, c.code, c.says)
		if now := dump(); !reflect.DeepEqual(now, before) {
			t.Errorf("%s %s: got %v; want what was there: %v", c.verb, c.addr, now, before)
		}
	}
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
	run(t, mistyped, "exec", "--wait", "3s", "--node-timeout", "1s", "k", "true").want(t, 78, "misconfigured: ", other[0].Addr(), "give all clients one list")
}
