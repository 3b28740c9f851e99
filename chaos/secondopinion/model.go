// Package secondopinion judges a trace of package chaos with porcupine, a checker
// of linearizability that knows nothing of locks: it gets three small models (a
// lock, a counter, a guard), and looks for one order of all operations in which
// each of them is legal. It is a module of its own, so that the importers of
// redlock do not inherit porcupine.
package secondopinion

import (
	"github.com/anishathalye/porcupine"

	"github.com/quorumkit/redlock"
)

// action is what an operation does.
type action uint8

const (
	begins  action = iota // a belief begins: nobody may have the lock who excludes it
	ends                  // it ends
	issues                // a token is given out: it must be above all before that exclude it
	writes                // a guard accepts a write: none that excludes it came before with a larger token
	follows               // the same, where locks have no tokens and their order stands for them
)

// place is a resource, or a slot of it, from 1.
type place struct {
	resource string
	slot     int
}

// input is one operation.
type input struct {
	place

	does   action
	hold   int64
	token  redlock.Token
	shared bool
}

// aspect is what a model looks at: the operations of one place that belong together.
type aspect struct {
	place

	does action
}

// having is who has a lock: a hold, or so many that share it.
type having struct {
	hold   int64
	shared int
}

// lock is a lock: its state is who has it.
var lock = porcupine.Model{
	Init: func() any { return having{} },
	Step: func(state, in, _ any) (bool, any) {
		has, op := state.(having), in.(input)
		switch {
		case op.does == begins && op.shared:
			return has.hold == 0, having{shared: has.shared + 1}
		case op.does == begins:
			return has == having{}, having{hold: op.hold}
		case op.shared:
			return has.shared > 0, having{shared: has.shared - 1}
		}
		return has.hold == op.hold, having{}
	},
}

// numbers are the largest of exclusive holds, and of shared ones.
type numbers struct{ exclusive, shared redlock.Token }

// and is what they are with one more.
func (n numbers) and(op input) numbers {
	if op.shared {
		n.shared = max(n.shared, op.token)
	} else {
		n.exclusive = max(n.exclusive, op.token)
	}
	return n
}

// counter gives out rising numbers, and to those who share the same one, if need be: its
// state is the last of each kind.
var counter = porcupine.Model{
	Init: func() any { return numbers{} },
	Step: func(state, in, _ any) (bool, any) {
		n, op := state.(numbers), in.(input)
		rises := op.token > n.exclusive && (op.token > n.shared || op.shared && op.token == n.shared)
		return rises, n.and(op)
	},
}

// guard accepts what no later holder excludes: its state is the largest of each kind.
var guard = porcupine.Model{
	Init: func() any { return numbers{} },
	Step: func(state, in, _ any) (bool, any) {
		n, op := state.(numbers), in.(input)
		if op.shared {
			return op.token > n.exclusive, n.and(op)
		}
		return op.token >= n.exclusive && op.token > n.shared, n.and(op)
	},
}
