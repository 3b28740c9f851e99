package simnode_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/simnode"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
)

// peer is something that speaks RESP: a node of ours or a server.
type peer struct {
	t     testing.TB
	send  func([]byte)
	reply *bufio.Reader
	run   string // its identity
	ear   *peer  // a connection that hears what some waiters are told; nil if none
}

// listen has another connection to the peer hear what all waiters but the last are
// told.
func (p *peer) listen(ear *peer) *peer {
	p.ear = ear
	channels := []string{"mark"}
	for _, w := range waiters[:len(waiters)-1] {
		channels = append(channels, "redlock:wake:"+w)
	}
	ear.do(append([]string{"SUBSCRIBE"}, channels...)...)
	for range channels[1:] {
		ear.read()
	}
	return p
}

// heard is what the waiters were told since the last time.
func (p *peer) heard() (messages []string) {
	p.t.Helper()
	p.do("PUBLISH", "mark", "")
	for {
		m := p.ear.read()
		if strings.Contains(m, `"mark"`) {
			return messages
		}
		messages = append(messages, m)
	}
}

// newSimPeer is a node of ours.
func newSimPeer(tb testing.TB) (*peer, *simnode.Node) {
	tb.Helper()
	node := simnode.New()
	return newSession(tb, node), node
}

// newSession is another connection to a node of ours.
func newSession(tb testing.TB, node *simnode.Node) *peer {
	tb.Helper()
	session, err := node.Open(func() {})
	testkit.Must(tb, err)
	var replies bytes.Buffer
	session.OnPush(func(data []byte) { replies.Write(data) })
	p := &peer{t: tb, reply: bufio.NewReader(&replies), send: func(b []byte) { replies.Write(session.Feed(nil, b)) }}
	p.run = p.identity()
	return p
}

