package chaos

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/lua"
)

// lines knows which client stands in line for what on the nodes of a virtual stage, and
// records it: always when somebody is served, so that a judge knows it of that
// moment, and only what has changed. It knows whose a Locker's id is from the channel that
// the nodes are to call it on.
type lines struct {
	nodes   []*virtualNode
	quorum  int
	history *history

	mu      sync.Mutex // guards the rest
	clients map[string]string
	told    map[inLineOf]time.Time // since when, as last recorded
}

// inLineOf is who stands in one of the lines for a resource.
type inLineOf struct {
	trace.Waiting

	shared bool // the line of clients that wait to share it
	slots  bool // of clients that wait for a slot of it
}

// name is what is waited for in this line, as the nodes have it.
func (of inLineOf) name() string {
	if of.slots {
		return lua.SlotsKey(of.Resource)
	}
	return of.Resource
}

// limit is that of its records: any, of a line for slots.
func (of inLineOf) limit() int {
	if of.slots {
		return 1
	}
	return 0
}

// newLines is nil where the nodes can't be looked into.
func newLines(stage Stage, history *history) *lines {
	v, ok := stage.(*virtual)
	if !ok {
		return nil
	}
	return &lines{
		nodes: v.nodes, quorum: len(v.nodes)/2 + 1, history: history,
		clients: map[string]string{}, told: map[inLineOf]time.Time{},
	}
}

// look records who stands in line for a resource now, as far as it is news.
func (ls *lines) look(resource string) {
	if ls == nil {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var news []Record
	for _, of := range []inLineOf{{}, {shared: true}, {slots: true}} {
		of.Resource = resource
		news = append(news, ls.newsLocked(of)...)
	}
	slices.SortStableFunc(news, func(a, b Record) int { return cmp.Compare(a.Client, b.Client) })
	for _, r := range news {
		ls.history.Add(r)
	}
}

// newsLocked is what has changed in one of the lines.
func (ls *lines) newsLocked(of inLineOf) (news []Record) {
	places := map[string][]time.Time{}
	for _, n := range ls.nodes {
		n.sim.Line(of.name(), of.shared, func(id string, joined, alive time.Time) {
			if client, known := ls.clients[id]; known && !alive.IsZero() {
				places[client] = append(places[client], later(joined, alive))
			}
		})
	}
	for client, since := range places {
		if len(since) < ls.quorum {
			continue
		}
		slices.SortFunc(since, time.Time.Compare)
		stands, who := since[ls.quorum-1], of
		who.Client = client
		if last, told := ls.told[who]; !told || !last.Equal(stands) {
			ls.told[who] = stands
			news = append(news, Record{Kind: trace.Queued, Client: client, Resource: of.Resource, Shared: of.shared, Limit: of.limit(), Since: stands.Sub(ls.history.start)})
		}
	}
	for who := range ls.told {
		if client := who.Client; who.Resource == of.Resource && who.shared == of.shared && who.slots == of.slots && len(places[client]) < ls.quorum {
			delete(ls.told, who)
			news = append(news, Record{Kind: trace.Unqueued, Client: client, Resource: of.Resource, Shared: of.shared, Limit: of.limit()})
		}
	}
	return news
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// left is since when a process has an entry in one of the lines for a resource on some
// node, however it came to stay there; 0: on none.
func (ls *lines) left(process string, of inLineOf) time.Duration {
	if ls == nil {
		return 0
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	oldest := time.Duration(0)
	for _, n := range ls.nodes {
		if len(ls.clients) == 0 {
			break
		}
		n.sim.Line(of.name(), of.shared, func(id string, joined, _ time.Time) {
			if since := max(joined.Sub(ls.history.start), 1); ls.clients[id] == process && (oldest == 0 || since < oldest) {
				oldest = since
			}
		})
	}
	return oldest
}

// listen tells the lines the id of a client's Locker, once it subscribes.
func (ls *lines) listen(client string, nodes []redis.UniversalClient) {
	if ls != nil {
		record(nodes, recorder{sent: func(data []byte) { ls.heard(client, data) }})
	}
}

// calling is the channel that a process is called on, but for its id.
var calling = []byte("redlock:wake:")

// heard notes whose id it is that a client subscribes to.
func (ls *lines) heard(client string, sent []byte) {
	if !bytes.HasPrefix(sent, []byte("*2\r\n$9\r\nsubscribe\r\n")) {
		return
	}
	_, id, ok := bytes.Cut(sent, calling)
	if id, _, found := bytes.Cut(id, []byte("\r\n")); ok && found {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.clients[string(id)] = client
	}
}

// senders knows which client sent an owner value first: it listens to what clients send.
type senders struct {
	history *history

	mu    sync.Mutex // guards first
	first map[string]sender
}

// sender is the client that sent a value first, and when: the owner of an attempt.
type sender struct {
	client string
	at     time.Duration
}

func newSenders(h *history) *senders { return &senders{history: h, first: map[string]sender{}} }

// shortestOwner is the length from which on an argument may be an owner value:
// what is shorter would not be random enough.
const shortestOwner = 16

// listen makes the senders, if there are any, note the commands of a client's
// connections from now on.
func (s *senders) listen(client string, nodes []redis.UniversalClient) {
	if s != nil {
		record(nodes, recorder{sent: func(data []byte) { s.heard(client, data) }})
	}
}

// heard notes what a client sends: the words of a command stand on lines of
// their own.
func (s *senders) heard(client string, sent []byte) {
	now := s.history.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for word := range bytes.SplitSeq(sent, []byte("\r\n")) {
		if len(word) < shortestOwner {
			continue
		}
		if _, known := s.first[string(word)]; !known {
			s.first[string(word)] = sender{client, now}
		}
	}
}

// of is who sent an owner value first.
func (s *senders) of(owner string) (sender, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, known := s.first[owner]
	return first, known
}

// recorder are what is told of a client's connections: what they send, and what comes from
// the node of that index; nil: nothing.
type recorder struct {
	sent func(data []byte)
	came func(node int, data []byte)
}

// record tells of all that these clients' connections carry from now on.
// Not by a hook of go-redis: a client's WithTimeout leaves hooks behind, and redlock
// uses that.
func record(nodes []redis.UniversalClient, to recorder) {
	for i, node := range nodes {
		c, ok := node.(*redis.Client)
		if !ok || c.Options().Dialer == nil {
			continue
		}
		opts := c.Options()
		dial := opts.Dialer
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			wrapped := &recordedConn{conn, i, to}
			if raw, ok := conn.(syscall.Conn); ok {
				return &recordedSocket{wrapped, raw}, nil
			}
			return wrapped, nil
		}
	}
}

// recordedConn is a connection that somebody listens to.
type recordedConn struct {
	net.Conn

	node int
	to   recorder
}

// Write is [net.Conn]'s.
func (c *recordedConn) Write(b []byte) (int, error) {
	if c.to.sent != nil {
		c.to.sent(b)
	}
	return c.Conn.Write(b)
}

// Read is [net.Conn]'s.
func (c *recordedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.to.came != nil {
		c.to.came(c.node, b[:n])
	}
	return n, err
}

// recordedSocket is one over a socket: go-redis looks there whether it still lives.
type recordedSocket struct {
	*recordedConn

	raw syscall.Conn
}

// SyscallConn is [syscall.Conn]'s.
func (s *recordedSocket) SyscallConn() (syscall.RawConn, error) { return s.raw.SyscallConn() }
