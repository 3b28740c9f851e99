package slots_test

import (
	"testing"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/slots"
)

// said are refusals, each with the slots that are free there, by somebody who is first.
func said(free ...uint64) (votes []quorum.Vote, heard []quorum.Hearing) {
	for _, bits := range free {
		votes = append(votes, quorum.Vote{Outcome: quorum.Taken})
		heard = append(heard, quorum.Hearing{Head: true, Slots: bits})
	}
	return votes, heard
}

func TestTheSlotThatMostNodesCallFreeIsNext(t *testing.T) {
	for _, c := range []struct {
		free []uint64
		roll float64
		want int
	}{
		{[]uint64{0b010, 0b010, 0b000}, 0, 1},
		{[]uint64{0b010, 0b100, 0b001}, 0, slots.None}, // each on one node
		{[]uint64{0b110, 0b100, 0b110}, 0, 2},
		{[]uint64{0b011, 0b011, 0b000}, 0, 0},
		{[]uint64{0b011, 0b011, 0b000}, 0.99, 1},
		{[]uint64{1 << 47, 1 << 47}, 0.5, 47},
	} {
		caller := slots.New(48, slots.None)
		votes, heard := said(c.free...)
		step := caller.Ended(votes, heard, c.roll)
		if c.want == slots.None {
			if step != slots.Rest {
				t.Errorf("%b: got step %v; want a rest", c.free, step)
			}
			continue
		}
		if got := caller.Pick(0); step != slots.Again || got != c.want {
			t.Errorf("%b: got step %v, slot %d; want %d at once", c.free, step, got, c.want)
		}
	}
}

func TestWhetherASlotMayYetBeFreeOnAQuorum(t *testing.T) {
	for _, c := range []struct {
		free    []uint64 // of those that have answered, of five
		behind  bool     // somebody is before
		limit   int
		want    bool
		because string
	}{
		{[]uint64{0b01, 0, 0}, false, 2, true, "the two that are out may say it too"},
		{[]uint64{0b01, 0b01, 0}, false, 2, true, "one of the two may say it"},
		{[]uint64{0b01, 0b01, 0b01}, false, 2, false, "a quorum has said it"},
		{[]uint64{0b11, 0b01, 0b01}, false, 2, false, "a quorum has said it of another"},
		{[]uint64{0, 0, 0}, false, 2, false, "no slot is free on any"},
		{[]uint64{0b01, 0, 0, 0}, false, 2, false, "two of five at most"},
		{[]uint64{0b01, 0b01, 0, 0}, false, 2, true, "the last may say it"},
		{[]uint64{0b01, 0b10, 0}, false, 2, true, "either may be"},
		{[]uint64{0b01, 0b01, 0, 0, 0}, false, 2, false, "nobody is out"},
		{[]uint64{0b100, 0, 0}, false, 2, false, "there is no such slot for this caller"},
		{[]uint64{0b01, 0, 0}, true, 2, false, "somebody is before"},
	} {
		votes, heard := said(c.free...)
		for i := range heard {
			heard[i].Head = !c.behind
		}
		votes, heard = append(votes, make([]quorum.Vote, 5-len(votes))...), append(heard, make([]quorum.Hearing, 5-len(heard))...)
		if got := slots.Undecided(votes, heard, c.limit); got != c.want {
			t.Errorf("%b of five, somebody before: %v: got %v; want %v: %s", c.free, c.behind, got, c.want, c.because)
		}
	}
}

func TestWhoIsNotFirstTakesNoSlot(t *testing.T) {
	caller := slots.New(3, slots.None)
	votes, heard := said(1, 1, 1)
	heard[0].Head, heard[1].Head = false, false
	if got := caller.Ended(votes, heard, 0); got != slots.Rest {
		t.Errorf("got step %v; want a rest", got)
	}
}

func TestACallIsRemembered(t *testing.T) {
	caller := slots.New(3, slots.None)
	caller.Pick(0)
	caller.Hear(2)
	votes, heard := said(0, 0, 0)
	if got := caller.Ended(votes, heard, 0); got != slots.Again {
		t.Fatalf("got step %v; want to ask again", got)
	}
	if got := caller.Pick(0); got != 2 {
		t.Errorf("got slot %d; want the one that it was called for", got)
	}
	if got := caller.Ended(votes, heard, 0); got != slots.Rest {
		t.Errorf("got step %v; want a rest: the call is answered", got)
	}
}

// Nodes that call a slot free again and again, and refuse it, are asked no more often than
// there are slots.
func TestRefusalsThatContradictThemselvesEnd(t *testing.T) {
	caller := slots.New(3, slots.None)
	votes, heard := said(1, 1, 1)
	asks := 0
	for caller.Ended(votes, heard, 0) == slots.Again {
		caller.Pick(0)
		if asks++; asks > 3 {
			t.Fatalf("asked %d times", asks)
		}
	}
}

func TestTheSlotThatItHadLastIsFirst(t *testing.T) {
	for _, c := range []struct {
		last, want int
		roll       float64
	}{{2, 2, 0}, {slots.None, 0, 0}, {slots.None, 2, 0.999999}, {5, 1, 0.5}, {slots.None, 2, 1}} {
		caller := slots.New(3, c.last)
		if got := caller.Pick(c.roll); got != c.want {
			t.Errorf("had %d, roll %v: got %d; want %d", c.last, c.roll, got, c.want)
		}
	}
}
