//go:build unix

// Fileguard shows a fencing guard for a file: a holder that was paused wakes and
// writes, without the guard and with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit/pausedholder"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() (err error) {
	dir, err := os.MkdirTemp("", "fileguard-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	plain := filepath.Join(dir, "plain")
	late := pausedholder.Run(func(_ redlock.Token, value string) error {
		return os.WriteFile(plain, []byte(value), 0o600)
	}).Late
	content, err := os.ReadFile(plain) //nolint:gosec // a name of this program's own
	if err != nil {
		return err
	}
	fmt.Printf("without the guard: %v; the file holds: %s\n", late, content)

	guard := &Guard{dir: filepath.Join(dir, "guarded")}
	if err := os.Mkdir(guard.dir, 0o700); err != nil {
		return err
	}
	late = pausedholder.Run(func(token redlock.Token, value string) error {
		return guard.Write(context.Background(), token, []byte(value))
	}).Late
	content, token, err := guard.Read()
	if err != nil {
		return err
	}
	fmt.Printf("with the guard: refused: %t; the file holds: %s, under token %d\n", late != nil, content, token)
	return nil
}
