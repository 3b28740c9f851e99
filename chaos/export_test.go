package chaos

import (
	"context"
	"time"
)

// What tests use that is no public name.
type (
	Actor   = actor
	History = history
	Request = request
	Profile = clientProfile
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

// Endless is a scenario whose script waits for nothing.
func Endless() Scenario {
	return Scenario{Name: "endless", Nodes: 2, list: []int{0}, script: func(ctx context.Context, _ *scene) {
		<-ctx.Done()
		must(ctx.Err())
	}}
}

// Unlistable is a scenario whose script adds a dead node to the list.
func Unlistable() Scenario {
	return Scenario{Name: "endless", Nodes: 2, list: []int{0}, script: func(ctx context.Context, s *scene) {
		s.breakNow(Fault{Kind: Crash, Node: 1})
		s.relist(ctx, 1, "")
	}}
}

// Only is only.
func Only(resources ...string) Request { return only(resources...) }

// Ask records that a client asks for a resource, and returns the number of the attempt.
func (h *history) Ask(client, resource string) int64 {
	_, ids := h.ask(client, only(resource))
	return ids[0]
}

// AttemptAt is attemptAt.
func (h *history) AttemptAt(client, resource string, at time.Duration) int64 {
	return h.attemptAt(client, resource, at)
}

// With is the plan with other habits.
func (p Plan) With(h Profile) Plan {
	p.clientProfile = h
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
