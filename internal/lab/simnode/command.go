package simnode

import (
	"fmt"
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

// commandOf finds a command by its name, in any case.
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
		return command{-3, (*serverCall).evalSHA, true}
	case "EVAL":
		return command{-3, (*serverCall).eval, true}
	case "SCRIPT":
		return command{-2, (*serverCall).scriptCommand, true}
	case "TIME":
		return command{1, (*serverCall).time, false}
	case "INFO":
		return command{-1, (*serverCall).info, false}
	case "PING":
		return command{-1, (*serverCall).ping, false}
	case "ECHO":
		return command{2, func(c *serverCall) { c.reply.bulk(c.arg(1)) }, false}
	case "HELLO":
		return command{-1, (*serverCall).hello, true}
	case "AUTH":
		return command{-2, (*serverCall).auth, true}
	case "CLIENT":
		return command{-2, (*serverCall).client, true}
	case "SELECT":
		return command{2, (*serverCall).selectDB, false}
	case "CONFIG":
		return command{-2, (*serverCall).config, true}
	case "MULTI":
		return command{1, (*serverCall).begin, true}
	case "EXEC":
		return command{1, (*serverCall).exec, true}
	case "DISCARD":
		return command{1, (*serverCall).discard, true}
	case "UNWATCH":
		return command{1, (*serverCall).ok, true}
	}
	return command{}
}

// keyCommand knows the ones that take a key of any type.
func keyCommand(name []byte) command {
	switch string(name) {
	case "DEL", "UNLINK":
		return command{-2, (*serverCall).del, false}
	case "EXISTS":
		return command{-2, (*serverCall).exists, false}
	case "TYPE":
		return command{2, (*serverCall).typeOf, false}
	case "PTTL":
		return command{2, (*serverCall).pttl, false}
	case "TTL":
		return command{2, (*serverCall).ttl, false}
	case "PEXPIRE":
		return command{-3, func(c *serverCall) { c.expireIn(time.Millisecond) }, false}
	case "EXPIRE":
		return command{-3, func(c *serverCall) { c.expireIn(time.Second) }, false}
	case "PEXPIREAT":
		return command{3, (*serverCall).expireAt, false}
	case "PEXPIRETIME":
		return command{2, (*serverCall).expireTime, false}
	case "PERSIST":
		return command{2, (*serverCall).persist, false}
	case "KEYS":
		return command{2, (*serverCall).listKeys, false}
	case "DBSIZE":
		return command{1, (*serverCall).dbSize, false}
	case "FLUSHALL", "FLUSHDB":
		return command{-1, (*serverCall).flushAll, false}
	}
	return command{}
}

// stringCommand knows the ones that take strings.
func stringCommand(name []byte) command {
	switch string(name) {
	case "GET":
		return command{2, (*serverCall).get, false}
	case "MGET":
		return command{-2, (*serverCall).mget, false}
	case "SET":
		return command{-3, (*serverCall).set, false}
	case "SETNX":
		return command{3, (*serverCall).setNX, false}
	case "STRLEN":
		return command{2, (*serverCall).strlen, false}
	case "GETRANGE":
		return command{4, (*serverCall).getRange, false}
	case "INCR":
		return command{2, func(c *serverCall) { c.add(1) }, false}
	case "INCRBY":
		return command{3, func(c *serverCall) { c.addArg(2, c.add) }, false}
	}
	return command{}
}

// hashCommand knows the ones that take hashes.
func hashCommand(name []byte) command {
	switch string(name) {
	case "HGET":
		return command{3, (*serverCall).hget, false}
	case "HMGET":
		return command{-3, (*serverCall).hmget, false}
	case "HGETALL":
		return command{2, (*serverCall).hgetAll, false}
	case "HEXISTS":
		return command{3, (*serverCall).hexists, false}
	case "HLEN":
		return command{2, (*serverCall).hlen, false}
	case "HSET":
		return command{-4, (*serverCall).hset, false}
	case "HSETNX":
		return command{4, (*serverCall).hsetNX, false}
	case "HDEL":
		return command{-3, (*serverCall).hdel, false}
	case "HINCRBY":
		return command{4, func(c *serverCall) { c.addArg(3, c.hadd) }, false}
	}
	return command{}
}

// execute runs the command, or keeps it for the end of a transaction, and writes its reply.
func (c *serverCall) execute() {
	cmd, known := commandOf(c.args[0])
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
