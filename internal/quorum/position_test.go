package quorum_test

import (
	"testing"

	"github.com/quorumkit/redlock/internal/quorum"
)

// Two who ask at once are in one order, since their quorums share a node.
func TestAPlaceIsTheLargestTicketOfAQuorum(t *testing.T) {
	for n := 1; n <= 7; n++ {
		votes, heard := make([]quorum.Vote, n), make([]quorum.Hearing, n)
		for answers := 1; answers <= n; answers++ {
			i, ticket := answers-1, int64(10*answers)
			if votes[i].Outcome = quorum.Taken; answers%2 == 0 {
				votes[i], ticket = quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(10*answers - 1)}, 0
			}
			heard[i].Ticket = ticket
			place, ok := quorum.PositionOf(votes, heard)
			if want := answers >= quorum.Size(n); ok != want || place != int64(10*answers) {
				t.Errorf("%d of %d nodes: got %d, %t; want %d, %t", answers, n, place, ok, 10*answers, want)
			}
		}
	}
}
