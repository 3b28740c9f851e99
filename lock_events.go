package redlock

import (
	"errors"

	"github.com/quorumkit/redlock/internal/clock"
)

// begun is the event of a hold that begins: start is when the attempt was sent.
func (l *Lock) begun(t terms, start clock.Instant) Event {
	return Event{
		Kind: LockAcquired, Duration: l.since.Sub(t.call.began), Waited: start.Sub(t.call.began),
		Validity: l.valid.Remaining(l.since),
		Attempts: t.call.failed + 1, Rounds: l.claim.rounds, Turn: t.call.turn,
	}
}

// tellEnd tells why the hold ended; mu is held.
func (l *Lock) tellEnd(now clock.Instant) {
	e := Event{Kind: LockReleased, Reason: ending(l.cause), Held: now.Sub(l.since), Validity: l.valid.Remaining(now)}
	if errors.Is(l.cause, ErrLost) {
		e.Kind, e.Err = LockLost, l.cause
	}
	l.tell(e)
}

// tellExtension tells what became of an extension of a lock that is held; failure is
// nil where a quorum confirmed it. A fixed lease that the Locker itself confirms is
// not extended.
func (l *Lock) tellExtension(x *extension, failure *QuorumError) {
	if l.fixed && x.renewal {
		return
	}
	now := l.locker.clock.Early()
	l.mu.Lock()
	e := Event{Kind: LockExtended, Duration: now.Sub(x.start), Validity: l.valid.Remaining(now), Renewal: x.renewal}
	l.mu.Unlock()
	if failure != nil {
		e.Kind, e.Err, e.Reason = ExtendFailed, failure, ReasonNoQuorum
	}
	l.tell(e)
}

// tell tells an event of this lock.
func (l *Lock) tell(e Event) {
	e.Node, e.Resource, e.Token, e.Context = -1, l.resource, l.Token(), l.values
	l.locker.cfg.journal.tell(e)
}
