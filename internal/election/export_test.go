package election

import "github.com/quorumkit/redlock/internal/clock"

// What the search puts into states, and takes out of them.

// Set makes up what was seen of node i.
func (v *View) Set(i int, r Reading, first, last clock.Instant, lists ...[]int) {
	v.nodes[i] = sight{r, first, last, lists}
}

// Sight is what was seen of node i, and by how many lists it votes.
func (v *View) Sight(i int) (r Reading, first, last clock.Instant, lists int) {
	s := v.nodes[i]
	return s.Reading, s.first, s.last, len(s.lists)
}

// SetHint makes up what node i passed on.
func (v *View) SetHint(i int, h Hint) { v.hints[i] = h }

// HintOf is what node i passed on.
func (v *View) HintOf(i int) Hint { return v.hints[i] }

// Settled makes up what a quorum passed on.
func (v *View) Settled(h Hint) { v.settled = h }

// SettledHint is what a quorum passed on.
func (v *View) SettledHint() Hint { return v.settled }

// SetTold makes up what the observer was told.
func (o *Observer) SetTold(s Sight) { o.told, o.any = s, true }

// Sure is the latest moment for which it knows.
func (o *Observer) Sure() clock.Instant { return o.sure }
