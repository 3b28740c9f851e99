//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

// A version of the file is "v" and the largest token that the file has seen, in 16
// digits, which hold MaxToken and sort as numbers do. Where that is the token of a
// shared hold, a point and the largest exclusive token follow, 0 for none.
const (
	versionPrefix = "v"
	versionDigits = 16
	lockName      = "lock"
)

// lockPoll is how often a writer asks for the file lock: flock knows no timeout.
const lockPoll = 5 * time.Millisecond

// Guard keeps one file as versions in a directory of its own. What stands in the
// file is the version with the largest token. The directory's name is that of the
// lock, under which a context says that a token is shared (fencing.IsShared).
//
// Unit of atomicity: one rename, which gives the new content its name, and what
// was seen is the name. So even a writer that is stopped between its comparison
// and its rename cannot replace the content of a newer hold that excludes its own:
// it can only make an older version. Sharers do not exclude one another, and each
// of them replaces what another wrote. The flock around the two makes the refusal
// exact, and the removal of old versions safe.
//
// Not promised:
//   - flock between machines: network file systems have it on one machine only,
//     or not at all. The names alone still keep a stale write from being read,
//     though its writer may be told that it succeeded; and a sharer's write, that
//     a sharer with a larger token overtakes there, may not be read either;
//   - anything about a program that opens a version and writes into it;
//   - a rename that survives a power cut, where the file system does not keep
//     what fsync of a file and of its directory promise;
//   - that a crash leaves nothing: a file tmp-* may stay behind, which nobody reads;
//   - an end to the wait, when a holder is stopped inside: the kernel keeps the
//     lock for as long as the process lives. ctx bounds it.
type Guard struct {
	dir string
}

// Write replaces the file by content, if token is accepted by what the file has
// seen. It blocks while another writer has the file lock, until ctx is done. It
// returns a *fencing.StaleError, what fencing.Seen.Accept returns for bad input,
// ctx's error, or the file system's.
func (g *Guard) Write(ctx context.Context, token redlock.Token, content []byte) (err error) {
	shared := fencing.IsShared(ctx, g.dir, token)
	if _, err := (fencing.Seen{}).Accept(g.dir, token, shared); err != nil { // before a file is touched
		return err
	}
	unlock, err := g.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	versions, err := g.versions()
	if err != nil {
		return err
	}
	seen, err := all(versions).Accept(g.dir, token, shared)
	if err != nil {
		return err
	}
	if err := g.place(seen, content); err != nil {
		return err
	}
	for _, old := range versions {
		if old != seen {
			if err := os.Remove(g.path(old)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Read returns what stands in the file, and the largest token that the file has
// seen; fs.ErrNotExist before the first write. It takes no lock, and begins again
// when the version that it chose is replaced by a newer one.
func (g *Guard) Read() ([]byte, redlock.Token, error) {
	for {
		versions, err := g.versions()
		if err != nil {
			return nil, 0, err
		}
		if len(versions) == 0 {
			return nil, 0, fmt.Errorf("read %s: %w", g.dir, fs.ErrNotExist)
		}
		newest := slices.MaxFunc(versions, order)
		content, err := os.ReadFile(g.path(newest))
		if !errors.Is(err, fs.ErrNotExist) {
			return content, newest.Highest(), err
		}
	}
}

// place gives content its name in one step, and makes sure that it stays.
func (g *Guard) place(seen fencing.Seen, content []byte) error {
	tmp, err := os.CreateTemp(g.dir, "tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // after the rename there is nothing to remove
	_, err = tmp.Write(content)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), g.path(seen)); err != nil {
		return err
	}
	dir, err := os.Open(g.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// lock takes the file lock and returns what gives it back.
func (g *Guard) lock(ctx context.Context) (func() error, error) {
	f, err := os.OpenFile(filepath.Join(g.dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := ctx.Err()
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		if err == nil {
			return f.Close, nil // the kernel gives the lock back with the last descriptor
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", g.dir, err), f.Close())
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// versions returns what the names of the versions say.
func (g *Guard) versions() ([]fencing.Seen, error) {
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		return nil, err
	}
	var found []fencing.Seen
	for _, e := range entries {
		numbers, ok := strings.CutPrefix(e.Name(), versionPrefix)
		if !ok {
			continue
		}
		seen, err := parse(numbers)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w: %q", g.dir, fencing.ErrCorrupt, e.Name())
		}
		found = append(found, seen)
	}
	return found, nil
}

// path is the name of a version, which parse reads.
func (g *Guard) path(seen fencing.Seen) string {
	name := fmt.Sprintf("%s%0*d", versionPrefix, versionDigits, uint64(seen.Highest()))
	if seen.Shared > seen.Exclusive {
		name += fmt.Sprintf(".%0*d", versionDigits, uint64(seen.Exclusive))
	}
	return filepath.Join(g.dir, name)
}

func parse(numbers string) (fencing.Seen, error) {
	highest, exclusive, both := strings.Cut(numbers, ".")
	if len(highest) != versionDigits || both && len(exclusive) != versionDigits {
		return fencing.Seen{}, fencing.ErrCorrupt
	}
	text := strings.TrimLeft(highest, "0")
	if both {
		text = strings.TrimLeft(exclusive[:versionDigits-1], "0") + exclusive[versionDigits-1:] + " " + text
	}
	return fencing.ParseSeen(text)
}

// order puts versions in the order in which they were written. Two that differ in
// their exclusive number only can be where flock does not reach.
func order(a, b fencing.Seen) int {
	return cmp.Or(cmp.Compare(a.Highest(), b.Highest()), cmp.Compare(a.Exclusive, b.Exclusive))
}

// all is what several versions have seen together.
func all(versions []fencing.Seen) fencing.Seen {
	var seen fencing.Seen
	for _, v := range versions {
		seen.Exclusive = max(seen.Exclusive, v.Exclusive)
		seen.Shared = max(seen.Shared, v.Shared)
	}
	if seen.Shared <= seen.Exclusive {
		seen.Shared = 0
	}
	return seen
}
