package chaos

import (
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
)

// walls are the clients' wall clocks: what a client's library takes for that, if it is
// redlock. Another one has the machine's.
type walls struct {
	mu    sync.Mutex // guards what follows
	first map[string]*redis.Client
	steps []wallStep // that are not mended
}

// wallStep is a fault that began, and whose clocks it set.
type wallStep struct {
	fault  Fault
	firsts []*redis.Client
}

// has notes the first of a client's nodes, by which its library is known.
func (w *walls) has(client string, first *redis.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		w.first = map[string]*redis.Client{}
	}
	w.first[client] = first
	clock.KeepWall(first)
}

// set begins a fault of a wall clock, or mends it: of those clients that it befell, and not
// of one that has come since.
func (w *walls) set(f Fault, broken bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var firsts []*redis.Client
	for client, first := range w.first {
		if f.Client == "" || f.Client == client {
			firsts = append(firsts, first)
		}
	}
	if len(firsts) == 0 {
		return noSuch(f)
	}
	by := f.Delay
	f.At, f.For = 0, 0 // a fault is the same one, no matter when
	if broken {
		w.steps = append(w.steps, wallStep{f, firsts})
	} else {
		i := slices.IndexFunc(w.steps, func(s wallStep) bool { return s.fault == f })
		if i < 0 {
			return nil // it did not begin
		}
		by, firsts = -by, w.steps[i].firsts
		w.steps = slices.Delete(w.steps, i, i+1)
	}
	for _, first := range firsts {
		clock.StepWall(first, by)
	}
	return nil
}

// drop ends it all.
func (w *walls) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, first := range w.first {
		clock.DropWall(first)
	}
	w.first, w.steps = nil, nil
}
