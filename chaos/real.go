package chaos

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
)

// realStage is a stage of server processes, with a proxy between each client and each
// node.
type realStage struct {
	machinery[*realNode, *realLink]
}

// NewReal returns a stage of n processes of a server program, in real time, where
// every fault is what it is called: a process that is killed, stopped, started
// with other data or with another clock, a replica that takes over an address, a
// proxy that holds back or loses. Two things are not: [Evict] removes the key by
// a command, since a server that is short of memory does not let one choose; and
// of a client, whose library is in the caller's process, [Pause] stops the code
// only, [Suspend] the code and the links.
//
// Clocks step and drift where there is a C compiler; elsewhere these faults
// are errors.ErrUnsupported. It fails where there is no such program; an empty one is the
// redis-server or valkey-server that is found in PATH.
func NewReal(program string, n int) (Stage, error) {
	quieten()
	r := &realStage{}
	r.links, r.nodes = map[string][]*realLink{}, make([]*realNode, n)
	var starts errgroup.Group
	for i := range r.nodes {
		starts.Go(func() (err error) {
			r.nodes[i], err = startNode(fmt.Sprintf("node-%d", i), program)
			return err
		})
	}
	if err := starts.Wait(); err != nil {
		return nil, errors.Join(fmt.Errorf("chaos: real stage: %w", err), r.Close())
	}
	return r, nil
}

// Connect is [Stage.Connect].
func (r *realStage) Connect(client string) ([]redis.UniversalClient, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.links[client] != nil || client == "" || r.closed {
		return nil, fmt.Errorf("chaos: connect %q: the name is empty, or taken, or the stage is closed", client)
	}
	var clients []redis.UniversalClient
	for i, n := range r.nodes {
		l, opts, err := n.link(r.nodes)
		if err != nil {
			return nil, fmt.Errorf("chaos: connect %q: %w", client, err)
		}
		r.links[client] = append(r.links[client], l)
		c := redis.NewClient(opts)
		clients, r.clients = append(clients, c), append(r.clients, c)
		if i == 0 {
			r.walls.has(client, c)
		}
	}
	return clients, nil
}

// Break is [Stage.Break].
func (r *realStage) Break(f Fault) error { return r.change(f, true) }

// Mend is [Stage.Mend].
func (r *realStage) Mend(f Fault) error { return r.change(f, false) }

func (r *realStage) change(f Fault, broken bool) error {
	return r.dispatch(f, broken, func(nodes ...int) error {
		var all errgroup.Group
		for _, i := range nodes {
			all.Go(func() error { return r.nodes[i].change(f, broken) })
		}
		return all.Wait()
	})
}

// Close is [Stage.Close].
func (r *realStage) Close() error {
	first, err := r.closeLinks(func(*redis.Client) {})
	if !first {
		return err
	}
	for _, n := range r.nodes {
		if n != nil { // it may not have started
			err = errors.Join(err, n.close())
		}
	}
	return err
}

// realLink is the way of one client to one node: a proxy.
type realLink struct {
	proxy *tcpproxy.Proxy
	home  *realNode // that the client's list has in this place

	nodes []*realNode // the stage's

	mu     sync.Mutex // guards faults and leads; taken before a node's
	faults linkFaults
	leads  *realNode // to which node: home, unless the list is another one

	refuses bool // new connections, by a fault; guarded by the mutex of the node that it leads to
}

// Close is stageLink.Close.
func (l *realLink) Close() { l.proxy.Close() }

// change is stageLink.change.
func (l *realLink) change(f Fault, broken bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !f.Kind.Lasts() && !broken:
		return nil
	case f.Kind == Reset:
		l.proxy.Reset()
		return nil
	case f.Kind == HalfOpen:
		l.proxy.HalfOpen()
		return nil
	}
	l.faults.change(f, broken)
	is := l.faults.condition(slices.Index(l.nodes, l.home))
	refuses, leads := is.Refuses, l.nodes[is.Leads]
	l.proxy.Set(is.Requests, is.Replies)
	if leads == l.leads {
		return l.leads.lets(l, !refuses)
	}
	l.leads.dismiss(l)
	l.leads = leads
	err := l.leads.lets(l, !refuses)
	l.proxy.Reset()
	return err
}

// lets lets new connections of a link in, which is the node's from here on if it
// was not, or does not. While the process is down nobody is let in.
func (n *realNode) lets(l *realLink, in bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.refuses = !in
	if !slices.Contains(n.links, l) {
		n.links = append(n.links, l)
	}
	return n.open(l)
}

// dismiss ends that a link leads to the node.
func (n *realNode) dismiss(l *realLink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = slices.DeleteFunc(n.links, func(other *realLink) bool { return other == l })
}

// open makes a link take new connections, or refuse them, as its state says; n.mu is held.
func (n *realNode) open(l *realLink) error {
	l.proxy.Tap(n.answered)
	if n.downs > 0 || l.refuses {
		l.proxy.Aim(n.server.Addr())
		l.proxy.Refuse()
		return nil
	}
	return l.proxy.Admit(n.server.Addr())
}

// skew is how far a server's clock is off: by offset when the process began, and
// by gain more for every second since.
type skew struct {
	offset time.Duration
	gain   float64
	since  time.Time
}

// at is the skew at a time.
func (s skew) at(now time.Time) time.Duration {
	return s.offset + time.Duration(s.gain*float64(now.Sub(s.since)))
}

// from is the skew of a process that begins now and whose clock goes on as it
// was.
func (s skew) from(now time.Time) skew { return skew{s.at(now), s.gain, now} }

// by is the skew after the clock was moved, and its rate changed: fakeclock.c
// counts the rate from the beginning of the process, so that the offset has to
// take back what the new rate would have gained until now.
func (s skew) by(step time.Duration, gain float64, now time.Time) skew {
	after := skew{gain: s.gain + gain, since: s.since}
	after.offset = s.at(now) + step - after.at(now)
	return after
}

// String is the skew in fakeclock.c's words.
func (s skew) String() string {
	return fmt.Sprintf("%+.6f x%.9f", s.offset.Seconds(), 1+s.gain)
}

// skews steps the node's clock or changes its rate; mended, it is right again, as
// far as this fault goes.
func (n *realNode) skews(f Fault, broken bool) error {
	if !n.server.Config.FakeClock {
		return fmt.Errorf("%w: %w", cantBreak(f), redisserver.ErrNoFakeClock)
	}
	if f.Kind == Step {
		step := f.Delay
		if !broken {
			step = -step
		}
		n.clock = n.clock.by(step, 0, time.Now())
		return n.setClock()
	}
	gain, now := f.Delay.Seconds(), time.Now()
	begun, drifts := n.drifts[f]
	switch {
	case broken && n.clock.gain+gain <= -1:
		return fmt.Errorf("chaos: %v: a clock that stands still, or goes back: %w", f, errors.ErrUnsupported)
	case broken:
		n.drifts[f] = now
		n.clock = n.clock.by(0, gain, now)
	case drifts:
		delete(n.drifts, f)
		n.clock = n.clock.by(-time.Duration(gain*float64(now.Sub(begun))), -gain, now)
	}
	return n.setClock()
}

// setClock tells the process.
func (n *realNode) setClock() error {
	if !n.server.Config.FakeClock {
		return nil
	}
	return n.server.SetClock(n.clock.String())
}
