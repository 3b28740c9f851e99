package main

import (
	"context"
	"errors"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// slowness is how late a slow node's replies are.
const slowness = 200 * time.Millisecond

// fault is something that happens to some of the masters, and ends again.
type fault struct {
	name    string
	nodes   []int
	proxied bool                                           // it happens to a proxy before the node
	open    func(context.Context, *env) (contender, error) // nil: as Open builds the clients
	begin   func(s *server, p *chaos.Proxy) error
	end     func(s *server, p *chaos.Proxy) error
}

// faults are what is tried, with the clients of Open and, where go-redis has its
// traps, with default ones. Refused and dead are the same thing to a
// client: a connection attempt is answered by a reset. A proxy refuses in the
// server's stead, so that the node comes back with its memory.
var faults = []fault{
	{name: "one hung", nodes: []int{4}, begin: pause, end: resume},
	{name: "one refused", nodes: []int{4}, proxied: true, begin: refuse, end: heal},
	{name: "one slow by 200 ms", nodes: []int{4}, proxied: true, begin: slow, end: heal},
	{name: "one cut off", nodes: []int{4}, proxied: true, begin: cut, end: heal},
	{name: "two hung", nodes: []int{3, 4}, begin: pause, end: resume},
	{name: "two slow by 200 ms", nodes: []int{3, 4}, proxied: true, begin: slow, end: heal},
	{name: "two dead", nodes: []int{3, 4}, proxied: true, begin: refuse, end: heal},
	{name: "one hung, default clients", nodes: []int{4}, begin: pause, end: resume, open: openRedlockDefault},
	{name: "one refused, default clients", nodes: []int{4}, proxied: true, begin: refuse, end: heal, open: openRedlockDefault},
}

func pause(s *server, _ *chaos.Proxy) error  { return s.Pause() }
func resume(s *server, _ *chaos.Proxy) error { return s.Resume() }
func heal(_ *server, p *chaos.Proxy) error   { return p.Heal() }

func refuse(_ *server, p *chaos.Proxy) error {
	p.Refuse()
	p.Reset()
	return nil
}

func slow(_ *server, p *chaos.Proxy) error {
	p.Delay(chaos.Replies, slowness)
	return nil
}

func cut(_ *server, p *chaos.Proxy) error {
	p.Hold(chaos.Both)
	return nil
}

// rig is the masters with a fault's proxies before them.
type rig struct {
	fault
	servers cluster
	addrs   []string
	proxies []*chaos.Proxy // one for each of the fault's nodes; nil without
}

func newRig(f fault, c cluster) (*rig, error) {
	r := &rig{fault: f, servers: c, addrs: c.addrs(), proxies: make([]*chaos.Proxy, len(f.nodes))}
	if !f.proxied {
		return r, nil
	}
	for i, node := range f.nodes {
		p, err := chaos.NewProxy(c[node].Addr())
		if err != nil {
			r.close()
			return nil, err
		}
		r.proxies[i], r.addrs[node] = p, p.Addr()
	}
	return r, nil
}

// strike begins the fault; relent ends it.
func (r *rig) strike() error { return r.each(r.begin) }
func (r *rig) relent() error { return r.each(r.end) }

func (r *rig) each(f func(*server, *chaos.Proxy) error) error {
	var errs []error
	for i, node := range r.nodes {
		errs = append(errs, f(r.servers[node], r.proxies[i]))
	}
	return errors.Join(errs...)
}

func (r *rig) close() {
	for _, p := range r.proxies {
		if p != nil {
			p.Close()
		}
	}
}

// takesPart tells whether a lock that is held now shows on every node of the
// fault, soon enough not to be a late arrival.
func (r *rig) takesPart(ctx context.Context, resource string) (bool, error) {
	const soon = 20 * time.Millisecond
	for start := time.Now(); time.Since(start) < soon; {
		there := 0
		for _, node := range r.nodes {
			n, err := r.servers[node].control.Exists(ctx, resource).Result()
			if err != nil {
				return false, err
			}
			there += int(n)
		}
		if there == len(r.nodes) {
			return true, nil
		}
	}
	return false, nil
}
