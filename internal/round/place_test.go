package round

import (
	"testing"

	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
)

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
		r := New(&Claim{Owner: "owner"}, 3, 0, &Sleeper{Wake: make(chan struct{}, 1)})
		r.Asks = &Asks{Heard: make([]quorum.Hearing, 3)}
		r.GoOn()
		for i, token := range c.tokens {
			r.AskAll(false)
			if step, _, _, _ := r.Next(true); step == grant.Raise {
				t.Errorf("%s: it raises before its place is known", c.name)
			}
			r.Stand(i, grant.Standing{Known: true, Token: token}, quorum.Hearing{}, Lease{}, nil)
		}
		place, tell, lost := r.Placed()
		if place != c.place || tell != c.tell || lost {
			t.Errorf("%s: got the place %d, to be told to %03b, %t; want %d, %03b", c.name, place, tell, lost, c.place, c.tell)
		}
		if tell == 0 {
			continue
		}
		if step, _, _, _ := r.Next(true); step != grant.Wait {
			t.Errorf("%s: got step %v while nodes are told; want to wait", c.name, step)
		}
		for i, token := range []quorum.Token{9, 12, 13} { // counters have moved
			r.Grant(i, token, Lease{}, false)
		}
		r.AskAll(false)
		if step, _, _, _ := r.Next(true); step != grant.Raise {
			t.Errorf("%s: got step %v when all know the place; want a raise", c.name, step)
		}
	}
}
