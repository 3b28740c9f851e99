// Package simnode is a Redis master for simulations: data in memory, RESP in and
// out, and nothing else: no goroutine, no socket, no timer. Anyone who carries the
// bytes decides when a command is executed.
//
// It offers the commands that lock clients send, expiries as Redis has them (a
// point in time by the node's own wall clock, which can step and drift), and a
// process that can crash, and come back with its data, without, or with older
// ones. Scripts run in a Lua interpreter. Tests hold redlock's, and the commands, to a
// real server, and so what a connection hears that subscribes, in
// RESP2 and in RESP3.
//
// It has no users and no rights: no ACL command, no categories, no NOPERM, neither
// for a command nor within a script, and AUTH is refused as where no password is
// set. What rights do is tested on servers only.
// It has no replicas, no second database and no functions either: docs/CHAOS.md lists
// what it has not.
//
// internal/scriptmodel has the same scripts for another use: over integers that
// fit in a byte, so that a search can copy, compare and hash millions of whole
// nodes. Neither could do the other's work; a server judges both.
package simnode

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// sweepEvery is how often a server looks for expired keys by itself (hz 10).
// What a clock that stepped ahead has expired for longer than that does not come
// back when the clock steps back.
const sweepEvery = 100 * time.Millisecond

// Node is one master. The zero value is not for use. Its methods may be called
// from several goroutines at once; commands are executed one after another.
type Node struct {
	mu       sync.Mutex // guards the rest
	data     Data
	memory   int // how often Load replaced data
	clock    clock
	swept    time.Time
	runID    string
	replID   string // its replication id
	identity string // what the record names the node by: both
	born     time.Time
	running  bool
	scripts  map[string]*script // that the process has seen, by hash
	sessions []*Session
	watch    func(args [][]byte)
	commands map[string]command // it is only read
	lua      *interpreter       // nil until a script needs it
}

// New returns a node that runs and is empty.
func New() *Node {
	n := &Node{data: Data{map[string]*entry{}}, swept: time.Now(), commands: commands()}
	n.bootLocked()
	return n
}

// bootLocked gives the node what a new process has.
func (n *Node) bootLocked() {
	n.runID, n.replID = freshID(), freshID()
	n.identity = n.runID + "." + n.replID
	n.born, n.running, n.scripts = time.Now(), true, map[string]*script{}
}

func freshID() string {
	var id [20]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// interpreterLocked is the node's interpreter, made if there is none.
func (n *Node) interpreterLocked() *interpreter {
	if n.lua == nil {
		n.lua = newInterpreter()
	}
	return n.lua
}

// Open makes a connection; hangUp is called when the process ends, with no mutex
// of the node held. It fails with syscall.ECONNREFUSED while there is no process.
func (n *Node) Open(hangUp func()) (*Session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running {
		return nil, syscall.ECONNREFUSED
	}
	s := &Session{node: n, hangUp: hangUp}
	n.sessions = append(n.sessions, s)
	return s, nil
}

// Crash ends the process. Its connections end, its scripts are forgotten, its
// data stay on the disk.
func (n *Node) Crash() {
	n.mu.Lock()
	ended := n.sessions
	n.sessions, n.running = nil, false
	for _, s := range ended {
		s.over = true
	}
	n.mu.Unlock()
	for _, s := range ended {
		s.hangUp()
	}
}

// Start starts a process with the data of the disk, under a new run_id. It does
// nothing if there is one.
func (n *Node) Start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running {
		n.bootLocked()
	}
}

// Copy returns the data as they are.
func (n *Node) Copy() Data {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.data.copied()
}

// Wipe removes all data.
func (n *Node) Wipe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.data.keys)
}

// Load replaces the data by a copy of d.
func (n *Node) Load(d Data) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data = d.copied()
	n.data.renew(time.Now())
	n.memory++
}

// Step moves the clock, back if by is negative.
func (n *Node) Step(by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweepLocked()
	n.clock.ahead += by
}

// Drift makes the clock gain so much a second from now on, besides what it gains
// already.
func (n *Node) Drift(gain time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clock.drifts = append(n.clock.drifts, drift{gain, time.Now()})
}

// EndDrift undoes one Drift of that gain, together with what came of it.
func (n *Node) EndDrift(gain time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweepLocked()
	n.clock.right(gain)
}

// sweepLocked removes expired keys, unless it has just done so.
func (n *Node) sweepLocked() {
	if now := time.Now(); now.Sub(n.swept) >= sweepEvery {
		n.data.expire(n.clock.at(now).UnixMilli())
		n.swept = now
	}
}

// Delete removes a key, and tells whether it was there.
func (n *Node) Delete(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, there := n.data.keys[key]
	delete(n.data.keys, key)
	return there
}

// EvictNext removes the key that would expire first, as maxmemory-policy
// volatile-ttl does, and returns its name; empty if none expires.
func (n *Node) EvictNext() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := ""
	for _, key := range n.data.sorted() {
		if until := n.data.keys[key].until; until != 0 && (first == "" || until < n.data.keys[first].until) {
			first = key
		}
	}
	delete(n.data.keys, first)
	return first
}

// Key is what a look at a node sees of a key.
type Key struct {
	Name  string
	Value string        // of a string
	Type  string        // as TYPE has it
	Left  time.Duration // until it expires; -1: never
	// Of a lock that is shared (lua/share.lua): its sharers, sorted.
	Sharers []Sharer
	Fields  map[string]string // of a hash
}

// Sharer is a client that shares a lock.
type Sharer struct {
	Owner string
	Left  time.Duration // of its lease; negative: it has ended
}

