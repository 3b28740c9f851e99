//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/quorumkit/redlock/internal/testkit"
)

// script prepares examples/shellhold, which does work while it holds k.
func script(t *testing.T, nodes, work string) *exec.Cmd {
	t.Helper()
	return scriptAt(t, "../../examples/shellhold/hold.sh", nodes, work)
}

func scriptAt(t *testing.T, path, nodes, work string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", path, "k")
	cmd.WaitDelay = patience
	cmd.Env = append(os.Environ(), "REDLOCK="+command, "REDLOCK_NODES="+nodes, "WORK="+work)
	return cmd
}

func TestAScriptHoldsAsWithFlock(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	// While it holds, it looks whether it does, and others can't have it.
	r := finish(t, script(t, nodes, command+" status --node-timeout 1s k"))
	r.want(t, 0, "holding k with the token ", `"k": held`, "released k")
	_, text, _ := strings.Cut(r.out, "with the token ")
	text, _, _ = strings.Cut(text, "\n")
	if token, err := strconv.ParseUint(text, 10, 64); err != nil || token == 0 {
		t.Errorf("got the token %q; want a number", text)
	}
	if n := exists(t, servers, "k"); n != 0 {
		t.Errorf("got %d keys afterwards; want none", n)
	}
}

// unwatched is the script as it is where its watcher is late: it says nothing in time.
func unwatched(t *testing.T) string {
	t.Helper()
	const says = `kill -USR1 "$PPID"`
	text, err := os.ReadFile("../../examples/shellhold/hold.sh")
	must(t, err)
	if strings.Count(string(text), says) != 1 {
		t.Fatalf("the script has not one %q", says)
	}
	path := filepath.Join(t.TempDir(), "hold.sh")
	must(t, os.WriteFile(path, []byte(strings.Replace(string(text), says, ":", 1)), 0o600))
	return path
}

// The script ends when its lock is lost, and does not do what is behind, also where its
// work is done before the loss is told, or fails after it.
func TestAScriptEndsWhenItsLockIsLost(t *testing.T) {
	t.Parallel()
	const printed = "../../examples/shellhold/hold.sh"
	for how, path := range map[string]string{"told": printed, "told, and its work fails": printed, "told late": unwatched(t)} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			_, nodes := masters(t, 3)
			file, work := filepath.Join(t.TempDir(), "end"), "true"
			if strings.Contains(how, "fails") {
				work = "sleep 2; exit 3" // the watcher needs a moment to tell
			}
			must(t, os.WriteFile(file+".sh", []byte("#!/bin/sh\nuntil test -e "+file+"; do sleep 0.05; done; "+work+"\n"), 0o700))
			p := start(t, scriptAt(t, path, nodes, file+".sh"))
			eventually(t, "the start", func() bool { return strings.Contains(p.stdout(), "holding k") })
			run(t, nodes, "release", "k", "--force", "--yes", "--node-timeout", "1s").want(t, 0, "removed")
			eventually(t, "the loss", func() bool { return strings.Contains(p.stderr(), "taken away") })
			must(t, os.WriteFile(file, nil, 0o600))
			r := p.wait(t)
			if r.want(t, 124, "the lock was lost"); strings.Contains(r.out, "released") {
				t.Errorf("got %s; want nothing done after the loss", r.out)
			}
		})
	}
}

// Where the script gets no lock, it begins nothing.
func TestAScriptWithoutALockBeginsNothing(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	r := finish(t, script(t, "127.0.0.1", "echo started"))
	if r.want(t, 78); strings.Contains(r.out, "started") {
		t.Errorf("got %s; want nothing begun without a lock", r.out)
	}
}

// However a script ends, nothing is held any more, and no process of it is left: what would
// be left has its stderr, which p.wait waits for.
func TestAScriptThatEndsLeavesNothingHeld(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "bash"} {
		for name, c := range map[string]struct {
			fault syscall.Signal
			to    int // 1: the script, -1: its group
			code  int
		}{
			"fails": {code: 3}, "killed": {sigKILL, 1, -1}, "HUP": {sigHUP, -1, 129}, "INT": {sigINT, -1, 130}, "TERM": {sigTERM, 1, 143},
		} {
			t.Run(shell+" "+name, func(t *testing.T) {
				t.Parallel()
				servers, nodes := masters(t, 3)
				end := filepath.Join(t.TempDir(), "end")
				must(t, os.WriteFile(end+".sh", []byte("#!/bin/sh\nuntil test -e "+end+"; do sleep 0.05; done; exit 3\n"), 0o700))
				cmd := script(t, nodes, end+".sh")
				path, err := exec.LookPath(shell)
				if err != nil {
					t.Skip(err)
				}
				cmd.Path, cmd.SysProcAttr = path, &syscall.SysProcAttr{Setpgid: true}
				p := start(t, cmd)
				eventually(t, "the start", func() bool { return strings.Contains(p.stdout(), "holding k") })
				if c.fault != 0 {
					must(t, syscall.Kill(c.to*cmd.Process.Pid, c.fault))
				}
				must(t, os.WriteFile(end, nil, 0o600))
				p.wait(t).want(t, c.code)
				if n := exists(t, servers, "k"); n != 0 {
					t.Errorf("got %d keys afterwards; want none", n)
				}
			})
		}
	}
}
