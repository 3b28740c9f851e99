package node

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/quorum"
)

// A command that may come late, and would put an attempt in line again, has that attempt's
// release leave a tombstone.
func TestWhatMayPutAnAttemptInLineLateIsDoubted(t *testing.T) {
	claim := func() *Claim { return &Claim{Marks: make([]quorum.Mark, 1)} }
	n, looked := &Node{}, claim()
	n.doubtPlaces([]*Claim{nil, looked}, quorum.Failed)
	if looked.Marks[0].Doubtful() {
		t.Error("a look that was refused may not come late")
	}
	n.doubtPlaces([]*Claim{nil, looked}, quorum.Unknown)
	if !looked.Marks[0].Doubtful() {
		t.Error("a look without a reply may come late")
	}
	back, next := claim(), claim()
	back.Next = next
	var q pending
	q.refuse(Release{Claim: back, Entry: LeaveEntry}, errors.New("refused"), 0)
	if !next.Marks[0].Doubtful() {
		t.Error("a rollback that goes again may come behind the release of the attempt that it puts in line")
	}
}

// Of a process that stands in line with its id alone, a hand could not tell an old entry
// from a new one.
func TestAnEntryOfTheIDAloneGoesByARelease(t *testing.T) {
	r := Release{Claim: &Claim{}, Hand: true, Entry: LeaveQueue}
	if (&batch{}).mayHand(&r) {
		t.Error("it goes by a hand")
	}
	r.Claim.InLine = "owner"
	if !(&batch{}).mayHand(&r) {
		t.Error("one with an owner does not go by a hand")
	}
}
