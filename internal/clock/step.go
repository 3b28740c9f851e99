package clock

import (
	"fmt"
	"time"
)

// reading is one sample of a node's clock: bounds of what it is ahead of ours.
// The server read its clock at some moment between our sending and our receiving,
// so the offset is known no better than the round trip.
type reading struct {
	least, most time.Duration
	at          instant // when the reply was received
}

// readClock makes a reading of a TIME that was asked for at sent and answered at
// received.
func readClock(sent, received instant, server time.Time) reading {
	t := time.Duration(server.UnixNano())
	return reading{least: t - time.Duration(received), most: t - time.Duration(sent), at: received}
}

// stepTo is how far the node's clock has stepped between two readings, beyond
// what the drift factor allows for the time between; 0 if it need not have. A
// clock that runs too fast or too slow shows as a row of steps.
func (r reading) stepTo(next reading, factor float64) time.Duration {
	return r.moveTo(next).beyond(drift(next.at.sub(r.at), factor))
}

// narrow is what two readings say together, as of the later one. Each says where the
// clock can be, within the round trip; the earlier one is that much wider by now as
// clocks may drift. A reading with a long round trip so takes nothing away from what
// was known, and many that follow closely do not add up what is allowed between two:
// a clock that runs too fast is as far from where it was as ever.
//
// Where they leave no room, by less than a step, the earlier one stands: the next
// tells more.
func (r reading) narrow(next reading, factor float64) reading {
	wider := time.Duration(float64(next.at.sub(r.at)) * factor)
	old := reading{least: r.least - wider, most: r.most + wider, at: next.at}
	both := reading{least: max(old.least, next.least), most: min(old.most, next.most), at: next.at}
	if both.least > both.most {
		return old
	}
	return both
}

// movement is how far a node's clock moved against ours between two readings:
// bounds of it.
type movement struct{ least, most time.Duration }

func (r reading) moveTo(next reading) movement {
	return movement{least: next.least - r.most, most: next.most - r.least}
}

// beyond is how far it moved at least, if that is more than slack; else 0.
func (m movement) beyond(slack time.Duration) time.Duration {
	switch {
	case m.least > slack:
		return m.least
	case m.most < -slack:
		return m.most
	default:
		return 0
	}
}

// within tells whether it certainly moved by no more than slack.
func (m movement) within(slack time.Duration) bool { return m.least >= -slack && m.most <= slack }

// stepError is why a node abstains whose clock stepped. A step forward ends
// leases early, so the node may have forgotten locks that are held; a step back
// keeps keys beyond their leases. Either way it is not believed until every lease
// of before is over: for MaxTTL, by the record as it was read after the step. What
// was read before may be out of date, because any client may raise it.
type stepError struct {
	by      time.Duration
	at      instant // when it was seen
	clock   *Clock
	longest func() time.Duration // MaxTTL, as far as it is known by now
}

// until is when the node is believed again.
func (e *stepError) until() instant { return e.at.add(e.longest()) }

func (e *stepError) Error() string {
	way := "forward"
	if e.by < 0 {
		way = "back"
	}
	left := max(e.until().sub(e.clock.early()), 0).Round(time.Millisecond)
	return fmt.Sprintf("its clock stepped %s by at least %v; it abstains for this client for MaxTTL (%v), %v more", way, e.by.Abs().Round(time.Millisecond), e.longest(), left)
}
