package node

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// An attempt whose time ends while the writer waits for a connection names the pool, and one
// that was not sent for another reason does not.
func TestAnAttemptThatEndsBeforeThePoolHasAConnectionNamesThePool(t *testing.T) {
	for waits, want := range map[bool]error{true: errNoConnection, false: errUnready} {
		n := &Node{Clock: clock.New(), writer: &writer{}}
		n.writer.conn.waits.Store(waits)
		r := round.New(&round.Claim{Owner: "owner", Marks: make([]quorum.Mark, 1)}, 1, n.Clock.Early(), round.NewSleeper(n.Clock))
		CloseRound([]*Node{n}, r, false)
		if got := r.Cause(0); !errors.Is(got, want) || r.Votes[0].Outcome != quorum.Failed {
			t.Errorf("the writer waits for a connection: %t: got %v with outcome %v; want %v and that it failed", waits, got, r.Votes[0].Outcome, want)
		}
	}
}
