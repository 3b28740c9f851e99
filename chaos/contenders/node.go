package contenders

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// What is fetched from the npm registry at each start: nothing of it is in this tree.
const (
	nodeRedlock = "redlock@5.0.0-beta.2"
	nodeRedis   = "ioredis@5.11.1"
	fetchBound  = time.Minute
)

// nodeHolder is a holder in JavaScript.
//
//go:embed node.mjs
var nodeHolder []byte

const nodeHolderName = "holder.mjs"

// fetchNode puts the library and the holder into the system's directory.
func fetchNode(ctx context.Context, s *system) error {
	node, err := installed("node", "nodejs", "")()
	if err != nil {
		return err
	}
	npm, err := installed("npm", "npm", "")()
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file(nodeHolderName), nodeHolder, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchBound)
	defer cancel()
	// With the user's own environment: npm's cache is in it.
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", s.dir, "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", nodeRedlock, nodeRedis) //nolint:gosec // from PATH
	cmd.Dir, cmd.WaitDelay = s.dir, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: npm could not fetch %s: %w: %s", errNotInstalled, nodeRedlock, err, out)
	}
	said, _ := exec.CommandContext(ctx, node, "--version").Output() //nolint:gosec // from PATH
	s.version = fmt.Sprintf("npm %s, %s; node %s; %s", nodeRedlock, nodeRedis, strings.TrimSpace(string(said)), s.version)
	return nil
}
