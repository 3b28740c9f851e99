package chaos

import (
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/wallclock"
)

// walls are the clients' wall clocks: what a client's library takes for that, if it is
// redlock. Another one has the machine's.
type walls struct {
	mu    sync.Mutex // guards first
	first map[string]*redis.Client
}

// has notes the first of a client's nodes, by which its library is known.
func (w *walls) has(client string, first *redis.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		w.first = map[string]*redis.Client{}
	}
	w.first[client] = first
	wallclock.Keep(first)
}

// set begins a fault of a wall clock, or mends it.
func (w *walls) set(f Fault, broken bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	by, found := f.Delay, false
	if !broken {
		by = -by
	}
	for client, first := range w.first {
		if f.Client == "" || f.Client == client {
			found = true
			wallclock.Step(first, by)
		}
	}
	if !found {
		return noSuch(f)
	}
	return nil
}

// drop ends it all.
func (w *walls) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, first := range w.first {
		wallclock.Drop(first)
	}
	w.first = nil
}
