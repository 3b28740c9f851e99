package node

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
)

// poll is one call of look.lua: a sign of life, the names that are looked at, and
// places in line that the node is told of.
type poll interface {
	// Wanted are the names that are still to be looked at, and the process's places
	// there. It is asked when the call is sent.
	Wanted() (keys []string, positions []int64)
	// Answer takes in what the node said, a number for each name behind one for the
	// sign of life, and whether the node votes; or why it said nothing.
	Answer(node int, votes bool, replies []int64, err error)
	// Size is of how many names the poll is, and Singly the same in polls of one.
	Size() int
	Singly() []poll
}

// submitPoll queues a poll, or fails it at once.
func (n *node) submitPoll(k poll) {
	n.mu.Lock()
	err := n.refusal(n.clock.Early())
	if err == nil {
		n.queue.polls = append(n.queue.polls, k)
	}
	n.nudge()
	if err != nil {
		k.Answer(n.index, false, nil, err)
	}
}

// pollCall is look.lua.
func (n *node) pollCall(k poll) redis.Cmder {
	keys, positions := k.Wanted()
	args := make([]any, 0, 4+2*len(keys))
	args = append(args, "EVALSHA", lua.LookScript.Hash, len(keys))
	for i := range keys {
		args = append(args, keys[i])
	}
	args = append(args, n.cfg.process)
	for i := range positions {
		args = append(args, positions[i])
	}
	return intsCall{redis.NewIntSliceCmd(context.Background(), args...)}
}

// settlePoll hands out the reply to a poll.
func (n *node) settlePoll(p *part, err error) {
	if err != nil {
		p.poll.Answer(n.index, false, nil, err)
		return
	}
	votes := n.flight.silent == nil && n.doubt() == nil
	p.poll.Answer(n.index, votes, p.cmd.(intsCall).Val(), nil)
}
