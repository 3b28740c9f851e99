//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

// A version of the file is "v" and its token in 16 digits, which hold MaxToken
// and sort as numbers do.
const (
	versionPrefix = "v"
	versionDigits = 16
	lockName      = "lock"
)

// lockPoll is how often a writer asks for the file lock: flock knows no timeout.
const lockPoll = 5 * time.Millisecond

// Guard keeps one file as versions in a directory of its own. What stands in the
// file is the version with the largest token.
//
// Unit of atomicity: one rename, which gives the new content its name, and the
// token is the name. So even a writer that is stopped between its comparison and
// its rename cannot replace newer content: it can only make an older version.
// The flock around the two makes the refusal exact, and the removal of old
// versions safe.
//
// Not promised:
//   - flock between machines: network file systems have it on one machine only,
//     or not at all. The names alone still keep a stale write from being read,
//     though its writer may be told that it succeeded;
//   - anything about a program that opens a version and writes into it;
//   - a rename that survives a power cut, where the file system does not keep
//     what fsync of a file and of its directory promise;
//   - that a crash leaves nothing: a file tmp-* may stay behind, which nobody reads;
//   - an end to the wait, when a holder is stopped inside: the kernel keeps the
//     lock for as long as the process lives. ctx bounds it.
type Guard struct {
	dir string
}

// Write replaces the file by content, if token is at least the highest that the
// file has seen. It blocks while another writer has the file lock, until ctx is
// done. It returns a *fencing.StaleError, what fencing.Accept returns for bad
// input, ctx's error, or the file system's.
func (g *Guard) Write(ctx context.Context, token redlock.Token, content []byte) (err error) {
	if err := fencing.Accept(g.dir, token, 0); err != nil { // before a file is touched
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
	if err := fencing.Accept(g.dir, token, highest(versions)); err != nil {
		return err
	}
	if err := g.place(token, content); err != nil {
		return err
	}
	for _, old := range versions {
		if old < token {
			if err := os.Remove(g.path(old)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Read returns what stands in the file, and its token; fs.ErrNotExist before the
// first write. It takes no lock, and begins again when the version that it chose
// is replaced by a newer one.
func (g *Guard) Read() ([]byte, redlock.Token, error) {
	for {
		versions, err := g.versions()
		if err != nil {
			return nil, 0, err
		}
		newest := highest(versions)
		if newest == 0 {
			return nil, 0, fmt.Errorf("read %s: %w", g.dir, fs.ErrNotExist)
		}
		content, err := os.ReadFile(g.path(newest))
		if !errors.Is(err, fs.ErrNotExist) {
			return content, newest, err
		}
	}
}

// place gives content its name in one step, and makes sure that it stays.
func (g *Guard) place(token redlock.Token, content []byte) error {
	tmp, err := os.CreateTemp(g.dir, "tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // after the rename there is nothing to remove
	_, err = tmp.Write(content)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), g.path(token)); err != nil {
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

// versions returns the tokens of the versions that are there.
func (g *Guard) versions() ([]redlock.Token, error) {
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		return nil, err
	}
	var tokens []redlock.Token
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), versionPrefix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 53)
		if err != nil || len(digits) != versionDigits {
			return nil, fmt.Errorf("read %s: %w: %q", g.dir, fencing.ErrCorrupt, e.Name())
		}
		tokens = append(tokens, redlock.Token(n))
	}
	return tokens, nil
}

func (g *Guard) path(token redlock.Token) string {
	return filepath.Join(g.dir, fmt.Sprintf("%s%0*d", versionPrefix, versionDigits, uint64(token)))
}

func highest(tokens []redlock.Token) redlock.Token {
	var most redlock.Token
	for _, t := range tokens {
		most = max(most, t)
	}
	return most
}
