package redlock

import (
	"time"

	"github.com/quorumkit/redlock/internal/lua"
)

// WithShared takes a shared hold: beside other shared holds of the name, never beside an
// exclusive one, which is what every acquire without this option takes. While anybody
// shares a name, it is taken for all others, other programs' SET NX among them. Many who
// read share, and one who writes takes it exclusively.
//
// Those who share a name at one time mostly have the same token, and none has a smaller
// one than a holder before. It is greater than that of every exclusive hold before, and
// every later exclusive hold has a greater one; so a resource that refuses what is below
// the largest token that it has seen refuses a stale writer as ever.
//
// TryAcquire succeeds beside other shared holds unless somebody waits for an exclusive
// one. Acquire waits in line: one that stands in it on a quorum of nodes has its turn before
// one that came later, of either kind. A release calls the first in line; if that wants to
// share, all who want so and stand before the next exclusive one are called with it. So an
// exclusive hold comes when those before it have released, though shared ones are asked for
// all the time, and the other way round. Within a Locker the line is first in, first out
// over both kinds, and a goroutine that comes while others of its Locker wait to share has a
// place of its own, behind theirs. A hold is not handed on between the kinds, so WithTurns
// does not count shared ones.
//
// Of a holder who died, of either kind, those behind it wait for the lease. Behind one who
// waited for an exclusive hold and died, while others share the name, who waits to share
// waits for three to five seconds.
//
// Inspect shows who shares a name, each with what remains of its own lease.
//
// With WithReentry, a shared acquire inside a hold of the name, shared or exclusive, is a
// handle on that hold, and has its kind. An exclusive one inside a shared hold is
// ErrUpgrade, at once. Without WithReentry on both it waits, for itself, until its context
// ends; the error then says that this Locker holds the name.
func WithShared() AcquireOption { return acquireOption(func(t *terms) { t.shared = true }) }

// Shared tells whether the hold is shared (WithShared).
func (l *Lock) Shared() bool { return l.hold.Claim.Shared() }

// MaxLimit is the largest n that WithLimit takes, 48.
const MaxLimit = lua.MaxSlots

// WithLimit takes one of n slots of the name: at most n holds of it stand at once, n from 1
// to MaxLimit. It is a counting semaphore. Acquire waits until a slot is free, in one line
// for all of them, and TryAcquire takes one that is free where nobody waits: while others
// take what it asks for, it makes another attempt, n+1 at most. Within a Locker the
// goroutines take their turns as they come, and each stands in line anew. The one of them
// that does is handed a slot that another releases, before other processes have their turn:
// each slot at most as often in a row as WithTurns says.
//
// Each slot is a lock of its own, with its own number (Lock.Slot), lease, renewal and
// token. A slot whose holder died comes back with its lease. So that a resource can refuse
// a holder whose time is over, it keeps the largest token for the name and the slot: the
// tokens of two slots say nothing of each other. A guard that is asked for the name alone
// would refuse a valid holder. So the context carries the token under the name and the slot,
// as "name/slot", and none under the name. Ask the guard for that one: the function of Do is
// given the Lock, which says both (docs/FENCING.md has an example).
//
// n is the callers': give all of them the same. While they differ, the largest holds for
// all, and those with a smaller one only see its first slots. One of those that waits keeps
// all who come later waiting, beside slots too that are free for them: there is one line. To
// change n, roll it out.
// A hold with WithLimit and one without do not exclude each other, WithLimit(1) included.
//
// Another n, WithShared or WithReentry beside it, AcquireAll and Campaign are
// ErrInvalidOption. The name, prefix included, has 16 bytes less than any other may have;
// else it is ErrInvalidResource. A caller that holds a slot and waits for another may wait
// for ever: take one.
func WithLimit(n int) AcquireOption {
	return acquireOption(func(t *terms) { t.limited, t.limit = true, n })
}

// Slot returns the number of the slot that is held, from 0 to n-1 (WithLimit), or -1 of a
// hold without a limit.
func (l *Lock) Slot() int {
	if slot := l.hold.Claim.Slot(); slot != nil {
		return slot.Number
	}
	return -1
}

// WithMinHold makes Do, TryDo and DoAll keep the lock for at least d from when it was acquired,
// though fn returns earlier. It is for a short job that several machines begin at the
// same time by clocks that differ: a latecomer finds the name taken, and leaves the
// job out. So d is longer than the clocks are apart, and shorter than the job's period.
// ShedLock calls it lockAtLeastFor.
//
// Do does not wait for d: it returns when fn does. The lock is renewed meanwhile, taken
// for this Locker as well, and released in the background when d has passed. It is kept
// with any result of fn, also if it panics or ctx ends, for the job may have been done. It
// is not kept any more when fn releases it, when it is lost, and when the Locker is
// closed: at the end of a process, close it after d. A loss that comes after
// fn has returned is an event, not Do's error.
//
// Where Do enters a hold that ctx carries (WithReentry), that one lasts for at least d
// from then on.
//
// d must be positive, at most WithMaxHold where that is given, and at most what
// WithFixedLease leaves (less what the acquire took, or the lease ends first). Otherwise
// it is ErrInvalidOption. So is the option where Acquire, TryAcquire, AcquireAll,
// TryAcquireAll or Campaign has it: a Release ends a hold at once, and so does a leader
// that resigns.
func WithMinHold(d time.Duration) AcquireOption {
	return acquireOption(func(t *terms) {
		t.minHold = d
		if d == 0 {
			t.minHold = -1 // an explicit zero is refused, not taken for none
		}
	})
}
