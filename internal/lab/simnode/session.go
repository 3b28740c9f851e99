package simnode

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Session is a connection to a node.
type Session struct {
	node   *Node
	hangUp func()

	// Guarded by node.mu.
	over     bool
	channels []string // subscribed
	push     func(data []byte)
	resp3    bool
	unread   []byte     // the beginning of a command
	args     [][]byte   // room for those of one command
	call     serverCall // room for one
	reply    reply
	multi    *transaction // open; nil if none
}

// Feed takes in what has arrived, executes the commands that are complete, and
// appends the replies to out. Once the process has ended nothing happens.
func (s *Session) Feed(out, data []byte) []byte {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.over {
		return out
	}
	n.sweepLocked()
	if len(s.unread) > 0 {
		s.unread = append(s.unread, data...)
		data = s.unread
	}
	s.reply = reply{out, s.resp3}
	for !s.over {
		rest, complete, err := s.next(data)
		if err != "" {
			s.reply.fail("ERR Protocol error: " + err)
			s.over = true
		}
		if !complete {
			break
		}
		data = rest
		s.call = serverCall{call: call{data: n.data, args: s.args, now: n.clock.at(time.Now()), reply: &s.reply}, node: n, session: s}
		answer := len(s.reply.buf)
		s.call.execute()
		n.answered(s.args, s.reply.buf[answer:])
	}
	s.unread = append(s.unread[:0], data...)
	return s.reply.buf
}

// Close ends the connection from the client's side.
func (s *Session) Close() {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	s.over = true
	for i, other := range n.sessions {
		if other == s {
			n.sessions = append(n.sessions[:i], n.sessions[i+1:]...)
			return
		}
	}
}

// next reads one command into s.args. They are parts of data.
func (s *Session) next(data []byte) (rest []byte, complete bool, err string) {
	count, data, ok := header(data, '*')
	if !ok {
		return nil, false, malformed(data, '*')
	}
	s.args = s.args[:0]
	for range count {
		size, after, ok := header(data, '$')
		if !ok {
			return nil, false, malformed(data, '$')
		}
		if len(after) < size+2 {
			return nil, false, ""
		}
		s.args = append(s.args, after[:size:size])
		data = after[size+2:]
	}
	if count == 0 {
		return s.next(data)
	}
	return data, true, ""
}

// header reads a line such as "*3", and returns what follows it, or else data.
func header(data []byte, kind byte) (n int, rest []byte, ok bool) {
	if len(data) < 4 || data[0] != kind {
		return 0, data, false
	}
	for i, c := range data[1:] {
		switch {
		case c >= '0' && c <= '9' && i < 9:
			n = 10*n + int(c-'0')
		case c == '\r' && i > 0 && len(data) > i+2:
			return n, data[i+3:], true
		default:
			return 0, data, false
		}
	}
	return 0, data, false
}

// malformed says what is wrong with a line that header did not read; nothing, if
// the rest of it has not arrived yet.
func malformed(data []byte, kind byte) string {
	line, _, ended := bytes.Cut(data, []byte("\r\n"))
	switch {
	case len(data) > 0 && data[0] != kind:
		return "expected '" + string(kind) + "', got " + strconv.Quote(string(data[:1]))
	case ended || len(line) > 16:
		return "invalid length"
	}
	return ""
}

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

// answered tells the node's watcher of a command that it has executed.
func (n *Node) answered(args [][]byte, reply []byte) {
	switch {
	case n.watch == nil, bytes.HasPrefix(reply, []byte("-")), bytes.HasPrefix(reply, []byte("+"+queued)):
	default:
		n.watch(args)
	}
}

// OnPush sets what is called with a message that no command asked for. It is
// called with the node's mutex held: it must only take the bytes.
func (s *Session) OnPush(push func(data []byte)) {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.push = push
}

// listensOnly tells whether it may do nothing but subscribe: in RESP2 a message
// can't be told from a reply.
func (s *Session) listensOnly() bool { return len(s.channels) > 0 && !s.resp3 }

func allowedToListeners(name []byte) bool {
	return slices.Contains([]string{"SUBSCRIBE", "UNSUBSCRIBE", "PING"}, strings.ToUpper(string(name)))
}

// pushed begins a message of three parts that no command asked for.
func (r *reply) pushed() {
	const parts = 3
	if r.resp3 {
		r.number('>', parts)
	} else {
		r.array(parts)
	}
}

func (c *serverCall) subscribe() {
	s := c.session
	for _, channel := range c.args[1:] {
		if !slices.Contains(s.channels, string(channel)) {
			s.channels = append(s.channels, string(channel))
		}
		c.reply.pushed()
		c.reply.bulk("subscribe")
		c.reply.bulk(string(channel))
		c.reply.int(int64(len(s.channels)))
	}
}

func (c *serverCall) unsubscribe() {
	s := c.session
	channels := slices.Clone(s.channels)
	if len(c.args) > 1 {
		channels = nil
		for _, a := range c.args[1:] {
			channels = append(channels, string(a))
		}
	}
	if len(channels) == 0 {
		c.reply.pushed()
		c.reply.bulk("unsubscribe")
		c.reply.null()
		c.reply.int(0)
	}
	for _, channel := range channels {
		s.channels = slices.DeleteFunc(s.channels, func(have string) bool { return have == channel })
		c.reply.pushed()
		c.reply.bulk("unsubscribe")
		c.reply.bulk(channel)
		c.reply.int(int64(len(s.channels)))
	}
}

// publish hands a message to every connection that wants it, and replies how many
// those are.
func (c *serverCall) publish() {
	heard := int64(0)
	for _, s := range c.node.sessions {
		if s.over || !slices.Contains(s.channels, c.arg(1)) {
			continue
		}
		heard++
		if s.push != nil {
			r := reply{resp3: s.resp3}
			r.pushed()
			r.bulk("message")
			r.bulk(c.arg(1))
			r.bulk(c.arg(2))
			s.push(r.buf)
		}
	}
	c.reply.int(heard)
}