// newRealPeer is a server.
func newRealPeer(tb testing.TB, server *redisserver.Server) *peer {
	tb.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	testkit.Must(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	p := &peer{t: tb, reply: bufio.NewReader(conn), send: func(b []byte) {
		if _, err := conn.Write(b); err != nil {
			tb.Fatal(err)
		}
	}}
	p.run = p.identity()
	return p
}

func (p *peer) identity() string {
	return regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(p.do("INFO", "server"))[1] + "." +
		regexp.MustCompile(`master_replid:(\w+)`).FindStringSubmatch(p.do("INFO", "replication"))[1]
}

// do sends commands one by one, each with its arguments, and returns what came
// back as one text.
func (p *peer) do(args ...string) string {
	p.t.Helper()
	return p.all([][]string{args})[0]
}

// clockReading is a server's time in microseconds, in a reply.
var clockReading = regexp.MustCompile(`"1\d{15}"`)

// all sends commands together. RUN in an argument is the peer's identity, and so it
// is in replies.
func (p *peer) all(commands [][]string) []string {
	p.t.Helper()
	var b bytes.Buffer
	for _, args := range commands {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			if a == "RUN" {
				a = p.run
			}
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	p.send(b.Bytes())
	replies := make([]string, len(commands))
	for i := range replies {
		replies[i] = p.read()
		if p.run != "" {
			replies[i] = strings.ReplaceAll(replies[i], p.run, "RUN")
		}
		replies[i] = clockReading.ReplaceAllString(replies[i], `"NOW"`)
	}
	return replies
}

// read reads one reply.
func (p *peer) read() string {
	p.t.Helper()
	line, err := p.reply.ReadString('\n')
	if err != nil {
		p.t.Fatalf("reading a reply: %v", err)
	}
	line = strings.TrimSuffix(line, "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '$':
		if n < 0 {
			return "nil"
		}
		text := make([]byte, n+2)
		if _, err := io.ReadFull(p.reply, text); err != nil {
			p.t.Fatalf("reading a reply: %v", err)
		}
		return strconv.Quote(string(text[:n]))
	case '*':
		return "[" + p.items(n) + "]"
	case '>':
		return "push[" + p.items(n) + "]"
	case '%':
		return "{" + p.items(2*n) + "}"
	case '-':
		return errorClass(line)
	default:
		return line
	}
}

// items reads that many replies.
func (p *peer) items(n int) string {
	p.t.Helper()
	items := make([]string, n)
	for i := range items {
		items[i] = p.read()
	}
	return strings.Join(items, " ")
}

// valkeyWords are errors that Valkey words otherwise than Redis does, and a node of
// ours with it: redlock must tell them by other words.
var valkeyWords = map[string]string{
	"-NOSCRIPT No matching script.":                         "-NOSCRIPT No matching script. Please use EVAL.",
	"-ERR Unknown command called from script":               "-ERR Unknown Redis command called from script",
	"-ERR Wrong number of args calling command from script": "-ERR Wrong number of args calling Redis command from script",
}

// errorClass is an error without what Redis says of the script's line.
func errorClass(line string) string {
	line, _, _ = strings.Cut(line, " script: ")
	if redis := valkeyWords[line]; redis != "" {
		return redis
	}
	for _, class := range []string{"-ERR user_script", "-ERR Error compiling script"} {
		if strings.HasPrefix(line, class) {
			return class
		}
	}
	return line
}

// script is the body of one of lua/, as this peer is sent it.
func (p *peer) script(name string) string {
	return bodies[name]
}

// bodies are the scripts, by name.
var bodies = func() map[string]string {
	out := map[string]string{
		"deleteIfOurs": `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`,
		"expireIfOurs": `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`,
	}
	for _, s := range slices.Concat(lua.VotingScripts, lua.KeepingScripts, lua.MembershipScripts) {
		out[s.Name] = s.Body
	}
	return out
}()

// began is before all that ends by a time of the peers' clocks.
var began = int(time.Now().UnixMilli())

// clocks is TIME, as a script puts it behind its reply.
var clocks = regexp.MustCompile(` "\d{9,10}" "\d{1,6}"\]$`)

// ends is a reply as it is compared: of TIME that it is there, and numbers that count milliseconds to the
// minute, since the peers are asked one after the other, and leases are whole
// hours. Those near the last token are left. Of those that end in seconds it is
// which of the scripts' two they are.
func ends(reply string) string {
	const minute = 60_000
	reply = clocks.ReplaceAllString(reply, " time]")
	var out strings.Builder
	for len(reply) > 0 {
		n := 0
		for n < len(reply) && reply[n] >= '0' && reply[n] <= '9' {
			n++
		}
		switch {
		case n == 13 && reply[:n] < "9":
			ms, _ := strconv.Atoi(reply[:n]) // the time at which a shared hold ends
			fmt.Fprintf(&out, "in%dmin", (ms-began)/(30*minute)*30)
		case n == 3:
			out.WriteString("called") // a sign of life of 700 ms
		case n == 4:
			out.WriteString("soon") // one of 3 s, or such a lease
		case n < 6 || n > 12:
			n = max(n, 1)
			out.WriteString(reply[:n])
		default:
			ms, _ := strconv.Atoi(reply[:n])
			fmt.Fprintf(&out, "%dmin", (ms+minute/2)/minute)
		}
		reply = reply[n:]
	}
	return out.String()
}

// stored is all that the peer has.
func (p *peer) stored() string {
	p.t.Helper()
	var commands [][]string
	for _, key := range keys {
		commands = append(commands, []string{"TYPE", key}, []string{"PTTL", key}, []string{"GET", key}, []string{"HLEN", key})
	}
	for _, name := range names {
		queue := "redlock:queue:" + name
		commands = append(commands, []string{"TYPE", queue}, []string{"PTTL", queue}, []string{"ZRANGE", queue, "0", "-1", "WITHSCORES"})
	}
	for _, name := range names {
		line := "redlock:sharers:" + name
		commands = append(commands, []string{"TYPE", line}, []string{"PTTL", line}, []string{"ZRANGE", line, "0", "-1", "WITHSCORES"})
		commands = append(commands, []string{"ZRANGE", name, "0", "0", "WITHSCORES"})
		for _, o := range owners {
			commands = append(commands, []string{"ZSCORE", name, o})
		}
	}
	for _, w := range waiters {
		commands = append(commands, []string{"GET", "redlock:live:" + w}, []string{"PTTL", "redlock:live:" + w})
	}
	for _, field := range fields {
		commands = append(commands, []string{"HGET", "redlock:node", field})
	}
	return ends(strings.Join(p.all(append(commands, []string{"DBSIZE"})), " "))
}
