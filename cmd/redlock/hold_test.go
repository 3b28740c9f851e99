//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
)

func TestHoldHoldsUntilASignal(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	p := start(t, prepare(t, nodes, "hold", "--node-timeout", "1s", "--ttl", "3s", "--holder", "script", "k"))
	eventually(t, "the line", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	var line struct {
		Event, Key string
		Token      uint64
		Left       int `json:"validity_ms"`
	}
	decode(t, p.stdout(), &line)
	if line.Event != "held" || line.Key != "k" || line.Token == 0 || line.Left <= 0 || line.Left > 3000 {
		t.Errorf("got %+v; want it held with a token and a validity", line)
	}
	if s := status(t, nodes, "k"); s.Verdict != "held" || !strings.HasPrefix(s.Holder, "script/") {
		t.Errorf("got %+v; want it held by script", s)
	}
	run(t, nodes, "hold", "-n", "--node-timeout", "1s", "k").want(t, 75)
	began := time.Now()
	eventually(t, "more than a lease", func() bool {
		if exists(t, servers, "k") < 2 {
			t.Fatalf("got it lapsed; want it renewed: %s", p.stderr())
		}
		return time.Since(began) > 3500*time.Millisecond
	})
	p.signal(t, sigTERM)
	r := p.wait(t)
	r.want(t, 0)
	if strings.Count(r.out, "\n") != 1 || r.errs != "" {
		t.Errorf("got %+v; want one line, and nothing on stderr", r)
	}
	if n := exists(t, servers, "k"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

func TestHoldTellsOfTheWholeTTLThoughTheFirstLeaseIsShort(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	p := start(t, short(t, nodes, "hold", "--node-timeout", "1s", "--ttl", "20s", "k"))
	eventually(t, "the line", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	var line struct {
		Left int `json:"validity_ms"`
	}
	decode(t, p.stdout(), &line)
	if line.Left < 13_000 || line.Left > 20_000 {
		t.Errorf("got a validity of %d ms; want that of a TTL of 20 s", line.Left)
	}
	p.signal(t, sigTERM)
	p.wait(t).want(t, 0)
}

func TestHoldEndsWithTheLock(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	run(t, nodes, "hold", "--node-timeout", "1s", "--max-hold", "300ms", "k").want(t, 123, "maximum")
	p := start(t, prepare(t, nodes, "hold", "--node-timeout", "1s", "--ttl", "3s", "k"))
	eventually(t, "the line", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
	for _, s := range servers {
		must(t, s.Pause())
	}
	p.wait(t).want(t, 124, "lost")
	for _, s := range servers {
		must(t, s.Resume())
	}

	// A reader that is gone: nobody would know that it is held.
	cmd := prepare(t, nodes, "hold", "--node-timeout", "1s", "gone")
	r, w, err := os.Pipe()
	must(t, err, r.Close())
	cmd.Stdout = w
	deaf := start(t, cmd)
	must(t, w.Close())
	deaf.wait(t).want(t, 1, "nobody reads")
	if n := exists(t, servers, "gone"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

// A script that was killed sends no signal: hold ends by itself, also while it waits. Its
// stderr is the script's, which p.wait waits for.
func TestHoldEndsWithTheProcessThatStartedIt(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	for key, says := range map[string]string{"free": "held", "busy": "waiting"} {
		cmd := prepare(t, nodes, "-c", `coproc "$0" hold --node-timeout 1s "$1"; read -r line <&${COPROC[0]}; echo $line; read -r line`, command, key)
		path, err := exec.LookPath("bash")
		if err != nil {
			t.Skip(err)
		}
		cmd.Path = path
		_, err = cmd.StdinPipe() // nobody writes
		must(t, err)
		var lock *redlock.Lock
		if key == "busy" {
			lock, err = open(t, nodes).Acquire(t.Context(), key)
			must(t, err)
		}
		p := start(t, cmd)
		eventually(t, says, func() bool {
			return key == "free" && strings.Contains(p.stdout(), `"held"`) || key == "busy" && status(t, nodes, key).Waiting == 1
		})
		p.signal(t, sigKILL)
		p.wait(t).want(t, -1)
		if s := status(t, nodes, key); s.Waiting != 0 || s.Verdict == "held" && lock == nil {
			t.Errorf("got %+v; want nothing held, and nobody in line", s)
		}
	}
}

// Who starts it for longer says so, in the ways that there are.
func TestHoldOutlivesItsStarterUnderNohupAndSetsid(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	for key, how := range map[string]string{"nohup": `trap "" HUP; "$0"`, "setsid": `setsid "$0"`} {
		lines := filepath.Join(t.TempDir(), "lines")
		cmd := prepare(t, nodes, "-c", how+` hold --node-timeout 1s --max-hold 15s "$1" >"$2" 2>&1 & until grep -q held "$2"; do sleep 0.05; done`, command, key, lines)
		cmd.Path = "/bin/sh"
		finish(t, cmd).want(t, 0)
		began := time.Now()
		eventually(t, "two looks at the parent", func() bool {
			if exists(t, servers, key) < 2 {
				t.Fatalf("%s: it has ended", key)
			}
			return time.Since(began) > 2500*time.Millisecond
		})
		run(t, nodes, "release", key, "--force", "--yes", "--node-timeout", "1s").want(t, 0, "removed") // which ends it
	}
}

func TestBenchMeasuresWithAllNodesAndWithOneThatHangs(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	r := run(t, nodes, "bench", "--duration", "2s", "--node-timeout", "1s", "--json", "--stall-node", servers[1].Addr())
	r.want(t, 0)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %s; want two phases", r.out)
	}
	for i, line := range lines {
		var phase struct {
			Nodes   string
			Locks   int
			Per     float64                `json:"per_second"`
			Acquire struct{ P50, P99 int } `json:"acquire_us"`
		}
		decode(t, line, &phase)
		if phase.Locks < 10 || phase.Per <= 0 || phase.Acquire.P50 <= 0 || phase.Acquire.P99 < phase.Acquire.P50 {
			t.Errorf("got %+v; want a measurement", phase)
		}
		if hangs := strings.Contains(phase.Nodes, "hangs"); hangs != (i == 1) {
			t.Errorf("phase %d: got %q; want all nodes, then one that hangs", i, phase.Nodes)
		}
		if phase.Acquire.P50 > 900_000 {
			t.Errorf("phase %d: got %d us; want no wait for the node that hangs", i, phase.Acquire.P50)
		}
	}
	run(t, nodes, "bench", "--duration", "100ms", "--node-timeout", "1s").want(t, 0, "PER SECOND")
	run(t, nodes, "bench", "--stall-node", "10.9.8.7:1").want(t, 64, "not in the list")
}
