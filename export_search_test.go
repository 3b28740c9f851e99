package redlock

import "time"

// What the searches and the proofs of the pure rules need of the inside.
type (
	Ballot   = vote
	Ruling   = ruling
	Verdict  = verdict
	Instant  = instant
	Validity = validity
)

const (
	Unsettled = unsettled
	Settled   = settled
	Waiting   = waiting
	Uneven    = uneven

	Undecided = undecided
	Won       = won
	Lost      = lost
	Contended = contended
	NoQuorum  = noQuorum

	DriftFloor = driftFloor
)

func BallotOf(o Outcome, t Token) vote { return vote{o, t} }

func (v vote) Outcome() Outcome { return v.outcome }

func (v vote) Token() Token { return v.token }

func QuorumOf(n int) int { return quorumOf(n) }

func VerdictOf(votes []vote) verdict { return count(votes).verdict() }

func Settle(votes []vote) (ruling, Token) { return settle(votes) }

func NeedsRaise(v vote, t Token) bool { return needsRaise(v, t) }

func Drift(ttl time.Duration, factor float64) time.Duration { return drift(ttl, factor) }

func ValidUntil(t instant) validity { return validity{until: t} }

func ValidFrom(start instant, ttl time.Duration, factor float64) validity {
	return validFrom(start, ttl, factor)
}

func (v validity) Until() instant { return v.until }

func (v validity) Remaining(now instant) time.Duration { return v.remaining(now) }

func (v validity) Holds(now instant) bool { return v.holds(now) }

func (v validity) Confirm(next validity, now instant) (validity, bool) { return v.confirm(next, now) }

// What the search of the queue needs besides.
type (
	Bid     = bid
	Hearing = hearing
)

func (b *bid) Due(all bool, nodes int, granted uint64) uint64 { return b.due(all, nodes, granted) }
func (b *bid) Unasked(nodes int) uint64                       { return b.unasked(nodes) }
func (b *bid) Ask(nodes uint64)                               { b.ask(nodes) }
func (b *bid) Again(i int) bool                               { return b.again(i) }
func (b *bid) Answered(i int)                                 { b.answered(i) }
func (b *bid) Hint(i int)                                     { b.hinted |= 1 << i }
func (b bid) Bits() (asked, out, hinted uint64)               { return b.asked, b.out, b.hinted }

func BidOf(asked, out, hinted uint64) bid { return bid{asked, out, hinted} }

func Ticket(n int64) hearing { return hearing{ticket: n} }

func PositionOf(votes []vote, heard []hearing) (int64, bool) { return positionOf(votes, heard) }

func TurnLeft(held, turns int) bool { return turnLeft(held, turns) }

// What the search of the hand-over inside a process needs besides.
type Mark = mark

const (
	Absent  = absent
	Unsure  = unsure
	Present = present

	PassGoes    = passGoes
	PassGone    = passGone
	PassDoubted = passDoubted
	PassOver    = passOver
)

func (m mark) Doubtful() bool       { return m.doubtful() }
func (m mark) After(o Outcome) mark { return m.after(o) }

func PassingOf(old mark, votes, over bool) passing { return passingOf(old, votes, over) }

func TookOver(o Outcome) bool { return tookOver(o) }

func (m mark) Again() mark { return m.again() }
