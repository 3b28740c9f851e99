package testkit

import (
	"sync/atomic"
	"testing"
	"time"
)

// lookEvery is how often a Machine looks: a margin of real time is some multiple of it.
const lookEvery = 5 * time.Millisecond

// Machine tells how long the process was kept from the processors. A test over real
// servers has margins of real time, and nobody keeps them who does not run.
type Machine struct{ late atomic.Int64 }

// WatchMachine looks until the test ends. It is not for a testing/synctest bubble.
func WatchMachine(tb testing.TB) *Machine {
	tb.Helper()
	m, ticker, ended := &Machine{}, time.NewTicker(lookEvery), make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		last := time.Now()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			now := time.Now()
			m.late.Store(max(m.late.Load(), int64(now.Sub(last)-lookEvery)))
			last = now
		}
	}()
	tb.Cleanup(func() {
		ticker.Stop()
		close(stop)
		<-ended
	})
	return m
}

// Excuse skips a test whose margin was missed where the process stood still for longer
// than that at least once. It is for the moment at which the test would fail.
func (m *Machine) Excuse(tb testing.TB, margin time.Duration) {
	tb.Helper()
	if late := time.Duration(m.late.Load()); late > margin {
		tb.Skipf("the machine kept this process waiting for %v; the test's margin is %v", late.Round(time.Millisecond), margin)
	}
}
