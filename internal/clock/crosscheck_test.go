package clock_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
)

// clocks makes samples of nodes whose clocks are apart, by an hour each.
type clocks []sample

// at samples a node at a moment; its clock has moved against ours since the start.
func (c *clocks) at(now time.Duration, node int, moved, trip time.Duration) {
	*c = append(*c, sample{
		Node: node, Sent: now, Received: now + trip, Shows: now + trip/2 + moved + time.Duration(node+1)*time.Hour,
	})
}

func TestOtherNodesClocksBringToLightWhatALongGapHides(t *testing.T) {
	const ms, gap = time.Millisecond, time.Hour // the drift factor allows for 36 s
	after := func(moved ...time.Duration) clocks {
		var c clocks
		for i := range moved {
			c.at(ms, i, 0, ms)
		}
		for i, m := range moved {
			c.at(gap, i, m, ms)
		}
		return c
	}
	const s = time.Second
	for _, tt := range []struct {
		name    string
		samples clocks
		want    []int
	}{
		{"steady", after(0, 0, 0), nil},
		{"one forward", after(10*s, 0, 0), []int{0}},
		{"one back", after(0, 0, -10*s), []int{2}},
		{"a majority, alike", after(10*s, 10*s, 0), []int{0, 1}},
		{"a majority, alike, the witness first", after(0, 10*s, 10*s), []int{1, 2}},
		{"within a tenth of the drift", after(3*s, 0, 0), nil},
		{"all alike: nobody tells it from our own clock's error", after(10*s, 10*s, 10*s), nil},
		{"our own clock is off, and one steps: nobody vouches for ours", after(10*s, 10*s, 20*s), nil},
		{"one node alone", after(10 * s), nil},
		{"a gap of ten seconds is the node's own sample's", func() (c clocks) {
			for _, at := range []time.Duration{ms, 10 * s} {
				c.at(at, 0, at/200, ms)
				c.at(at, 1, 0, ms)
			}
			return c
		}(), nil},
		{"the witness was asked too late", func() (c clocks) {
			c.at(ms, 0, 0, ms)
			c.at(ms, 1, 0, ms)
			c.at(gap, 0, 10*s, ms)
			c.at(gap+2*s, 1, 0, ms)
			return c
		}(), nil},
		{"the witness was first asked too late", func() (c clocks) {
			c.at(ms, 0, 0, ms)
			c.at(2*s, 1, 0, ms)
			c.at(gap, 0, 10*s, ms)
			c.at(gap, 1, 0, ms)
			return c
		}(), nil},
		{"the witness's round trip leaves it open", func() (c clocks) {
			c.at(ms, 0, 0, ms)
			c.at(ms, 1, 0, ms)
			c.at(gap, 0, 10*s, ms)
			c.at(gap-10*s, 1, 0, 10*s)
			return c
		}(), nil},
		{"a node that was away, while the others were asked all the time", func() (c clocks) {
			c.at(0, 0, 0, ms)
			for at := time.Duration(0); at <= 5*time.Minute; at += 100 * ms {
				c.at(at, 1, 0, ms)
			}
			c.at(5*time.Minute, 0, s, ms)
			return c
		}(), []int{0}},
	} {
		got := stepsWitnessed(3, 0.01, tt.samples)
		if nodes := slices.Sorted(maps.Keys(got)); !slices.Equal(nodes, tt.want) {
			t.Errorf("%s: got steps %v; want of the nodes %v", tt.name, got, tt.want)
		}
	}
}

// Clocks that run within a tenth of the drift factor are never said to have
// stepped, however they are asked.
func TestWitnessesInventNoStep(t *testing.T) {
	const factor = 0.01
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		nodes := 2 + r.IntN(4)
		rates := make([]float64, nodes)
		for i := range rates {
			rates[i] = factor * 0.1 * (2*r.Float64() - 1)
		}
		var c clocks
		now := time.Duration(0)
		for range 30 {
			now += time.Duration(r.Int64N(int64([]time.Duration{time.Second, time.Minute, time.Hour}[r.IntN(3)])))
			for i := range nodes {
				if r.IntN(4) > 0 {
					c.at(now, i, time.Duration(float64(now)*rates[i]), time.Duration(r.Int64N(int64(300*time.Millisecond))))
				}
			}
		}
		if got := stepsWitnessed(nodes, factor, c); len(got) > 0 {
			t.Fatalf("rates %v: got steps %v; want none", rates, got)
		}
	}
}

// stepsWitnessed lets the nodes witness the samples, one after another, and
// returns the steps that they brought to light.
func stepsWitnessed(nodes int, factor float64, samples []sample) map[int]time.Duration {
	w, found := clock.NewCrossCheck(nodes, factor), map[int]time.Duration{}
	for _, s := range samples {
		for _, step := range w.Take(s.Node, clock.SampleOf(clock.Instant(s.Sent), clock.Instant(s.Received), time.Unix(0, int64(s.Shows)))) {
			found[step.Node] += step.By
		}
	}
	return found
}
