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
	begins  action = iota // a belief begins: the lock must be free
	ends                  // it ends
	issues                // a token is given out: it must be above all before
	writes                // a guard accepts a write: none with a larger token came before
	follows               // the same, where locks have no tokens and their order stands for them
)

// input is one operation.
type input struct {
	does     action
	resource string
	hold     int64
	token    redlock.Token
}

// aspect is what a model looks at: the operations of one resource that belong
// together.
type aspect struct {
	resource string
	does     action
}

// lock is a lock: its state is the hold that has it, or 0.
var lock = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, in, _ any) (bool, any) {
		holder, op := state.(int64), in.(input)
		if op.does == begins {
			return holder == 0, op.hold
		}
		return holder == op.hold, int64(0)
	},
}

// counter gives out rising numbers: its state is the last one.
var counter = porcupine.Model{
	Init: func() any { return redlock.Token(0) },
	Step: func(state, in, _ any) (bool, any) {
		op := in.(input)
		return op.token > state.(redlock.Token), op.token
	},
}

// guard accepts tokens that never fall: its state is the largest.
var guard = porcupine.Model{
	Init: func() any { return redlock.Token(0) },
	Step: func(state, in, _ any) (bool, any) {
		op := in.(input)
		return op.token >= state.(redlock.Token), op.token
	},
}
