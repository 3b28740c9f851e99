package redlock

// Tell makes a Locker tell an event.
func Tell(l *Locker, e Event) { l.cfg.recorder.tell(e) }

// RefusalOf and EndingOf are the reasons that an error and the cause of an end stand
// for.
var (
	RefusalOf = refusal
	EndingOf  = ending
)
