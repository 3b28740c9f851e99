// Package revocation decides who is asked to give up a hold, when that has come about, and
// what a process makes of being asked.
package revocation

import "strings"

// A message names an owner value, and nothing else: neither a resource, which others hold
// by the time that the message comes, nor a Locker, which has other holds as well. An owner
// value is of one hold, and was never used before. So a message that is late, doubled or
// forged reaches the hold that it names, or none.

const prefix = "revoke "

// Message asks for the hold of this owner value.
func Message(owner string) string { return prefix + owner }

// Parse is the owner value that a message asks for; false: it asks for none.
func Parse(message string) (owner string, ok bool) {
	owner, ok = strings.CutPrefix(message, prefix)
	return owner, ok && owner != ""
}

// Holds are the holds of a Locker that can be asked for, by their owner values: whether
// they were.
type Holds map[string]bool

// Hear takes in a message that asks for a hold of this owner value. stands: there is such
// a hold; first: and it was not asked for before.
func (h Holds) Hear(owner string) (stands, first bool) {
	asked, stands := h[owner]
	if stands {
		h[owner] = true
	}
	return stands, stands && !asked
}
