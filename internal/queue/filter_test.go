package queue

import (
	"fmt"
	"testing"
)

// The memory of names has a bound, and forgets none.
func TestNoNameThatWasWaitedForIsForgotten(t *testing.T) {
	f := new(nameFilter)
	if f.has("orders/1") {
		t.Error("got a name that was never added")
	}
	for i := range 100_000 {
		f.add(fmt.Sprint("orders/", i))
	}
	for i := range 100_000 {
		if !f.has(fmt.Sprint("orders/", i)) {
			t.Fatalf("orders/%d is forgotten", i)
		}
	}
	f = new(nameFilter)
	for i := range 100 {
		f.add(fmt.Sprint("orders/", i))
	}
	taken := 0
	for i := range 10_000 {
		if f.has(fmt.Sprint("invoices/", i)) {
			taken++
		}
	}
	if taken > 50 { // 15 of 10,000 are to be expected
		t.Errorf("after 100 names, %d of 10,000 others are taken for one of them; want few", taken)
	}
}
