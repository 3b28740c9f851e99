package simnode

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// serverCall is a call that somebody makes of a server: a connection, or a script
// that a connection has called. The node's mutex is held.
type serverCall struct {
	call

	node    *Node
	session *Session
	nested  bool // a script calls it
}

// command is what there is to know of one.
type command struct {
	arity int // with the name; negative: at least
	run   func(*serverCall)
	outer bool // not for scripts
}

// commands are what a node knows, by name: what is of no key, and scripts; what takes a key
// of any type; strings; hashes; sorted sets, as far as a queue needs them; channels. It is no
// variable, since EVAL runs what is in it.
func commands() map[string]command {
	return map[string]command{
		"EVALSHA":     {-3, (*serverCall).evalSHA, true},
		"EVAL":        {-3, (*serverCall).eval, true},
		"SCRIPT":      {-2, (*serverCall).scriptCommand, true},
		"TIME":        {1, (*serverCall).time, false},
		"INFO":        {-1, (*serverCall).info, false},
		"PING":        {-1, (*serverCall).ping, false},
		"ECHO":        {2, func(c *serverCall) { c.reply.bulk(c.arg(1)) }, false},
		"HELLO":       {-1, (*serverCall).hello, true},
		"AUTH":        {-2, (*serverCall).auth, true},
		"CLIENT":      {-2, (*serverCall).client, true},
		"SELECT":      {2, (*serverCall).selectDB, false},
		"CONFIG":      {-2, (*serverCall).config, true},
		"MULTI":       {1, (*serverCall).begin, true},
		"EXEC":        {1, (*serverCall).exec, true},
		"DISCARD":     {1, (*serverCall).discard, true},
		"UNWATCH":     {1, (*serverCall).ok, true},
		"DEL":         {-2, (*serverCall).del, false},
		"UNLINK":      {-2, (*serverCall).del, false},
		"EXISTS":      {-2, (*serverCall).exists, false},
		"TYPE":        {2, (*serverCall).typeOf, false},
		"PTTL":        {2, (*serverCall).pttl, false},
		"TTL":         {2, (*serverCall).ttl, false},
		"PEXPIRE":     {-3, func(c *serverCall) { c.expireIn(time.Millisecond) }, false},
		"EXPIRE":      {-3, func(c *serverCall) { c.expireIn(time.Second) }, false},
		"PEXPIREAT":   {3, (*serverCall).expireAt, false},
		"PEXPIRETIME": {2, (*serverCall).expireTime, false},
		"PERSIST":     {2, (*serverCall).persist, false},
		"KEYS":        {2, func(c *serverCall) { c.listKeys(c.arg(1)) }, false},
		"SCAN":        {-2, (*serverCall).scan, false},
		"DBSIZE":      {1, (*serverCall).dbSize, false},
		"FLUSHALL":    {-1, (*serverCall).flushAll, false},
		"FLUSHDB":     {-1, (*serverCall).flushAll, false},
		"GET":         {2, (*serverCall).get, false},
		"MGET":        {-2, (*serverCall).mget, false},
		"SET":         {-3, (*serverCall).set, false},
		"SETNX":       {3, (*serverCall).setNX, false},
		"STRLEN":      {2, (*serverCall).strlen, false},
		"GETRANGE":    {4, (*serverCall).getRange, false},
		"INCR":        {2, func(c *serverCall) { c.add(1) }, false},
		"INCRBY":      {3, func(c *serverCall) { c.addArg(2, c.add) }, false},
		"HGET":        {3, (*serverCall).hget, false},
		"HMGET":       {-3, (*serverCall).hmget, false},
		"HGETALL":     {2, (*serverCall).hgetAll, false},
		"HEXISTS":     {3, (*serverCall).hexists, false},
		"HLEN":        {2, (*serverCall).hlen, false},
		"HSET":        {-4, (*serverCall).hset, false},
		"HSETNX":      {4, (*serverCall).hsetNX, false},
		"HDEL":        {-3, (*serverCall).hdel, false},
		"HINCRBY":     {4, func(c *serverCall) { c.addArg(3, c.hadd) }, false},
		"ZADD":        {-4, (*serverCall).zadd, false},
		"ZREM":        {-3, (*serverCall).zrem, false},
		"ZRANGE":      {-4, (*serverCall).zrange, false},
		"ZSCORE":      {3, (*serverCall).zscore, false},
		"SUBSCRIBE":   {-2, (*serverCall).subscribe, true},
		"UNSUBSCRIBE": {-1, (*serverCall).unsubscribe, true},
		"PUBLISH":     {3, (*serverCall).publish, false},
	}
}

