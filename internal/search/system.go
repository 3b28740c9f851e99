package search

import (
	"errors"
	"fmt"
	"strings"
)

// Step names one transition: a kind, and what it happens to. What the numbers
// mean is the System's affair; two steps from one state must differ in one.
type Step struct {
	Kind       uint8
	A, B, C, D uint8
}

// System is a protocol together with all that can befall it.
type System[S comparable] interface {
	// Init is the first state.
	Init() S
	// Next calls yield with every step possible in s and the state that it leads
	// to, in an order that depends on s only.
	Next(s S, yield func(step Step, next S))
	// Check returns what is broken in s, or nil.
	Check(s S) error
	// Describe says a step in words.
	Describe(step Step) string
}

// symmetric is a System whose states can be searched up to renaming.
type symmetric[S comparable] interface{ Canon(s S) S }

// weighted is a System whose walks prefer some steps.
type weighted interface{ Weight(step Step) int }

// canon returns the system's Canon, or identity.
func canon[S comparable](sys System[S]) func(S) S {
	if s, ok := sys.(symmetric[S]); ok {
		return s.Canon
	}
	return func(s S) S { return s }
}

// Event is one step of a trace and the state after it.
type Event[S comparable] struct {
	Step  Step
	Text  string
	State S
}

// Trace is a way from the first state to a broken one.
type Trace[S comparable] struct {
	Err    error
	Events []Event[S]
}

// String lists the steps, one a line, then what they broke. States are printed
// where S has a String method.
func (t *Trace[S]) String() string {
	var b strings.Builder
	for i, e := range t.Events {
		fmt.Fprintf(&b, "%3d. %s", i+1, e.Text)
		if s, ok := any(e.State).(fmt.Stringer); ok {
			fmt.Fprintf(&b, "\n       %s", s)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "     broken: %v", t.Err)
	return b.String()
}

// errNotSymmetric means that Canon merges states that behave differently.
var errNotSymmetric = errors.New("search: Canon is no symmetry: a step of the canonical state is none of the real one")

// retrace turns a path of choices through canonical states into a trace of real
// states: at each step it takes the one that leads to the same canonical state.
func retrace[S comparable](sys System[S], choices []uint16, broken error) *Trace[S] {
	same, actual := canon(sys), sys.Init()
	at, t := same(actual), &Trace[S]{Err: broken}
	for _, choice := range choices {
		_, next := nth(sys, at, choice)
		at = same(next)
		found := false
		var e Event[S]
		sys.Next(actual, func(step Step, s S) {
			if !found && same(s) == at {
				found, e = true, Event[S]{Step: step, Text: sys.Describe(step), State: s}
			}
		})
		if !found {
			t.Err = errors.Join(broken, errNotSymmetric)
			return t
		}
		actual = e.State
		t.Events = append(t.Events, e)
	}
	return t
}

// nth is the step number n of those possible in s.
func nth[S comparable](sys System[S], s S, n uint16) (step Step, next S) {
	i := uint16(0)
	sys.Next(s, func(st Step, t S) {
		if i == n {
			step, next = st, t
		}
		i++
	})
	return step, next
}
