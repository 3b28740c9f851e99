package quorum

// Mark is what a node may hold of a claim: nothing, or any of these together.
type Mark uint8

// The marks.
const (
	Absent  Mark = 0         // nothing was sent, or it is known not to be there
	Present Mark = 1 << iota // the node said so, and has confirmed no release since
	Unsure                   // a command is sent, and no reply is known: it may still put the claim there
	doubted                  // the same of an earlier command, no matter what a later one brings
	Behind                   // what it is to be handed over from may be there, and has to go first
	PutBack                  // a renewal put it there: an entry may stand beside it
)

// Doubtful tells whether a command may still come that puts the claim there: a
// release must leave a tombstone against it.
func (m Mark) Doubtful() bool { return m&(Unsure|doubted) != 0 }

// Again is the mark while a further command is under way that may put the claim
// there. One that got no reply may still come after the reply to this one: its
// connection may be the slower one.
func (m Mark) Again() Mark {
	if m&Unsure != 0 {
		m |= doubted
	}
	return m | Unsure
}

// Doubted is the mark where a command may come at any time from now on that puts the
// claim there.
func (m Mark) Doubted() Mark { return m | doubted }

// After is the mark when a command has come to an outcome. That one was refused does
// not undo what an earlier one did: what is there stays until it is released.
func (m Mark) After(o Outcome) Mark {
	switch o {
	case Unknown, Pending:
		return m
	case Granted:
		return m&^Unsure | Present
	case Taken, Abstained, Failed, Unlisted:
	}
	return m &^ Unsure
}
