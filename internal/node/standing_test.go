package node

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// A command that may come late, and would put an attempt in line again, has that attempt's
// release leave a tombstone.
func TestWhatMayPutAnAttemptInLineLateIsDoubted(t *testing.T) {
	claim := func() *round.Claim { return &round.Claim{Marks: make([]quorum.Mark, 1)} }
	n, looked := &writer{Node: &Node{}}, claim()
	n.doubtPlaces([]*round.Claim{nil, looked}, quorum.Failed)
	if looked.Marks[0].Doubtful() {
		t.Error("a look that was refused may not come late")
	}
	n.doubtPlaces([]*round.Claim{nil, looked}, quorum.Unknown)
	if !looked.Marks[0].Doubtful() {
		t.Error("a look without a reply may come late")
	}
	for _, cause := range []error{errors.New("the connection broke"), refusal("OOM command not allowed")} {
		for _, before := range []*rejection{nil, {cause: cause, tries: 1}, {cause: cause, alone: true}} {
			for leaves, want := range map[round.Leaving]bool{round.LeaveEntry: true, round.LeaveQueue: false, round.LeaveNothing: false} {
				back, next := claim(), claim()
				back.Replacement = next
				var q pending
				q.refuse(Release{Claim: back, Entry: leaves, rejected: before}, cause, 0)
				if got := next.Marks[0].Doubtful(); got != want {
					t.Errorf("a rollback that goes again, mode %d, after %+v: %v: the attempt that it may put in line is doubted: %t; want %t", leaves, before, cause, got, want)
				}
			}
		}
	}
}

// refusal is an error that a server replies.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError tells that it is one.
func (refusal) RedisError() {}

// Of a process that stands in line with its id alone, a hand could not tell an old entry
// from a new one.
func TestAnEntryOfTheIDAloneGoesByARelease(t *testing.T) {
	r := Release{Claim: &round.Claim{Owner: "owner"}, Hint: 1, Entry: round.LeaveQueue}
	if (&batch{}).mayHand(&r) {
		t.Error("it goes by a hand")
	}
	r.Claim.AcceptPush(quorum.NoTicket)
	if !(&batch{}).mayHand(&r) {
		t.Error("one with an owner does not go by a hand")
	}
}
