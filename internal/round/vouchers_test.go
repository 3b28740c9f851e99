package round

import (
	"testing"
)

// A straggler of an older round vouches for nothing in the next. That round and nodes
// change in one step is the mutex's doing: no test here forces the interleaving.
func TestAStragglerOfAnOlderRoundVouchesForNothing(t *testing.T) {
	var v vouchers
	v.Stand(1, 0b010)
	v.Vouch(0, 1)
	if got := v.Set(); got != 0b011 {
		t.Errorf("the nodes %03b vouch; want 011: both spoke of this round", got)
	}
	v.Stand(2, 0b110)
	v.Vouch(0, 1)
	if got := v.Set(); got != 0b110 {
		t.Errorf("the nodes %03b vouch; want 110: node 0 spoke of the round before", got)
	}
}
