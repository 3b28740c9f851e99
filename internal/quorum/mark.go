package quorum

// mark is what a node may hold of a claim: nothing, or any of these together.
type mark uint8

const (
	absent  mark = 0         // nothing was sent, or it is known not to be there
	present mark = 1 << iota // the node said so, and has confirmed no release since
	unsure                   // a command is sent, and no reply is known: it may still put the claim there
	haunted                  // the same of an earlier command, whatever a later one brings
	behind                   // what it is to be handed over from may be there, and has to go first
)

// doubtful tells whether a command may still come that puts the claim there: a
// release must leave a tombstone against it.
func (m mark) doubtful() bool { return m&(unsure|haunted) != 0 }

// again is the mark while a further command is under way that may put the claim
// there. One that got no reply may still come after the reply to this one: its
// connection may be the slower one.
func (m mark) again() mark {
	if m&unsure != 0 {
		m |= haunted
	}
	return m | unsure
}

// after is the mark when a command has come to an outcome. That one was refused does
// not undo what an earlier one did: what is there stays until it is released.
func (m mark) after(o Outcome) mark {
	switch o {
	case Unknown, Pending:
		return m
	case Granted:
		return m&^unsure | present
	case Taken, Abstained, Failed:
	}
	return m &^ unsure
}
