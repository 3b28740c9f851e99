package redlock

// Tell has a Locker tell an event.
func Tell(l *Locker, e Event) { l.cfg.recorder.tell(e) }

// RefusalOf and EndingOf are the reasons that an error and the cause of an end stand
// for.
var (
	RefusalOf = refusal
	EndingOf  = ending
)

// EventKinds is how many kinds of events there are.
const EventKinds = len(eventNames) - 1

// RateSeverity is what Check makes of a clock that runs faster by so much, give or
// take the bound.
func RateSeverity(by, bound, factor float64) Severity {
	return rate{by: by, bound: bound}.severity(factor)
}
