package acquire

import (
	"slices"
	"testing"
)

// What all asked at once, few were granted in time: they ask one after another.
func TestAcquisitionsAskFirstInFirstOut(t *testing.T) {
	of := &permits{free: 2}
	var all [6]permit
	var wake [6]chan struct{}
	for i := range all {
		wake[i] = make(chan struct{}, 1)
		if got, want := all[i].take(of, wake[i]), i < 2; got != want {
			t.Errorf("acquisition %d of 6 may ask: %t; want %t", i, got, want)
		}
	}
	all[2].end() // it gives up in line
	var order []int
	for _, ends := range []int{0, 1, 3, 4, 5} {
		for i := range all {
			if len(wake[i]) == 1 {
				<-wake[i]
				if order = append(order, i); !all[i].take(of, wake[i]) {
					t.Errorf("acquisition %d was woken, and may not ask", i)
				}
			}
		}
		all[ends].end()
		all[ends].end() // once more does nothing
	}
	if want := []int{3, 4, 5}; !slices.Equal(order, want) || of.free != 2 || of.line.Len() != 0 {
		t.Errorf("in line they were called in the order %v, and %d permits are left, %d wait; want %v, 2 and 0", order, of.free, of.line.Len(), want)
	}
}

// One that gives up at the moment at which it is called passes the permit on.
func TestAPermitThatNobodyTakesGoesToTheNext(t *testing.T) {
	of, other := &permits{free: 1}, &permits{free: 1}
	var first, second, third permit
	wake := make(chan struct{}, 1)
	first.take(of, nil)
	second.take(of, make(chan struct{}, 1))
	third.take(of, wake)
	first.take(other, nil) // it was refused, and asks with the others from now on
	second.end()
	if len(wake) != 1 || !third.take(of, wake) {
		t.Error("the third may not ask; want the permit of the second, which gave up when it was called")
	}
	third.end()
	if first.end(); of.free != 1 || other.free != 1 {
		t.Errorf("left: %d and %d permits; want 1 and 1", of.free, other.free)
	}
}
