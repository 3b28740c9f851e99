package redlocktest

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/yuin/gopher-lua/parse"
)

// parsed holds the scripts that this process has found to be Lua. miniredis keeps what
// it compiles for EVAL, but parses anew for each SCRIPT LOAD: of each script, on each
// node, of each test. That was a quarter of all time that tests took.
var parsed sync.Map // body to struct{}

// isLua tells whether miniredis would take the script.
func isLua(body string) bool {
	if _, known := parsed.Load(body); known {
		return true
	}
	if _, err := parse.Parse(strings.NewReader(body), "user_script"); err != nil {
		return false
	}
	parsed.Store(body, struct{}{})
	return true
}

// substitute returns what miniredis is to run in place of a command; nil if that is the
// command itself. A loaded script is kept by the node, and EVALSHA of it becomes EVAL.
func (n *Node) substitute(command []string) []string {
	sub := ""
	if len(command) > 1 {
		sub = command[1]
	}
	switch {
	case command[0] == "INFO":
		return echo(n.info(command[1:]))
	case command[0] == "EVALSHA":
		if body, loaded := n.script(sub); loaded {
			return append([]string{"EVAL", body}, command[2:]...)
		}
	case command[0] != "SCRIPT":
	case strings.EqualFold(sub, "LOAD") && len(command) == 3 && isLua(command[2]):
		return echo(n.keepScript(command[2]))
	case strings.EqualFold(sub, "EXISTS"):
		n.tellScripts()
	case strings.EqualFold(sub, "FLUSH"):
		n.forgetScripts()
	}
	return nil
}

// echo is the command that has miniredis reply with text, and mind passwords, MULTI and
// the nesting in scripts.
func echo(text string) []string { return []string{"ECHO", text} }

func (n *Node) script(sha string) (body string, loaded bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	body, loaded = n.scripts[strings.ToLower(sha)]
	return body, loaded
}

func (n *Node) keepScript(body string) (sha string) {
	sum := sha1.Sum([]byte(body)) //nolint:gosec // see above
	sha = hex.EncodeToString(sum[:])
	n.mu.Lock()
	defer n.mu.Unlock()
	n.scripts[sha] = body
	return sha
}

func (n *Node) forgetScripts() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.scripts)
}

// tellScripts has miniredis know what the node keeps, for a command that asks it.
func (n *Node) tellScripts() {
	n.mu.Lock()
	kept := slices.Collect(maps.Values(n.scripts))
	n.mu.Unlock()
	for _, body := range kept {
		_ = n.command("SCRIPT", "LOAD", body) // it was found to be Lua
	}
}

// run executes a command on the connection in place of the one that came over it.
func (n *Node) run(peer *server.Peer, state *peerState, command []string) {
	state.inside = true
	defer func() { state.inside = false }()
	n.dispatcher().Dispatch(peer, command)
}
