package chaos

import (
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// realStage is a stage of server processes, with a proxy between each client and each
// node.
type realStage struct {
	rests
	walls walls

	nodes []*realNode

	mu      sync.Mutex // guards the rest
	links   map[string][]*realLink
	clients []redis.UniversalClient
	closed  bool
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
	r := &realStage{links: map[string][]*realLink{}, nodes: make([]*realNode, n)}
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

func (r *realStage) Names() []string {
	names := make([]string, len(r.nodes))
	for i, n := range r.nodes {
		names[i] = n.name
	}
	return names
}

func (r *realStage) observables() []observable {
	nodes := make([]observable, len(r.nodes))
	for i, n := range r.nodes {
		nodes[i] = n
	}
	return nodes
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
		l, opts, err := n.link()
		if err != nil {
			return nil, fmt.Errorf("chaos: connect %q: %w", client, err)
		}
		r.links[client] = append(r.links[client], l)
		c := redis.NewClient(opts)
		if clients = append(clients, c); i == 0 {
			r.walls.has(client, c)
		}
	}
	r.clients = append(r.clients, clients...)
	return clients, nil
}

// Break is [Stage.Break].
func (r *realStage) Break(f Fault) error { return r.change(f, true) }

// Mend is [Stage.Mend].
func (r *realStage) Mend(f Fault) error { return r.change(f, false) }

func (r *realStage) change(f Fault, broken bool) error {
	switch {
	case f.Unknown(len(r.nodes)):
		return noSuch(f)
	case f.Kind.OfClient():
		return r.changeClient(f, broken)
	case f.Kind.OfLink():
		return r.changeLinks(f, broken)
	case f.Node == Everything:
		var all errgroup.Group
		for _, n := range r.nodes {
			all.Go(func() error { return n.change(f, broken) })
		}
		return all.Wait()
	}
	return r.nodes[f.Node].change(f, broken)
}

// changeClient stops a client's code or lets it go on: all that it sends waits
// with it if it is suspended.
func (r *realStage) changeClient(f Fault, broken bool) error {
	switch {
	case f.Kind == WallClock:
		return r.walls.set(f, broken)
	case broken:
		r.pause(stopsAt(f))
	default:
		defer r.resume(stopsAt(f)) // its messages are there when it wakes
	}
	if f.Kind != Suspend && f.Where != AtReplies {
		return nil
	}
	f.Node = Everything
	return r.changeLinks(f, broken)
}

// changeLinks breaks or mends the links that the fault names.
func (r *realStage) changeLinks(f Fault, broken bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	found := false
	for client, ofClient := range r.links {
		for node, l := range ofClient {
			if (f.Client == "" || f.Client == client) && (f.Node == Everything || f.Node == node) {
				found = true
				errs = append(errs, l.change(f, broken, r.nodes))
			}
		}
	}
	if !found {
		return noSuch(f)
	}
	return errors.Join(errs...)
}

// Close is [Stage.Close].
func (r *realStage) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	links, clients := r.links, r.clients
	r.walls.drop()
	r.links, r.clients = map[string][]*realLink{}, nil
	r.mu.Unlock()
	var errs []error
	for _, c := range clients {
		if err := c.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, ofClient := range links {
		for _, l := range ofClient {
			l.proxy.Close()
		}
	}
	for _, n := range r.nodes {
		if n != nil { // it may not have started
			errs = append(errs, n.close())
		}
	}
	return errors.Join(errs...)
}
