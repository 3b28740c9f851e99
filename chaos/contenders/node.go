package contenders

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// What is fetched from the npm registry at each start: nothing of it is in this tree.
const (
	nodeRedlock = "redlock@5.0.0-beta.2"
	nodeRedis   = "ioredis@5.11.1"
	fetchBound  = time.Minute
)

var nodeSpec = spec{
	name: "node-redlock", servers: "5 Redis masters, no persistence",
	fence: "none", notice: "library: the signal of `using` is aborted",
	start:  startNode,
	holder: func(s *system) []string { return []string{"node", filepath.Join(s.dir, nodeHolderName)} },
}

// nodeHolder is a holder in JavaScript.
//
//go:embed node.mjs
var nodeHolder []byte

const nodeHolderName = "holder.mjs"

// startNode starts five masters, and fetches the library.
func startNode(ctx context.Context) (*system, error) {
	node, err1 := lookFor("node", "nodejs")
	npm, err2 := lookFor("npm", "npm")
	for _, err := range []error{err1, err2} {
		if err != nil {
			return nil, err
		}
	}
	s, err := startRedis(len(masterNames))
	if err != nil {
		return nil, err
	}
	if err := s.fetchNode(ctx, npm); err != nil {
		s.close()
		return nil, err
	}
	said, _ := exec.CommandContext(ctx, node, "--version").Output() //nolint:gosec // from PATH
	s.version = fmt.Sprintf("npm %s, %s; node %s; %s", nodeRedlock, nodeRedis, strings.TrimSpace(string(said)), s.version)
	return s, nil
}

// fetchNode puts the library and the holder into the system's directory.
func (s *system) fetchNode(ctx context.Context, npm string) error {
	if err := os.WriteFile(filepath.Join(s.dir, nodeHolderName), nodeHolder, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", s.dir, "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", nodeRedlock, nodeRedis) //nolint:gosec // from PATH
	cmd.Dir, cmd.WaitDelay = s.dir, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		said, _, _ := bytes.Cut(out, []byte("\n"))
		return fmt.Errorf("%w: npm could not fetch %s: %w: %s", errNotInstalled, nodeRedlock, err, said)
	}
	return nil
}
