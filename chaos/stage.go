package chaos

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Stage is a set of nodes, and of links between clients and nodes, that can be
// broken: the same faults on every backend. Its methods may be called from
// several goroutines at once.
type Stage interface {
	// Names are the nodes' names, in order.
	Names() []string
	// Connect returns clients of the nodes, in order, over links of their own that
	// faults know by the client's name. They are closed with the stage. A name may
	// be used once.
	Connect(client string) ([]redis.UniversalClient, error)
	// Break begins a fault at once: its At and For are not looked at. It fails with
	// errors.ErrUnsupported if this backend does not know the fault, or with
	// ErrUnknownTarget.
	Break(f Fault) error
	// Mend ends it.
	Mend(f Fault) error
	// Rest blocks while the client is paused at that moment, or suspended.
	Rest(client string, at Moment)
	// Close ends the stage: nodes, links and clients.
	Close() error
}

// errUnknownTarget means that a fault names a node, a client or a moment that
// there is not.
var errUnknownTarget = errors.New("chaos: the stage has no such node, client or moment")

// noSuch is the error of a fault whose target is missing.
func noSuch(f Fault) error { return fmt.Errorf("%w: %v", errUnknownTarget, f) }

// cantBreak is the error of a fault that a backend does not know.
func cantBreak(f Fault) error {
	return fmt.Errorf("chaos: %v: %w on this backend", f, errors.ErrUnsupported)
}
