package redlock

import "time"

// StepBetween judges two samples of a node's clock: each was asked for, answered
// by a server that showed a time, and received, all since some origin.
func StepBetween(sent, received [2]time.Duration, server [2]time.Duration, factor float64) time.Duration {
	r := func(i int) reading {
		return readClock(instant(sent[i]), instant(received[i]), time.Unix(0, int64(server[i])))
	}
	return r(0).stepTo(r(1), factor)
}

// ClockSample is a sample of a node's clock: asked for, answered by a server that
// showed a time, and received, all since some origin.
type ClockSample struct {
	Node                  int
	Sent, Received, Shows time.Duration
}

// StepsWitnessed gives the samples to the witnesses, one after another, and
// returns the steps that they brought to light.
func StepsWitnessed(nodes int, factor float64, samples []ClockSample) map[int]time.Duration {
	w, found := newWitnesses(nodes, factor), map[int]time.Duration{}
	for _, s := range samples {
		for _, slip := range w.sample(s.Node, readClock(instant(s.Sent), instant(s.Received), time.Unix(0, int64(s.Shows)))) {
			found[slip.node] += slip.by
		}
	}
	return found
}

// FirstStep reads a clock again and again, as a node's is, and returns how many
// samples it took to see a step; 0: none was seen.
func FirstStep(factor float64, samples []ClockSample) int {
	var known reading
	for i, s := range samples {
		next := readClock(instant(s.Sent), instant(s.Received), time.Unix(0, int64(s.Shows)))
		switch {
		case i == 0:
			known = next
		case known.stepTo(next, factor) != 0:
			return i + 1
		default:
			known = known.narrow(next, factor)
		}
	}
	return 0
}
