package clock

import (
	"testing"
	"testing/synctest"
)

// An Instant of 0 is none, so no clock reads it: not even in virtual time, which stands still.
func TestAClockNeverReadsZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		if e, s, n := c.Early(), c.Start(), c.Now(); e <= 0 || s <= 0 || n <= 0 {
			t.Errorf("got %d, %d and %d; want none of them 0", e, s, n)
		}
	})
}
