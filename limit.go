package redlock

import (
	"fmt"

	"github.com/quorumkit/redlock/internal/lua"
)

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
	if l.claim.Slot == nil {
		return -1
	}
	return l.claim.Slot.Number
}

// validateLimit checks what WithLimit was given, and what else.
func (t *terms) validateLimit() error {
	switch {
	case !t.limited:
		return nil
	case t.limit < 1 || t.limit > MaxLimit:
		return fmt.Errorf("%w: WithLimit %d: give 1 to %d", ErrInvalidOption, t.limit, MaxLimit)
	case t.shared:
		return fmt.Errorf("%w: WithLimit and WithShared exclude each other: a slot is held alone", ErrInvalidOption)
	case t.reentry:
		return fmt.Errorf("%w: WithLimit and WithReentry exclude each other: leave WithReentry out, here or where the Locker was made, and pass the Lock on", ErrInvalidOption)
	}
	return nil
}

// checkLimit checks whether the keys of the slots fit.
func (t *terms) checkLimit(key string) error {
	if t.limited && len(key)+lua.LongestSlot > MaxResourceLength {
		return fmt.Errorf("%w: WithLimit: the name, prefix included, is longer than %d bytes", ErrInvalidResource, MaxResourceLength-lua.LongestSlot)
	}
	return nil
}
