package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lab/simnet"
	"github.com/quorumkit/redlock/internal/lab/simnode"
)

// Stage is a set of nodes, and of links between clients and nodes, that can be
// broken: the same faults on every backend. Its methods may be called from
// several goroutines at once.
type Stage interface {
	// Names are the nodes' names, in order.
	Names() []string
	// Connect returns clients of the nodes, in order, over links of their own that
	// faults know by the client's name. They are closed with the stage. A name may
	// be used once.
	Connect(client string) ([]redis.UniversalClient, error)
	// Break begins a fault at once: its At and For are not looked at. It fails with
	// errors.ErrUnsupported if this backend does not know the fault, and where the fault names
	// a node, a client or a moment that there is not.
	Break(f Fault) error
	// Mend ends it.
	Mend(f Fault) error
	// Rest blocks while the client is paused at that moment, or suspended.
	Rest(client string, at Moment)
	// Close ends the stage: nodes, links and clients. A bubble of one's own goes on for two
	// seconds of its time then, as go-redis's dials to a node that is down do.
	Close() error
}

// machinery is what virtual and real stages share: nodes, the links that lead to them, and
// what befalls both.
type machinery[N stageNode, L stageLink] struct {
	rests
	walls wallClocks

	nodes []N

	mu       sync.Mutex     // guards the rest
	links    map[string][]L // by client
	standing linkFaults     // of all clients: a link that is added later has them, too
	clients  []*redis.Client
	closed   bool
}

// stageNode is a node that can be broken.
type stageNode interface {
	observable

	String() string // its name
	// change begins a fault of the node, or mends it.
	change(f Fault, broken bool) error
}

// stageLink is the way of one client to one node.
type stageLink interface {
	// change begins a fault of the link, or mends it; others stand.
	change(f Fault, broken bool) error
	Close()
}

// Names is [Stage.Names].
func (m *machinery[N, L]) Names() []string {
	names := make([]string, len(m.nodes))
	for i, n := range m.nodes {
		names[i] = n.String()
	}
	return names
}

func (m *machinery[N, L]) observables() []observable {
	nodes := make([]observable, len(m.nodes))
	for i, n := range m.nodes {
		nodes[i] = n
	}
	return nodes
}

// dispatch begins a fault, or mends it. onNodes does so on nodes.
func (m *machinery[N, L]) dispatch(f Fault, broken bool, onNodes func(nodes ...int) error) error {
	switch {
	case f.Unknown(len(m.nodes)):
		return noSuch(f)
	case f.Kind.OfClient():
		return m.changeClient(f, broken)
	case f.Kind.OfLink():
		return m.changeLinks(f, broken)
	case f.Node != Everything:
		return onNodes(f.Node)
	}
	all := make([]int, len(m.nodes))
	for i := range all {
		all[i] = i
	}
	return onNodes(all...)
}

// changeClient stops a client's code or lets it go on, and its links where the
// fault is more than that.
func (m *machinery[N, L]) changeClient(f Fault, broken bool) error {
	switch {
	case f.Kind == WallClock:
		return m.walls.set(f, broken)
	case broken:
		m.pause(stopsAt(f))
	default:
		defer m.resume(stopsAt(f)) // its messages are there when it wakes
	}
	if f.Kind != Suspend && f.Where != AtReplies {
		return nil
	}
	f.Node = Everything
	return m.changeLinks(f, broken)
}

// changeLinks breaks or mends the links that the fault names.
func (m *machinery[N, L]) changeLinks(f Fault, broken bool) error {
	m.mu.Lock()
	if f.Client == "" && f.Kind.Lasts() {
		m.standing.change(f, broken)
	}
	links := m.linksLocked(f.Client, f.Node)
	m.mu.Unlock()
	if len(links) == 0 && f.Client != "" {
		return noSuch(f)
	}
	var errs []error
	for _, l := range links {
		errs = append(errs, l.change(f, broken))
	}
	return errors.Join(errs...)
}

// addLocked adds the link of a client to its next node.
func (m *machinery[N, L]) addLocked(client string, l L) error {
	node := len(m.links[client])
	m.links[client] = append(m.links[client], l)
	var errs []error
	for _, f := range m.standing {
		if f.Node == Everything || f.Node == node {
			errs = append(errs, l.change(f, true))
		}
	}
	return errors.Join(errs...)
}

// linksOf are the links between a client, or all, and a node, or all.
func (m *machinery[N, L]) linksOf(client string, node int) []L {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.linksLocked(client, node)
}

func (m *machinery[N, L]) linksLocked(client string, node int) []L {
	var links []L
	for _, name := range slices.Sorted(maps.Keys(m.links)) {
		for i, l := range m.links[name] {
			if (client == "" || client == name) && (node == Everything || node == i) {
				links = append(links, l)
			}
		}
	}
	return links
}

