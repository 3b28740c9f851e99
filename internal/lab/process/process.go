// Package process runs the server processes of chaos: it starts one and waits until it
// answers, signals and ends it, and changes what it has on its disk meanwhile.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stopFor bounds the wait for a process to end after SIGTERM; what then still runs is
// killed.
const stopFor = 5 * time.Second

// testServer names the server that is started where a program does not say which.
const testServer = "REDLOCK_TEST_SERVER"

// ErrNoServer means that neither redis-server nor valkey-server is in PATH.
var ErrNoServer = errors.New("chaos: no redis-server and no valkey-server in PATH")

// Find returns the path of the program that is named, or of the first server in PATH.
func Find(name string) (string, error) {
	if name = cmp.Or(name, os.Getenv(testServer)); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoServer, err)
		}
		return filepath.Abs(path) // a server has a directory of its own
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoServer
}

// Process is one run of the program. A nil one has ended.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has been waited for
	err   error         // how it ended; read after ended
}

// Config is how a program is run.
type Config struct {
	Binary string // its path
	Args   []string
	Env    []string // the whole environment
	Dir    string   // where it runs
	Log    string   // the file that gets what it prints
	// Attr is how the system starts it, such as its user; nil: as this program.
	Attr *syscall.SysProcAttr
}

// Start runs the program. It dies with this one, where the system can do that.
func Start(c Config) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("chaos: start server: %w", err)
	}
	defer log.Close()
	// The process outlives every call, so no context bounds it.
	cmd := exec.CommandContext(context.Background(), c.Binary, c.Args...) //nolint:gosec // the caller's own program is the point
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, log, log
	cmd.SysProcAttr = c.Attr
	DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("chaos: start %s: %w", c.Binary, err)
	}
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Running reports whether the process runs; one that is suspended does.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// PID returns the process id, or 0 if it has ended.
func (p *Process) PID() int {
	if !p.Running() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Stop has the process end in good order, and waits for it. One that does not end in
// time is killed, which is no error; nor is it that it has ended.
func (p *Process) Stop() error {
	if !p.Running() {
		return nil
	}
	if err := terminate(p.cmd.Process); err != nil {
		return errors.Join(err, p.Kill())
	}
	timer := time.NewTimer(stopFor)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
		return p.Kill()
	}
}

// Kill ends the process at once, and waits until it is gone.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// errNotRunning is what signals to a process that has ended give.
var errNotRunning = errors.New("the server is not running")

// Suspend returns when the process has stopped (SIGSTOP).
func (p *Process) Suspend() error {
	if !p.Running() {
		return errNotRunning
	}
	return suspend(p.cmd.Process)
}

// Proceed continues a process that is suspended (SIGCONT).
func (p *Process) Proceed() error {
	if !p.Running() {
		return errNotRunning
	}
	return proceed(p.cmd.Process)
}

// ignoreDone is for signals to a process that ended at the same moment.
func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
