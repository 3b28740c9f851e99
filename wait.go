package redlock

import (
	"context"
	"slices"
	"sync"
)

// turns orders the goroutines of one Locker that want the same name: first in,
// first out, and one of them at a time goes to the network. A thousand waiting
// goroutines cost the nodes as much as one.
type turns struct {
	mu     sync.Mutex // guards the field below
	queues map[string][]chan struct{}
}

func newTurns() *turns { return &turns{queues: make(map[string][]chan struct{})} }

// try takes the turn for key if nobody has it or waits for it.
func (t *turns) try(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, busy := t.queues[key]; busy {
		return false
	}
	t.queues[key] = nil
	return true
}

// take blocks until it is the caller's turn for key, or ctx is done. On failure
// it returns ctx's cause and leaves the queue as it was.
func (t *turns) take(ctx context.Context, key string) error {
	t.mu.Lock()
	queue, busy := t.queues[key]
	if !busy {
		t.queues[key] = nil
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.queues[key] = append(queue, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.queues[key], mine); i >= 0 {
		t.queues[key] = slices.Delete(t.queues[key], i, i+1)
		return contextError(ctx)
	}
	return nil // it became ours at the same moment
}

// pass gives the turn for key to the next in line.
func (t *turns) pass(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.queues[key]
	if len(queue) == 0 {
		delete(t.queues, key)
		return
	}
	close(queue[0])
	t.queues[key] = slices.Delete(queue, 0, 1)
}
