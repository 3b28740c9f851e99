package contenders

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/quorumkit/redlock/chaos/internal/process"
)

// proc is a node that is a process on a port of this machine.
type proc struct {
	system  *system
	path    string
	args    []string
	address string
	clock   bool // its wall clock can be set: it reads it by the C library

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has been waited for
}

func (p *proc) addr() string { return p.address }

// log is the file that gets what the process prints.
func (p *proc) log() string { return p.file("log") }

// file is a file of this node in the system's directory.
func (p *proc) file(name string) string {
	return filepath.Join(p.system.dir, name+"-"+strings.ReplaceAll(p.address, ":", "-"))
}

func (p *proc) start() error {
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...) //nolint:gosec,noctx // a server; kill ends it
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.system.dir, log, log
	cmd.Env = append(os.Environ(), "HOME="+p.system.dir, "TMPDIR="+p.system.dir)
	if p.clock {
		env, err := p.clockEnv()
		if err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, env...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.system.cred, Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // a server that died is told by what then fails
	}()
	return nil
}

// ended tells whether the process that was started is gone.
func (p *proc) ended() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *proc) kill() error {
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP) // so that it has no more children while they are counted; it may have ended
	for _, pid := range p.pids() {            // a database's children leave its group
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-p.done
	p.cmd = nil
	return nil
}

func (p *proc) hang() error { return p.signal(syscall.SIGSTOP) }
func (p *proc) wake() error { return p.signal(syscall.SIGCONT) }

func (p *proc) signal(sig syscall.Signal) error {
	var errs []error
	for _, pid := range p.pids() {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p *proc) pids() []int {
	if p.cmd == nil {
		return nil
	}
	return family(p.cmd.Process.Pid)
}

// clockEnv has the process read its wall clock by a file. What is preloaded, and the
// file, must be in a directory that the server's user can read.
func (p *proc) clockEnv() ([]string, error) {
	library, err := process.FakeClock()
	if errors.Is(err, process.ErrNoFakeClock) {
		p.clock = false
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	code, err := os.ReadFile(library) //nolint:gosec // what was built for this
	if err != nil {
		return nil, err
	}
	readable := p.file("fakeclock.so")
	if err := os.WriteFile(readable, code, 0o644); err != nil { //nolint:gosec // for the server's user
		return nil, err
	}
	if err := p.setClock(0); err != nil {
		return nil, err
	}
	return []string{"LD_PRELOAD=" + readable, "REDLOCK_FAKE_CLOCK=" + p.file("clock")}, nil
}

func (p *proc) step(seconds int) error {
	if !p.clock {
		return errNoClock
	}
	return p.setClock(seconds)
}

func (p *proc) setClock(seconds int) error {
	next := p.file("clock") + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+d\n", seconds), 0o644); err != nil { //nolint:gosec // for the server's user
		return err
	}
	return os.Rename(next, p.file("clock"))
}
