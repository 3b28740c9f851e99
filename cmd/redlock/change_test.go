//go:build unix

package main_test

import (
	"fmt"
	"os"
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
		words := append([]string{step.verb}, strings.Fields(step.addr)...)
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
}
