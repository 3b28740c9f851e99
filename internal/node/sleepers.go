package node

import (
	"sync"

	"github.com/quorumkit/redlock/internal/clock"
)

// Sleepers are the Sleepers of one Locker that nobody sleeps on.
type Sleepers struct{ pool sync.Pool }

// NewSleepers is an empty pool.
func NewSleepers(c *clock.Clock) *Sleepers {
	return &Sleepers{sync.Pool{New: func() any { return NewSleeper(c) }}}
}

// Get takes a Sleeper that is ready.
func (s *Sleepers) Get() *Sleeper { return s.pool.Get().(*Sleeper).Ready() }

// Put gives a Sleeper back.
func (s *Sleepers) Put(w *Sleeper) { s.pool.Put(w) }
