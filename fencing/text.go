package fencing

import (
	"fmt"
	"strings"
)

// sharedWord marks a shared token: in the prologue's argument and reply, and in
// KindHeader.
const (
	sharedWord    = "shared"
	exclusiveWord = "exclusive"
)

// String returns what a guard keeps where it keeps text: the exclusive number in
// decimal, and behind a space the shared one if it is larger. So a resource that
// has only seen exclusive tokens has one number there.
func (s Seen) String() string {
	if s.Shared <= s.Exclusive {
		return s.Exclusive.String()
	}
	return s.Exclusive.String() + " " + s.Shared.String()
}

// ParseSeen reads what String wrote. It returns ErrCorrupt for any other text, and
// for the zero value's, which no guard keeps.
func ParseSeen(text string) (Seen, error) {
	exclusive, shared, both := strings.Cut(text, " ")
	var s Seen
	var err error
	if !both || exclusive != "0" {
		s.Exclusive, err = parseToken(exclusive)
	}
	if err == nil && both {
		s.Shared, err = parseToken(shared)
	}
	if err != nil || both && s.Shared <= s.Exclusive {
		return Seen{}, fmt.Errorf("fencing: read what was seen: %w: %.40q", ErrCorrupt, text)
	}
	return s, nil
}
