//go:build unix

package main_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leadFlags suit a busy machine; events are told on stderr.
var leadFlags = []string{"lead", "--json", "--node-timeout", "1s"}

// lead starts lead.
func lead(t *testing.T, nodes string, args ...string) *process {
	t.Helper()
	return start(t, prepare(t, nodes, append(leadFlags[:4:4], args...)...))
}

// reigns are the tokens of the commands that a lead has started.
func reigns(t *testing.T, p *process) (tokens []uint64) {
	t.Helper()
	for line := range strings.Lines(p.stderr()) {
		var e struct {
			Event string
			Token uint64
		}
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "\n") {
			continue // the command's, or half written
		}
		if decode(t, line, &e); e.Event == "held" {
			tokens = append(tokens, e.Token)
		}
	}
	return tokens
}

// leads waits until a process has started its command for the n-th time, and returns
// the token of that lead.
func leads(t *testing.T, p *process, n int) uint64 {
	t.Helper()
	var tokens []uint64
	eventually(t, "a lead", func() bool {
		if !p.running() {
			t.Fatalf("it ended: %+v", p.wait(t))
		}
		tokens = reigns(t, p)
		return len(tokens) >= n
	})
	return tokens[n-1]
}

// Who waits leads when the command of who led has ended by itself, and that one's status
// is lead's. The command sees its own token.
func TestLeadResignsWhenItsCommandEnds(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	file := filepath.Join(t.TempDir(), "end")
	script := `echo token $REDLOCK_TOKEN of $REDLOCK_KEY; until [ -e "$0" ]; do sleep 0.02; done; exit 7`
	first := lead(t, nodes, "k", "sh", "-c", script, file)
	before := leads(t, first, 1)
	second := lead(t, nodes, "k", "--", "sh", "-c", "echo token $REDLOCK_TOKEN of $REDLOCK_KEY; exit 8")
	eventually(t, "the second in line", func() bool { return status(t, nodes, "k").Waiting == 1 })
	if n := len(reigns(t, second)); n != 0 {
		t.Errorf("got %d leads of the second beside the first; want none", n)
	}
	must(t, os.WriteFile(file, nil, 0o600))
	r := first.wait(t)
	r.want(t, 7, `"event":"waiting"`, `"event":"ended"`, `"status":7`)
	next := second.wait(t)
	next.want(t, 8)
	tokens := reigns(t, second)
	if len(tokens) != 1 || tokens[0] <= before || r.out != "token "+strconv.FormatUint(before, 10)+" of k\n" {
		t.Errorf("got %q with token %d, then tokens %d; want one more lead with a larger one", r.out, before, tokens)
	}
	if n := exists(t, servers, "k"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

// A lead that was taken away ends the command, and then there is another campaign.
func TestLeadCampaignsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	p := lead(t, nodes, "--ttl", "4s", "k", "sh", "-c", `trap "" TERM; echo $$; while :; do sleep 0.01; done`)
	before := leads(t, p, 1)
	run(t, nodes, "release", "--force", "--yes", "--node-timeout", "1s", "k").want(t, 0, "removed")
	after := leads(t, p, 2)
	eventually(t, "both commands' words", func() bool { return strings.Count(p.stdout(), "\n") == 2 })
	pids := strings.Fields(p.stdout())
	if pid, err := strconv.Atoi(pids[0]); err != nil || alive(pid) || after <= before {
		t.Errorf("got tokens %d and %d, the first command alive: %v; want it dead before a larger one", before, after, alive(pid))
	}
	for _, word := range []string{`"killed"`, `"status":124`, "waiting to lead k again"} {
		if !strings.Contains(p.stderr(), word) {
			t.Errorf("got %s; want %s in it", p.stderr(), word)
		}
	}
	// The command of the second lead ignores TERM; it is killed, and no third follows.
	p.signal(t, sigTERM)
	run(t, nodes, "release", "--force", "--yes", "--node-timeout", "1s", "k").want(t, 0, "removed")
	p.wait(t).want(t, 124)
	if n := len(reigns(t, p)); n != 2 {
		t.Errorf("got %d leads; want no third after TERM", n)
	}
	if n := exists(t, servers, "k"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

// Signals while it leads are the command's; HUP is no end of lead. While it waits, those
// that ask for the end are its own, and the others do nothing.
func TestSignalsOfALeader(t *testing.T) {
	t.Parallel()
	if signal.Ignored(sigHUP) {
		t.Skip("the one who began this test has HUP ignored, and so do all commands that it begins")
	}
	servers, nodes := masters(t, 3)
	p := lead(t, nodes, "--ttl", "4s", "k", "sh", "-c", `trap "echo read again" HUP; trap "exit 9" TERM; echo ready; while :; do sleep 0.01; done`)
	eventually(t, "the command", func() bool { return strings.Contains(p.stdout(), "ready") })
	waiting := lead(t, nodes, "k", "echo", "started")
	eventually(t, "the other in line", func() bool { return status(t, nodes, "k").Waiting == 1 })
	waiting.signal(t, syscall.SIGUSR1)
	p.signal(t, sigHUP)
	eventually(t, "the command's HUP", func() bool { return strings.Contains(p.stdout(), "read again") })
	waiting.signal(t, sigTERM)
	if r := waiting.wait(t); r.code != 143 || r.out != "" || !strings.Contains(r.errs, "while waiting to lead k") {
		t.Errorf("got %+v; want it ended by TERM, and nothing started", r)
	}
	run(t, nodes, "release", "--force", "--yes", "--node-timeout", "1s", "k").want(t, 0, "removed")
	leads(t, p, 2) // for all the HUP
	eventually(t, "the second command", func() bool { return strings.Count(p.stdout(), "ready") == 2 })
	p.signal(t, sigTERM)
	p.wait(t).want(t, 9)
	if n := exists(t, servers, "k"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

func TestALeadIsBoundedAndSoIsTheWaitForIt(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	p := lead(t, nodes, "--max-hold", "5s", "--kill-after", "500ms", "k", "sh", "-c", "while :; do sleep 0.01; done")
	first := leads(t, p, 1)
	other := lead(t, nodes, "k", "sleep", "1000")
	second := leads(t, other, 1) // it stands in line before the first does again
	if second <= first || len(reigns(t, p)) > 1 && reigns(t, p)[1] < second {
		t.Errorf("got tokens %v, and %d of who waited; want the lead to go round", reigns(t, p), second)
	}
	busy := lead(t, nodes, "--wait", "1s", "-E", "9", "k", "echo", "started")
	if r := busy.wait(t); r.code != 9 || r.out != "" {
		t.Errorf("got %+v; want it to give up with status 9", r)
	}
	other.signal(t, sigTERM)
	other.wait(t).want(t, 143)
	leads(t, p, 2)
	p.signal(t, sigTERM)
	p.wait(t).want(t, 143)
}

func TestLeadPlansByTheWholeTTLThoughTheFirstLeaseIsShort(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	r := finish(t, short(t, nodes, "lead", "--node-timeout", "1s", "--ttl", "20s", "k", "sh", "-c", "echo $REDLOCK_VALIDITY_MS; sleep 1"))
	r.want(t, 0)
	if left, err := strconv.Atoi(strings.TrimSpace(r.out)); err != nil || left < 13_000 || left > 20_000 {
		t.Errorf("the command was told of %q ms; want that of a TTL of 20 s", r.out)
	}
}

// The leader's machine fails, as far as that can be had here: its lead is killed, and its
// command with it. The next one leads within a TTL.
func TestTheNextLeadsWithinATTLOfAKilledLeader(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	_, nodes := masters(t, 3)
	file := filepath.Join(t.TempDir(), "beat")
	cmd := prepare(t, nodes, append(leadFlags[:4:4], "--ttl", ttl.String(), "k", os.Args[0], file)...)
	cmd.Env = append(cmd.Env, actVar+"=once")
	first := start(t, cmd)
	leads(t, first, 1)
	second := lead(t, nodes, "--ttl", ttl.String(), "k", "sleep", "1000")
	eventually(t, "the second in line, and the first's command", func() bool {
		pid, _ := lastBeat(t, file)
		return pid != 0 && status(t, nodes, "k").Waiting == 1
	})
	pid, _ := lastBeat(t, file)
	killed := time.Now()
	must(t, first.cmd.Process.Kill())
	leads(t, second, 1)
	took := time.Since(killed)
	t.Logf("the next leader's command ran %v after the kill, with a TTL of %v", took.Round(time.Millisecond), ttl)
	if took > ttl+5*time.Second { // a busy machine
		t.Errorf("the next led %v after the kill; want a TTL of %v", took, ttl)
	}
	if alive(pid) {
		t.Errorf("the killed leader's command, %d, runs on", pid)
	}
	second.signal(t, sigTERM)
	second.wait(t).want(t, 143)
}

// The rule that lead is for: a leader that is cut off from the nodes has its command, and
// all that this has started, dead before anybody else leads; and it leads again once the
// nodes are back and its turn has come.
func TestTwoLeadersNeverOverlap(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"cut", "refuse"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			w := wire(t)
			file := filepath.Join(t.TempDir(), "beat")
			flags := []string{"lead", "--json", "--ttl", deadTTL.String(), "--kill-after", "800ms", "--node-timeout", "300ms"}
			cmd := prepare(t, "", append(append(flags[:8:8], w.flags...), "k", os.Args[0], file)...)
			cmd.Env = append(cmd.Env, actVar+"=family")
			first := start(t, cmd)
			var pids [family]int
			eventually(t, "the family", func() bool {
				for i := range pids {
					if pids[i], _ = lastBeat(t, file+"."+strconv.Itoa(i)); pids[i] == 0 {
						return false
					}
				}
				return true
			})
			next := prepare(t, w.nodes, append(flags[:8:8], "k", os.Args[0], file+".next")...)
			next.Env = append(next.Env, actVar+"=once")
			second := start(t, next)
			eventually(t, "the second in line", func() bool { return status(t, w.nodes, "k").Waiting == 1 })
			terms := len(reigns(t, first))
			_, mend := w.breakThem(t, fault, "k")
			leads(t, second, 1)
			eventually(t, "the second's command", func() bool { pid, _ := lastBeat(t, file+".next"); return pid != 0 })
			_, began := lastBeat(t, file+".next")
			for i, pid := range pids {
				_, last := lastBeat(t, file+"."+strconv.Itoa(i))
				t.Logf("process %d was last alive %v before the next leader's command", i, (began - last).Round(time.Millisecond))
				if last >= began || alive(pid) {
					t.Errorf("process %d of the family lived %v into the next lead, alive: %v", i, last-began, alive(pid))
				}
			}
			mend()
			second.signal(t, sigTERM)
			second.wait(t).want(t, 143)
			leads(t, first, terms+1)
			must(t, first.cmd.Process.Kill()) // its command may ignore TERM by now
		})
	}
}

// Observers are told who leads, with its token, as soon as it does, and that nobody does.
func TestObserveTellsWhoLeads(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	eye := start(t, prepare(t, nodes, "observe", "--node-timeout", "1s", "--json", "k"))
	says := func(what string) {
		t.Helper()
		eventually(t, what, func() bool {
			lines := strings.Split(strings.TrimSpace(eye.stdout()), "\n")
			return strings.Contains(lines[len(lines)-1], what)
		})
	}
	says(`{"key":"k","held":false}`)
	p := lead(t, nodes, "--holder", "web-7", "--value", "10.0.0.7:80", "k", "sleep", "1000")
	token := leads(t, p, 1)
	says(`"held":true,"leader":"10.0.0.7:80"`)
	if plain := start(t, prepare(t, nodes, "observe", "--node-timeout", "1s", "k")); true {
		eventually(t, "a line of text", func() bool { return strings.HasPrefix(plain.stdout(), "leader: 10.0.0.7:80") })
		plain.signal(t, sigINT)
		plain.wait(t).want(t, 0)
	}
	if s := status(t, nodes, "k"); !strings.HasPrefix(s.Holder, "web-7/10.0.0.7:80") {
		t.Errorf("got %q as the holder; want label and value", s.Holder)
	}
	p.signal(t, sigTERM)
	p.wait(t).want(t, 143)
	says(`{"key":"k","held":false}`)
	var seen uint64
	for line := range strings.Lines(eye.stdout()) {
		var o struct{ Token uint64 }
		decode(t, line, &o)
		seen = max(seen, o.Token)
	}
	if seen != token && seen != 0 { // it follows the leader's word where that came in time
		t.Errorf("got token %d; want the leader's, %d", seen, token)
	}
	eye.signal(t, sigTERM)
	eye.wait(t).want(t, 0)
}
