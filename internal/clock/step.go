package clock

import (
	"fmt"
	"time"
)

// Sample is one reading of a node's clock: bounds of what it is ahead of ours.
// The server read its clock at some moment between our sending and our receiving,
// so the offset is known no better than the round trip.
type Sample struct {
	Least, Most time.Duration
	At          Instant // when the reply was received
}

// SampleOf makes a sample of a TIME that was asked for at sent and answered at
// received.
func SampleOf(sent, received Instant, server time.Time) Sample {
	t := time.Duration(server.UnixNano())
	return Sample{Least: t - time.Duration(received), Most: t - time.Duration(sent), At: received}
}

// StepTo is how far the node's clock has stepped between two samples, beyond
// what the drift factor allows for the time between; 0 if it need not have. A
// clock that runs too fast or too slow shows as a row of steps.
func (r Sample) StepTo(next Sample, factor float64) time.Duration {
	return r.moveTo(next).beyond(Drift(next.At.Sub(r.At), factor))
}

// Narrow is what two readings say together, as of the later one. Each says where the
// clock can be, within the round trip; the earlier one is that much wider by now as
// clocks may drift. A reading with a long round trip so takes nothing away from what
// was known, and many that follow closely do not add up what is allowed between two:
// a clock that runs too fast is as far from where it was as ever.
//
// Where they leave no room, by less than a step, the earlier one stands: the next
// tells more.
func (r Sample) Narrow(next Sample, factor float64) Sample {
	wider := time.Duration(float64(next.At.Sub(r.At)) * factor)
	old := Sample{Least: r.Least - wider, Most: r.Most + wider, At: next.At}
	both := Sample{Least: max(old.Least, next.Least), Most: min(old.Most, next.Most), At: next.At}
	if both.Least > both.Most {
		return old
	}
	return both
}

// movement is how far a node's clock moved against ours between two readings:
// bounds of it.
type movement struct{ least, most time.Duration }

func (r Sample) moveTo(next Sample) movement {
	return movement{least: next.Least - r.Most, most: next.Most - r.Least}
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

// StepError is why a node abstains whose clock stepped. A step forward ends
// leases early, so the node may have forgotten locks that are held; a step back
// keeps keys beyond their leases. Either way it is not believed until every lease
// taken earlier is over: for MaxTTL, by the record as it was read after the step. What
// was read before may be out of date, because any client may raise it.
type StepError struct {
	By      time.Duration
	At      Instant // when it was seen
	Clock   *Clock
	Longest func() time.Duration // MaxTTL, as far as it is known by now
}

// Until is when the node is believed again.
func (e *StepError) Until() Instant { return e.At.Add(e.Longest()) }

// Error says how far it stepped, and how long it is not believed.
func (e *StepError) Error() string {
	way := "forward"
	if e.By < 0 {
		way = "back"
	}
	left := max(e.Until().Sub(e.Clock.Early()), 0).Round(time.Millisecond)
	return fmt.Sprintf("its clock stepped %s by at least %v; it abstains for this client for MaxTTL (%v), %v more", way, e.By.Abs().Round(time.Millisecond), e.Longest(), left)
}
