package chaos

import (
	"net"
	"syscall"
	"time"

	"github.com/quorumkit/redlock/chaos/internal/simnode"
)

// weather is the state of one direction.
type weather struct {
	mode   mode
	delay  time.Duration
	jitter time.Duration // the most that a message is late by besides
	uneven time.Duration // what every other message is late by besides
	mute   bool          // loses what nobody asked for
}

// late is how late a message is whose share of the jitter is spread, from 0 up to
// 1, and which is one of the uneven ones or not.
func (w weather) late(spread float64, odd bool) time.Duration {
	late := w.delay + time.Duration(spread*float64(w.jitter))
	if odd {
		late += w.uneven
	}
	return late
}

// onDial is what the weather adds to a new connection in memory, where jitter is
// no matter of chance: of two that are made at one moment it must not matter which
// is there first.
func (w weather) onDial() time.Duration { return w.delay + w.jitter/2 }

// blow adds the fault to the weather of a link. What loses is stronger than what
// holds back, and delays add up.
func (f Fault) blow(requests, replies *weather) {
	switch f.Kind {
	case Cut, Suspend:
		requests.mode, replies.mode = max(requests.mode, hold), max(replies.mode, hold)
	case CutRequests:
		requests.mode = max(requests.mode, hold)
	case CutReplies, Pause: // at the replies: other pauses are not a link's
		replies.mode = max(replies.mode, hold)
	case LoseRequests:
		requests.mode = drop
	case LoseReplies:
		replies.mode = drop
	case Slow:
		requests.delay += f.Delay
		replies.delay += f.Delay
	case Jitter:
		requests.jitter += f.Delay
		replies.jitter += f.Delay
	case Reorder:
		requests.uneven += f.Delay
	case LoseCalls:
		replies.mute = true
	case Stall, Reset, HalfOpen, Refuse, OtherList, Crash, Forget, Old, Failover, Flush, Delete, Evict, Step, Drift:
	}
}

// settle has the link be as its faults and the node that it leads to say; mu is
// held, but for a link that nobody has yet.
func (l *link) settle() {
	l.requests, l.replies, l.refuses = weather{}, weather{}, false
	leads := l.home
	for _, f := range l.faults {
		f.blow(&l.requests, &l.replies)
		l.refuses = l.refuses || f.Kind == Refuse
		if f.Kind == OtherList {
			leads = f.To
		}
	}
	if l.nodes[leads].stalls.Load() > 0 {
		// A stalled node is one whose links are all held: commands that came
		// meanwhile then run in an order that follows from the seed.
		l.requests.mode, l.replies.mode = max(l.requests.mode, hold), max(l.replies.mode, hold)
	}
	if leads != l.leads {
		l.leads = leads
		l.breakAll()
	}
	close(l.changed)
	l.changed = make(chan struct{})
	for _, c := range l.conns {
		c.postpone()
	}
}

// stalled is told that a node was stalled, or goes on.
func (l *link) stalled(node int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads == node {
		l.settle()
	}
}

// node is where new connections lead, or why there are none.
func (l *link) node() (*simnode.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses {
		return nil, &net.OpError{Op: "dial", Net: linkNetwork, Err: syscall.ECONNREFUSED}
	}
	return l.nodes[l.leads].sim, nil
}

// sever ends the node's ends of all connections, unknown to the client: what is
// under way is lost, and what is sent from now on too.
func (l *link) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.severed = true
		c.queue, c.inbox, c.end = nil, nil, nil
		c.session.Close()
	}
}
