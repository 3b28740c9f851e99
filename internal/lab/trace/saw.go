package trace

import (
	"slices"
	"time"
)

// reigning is what an observer is told of: a resource, and the value of who holds it.
type reigning struct{ resource, value string }

// saw judges what an observer is told. Nodes may have a hold before its client believes in
// it, and for a lease after: so a value is too old once all that asked with it have ended so
// long ago. But while one held it alone and nodes remembered, no other was on a quorum.
func (t *trial) saw(r Record) {
	if t.judge.Seen == 0 {
		return
	}
	what := reigning{r.Resource, r.Value}
	t.seen = append(t.seen, r)
	remember := t.well && t.wellSince <= max(r.At-t.judge.Seen, 0) || t.remembered(r.At)
	for _, h := range t.resource(r).open {
		if remember && h.value != r.Value && !h.shared && h.from <= r.At-t.judge.Seen && h.until > r.At {
			t.found(Stale, r.At, r.Resource, "%s is told of %q; %s (hold %d) held with %q since %v", r.Client, r.Value, h.client, h.id, h.value, h.from)
			return
		}
	}
	latest := time.Duration(-1)
	for _, h := range t.reigns[what] {
		latest = max(latest, min(h.until, r.At))
	}
	switch old := t.judge.Seen + t.judge.Lease + t.judge.Transit; {
	case r.Value == "":
	case latest < 0:
		t.found(Stale, r.At, r.Resource, "%s is told of %q, with which nobody asked", r.Client, r.Value)
	case r.At-latest > old:
		t.found(Stale, r.At, r.Resource, "%s is told of %q, which nobody has held since %v", r.Client, r.Value, latest)
	}
}

// remembered tells whether no node may have forgotten anything of late, though a quorum may
// be sick: who can't reach one is told nothing. Only a trace says so that names its faults.
func (t *trial) remembered(now time.Duration) bool {
	return t.forgets.named && t.forgets.open == 0 && now-t.forgets.last > t.judge.Seen+t.judge.Lease
}

// forgetting is what the sweep knows of faults after which a node may have forgotten.
type forgetting struct {
	named bool // there were faults
	open  int
	last  time.Duration
}

// takes takes in that a fault begins or ends.
func (g *forgetting) takes(r Record) {
	switch {
	case r.Fault == nil:
		return
	case !r.Fault.Forgets():
	case r.Kind == Mended:
		g.open--
		g.last = r.At
	case r.Fault.Kind.Lasts():
		g.open++
	default:
		g.last = r.At
	}
	g.named = true
}

// seenTokens judges the tokens that observers were told of, once all holds are known.
func (t *trial) seenTokens() {
	for _, r := range t.seen {
		holds := t.reigns[reigning{r.Resource, r.Value}]
		if r.Token > 0 && !slices.ContainsFunc(holds, func(h *attempt) bool { return h.token == r.Token || !h.won }) {
			t.found(Stale, r.At, r.Resource, "%s is told of %q by token %d, which no such hold had", r.Client, r.Value, r.Token)
		}
	}
}
