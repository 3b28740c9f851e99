package chaos

import "time"

// What tests use that is no public name.
type (
	Actor   = actor
	History = history
	Want    = request
	Habits  = habits
)

const (
	ScenarioLease = scenarioLease
	PlanVariable  = planVariable
)

var (
	NewActor         = newActor
	NewHistory       = newHistory
	ErrUnknownTarget = errUnknownTarget
	TextbookRedlock  = textbookRedlock
	SingleMaster     = singleMaster
	Backends         = backends
)

// Observe is observe.
func Observe(stage Stage, h *history, lease time.Duration) (stop func(all bool)) {
	return observe(stage, h, lease)
}

// AttemptAt is attemptAt.
func (h *history) AttemptAt(client, resource string, at time.Duration) int64 {
	return h.attemptAt(client, resource, at)
}

// With is the plan with other habits.
func (p Plan) With(h Habits) Plan {
	p.habits = h
	return p
}

// Health is quorumHealth, as records.
func (p Plan) Health() []Record {
	var records []Record
	for _, m := range p.quorumHealth() {
		records = append(records, Record{At: m.at, Kind: m.kind})
	}
	return records
}
