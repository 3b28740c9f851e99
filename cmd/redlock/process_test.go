package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	sigHUP  = syscall.SIGHUP
	sigINT  = syscall.SIGINT
	sigQUIT = syscall.SIGQUIT
	sigKILL = syscall.SIGKILL
	sigTERM = syscall.SIGTERM
)

// process is a run of the program that is under way.
type process struct {
	cmd       *exec.Cmd
	out, errs *output
	ended     chan struct{}
}

// output collects what a process says, to be read meanwhile.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts a command; it is killed if the test ends before it does.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, out: &output{}, errs: &output{}, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.out
	}
	cmd.Stderr = p.errs
	must(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		awaitWatchdog(cmd.Process.Pid)
	})
	return p
}

// awaitWatchdog waits until the watchdog of a program that was killed has killed what that
// had started, and has ended: what it ran may write to the test's directory until then.
func awaitWatchdog(pid int) {
	of := fmt.Sprintf("lockwatch\x00%d\x00", pid)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		if !slices.ContainsFunc(all, func(name string) bool {
			args, _ := os.ReadFile(name)
			return strings.HasPrefix(string(args), of)
		}) {
			return
		}
	}
}

func (p *process) stdout() string { return p.out.String() }
func (p *process) stderr() string { return p.errs.String() }

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
}

// running tells whether it has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// wait waits for the end.
func (p *process) wait(t *testing.T) result {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("%q runs on; stdout: %s\nstderr: %s", p.cmd.Args, p.stdout(), p.stderr())
	}
	return result{p.stdout(), p.stderr(), p.cmd.ProcessState.ExitCode()}
}
