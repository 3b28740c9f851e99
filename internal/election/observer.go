package election

import (
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Sight is what an observer is told.
type Sight struct {
	State State // Led, Vacant, Taken, or Unknown: for so long as Stale nobody could say
	Owner string
	Token quorum.Token // 0: it is not known
}

// Observer is one loop over what is to be told of a name.
type Observer struct {
	told Sight
	any  bool          // something was told
	sure clock.Instant // the latest moment for which it is known who leads
}

// NewObserver is one that begins now, and was told nothing.
func NewObserver(now clock.Instant) *Observer { return &Observer{sure: now} }

// Next is what it is told now, and whether that is new. While the nodes disagree or are
// silent, it stays at what it was told for as long as that is not Stale. Then a name on
// whose holder no quorum can agree has none.
func (o *Observer) Next(v *View, now clock.Instant) (s Sight, changed bool) {
	verdict := v.Judge(now)
	switch verdict.State {
	case Led:
		s = Sight{State: Led, Owner: verdict.Owner, Token: v.Token(verdict.Owner)}
		if s.Token == 0 && s.Owner == o.told.Owner {
			s.Token = o.told.Token // a later leader's is known already
		}
		o.sure = max(o.sure, verdict.At)
	case Vacant, Taken:
		s.State = verdict.State
		o.sure = max(o.sure, verdict.At)
	case Unknown, Young, Split:
		if now.Sub(o.sure) <= Stale {
			return o.told, false
		}
		if verdict.State == Split {
			s.State = Vacant
		}
	}
	changed = !o.any || s != o.told
	o.told, o.any = s, true
	return s, changed
}
