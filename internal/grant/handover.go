package grant

import "github.com/quorumkit/redlock/internal/quorum"

// Standing is what a node's reply to a release says of the owner that goes on.
type Standing struct {
	Known bool         // it replied, and votes
	Place int64        // in line; 0: not, or no place was said
	Token quorum.Token // granted to it; 0: not
}

// StandingOf reads the second integer of hand.lua's reply.
func StandingOf(more int64) Standing {
	switch {
	case more < 0:
		return Standing{Known: true, Token: quorum.Token(-more)}
	default:
		return Standing{Known: true, Place: more}
	}
}

// PlaceOf is the place of a process that goes on after its release, the same on all
// nodes, and the nodes that have to be told of it by an ask. It is the largest of a
// quorum; a grant counts as one behind its token. So it is behind everybody who stood on
// a quorum before. A grant with a smaller token is told as well: one who comes next must
// not get a place before it there. It is false while fewer said one than
// are needed for a quorum.
func PlaceOf(said []Standing, needed int) (place int64, tell uint64, ok bool) {
	n := 0
	for _, s := range said {
		at := s.at()
		if at > 0 {
			n++
		}
		place = max(place, at)
	}
	if n < needed {
		return 0, 0, false
	}
	for i, s := range said {
		if s.Place != place && int64(s.Token) < place { //nolint:gosec // below 2^53
			tell |= 1 << i
		}
	}
	return place, tell, true
}

// at is the place that a standing stands for; 0 if none.
func (s Standing) at() int64 {
	switch {
	case !s.Known:
		return 0
	case s.Token > 0:
		return int64(s.Token) + 1 //nolint:gosec // below 2^53
	default:
		return s.Place
	}
}

// Calls tells whether a release calls who waits in the place of granting: where a value
// that is not ours was seen on the name within the last lease (foreign), and one hand-over
// in callEvery otherwise. So a client that stands in no line finds the name free at times.
// It is decided here, for all nodes alike. Where another goroutine of the process goes on,
// such a release is hand.lua with the hint -1, else release_batch.lua.
func Calls(handed uint64, foreign bool) bool { return foreign || handed%callEvery == callEvery-1 }
