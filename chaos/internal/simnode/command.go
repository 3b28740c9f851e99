package simnode

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The errors that Redis replies with, word by word.
const (
	wrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	notInteger = "ERR value is not an integer or out of range"
	badSyntax  = "ERR syntax error"
	noScript   = "NOSCRIPT No matching script. Please use EVAL."
)

// call is a command while it is executed; node.mu is held.
type call struct {
	node    *Node
	session *Session
	args    [][]byte  // the name first
	now     time.Time // by the node's clock; it stands still during a script
	reply   *reply
	nested  bool // a script calls it

	// Of a script.
	script     *script
	keys, argv [][]byte
}

// command is what there is to know of one.
type command struct {
	arity int // with the name; negative: at least
	run   func(*call)
	outer bool // not for scripts
}

// commandOf finds a command by its name, in whatever case.
func commandOf(name []byte) (command, bool) {
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
	key := upper[:len(name)]
	for _, family := range [...]func(name []byte) command{serverCommand, keyCommand, stringCommand, hashCommand, sortedSetCommand, pubSubCommand} {
		if c := family(key); c.run != nil {
			return c, true
		}
	}
	return command{}, false
}

// serverCommand knows the ones that are of no key, and scripts.
func serverCommand(name []byte) command {
	switch string(name) {
	case "EVALSHA":
		return command{-3, (*call).evalSHA, true}
	case "EVAL":
		return command{-3, (*call).eval, true}
	case "SCRIPT":
		return command{-2, (*call).scriptCommand, true}
	case "TIME":
		return command{1, (*call).time, false}
	case "INFO":
		return command{-1, (*call).info, false}
	case "PING":
		return command{-1, (*call).ping, false}
	case "ECHO":
		return command{2, func(c *call) { c.reply.bulk(c.arg(1)) }, false}
	case "HELLO":
		return command{-1, (*call).hello, true}
	case "AUTH":
		return command{-2, (*call).auth, true}
	case "CLIENT":
		return command{-2, (*call).client, true}
	case "SELECT":
		return command{2, (*call).selectDB, false}
	case "CONFIG":
		return command{-2, (*call).config, true}
	case "UNWATCH":
		return command{1, (*call).ok, true}
	}
	return command{}
}

// keyCommand knows the ones that take a key of any type.
func keyCommand(name []byte) command {
	switch string(name) {
	case "DEL", "UNLINK":
		return command{-2, (*call).del, false}
	case "EXISTS":
		return command{-2, (*call).exists, false}
	case "TYPE":
		return command{2, (*call).typeOf, false}
	case "PTTL":
		return command{2, (*call).pttl, false}
	case "TTL":
		return command{2, (*call).ttl, false}
	case "PEXPIRE":
		return command{-3, func(c *call) { c.expireIn(time.Millisecond) }, false}
	case "EXPIRE":
		return command{-3, func(c *call) { c.expireIn(time.Second) }, false}
	case "PERSIST":
		return command{2, (*call).persist, false}
	case "KEYS":
		return command{2, (*call).listKeys, false}
	case "DBSIZE":
		return command{1, (*call).dbSize, false}
	case "FLUSHALL", "FLUSHDB":
		return command{-1, (*call).flushAll, false}
	}
	return command{}
}

// stringCommand knows the ones that take strings.
func stringCommand(name []byte) command {
	switch string(name) {
	case "GET":
		return command{2, (*call).get, false}
	case "MGET":
		return command{-2, (*call).mget, false}
	case "SET":
		return command{-3, (*call).set, false}
	case "SETNX":
		return command{3, (*call).setNX, false}
	case "INCR":
		return command{2, func(c *call) { c.add(1) }, false}
	case "INCRBY":
		return command{3, func(c *call) { c.addArg(2, c.add) }, false}
	}
	return command{}
}

// hashCommand knows the ones that take hashes.
func hashCommand(name []byte) command {
	switch string(name) {
	case "HGET":
		return command{3, (*call).hget, false}
	case "HMGET":
		return command{-3, (*call).hmget, false}
	case "HGETALL":
		return command{2, (*call).hgetAll, false}
	case "HEXISTS":
		return command{3, (*call).hexists, false}
	case "HLEN":
		return command{2, (*call).hlen, false}
	case "HSET":
		return command{-4, (*call).hset, false}
	case "HSETNX":
		return command{4, (*call).hsetNX, false}
	case "HDEL":
		return command{-3, (*call).hdel, false}
	case "HINCRBY":
		return command{4, func(c *call) { c.addArg(3, c.hadd) }, false}
	}
	return command{}
}

// execute runs the command and writes its reply.
func (c *call) execute() {
	cmd, known := commandOf(c.args[0])
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
	default:
		cmd.run(c)
	}
}

// beginning is what Redis repeats of the arguments of an unknown command.
func (c *call) beginning() string {
	var b strings.Builder
	for _, a := range c.args[1:] {
		if b.Len() >= 128 {
			break
		}
		fmt.Fprintf(&b, "'%.*s' ", 128-b.Len(), a)
	}
	return b.String()
}

func (c *call) arg(i int) string { return string(c.args[i]) }

// is tells whether the first argument is that word, in whatever case.
func (c *call) is(word string) bool { return strings.EqualFold(c.arg(1), word) }

func (c *call) ok() { c.reply.status("OK") }

// integer reads a number as Redis does: no sign but "-", no zero in front.
func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}
