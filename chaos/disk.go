package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/redis/go-redis/v9"
)

// wipe empties the data directory.
func (s *Server) wipe() error {
	if err := os.RemoveAll(s.dataDir()); err != nil {
		return err
	}
	return os.Mkdir(s.dataDir(), 0o700)
}

// restore puts the data of a snapshot in the place of those that are there.
func (s *Server) restore(snapshot string) error {
	if err := s.wipe(); err != nil {
		return err
	}
	return os.CopyFS(s.dataDir(), os.DirFS(snapshot))
}

// Snapshot copies the server's data as they are now and returns the copy's
// directory, for [Server.RestartWithDataFrom] of this server or another one
// started with the same AOF setting. It is removed with the server. A server
// without an append-only file must run: it writes an RDB file first.
func (s *Server) Snapshot(ctx context.Context) (string, error) {
	if s.config.AOF == "" {
		client := redis.NewClient(s.Options())
		defer client.Close()
		if err := client.Save(ctx).Err(); err != nil {
			return "", fmt.Errorf("chaos: snapshot of %s: %w", s.Addr(), err)
		}
		// Or else a plain restart would find it.
		defer os.Remove(filepath.Join(s.dataDir(), "dump.rdb"))
	}
	s.life.Lock()
	defer s.life.Unlock()
	dir, err := os.MkdirTemp(s.dir, "snapshot-")
	if err != nil {
		return "", fmt.Errorf("chaos: snapshot of %s: %w", s.Addr(), err)
	}
	if err := os.CopyFS(dir, os.DirFS(s.dataDir())); err != nil {
		return "", errors.Join(fmt.Errorf("chaos: snapshot of %s: %w", s.Addr(), err), os.RemoveAll(dir))
	}
	return dir, nil
}

// AOFSize returns the length, in bytes, of the part of the append-only file
// that grows with each write.
func (s *Server) AOFSize() (int64, error) {
	path, err := s.incrementalAOF()
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("chaos: append-only file of %s: %w", s.Addr(), err)
	}
	return info.Size(), nil
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
	if s.running() {
		return fmt.Errorf("chaos: truncating the append-only file of %s: the server is running", s.Addr())
	}
	if bytes < 0 {
		return fmt.Errorf("chaos: truncating the append-only file of %s: %d bytes", s.Addr(), bytes)
	}
	size, err := s.AOFSize()
	if err != nil {
		return err
	}
	path, err := s.incrementalAOF()
	if err != nil {
		return err
	}
	if err := os.Truncate(path, max(0, size-bytes)); err != nil {
		return fmt.Errorf("chaos: truncating the append-only file of %s: %w", s.Addr(), err)
	}
	return nil
}

// incrementalAOF returns the newest of the files that hold the writes since
// the last rewrite (Redis 7: appendonly.aof.N.incr.aof).
func (s *Server) incrementalAOF() (string, error) {
	found, err := filepath.Glob(filepath.Join(s.dataDir(), "appendonlydir", "*.incr.aof"))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("chaos: %s has no append-only file", s.Addr())
	}
	return slices.MaxFunc(found, byModTime), nil
}

// byModTime puts the file that was written last last; N in the names has no
// fixed width.
func byModTime(a, b string) int {
	fa, errA := os.Stat(a)
	fb, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return 0
	}
	return fa.ModTime().Compare(fb.ModTime())
}
