package chaos

import (
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// history records what happens, on one time base. It is safe for concurrent
// use. In a testing/synctest bubble its time is the bubble's.
type history struct {
	start   time.Time
	witness *witness // if any; set before the first actor is made
	lines   *lines   // the same
	senders *senders // the same

	mu      sync.Mutex // guards the rest, and keeps the records in the order of time
	records []Record
	holds   int64
	sets    int64
}

// newHistory returns an empty history whose time begins now.
func newHistory() *history { return &history{start: time.Now()} }

// Now returns the time since the history began.
func (h *history) Now() time.Duration { return time.Since(h.start) }

// Add records r as of now, and returns that time; r's own At is ignored.
func (h *history) Add(r Record) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.At = h.Now()
	h.records = append(h.records, r)
	return r.At
}

// addAll records several things that happen at one time.
func (h *history) addAll(records []Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Now()
	for _, r := range records {
		r.At = now
		h.records = append(h.records, r)
	}
}

// Ask records an [trace.Asked] and returns the number of the attempt.
func (h *history) Ask(client, resource string) int64 {
	_, holds := h.ask(client, request{Resources: []string{resource}})
	return holds[0]
}

// ask records an attempt at all that is wanted, and returns the number of the set, if it
// is one, and those of the attempts.
func (h *history) ask(client string, w request) (set int64, holds []int64) {
	since := make([]time.Duration, len(w.Resources))
	for i, resource := range w.Resources {
		since[i] = h.lines.left(trace.ProcessOf(client), inLineOf{shared: w.Shared, slots: w.Limit > 0, Waiting: trace.Waiting{Resource: resource}})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(w.Resources) > 1 {
		h.sets++
		set = h.sets
	}
	now := h.Now()
	for i, resource := range w.Resources {
		h.holds++
		holds = append(holds, h.holds)
		h.records = append(h.records, Record{
			At: now, Kind: trace.Asked, Client: client, Resource: resource, Hold: h.holds, Since: since[i], Shared: w.Shared, Set: set, Limit: w.Limit, Value: w.Value, Barging: w.Barging,
		})
	}
	return set, holds
}

// Records returns what was recorded so far, in the order of time.
func (h *history) Records() []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Record(nil), h.records...)
}
