package redlock

import (
	"time"

	"github.com/quorumkit/redlock/internal/clock"
)

// nodeEvents makes events of what the nodes notice, and has the Locker draw its
// conclusions.
type nodeEvents struct {
	locker *Locker
	names  []string
}

func (o *nodeEvents) tell(node int, e Event) {
	e.Node, e.Name = node, o.names[node]
	o.locker.cfg.recorder.tell(e)
}

// Called counts a round trip.
func (o *nodeEvents) Called(node int, took time.Duration) {
	o.locker.cfg.recorder.counters.called(node, took)
}

// Erred counts a round trip without a reply, or with an error.
func (o *nodeEvents) Erred(node int) { o.locker.cfg.recorder.counters.nodes[node].errors.Add(1) }

// Down tells NodeDown.
func (o *nodeEvents) Down(node int, cause error) { o.tell(node, Event{Kind: NodeDown, Err: cause}) }

// Up tells NodeUp.
func (o *nodeEvents) Up(node int, after time.Duration) {
	o.tell(node, Event{Kind: NodeUp, Duration: after})
}

// Abstains tells NodeAbstains.
func (o *nodeEvents) Abstains(node int, cause error) {
	o.tell(node, Event{Kind: NodeAbstains, Err: cause})
}

// Votes tells NodeVotes.
func (o *nodeEvents) Votes(node int) { o.tell(node, Event{Kind: NodeVotes}) }

// RefusesWrites tells NodeRefusesWrites.
func (o *nodeEvents) RefusesWrites(node int, cause error) {
	o.tell(node, Event{Kind: NodeRefusesWrites, Err: cause})
}

// TakesWrites tells NodeTakesWrites.
func (o *nodeEvents) TakesWrites(node int, after time.Duration) {
	o.tell(node, Event{Kind: NodeTakesWrites, Duration: after})
}

// Stepped tells NodeClockStepped.
func (o *nodeEvents) Stepped(node int, cause error) {
	o.tell(node, Event{Kind: NodeClockStepped, Err: cause})
}

// Founded tells ClusterFounded.
func (o *nodeEvents) Founded(node int, cause error) {
	o.tell(node, Event{Kind: ClusterFounded, Err: cause})
}

// MaxTTLRaised tells MaxTTLRaised.
func (o *nodeEvents) MaxTTLRaised(node int, cause error) {
	o.tell(node, Event{Kind: MaxTTLRaised, Err: cause})
}

// StrictRecoverySet tells StrictRecoverySet.
func (o *nodeEvents) StrictRecoverySet(node int, cause error) {
	o.tell(node, Event{Kind: StrictRecoverySet, Err: cause})
}

// Disowned takes the node out of what every held lock stands on.
func (o *nodeEvents) Disowned(node int, since clock.Instant, cause error) {
	o.locker.distrust(node, since, cause)
}

// Returned has the held locks confirmed on the node.
func (o *nodeEvents) Returned(node int) { o.locker.scheduler.confirmOn(node) }
