package main

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/redis/go-redis/v9"
)

// nodeKey and deadPrefix are the keys of the wire format that the scripts touch
// beside the resource.
const (
	nodeKey    = "redlock:node"
	deadPrefix = "redlock:dead:"
	stripes    = 4096
)

// scripts are the module's own scripts: the floor runs the very files that the
// library embeds.
type scripts struct {
	acquire, acquireBatch string
	release, releaseBatch string
	raise                 string
	text                  map[string]string // by hash
}

// readScripts reads internal/lua/*.lua. An empty dir means the module's own, seen from
// its root or from bench/.
func readScripts(dir string) (*scripts, error) {
	if dir == "" {
		for _, dir = range []string{"../internal/lua", "internal/lua"} {
			if _, err := os.Stat(filepath.Join(dir, "acquire.lua")); !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
	}
	s, err := readPair(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	s.raise, err = s.read(os.DirFS(dir), "raise")
	return s, err
}

// readPair reads the scripts of a pair, acquire and release, of one directory.
func readPair(dir fs.FS) (*scripts, error) {
	s := &scripts{text: map[string]string{}}
	for name, sha := range map[string]*string{
		"acquire": &s.acquire, "acquire_batch": &s.acquireBatch,
		"release": &s.release, "release_batch": &s.releaseBatch,
	} {
		var err error
		if *sha, err = s.read(dir, name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// read reads one script, and returns its hash.
func (s *scripts) read(dir fs.FS, name string) (string, error) {
	text, err := fs.ReadFile(dir, name+".lua")
	if err != nil {
		return "", fmt.Errorf("the floor's scripts: %w", err)
	}
	sum := sha1.Sum(text) //nolint:gosec // EVALSHA names scripts by SHA-1
	sha := hex.EncodeToString(sum[:])
	s.text[sha] = string(text)
	return sha, nil
}

// load loads them all on one server.
func (s *scripts) load(ctx context.Context, srv *server) error {
	for sha, text := range s.text {
		got, err := srv.do(ctx, "SCRIPT", "LOAD", text)
		if err != nil {
			return err
		}
		if got != sha {
			return fmt.Errorf("SCRIPT LOAD on %s: got %s; want %s", srv.Addr(), got, sha)
		}
	}
	return nil
}

// epochOf returns the epoch in a server's record. Where nobody has installed a
// record yet, it leaves an epoch: all that the scripts ask for.
func epochOf(ctx context.Context, srv *server) (string, error) {
	epoch, err := srv.do(ctx, "HGET", nodeKey, "epoch")
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	if err != nil || epoch != "" {
		return epoch, err
	}
	const made = "bench"
	_, err = srv.do(ctx, "HSET", nodeKey, "epoch", made, "base", "0")
	return made, err
}

// stripeOf is FNV-1a 64 modulo the number of stripes, as the wire format says.
func stripeOf(key string) int64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return int64(h % stripes)
}
