package chaos

import (
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/nosuspend"
	"github.com/quorumkit/redlock/redlocktest"
)

// virtual is a stage in memory: in-process nodes behind links with latencies
// from a seed, real go-redis on top.
type virtual struct {
	rests

	nodes *redlocktest.Cluster
	seed  uint64

	mu      sync.Mutex // guards the rest
	links   map[string][]*link
	clients []redis.UniversalClient
	closed  bool
}

// NewVirtual returns a stage of n in-process nodes. In a testing/synctest bubble
// its time is virtual, and then what happens on it follows from seed; it works
// outside of bubbles as well, in real time. Clocks of nodes can't be stepped
// there ([Step]), and a paused client is one whose own code rests: its library
// runs on. Lockers that are made while it is open count no suspend of the
// machine.
func NewVirtual(seed uint64, n int) (Stage, error) {
	nodes, err := redlocktest.Run(n, redlocktest.WithoutFounding())
	if err != nil {
		return nil, fmt.Errorf("chaos: virtual stage: %w", err)
	}
	nosuspend.Begin()
	return &virtual{nodes: nodes, seed: seed, links: map[string][]*link{}}, nil
}

func (v *virtual) Names() []string { return v.nodes.Names() }

// Connect is [Stage.Connect].
func (v *virtual) Connect(client string) ([]redis.UniversalClient, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.links[client] != nil || client == "" {
		return nil, fmt.Errorf("chaos: connect %q: the name is empty, or taken", client)
	}
	var clients []redis.UniversalClient
	for _, node := range v.nodes.Nodes() {
		v.seed++
		l := newLink(v.seed, node.Dial)
		opts := node.Options()
		opts.Dialer = l.dialer
		clients = append(clients, redis.NewClient(opts))
		v.links[client] = append(v.links[client], l)
	}
	v.clients = append(v.clients, clients...)
	return clients, nil
}

// Break is [Stage.Break].
func (v *virtual) Break(f Fault) error { return v.change(f, true) }

// Mend is [Stage.Mend].
func (v *virtual) Mend(f Fault) error { return v.change(f, false) }

func (v *virtual) change(f Fault, broken bool) error {
	switch {
	case f.Kind == Pause && broken:
		v.pause(f.Client)
		return nil
	case f.Kind == Pause:
		v.resume(f.Client)
		return nil
	case f.Kind.ofLink(), f.Kind == Stall:
		// A stalled node is one whose links are all held: commands that came
		// meanwhile then run in an order that follows from the seed.
		return v.changeLinks(f, broken)
	case f.Node == Everything:
		for _, node := range v.nodes.Nodes() {
			if err := changeNode(node, f, broken); err != nil {
				return err
			}
		}
		return nil
	case f.Node < 0 || f.Node >= v.nodes.Len():
		return noSuch(f)
	}
	return changeNode(v.nodes.Node(f.Node), f, broken)
}

// changeNode breaks or mends an in-process node.
func changeNode(node *redlocktest.Node, f Fault, broken bool) error {
	switch f.Kind {
	case Crash, Forget:
		switch {
		case broken:
			node.Stop()
		case f.Kind == Crash:
			node.RestartKeepingData()
		default:
			node.Restart()
		}
	case Flush:
		if broken {
			node.FlushAll()
		}
	case Delete:
		if broken {
			node.Miniredis().Del(f.Key)
		}
	case Old, Failover, Evict, Stall, Step, Drift, Pause, Suspend, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, Slow, Reset:
		return cantBreak(f)
	default:
		return cantBreak(f)
	}
	return nil
}

// changeLinks breaks or mends the links that the fault names.
func (v *virtual) changeLinks(f Fault, broken bool) error {
	v.mu.Lock()
	var links []*link
	for client, ofClient := range v.links {
		for node, l := range ofClient {
			if (f.Client == "" || f.Client == client) && (f.Node == Everything || f.Node == node) {
				links = append(links, l)
			}
		}
	}
	v.mu.Unlock()
	if len(links) == 0 {
		return noSuch(f)
	}
	for _, l := range links {
		if f.Kind != Reset {
			l.change(f, broken)
		} else if broken {
			l.reset()
		}
	}
	return nil
}

// blow adds the fault to the weather of a link. What loses is stronger than what
// holds back, and delays add up.
func (f Fault) blow(requests, replies *weather) {
	switch f.Kind {
	case Cut, Stall:
		requests.mode, replies.mode = max(requests.mode, hold), max(replies.mode, hold)
	case CutRequests:
		requests.mode = max(requests.mode, hold)
	case CutReplies:
		replies.mode = max(replies.mode, hold)
	case LoseRequests:
		requests.mode = drop
	case LoseReplies:
		replies.mode = drop
	case Slow:
		requests.delay += f.Delay
		replies.delay += f.Delay
	case Reset, Crash, Forget, Old, Failover, Flush, Delete, Evict, Step, Drift, Pause, Suspend:
	}
}

// Close is [Stage.Close]. Held connections are let go first.
func (v *virtual) Close() error {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return nil
	}
	v.closed = true
	nosuspend.End()
	links, clients := v.links, v.clients
	v.links, v.clients = map[string][]*link{}, nil
	v.mu.Unlock()
	var errs []error
	for _, c := range clients {
		if err := c.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, ofClient := range links {
		for _, l := range ofClient {
			l.close()
		}
	}
	return errors.Join(append(errs, v.nodes.Close())...)
}
