package hold

import (
	"sync"

	"github.com/quorumkit/redlock/internal/revocation"
)

// Requests reach the holds of a Locker that can be asked for.
type Requests struct {
	mu    sync.Mutex // guards the fields below
	holds revocation.Holds
	tells map[string]*tell // by owner value, as holds
}

// tell is who is told that a hold was asked for.
type tell struct {
	asked chan struct{}  // closed then
	also  map[any]func() // by whose it is; called then, with mu held
}

// NewRequests makes a registry without holds.
func NewRequests() *Requests {
	return &Requests{holds: revocation.Holds{}, tells: make(map[string]*tell)}
}

// begin adds a hold, and returns the channel that closes when it is asked for.
func (r *Requests) begin(owner string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &tell{asked: make(chan struct{})}
	r.holds[owner], r.tells[owner] = false, t
	return t.asked
}

// end takes a hold out.
func (r *Requests) end(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.holds, owner)
	delete(r.tells, owner)
}

// Len is how many holds can be asked for.
func (r *Requests) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.holds)
}

// Hear takes in what was published to this Locker. It returns false where that asks for no
// hold that there is.
func (r *Requests) Hear(message string) bool {
	owner, ok := revocation.Parse(message)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	stands, first := r.holds.Hear(owner)
	if first {
		t := r.tells[owner]
		close(t.asked)
		for _, also := range t.also {
			also()
		}
	}
	return stands
}

// Also tells a set as well when this hold is asked for, at once if it was; stop ends
// that.
func (r *Requests) Also(owner string, set any, f func()) (stop func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tells[owner]
	if t == nil { // it has ended
		return func() bool { return false }
	}
	if r.holds[owner] {
		f()
	}
	if t.also == nil {
		t.also = make(map[any]func())
	}
	t.also[set] = f
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(t.also, set)
		return true
	}
}
