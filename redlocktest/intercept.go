package redlocktest

import (
	"bufio"
	"io"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// Interceptor is asked before a node executes a command that came over a
// connection (not one that a script calls). args[0] is the command's name in
// upper case. It may be called by several connections at once. It must not
// stop or restart the node, nor use args after it has returned.
type Interceptor func(args []string) Verdict

// Verdict is what becomes of a command that was intercepted. The zero value is
// [Pass].
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

// peerState is what a node knows of a connection.
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
		state.silent = true // what the same segment brought is not executed either
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
