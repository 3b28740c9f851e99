package node

import (
	"errors"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// flush sends what has gathered, and hands out the replies.
func (n *Node) flush() {
	now := n.Clock.Early()
	n.mu.Lock()
	n.busySince = now
	suspect := n.down.cause
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.busySince = 0
		n.mu.Unlock()
	}()
	n.conn.giveWay()
	if n.quiet() {
		if err := n.conn.look(); err != nil {
			n.failed(err)
			return
		}
	}
	if err := n.conn.claim(); err != nil {
		n.failed(err)
		return
	}
	if suspect != nil {
		if err := n.probe(); err != nil {
			n.failed(err)
			return
		}
		if err := n.meetAgain(); err != nil {
			n.failed(err)
			return
		}
	}
	err := n.prepare()
	if errors.Is(err, errExchanged) {
		err = n.prepare() // the next connection is let in
	}
	if err != nil {
		n.failed(err)
		return
	}
	if suspect != nil { // only now: a node that loads its data tells the time, too
		n.recovered()
	}
	n.take(now)
	n.attend(now)
	n.send()
}

// attend notes whether the node votes in the batch that was taken, and tells when
// it does so again.
func (n *Node) attend(now clock.Instant) {
	votes := n.batch.silent == nil
	if votes && n.away {
		n.Returned.Store(int64(now))
		n.observer.Returned(n.Index)
	}
	n.away = !votes
}

// take moves what may be sent now into the batch.
func (n *Node) take(now clock.Instant) {
	b := &n.batch
	b.reset()
	b.epoch, b.silent = n.epoch, n.silence() // once: what is taken is marked by it
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue.take(b, now)
	n.sending = b.releases
}

// send puts the batch on the wire and hands out the replies.
func (n *Node) send() {
	b := &n.batch
	b.at = n.Clock.Early()
	b.reading = reading(b.at)
	n.settlePushes()
	if b.silent != nil {
		n.abstain(b.silent)
	}
	n.keepEntries()
	if len(b.late) > 0 {
		b.polls = append(b.polls, n.Cfg.Untold(b.late)...)
	}
	b.addCalls()
	if b.sample || b.grants() && !n.Cfg.TrustClocks || len(b.calls) > 0 && n.sampleIsOld() {
		b.addSample(n.Clock.Early()) // behind what may be granted
	}
	if len(b.calls) > 0 && n.identityIsOld() {
		b.addIdentity()
	}
	b.addPolls() // they count nothing that a clock could spoil
	if len(b.calls) > 0 {
		sent := n.Clock.Early()
		n.conn.exec(b.commands())
		n.observer.Called(n.Index, n.Clock.Early().Sub(sent))
		n.handOut()
	}
	if len(b.releases) > 0 {
		n.mu.Lock()
		n.sending = nil
		n.mu.Unlock()
	}
}

// abstain answers all that asks for a vote: the node gives none. A bid is recorded
// there all the same, by a look, so that the node knows who waits when it votes again.
func (n *Node) abstain(cause error) {
	b := &n.batch
	for _, rounds := range [][]*Round{b.raises, b.acquires, b.bids, b.shares, b.slots} {
		for _, r := range rounds {
			r.deliver(n.Index, quorum.Vote{Outcome: quorum.Abstained}, cause)
		}
	}
	for _, g := range b.groups {
		g.answer(g, n.Index, quorum.Abstained, nil, cause)
	}
	b.late = append(append(b.late, b.bids...), b.slots...)
	for _, r := range b.shares {
		if r.hasPlace() {
			b.late = append(b.late, r)
		}
	}
	b.raises, b.acquires, b.bids, b.groups = b.raises[:0], b.acquires[:0], b.bids[:0], b.groups[:0]
	b.shares, b.slots = b.shares[:0], b.slots[:0]
}
