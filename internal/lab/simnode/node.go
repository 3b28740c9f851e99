package simnode

import (
	"crypto/rand"
	"encoding/hex"
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
	lua      *interpreter // nil until a script needs it
	script   scriptCall   // room for the one that is executed
	room     room         // and for what it works on
}

// New returns a node that runs and is empty.
func New() *Node {
	n := &Node{data: Data{map[string]*entry{}}, swept: time.Now()}
	n.boot()
	return n
}

// boot gives the node what a new process has; mu is held.
func (n *Node) boot() {
	n.runID, n.replID = freshID(), freshID()
	n.identity = n.runID + "." + n.replID
	n.born, n.running, n.scripts = time.Now(), true, map[string]*script{}
}

func freshID() string {
	var id [20]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// interpreter is the node's; mu is held.
func (n *Node) interpreter() *interpreter {
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
		n.boot()
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
	n.sweep()
	n.clock.ahead += by
}

// Drift has the clock gain so much a second from now on, besides what it gains
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
	n.sweep()
	n.clock.right(gain)
}

// sweep removes expired keys, unless it has just done so; mu is held.
func (n *Node) sweep() {
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
	// Of a lock that is shared (lua/share.lua): those who share it, sorted.
	Sharers []Sharer
}

// Sharer is one of those who share a lock.
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
		k := Key{Name: name, Value: e.text, Type: e.kind.String(), Left: -1}
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

// Watch has f see every command that was executed without an error (not those
// that scripts call), one at a time; nil ends it. f must not keep args, nor call the node.
func (n *Node) Watch(f func(args [][]byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch = f
}
