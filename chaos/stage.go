package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// Close ends the stage: nodes, links and clients.
	Close() error
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
	case Stall, Reset, HalfOpen, Refuse, OtherList, Crash, Forget, Old, Failover, Flush, Delete, Evict, Step, Drift, WallClock:
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

// virtualLink is the way of one client to one node of a virtual stage.
type virtualLink struct {
	*simnet.Link

	nodes []*virtualNode // of the stage
	home  int            // the node that the client's list has in this place

	mu     sync.Mutex // guards the rest
	faults linkFaults
}

// newVirtualLink returns the nth link of a stage.
func newVirtualLink(nth int, seed uint64, nodes []*virtualNode, home int) *virtualLink {
	sims := make([]*simnode.Node, len(nodes))
	for i, n := range nodes {
		sims[i] = n.sim
	}
	l := &virtualLink{nodes: nodes, home: home}
	l.Link = simnet.New(nth, seed, sims, l.condition())
	return l
}

// condition is that of the link's faults, and of the node that it leads to.
func (l *virtualLink) condition() simnet.Condition {
	is := l.faults.condition(l.home)
	if l.nodes[is.Leads].stalls.Load() > 0 {
		// A stalled node is one whose links are all held: commands that came
		// meanwhile then run in an order that follows from the seed.
		is.Requests.Mode, is.Replies.Mode = max(is.Requests.Mode, simnet.Hold), max(is.Replies.Mode, simnet.Hold)
	}
	return is
}

// change begins a fault, or mends it; others stand.
func (l *virtualLink) change(f Fault, broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults.change(f, broken)
	l.Set(l.condition())
}

// stalled is told that a node was stalled, or goes on.
func (l *virtualLink) stalled(node int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults.condition(l.home).Leads == node {
		l.Set(l.condition())
	}
}

// walls are the clients' wall clocks: what a client's library takes for that, if it is
// redlock. Another one has the machine's.
type walls struct {
	mu    sync.Mutex // guards what follows
	first map[string]*redis.Client
	steps []wallStep // that are not mended
}

// wallStep is a fault that began, and whose clocks it set.
type wallStep struct {
	fault  Fault
	firsts []*redis.Client
}

// has notes the first of a client's nodes, by which its library is known.
func (w *walls) has(client string, first *redis.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		w.first = map[string]*redis.Client{}
	}
	w.first[client] = first
	clock.KeepWall(first)
}

// set begins a fault of a wall clock, or mends it: of those clients that it befell, and not
// of one that has come since.
func (w *walls) set(f Fault, broken bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var firsts []*redis.Client
	for client, first := range w.first {
		if f.Client == "" || f.Client == client {
			firsts = append(firsts, first)
		}
	}
	if len(firsts) == 0 {
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
func (w *walls) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, first := range w.first {
		clock.DropWall(first)
	}
	w.first, w.steps = nil, nil
}

var quiet sync.Once

// quieten has go-redis keep to itself that it could not dial, which faults see to
// thousands of times in a run: it would say so on stderr. It happens with the first stage
// of the process and replaces the logger of then, which can't be asked for; a logger that
// is set later stays.
func quieten() {
	quiet.Do(func() { redis.SetLogger(logging.NewBlacklistLogger([]string{"failed to dial"})) })
}
