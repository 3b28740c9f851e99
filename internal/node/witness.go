package node

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
)

var errUnknown = errors.New("what it is to the cluster was not learned yet")

// Witness is what a node shows of itself in the transaction in which it is read: who it
// is, and under which epoch it joined. One that forgot shows no hold that it granted.
type Witness struct {
	epoch           *redis.SliceCmd // nil: without membership nobody asks
	server, history *redis.StringCmd
}

// Witness adds to a transaction what shows whether what it reads counts.
func (n *Node) Witness(ctx context.Context, p redis.Pipeliner) Witness {
	if n.Cfg.Unprotected {
		return Witness{}
	}
	return Witness{p.HMGet(ctx, lua.NodeKey, "epoch"), p.Info(ctx, "server"), p.Info(ctx, "replication")}
}

// Testimony is what a Witness said.
type Testimony struct {
	shown   membership.Voter // what a member would have to be
	replica bool
}

// Said is what a node said of itself, once the transaction has been executed.
func (w Witness) Said() (s Testimony, err error) {
	if w.epoch == nil {
		return s, nil
	}
	if err := errors.Join(w.epoch.Err(), w.server.Err(), w.history.Err()); err != nil {
		return s, Explain(err)
	}
	if epoch := w.epoch.Val(); len(epoch) == 1 {
		s.shown.Epoch, _ = epoch[0].(string)
	}
	s.shown.Run = membership.IdentityOf(infoField(w.server.Val(), "run_id"), infoField(w.history.Val(), "master_replid"))
	s.replica = infoField(w.history.Val(), "role") != "master"
	return s, nil
}

// Counts is why what was read of the node counts for nothing, as far as is known; nil: it
// counts. Where what it says and what is known differ, another look at all nodes may tell
// (unclear). Changed is closed when anything new is known.
func (n *Node) Counts(s Testimony) (unclear bool, changed <-chan struct{}, why error) {
	if n.Cfg.Unprotected {
		return false, nil, nil
	}
	voter, answered, changed, why := n.Tracker.Known(n.Index)
	switch {
	case !answered:
		if why == nil {
			why = errUnknown
		}
		return true, changed, why
	case why != nil:
		return false, changed, why
	case s.replica:
		return true, changed, errReplica
	case s.shown != voter:
		return true, changed, errEpoch
	}
	return false, nil, nil
}
