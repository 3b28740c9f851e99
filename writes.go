package redlock

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// writeRefusals are what a server says that answers and does not write: its memory
// is full, it is a replica, its disk failed, it lacks the replicas that it wants.
var writeRefusals = []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS"}

// refusesWrites tells whether the error is the reply of a server that does not write.
func refusesWrites(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && hasAnyPrefix(reply.Error(), writeRefusals...)
}

// writeRefusal is that a node refuses to write.
type writeRefusal struct {
	cause error
	since instant
}

// sawRefusal takes note of an error: where the node refuses to write, that is told
// once.
func (n *node) sawRefusal(err error) {
	if err == nil || !refusesWrites(err) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unwritten.Load() == nil {
		r := &writeRefusal{explain(err), n.clock.early()}
		n.unwritten.Store(r)
		n.tell(Event{Kind: NodeRefusesWrites, Err: r.cause})
	}
}

// sawWrite takes note that the node wrote what a full memory, too, would have
// refused: a deletion or a longer lease proves nothing.
func (n *node) sawWrite() {
	if n.unwritten.Load() == nil {
		return // as ever
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.unwritten.Swap(nil); r != nil {
		n.tell(Event{Kind: NodeTakesWrites, Duration: n.clock.early().sub(r.since)})
	}
}
