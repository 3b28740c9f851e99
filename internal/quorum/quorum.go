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
	Outcomes = iota // how many there are
)

var outcomeNames = [...]string{"pending", "granted", "taken", "abstained", "unknown", "failed"}

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

// Open tells whether the nodes that may have something are a quorum of our n nodes, or of
// another list: the indexes of ours, and -1 for another node, which may have it.
func Open(n int, others [][]int, may func(i int) bool) bool {
	ours := make([]int, n)
	for i := range ours {
		ours[i] = i
	}
	return slices.ContainsFunc(append(others, ours), func(list []int) bool {
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
	nodes   int
	Granted int
	Taken   int
	Pending int
}

// Count adds up the votes.
func Count(votes []Vote) Tally {
	t := Tally{nodes: len(votes)}
	for _, v := range votes {
		switch v.Outcome {
		case Granted:
			t.Granted++
		case Taken:
			t.Taken++
		case Pending:
			t.Pending++
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
	q := Size(t.nodes)
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
	q := Size(t.nodes)
	switch {
	case t.Granted >= q:
		return Won
	case t.nodes-t.Taken < q:
		return Lost
	case t.Granted+t.Pending < q:
		return NoQuorum
	default:
		return Undecided
	}
}
