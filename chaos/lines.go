package chaos

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/lua"
)

// lines knows who stands in line for what on the nodes of a virtual stage, and
// records it: always when somebody is served, so that a judge knows it of that
// moment, and only what has changed. Who a Locker's id belongs to it knows from
// the channel that the nodes are to call it on.
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

	shared bool // the line of those who wait to share it
	slots  bool // of those who wait for a slot of it
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
		news = append(news, ls.news(of)...)
	}
	slices.SortStableFunc(news, func(a, b Record) int { return cmp.Compare(a.Client, b.Client) })
	for _, r := range news {
		ls.history.Add(r)
	}
}

// news is what has changed in one of the lines; mu is held.
func (ls *lines) news(of inLineOf) (news []Record) {
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

// overhear has the lines know the id of a client's Locker, once it subscribes.
func (ls *lines) overhear(client string, nodes []redis.UniversalClient) {
	if ls != nil {
		overhear(nodes, ears{sent: func(data []byte) { ls.heard(client, data) }})
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
