package quorum_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/quorum"
)

// The one whose turn is next is told by a release. All others look for one that died before
// them, also where a few nodes say that they are next: those may lack the other's entry.
func TestOnlyTheOneThatAQuorumCallsTheFirstLooksSeldom(t *testing.T) {
	taken, granted, pending := quorum.Vote{Outcome: quorum.Taken}, quorum.Vote{Outcome: quorum.Granted}, quorum.Vote{}
	head, behind := quorum.Hearing{Head: true, Left: time.Minute}, quorum.Hearing{Left: time.Minute}
	for _, tt := range []struct {
		name  string
		votes []quorum.Vote
		heard []quorum.Hearing
		want  time.Duration
	}{
		{"behind another", []quorum.Vote{taken, taken, taken}, []quorum.Hearing{behind, behind, behind}, quorum.OtherLook},
		{"first by one node", []quorum.Vote{taken, taken, taken}, []quorum.Hearing{head, behind, behind}, quorum.OtherLook},
		{"first by two of three of five", []quorum.Vote{pending, pending, taken, taken, taken}, []quorum.Hearing{{}, {}, head, head, behind}, quorum.OtherLook},
		{"first by as many as not", []quorum.Vote{granted, taken, taken}, []quorum.Hearing{{}, head, behind}, quorum.OtherLook},
		{"first by a quorum", []quorum.Vote{taken, taken, taken}, []quorum.Hearing{head, head, behind}, quorum.HeadLook},
		{"first by all that refused", []quorum.Vote{granted, taken, taken}, []quorum.Hearing{{}, head, head}, quorum.HeadLook},
	} {
		if got := quorum.RestAfter(tt.votes, tt.heard, 0, 3, 0.5, 0, 0); got.After != tt.want || got.Most != tt.want {
			t.Errorf("%s: got a look after %v, then every %v; want %v", tt.name, got.After, got.Most, tt.want)
		}
	}
}
