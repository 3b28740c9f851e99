package chaos

import (
	"cmp"
	"slices"
	"sync"
)

// rests are the clients that are paused.
type rests struct {
	mu     sync.Mutex // guards paused
	paused map[resting]*rest
}

// resting is where a client stops; no client: all of them, no moment: all of them.
type resting struct {
	client string
	at     Moment
}

// rest is what stops clients there.
type rest struct {
	pauses int // that are not mended
	over   chan struct{}
}

// stopsAt is what a fault of a client stops.
func stopsAt(f Fault) resting {
	if f.Kind == Suspend {
		return resting{client: f.Client}
	}
	return resting{f.Client, cmp.Or(f.Where, AtWrite)}
}

func (r *rests) pause(where resting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused == nil {
		r.paused = map[resting]*rest{}
	}
	if r.paused[where] == nil {
		r.paused[where] = &rest{over: make(chan struct{})}
	}
	r.paused[where].pauses++
}

func (r *rests) resume(where resting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.paused[where]
	if of == nil {
		return
	}
	if of.pauses--; of.pauses == 0 {
		close(of.over)
		delete(r.paused, where)
	}
}

// Rest blocks while client is paused at that moment or suspended, by its own name
// or with all others.
func (r *rests) Rest(client string, at Moment) {
	for _, where := range restsAt(client, at) {
		r.mu.Lock()
		of := r.paused[where]
		r.mu.Unlock()
		if of != nil {
			<-of.over
		}
	}
}

// stops tells whether Rest would block.
func (r *rests) stops(client string, at Moment) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(restsAt(client, at), func(where resting) bool { return r.paused[where] != nil })
}

// restsAt is all that stops a client at that moment.
func restsAt(client string, at Moment) []resting {
	return []resting{{client, at}, {"", at}, {client: client}, {}}
}
