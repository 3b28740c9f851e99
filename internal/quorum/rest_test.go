package quorum_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/quorum"
)

// The one whose turn is next is told by a release. All others look for one that died before
// them, also where one node says that they are next: it may lack the other's entry.
func TestOnlyTheOneThatMostNodesCallTheFirstLooksSeldom(t *testing.T) {
	taken, granted := quorum.Vote{Outcome: quorum.Taken}, quorum.Vote{Outcome: quorum.Granted}
	head, behind := quorum.Hearing{Head: true, Left: time.Minute}, quorum.Hearing{Left: time.Minute}
	for _, tt := range []struct {
		name  string
		votes []quorum.Vote
		heard []quorum.Hearing
		want  time.Duration
	}{
		{"behind another", []quorum.Vote{taken, taken, taken}, []quorum.Hearing{behind, behind, behind}, quorum.OtherLook},
		{"first by one node", []quorum.Vote{taken, taken, taken}, []quorum.Hearing{head, behind, behind}, quorum.OtherLook},
		{"first by as many as not", []quorum.Vote{granted, taken, taken}, []quorum.Hearing{{}, head, behind}, quorum.OtherLook},
		{"first by most", []quorum.Vote{taken, taken, taken}, []quorum.Hearing{head, head, behind}, quorum.HeadLook},
		{"first by all that refused", []quorum.Vote{granted, taken, taken}, []quorum.Hearing{{}, head, head}, quorum.HeadLook},
	} {
		if got := quorum.RestAfter(tt.votes, tt.heard, 0, 3, 0.5, 0, 0); got.After != tt.want {
			t.Errorf("%s: got a look after %v; want %v", tt.name, got.After, tt.want)
		}
	}
}
