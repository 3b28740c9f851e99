package chaos

import (
	"slices"
	"sync"

	"github.com/quorumkit/redlock/internal/lab/simnet"
	"github.com/quorumkit/redlock/internal/lab/simnode"
)

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
