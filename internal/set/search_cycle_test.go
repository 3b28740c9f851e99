package set_test

import (
	"github.com/quorumkit/redlock/internal/search"
)

// circle looks for a way from a state back to itself. Holds, losses and contexts that end
// are counted down in the state, so there is no progress on such a way: one who takes it
// again and again is in a livelock. Where there is none, every order of events ends.
func circle(sys *system) (found bool, states int) {
	const (
		open   = 1
		closed = 2
	)
	type frame struct {
		s    state
		next []state
	}
	seen := map[state]uint8{}
	expand := func(s state) frame {
		seen[s] = open
		f := frame{s: s}
		sys.Next(s, func(_ search.Step, n state) { f.next = append(f.next, n) })
		return f
	}
	for stack := []frame{expand(sys.Init())}; len(stack) > 0; {
		top := &stack[len(stack)-1]
		if len(top.next) == 0 {
			seen[top.s] = closed
			stack = stack[:len(stack)-1]
			continue
		}
		n := top.next[len(top.next)-1]
		top.next = top.next[:len(top.next)-1]
		switch seen[n] {
		case open:
			return true, len(seen)
		case closed:
		default:
			stack = append(stack, expand(n))
		}
	}
	return false, len(seen)
}
