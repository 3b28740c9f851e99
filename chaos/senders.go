package chaos

import (
	"bytes"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// senders knows who sent which owner value first: it listens to what clients send.
type senders struct {
	history *history

	mu    sync.Mutex // guards first
	first map[string]sender
}

// sender is who sent a value first, and when: the owner of an attempt.
type sender struct {
	client string
	at     time.Duration
}

func newSenders(h *history) *senders { return &senders{history: h, first: map[string]sender{}} }

// shortestOwner is the length from which on an argument may be an owner value:
// what is shorter would not be random enough.
const shortestOwner = 16

// overhear has the senders, if there are any, note what a client's connections send from
// now on.
func (s *senders) overhear(client string, nodes []redis.UniversalClient) {
	if s != nil {
		overhear(nodes, ears{sent: func(data []byte) { s.heard(client, data) }})
	}
}

// heard notes what a client sends: the words of a command stand on lines of
// their own.
func (s *senders) heard(client string, sent []byte) {
	now := s.history.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for word := range bytes.SplitSeq(sent, []byte("\r\n")) {
		if len(word) < shortestOwner {
			continue
		}
		if _, known := s.first[string(word)]; !known {
			s.first[string(word)] = sender{client, now}
		}
	}
}

// of is who sent an owner value first.
func (s *senders) of(owner string) (sender, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, known := s.first[owner]
	return first, known
}
