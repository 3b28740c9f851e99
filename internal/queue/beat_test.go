package queue

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// However the signs of life began, each node gets one in BeatEvery, and two nodes' are
// BeatEvery/N apart.
func TestEachNodeHasItsOwnTimesOfASign(t *testing.T) {
	const n = 5
	gap := quorum.BeatEvery / n
	for start := range clock.Instant(quorum.BeatEvery) / 1e6 {
		now := start * 1e6
		var next [n]clock.Instant
		for i := range next {
			next[i] = nextBeat(now, i, n)
			if pause := next[i].Sub(now); pause <= 0 || pause > quorum.BeatEvery {
				t.Fatalf("node %d at %v: the next one comes %v later; want at most %v", i, time.Duration(now), pause, quorum.BeatEvery)
			}
			if again := nextBeat(next[i], i, n); again.Sub(next[i]) != quorum.BeatEvery {
				t.Fatalf("node %d: the one after it comes %v later; want %v", i, again.Sub(next[i]), quorum.BeatEvery)
			}
			for k := range i {
				if apart := next[i].Sub(next[k]); -gap < apart && apart < gap {
					t.Fatalf("at %v: nodes %d and %d are told %v apart; want at least %v", time.Duration(now), i, k, apart, gap)
				}
			}
		}
	}
}
