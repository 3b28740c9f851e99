package node

import "github.com/quorumkit/redlock/internal/quorum"

// Poll is one call of look.lua: a sign of life, the names that are looked at, and
// places in line that the node is told of.
type Poll interface {
	// Wanted are the names that are still to be looked at, and the process's places
	// there (with a minus sign: among those who wait to share), with the claims that take a grant there by push (nil: none). It is asked when
	// the call is sent.
	Wanted() (keys []string, positions []int64, claims []*Claim)
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

// settlePoll hands out the reply to a poll.
func (n *Node) settlePoll(c *call, err error) {
	if err != nil {
		n.doubtPlaces(c.claims, Classify(err))
		c.poll.Answer(n.Index, false, nil, err)
		return
	}
	votes := n.batch.silent == nil && n.doubt() == nil
	c.poll.Answer(n.Index, votes, c.cmd.(intsCall).Val(), nil)
}

// doubtPlaces notes that a look of unknown outcome may still put these claims in line.
func (n *Node) doubtPlaces(claims []*Claim, o quorum.Outcome) {
	if o != quorum.Unknown {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range claims {
		if c != nil {
			c.Marks[n.Index] = c.Marks[n.Index].Doubted()
		}
	}
}
