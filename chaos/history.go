package chaos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/lua"
)

// history records what happens, on one time base. It is safe for concurrent
// use. In a testing/synctest bubble its time is the bubble's.
type history struct {
	start   time.Time
	witness *witness // if any; set before the first actor is made
	lines   *lines   // the same
	senders *senders // the same

	mu      sync.Mutex // guards the rest, and keeps the records in the order of time
	records []Record
	holds   int64
	sets    int64
}

// newHistory returns an empty history whose time begins now.
func newHistory() *history { return &history{start: time.Now()} }

// Now returns the time since the history began.
func (h *history) Now() time.Duration { return time.Since(h.start) }

// Add records r as of now, and returns that time; r's own At is ignored.
func (h *history) Add(r Record) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.At = h.Now()
	h.records = append(h.records, r)
	return r.At
}

// addAll records several things that happen at one time.
func (h *history) addAll(records []Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Now()
	for _, r := range records {
		r.At = now
		h.records = append(h.records, r)
	}
}

// ask records an attempt at all that is wanted, and returns the number of the set, if it
// is one, and those of the attempts.
func (h *history) ask(client string, w request) (set int64, holds []int64) {
	since := make([]time.Duration, len(w.Resources))
	for i, resource := range w.Resources {
		since[i] = h.lines.left(trace.ProcessOf(client), inLineOf{shared: w.Shared, slots: w.Limit > 0, Waiting: trace.Waiting{Resource: resource}})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(w.Resources) > 1 {
		h.sets++
		set = h.sets
	}
	now := h.Now()
	for i, resource := range w.Resources {
		h.holds++
		holds = append(holds, h.holds)
		h.records = append(h.records, Record{
			At: now, Kind: trace.Asked, Client: client, Resource: resource, Hold: h.holds, Since: since[i], Shared: w.Shared, Set: set, Limit: w.Limit, Value: w.Value, Barging: w.Barging,
		})
	}
	return set, holds
}

// Records returns what was recorded so far, in the order of time.
func (h *history) Records() []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Record(nil), h.records...)
}

const (
	// A witness looks at each node so often: short beside a lease, long beside a
	// command. The odd part keeps virtual runs free of ties.
	witnessEvery = 20*time.Millisecond + 13*time.Nanosecond
	// realEvery is as often where a look costs a processor what a command costs:
	// they would be most of a scenario's load.
	realEvery = 5 * witnessEvery
	// witnessTimeout is how long a node may take before it counts as silent.
	witnessTimeout = 100 * time.Millisecond
	// sameExpiry is how far two looks at one expiry may differ: a key's rest comes
	// in milliseconds, and takes a moment to arrive.
	sameExpiry = 30 * time.Millisecond
	// witnessName is the client's name that its links have.
	witnessName = "witness"
)

// witness looks at the nodes of any stage while something is played, as a client
// that only reads, and records what they store and how they are. Whose a key is
// it knows from what their connections carry: who sent an owner value first.
type witness struct {
	history *history
	names   []string
	every   time.Duration

	senders *senders // the history's, if it has them
	listens bool     // they are its own
}

// startWitness lets a witness follow the history until the function that it returns is
// called. Actors that are made in between tell it what they send. connect is the stage's,
// or another way in.
func startWitness(stage Stage, history *history, connect func(client string) ([]redis.UniversalClient, error)) (func(), error) {
	clients, err := connect(witnessName)
	if err != nil {
		return nil, err
	}
	w := &witness{history: history, names: stage.Names(), every: witnessEvery, senders: history.senders}
	if _, processes := stage.(*realStage); processes {
		w.every = realEvery
	}
	if w.senders == nil {
		w.senders, w.listens = newSenders(history), true
	}
	history.witness = w
	ctx, cancel := context.WithCancel(context.Background())
	var looks sync.WaitGroup
	for i, node := range clients {
		looks.Go(func() { w.follow(ctx, i, node) })
	}
	return func() {
		cancel()
		looks.Wait()
	}, nil
}

// listen makes the witness, if there is one, note the commands of a client's
// connections from now on, and the grants that releases bring it.
func (w *witness) listen(client string, nodes []redis.UniversalClient, names []string) {
	if w == nil {
		return
	}
	record(nodes, recorder{came: func(node int, data []byte) { w.told(client, names[node], data) }})
	if w.listens {
		w.senders.listen(client, nodes)
	}
}

