//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// script prepares examples/shellhold, which does work while it holds k.
func script(t *testing.T, nodes, work string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "../../examples/shellhold/hold.sh", "k")
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

// The script ends when its lock is lost, and does not do what is behind; and where it gets
// none, it begins nothing.
func TestAScriptEndsWhenItsLockIsLost(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	file := filepath.Join(t.TempDir(), "end")
	must(t, os.WriteFile(file+".sh", []byte("#!/bin/sh\nuntil test -e "+file+"; do sleep 0.05; done\n"), 0o700))
	p := start(t, script(t, nodes, file+".sh"))
	eventually(t, "the start", func() bool { return strings.Contains(p.stdout(), "holding k") })
	run(t, nodes, "release", "k", "--force", "--yes", "--node-timeout", "1s").want(t, 0, "removed")
	eventually(t, "the loss", func() bool { return strings.Contains(p.stderr(), "k: lost") || strings.Contains(p.stderr(), "lost") })
	must(t, os.WriteFile(file, nil, 0o600))
	r := p.wait(t)
	if r.want(t, 124, "the lock was lost"); strings.Contains(r.out, "released") {
		t.Errorf("got %s; want nothing done after the loss", r.out)
	}
	r = finish(t, script(t, "127.0.0.1", "echo started"))
	if r.want(t, 78); strings.Contains(r.out, "started") {
		t.Errorf("got %s; want nothing begun without a lock", r.out)
	}
}
