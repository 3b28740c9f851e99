//go:build unix

package main_test

import (
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// Three new masters kept a cron job waiting for ever, without a word on stderr.
func TestWhoWaitsForMastersIsToldWhy(t *testing.T) {
	t.Parallel()
	servers, nodes := blanks(t, 3, redisserver.Config{})
	waiting := []*process{
		start(t, prepare(t, nodes, "exec", "k", "true")),
		start(t, prepare(t, nodes, "hold", "--json", "k", "other")),
		start(t, prepare(t, nodes, "lead", "k", "true")),
		start(t, prepare(t, "127.0.0.1:1", "exec", "--shared", "k", "true")),
	}
	told := func(p *process, times int, words ...string) bool {
		lines := strings.SplitAfter(p.stderr(), "\n")
		if len(lines) != times+1 { // the last is empty
			return false
		}
		for _, w := range words {
			if !strings.Contains(lines[times-1], w) {
				t.Fatalf("%q: got %q; want %q in it", p.cmd.Args[1:], lines[times-1], w)
			}
		}
		return true
	}
	for _, p := range waiting[:3] {
		eventually(t, "a new master's waiter is told", func() bool {
			return told(p, 1, "waiting for k", "no quorum: 0 of 3 nodes vote", servers[0].Addr()+", "+servers[1].Addr(), "in 2", "redlock nodes admit --yes")
		})
	}
	eventually(t, "a silent master's waiter is told", func() bool {
		return told(waiting[3], 1, "waiting for k: no quorum: 0 of 1 node", "connection refused", "redlock doctor", "as long as --wait says")
	})
	run(t, nodes, "nodes").want(t, 69, "joining  <= ") // a bound: each new client waits anew
	for _, s := range servers[1:] {
		must(t, s.Kill())
	}
	for _, p := range waiting[:3] {
		eventually(t, "another cause is told", func() bool { return told(p, 2, "connection refused") })
	}
	if !told(waiting[3], 1) {
		t.Errorf("one cause: got %q; want it told once", waiting[3].stderr())
	}
}

// A lock that others hold is waited for in silence, as flock does.
func TestWhoWaitsForAHolderIsToldNothing(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	_, err := open(t, nodes).Acquire(t.Context(), "k")
	must(t, err)
	p := start(t, prepare(t, nodes, "exec", "--node-timeout", "1s", "--wait", "4s", "k", "true"))
	p.wait(t).want(t, 75, "not acquired", "whose lease has", "redlock status KEY shows who holds it")
	if lines := strings.Count(p.stderr(), "\n"); strings.Contains(p.stderr(), "waiting") || lines > 2 {
		t.Errorf("got %q; want the end alone", p.stderr())
	}
}
