package simnode

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// version is what a node says it is: the oldest that redlock takes.
const version = "7.0.0"

func (c *serverCall) ping() {
	switch {
	case len(c.args) > 2:
		c.reply.fail("ERR wrong number of arguments for 'ping' command")
	case c.session.listensOnly():
		c.reply.array(2)
		c.reply.bulk("pong")
		c.reply.bulk(string(bytes.Join(c.args[1:], nil)))
	case len(c.args) == 2:
		c.reply.bulk(c.arg(1))
	default:
		c.reply.status("PONG")
	}
}

// time is TIME: the node's clock, in seconds and microseconds.
func (c *serverCall) time() {
	c.reply.array(2)
	micros := c.now.UnixMicro()
	c.reply.bulk(fmt.Sprint(micros / 1e6))
	c.reply.bulk(fmt.Sprint(micros % 1e6))
}

// auth refuses, as a server without a password does.
func (c *serverCall) auth() {
	c.reply.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
}

func (c *serverCall) hello() {
	if len(c.args) > 1 {
		if v := c.arg(1); v != "2" && v != "3" {
			c.reply.fail("NOPROTO unsupported protocol version")
			return
		}
		c.session.resp3 = c.arg(1) == "3"
		c.reply.resp3 = c.session.resp3
	}
	r, proto := c.reply, int64(2)
	if c.session.resp3 {
		proto = 3
	}
	r.pairs(7)
	for _, pair := range [][2]string{{"server", "redis"}, {"version", version}, {"mode", "standalone"}, {"role", "master"}} {
		r.bulk(pair[0])
		r.bulk(pair[1])
	}
	r.bulk("proto")
	r.int(proto)
	r.bulk("id")
	r.int(1)
	r.bulk("modules")
	r.array(0)
}

// client takes what go-redis says of itself.
func (c *serverCall) client() {
	switch {
	case c.is("SETINFO"), c.is("SETNAME"):
		c.ok()
	default:
		c.reply.fail(fmt.Sprintf("ERR unknown subcommand '%s'. Try CLIENT HELP.", c.arg(1)))
	}
}

func (c *serverCall) selectDB() {
	if c.arg(1) == "0" {
		c.ok()
	} else {
		c.reply.fail("ERR DB index is out of range")
	}
}

// info is INFO, with the sections that somebody reads.
func (c *serverCall) info() {
	var out strings.Builder
	for _, section := range []string{"server", "persistence", "replication"} {
		if len(c.args) > 1 && !slices.ContainsFunc(c.args[1:], func(a []byte) bool { return asksFor(string(a), section) }) {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("\r\n")
		}
		fmt.Fprintf(&out, "# %s%s\r\n", strings.ToUpper(section[:1]), section[1:])
		switch section {
		case "server":
			fmt.Fprintf(&out, "redis_version:%s\r\nredis_mode:standalone\r\nrun_id:%s\r\n", version, c.node.runID)
			fmt.Fprintf(&out, "uptime_in_seconds:%d\r\n", int(time.Since(c.node.born).Seconds()))
		case "persistence":
			out.WriteString("loading:0\r\naof_enabled:1\r\n")
		case "replication":
			fmt.Fprintf(&out, "role:master\r\nconnected_slaves:0\r\nmaster_replid:%s\r\n", c.node.replID)
		}
	}
	c.reply.bulk(out.String())
}

// asksFor tells whether an argument of INFO names the section.
func asksFor(arg, section string) bool {
	arg = strings.ToLower(arg)
	return arg == section || arg == "all" || arg == "default" || arg == "everything"
}

// settings are what CONFIG GET knows.
var settings = [][2]string{
	{"appendfsync", "always"}, {"appendonly", "yes"}, {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}, {"save", ""},
}

func (c *serverCall) config() {
	if !c.is("GET") || len(c.args) < 3 {
		c.reply.fail(fmt.Sprintf("ERR unknown subcommand '%s'. Try CONFIG HELP.", c.arg(1)))
		return
	}
	var found [][2]string
	for _, pair := range settings {
		if slices.ContainsFunc(c.args[2:], func(pattern []byte) bool {
			match, _ := path.Match(strings.ToLower(string(pattern)), pair[0])
			return match
		}) {
			found = append(found, pair)
		}
	}
	c.reply.pairs(len(found))
	for _, pair := range found {
		c.reply.bulk(pair[0])
		c.reply.bulk(pair[1])
	}
}
