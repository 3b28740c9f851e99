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
// one. Acquire does not have a place in line yet: it looks again after a random pause
// (WithRetry), and may starve while exclusive holds are always waited for. Exclusive ones
// wait in line as ever, and are called when the last who shares releases; of one who died
// they wait for the lease.
//
// Inspect shows who shares a name, each with what remains of its own lease.
//
// With WithReentry, a shared acquire inside a hold of the name, shared or exclusive, is a
// handle on that hold, and has its kind. An exclusive one inside a shared hold is
// ErrUpgrade, at once.
func WithShared() AcquireOption { return acquireOption(func(t *terms) { t.shared = true }) }

// Shared tells whether the hold is shared (WithShared).
func (l *Lock) Shared() bool { return l.claim.Shared }
