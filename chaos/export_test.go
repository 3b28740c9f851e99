package chaos

import "time"

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
