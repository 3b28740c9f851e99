package queue

import "testing"

// An offer to take a slot stands while what was given is asked for, and is for one slot.
func TestAnOfferOfSlotsStandsUntilItIsWithdrawn(t *testing.T) {
	q := New(8)
	name, _ := q.Try("slots")
	w, given := &Waiter{Slots: 2}, &Transfer{}
	hand := func() bool { return q.HandSlot("slots", 1, 0, func(*Waiter) *Transfer { return given }) }
	q.Offer(name, w)
	if got := q.Collect(name); got != nil {
		t.Fatalf("got %v before anything was given", got)
	}
	if !hand() {
		t.Fatal("the offer did not stand")
	}
	q.Offer(name, w)
	if hand() {
		t.Fatal("a second slot was given before the first was taken")
	}
	if got := q.Collect(name); got != given {
		t.Errorf("got %v; want what was given", got)
	}
	q.Offer(name, w)
	if q.Withdraw(name); hand() {
		t.Error("the offer stands, though it was withdrawn")
	}
}
