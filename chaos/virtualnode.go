package chaos

import (
	"sync"
	"sync/atomic"

	"github.com/quorumkit/redlock/internal/lab/simnode"
)

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

// change begins a fault of the node, or mends it.
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
	case Pause, Suspend, WallClock, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Slow, Jitter, Reorder, Twice, Reset, HalfOpen, Refuse, OtherList:
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

// age copies the data, or has the node come back with the copy.
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
