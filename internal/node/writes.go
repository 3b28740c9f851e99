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
	return errors.As(err, &reply) && hasAnyPrefix(reply.Error(), writeRefusals...)
}

// writeRefusal is that a node refuses to write.
type writeRefusal struct {
	cause error
	since clock.Instant
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
		r := &writeRefusal{explain(err), n.clock.Early()}
		n.unwritten.Store(r)
		n.observer.RefusesWrites(n.index, r.cause)
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
		n.observer.TakesWrites(n.index, n.clock.Early().Sub(r.since))
	}
}

// refusesNow asks the node to write, and returns why it refuses; empty: it wrote, or
// said nothing about it. What it writes is a tombstone of an owner that nobody is,
// which ends within a millisecond.
func (n *node) refusesNow(ctx context.Context) string {
	bounded, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	id := n.cfg.chance.Name()
	load := anyCall{redis.NewCmd(bounded, "SCRIPT", "LOAD", lua.ReleaseScript.Body)}
	leave := anyCall{redis.NewCmd(bounded, "EVALSHA", lua.ReleaseScript.Hash, 2, lua.ProbeKey+id, lua.TombstoneKey+id, id, 1)}
	_, _ = n.calls.Pipelined(bounded, func(p redis.Pipeliner) error { // each has its own error
		_ = p.Process(bounded, load)
		_ = p.Process(bounded, leave)
		return nil
	})
	err := leave.Err()
	n.sawRefusal(err)
	switch {
	case err == nil && leave.Val() != nil:
		n.sawWrite()
	case refusesWrites(err):
		return explain(err).Error()
	}
	return ""
}
