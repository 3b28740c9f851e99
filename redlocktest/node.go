package redlocktest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// backlog is how many connections a hung node takes before further ones wait,
// as the kernel's queue for a stopped server does (tcp-backlog).
const backlog = 511

// Node is one master. Its methods may be called from several goroutines at
// once, except that those which stop it must not be called by an interceptor.
type Node struct {
	name string
	mini *miniredis.Miniredis
	tcp  *tcpFront // nil without WithTCP
	root *server.Peer
	born time.Time

	life sync.Mutex // taken by Stop, Start, Restart: one at a time
	gone bool       // closed for good; guarded by life

	mu        sync.Mutex // guards the rest
	runID     string
	replID    string // its replication id
	stopped   bool
	hung      bool
	queue     []*conn         // dialled while hung, not yet served
	conns     map[*conn]*conn // server side to client side, until the server's is closed
	changed   chan struct{}   // closed and replaced when stopped or hung change
	peers     map[*server.Peer]*peerState
	calls     map[string]int
	intercept Interceptor
	server    *server.Server    // of this life; miniredis's own accessor takes no lock
	scripts   map[string]string // loaded, by hash
}

func newNode(name string, tcp bool) (*Node, error) {
	n := &Node{
		name:    name,
		mini:    miniredis.NewMiniRedis(),
		born:    time.Now(),
		runID:   newRunID(),
		replID:  newRunID(),
		conns:   map[*conn]*conn{},
		changed: make(chan struct{}),
		peers:   map[*server.Peer]*peerState{},
		calls:   map[string]int{},
		scripts: map[string]string{},
	}
	n.mini.ClockTTL(true)
	if err := n.boot(); err != nil {
		return nil, err
	}
	n.root = n.newRootPeer()
	if tcp {
		front, err := newTCPFront(n)
		if err != nil {
			n.mini.Close()
			return nil, err
		}
		n.tcp, n.name = front, front.addr
		front.serve()
	}
	return n, nil
}

// newRunID returns 40 hex digits, as a server gives itself at its start.
func newRunID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// boot starts the server without a listener, which miniredis does at the first
// Dial only.
func (n *Node) boot() error {
	first, err := n.mini.Dial()
	if err != nil {
		return err
	}
	srv := n.mini.Server()
	srv.SetPreHook(n.hook)
	n.mu.Lock()
	n.server = srv
	n.mu.Unlock()
	return first.Close()
}

// dispatcher is the miniredis server that runs commands, or ran them last.
func (n *Node) dispatcher() *server.Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.server
}

// newRootPeer returns a connection that stays logged in with any passwords the
// test sets later: the node needs one to drop its scripts.
func (n *Node) newRootPeer() *server.Peer {
	const password = "for a moment"
	n.mini.RequireAuth(password)
	defer n.mini.RequireAuth("")
	peer := server.NewPeer(bufio.NewWriter(&bytes.Buffer{}))
	n.mu.Lock()
	n.peers[peer] = &peerState{inside: true}
	n.mu.Unlock()
	n.dispatcher().Dispatch(peer, []string{"AUTH", password})
	return peer
}

// Name returns the node's name: "node-0" and so on, or its TCP address.
func (n *Node) Name() string { return n.name }

// Miniredis returns the server behind the node, to set or read data without a
// client, or to set its clock. SetTime jumps to a time and stops there: keys whose TTL
// is over by then are gone, and no later one ends. A clock that jumps and runs on is a
// [chaos.Step] in a plan. Its Close, Restart and SetError are not for use: they take away
// what makes it a node.
//
// [chaos.Step]: https://pkg.go.dev/github.com/quorumkit/redlock/chaos#Step
func (n *Node) Miniredis() *miniredis.Miniredis { return n.mini }

// RunID returns the run_id that INFO gives: 40 hex digits, new after a restart.
func (n *Node) RunID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runID
}

// Keys returns the names of all keys of database 0, sorted.
func (n *Node) Keys() []string { return n.mini.Keys() }

// FlushAll removes all keys at once, as an operator's FLUSHALL does. Scripts
// and run_id stay.
func (n *Node) FlushAll() { n.mini.FlushAll() }

// Dial returns a new connection to the node, in memory. It is refused with
// syscall.ECONNREFUSED while the node is stopped. While the node hangs the
// connection is made, but nothing is answered; once 511 such connections wait,
// Dial blocks until the node resumes or ctx ends. As net.Dialer, it makes none for a
// context that has ended.
func (n *Node) Dial(ctx context.Context) (net.Conn, error) {
	err := ctx.Err()
	var c *conn
	if err == nil {
		c, err = n.dial(ctx.Done())
	}
	if errors.Is(err, errGivenUp) {
		err = ctx.Err()
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: addr("").Network(), Addr: addr(n.name), Err: err}
	}
	return c, nil
}

// errGivenUp means that the caller of dial no longer waits.
var errGivenUp = errors.New("given up")

// dial waits for room in the queue of a hung node, or until done is closed.
func (n *Node) dial(done <-chan struct{}) (*conn, error) {
	for {
		client, changed, err := n.tryDial()
		if err != nil || client != nil {
			return client, err
		}
		select {
		case <-changed:
		case <-done:
			return nil, errGivenUp
		}
	}
}

// tryDial returns a channel to wait for instead, when the queue is full.
func (n *Node) tryDial() (*conn, chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return nil, nil, syscall.ECONNREFUSED
	}
	if n.hung && len(n.queue) >= backlog {
		return nil, n.changed, nil
	}
	client, srv := newPipe(n.name, n.hung)
	srv.onClose = func() { n.forget(srv) }
	n.conns[srv] = client
	if n.hung {
		n.queue = append(n.queue, srv)
	} else {
		n.server.ServeConn(srv)
	}
	return client, nil, nil
}

