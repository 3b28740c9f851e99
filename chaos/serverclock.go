package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrNoFakeClock means that libfaketime is not installed. It is looked for
// where Linux distributions put it, or at $REDLOCK_LIBFAKETIME.
var ErrNoFakeClock = errors.New("chaos: libfaketime is not installed")

// fakeClockPlaces are glob patterns.
var fakeClockPlaces = []string{
	"/usr/lib/*/faketime/libfaketime.so.1",
	"/usr/lib/faketime/libfaketime.so.1",
	"/usr/lib64/faketime/libfaketime.so.1",
	"/usr/local/lib/faketime/libfaketime.so.1",
}

func findFakeClock() (string, error) {
	if path := os.Getenv("REDLOCK_LIBFAKETIME"); path != "" {
		if _, err := os.Stat(path); err != nil { //nolint:gosec // the user's own choice
			return "", fmt.Errorf("%w: %w", ErrNoFakeClock, err)
		}
		return path, nil
	}
	for _, pattern := range fakeClockPlaces {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", ErrNoFakeClock
}

func (s *Server) clockFile() string { return filepath.Join(s.dir, "clock") }

// clockEnv puts libfaketime before the process. libc must be named behind it,
// or redis-server hangs in jemalloc; the monotonic clock stays true, as it does
// when an operator or NTP sets a clock.
func (s *Server) clockEnv() ([]string, error) {
	library, err := findFakeClock()
	if err != nil {
		return nil, err
	}
	return []string{
		"LD_PRELOAD=" + library + " libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + s.clockFile(),
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
	}, nil
}

// SetClock moves the server's wall clock while it runs, and for later
// restarts: "+20" is twenty seconds ahead of the machine's, "-3600" an hour
// behind it, "+0 x1.5" half as fast again from the start of the process on. It
// takes effect at the server's next look at the clock. It fails if the server
// was not started with FakeClock.
func (s *Server) SetClock(offset string) error {
	if !s.config.FakeClock {
		return fmt.Errorf("chaos: clock of %s: the server was started without FakeClock", s.Addr())
	}
	s.setting.Lock()
	defer s.setting.Unlock()
	return s.writeClock(offset)
}

// writeClock is SetClock; setting is held.
func (s *Server) writeClock(offset string) error {
	// By rename, so that the server never reads half of it.
	next := s.clockFile() + ".next"
	if err := os.WriteFile(next, []byte(offset+"\n"), 0o600); err != nil {
		return fmt.Errorf("chaos: clock of %s: %w", s.Addr(), err)
	}
	if err := os.Rename(next, s.clockFile()); err != nil {
		return fmt.Errorf("chaos: clock of %s: %w", s.Addr(), err)
	}
	s.offset = offset
	return nil
}

// respell has a process that has just begun read its clock's setting once more, in
// other words. libfaketime looks at the time twice while it begins, and what lies
// between, tens of milliseconds on a busy machine, its clock is off by until it
// reads another text: a step to whoever knew the process before.
func (s *Server) respell() error {
	s.setting.Lock()
	defer s.setting.Unlock()
	if next, spaced := strings.CutSuffix(s.offset, " "); spaced {
		return s.writeClock(next)
	}
	return s.writeClock(s.offset + " ")
}
