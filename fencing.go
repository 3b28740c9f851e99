package redlock

import (
	"github.com/quorumkit/redlock/internal/quorum"
)

// Token is a fencing token: an unsigned integer that a quorum of nodes assigned
// to one acquisition of one resource, greater than every token issued before for
// that resource. Zero is never issued, so the zero value means "no token".
//
// A token is worth something only where it is checked. Send it along with every
// write to the protected resource, and let the resource refuse a token smaller
// than the largest it has seen (Kleppmann, "How to do distributed locking",
// 2016). Package fencing has such guards.
type Token uint64

// MaxToken is the largest token a node issues. Scripts count in doubles, which
// are exact below 2^53; near it a node abstains rather than round.
const MaxToken Token = 1<<53 - 1

// The rules know the same bound.
var _ = [1]struct{}{}[MaxToken-Token(quorum.MaxToken)]

// String returns the token in decimal.
func (t Token) String() string { return quorum.Token(t).String() }