func (n *Node) forget(srv *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, srv)
}

// notify wakes the goroutines that wait for a change. The caller holds mu.
func (n *Node) notify() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// Hang makes the node stop answering without closing anything, like a process
// under SIGSTOP: connections are accepted, commands are taken up to a megabyte
// a connection, and nothing is answered or executed. A command that arrives after Hang
// has returned is executed on Resume, even if its sender has given up and
// closed the connection. A command under way when Hang is called may be
// executed; its reply is held back.
func (n *Node) Hang() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped || n.hung {
		return
	}
	n.hung = true
	for srv := range n.conns {
		srv.in.freeze()
		srv.out.freeze()
	}
	n.notify()
}

// Resume ends a [Node.Hang]. It does not wait for the commands that are now
// executed, in the order of arrival on each connection, in any order between
// connections.
func (n *Node) Resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.hung {
		return
	}
	n.hung = false
	for srv := range n.conns {
		srv.out.thaw()
		srv.in.thaw()
	}
	for _, srv := range n.queue {
		n.server.ServeConn(srv)
	}
	n.queue = nil
	n.notify()
}

// Stop breaks all connections and refuses new ones, until [Node.Start]. It
// waits until no command is being executed any more. Data, scripts and run_id
// stay, and leases run on, as when the network to the node is gone. Stopping a
// node that hangs ends the hang, and its unread commands are lost.
func (n *Node) Stop() {
	n.life.Lock()
	defer n.life.Unlock()
	n.halt()
}

// Start lets a stopped node be reached again. Otherwise it does nothing.
//
// Under [WithTCP] it panics if another process has taken the port meanwhile.
func (n *Node) Start() {
	n.life.Lock()
	defer n.life.Unlock()
	n.resurrect()
}

// Restart ends the process and starts a new one that remembers nothing: no
// data, no scripts, another run_id. Connections break. A node that hangs or is
// stopped is started as well. It panics where [Node.Start] does.
func (n *Node) Restart() {
	n.life.Lock()
	defer n.life.Unlock()
	n.halt()
	n.mini.FlushAll()
	n.reborn()
	n.resurrect()
}

// RestartKeepingData is [Node.Restart] of a server with perfect persistence:
// the keys are still there, with the leases that they had, while the scripts
// are gone and the run_id is another.
func (n *Node) RestartKeepingData() {
	n.life.Lock()
	defer n.life.Unlock()
	n.halt()
	n.reborn()
	n.resurrect()
}

// close is Stop for good. Later starts do nothing.
func (n *Node) close() {
	n.life.Lock()
	defer n.life.Unlock()
	n.gone = true
	n.halt()
}

// halt is Stop; the caller holds life.
func (n *Node) halt() {
	n.mu.Lock()
	if n.stopped {
		n.mu.Unlock()
		return
	}
	n.stopped, n.hung = true, false
	open := make([]*conn, 0, len(n.conns))
	for srv := range n.conns {
		open = append(open, srv)
	}
	n.queue = nil
	n.notify()
	n.mu.Unlock()

	if n.tcp != nil {
		n.tcp.stop()
	}
	for _, srv := range open {
		srv.kill()
	}
	if n.tcp != nil {
		n.tcp.wait()
	}
	n.mini.Close()
}

// resurrect is Start; the caller holds life.
func (n *Node) resurrect() {
	if n.gone || !n.isStopped() {
		return
	}
	// Close has cancelled the context that blocking commands run under.
	n.mini.Lock()
	n.mini.Ctx, n.mini.CtxCancel = context.WithCancel(context.Background()) //nolint:gosec // miniredis's Close calls it
	n.mini.Unlock()
	if err := n.boot(); err != nil {
		panic(fmt.Sprintf("redlocktest: starting %s: %v", n.name, err))
	}
	n.mu.Lock()
	n.stopped = false
	n.notify()
	n.mu.Unlock()
	if n.tcp != nil {
		if err := n.tcp.start(); err != nil {
			panic(fmt.Sprintf("redlocktest: starting %s: %v", n.name, err))
		}
	}
}

func (n *Node) isStopped() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopped
}

// reborn gives the node the state of a new process: a new run_id, and no scripts.
// The server is halted, so it is started for this one command.
func (n *Node) reborn() {
	n.mu.Lock()
	n.runID, n.replID = newRunID(), newRunID()
	n.born = time.Now()
	n.mu.Unlock()
	if err := n.boot(); err != nil {
		panic(fmt.Sprintf("redlocktest: restarting %s: %v", n.name, err))
	}
	n.forgetScripts()
	if err := n.command("SCRIPT", "FLUSH"); err != nil {
		panic(fmt.Sprintf("redlocktest: restarting %s: %v", n.name, err))
	}
	n.mini.Close()
}

// command runs a command as the node itself.
func (n *Node) command(args ...string) error {
	var reply bytes.Buffer
	w := bufio.NewWriter(&reply)
	peer := server.NewPeer(w)
	peer.Ctx = n.root.Ctx
	n.dispatcher().Dispatch(peer, args)
	if err := w.Flush(); err != nil {
		return err
	}
	if line := reply.String(); strings.HasPrefix(line, "-") {
		return errors.New(strings.TrimSpace(line[1:]))
	}
	return nil
}
