package process

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrNoFakeClock means that a server's wall clock can't be set here: that takes
// Linux, and a C compiler (cc in PATH, or $CC) that builds what is preloaded into
// the server's process.
var ErrNoFakeClock = errors.New("chaos: the clock of a server process can't be set")

//go:embed fakeclock/fakeclock.c
var fakeClockSource []byte

// FakeClock is the library that is preloaded. It is built at the first use, and kept
// in the user's cache directory.
func FakeClock() (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("%w: not on %s", ErrNoFakeClock, runtime.GOOS)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "redlock")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoFakeClock, err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(fakeClockSource) // a hash never fails
	library := filepath.Join(dir, fmt.Sprintf("fakeclock-%s-%x.so", runtime.GOARCH, hash.Sum64()))
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	return library, compileFakeClock(library)
}

// compileFakeClock builds the library beside its place, and moves it there whole:
// several processes may build it at once.
func compileFakeClock(library string) error {
	built, err := os.CreateTemp(filepath.Dir(library), "fakeclock-*.tmp")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoFakeClock, err)
	}
	defer os.Remove(built.Name())
	if err := built.Close(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoFakeClock, err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	cmd := exec.CommandContext(context.Background(), compiler, "-O2", "-shared", "-fPIC", "-x", "c", "-o", built.Name(), "-") //nolint:gosec // the user's own compiler
	cmd.Stdin = strings.NewReader(string(fakeClockSource))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s: %w\n%s", ErrNoFakeClock, compiler, err, out)
	}
	if err := os.Rename(built.Name(), library); err != nil {
		return fmt.Errorf("%w: %w", ErrNoFakeClock, err)
	}
	return nil
}

// ClockEnv makes a process read its wall clock through fakeclock.c, by a file. The
// monotonic clock stays true, as it does when an operator or NTP sets a clock.
func ClockEnv(file string) ([]string, error) {
	library, err := FakeClock()
	if err != nil {
		return nil, err
	}
	return []string{"LD_PRELOAD=" + library, "REDLOCK_FAKE_CLOCK=" + file}, nil
}

// SetClock writes the file that sets the process's clock. It does so by rename, so
// that the process never reads half of it; no two calls for a file may overlap.
func SetClock(file, offset string) error {
	next := file + ".next"
	if err := os.WriteFile(next, []byte(offset+"\n"), 0o644); err != nil { //nolint:gosec // the process may be another user's
		return err
	}
	return os.Rename(next, file)
}
