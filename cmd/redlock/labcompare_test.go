package main_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// comparing makes `redlock lab compare` with a PATH in which redlock-compare is this
// shell script; empty: there is none.
func comparing(t *testing.T, script string, args ...string) (*process, string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program of this test is a shell script")
	}
	dir := t.TempDir()
	if script != "" {
		text := "#!/bin/sh\n" + script + "\n"
		must(t, os.WriteFile(filepath.Join(dir, "redlock-compare"), []byte(text), 0o755))
	}
	cmd := prepare(t, "", append([]string{"lab", "compare"}, args...)...)
	cmd.Env = append(cmd.Env, "PATH="+dir, "SEEN="+dir+"/seen")
	return start(t, cmd), dir
}

func TestLabCompareRunsTheProgramOfPathWithItsArguments(t *testing.T) {
	t.Parallel()
	p, _ := comparing(t, `echo "$@"`, "--out", "there", "--", "-contenders", "redlock")
	p.wait(t).want(t, 0, "-out there -contenders redlock")
}

func TestLabCompareSaysHowToGetTheProgram(t *testing.T) {
	t.Parallel()
	p, _ := comparing(t, "")
	r := p.wait(t)
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
	p, _ := comparing(t, "echo 'redlock held twice' >&2; exit 3")
	r := p.wait(t)
	r.want(t, 3, "redlock held twice")
	if strings.Count(r.errs, "\n") != 1 {
		t.Errorf("got %q; want no word more than the program's", r.errs)
	}
}

func TestLabCompareSaysWhatSignalEndedTheProgram(t *testing.T) {
	t.Parallel()
	p, _ := comparing(t, "kill -KILL $$")
	p.wait(t).want(t, 128+int(syscall.SIGKILL), "killed")
}

// What it started has servers of its own to end.
func TestASignalEndsTheProgramOfLabCompareToo(t *testing.T) {
	t.Parallel()
	p, dir := comparing(t, `trap 'echo over >"$SEEN"; exit 1' INT; echo ready; while :; do :; done`)
	eventually(t, "the program to be ready", func() bool { return strings.Contains(p.stdout(), "ready") })
	p.signal(t, syscall.SIGTERM)
	p.wait(t).want(t, 128+int(syscall.SIGTERM))
	if seen, err := os.ReadFile(dir + "/seen"); err != nil || string(seen) != "over\n" {
		t.Errorf("got %q, %v; want the program to have ended by itself", seen, err)
	}
}
