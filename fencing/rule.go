package fencing

import (
	"fmt"

	"github.com/quorumkit/redlock"
)

// Seen is what a guard keeps of a resource: two numbers. Sharers of a resource
// do not exclude one another, so that none of them makes another one stale, and
// their tokens need a number of their own. The zero value has seen nothing.
//
// It is exported for guards that are written elsewhere. Those must store it in
// the same atomic unit as the write; to compare first and to write afterwards is
// the fault that fencing is there to remove.
type Seen struct {
	Exclusive redlock.Token // the largest exclusive token, 0 if none
	Shared    redlock.Token // the largest shared token; 0 if none is above Exclusive
}

// Accept is the rule that every guard keeps. An exclusive token is accepted when
// it is at least the largest exclusive one seen, and above the largest shared
// one. A shared token is accepted when it is above the largest exclusive one.
// Equal is accepted within a kind, because one holder writes more than once
// under its token, and because sharers have one number together. It is not
// accepted across kinds: no lock issues one number for both.
//
// So an exclusive token is refused when a newer hold of either kind was seen, and
// a shared one when a newer exclusive hold was. Among exclusive tokens alone this
// is the rule of the function Accept.
//
// It returns what the guard has seen then. After an error that is s: a
// *StaleError, ErrResource (the name is empty), ErrZeroToken or ErrTokenRange.
// See IsShared for where the kind comes from.
func (s Seen) Accept(resource string, token redlock.Token, shared bool) (Seen, error) {
	if err := valid(resource, token); err != nil {
		return s, err
	}
	switch {
	case shared && token <= s.Exclusive:
		return s, &StaleError{Resource: resource, Token: token, Shared: true, Highest: s.Exclusive}
	case shared:
		return Seen{Exclusive: s.Exclusive, Shared: max(s.Shared, token)}, nil
	case token <= s.Shared:
		return s, &StaleError{Resource: resource, Token: token, Highest: s.Highest(), HighestShared: s.Shared > s.Exclusive}
	case token < s.Exclusive:
		return s, &StaleError{Resource: resource, Token: token, Highest: s.Exclusive}
	}
	// The shared number is below this one, and decides nothing any more.
	return Seen{Exclusive: token}, nil
}

// Highest returns the larger of the two numbers, 0 if nothing was seen.
func (s Seen) Highest() redlock.Token { return max(s.Exclusive, s.Shared) }

// Accept is the rule where all tokens are exclusive: a token is accepted when it
// is at least the highest that the resource has seen. Equal is accepted, because
// one holder writes more than once under its token. A resource that has never
// seen one (highest is 0) accepts the first, no matter what it is.
//
// It is exported for guards that are written elsewhere, as Seen is, and serves
// those that have no shared holds.
//
// It returns nil, or a *StaleError, ErrResource (the name is empty),
// ErrZeroToken or ErrTokenRange.
func Accept(resource string, token, highest redlock.Token) error {
	_, err := Seen{Exclusive: highest}.Accept(resource, token, false)
	return err
}

// valid says whether a write may be put to a guard at all. Guards ask it before
// they touch their store.
func valid(resource string, token redlock.Token) error {
	switch {
	case resource == "":
		return fmt.Errorf("fencing: write: %w: it is empty", ErrResource)
	case token == 0:
		return fmt.Errorf("fencing: write %q: %w", resource, ErrZeroToken)
	case token > redlock.MaxToken:
		return fmt.Errorf("fencing: write %q: %w: got %d, the largest is %d", resource, ErrTokenRange, token, redlock.MaxToken)
	}
	return nil
}
