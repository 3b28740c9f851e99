package tcpproxy

import (
	"bytes"
	"slices"
	"sync"
)

// recorder listens to one connection through a proxy, at the server's end: which
// commands it answered otherwise than by an error.
type recorder struct {
	answered func(args [][]byte) // is told of each, in order

	mu       sync.Mutex // guards the rest; not held while answered is called
	requests []byte     // not yet a whole command
	replies  []byte     // not yet a whole reply
	waiting  [][][]byte // commands without a reply
	deaf     bool       // what follows is not one reply for each command
}

// sent takes in what is about to go to the server.
func (t *recorder) sent(data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deaf {
		return
	}
	t.requests = append(t.requests, data...)
	for {
		v, rest, ok := parseRESP(t.requests)
		if !ok {
			return
		}
		var args [][]byte
		for _, item := range v.items {
			args = append(args, bytes.Clone(item.text))
		}
		t.requests = bytes.Clone(rest)
		if len(args) == 0 || slices.Contains([]string{"subscribe", "psubscribe", "ssubscribe", "monitor"}, string(bytes.ToLower(args[0]))) {
			t.deaf, t.requests, t.replies, t.waiting = true, nil, nil, nil
			return
		}
		t.waiting = append(t.waiting, args)
	}
}

// came takes in what came from the server.
func (t *recorder) came(data []byte) {
	for _, args := range t.match(data) {
		t.answered(args)
	}
}

// match returns the commands whose replies are complete now, and no errors.
func (t *recorder) match(data []byte) (answered [][][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deaf {
		return nil
	}
	t.replies = append(t.replies, data...)
	for {
		v, rest, ok := parseRESP(t.replies)
		if !ok {
			return answered
		}
		t.replies = bytes.Clone(rest)
		if v.kind == '>' || v.kind == '|' || len(t.waiting) == 0 {
			continue // no reply: a message of the server's own, or what stands before one
		}
		if !v.isError() {
			answered = append(answered, t.waiting[0])
		}
		t.waiting = t.waiting[1:]
	}
}

// idle tells whether each command that was sent has its reply.
func (t *recorder) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deaf || len(t.waiting) == 0
}
