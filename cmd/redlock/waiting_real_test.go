//go:build unix

package main_test

import (
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
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

// Who waits for a holder is told once for whom, without a terminal too: a deploy hung in silence.
// With -n nobody waits, and who takes a busy lock for a success gets no mail of it.
func TestWhoWaitsForAHolderIsToldOnceForWhom(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	_, err := open(t, nodes, redlock.WithHolder("deploy@host1")).Acquire(t.Context(), "k")
	must(t, err)
	words := start(t, prepare(t, nodes, "exec", "--node-timeout", "1s", "--wait", "9s", "k", "true"))
	events := start(t, prepare(t, nodes, "exec", "--json", "--node-timeout", "1s", "--wait", "9s", "k", "true"))
	mailed := start(t, prepare(t, nodes, "exec", "--skip-if-busy", "--node-timeout", "1s", "--wait", "9s", "k", "true"))
	r := words.wait(t)
	r.want(t, 75, "waiting for k: held by deploy@host1/", "; redlock status k shows more")
	if n := strings.Count(r.errs, "waiting for"); n != 1 {
		t.Errorf("got %q; want it told once", r.errs)
	}
	r = events.wait(t)
	if n := strings.Count(r.errs, "\n"); n != 2 || !strings.HasPrefix(r.errs, `{"event":"waiting","key":"k","validity_ms":0,"message":"waiting for k: held by deploy@host1/`) {
		t.Errorf("got %q; want one event, and the end", r.errs)
	}
	pagesShapes(t).WantLines(t, "Events of exec, lead and hold", r.errs)
	if r = mailed.wait(t); r.code != 0 || r.errs != "" {
		t.Errorf("with --skip-if-busy: got %+v; want 0, and silence", r)
	}
}

// With one master down throughout, a job that waited its turn prints nothing of it: it was mailed
// that a lock was not released on a node which was never sent any.
func TestWhoWaitedBesideADeadMasterIsToldNothing(t *testing.T) {
	t.Parallel()
	for what, harm := range map[string]func(*redisserver.Server) error{"it is dead": (*redisserver.Server).Kill, "it hangs": (*redisserver.Server).Pause} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			servers, nodes := masters(t, 3)
			lock, err := open(t, nodes).Acquire(t.Context(), "k")
			must(t, err)
			must(t, harm(servers[2]))
			waiting := []*process{
				start(t, prepare(t, nodes, "exec", "--node-timeout", "500ms", "k", "true")),
				start(t, prepare(t, nodes, "exec", "--node-timeout", "500ms", "k", "true")),
			}
			eventually(t, "both wait", func() bool {
				s := status(t, nodes, "k")
				return s.Waiting == 2
			})
			must(t, lock.Release(t.Context()))
			for _, p := range waiting {
				r := p.wait(t)
				r.want(t, 0)
				for line := range strings.Lines(r.errs) {
					if !strings.Contains(line, "waiting for k: ") { // where the machine is slow
						t.Errorf("got %q; want nothing told", line)
					}
				}
			}
			if servers[2].Running() {
				must(t, servers[2].Resume())
			}
		})
	}
}
