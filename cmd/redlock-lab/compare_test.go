package main_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// comparing prepares `redlock-lab compare` with a PATH in which redlock-compare is this
// shell script; empty: there is none.
func comparing(t *testing.T, script string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program of this test is a shell script")
	}
	dir := t.TempDir()
	if script != "" {
		text := "#!/bin/sh\n" + script + "\n"
		must(t, os.WriteFile(filepath.Join(dir, "redlock-compare"), []byte(text), 0o755))
	}
	cmd := prepare(t, append([]string{"compare"}, args...)...)
	cmd.Env = append(cmd.Env, "PATH="+dir, "SEEN="+dir+"/seen")
	return cmd, dir
}

func TestLabCompareRunsTheProgramOfPathWithItsArguments(t *testing.T) {
	t.Parallel()
	cmd, _ := comparing(t, `echo "$@"`, "--out", "there", "--", "-contenders", "redlock")
	finish(t, cmd).want(t, 0, "-out there -contenders redlock")
}

func TestLabCompareSaysHowToGetTheProgram(t *testing.T) {
	t.Parallel()
	cmd, _ := comparing(t, "")
	r := finish(t, cmd)
	r.want(t, 127, "no redlock-compare in PATH", "go install ./redlock-compare")
	if lines := strings.Count(r.errs, "\n"); lines != 1 || r.out != "" {
		t.Errorf("got %q and %q; want one line on stderr", r.out, r.errs)
	}
	// The line is right: there is a package of that name.
	if _, err := os.Stat("../../chaos/contenders/redlock-compare/main.go"); err != nil {
		t.Error(err)
	}
}

func TestLabCompareHasTheProgramsExitStatus(t *testing.T) {
	t.Parallel()
	cmd, _ := comparing(t, "echo 'redlock held twice' >&2; exit 3")
	r := finish(t, cmd)
	r.want(t, 3, "redlock held twice")
	if strings.Count(r.errs, "\n") != 1 {
		t.Errorf("got %q; want no word more than the program's", r.errs)
	}
}

func TestLabCompareSaysWhatSignalEndedTheProgram(t *testing.T) {
	t.Parallel()
	cmd, _ := comparing(t, "kill -KILL $$")
	finish(t, cmd).want(t, 128+int(syscall.SIGKILL), "killed")
}

// What it started has servers of its own to end.
func TestASignalEndsTheProgramOfLabCompareToo(t *testing.T) {
	t.Parallel()
	cmd, dir := comparing(t, `trap 'echo over >"$SEEN"; exit 1' INT; echo ready; while :; do :; done`)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q, %v; want the program ready", line, err)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("got exit status %d; want that of the signal", code)
	}
	if seen, err := os.ReadFile(dir + "/seen"); err != nil || string(seen) != "over\n" {
		t.Errorf("got %q, %v; want the program to have ended by itself", seen, err)
	}
}
