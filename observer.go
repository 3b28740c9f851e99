package redlock

// EventKind says what an Event is about.
type EventKind uint8

const (
	// NodeDown says that a node stopped answering, or refuses; Err says why.
	NodeDown EventKind = iota + 1
	// NodeUp says that a node that was down answers again.
	NodeUp
	// NodeAbstains says that a node answers and does not vote; Err says why.
	NodeAbstains
	// NodeVotes says that a node votes that abstained.
	NodeVotes
	// ClusterFounded says that this client made a node a member beyond the table
	// of the ordinary way: a new cluster, or one whose majority lost its memory.
	// Tokens lean on the clocks there once; Err says where.
	ClusterFounded
	// LockLost says that a lock ended without having been released; Err says why.
	LockLost
	// NodeClockStepped says that a node's clock stepped, and that it abstains for
	// MaxTTL; Err says by how much.
	NodeClockStepped
	// ReleaseUnconfirmed says that no quorum confirmed a release within its bound; Err is
	// the *QuorumError. The hold is over all the same, and the rollback goes on.
	ReleaseUnconfirmed
)

var eventNames = [...]string{"", "node down", "node up", "node abstains", "node votes", "cluster founded", "lock lost", "node clock stepped", "release unconfirmed"}

// String returns the kind in words.
func (k EventKind) String() string {
	if int(k) < len(eventNames) && k > 0 {
		return eventNames[k]
	}
	return "invalid"
}

// Event is something that the library noticed by itself. Fields that do not
// apply are zero; fields may be added in later versions.
type Event struct {
	Kind     EventKind
	Node     int    // index of the node in the list given to New or Open; -1 for a lock's event
	Name     string // the node's name
	Resource string // of a lock's event
	Token    Token  // of a lock's event
	Err      error  // the cause
}

// observer hands events to the user's function, or nowhere.
type observer func(Event)

func (o observer) tell(e Event) {
	if o != nil {
		o(e)
	}
}
