package chaos

import (
	"errors"
	"fmt"
	"sync"

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
	// Break begins a fault, whatever its At and For. It fails with
	// errors.ErrUnsupported if this backend does not know the fault, or with
	// ErrUnknownTarget.
	Break(f Fault) error
	// Mend ends it.
	Mend(f Fault) error
	// Rest blocks while the client is paused.
	Rest(client string)
	// Close ends the stage: nodes, links and clients.
	Close() error
}

// ErrUnknownTarget means that a fault names a node or client that there is not.
var ErrUnknownTarget = errors.New("chaos: the stage has no such node or client")

// noSuch is the error of a fault whose target is missing.
func noSuch(f Fault) error { return fmt.Errorf("%w: %v", ErrUnknownTarget, f) }

// cantBreak is the error of a fault that a backend does not know.
func cantBreak(f Fault) error {
	return fmt.Errorf("chaos: %v: %w on this backend", f, errors.ErrUnsupported)
}

// rests are the clients that are paused.
type rests struct {
	mu     sync.Mutex // guards paused
	paused map[string]*rest
}

// rest is one client's.
type rest struct {
	pauses int // that are not mended
	over   chan struct{}
}

func (r *rests) pause(client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused == nil {
		r.paused = map[string]*rest{}
	}
	if r.paused[client] == nil {
		r.paused[client] = &rest{over: make(chan struct{})}
	}
	r.paused[client].pauses++
}

func (r *rests) resume(client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.paused[client]
	if of == nil {
		return
	}
	if of.pauses--; of.pauses == 0 {
		close(of.over)
		delete(r.paused, client)
	}
}

// Rest blocks while client is paused, by its own name or with all others.
func (r *rests) Rest(client string) {
	for _, name := range []string{client, ""} {
		r.mu.Lock()
		of := r.paused[name]
		r.mu.Unlock()
		if of != nil {
			<-of.over
		}
	}
}
