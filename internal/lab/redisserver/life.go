package redisserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/process"
)

// Stop ends the process in good order (SIGTERM) and waits for it. A paused
// process is continued first; one that does not end within 5 s is killed, which
// is no error. Stopping a server that does not run does nothing.
func (s *Server) Stop() error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.stopLocked()
}

// stopLocked is Stop.
func (s *Server) stopLocked() error {
	if err := s.process.Stop(); err != nil {
		return fmt.Errorf("chaos: stop %s: %w", s.Addr(), err)
	}
	return nil
}

// Kill ends the process at once (SIGKILL) and waits until it is gone. Killing
// a server that does not run does nothing.
func (s *Server) Kill() error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.killLocked()
}

// killLocked is Kill.
func (s *Server) killLocked() error {
	if err := s.process.Kill(); err != nil {
		return fmt.Errorf("chaos: kill %s: %w", s.Addr(), err)
	}
	return nil
}

// Pause stops the process (SIGSTOP) and returns when it has stopped. The kernel
// goes on accepting its connections and the commands sent over them; they are
// executed after [Server.Resume], also those of connections that their clients
// have closed since. It fails if the server does not run, and with
// errors.ErrUnsupported on Windows.
func (s *Server) Pause() error {
	return s.signal("pause", (*process.Process).Suspend)
}

// Resume continues a paused process (SIGCONT). One that is not paused is left
// alone. It fails as [Server.Pause] does.
func (s *Server) Resume() error {
	return s.signal("resume", (*process.Process).Proceed)
}

func (s *Server) signal(what string, send func(*process.Process) error) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := send(s.process); err != nil {
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
	return s.restart(func() error { return process.Wipe(s.DataDir()) })
}

// RestartWithDataFrom is [Server.Restart] with the data of a directory that
// [Server.Snapshot] returned, in place of those that are there.
func (s *Server) RestartWithDataFrom(snapshot string) error {
	return s.restart(func() error { return process.Restore(s.DataDir(), snapshot) })
}

// Alter kills the process if it runs, and calls change.
func (s *Server) Alter(change func() error) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.killLocked(); err != nil {
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
	if err := s.killLocked(); err != nil {
		return err
	}
	if err := change(); err != nil {
		return fmt.Errorf("chaos: restart %s: %w", s.Addr(), err)
	}
	// The port is out of the range that outgoing connections use, so that
	// only another server can have taken it, for good or for a moment.
	var err error
	for range returnAttempts {
		if err = s.launchLocked(); !errors.Is(err, process.ErrPortTaken) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// Snapshot copies the server's data as they are now and returns the copy's
// directory, for [Server.RestartWithDataFrom] of this server or another one
// started with the same AOF setting. It is removed with the server. A server
// without an append-only file must run: it writes an RDB file first.
func (s *Server) Snapshot(ctx context.Context) (string, error) {
	if s.Config.AOF == "" {
		client := redis.NewClient(s.Options())
		defer client.Close()
		if err := client.Save(ctx).Err(); err != nil {
			return "", fmt.Errorf("chaos: snapshot of %s: %w", s.Addr(), err)
		}
		// Or else a plain restart would find it.
		defer os.Remove(filepath.Join(s.DataDir(), "dump.rdb"))
	}
	s.life.Lock()
	defer s.life.Unlock()
	dir, err := process.Snapshot(s.DataDir(), s.dir)
	if err != nil {
		return "", fmt.Errorf("chaos: snapshot of %s: %w", s.Addr(), err)
	}
	return dir, nil
}

// AOFSize returns the length, in bytes, of the part of the append-only file
// that grows with each write.
func (s *Server) AOFSize() (int64, error) {
	_, size, err := process.AOF(s.DataDir())
	if err != nil {
		return 0, fmt.Errorf("chaos: append-only file of %s: %w", s.Addr(), err)
	}
	return size, nil
}

// TruncateAOF removes the given number of bytes, or all if there are fewer,
// from the end of the append-only file, as a power failure does with what was
// not forced to the disk: everything since a moment is gone, or half a command
// is left, which Redis ignores at its next start. The server must not run.
//
// SIGKILL alone loses nothing that was written: that is in the kernel's hands.
// But under [FsyncEverysec] a server answers without having written while an
// fsync is under way, for up to two seconds, and what it then still holds in
// memory dies with it. [Server.AOFSize] tells when a write is in the file.
func (s *Server) TruncateAOF(bytes int64) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.process.Running() {
		return fmt.Errorf("chaos: truncating the append-only file of %s: the server is running", s.Addr())
	}
	if bytes < 0 {
		return fmt.Errorf("chaos: truncating the append-only file of %s: %d bytes", s.Addr(), bytes)
	}
	path, size, err := process.AOF(s.DataDir())
	if err != nil {
		return fmt.Errorf("chaos: append-only file of %s: %w", s.Addr(), err)
	}
	if err := os.Truncate(path, max(0, size-bytes)); err != nil {
		return fmt.Errorf("chaos: truncating the append-only file of %s: %w", s.Addr(), err)
	}
	return nil
}

// SetClock moves the server's wall clock while it runs, and for later
// restarts: "+20" is twenty seconds ahead of the machine's, "-3600" an hour
// behind it, "+0 x1.5" half as fast again from the start of the process on. It
// takes effect at the server's next look at the clock. It fails if the server
// was not started with FakeClock.
func (s *Server) SetClock(offset string) error {
	if !s.Config.FakeClock {
		return fmt.Errorf("chaos: clock of %s: the server was started without FakeClock", s.Addr())
	}
	s.setting.Lock()
	defer s.setting.Unlock()
	if err := process.SetClock(s.clockFile(), offset); err != nil {
		return fmt.Errorf("chaos: clock of %s: %w", s.Addr(), err)
	}
	return nil
}