// Keys returns what is stored and has not expired, in the order of the names, and
// how often Load has replaced all data so far.
func (n *Node) Keys() (keys []Key, memory int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.at(time.Now()).UnixMilli()
	keys = make([]Key, 0, len(n.data.keys))
	for name, e := range n.data.keys {
		if e.expired(now) {
			continue
		}
		k := Key{Name: name, Value: e.text, Type: e.kind.String(), Left: -1, Fields: maps.Clone(e.hash)}
		if e.until != 0 {
			k.Left = time.Duration(e.left(now)) * time.Millisecond
		}
		if _, shared := e.scores[sharedMark]; shared {
			k.Sharers = e.sharers(now)
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return keys, n.memory
}

// sharers are the members of a shared lock, but for the mark.
func (e *entry) sharers(now int64) (sharers []Sharer) {
	for owner, end := range e.scores {
		if owner != sharedMark {
			sharers = append(sharers, Sharer{owner, time.Duration(int64(end)-now) * time.Millisecond})
		}
	}
	slices.SortFunc(sharers, func(a, b Sharer) int { return strings.Compare(a.Owner, b.Owner) })
	return sharers
}

// Watch calls f with every command that was executed without an error (not those
// that scripts call), one at a time; nil ends it. f must not keep args, nor call the node.
func (n *Node) Watch(f func(args [][]byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch = f
}

// version is what a node says it is: the oldest that redlock takes.
const version = "7.0.0"

func (c *serverCall) ping() {
	switch {
	case len(c.args) > 2:
		c.reply.fail("ERR wrong number of arguments for 'ping' command")
	case c.session.listensOnly():
		c.reply.array(2)
		c.reply.bulk("pong")
		c.reply.bulk(string(bytes.Join(c.args[1:], nil)))
	case len(c.args) == 2:
		c.reply.bulk(c.arg(1))
	default:
		c.reply.status("PONG")
	}
}

// time is TIME: the node's clock, in seconds and microseconds.
func (c *serverCall) time() {
	c.reply.array(2)
	micros := c.now.UnixMicro()
	c.reply.bulk(fmt.Sprint(micros / 1e6))
	c.reply.bulk(fmt.Sprint(micros % 1e6))
}

// auth refuses, as a server without a password does.
func (c *serverCall) auth() {
	c.reply.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
}

func (c *serverCall) hello() {
	if len(c.args) > 1 {
		if v := c.arg(1); v != "2" && v != "3" {
			c.reply.fail("NOPROTO unsupported protocol version")
			return
		}
		c.session.resp3 = c.arg(1) == "3"
		c.reply.resp3 = c.session.resp3
	}
	r, proto := c.reply, int64(2)
	if c.session.resp3 {
		proto = 3
	}
	r.pairs(7)
	for _, pair := range [][2]string{{"server", "redis"}, {"version", version}, {"mode", "standalone"}, {"role", "master"}} {
		r.bulk(pair[0])
		r.bulk(pair[1])
	}
	r.bulk("proto")
	r.int(proto)
	r.bulk("id")
	r.int(1)
	r.bulk("modules")
	r.array(0)
}

// client takes what go-redis says of itself.
func (c *serverCall) client() {
	switch {
	case c.is("SETINFO"), c.is("SETNAME"):
		c.ok()
	default:
		c.reply.fail(fmt.Sprintf("ERR unknown subcommand '%s'. Try CLIENT HELP.", c.arg(1)))
	}
}

func (c *serverCall) selectDB() {
	if c.arg(1) == "0" {
		c.ok()
	} else {
		c.reply.fail("ERR DB index is out of range")
	}
}

// info is INFO, with the sections that somebody reads.
func (c *serverCall) info() {
	var out strings.Builder
	for _, section := range []string{"server", "persistence", "replication"} {
		if len(c.args) > 1 && !slices.ContainsFunc(c.args[1:], func(a []byte) bool { return asksFor(string(a), section) }) {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("\r\n")
		}
		fmt.Fprintf(&out, "# %s%s\r\n", strings.ToUpper(section[:1]), section[1:])
		switch section {
		case "server":
			fmt.Fprintf(&out, "redis_version:%s\r\nredis_mode:standalone\r\nrun_id:%s\r\n", version, c.node.runID)
			fmt.Fprintf(&out, "server_time_usec:%d\r\nuptime_in_seconds:%d\r\n", c.now.UnixMicro(), int(time.Since(c.node.born).Seconds()))
		case "persistence":
			out.WriteString("loading:0\r\naof_enabled:1\r\n")
		case "replication":
			fmt.Fprintf(&out, "role:master\r\nconnected_slaves:0\r\nmaster_replid:%s\r\n", c.node.replID)
		}
	}
	c.reply.bulk(out.String())
}

// asksFor tells whether an argument of INFO names the section.
func asksFor(arg, section string) bool {
	arg = strings.ToLower(arg)
	return arg == section || arg == "all" || arg == "default" || arg == "everything"
}

// settings are what CONFIG GET knows.
var settings = [][2]string{
	{"appendfsync", "always"}, {"appendonly", "yes"}, {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}, {"save", ""},
}

func (c *serverCall) config() {
	if !c.is("GET") || len(c.args) < 3 {
		c.reply.fail(fmt.Sprintf("ERR unknown subcommand '%s'. Try CONFIG HELP.", c.arg(1)))
		return
	}
	var found [][2]string
	for _, pair := range settings {
		if slices.ContainsFunc(c.args[2:], func(pattern []byte) bool {
			match, _ := path.Match(strings.ToLower(string(pattern)), pair[0])
			return match
		}) {
			found = append(found, pair)
		}
	}
	c.reply.pairs(len(found))
	for _, pair := range found {
		c.reply.bulk(pair[0])
		c.reply.bulk(pair[1])
	}
}
