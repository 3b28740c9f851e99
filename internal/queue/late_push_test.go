package queue

import (
	"fmt"
	"testing"

	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// A lock is held once a quorum has told its grant; the other nodes' messages come later.
// To take one for a call would have that node asked, once in each hand-over, for nothing.
func TestALateGrantOfTheLockThatIsHeldCallsNobody(t *testing.T) {
	const won, former, place = "won", "former", 7
	told := func(owner string) string {
		return fmt.Sprintf("redlock:push\nepoch\n%d\n0\n%s\norders/42", place, owner)
	}
	if p, ok := grant.ParsePush(told(won)); !ok || p.Owner != won || p.Name != "orders/42" {
		t.Fatalf("the message reads as %+v, %v; want a grant to %q", p, ok, won)
	}
	givenBack := 0
	held := func() (*Presence, *Name) {
		w := &Presence{queue: New(1)}
		w.cfg.GiveBack = func(string, string, *node.Node) { givenBack++ }
		w.cfg.Nodes = make([]*node.Node, 3)
		w.cfg.Leave = func(string, bool, []*node.Node) { t.Error("a node's queue was left; want the place kept") }
		name, _ := w.queue.Try("orders/42")
		w.queue.Stand(name, place)
		w.queue.Open(name, &round.Round{Claim: &round.Claim{Owner: won}})
		w.queue.Shut(name, true)
		return w, name
	}
	for _, c := range []struct {
		owner string
		back  bool // the lock was given back, and the place kept
		want  uint64
	}{
		{won, false, 0},
		{former, false, 1 << 2},
		{won, true, 1 << 2},
	} {
		w, name := held()
		if c.back {
			w.queue.GoOn("orders/42", &round.Claim{Owner: "next"})
		}
		w.Hear(2, told(c.owner))
		if hints, _ := w.queue.Called(name); hints != c.want {
			t.Errorf("a grant to %q, with the lock given back %v, called for the nodes %03b; want %03b", c.owner, c.back, hints, c.want)
		}
	}
	w, name := held()
	w.queue.Ended(won, place)
	w.Hear(2, told(won))
	if hints, _ := w.queue.Called(name); hints != 0 || givenBack != 0 {
		t.Errorf("a grant of the token that was held, and is over, called for the nodes %03b, and was given back %d times; want neither", hints, givenBack)
	}
	w.queue.Ended(won, place-1)
	if w.Hear(2, told(won)); givenBack != 1 {
		t.Errorf("a grant of a greater token to an attempt that is over was given back %d times; want once", givenBack)
	}
}

// A process that had its turn, and is still in line on nodes, asks for another place. Nodes
// that do not vote are told of places, but not of the one that it does not have: they would
// have it before all others.
func TestNoNodeIsToldOfAPlaceThatNobodyHas(t *testing.T) {
	const place = 7
	w := &Presence{queue: New(1)}
	name, _ := w.queue.Try("orders/42")
	asks := func(position int64) []*round.Round {
		return []*round.Round{{Claim: &round.Claim{Key: "orders/42"}, Asks: &round.Asks{Position: position}}}
	}
	w.queue.Stand(name, place)
	if got := len(w.Telling(asks(place))); got != 1 {
		t.Errorf("a place: got %d looks that tell of it; want 1", got)
	}
	name.position = quorum.NoTicket // as GoesOn leaves it
	if got := len(w.Telling(asks(quorum.NoTicket))); got != 0 {
		t.Errorf("no place yet: got %d looks that tell of one; want none", got)
	}
}
