package node

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/grant"
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
	for _, cause := range []error{errors.New("the connection broke"), refusal("OOM command not allowed")} {
		for _, before := range []*rejection{nil, {cause: cause, tries: 1}, {cause: cause, alone: true}} {
			for leaves, want := range map[Leaving]bool{LeaveEntry: true, LeaveQueue: false, LeaveNothing: false} {
				back, next := claim(), claim()
				back.Next = next
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
	r := Release{Claim: &Claim{}, Hand: true, Entry: LeaveQueue}
	if (&batch{}).mayHand(&r) {
		t.Error("it goes by a hand")
	}
	r.Claim.InLine = "owner"
	if !(&batch{}).mayHand(&r) {
		t.Error("one with an owner does not go by a hand")
	}
}

// Who was put in line by a release, and granted the lock at once, tells no node of its
// place if it holds, and else those that granted less; then it may raise.
func TestAPlaceIsToldUnlessTheLockIsThere(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens [3]quorum.Token
		place  int64
		tell   uint64
	}{
		{"the same numbers", [3]quorum.Token{7, 7, 7}, 8, 0},
		{"different numbers", [3]quorum.Token{5, 7, 8}, 9, 0b111},
	} {
		r := NewRound(&Claim{Owner: "owner"}, 3, 0, &Sleeper{Wake: make(chan struct{}, 1)})
		r.Asks = &Asks{Heard: make([]quorum.Hearing, 3)}
		r.GoOn()
		for i, token := range c.tokens {
			r.Gathered(false)
			if step, _, _, _ := r.Next(); step == grant.Raise {
				t.Errorf("%s: it raises before its place is known", c.name)
			}
			r.stand(i, grant.Standing{Known: true, Token: token}, quorum.Hearing{}, lease{}, nil)
		}
		place, tell, lost := r.Placed()
		if place != c.place || tell != c.tell || lost {
			t.Errorf("%s: got the place %d, to be told to %03b, %t; want %d, %03b", c.name, place, tell, lost, c.place, c.tell)
		}
		if tell == 0 {
			continue
		}
		if step, _, _, _ := r.Next(); step != grant.Wait {
			t.Errorf("%s: got step %v while nodes are told; want to wait", c.name, step)
		}
		for i, token := range []quorum.Token{9, 12, 13} { // counters have moved
			r.grant(i, token, lease{}, false)
		}
		r.Gathered(false)
		if step, _, _, _ := r.Next(); step != grant.Raise {
			t.Errorf("%s: got step %v when all know the place; want a raise", c.name, step)
		}
	}
}
