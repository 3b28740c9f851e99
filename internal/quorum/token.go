package quorum

import "strconv"

// Token is a fencing token: an unsigned integer that a quorum of nodes assigned
// to one acquisition of one resource, greater than every token issued before for
// that resource. Zero is never issued, so the zero value means "no token".
//
// A token is worth something only where it is checked: send it along with every
// write to the protected resource, and let the resource refuse a token smaller
// than the largest it has seen (Kleppmann, "How to do distributed locking",
// 2016). Package fencing has such guards.
type Token uint64

// MaxToken is the largest token a node issues. Scripts count in doubles, which
// are exact below 2^53; near it a node abstains rather than round.
const MaxToken Token = 1<<53 - 1

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// vote is one node's answer in a round, with the value that it gave to this
// acquisition where it granted.
type vote struct {
	outcome Outcome
	token   Token
}

// ruling is what the votes of an acquisition say of its token.
type ruling uint8

const (
	unsettled ruling = iota // fewer than a quorum granted: there is no token yet
	settled                 // a quorum holds exactly this value
	waiting                 // replies that are still out can make a quorum equal
	uneven                  // they cannot: the smaller grants must be raised to the largest
)

// settle applies the issue rule to the votes of one acquisition. A token is any
// value that a quorum of nodes assigned to it: on one node a stripe only rises,
// so a node gives a value to one acquisition of a name only, and two equal
// tokens would have to meet in a node. With settled, t is the token; with
// uneven, it is the largest grant known, to which the others are to be raised.
//
// Waiting for stragglers is for speed alone (a second round costs more than the
// last reply of the first), and the caller bounds it.
func settle(votes []vote) (r ruling, t Token) {
	q, granted, pending, equal := quorumOf(len(votes)), 0, 0, 0
	for i, v := range votes {
		switch v.outcome {
		case Granted:
			granted++
			t = max(t, v.token)
			same := sameToken(votes[i:], v.token)
			if same >= q {
				return settled, v.token
			}
			equal = max(equal, same)
		case Pending:
			pending++
		case Taken, Abstained, Unknown, Failed:
		}
	}
	switch {
	case granted < q:
		return unsettled, 0
	case equal+pending >= q:
		return waiting, t
	default:
		return uneven, t
	}
}

// sameToken counts the grants of exactly this value.
func sameToken(votes []vote, t Token) int {
	n := 0
	for _, v := range votes {
		if v.outcome == Granted && v.token == t {
			n++
		}
	}
	return n
}

// needsRaise tells whether a node with this vote is asked to raise its grant to
// t: only one whose smaller grant is known, because nothing else proves that the
// node's stripe is at most t for this owner.
func needsRaise(v vote, t Token) bool { return v.outcome == Granted && v.token < t }
