// Package quorum is what the nodes' answers to a round mean: the verdict, the token,
// what a node may hold, and whose turn it is. Nothing here reads a clock or waits.
package quorum

import "slices"

// Outcome is what one node did in one round, as the public Outcome says.
type Outcome uint8

// The outcomes, each as the public one of its name.
const (
	Pending Outcome = iota
	Granted
	Taken
	Abstained
	Unknown
	Failed
	Unlisted        // the list that the round goes by does not have the node: it is not counted
	Outcomes = iota // how many there are
)

var outcomeNames = [...]string{"pending", "granted", "taken", "abstained", "unknown", "failed", "unlisted"}

// String returns the outcome in one word.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "invalid"
}

// MaxNodes is how many nodes a Locker takes: a lock keeps one bit for each.
const MaxNodes = 64

// Size is N/2+1: two quorums of the same N nodes share a node, for even N too.
func Size(n int) int { return n/2 + 1 }

// List is the list of nodes that a client goes by, one bit for each of its nodes. The zero value
// has all of them.
type List uint64

// Has reports whether the list has node i.
func (l List) Has(i int) bool { return l == 0 || l&(1<<i) != 0 }

// Quorum is the size of a quorum of the list, for a client with n nodes.
func (l List) Quorum(n int) int {
	if l == 0 {
		return Size(n)
	}
	listed := 0
	for rest := l; rest != 0; rest &= rest - 1 {
		listed++
	}
	return Size(listed)
}

// Nodes are those of the list, of a client with n, one bit each.
func (l List) Nodes(n int) uint64 {
	if l == 0 {
		return 1<<n - 1
	}
	return uint64(l)
}

// Indexes are the nodes of the list, of a client with n.
func (l List) Indexes(n int) (out []int) {
	for i := range n {
		if l.Has(i) {
			out = append(out, i)
		}
	}
	return out
}

// Leave takes the nodes out of votes that the list does not have.
func (l List) Leave(votes []Vote) {
	for i := range votes {
		if !l.Has(i) {
			votes[i].Outcome = Unlisted
		}
	}
}

// Needed is the size of a quorum of the list that a round went by.
func Needed(votes []Vote) int { return Size(Count(votes).Listed) }

// Open reports whether the nodes that may have something are a quorum of one of the lists, each
// the indexes of a client's nodes, and -1 for another node, which may have it.
func Open(lists [][]int, may func(i int) bool) bool {
	return slices.ContainsFunc(lists, func(list []int) bool {
		on := 0
		for _, i := range list {
			if i < 0 || may(i) {
				on++
			}
		}
		return on >= Size(len(list))
	})
}

// Verdict is what the votes of a round say so far.
type Verdict uint8

// The verdicts.
const (
	Undecided Verdict = iota
	Won               // a quorum granted
	Lost              // no quorum of grants is possible any more; the reason is still open
	Contended         // lost, and a quorum answered: it is someone else's
	NoQuorum          // lost, and fewer than a quorum can still answer: nobody can say
)

// Tally counts the outcomes of one round.
type Tally struct {
	Listed  int // nodes of the list
	Granted int
	Taken   int
	Pending int
}

// Count adds up the votes.
func Count(votes []Vote) Tally {
	t := Tally{Listed: len(votes)}
	for _, v := range votes {
		switch v.Outcome {
		case Granted:
			t.Granted++
		case Taken:
			t.Taken++
		case Pending:
			t.Pending++
		case Unlisted:
			t.Listed--
		case Abstained, Unknown, Failed:
		}
	}
	return t
}

// Verdict is won as soon as a quorum granted, and lost as soon as no quorum can:
// with four nodes split two to two that is at once, not when the timers end. A
// lost round goes on (as lost) until its reason is known as well, because
// callers react differently to contention and to a missing quorum.
func (t Tally) Verdict() Verdict {
	q := Size(t.Listed)
	switch {
	case t.Granted >= q:
		return Won
	case t.Granted+t.Pending >= q:
		return Undecided
	case t.Granted+t.Taken >= q:
		return Contended
	case t.Granted+t.Taken+t.Pending < q:
		return NoQuorum
	default:
		return Lost
	}
}

// Extension is the verdict on a lock that was to be confirmed. It is lost for
// good only when nodes that answered "not ours" leave no quorum possible; any
// other failure says nothing about the lock.
func (t Tally) Extension() Verdict {
	q := Size(t.Listed)
	switch {
	case t.Granted >= q:
		return Won
	case t.Listed-t.Taken < q:
		return Lost
	case t.Granted+t.Pending < q:
		return NoQuorum
	default:
		return Undecided
	}
}
