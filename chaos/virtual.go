package chaos

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumkit/redlock/internal/chance"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lab/simnet"
	"github.com/quorumkit/redlock/internal/lab/simnode"
)

// virtual is a stage in memory: nodes that are simulated, behind links with
// latencies from a seed, real go-redis on top.
type virtual struct {
	machinery[*virtualNode, *virtualLink]

	// Guarded by mu.
	seed uint64 // of the last link
	made int    // links so far, but for those of connectAside
}

// NewVirtual returns a stage of n nodes in memory. In a testing/synctest bubble
// its time is virtual, and then what happens on it follows from seed; it works
// outside of bubbles as well, in real time. It knows every fault. A paused client
// is one whose own code rests: its library runs on; a suspended one is cut off,
// besides. Lockers that are made while the stage is open count no suspend of the
// machine.
func NewVirtual(seed uint64, n int) (Stage, error) {
	if n < 1 {
		return nil, fmt.Errorf("chaos: virtual stage: %d nodes; at least 1 is needed", n)
	}
	muteDialErrors()
	v := &virtual{seed: seed}
	v.links = map[string][]*virtualLink{}
	for i := range n {
		v.nodes = append(v.nodes, newVirtualNode(virtualName(i)))
	}
	clock.BeginSimulation()
	return v, nil
}

// virtualName is what a node is called.
func virtualName(i int) string { return fmt.Sprintf("node-%d", i) }

const (
	// virtualPool is above any concurrency a run has. A caller of go-redis that
	// has to wait for a connection does so on a timer out of a pool that is shared
	// by the whole process, and the second synctest bubble that meets such a timer
	// dies. It is also the number of failed dials after which go-redis refuses to
	// dial for up to a second.
	virtualPool = 1024
	// virtualBuffer replaces 32 and 128 KiB a connection: a run has hundreds.
	virtualBuffer = 8 << 10
	// virtualTimeout bounds a call that nobody bounds. It is well above the node
	// timeout of a Locker.
	virtualTimeout = 2 * time.Second
)

