package redlocktest

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/yuin/gopher-lua/parse"
)

// Interceptor is asked before a node executes a command that came over a
// connection (not one that a script calls). args[0] is the command's name in
// upper case. It may be called by several connections at once. It must not
// stop or restart the node, nor use args after it has returned.
type Interceptor func(args []string) Verdict

// Verdict decides about an intercepted command. The zero value is [Pass].
type Verdict struct {
	fate  fate
	reply string
}

type fate int

const (
	pass fate = iota
	replyError
	loseRequest
	loseReply
	breakBefore
	breakAfter
)

// Pass lets the command be executed and answered.
func Pass() Verdict { return Verdict{} }

// ReplyError does not execute the command and answers with an error such as
// "OOM command not allowed when used memory > 'maxmemory'." or "READONLY ...".
func ReplyError(message string) Verdict { return Verdict{fate: replyError, reply: message} }

// LoseRequest does not execute the command, nor answer it. The connection
// stays open and gives no sign of life any more, as in a partition: the client
// learns of it by its own timer only.
func LoseRequest() Verdict { return Verdict{fate: loseRequest} }

// LoseReply executes the command, and then is [LoseRequest].
func LoseReply() Verdict { return Verdict{fate: loseReply} }

// BreakBefore closes the connection instead of executing the command.
func BreakBefore() Verdict { return Verdict{fate: breakBefore} }

// BreakAfter executes the command and closes the connection without answering
// it.
func BreakAfter() Verdict { return Verdict{fate: breakAfter} }

// Intercept puts f in the way of every command from now on; nil removes it.
// It makes sweeps possible ("fail the k-th call, for every k") and the loss of
// one reply after its effect.
func (n *Node) Intercept(f Interceptor) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.intercept = f
}

// Calls returns how often the node was sent one of the commands named, since
// its first start, in any case; without names, how many commands it was
// sent. A pipeline counts its commands; what scripts call is not counted.
func (n *Node) Calls(commands ...string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := 0
	for name, calls := range n.calls {
		if len(commands) == 0 || slices.ContainsFunc(commands, func(c string) bool { return strings.EqualFold(c, name) }) {
			sum += calls
		}
	}
	return sum
}

// peerState is a node's knowledge of a connection.
type peerState struct {
	silent bool // nothing is executed or answered any more
	inside bool // the node itself is dispatching on it
}

// hook sees every command before miniredis does, those that scripts call
// included, and reports whether it dealt with it.
func (n *Node) hook(peer *server.Peer, cmd string, args ...string) bool {
	if state := n.outermost(peer); state != nil {
		if state.inside {
			return false
		}
		f, silent := n.arrived(state, cmd)
		if silent {
			return true
		}
		command := append([]string{cmd}, args...)
		if f != nil && n.obey(f(slices.Clone(command)), peer, state, command) {
			return true
		}
		if instead := n.substitute(command); instead != nil {
			n.run(peer, state, instead)
			return true
		}
	}
	if cmd == "INFO" { // which a script calls
		n.dispatcher().Dispatch(peer, echo(n.info(args)))
		return true
	}
	return false
}

// outermost returns the state of a connection, and nil for the peers that a
// running script makes for its own commands. These have a Ctx from their first
// command on, while a connection gets one later. Only the goroutine that
// serves the connection uses inside.
func (n *Node) outermost(peer *server.Peer) *peerState {
	n.mu.Lock()
	defer n.mu.Unlock()
	if state := n.peers[peer]; state != nil {
		return state
	}
	if peer.Ctx != nil {
		return nil
	}
	state := &peerState{}
	n.peers[peer] = state
	peer.OnDisconnect(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.peers, peer)
	})
	return state
}

func (n *Node) arrived(state *peerState, cmd string) (f Interceptor, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if state.silent {
		return nil, true
	}
	n.calls[cmd]++
	return n.intercept, false
}

// obey reports whether the command is dealt with.
func (n *Node) obey(v Verdict, peer *server.Peer, state *peerState, command []string) bool {
	if v.fate == loseReply || v.fate == breakAfter {
		n.runUnheard(peer, command)
	}
	switch v.fate {
	case pass:
		return false
	case replyError:
		peer.WriteError(v.reply)
	case loseReply, loseRequest:
		state.silent = true
	case breakAfter, breakBefore:
		peer.Close()
		state.silent = true // later commands of the same segment are not executed either
	}
	return true
}

// runUnheard executes a command for the connection, whose reply nobody gets.
func (n *Node) runUnheard(peer *server.Peer, command []string) {
	deaf := server.NewPeer(bufio.NewWriter(io.Discard))
	deaf.Ctx, deaf.Resp3 = peer.Ctx, peer.Resp3
	n.mu.Lock()
	n.peers[deaf] = &peerState{inside: true}
	n.mu.Unlock()
	if instead := n.substitute(command); instead != nil {
		command = instead
	}
	n.dispatcher().Dispatch(deaf, command)
	n.mu.Lock()
	delete(n.peers, deaf)
	n.mu.Unlock()
}

// version is the version that a node reports: the oldest that redlock accepts and
// that both Redis and Valkey have.
const version = "7.2.0"

// infoSections are in the order in which a server prints them.
var infoSections = []string{"server", "clients", "persistence", "stats", "replication", "cluster"}

// info answers INFO with the sections that args name, or all that there are.
func (n *Node) info(args []string) string {
	var out strings.Builder
	for _, section := range infoSections {
		if len(args) > 0 && !slices.ContainsFunc(args, func(a string) bool { return names(a, section) }) {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("\r\n")
		}
		fmt.Fprintf(&out, "# %s%s\r\n", strings.ToUpper(section[:1]), section[1:])
		for _, field := range n.infoFields(section) {
			out.WriteString(field + "\r\n")
		}
	}
	return out.String()
}

// names reports whether the argument of an INFO asks for the section.
func names(arg, section string) bool {
	switch arg = strings.ToLower(arg); arg {
	case "all", "default", "everything":
		return true
	default:
		return arg == section
	}
}

func (n *Node) infoFields(section string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch section {
	case "server":
		port := "0"
		if _, p, err := net.SplitHostPort(n.name); err == nil {
			port = p
		}
		return []string{
			"redis_version:" + version,
			"redis_mode:standalone",
			"os:in process (redlocktest)",
			"redlocktest_node:" + n.name,
			"run_id:" + n.runID,
			"tcp_port:" + port,
			fmt.Sprintf("server_time_usec:%d", time.Now().UnixMicro()),
			fmt.Sprintf("uptime_in_seconds:%d", int(time.Since(n.born).Seconds())),
		}
	case "clients":
		return []string{fmt.Sprintf("connected_clients:%d", len(n.conns))}
	case "persistence":
		return []string{"loading:0", "aof_enabled:0"}
	case "stats":
		total := 0
		for _, calls := range n.calls {
			total += calls
		}
		return []string{fmt.Sprintf("total_commands_processed:%d", total)}
	case "replication":
		return []string{"role:master", "connected_slaves:0", "master_replid:" + n.replID}
	case "cluster":
		return []string{"cluster_enabled:0"}
	}
	return nil
}

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

// substitute returns the command that miniredis runs in place of this one; nil if it runs
// this one itself. A loaded script is kept by the node, and EVALSHA of it becomes EVAL.
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

// tellScripts loads the node's scripts into miniredis, for a command that asks it.
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
