package fencing

import (
	"fmt"

	"github.com/quorumkit/redlock"
)

// Accept is the rule that every guard keeps: a token is accepted when it is at
// least the highest that the resource has seen. Equal is accepted, because one
// holder writes more than once under its token. A resource that has never seen
// one (highest is 0) accepts the first, whatever it is.
//
// It is exported for guards that are written elsewhere. Those must store the
// token in the same atomic unit as the write; to compare first and to write
// afterwards is the fault that fencing is there to remove.
//
// It returns nil, or a *StaleError, ErrResource (the name is empty),
// ErrZeroToken or ErrTokenRange.
func Accept(resource string, token, highest redlock.Token) error {
	if err := valid(resource, token); err != nil {
		return err
	}
	if token < highest {
		return &StaleError{Resource: resource, Token: token, Highest: highest}
	}
	return nil
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
