package trace

import (
	"slices"
)

// The names of the contenders that scenarios make claims about; chaos.ScenarioKit
// makes them.
const (
	NameRedlock            = "redlock"
	NameWithoutMembership  = "redlock without membership"
	NameWithoutClockWatch  = "redlock without clock watch"
	NameWithoutProtections = "redlock without protections"
	NameRenewing           = "redlock, renewing"
	NameTextbook           = "textbook Redlock"
	NameSingle             = "single master"
)

// Contenders are all of them.
func Contenders() []string {
	return []string{NameRedlock, NameWithoutMembership, NameWithoutClockWatch, NameWithoutProtections, NameRenewing, NameTextbook, NameSingle}
}

// Showing is what a scenario claims of one contender.
type Showing struct {
	Contender string // the name of a kit, as ScenarioKit knows it
	Guarded   bool   // whether the resource checks tokens
	Breaks    []Rule // the rules that it breaks, sorted; none: it holds
	May       []Rule // rules that it breaks at times, beside these
	Refused   int    // how many writes the guard refuses
}

// String names the contender, and says if it has no guard.
func (s Showing) String() string {
	if s.Guarded {
		return s.Contender
	}
	return s.Contender + ", unguarded"
}

// may tells whether the contender breaks a rule at times. The plain locks promise
// no tidiness: what they leave behind is claimed of them where it always shows, and
// held against them nowhere.
func (s Showing) may(r Rule) bool {
	plain := s.Contender == NameTextbook || s.Contender == NameSingle
	return slices.Contains(s.May, r) || plain && r == Litter
}

// Fits tells whether a run showed just what was claimed.
func (s Showing) Fits(v Verdict) bool {
	broken := v.Broken()
	for _, r := range s.Breaks {
		if !slices.Contains(broken, r) {
			return false
		}
	}
	for _, r := range broken {
		if !slices.Contains(s.Breaks, r) && !s.may(r) {
			return false
		}
	}
	return s.Refused == v.Refused
}
