package quorum

import "strconv"

// Token is a fencing token: an unsigned integer that a quorum of nodes assigned
// to one acquisition of one resource, greater than every token issued before for
// that resource. Zero is never issued.
type Token uint64

// MaxToken is the largest token a node issues. Scripts count in doubles, which
// are exact below 2^53; near it a node abstains rather than round.
const MaxToken Token = 1<<53 - 1

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// Vote is one node's answer in a round, with the value that it gave to this
// acquisition where it granted.
type Vote struct {
	Outcome Outcome
	Token   Token
}

// TokenVerdict is what the votes of an acquisition say of its token.
type TokenVerdict uint8

// What the votes can say of it.
const (
	Unsettled TokenVerdict = iota // fewer than a quorum granted: there is no token yet
	Settled                       // a quorum holds exactly this value
	Waiting                       // replies that are still out can make a quorum equal
	Uneven                        // they cannot: the smaller grants must be raised to the largest
)

// Settle applies the issue rule to the votes of one acquisition. A token is any
// value that a quorum of nodes assigned to it: on one node a stripe only rises,
// so a node gives a value to one acquisition of a name only, and two equal
// tokens would have to meet in a node. With settled, t is the token; with
// uneven, it is the largest grant known, to which the others are to be raised.
//
// Waiting for stragglers is for speed alone (a second round costs more than the
// last reply of the first), and the caller bounds it.
func Settle(votes []Vote) (r TokenVerdict, t Token) {
	q, granted, pending, equal := Needed(votes), 0, 0, 0
	for i, v := range votes {
		switch v.Outcome {
		case Granted:
			granted++
			t = max(t, v.Token)
			same := SameToken(votes[i:], v.Token)
			if same >= q {
				return Settled, v.Token
			}
			equal = max(equal, same)
		case Pending:
			pending++
		case Taken, Abstained, Unknown, Failed, Unlisted:
		}
	}
	switch {
	case granted < q:
		return Unsettled, 0
	case equal+pending >= q:
		return Waiting, t
	default:
		return Uneven, t
	}
}

// SameToken counts the grants of exactly this value.
func SameToken(votes []Vote, t Token) int {
	n := 0
	for _, v := range votes {
		if v.Outcome == Granted && v.Token == t {
			n++
		}
	}
	return n
}

// NeedsRaise tells whether a node with this vote is asked to raise its grant to
// t: only one whose smaller grant is known, because nothing else proves that the
// node's stripe is at most t for this owner.
func NeedsRaise(v Vote, t Token) bool { return v.Outcome == Granted && v.Token < t }
