package main

// ending is the last event of a command that takes a lock: with --json, every end of exec,
// lead and hold has a line on stderr with its event, key and status. What is told of it
// grows while the command goes on.
type ending struct{ event }

func newEnding() *ending { return &ending{event{Event: "ended"}} }

// of has the end tell of the keys that were asked for.
func (e *ending) of(keys []string) {
	if e != nil && len(keys) > 0 {
		e.Key = keys[0]
	}
}

// after has the end tell of what was held.
func (e *ending) after(last event) {
	if e != nil {
		e.event = last
	}
}

// tellEnd says how a command ended: as an event where those are wanted, in words
// otherwise, if there are any.
func (a *app) tellEnd(code int, message string) {
	switch {
	case a.JSON && a.ending != nil:
		e := a.ending.event
		e.Status, e.Message = &code, unnamed(message)
		w := newEventWriter(a.Console)
		w.tell(e)
		w.close()
	case message != "":
		a.complain(message)
	}
}
