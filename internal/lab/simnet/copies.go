package simnet

import (
	"bytes"
	"slices"
	"strconv"
	"time"
)

// Copies finds what of a client's messages a link delivers twice: whole commands, and
// only of messages that mean the same on another connection. A greeting, a subscription
// and a transaction belong to theirs.
type Copies struct {
	begun  []byte // the beginning of a command
	queues bool   // a transaction is under way, which ends with one of endsTransaction
}

// ofTheirConnection are commands that mean something else on another connection.
var ofTheirConnection = [][]byte{
	[]byte("hello"), []byte("auth"), []byte("select"), []byte("client"), []byte("quit"), []byte("reset"), []byte("monitor"),
	[]byte("subscribe"), []byte("psubscribe"), []byte("ssubscribe"), []byte("unsubscribe"), []byte("punsubscribe"), []byte("sunsubscribe"),
	[]byte("multi"), []byte("exec"), []byte("discard"), []byte("watch"), []byte("unwatch"),
}

// endsTransaction are commands that end what MULTI began.
var endsTransaction = [][]byte{[]byte("exec"), []byte("discard"), []byte("reset")}

// Of returns a copy of the commands that are whole with the next message; nil: nothing is
// to be delivered twice. Messages begin with a command, or go on with one. A transaction is known
// by its MULTI, and so not if that came before the first message here.
func (c *Copies) Of(data []byte) []byte {
	data = append(slices.Clone(c.begun), data...)
	rest, own := data, false
	for {
		name, after, ok := command(rest)
		if !ok {
			break
		}
		own = own || c.queues || is(name, ofTheirConnection)
		c.queues = bytes.EqualFold(name, []byte("multi")) || c.queues && !is(name, endsTransaction)
		rest = after
	}
	c.begun = nil
	if len(rest) > 0 && rest[0] == '*' {
		c.begun = slices.Clone(rest)
	}
	if whole := data[:len(data)-len(rest)]; !own && len(whole) > 0 {
		return whole
	}
	return nil
}

// is tells whether a command is one of these.
func is(name []byte, these [][]byte) bool {
	return slices.ContainsFunc(these, func(n []byte) bool { return bytes.EqualFold(n, name) })
}

// command takes one command off data; ok is false where there is no whole one.
func command(data []byte) (name, rest []byte, ok bool) {
	words, rest, ok := length(data, '*')
	for i := 0; ok && i < words; i++ {
		var n int
		if n, rest, ok = length(rest, '$'); !ok || len(rest) < n+2 {
			return nil, data, false
		}
		if i == 0 {
			name = rest[:n]
		}
		rest = rest[n+2:]
	}
	return name, rest, ok
}

// length reads a line such as "$3".
func length(data []byte, kind byte) (n int, rest []byte, ok bool) {
	line, rest, ended := bytes.Cut(data, []byte("\r\n"))
	if !ended || len(line) < 2 || line[0] != kind {
		return 0, data, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil && n >= 0
}

// again delivers the data to the node a second time where the
// link does that: now, or later. The link's mutex is held, here and below.
func (c *conn) again(data []byte) {
	if !c.link.is.Requests.Twice {
		c.copies = Copies{}
		return
	}
	if data = c.copies.Of(data); data == nil {
		return
	}
	due := time.Now()
	if late := c.link.is.Requests.Later; late > 0 {
		due = c.own(due.Add(late))
	}
	if n := len(c.twice); n > 0 && due.Before(c.twice[n-1].due) {
		due = c.twice[n-1].due
	}
	c.twice = append(c.twice, segment{data: data, due: due})
}

// deliverTwice makes the node execute the copies that are due, over connections of their
// own: nobody reads the replies. A node that is down, or gone, gets nothing.
func (c *conn) deliverTwice(now time.Time) {
	for len(c.twice) > 0 && !now.Before(c.twice[0].due) {
		if session, err := c.node.Open(func() {}); err == nil {
			session.Feed(nil, c.twice[0].data)
			session.Close()
		}
		c.twice = slices.Delete(c.twice, 0, 1)
	}
}
