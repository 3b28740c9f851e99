package simnode

import (
	"bytes"
	"strings"
)

// queued is the reply to a command that a transaction keeps.
const queued = "QUEUED"

// transaction is the commands between MULTI and EXEC. WATCH there is not.
type transaction struct {
	commands [][][]byte
	aborted  bool // one of them was refused
}

// abort notes that a command was refused that was to be kept, if there is a transaction.
func (t *transaction) abort() {
	if t != nil {
		t.aborted = true
	}
}

// keep keeps a command, whose words are the connection's.
func (t *transaction) keep(args [][]byte) {
	kept := make([][]byte, len(args))
	for i, a := range args {
		kept[i] = bytes.Clone(a)
	}
	t.commands = append(t.commands, kept)
}

// ofTransaction tells whether a command of this name is about transactions itself.
func ofTransaction(name []byte) bool {
	switch strings.ToUpper(string(name)) {
	case "MULTI", "EXEC", "DISCARD":
		return true
	}
	return false
}

func (c *serverCall) begin() {
	if c.session.multi != nil {
		c.reply.fail("ERR MULTI calls can not be nested")
		return
	}
	c.session.multi = &transaction{}
	c.ok()
}

func (c *serverCall) discard() {
	if c.session.multi == nil {
		c.reply.fail("ERR DISCARD without MULTI")
		return
	}
	c.session.multi = nil
	c.ok()
}

// exec runs what was kept, all at one time of the node's clock.
func (c *serverCall) exec() {
	t := c.session.multi
	c.session.multi = nil
	switch {
	case t == nil:
		c.reply.fail("ERR EXEC without MULTI")
		return
	case t.aborted:
		c.reply.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	c.reply.array(len(t.commands))
	for _, args := range t.commands {
		one := serverCall{call: call{data: c.node.data, args: args, now: c.now, reply: c.reply}, node: c.node, session: c.session}
		answer := len(c.reply.buf)
		one.execute()
		c.node.answered(args, c.reply.buf[answer:])
	}
}

// answered tells who watches the node of a command that it has executed.
func (n *Node) answered(args [][]byte, reply []byte) {
	switch {
	case n.watch == nil, bytes.HasPrefix(reply, []byte("-")), bytes.HasPrefix(reply, []byte("+"+queued)):
	default:
		n.watch(args)
	}
}
