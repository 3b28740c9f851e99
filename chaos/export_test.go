package chaos

import "time"

// Tap is what listens at the server's end of a connection.
type Tap = tap

// NewTap returns one that tells f.
func NewTap(f func(args [][]byte)) *Tap { return &tap{answered: f} }

// Sent is sent.
func (t *tap) Sent(data []byte) { t.sent(data) }

// Came is came.
func (t *tap) Came(data []byte) { t.came(data) }

// Observe is observe.
func Observe(stage Stage, h *History, lease time.Duration) (stop func(all bool)) {
	return observe(stage, h, lease)
}

// AttemptAt is attemptAt.
func (h *History) AttemptAt(client, resource string, at time.Duration) int64 {
	return h.attemptAt(client, resource, at)
}

// Health is quorumHealth, as records.
func (p Plan) Health() []Record {
	var records []Record
	for _, m := range p.quorumHealth() {
		records = append(records, Record{At: m.at, Kind: m.kind})
	}
	return records
}
