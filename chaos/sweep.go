package chaos

import (
	"cmp"
	"slices"
	"time"
)

// stopsAsking ends a client's wait: it holds, or it quit.
func (t *trial) stopsAsking(client string, res *resourceState, now time.Duration) {
	who := waiting{client, res.name}
	since, waits := t.waits[who]
	if !waits {
		return
	}
	delete(t.waits, who)
	res.asking--
	t.waited(who, since, now)
}

func (t *trial) waited(who waiting, since, now time.Duration) {
	wait := t.healthy(now) - since
	t.verdict.LongestWait = max(t.verdict.LongestWait, wait)
	if t.judge.Patience > 0 && wait > t.judge.Patience {
		t.found(Starved, now, who.resource, "%s asked a healthy quorum for %v", who.client, wait)
	}
}

// progressed looks whether a resource was left idle for too long up to now.
func (t *trial) progressed(res *resourceState, now time.Duration) {
	if t.judge.Progress == 0 || !t.well || res.asking == 0 {
		return
	}
	since := max(res.idle, t.wellSince)
	for _, h := range res.open {
		since = max(since, min(h.until, now))
	}
	if idle := now - since; idle > t.judge.Progress {
		t.found(NoProgress, now, res.name, "%d clients asked, nobody held, for %v", res.asking, idle)
	}
}

func (t *trial) fallsSick(now time.Duration) {
	if !t.well {
		return
	}
	for _, res := range t.order {
		t.progressed(res, now)
	}
	t.wellSum, t.well = t.healthy(now), false
}

func (t *trial) recovers(now time.Duration) {
	if t.well {
		return
	}
	t.well, t.wellSince = true, now
}

// finish judges what is still open at the end of the trace.
func (t *trial) finish(now time.Duration) {
	for _, res := range t.order {
		t.progressed(res, now)
		for _, h := range res.open {
			until := h.until
			if until == forever {
				until = now + 1 // it lasts at the last record, and may end behind it
			}
			t.believed(h, until)
		}
		t.overlaps(res)
	}
	for _, h := range t.asks {
		t.stopsAsking(h.client, h.resource, now)
	}
	slices.SortStableFunc(t.verdict.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Text, b.Text))
	})
}

// overlaps finds the beliefs that met. In the order of their beginnings each one
// needs to be held against one other only: that which lasts longest so far.
// Beliefs are half open: one may begin when another ends.
func (t *trial) overlaps(res *resourceState) {
	slices.SortFunc(res.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.of.id, b.of.id))
	})
	var longest span
	for i, s := range res.spans {
		if i > 0 && s.from < longest.until && s.of != longest.of {
			both := min(s.until, longest.until) - s.from
			t.found(TwoHolders, s.from, res.name, "%s (hold %d) since %v and %s (hold %d), for %v",
				longest.of.client, longest.of.id, longest.from, s.of.client, s.of.id, both)
			t.verdict.Overlap += both
		}
		if i == 0 || s.until > longest.until {
			longest = s
		}
	}
}
