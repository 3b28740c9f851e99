package simnode

import (
	"slices"
	"strings"
)

// OnPush sets what is called with a message that no command asked for. It is
// called with the node's mutex held: it must only take the bytes.
func (s *Session) OnPush(push func(data []byte)) {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.push = push
}

// pubSubCommand knows the ones of channels.
func pubSubCommand(name []byte) command {
	switch string(name) {
	case "SUBSCRIBE":
		return command{-2, (*serverCall).subscribe, true}
	case "UNSUBSCRIBE":
		return command{-1, (*serverCall).unsubscribe, true}
	case "PUBLISH":
		return command{3, (*serverCall).publish, false}
	}
	return command{}
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
