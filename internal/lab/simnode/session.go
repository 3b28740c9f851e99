package simnode

import (
	"bytes"
	"strconv"
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
	multi    *transaction // open; nil: none
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
	n.sweep()
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