// closeLinks closes the clients, each after done was called with it, and the links; false if
// that was done before.
func (m *machinery[N, L]) closeLinks(done func(*redis.Client)) (first bool, err error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return false, nil
	}
	m.closed = true
	m.walls.drop()
	links, clients := m.links, m.clients
	m.links, m.clients = map[string][]L{}, nil
	m.mu.Unlock()
	var errs []error
	for _, c := range clients {
		done(c)
		if err := c.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, ofClient := range links {
		for _, l := range ofClient {
			l.Close()
		}
	}
	return true, errors.Join(errs...)
}

// errUnknownTarget means that a fault names a node, a client or a moment that
// there is not.
var errUnknownTarget = errors.New("chaos: the stage has no such node, client or moment")

// noSuch is the error of a fault whose target is missing.
func noSuch(f Fault) error { return fmt.Errorf("%w: %v", errUnknownTarget, f) }

// cantBreak is the error of a fault that a backend does not know.
func cantBreak(f Fault) error {
	return fmt.Errorf("chaos: %v: %w on this backend", f, errors.ErrUnsupported)
}

// Backend is a kind of stage.
type Backend string

// The backends.
const (
	// Virtual is in memory, by the time of a testing/synctest bubble: hours in a
	// second, and what happens follows from a seed. See [NewVirtual].
	Virtual Backend = "virtual"
	// Embedded is the same in real time, for a program. Nothing follows from the seed but latencies.
	Embedded Backend = "embedded"
	// Real is server processes behind proxies. See [NewReal].
	Real Backend = "real"
)

// backends are all of them, the quickest first.
func backends() []Backend { return []Backend{Virtual, Embedded, Real} }

// OpenStage returns a stage of n nodes on a backend. The virtual one needs a
// caller in a bubble; seed is nothing to the real one. It fails if the backend
// is none of the three, if Real has nothing to start, and with ctx's error if ctx is done
// already.
//
//nolint:contextcheck // a stage outlives the call that opens it
func OpenStage(ctx context.Context, backend Backend, seed uint64, n int) (Stage, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("chaos: %s stage: %w", backend, err)
	}
	switch backend {
	case Virtual:
		return NewVirtual(seed, n)
	case Embedded:
		return NewVirtual(seed, n)
	case Real:
		return NewReal("", n)
	}
	return nil, fmt.Errorf("chaos: no backend %q: there are %q", backend, backends())
}

// rests are the clients that are paused.
type rests struct {
	mu     sync.Mutex // guards paused
	paused map[resting]*rest
}

// resting is where a client stops; no client: all of them, no moment: all of them.
type resting struct {
	client string
	at     Moment
}

// rest is what stops clients there.
type rest struct {
	pauses int // that are not mended
	over   chan struct{}
}

// stopsAt is what a fault of a client stops.
func stopsAt(f Fault) resting {
	if f.Kind == Suspend {
		return resting{client: f.Client}
	}
	return resting{f.Client, cmp.Or(f.Where, AtWrite)}
}

func (r *rests) pause(where resting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused == nil {
		r.paused = map[resting]*rest{}
	}
	if r.paused[where] == nil {
		r.paused[where] = &rest{over: make(chan struct{})}
	}
	r.paused[where].pauses++
}

func (r *rests) resume(where resting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.paused[where]
	if of == nil {
		return
	}
	if of.pauses--; of.pauses == 0 {
		close(of.over)
		delete(r.paused, where)
	}
}

// Rest blocks while client is paused at that moment or suspended, by its own name
// or with all others.
func (r *rests) Rest(client string, at Moment) {
	for _, where := range restsAt(client, at) {
		r.mu.Lock()
		of := r.paused[where]
		r.mu.Unlock()
		if of != nil {
			<-of.over
		}
	}
}

// stops tells whether Rest would block.
func (r *rests) stops(client string, at Moment) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(restsAt(client, at), func(where resting) bool { return r.paused[where] != nil })
}

// restsAt is all that stops a client at that moment.
func restsAt(client string, at Moment) []resting {
	return []resting{{client, at}, {"", at}, {client: client}, {}}
}

// apply adds the fault to the state of a link. What loses is stronger than what
// holds back, and delays add up.
func apply(f Fault, requests, replies *simnet.State) {
	switch f.Kind {
	case Cut, Suspend:
		requests.Mode, replies.Mode = max(requests.Mode, simnet.Hold), max(replies.Mode, simnet.Hold)
	case CutRequests:
		requests.Mode = max(requests.Mode, simnet.Hold)
	case CutReplies, Pause: // at the replies: other pauses are not a link's
		replies.Mode = max(replies.Mode, simnet.Hold)
	case LoseRequests:
		requests.Mode = simnet.Drop
	case LoseReplies:
		replies.Mode = simnet.Drop
	case Slow:
		requests.Delay += f.Delay
		replies.Delay += f.Delay
	case Jitter:
		requests.Jitter += f.Delay
		replies.Jitter += f.Delay
	case Reorder:
		requests.Uneven += f.Delay
	case LoseCalls:
		replies.Mute = true
	case Twice:
		requests.Twice, requests.Later = true, max(requests.Later, f.Delay)
	case Stall, Reset, HalfOpen, Refuse, OtherList, Crash, Forget, Old, Failover, Flush, Delete, Evict, Step, Drift, WallClock, ListChange:
	}
}

