package process

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// Wipe empties a data directory.
func Wipe(data string) error {
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	return os.Mkdir(data, 0o700)
}

// Restore puts the data of a snapshot in the place of those that are there.
func Restore(data, snapshot string) error {
	if err := Wipe(data); err != nil {
		return err
	}
	return os.CopyFS(data, os.DirFS(snapshot))
}

// Snapshot copies a data directory to a new one in dir.
func Snapshot(data, dir string) (string, error) {
	to, err := os.MkdirTemp(dir, "snapshot-")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(to, os.DirFS(data)); err != nil {
		return "", errors.Join(err, os.RemoveAll(to))
	}
	return to, nil
}

// ErrNoAOF means that a data directory has no append-only file.
var ErrNoAOF = errors.New("no append-only file")

// AOF returns the newest of the files that hold the writes since the last rewrite
// (Redis 7: appendonly.aof.N.incr.aof), and its length in bytes.
func AOF(data string) (path string, size int64, err error) {
	found, err := filepath.Glob(filepath.Join(data, "appendonlydir", "*.incr.aof"))
	if err != nil {
		return "", 0, err
	}
	if len(found) == 0 {
		return "", 0, ErrNoAOF
	}
	path = slices.MaxFunc(found, byModTime)
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	return path, info.Size(), nil
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
