// Package set decides what becomes of several names that one caller wants at once: which
// it keeps of those that it has, which it gives back, and which it waits for. Nothing
// here reads a clock or waits.
//
// A set is taken in the byte order of its keys, which is the same for all callers. One
// round asks for all that is missing, and waits for nobody. Where a name was not to be
// had, what stands before it is kept, what stands behind it is given back, and the
// caller waits for that one name, in its line. So who waits holds only names below
// the one that it waits for: of those who wait for each other in a circle, the one with
// the greatest name would have to hold a greater one.
package set

import (
	"math/bits"
	"slices"
	"strings"
)

// Most is how many names a set may have: all of them go in one batch of acquires.
const Most = 64

// Names are names of one set, one bit each, in the order of the set.
type Names uint64

// Of is the first n names.
func Of(n int) Names {
	if n >= Most {
		return ^Names(0)
	}
	return 1<<n - 1
}

// Has tells whether name i is among them.
func (n Names) Has(i int) bool { return n>>i&1 != 0 }

// With are the names, and name i.
func (n Names) With(i int) Names { return n | 1<<i }

// first is the first that is missing.
func (n Names) first() int { return bits.TrailingZeros64(^uint64(n)) }

// Order are the places of the keys in their byte order.
func Order(keys []string) []int {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(keys[a], keys[b]) })
	return order
}

// Action is what a caller does next.
type Action uint8

// The actions.
const (
	Ask  Action = iota // for all names that it does not hold, in one round
	Wait               // for one name, as the one who wants that one alone
	Done               // it holds them all
)

// Step is what a caller does next: first it gives back what it is not to hold any more.
type Step struct {
	Do   Action
	Name int   // that it waits for
	Back Names // that it gives back
}

// Next is the step of a caller that holds these of its n names. asked says that a round
// has asked for the others since it last waited. One that lost a name while it waited
// for another is one that holds the rest and has not asked.
func Next(n int, held Names, asked bool) Step {
	lacks := held.first()
	if lacks >= n {
		return Step{Do: Done}
	}
	s := Step{Do: Ask, Name: lacks, Back: held &^ Of(lacks)}
	if asked {
		s.Do = Wait
	}
	return s
}
