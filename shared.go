package redlock

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
func (l *Lock) Shared() bool { return l.claim.Shared }
