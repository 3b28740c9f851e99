package simnode

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	"fmt"
	"strings"
)

// scriptCommand is SCRIPT.
func (c *serverCall) scriptCommand() {
	switch {
	case c.is("LOAD") && len(c.args) == 3:
		if s, err := c.see(c.arg(2)); err != nil {
			c.reply.fail(fmt.Sprintf("ERR Error compiling script (new function): %v", err))
		} else {
			c.reply.bulk(s.hash)
		}
	case c.is("EXISTS") && len(c.args) > 2:
		c.reply.array(len(c.args) - 2)
		for _, hash := range c.args[2:] {
			if c.node.scripts[strings.ToLower(string(hash))] != nil {
				c.reply.int(1)
			} else {
				c.reply.int(0)
			}
		}
	case c.is("FLUSH"):
		clear(c.node.scripts)
		c.ok()
	default:
		c.reply.fail(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%s'. Try SCRIPT HELP.", c.arg(1)))
	}
}

// see takes a script into the process's cache.
func (c *serverCall) see(body string) (*script, error) {
	hash := hashOf(body)
	if s := c.node.scripts[hash]; s != nil {
		return s, nil
	}
	s := &script{hash: hash, body: body, native: natives[hash]}
	if s.native == nil {
		if err := c.node.interpreter().compile(hash, body); err != nil {
			return nil, err
		}
	}
	c.node.scripts[hash] = s
	return s, nil
}

func (c *serverCall) eval() {
	keys, argv, ok := c.splitArgs()
	if !ok {
		return
	}
	s, err := c.see(c.arg(1))
	if err != nil {
		c.reply.fail(fmt.Sprintf("ERR Error compiling script (new function): %v", err))
		return
	}
	c.run(s, keys, argv)
}

func (c *serverCall) evalSHA() {
	if len(c.args[1]) != 2*sha1.Size {
		c.reply.fail(noScript)
		return
	}
	keys, argv, ok := c.splitArgs()
	if !ok {
		return
	}
	s := c.node.scripts[string(c.args[1])]
	if s == nil {
		s = c.node.scripts[strings.ToLower(c.arg(1))]
	}
	if s == nil {
		c.reply.fail(noScript)
		return
	}
	c.run(s, keys, argv)
}

// splitArgs finds KEYS and ARGV.
func (c *serverCall) splitArgs() (keys, argv [][]byte, ok bool) {
	n, ok := integer(c.arg(2))
	switch {
	case !ok:
		c.reply.fail(notInteger)
	case n > int64(len(c.args)-3):
		c.reply.fail("ERR Number of keys can't be greater than number of args")
	case n < 0:
		c.reply.fail("ERR Number of keys can't be negative")
	default:
		return c.args[3 : 3+n], c.args[3+n:], true
	}
	return nil, nil, false
}

// run executes a script: as a Go function, if there is one for all that it does.
func (c *serverCall) run(s *script, keys, argv [][]byte) {
	n := c.node
	n.script = scriptCall{&c.call, s, keys, argv, n.identity, &n.room}
	if s.native != nil && !n.script.waited() {
		s.native(&n.script)
		return
	}
	if err := n.interpreter().compile(s.hash, s.body); err != nil {
		n.script.abort(err.Error())
		return
	}
	n.interpreter().run(&n.script, c.callFromScript)
}

// callFromScript executes a command that the script calls, and returns the reply.
func (c *serverCall) callFromScript(args [][]byte) []byte {
	var r reply
	inner := serverCall{call: call{data: c.data, args: args, now: c.now, reply: &r}, node: c.node, session: c.session, nested: true}
	inner.execute()
	return r.buf
}
