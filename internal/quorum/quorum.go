// Package quorum is what the answers of the nodes to a round mean: the verdict, the token,
// what a node may hold, and whose turn it is. Nothing here reads a clock or waits.
package quorum

// Outcome is what one node did in one round. Unknown and Failed differ in what
// the caller must do next: an unknown command may have run, or may still run.
type Outcome uint8

const (
	// Pending is no reply yet when the verdict was known.
	Pending Outcome = iota
	// Granted means that the node gave, confirmed or removed what was asked.
	Granted
	// Taken means that the node answered, and the name is somebody else's (or, to an
	// extension or a raise, no longer ours).
	Taken
	// Abstained means that the node answered and does not vote: it is no member, or it
	// would not be trusted with this vote.
	Abstained
	// Unknown means that it timed out, or its connection was lost: it may have happened.
	Unknown
	// Failed means that it did not happen: never sent, or refused before the first write.
	Failed
)

var outcomeNames = [...]string{"pending", "granted", "taken", "abstained", "unknown", "failed"}

// String returns the outcome in one word.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "invalid"
}

// maxNodes is how many nodes a Locker takes: a lock keeps one bit for each.
const maxNodes = 64

// quorumOf is N/2+1: two quorums of the same N nodes share a node, for even N too.
func quorumOf(n int) int { return n/2 + 1 }

// verdict is what the votes of a round say so far.
type verdict uint8

const (
	undecided verdict = iota
	won               // a quorum granted
	lost              // no quorum of grants is possible any more; the reason is still open
	contended         // lost, and a quorum answered: it is someone else's
	noQuorum          // lost, and fewer than a quorum can still answer: nobody can say
)

// tally counts the outcomes of one round.
type tally struct {
	nodes   int
	granted int
	taken   int
	pending int
}

// count adds up the votes.
func count(votes []vote) tally {
	t := tally{nodes: len(votes)}
	for _, v := range votes {
		switch v.outcome {
		case Granted:
			t.granted++
		case Taken:
			t.taken++
		case Pending:
			t.pending++
		case Abstained, Unknown, Failed:
		}
	}
	return t
}

// verdict is won as soon as a quorum granted, and lost as soon as no quorum can:
// with four nodes split two to two that is at once, not when the timers end. A
// lost round goes on (as lost) until its reason is known as well, because
// callers react differently to contention and to a missing quorum.
func (t tally) verdict() verdict {
	q := quorumOf(t.nodes)
	switch {
	case t.granted >= q:
		return won
	case t.granted+t.pending >= q:
		return undecided
	case t.granted+t.taken >= q:
		return contended
	case t.granted+t.taken+t.pending < q:
		return noQuorum
	default:
		return lost
	}
}

// extension is the verdict on a lock that was to be confirmed. It is lost for
// good only when nodes that answered "not ours" leave no quorum possible; any
// other failure says nothing about the lock.
func (t tally) extension() verdict {
	q := quorumOf(t.nodes)
	switch {
	case t.granted >= q:
		return won
	case t.nodes-t.taken < q:
		return lost
	case t.granted+t.pending < q:
		return noQuorum
	default:
		return undecided
	}
}