// command finds a command by its name, in any case.
func (n *Node) command(name []byte) (cmd command, known bool) {
	var upper [16]byte
	if len(name) > len(upper) {
		return command{}, false
	}
	for i, c := range name {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	cmd, known = n.commands[string(upper[:len(name)])]
	return cmd, known
}

// execute runs the command, or keeps it for the end of a transaction, and writes its reply.
func (c *serverCall) execute() {
	cmd, known := c.node.command(c.args[0])
	open := c.session.multi
	if c.nested {
		open = nil
	}
	if !known || len(c.args) < max(cmd.arity, -cmd.arity) || cmd.arity > 0 && len(c.args) > cmd.arity {
		open.abort()
	}
	switch {
	case !known && c.nested:
		c.reply.fail("ERR Unknown Redis command called from script")
	case !known:
		c.reply.fail(fmt.Sprintf("ERR unknown command '%s', with args beginning with: %s", c.arg(0), c.beginning()))
	case cmd.outer && c.nested:
		c.reply.fail("ERR This Redis command is not allowed from script")
	case len(c.args) < max(cmd.arity, -cmd.arity) || cmd.arity > 0 && len(c.args) > cmd.arity:
		if c.nested {
			c.reply.fail("ERR Wrong number of args calling Redis command from script")
			return
		}
		c.reply.fail(fmt.Sprintf("ERR wrong number of arguments for '%s' command", strings.ToLower(c.arg(0))))
	case !c.nested && c.session.listensOnly() && !allowedToListeners(c.args[0]):
		c.reply.fail(fmt.Sprintf("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context", strings.ToLower(c.arg(0))))
	case open != nil && !ofTransaction(c.args[0]):
		open.keep(c.args)
		c.reply.status(queued)
	default:
		cmd.run(c)
	}
}

// beginning is what Redis repeats of the arguments of an unknown command.
func (c *serverCall) beginning() string {
	var b strings.Builder
	for _, a := range c.args[1:] {
		if b.Len() >= 128 {
			break
		}
		fmt.Fprintf(&b, "'%.*s' ", 128-b.Len(), a)
	}
	return b.String()
}

// The errors that Redis replies with, word by word.
const (
	wrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	notInteger = "ERR value is not an integer or out of range"
	badSyntax  = "ERR syntax error"
	noScript   = "NOSCRIPT No matching script. Please use EVAL."
)

// call is a command while it is executed: its arguments, and the data that they
// speak of.
type call struct {
	data  Data
	args  [][]byte  // the name first
	now   time.Time // by the node's clock; it stands still during a script
	reply *reply
}

func (c *call) arg(i int) string { return string(c.args[i]) }

// is tells whether the first argument is that word, in any case.
func (c *call) is(word string) bool { return strings.EqualFold(c.arg(1), word) }

func (c *call) ok() { c.reply.status("OK") }

// integer reads a number as Redis does: no sign but "-", no zero in front.
func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// reply is the bytes of a reply while they are written.
type reply struct {
	buf   []byte
	resp3 bool
}

func (r *reply) line(kind byte, text string) {
	r.buf = append(r.buf, kind)
	r.buf = append(r.buf, text...)
	r.buf = append(r.buf, '\r', '\n')
}

func (r *reply) number(kind byte, n int64) {
	r.buf = append(r.buf, kind)
	r.buf = strconv.AppendInt(r.buf, n, 10)
	r.buf = append(r.buf, '\r', '\n')
}

func (r *reply) status(text string) { r.line('+', text) }
func (r *reply) fail(text string) {
	r.line('-', strings.NewReplacer("\r", " ", "\n", " ").Replace(text))
}
func (r *reply) int(n int64) { r.number(':', n) }
func (r *reply) array(n int) { r.number('*', int64(n)) }

// pairs begins a map of n pairs, which RESP2 has as a list.
func (r *reply) pairs(n int) {
	if r.resp3 {
		r.number('%', int64(n))
	} else {
		r.array(2 * n)
	}
}

func (r *reply) bulk(text string) {
	r.number('$', int64(len(text)))
	r.buf = append(r.buf, text...)
	r.buf = append(r.buf, '\r', '\n')
}

func (r *reply) null() {
	if r.resp3 {
		r.buf = append(r.buf, "_\r\n"...)
	} else {
		r.buf = append(r.buf, "$-1\r\n"...)
	}
}

// bulkIf is a bulk, or a null where there is none.
func (r *reply) bulkIf(text string, there bool) {
	if there {
		r.bulk(text)
	} else {
		r.null()
	}
}

// The names of what lua/ask.lua and lua/share.lua keep of waiters.
const (
	queueOf   = "redlock:queue:"
	sharersOf = "redlock:sharers:"
	signOf    = "redlock:live:"
	// sharedMark is the member of lua/share.lua's sorted sets.
	sharedMark = "redlock:shared"
)

// Line calls each with every process that stands in line for a name, in the line of clients
// that wait to share it or in the other: since when it has been at that place, and since
// when its sign of life has been there without a break; zero if there is none.
func (n *Node) Line(name string, shared bool, each func(id string, joined, alive time.Time)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.at(time.Now()).UnixMilli()
	line := queueOf
	if shared {
		line = sharersOf
	}
	queue := n.data.keys[line+name]
	if queue == nil || queue.expired(now) {
		return
	}
	for id := range queue.scores {
		var alive time.Time
		if sign := n.data.keys[signOf+id]; sign != nil && !sign.expired(now) {
			alive = sign.since
		}
		each(id, queue.joined[id], alive)
	}
}

// renew marks everything as there since now.
func (d Data) renew(now time.Time) {
	for _, e := range d.keys {
		e.since = now
		for member := range e.joined {
			e.joined[member] = now
		}
	}
}