// options are the settings of a client over a link: nothing is sent twice, no
// call outlives its context's deadline, and nothing breaks a synctest bubble.
func (v *virtual) options(node *virtualNode, l *virtualLink) *redis.Options {
	return &redis.Options{
		Addr:                    node.name,
		Dialer:                  l.Dial,
		Protocol:                2, // RESP3 looks for push messages before each reply
		DisableIdentity:         true,
		MaxRetries:              -1,
		DialerRetries:           1,
		DialTimeout:             virtualTimeout,
		ReadTimeout:             virtualTimeout,
		WriteTimeout:            virtualTimeout,
		ContextTimeoutEnabled:   true,
		PoolSize:                virtualPool,
		PipelinePoolSize:        virtualPool,
		ReadBufferSize:          virtualBuffer,
		WriteBufferSize:         virtualBuffer,
		PipelineReadBufferSize:  virtualBuffer,
		PipelineWriteBufferSize: virtualBuffer,
		// Otherwise it looks up the address to find out whose network it is.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Connect is [Stage.Connect].
func (v *virtual) Connect(client string) ([]redis.UniversalClient, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.links[client] != nil || client == "" {
		return nil, fmt.Errorf("chaos: connect %q: the name is empty, or taken", client)
	}
	var clients []redis.UniversalClient
	for i, node := range v.nodes {
		l := newVirtualLink(v.made, v.seed+1, v.nodes, i)
		v.seed, v.made = v.seed+1, v.made+1
		c := redis.NewClient(v.options(node, l))
		chance.Sow(c, v.seed)
		clients, v.clients = append(clients, c), append(v.clients, c)
		if err := v.addLocked(client, l); err != nil {
			return nil, err
		}
		if i == 0 {
			v.walls.has(client, c)
		}
	}
	return clients, nil
}

// foreign makes the latencies of a client's messages independent of what they say: its
// library is not ours.
func (v *virtual) foreign(client string) {
	for _, l := range v.linksOf(client, Everything) {
		l.ByShape()
	}
}

// asidePlace is the place of the first link of an onlooker: behind those of all others.
const asidePlace = 255

// connectAside is Connect for an onlooker: no client's latencies, nor the places of its
// connections, depend on it.
func (v *virtual) connectAside(client string) ([]redis.UniversalClient, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.links[client] != nil {
		return nil, fmt.Errorf("chaos: connect %q: the name is taken", client)
	}
	var clients []redis.UniversalClient
	for i, node := range v.nodes {
		l := newVirtualLink(asidePlace-i, uint64(i)+1, v.nodes, i)
		c := redis.NewClient(v.options(node, l))
		clients, v.clients = append(clients, c), append(v.clients, c)
		if err := v.addLocked(client, l); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// Break is [Stage.Break].
func (v *virtual) Break(f Fault) error { return v.change(f, true) }

// Mend is [Stage.Mend].
func (v *virtual) Mend(f Fault) error { return v.change(f, false) }

func (v *virtual) change(f Fault, broken bool) error {
	return v.dispatch(f, broken, func(nodes ...int) error {
		for _, i := range nodes {
			if err := v.nodes[i].change(f, broken); err != nil {
				return err
			}
			for _, l := range v.linksOf("", Everything) {
				if f.Kind == Stall {
					l.stalled(i)
				}
			}
		}
		return nil
	})
}

// Close is [Stage.Close]. Held connections are let go first.
func (v *virtual) Close() error {
	first, err := v.closeLinks(func(c *redis.Client) { chance.Reap(c) })
	if first {
		clock.EndSimulation()
	}
	return err
}

// virtualNode is a node of a virtual stage, and the faults of it that are not
// mended.
type virtualNode struct {
	name string
	sim  *simnode.Node

	stalls atomic.Int32 // that are not mended; links that lead here look at it

	mu     sync.Mutex // taken by every fault of the node; guards the rest
	downs  int        // crashes
	copies map[Fault]simnode.Data
}

func newVirtualNode(name string) *virtualNode {
	return &virtualNode{name: name, sim: simnode.New(), copies: map[Fault]simnode.Data{}}
}

func (n *virtualNode) String() string { return n.name }

// change is stageNode.change.
func (n *virtualNode) change(f Fault, broken bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch f.Kind {
	case Crash, Forget:
		n.crash(f, broken)
	case Old, Failover:
		// A replica that lags and a file that is old are the same to the one who asks
		// the node afterwards: another process, with the data of then.
		n.age(f, broken)
	case Stall:
		if broken {
			n.stalls.Add(1)
		} else {
			n.stalls.Add(-1)
		}
	case Flush, Delete, Evict:
		if broken {
			n.lose(f)
		}
	case Step:
		if broken {
			n.sim.Step(f.Delay)
		} else {
			n.sim.Step(-f.Delay)
		}
	case Drift:
		if broken {
			n.sim.Drift(f.Delay)
		} else {
			n.sim.EndDrift(f.Delay)
		}
	case Pause, Suspend, WallClock, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Slow, Jitter, Reorder, Twice, Reset, HalfOpen, Refuse, OtherList, ListChange:
		return cantBreak(f)
	default:
		return cantBreak(f)
	}
	return nil
}

// crash ends the process, and starts one when the last crash is mended.
func (n *virtualNode) crash(f Fault, broken bool) {
	if broken {
		n.downs++
		n.sim.Crash()
		if f.Kind == Forget {
			n.sim.Wipe()
		}
		return
	}
	if n.downs = max(n.downs-1, 0); n.downs == 0 {
		n.sim.Start()
	}
}

// age copies the data, or brings the node back with the copy.
func (n *virtualNode) age(f Fault, broken bool) {
	if broken {
		n.copies[f] = n.sim.Copy()
		return
	}
	was, ok := n.copies[f]
	if !ok {
		return
	}
	delete(n.copies, f)
	n.sim.Crash()
	n.sim.Load(was)
	if n.downs == 0 {
		n.sim.Start()
	}
}

// lose removes keys.
func (n *virtualNode) lose(f Fault) {
	switch {
	case f.Kind == Flush:
		n.sim.Wipe()
	case f.Key != "":
		n.sim.Delete(f.Key)
	case f.Kind == Evict:
		n.sim.EvictNext()
	}
}

func (n *virtualNode) answers(f func(args [][]byte)) { n.sim.Watch(f) }

func (n *virtualNode) stores() (keys []simnode.Key, memory int, ok bool) {
	keys, memory = n.sim.Keys()
	return keys, memory, true
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

// change is stageLink.change.
func (l *virtualLink) change(f Fault, broken bool) error {
	switch {
	case f.Kind.Lasts():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.faults.change(f, broken)
		l.Set(l.condition())
	case broken && f.Kind == Reset:
		l.Reset()
	case broken && f.Kind == HalfOpen:
		l.Sever()
	}
	return nil
}

// stalled is told that a node was stalled, or goes on.
func (l *virtualLink) stalled(node int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults.condition(l.home).Leads == node {
		l.Set(l.condition())
	}
}
