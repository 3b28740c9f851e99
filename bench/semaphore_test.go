package main

import "testing"

func TestOverlapsAndHandOversOfSlots(t *testing.T) {
	holds := []permitRecord{
		{From: 0, To: 10, Slot: 0, Who: 0},
		{From: 5, To: 15, Slot: 1, Who: 1},
		{From: 10, To: 20, Slot: 0, Who: 2}, // at the moment in which the first ends
		{From: 14, To: 16, Slot: 1, Who: 3}, // before the second does
		{From: 30, To: 31, Slot: 1, Who: 3}, // once more the same
	}
	if most, same := overlaps(holds); most != 3 || same != 1 {
		t.Errorf("got %d at once, %d in a slot that is held; want 3, 1", most, same)
	}
	if n := slotChanges(holds); n != 2 {
		t.Errorf("got %d hand-overs; want 2", n)
	}
}