// linkFaults are those of one link that are not mended, in the order in which they
// began.
type linkFaults []Fault

// change adds a fault, or takes it away.
func (l *linkFaults) change(f Fault, broken bool) {
	if broken {
		*l = append(*l, f)
	} else if i := slices.Index(*l, f); i >= 0 {
		*l = slices.Delete(*l, i, i+1)
	}
}

// condition is what they make of a link whose client's list has the node home in its
// place.
func (l linkFaults) condition(home int) simnet.Condition {
	is := simnet.Condition{Leads: home}
	for _, f := range l {
		apply(f, &is.Requests, &is.Replies)
		is.Refuses = is.Refuses || f.Kind == Refuse
		if f.Kind == OtherList {
			is.Leads = f.To
		}
	}
	return is
}

// wallClocks are the clients' wall clocks: what a client's library takes for that, if it is
// redlock. Another one has the machine's.
type wallClocks struct {
	mu    sync.Mutex // guards what follows
	first map[string]*redis.Client
	steps []wallStep // that are not mended
}

// wallStep is a fault that began, and whose clocks it set.
type wallStep struct {
	fault  Fault
	firsts []*redis.Client
}

// has notes the first of a client's nodes, by which its library is known, and sets its clock
// by the steps of all clients that are not mended.
func (w *wallClocks) has(client string, first *redis.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		w.first = map[string]*redis.Client{}
	}
	w.first[client] = first
	clock.KeepWall(first)
	for i := range w.steps {
		if s := &w.steps[i]; s.fault.Client == "" {
			s.firsts = append(s.firsts, first)
			clock.StepWall(first, s.fault.Delay)
		}
	}
}

// set begins a fault of a wall clock, or mends it: of those clients that it befell.
func (w *wallClocks) set(f Fault, broken bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var firsts []*redis.Client
	for client, first := range w.first {
		if f.Client == "" || f.Client == client {
			firsts = append(firsts, first)
		}
	}
	if len(firsts) == 0 && f.Client != "" {
		return noSuch(f)
	}
	by := f.Delay
	f.At, f.For = 0, 0 // a fault is the same one, no matter when
	if broken {
		w.steps = append(w.steps, wallStep{f, firsts})
	} else {
		i := slices.IndexFunc(w.steps, func(s wallStep) bool { return s.fault == f })
		if i < 0 {
			return nil // it did not begin
		}
		by, firsts = -by, w.steps[i].firsts
		w.steps = slices.Delete(w.steps, i, i+1)
	}
	for _, first := range firsts {
		clock.StepWall(first, by)
	}
	return nil
}

// drop ends it all.
func (w *wallClocks) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, first := range w.first {
		clock.DropWall(first)
	}
	w.first, w.steps = nil, nil
}

var quiet sync.Once

// muteDialErrors stops go-redis from writing to stderr that it could not dial: faults see to
// that thousands of times in a run. It happens with the first stage
// of the process and replaces the logger of then, which can't be asked for; a logger that
// is set later stays.
func muteDialErrors() {
	quiet.Do(func() { redis.SetLogger(logging.NewBlacklistLogger([]string{"failed to dial"})) })
}

// whole is the stage of which clients may know a part.
func whole(stage Stage) Stage {
	for {
		p, ok := stage.(part)
		if !ok {
			return stage
		}
		stage = p.Stage
	}
}

// part is a stage of which clients know some nodes only; nil: all.
type part struct {
	Stage

	nodes []int
}

func (p part) Names() []string {
	names := p.Stage.Names()
	if p.nodes == nil {
		return names
	}
	return pick(names, p.nodes)
}

func (p part) Connect(client string) ([]redis.UniversalClient, error) {
	clients, err := p.Stage.Connect(client)
	if err != nil {
		return nil, err
	}
	return known(p, clients), nil
}

// known are those of the clients of all nodes whose nodes the stage's clients know.
func known(stage Stage, clients []redis.UniversalClient) []redis.UniversalClient {
	if p, ok := stage.(part); ok && p.nodes != nil {
		return pick(clients, p.nodes)
	}
	return clients
}

func pick[T any](all []T, which []int) []T {
	picked := make([]T, len(which))
	for i, n := range which {
		picked[i] = all[n]
	}
	return picked
}

// inspectable is a stage whose nodes can be looked into.
type inspectable interface{ observables() []observable }

// observable is a node that can be looked into.
type observable interface {
	// answers calls f with every command that the node answers without an error, one at a
	// time, from now on; nil ends it. f must not keep args.
	answers(f func(args [][]byte))
	// stores is what the node stores, and how often its data were replaced so far; ok
	// is false where it can't be told.
	stores() (keys []simnode.Key, memory int, ok bool)
}