// grantMark begins the message of a grant, and grantParts is how many lines it has: the
// token is the second behind the mark, and the last is the name. A mark that is cut in
// two by a read is missed.
var grantMark = []byte("redlock:push\n")

const grantParts = 5

// told records what a node says to a client of what releases granted it.
func (w *witness) told(client, node string, data []byte) {
	for {
		_, rest, found := bytes.Cut(data, grantMark)
		message, rest, whole := bytes.Cut(rest, []byte("\r\n"))
		if !found || !whole {
			return
		}
		data = rest
		parts := bytes.SplitN(message, []byte("\n"), grantParts)
		if len(parts) < grantParts {
			continue
		}
		token, err := strconv.ParseUint(string(parts[1]), 10, 64)
		if err == nil {
			w.history.Add(Record{Kind: trace.Granted, Client: client, Resource: string(parts[grantParts-1]), Node: node, Token: redlock.Token(token)})
		}
	}
}

// seen is what the witness last recorded of one node.
type seen struct {
	state string
	owner map[string]string // by resource
	until map[string]time.Duration
	share map[shareOf]time.Duration // until when
}

// shareOf is one of those who share a resource.
type shareOf struct{ resource, owner string }

// follow looks at one node again and again.
func (w *witness) follow(ctx context.Context, i int, node redis.UniversalClient) {
	last := seen{owner: map[string]string{}, until: map[string]time.Duration{}, share: map[shareOf]time.Duration{}}
	w.look(ctx, i, node, &last)
	every := time.NewTicker(w.every + time.Duration(i)*time.Nanosecond)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			w.look(ctx, i, node, &last)
		case <-ctx.Done():
			return
		}
	}
}

// look asks one node once and records what has changed.
func (w *witness) look(ctx context.Context, i int, node redis.UniversalClient, last *seen) {
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	resources := w.history.keys()
	pipe := node.Pipeline()
	run, info := pipe.HGet(ctx, "redlock:node", "run"), pipe.Info(ctx, "server", "replication")
	owners, rests := make([]*redis.StringCmd, len(resources)), make([]*redis.DurationCmd, len(resources))
	for j, r := range resources {
		owners[j], rests[j] = pipe.Get(ctx, r.key), pipe.PTTL(ctx, r.key)
	}
	_, err := pipe.Exec(ctx)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return
	case silent(err):
		w.turned(i, last, trace.Silent)
		return
	case isOf(run.Val(), info.Val()):
		w.turned(i, last, trace.Member)
	default:
		w.turned(i, last, trace.Blank)
	}
	for j, r := range resources {
		w.stored(i, last, r, owners[j].Val(), rests[j].Val())
		if _, err := owners[j].Result(); redis.HasErrorPrefix(err, "WRONGTYPE") {
			w.shares(ctx, i, node, last, r.resource)
		} else {
			w.shared(i, last, r.key, nil)
		}
	}
}

// shares asks who shares a resource, and records what has changed.
func (w *witness) shares(ctx context.Context, i int, node redis.UniversalClient, last *seen, resource string) {
	pipe := node.Pipeline()
	now, members := pipe.Time(ctx), pipe.ZRangeWithScores(ctx, resource, 0, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return
	}
	ends := map[string]time.Duration{}
	for _, m := range members.Val() {
		owner, _ := m.Member.(string)
		if left := time.UnixMilli(int64(m.Score)).Sub(now.Val()); owner != lua.SharedMark && left > 0 {
			ends[owner] = w.history.Now() + left
		}
	}
	w.shared(i, last, resource, ends)
}

