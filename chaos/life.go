package chaos

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// errNotRunning is what signals to a process that has ended give.
var errNotRunning = errors.New("the server is not running")

// Stop ends the process in good order (SIGTERM) and waits for it. A paused
// process is continued first; one that does not end within 5 s is killed, which
// is no error. Stopping a server that does not run does nothing.
func (s *Server) Stop() error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.stop()
}

// stop is Stop; the caller holds life.
func (s *Server) stop() error {
	if !s.running() {
		return nil
	}
	if err := terminate(s.process.cmd.Process); err != nil {
		return errors.Join(fmt.Errorf("chaos: stop %s: %w", s.Addr(), err), s.kill())
	}
	timer := time.NewTimer(stopFor)
	defer timer.Stop()
	select {
	case <-s.process.ended:
		return nil
	case <-timer.C:
		return s.kill()
	}
}

// Kill ends the process at once (SIGKILL) and waits until it is gone. Killing
// a server that does not run does nothing.
func (s *Server) Kill() error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.kill()
}

// kill is Kill; the caller holds life.
func (s *Server) kill() error {
	if !s.running() {
		return nil
	}
	if err := s.process.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("chaos: kill %s: %w", s.Addr(), err)
	}
	<-s.process.ended
	return nil
}

// Pause stops the process (SIGSTOP) and returns when it has stopped. The kernel
// goes on accepting its connections and the commands sent over them; they are
// executed after [Server.Resume], also those of connections that their clients
// have closed since. It fails if the server does not run, and with
// errors.ErrUnsupported on Windows.
func (s *Server) Pause() error {
	return s.signal("pause", suspend)
}

// Resume continues a paused process (SIGCONT). One that is not paused is left
// alone. It fails as [Server.Pause] does.
func (s *Server) Resume() error {
	return s.signal("resume", proceed)
}

func (s *Server) signal(what string, send func(*os.Process) error) error {
	s.life.Lock()
	defer s.life.Unlock()
	err := errNotRunning
	if s.running() {
		err = send(s.process.cmd.Process)
	}
	if err != nil {
		return fmt.Errorf("chaos: %s %s: %w", what, s.Addr(), err)
	}
	return nil
}

// Restart kills the process if it runs, starts another one in the same place
// and returns when it answers: on the same port, and with what the disk has.
// Without an append-only file that is nothing. To restart in good order, call
// [Server.Stop] before.
func (s *Server) Restart() error {
	return s.restart(func() error { return nil })
}

// RestartEmpty is [Server.Restart] after a wipe of the disk.
func (s *Server) RestartEmpty() error {
	return s.restart(s.wipe)
}

// RestartWithDataFrom is [Server.Restart] with the data of a directory that
// [Server.Snapshot] returned, in place of those that are there.
func (s *Server) RestartWithDataFrom(snapshot string) error {
	return s.restart(func() error { return s.restore(snapshot) })
}

// alter kills the process if it runs, and calls change.
func (s *Server) alter(change func() error) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	if err := change(); err != nil {
		return fmt.Errorf("chaos: data of %s: %w", s.Addr(), err)
	}
	return nil
}

// restart calls change between the old process and the new one.
func (s *Server) restart(change func() error) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	if err := change(); err != nil {
		return fmt.Errorf("chaos: restart %s: %w", s.Addr(), err)
	}
	// The port is out of the range that outgoing connections use, so that
	// only another server can have taken it, for good or for a moment.
	var err error
	for range portAttempts {
		if err = s.launch(); !errors.Is(err, errPortTaken) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// ignoreDone is for signals to a process that ended at the same moment.
func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
