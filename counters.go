package redlock

import (
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/quorum"
)

// counters is what Stats is made of: the events, counted. Each is an atomic of its
// own; in which order Stats reads them makes its figures agree.
type counters struct {
	calls    atomic.Uint64 // of Acquire, TryAcquire and Do, that began
	acquired atomic.Uint64
	entered  atomic.Uint64
	refused  [len(reasonNames)]atomic.Uint64 // calls that brought no lock
	failed   atomic.Uint64                   // attempts
	second   atomic.Uint64                   // attempts of two round trips
	extended atomic.Uint64
	stalled  atomic.Uint64                   // extensions without a confirmation
	ended    [len(reasonNames)]atomic.Uint64 // holds
	freed    atomic.Uint64                   // releases that were confirmed
	unfreed  atomic.Uint64                   // and those that were not
	dropped  atomic.Uint64                   // events

	acquiring, waited, extending, held, left, releasing atomic.Int64 // nanoseconds, summed up

	nodes []nodeCounters
}

// nodeCounters is what NodeStats is made of.
type nodeCounters struct {
	down, abstains atomic.Bool
	refuses        atomic.Bool
	votes          [quorum.Outcomes]atomic.Uint64
	calls          atomic.Uint64
	errors         atomic.Uint64
	time           atomic.Int64 // nanoseconds, summed up
}

// take counts an event.
func (c *counters) take(e *Event) {
	switch e.Kind {
	case LockAcquired:
		c.acquiring.Add(int64(e.Duration))
		c.waited.Add(int64(e.Waited))
		c.round(e)
		c.acquired.Add(1)
	case LockReentered:
		c.entered.Add(1)
	case AcquireFailed:
		c.refused[e.Reason].Add(1)
	case AttemptFailed:
		c.round(e)
		c.failed.Add(1)
	case LockExtended:
		c.extending.Add(int64(e.Duration))
		c.extended.Add(1)
	case ExtendFailed:
		c.stalled.Add(1)
	case LockReleased, LockLost:
		c.held.Add(int64(e.Held))
		c.left.Add(int64(e.Validity))
		c.ended[e.Reason].Add(1)
	case ReleaseConfirmed:
		c.releasing.Add(int64(e.Duration))
		c.freed.Add(1)
	case ReleaseUnconfirmed:
		c.unfreed.Add(1)
	case NodeDown, NodeUp:
		c.nodes[e.Node].down.Store(e.Kind == NodeDown)
	case NodeAbstains, NodeVotes:
		c.nodes[e.Node].abstains.Store(e.Kind == NodeAbstains)
	case NodeRefusesWrites, NodeTakesWrites:
		c.nodes[e.Node].refuses.Store(e.Kind == NodeRefusesWrites)
	case ClusterFounded, MaxTTLRaised, StrictRecoverySet, NodeClockStepped:
	}
}

func (c *counters) round(e *Event) {
	if e.Rounds > 1 {
		c.second.Add(1)
	}
}

// poll counts what the nodes had answered when a round of an attempt was decided.
func (c *counters) poll(votes []quorum.Vote) {
	for i, v := range votes {
		c.nodes[i].votes[v.Outcome].Add(1)
	}
}

// called counts a round trip to node i.
func (c *counters) called(i int, took time.Duration) {
	c.nodes[i].calls.Add(1)
	c.nodes[i].time.Add(int64(took))
}