// shared records who shares a resource, if that or an end is news.
func (w *witness) shared(i int, last *seen, resource string, ends map[string]time.Duration) {
	var news []Record
	tell := func(owner string, until time.Duration) {
		r := Record{Kind: trace.Stored, Node: w.names[i], Resource: resource, Shared: true, Until: until}
		r.Client, r.Hold = w.whose(resource, owner)
		news = append(news, r)
	}
	for of := range last.share {
		if _, there := ends[of.owner]; !there && of.resource == resource {
			delete(last.share, of)
			tell(of.owner, 0)
		}
	}
	for owner, until := range ends {
		of := shareOf{resource, owner}
		if was, known := last.share[of]; !known || (until-was).Abs() >= sameExpiry {
			last.share[of] = until
			tell(owner, until)
		}
	}
	slices.SortFunc(news, func(a, b Record) int { return cmp.Compare(a.Hold, b.Hold) })
	w.history.addAll(news)
}

// isOf tells whether a record's identity is that of the server whose INFO it is.
func isOf(identity, info string) bool {
	run, history, ok := strings.Cut(identity, ".")
	return ok && strings.Contains(info, "run_id:"+run) && strings.Contains(info, "master_replid:"+history)
}

// silent tells whether the error means that the node did not answer.
func silent(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) || errors.Is(err, net.ErrClosed) ||
		err != nil && strings.Contains(err.Error(), "EOF")
}

func (w *witness) turned(i int, last *seen, state string) {
	if last.state != state {
		last.state = state
		w.history.Add(Record{Kind: trace.Turned, Node: w.names[i], Text: state})
	}
}

// stored records whose the resource's key is, if that or its expiry is news, and nobody
// else records it.
func (w *witness) stored(i int, last *seen, of lookedAt, owner string, rest time.Duration) {
	if w.history.senders != nil {
		return
	}
	until := time.Duration(0)
	if owner != "" && rest > 0 {
		until = w.history.Now() + rest
	}
	if last.owner[of.key] == owner && (until-last.until[of.key]).Abs() < sameExpiry {
		return
	}
	last.owner[of.key], last.until[of.key] = owner, until
	r := Record{Kind: trace.Stored, Node: w.names[i], Resource: of.resource, Limit: of.limit, Slot: of.slot, Until: until}
	if owner != "" {
		r.Client, r.Hold = w.whose(of.resource, owner)
	}
	w.history.Add(r)
}

// whose returns the client and the attempt that an owner value was made for.
func (w *witness) whose(resource, owner string) (string, int64) {
	s, known := w.senders.of(owner)
	if !known {
		return "another", 0
	}
	return s.client, w.history.attemptAt(s.client, resource, s.at)
}

// lookedAt is a key that somebody has asked for: a resource's, or that of a slot of it.
type lookedAt struct {
	resource    string
	limit, slot int
	key         string
}

// keys are those that somebody has asked for, sorted.
func (h *history) keys() []lookedAt {
	h.mu.Lock()
	defer h.mu.Unlock()
	limits := map[string]int{} // by resource; 0: it was asked for as a whole
	var keys []lookedAt
	for _, r := range h.records {
		if r.Kind != trace.Asked {
			continue
		}
		if r.Limit == 0 {
			keys = append(keys, lookedAt{resource: r.Resource, key: r.Resource})
			continue
		}
		for slot := limits[r.Resource]; slot < r.Limit; slot++ {
			keys = append(keys, lookedAt{r.Resource, r.Limit, slot, lua.SlotKey(r.Resource, slot)})
		}
		limits[r.Resource] = max(limits[r.Resource], r.Limit)
	}
	slices.SortFunc(keys, func(a, b lookedAt) int { return cmp.Compare(a.key, b.key) })
	return slices.CompactFunc(keys, func(a, b lookedAt) bool { return a.key == b.key })
}

// attemptAt is the attempt at a resource that a client's process was at then. Its goroutines
// have it one after the other, in the order in which they asked: of several attempts that
// had not ended it is the first, and of none the last that was made.
func (h *history) attemptAt(client, resource string, at time.Duration) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, open := int64(0), []int64(nil)
	for _, r := range h.records {
		if r.At > at {
			break
		}
		switch {
		case r.Kind == trace.Asked && trace.ProcessOf(r.Client) == trace.ProcessOf(client) && r.Resource == resource:
			last, open = r.Hold, append(open, r.Hold)
		case r.Kind == trace.Held || r.Kind == trace.Failed:
			open = slices.DeleteFunc(open, func(id int64) bool { return id == r.Hold })
		}
	}
	if len(open) > 0 {
		return open[0]
	}
	return last
}
