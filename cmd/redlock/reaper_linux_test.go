package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Without a /proc of its own, exec would find nothing that left the group: it asks no node.
func TestExecIsRefusedWithoutProc(t *testing.T) {
	t.Parallel()
	for name, in := range map[string][]string{
		"not mounted":                   {"-m", "sh", "-c", `mount -t tmpfs none /proc && exec "$@"`, "sh"},
		"that of another PID namespace": {"-p", "-f"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := exec.CommandContext(t.Context(), "unshare", append(in, "true")...).Run(); err != nil {
				t.Skipf("unshare: %v", err)
			}
			for _, what := range []string{"exec", "lead"} {
				cmd := prepare(t, "127.0.0.1:1", append(in, command, what, "--wait", "1s", "k", "echo", "started")...)
				cmd.Path, _ = exec.LookPath("unshare")
				cmd.Args[0] = "unshare"
				if r := finish(t, cmd); r.out != "" {
					t.Errorf("got %+v; want nothing started", r)
				} else {
					r.want(t, 78, what+": /proc does not show", "mount -t proc proc /proc")
				}
			}
		})
	}
}

// A list of processes that can't be read has not shown that all of them are dead.
func TestExecHoldsWhileItCantLookForProcesses(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	file := filepath.Join(t.TempDir(), "beat")
	cmd := prepare(t, nodes, append(execFlags[:3:3], "--kill-after", "300ms", "k", "sh", "-c",
		`setsid "$0" "$1" & until test -e "$1.end"; do sleep 0.01; done; exit 6`, os.Args[0], file)...)
	cmd.Env = append(cmd.Env, actVar+"=beat")
	p := start(t, cmd)
	var pid int
	eventually(t, "the start", func() bool { pid, _ = lastBeat(t, file); return pid != 0 })
	t.Cleanup(func() {
		if alive(pid) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	var was unix.Rlimit
	must(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &was))
	must(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: was.Max}, nil))
	must(t, os.WriteFile(file+".end", nil, 0o600))
	began := time.Now()
	eventually(t, "the time for an end", func() bool {
		if alive(pid) && exists(t, servers, "k") < 2 {
			t.Fatalf("it was released while a process that left the group lives: %s", p.stderr())
		}
		return time.Since(began) > 2*time.Second
	})
	must(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, &was, nil))
	p.wait(t).want(t, 6, "left running")
	if alive(pid) {
		t.Error("it ended before what it had started")
	}
}
