package chaos

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
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
	muteDialErrors()
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
		if err := r.addLocked(client, l); err != nil {
			return nil, err
		}
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
