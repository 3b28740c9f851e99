package node

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
)

// verify finds out whether the node votes for us. On one pinned connection, with
// commands that are sent once, it reads the record and the run_id; where that
// gives a Voter, it loads the voting scripts on that same connection, so that no
// restart can come between. It returns the epoch to send with every vote, or why
// the node abstains, or an error if the node can't be talked to.
func (n *Node) verify() (epoch string, abstains, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.Timeout)
	defer cancel()
	n.met = n.turn() // an exchange from here on has it verified again
	if n.Cfg.Unprotected {
		return n.enroll(ctx)
	}
	sent := n.Clock.Now()
	err = n.Watch(ctx, func(tx *redis.Tx) error {
		o, err := n.observe(ctx, tx, false, n.recognize)
		if err != nil {
			return err
		}
		var st membership.Voter
		// Half the time at most for the others, so that an answer is in time.
		others, stop := context.WithTimeout(ctx, n.Timeout/2)
		defer stop()
		if st, abstains = n.Tracker.VoterOf(others, n.Index, o); abstains != nil {
			return nil
		}
		epoch, n.conn.proven = st.Epoch, 0
		return LoadVoting(ctx, tx)
	})
	if err != nil {
		n.Tracker.Missed(n.Index, sent, Explain(err))
	}
	return epoch, abstains, err
}

// LoadVoting loads the voting scripts on a pinned connection, within its own
// timeouts: ctx may have been used up by the wait for the other nodes.
func LoadVoting(ctx context.Context, tx *redis.Tx) error {
	ctx = context.WithoutCancel(ctx)
	_, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, s := range lua.VotingScripts {
			p.ScriptLoad(ctx, s.Body)
		}
		return nil
	})
	return err
}

// enroll is what stands for verify without membership: any server votes, also
// one that has just lost its memory.
func (n *Node) enroll(ctx context.Context) (epoch string, abstains, err error) {
	err = n.Watch(ctx, func(tx *redis.Tx) error {
		if err := tx.HSetNX(ctx, lua.NodeKey, "epoch", n.Cfg.Chance.Name()).Err(); err != nil {
			return err
		}
		// HMGET, since the user has the right to it anyway.
		record, err := tx.HMGet(ctx, lua.NodeKey, "epoch").Result()
		if err != nil {
			return err
		}
		epoch, _ = record[0].(string)
		return LoadVoting(ctx, tx)
	})
	return epoch, nil, err
}

// silence is why the node does not vote; nil: it does.
func (n *Node) silence() error {
	switch {
	case n.epoch == "":
		return n.abstains
	case n.timeless != nil:
		return n.timeless
	}
	if d := n.distrust.Load(); d != nil {
		if n.Clock.Early() < d.Until() {
			return d
		}
		n.distrust.CompareAndSwap(d, nil)
	}
	return nil
}
