package node

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
)

// writeRefusals are what a server says that answers and does not write: its memory
// is full, it is a replica, its disk failed, it lacks the replicas that it wants.
var writeRefusals = []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS"}

// refusesWrites tells whether the error is the reply of a server that does not write.
func refusesWrites(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && HasAnyPrefix(reply.Error(), writeRefusals...)
}

// writeRefusal is that a node refuses to write.
type writeRefusal struct {
	cause error
	since clock.Instant
}

// SawRefusal takes note of an error: where the node refuses to write, that is told
// once.
func (n *Node) SawRefusal(err error) {
	if err == nil || !refusesWrites(err) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unwritten.Load() == nil {
		r := &writeRefusal{Explain(err), n.Clock.Early()}
		n.unwritten.Store(r)
		n.observer.RefusesWrites(n.Index, r.cause)
	}
}

// SawWrite takes note that the node wrote what a full memory, too, would have
// refused: a deletion or a longer lease proves nothing.
func (n *Node) SawWrite() {
	if n.unwritten.Load() == nil {
		return // as ever
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.unwritten.Swap(nil); r != nil {
		n.observer.TakesWrites(n.Index, n.Clock.Early().Sub(r.since))
	}
}

// RefusesNow asks the node to write, and returns why it refuses; empty: it wrote, or
// said nothing about it. What it writes is a tombstone of an owner that nobody is,
// which ends within a millisecond.
func (n *Node) RefusesNow(ctx context.Context) string {
	bounded, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	id := n.Cfg.Chance.Name()
	load := AnyCall{redis.NewCmd(bounded, "SCRIPT", "LOAD", lua.ReleaseScript.Body)}
	leave := AnyCall{redis.NewCmd(bounded, "EVALSHA", lua.ReleaseScript.Hash, 2, lua.ProbeKey+id, lua.TombstoneKey+id, id, 1)}
	_, _ = n.Calls.Pipelined(bounded, func(p redis.Pipeliner) error { // each has its own error
		_ = p.Process(bounded, load)
		_ = p.Process(bounded, leave)
		return nil
	})
	err := leave.Err()
	n.SawRefusal(err)
	switch {
	case err == nil && leave.Val() != nil:
		n.SawWrite()
	case refusesWrites(err):
		return Explain(err).Error()
	}
	return ""
}
