package node

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
)

// Poll is one call of look.lua: a sign of life, the names that are looked at, and
// places in line that the node is told of.
type Poll interface {
	// Wanted are the names that are still to be looked at, and the process's places
	// there. It is asked when the call is sent.
	Wanted() (keys []string, positions []int64)
	// Answer takes in what the node said, a number for each name behind one for the
	// sign of life, and whether the node votes; or why it said nothing.
	Answer(node int, votes bool, replies []int64, err error)
	// Size is of how many names the poll is, and Singly the same in polls of one.
	Size() int
	Singly() []Poll
}

// SubmitPoll queues a poll, or fails it at once.
func (n *Node) SubmitPoll(k Poll) {
	n.mu.Lock()
	err := n.refusal(n.Clock.Early())
	if err == nil {
		n.queue.polls = append(n.queue.polls, k)
	}
	n.nudge()
	if err != nil {
		k.Answer(n.Index, false, nil, err)
	}
}

// pollCall is look.lua.
func (n *Node) pollCall(k Poll) redis.Cmder {
	keys, positions := k.Wanted()
	args := make([]any, 0, 4+2*len(keys))
	args = append(args, "EVALSHA", lua.LookScript.Hash, len(keys))
	for i := range keys {
		args = append(args, keys[i])
	}
	args = append(args, n.Cfg.Process)
	for i := range positions {
		args = append(args, positions[i])
	}
	return intsCall{redis.NewIntSliceCmd(context.Background(), args...)}
}

// settlePoll hands out the reply to a poll.
func (n *Node) settlePoll(p *call, err error) {
	if err != nil {
		p.poll.Answer(n.Index, false, nil, err)
		return
	}
	votes := n.batch.silent == nil && n.doubt() == nil
	p.poll.Answer(n.Index, votes, p.cmd.(intsCall).Val(), nil)
}
