package trace

// Moment is a step of a client at which a [Pause] stops it.
type Moment string

// The moments; what each is stands in package chaos.
const (
	AtAsk     Moment = "ask"
	AtReplies Moment = "replies"
	AtHeld    Moment = "held"
	AtWrite   Moment = "write"
	AtExtend  Moment = "extend"
	AtRelease Moment = "release"
)

// Moments are all of them, in the order of a client's work.
func Moments() []Moment { return []Moment{AtAsk, AtReplies, AtHeld, AtWrite, AtExtend, AtRelease} }
