package clock_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
)

func TestAStepIsSeenBeyondTheRoundTripAndTheDriftAndNeverInvented(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name     string
		sent     time.Duration // of the second sample; the first is asked for at 0 and answered at 2 ms
		trip     time.Duration
		server   time.Duration // its clock at the second sample; at the first it shows an hour
		stepped  bool
		positive bool
	}{
		{"steady", 1000 * ms, 2 * ms, time.Hour + 1001*ms, false, false},
		{"fast within the drift", 1000 * ms, 2 * ms, time.Hour + 1009*ms, false, false},
		{"slow within the drift", 1000 * ms, 2 * ms, time.Hour + 993*ms, false, false},
		{"within a long round trip", 1000 * ms, 250 * ms, time.Hour + 1240*ms, false, false},
		{"forward", 1000 * ms, 2 * ms, time.Hour + 1030*ms, true, true},
		{"back", 1000 * ms, 2 * ms, time.Hour + 970*ms, true, false},
		{"far forward in a long round trip", 1000 * ms, 250 * ms, time.Hour + 21*time.Second, true, true},
		{"far back", 1000 * ms, 2 * ms, -time.Hour, true, false},
	} {
		got := stepBetween([2]time.Duration{0, tt.sent}, [2]time.Duration{2 * ms, tt.sent + tt.trip},
			[2]time.Duration{time.Hour + ms, tt.server}, 0.01)
		if (got != 0) != tt.stepped || tt.stepped && (got > 0) != tt.positive {
			t.Errorf("%s: got a step of %v; want stepped=%v, forward=%v", tt.name, got, tt.stepped, tt.positive)
		}
	}
}

// stepBetween judges two samples of a node's clock: each was asked for, answered
// by a server that showed a time, and received, all since some origin.
func stepBetween(sent, received [2]time.Duration, server [2]time.Duration, factor float64) time.Duration {
	r := func(i int) clock.Sample {
		return clock.SampleOf(clock.Instant(sent[i]), clock.Instant(received[i]), time.Unix(0, int64(server[i])))
	}
	return r(0).StepTo(r(1), factor)
}

// sample is a sample of a node's clock: asked for, answered by a server that
// showed a time, and received, all since some origin.
type sample struct {
	Node                  int
	Sent, Received, Shows time.Duration
}

// A clock that runs too fast or too slow is seen however often it is read: what is
// allowed between two readings does not add up.
func TestAClockThatRunsTooFastIsSeenHoweverOftenItIsRead(t *testing.T) {
	const factor = 0.01
	for _, rate := range []float64{1.03, 1.5, 0.97, 0.5} {
		for _, every := range []time.Duration{100 * time.Microsecond, time.Millisecond, 100 * time.Millisecond, time.Second} {
			var samples []sample
			for at := time.Duration(0); at < 5*time.Second; at += every {
				samples = append(samples, readAt(at, 50*time.Microsecond, rate))
			}
			if firstStep(factor, samples) == 0 {
				t.Errorf("a clock at %v times the rate, read every %v for five seconds: nothing was seen", rate, every)
			}
		}
	}
}

// A clock that keeps the rate to within the drift is never said to have stepped,
// however often it is read, and however long a sample takes.
func TestManySamplesOfAGoodClockInventNoStep(t *testing.T) {
	const factor = 0.01
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		rate := 1 + factor*(2*r.Float64()-1)
		var samples []sample
		for at := time.Duration(0); len(samples) < 300; {
			at += time.Duration(r.Int64N(int64([]time.Duration{time.Millisecond, 300 * time.Millisecond, time.Minute}[r.IntN(3)])))
			s := readAt(at, time.Duration(r.Int64N(int64(250*time.Millisecond))), rate)
			s.Sent -= time.Duration(r.Int64N(int64(time.Second))) // too early, where a suspend was not asked about
			samples = append(samples, s)
			at = s.Received
		}
		if n := firstStep(factor, samples); n != 0 {
			t.Fatalf("at %v times the rate: got a step at sample %d; want none", rate, n)
		}
	}
}

// readAt reads a clock that runs at a rate, at a time, by a round trip.
func readAt(at, trip time.Duration, rate float64) sample {
	return sample{Sent: at, Received: at + trip, Shows: time.Hour + time.Duration(float64(at+trip/2)*rate)}
}

// firstStep reads a clock again and again, as a node's is, and returns how many
// samples it took to see a step; 0 if none was seen.
func firstStep(factor float64, samples []sample) int {
	var known clock.Sample
	for i, s := range samples {
		next := clock.SampleOf(clock.Instant(s.Sent), clock.Instant(s.Received), time.Unix(0, int64(s.Shows)))
		switch {
		case i == 0:
			known = next
		case known.StepTo(next, factor) != 0:
			return i + 1
		default:
			known = known.Narrow(next, factor)
		}
	}
	return 0
}
