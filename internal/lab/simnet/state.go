package simnet

import "time"

// Mode is what happens to the bytes of one direction.
type Mode int

// The modes, the stronger the later.
const (
	Flow Mode = iota
	Hold      // they arrive when it ends
	Drop      // they are lost
)

// State is that of one direction of a link.
type State struct {
	Mode   Mode
	Delay  time.Duration
	Jitter time.Duration // the most that a message is late by besides
	Uneven time.Duration // what every other message is late by besides
	Mute   bool          // loses what nobody asked for
	Twice  bool          // delivers a second time, see Copies
	Later  time.Duration // how much later
}

// Late is how late a message is whose share of the jitter is spread, from 0 up to
// 1, and which is one of the uneven ones or not.
func (s State) Late(spread float64, odd bool) time.Duration {
	late := s.Delay + time.Duration(spread*float64(s.Jitter))
	if odd {
		late += s.Uneven
	}
	return late
}

// OnDial is what the state adds to a new connection in memory, where jitter is
// no matter of chance: of two that are made at one moment it must not matter which
// is there first.
func (s State) OnDial() time.Duration { return s.Delay + s.Jitter/2 }
