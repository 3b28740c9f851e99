//go:build unix

package process

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// terminate asks a process to end. A stopped one would not hear it.
func terminate(p *os.Process) error {
	return ignoreDone(errors.Join(p.Signal(syscall.SIGTERM), p.Signal(syscall.SIGCONT)))
}

func suspend(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Second); !stopped(p.Pid); {
		if time.Now().After(deadline) {
			return errors.New("still running a second after SIGSTOP")
		}
		time.Sleep(100 * time.Microsecond)
	}
	return nil
}

func proceed(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
