package trace

import (
	"slices"
	"time"
)

// setState is what the sweep knows of a set of resources that were asked for together.
type setState struct {
	client  string
	shared  bool
	at      time.Duration // since when its client wants it
	members []*attempt
	told    bool // that it was held in part
}

// freeSince is since when nobody has any of the set.
func (s *setState) freeSince(now time.Duration) time.Duration {
	since := s.at
	for _, m := range s.members {
		since = max(since, m.resource.freeSince(now))
	}
	return since
}

// besideSince is since when nobody is, or waits to be, alone in any of the set.
func (s *setState) besideSince(now time.Duration) time.Duration {
	since := s.at
	for _, m := range s.members {
		since = max(since, m.resource.besideSince(now))
	}
	return since
}

// setOf is the set of an attempt that begins; nil: none.
func (t *trial) setOf(r Record) *setState {
	if r.Set == 0 {
		return nil
	}
	s := t.sets[r.Set]
	if s == nil {
		s = &setState{client: r.Client}
		t.sets[r.Set] = s
	}
	if s.client != r.Client {
		t.found(Malformed, r.At, r.Resource, "set %d is %s's, and %s asks for it", r.Set, s.client, r.Client)
	}
	return s
}

// notFor notes that the set is not asked for any more, as far as this resource goes.
func (s *setState) notFor(res *resourceState) {
	if s == nil {
		return
	}
	if i := slices.Index(res.sets, s); i >= 0 {
		res.sets = slices.Delete(res.sets, i, i+1)
	}
}

// gathered looks, at each record of a set that is held, whether all of it is, once all of
// it was said to be.
func (t *trial) gathered(h *attempt, r Record) {
	if set := t.sets[r.Set]; set != h.set {
		t.found(Malformed, r.At, h.resource.name, "hold %d was asked for with another set than %d", h.id, r.Set)
		return
	}
	if h.set == nil || slices.ContainsFunc(h.set.members, func(m *attempt) bool { return !m.won && !m.over }) {
		return
	}
	for _, m := range h.set.members {
		if !m.won || m.over || m.until <= r.At {
			t.inPart(h, m, r.At)
		}
	}
}

// whole looks whether a set is whole of which one hold is lengthened, or used.
func (t *trial) whole(h *attempt, now time.Duration) {
	if h.set == nil || h.over {
		return
	}
	for _, m := range h.set.members {
		if !m.won || m.over {
			t.inPart(h, m, now)
		}
	}
}

// gatheredAll looks at the end for sets of which some were held, and others never.
func (t *trial) gatheredAll(now time.Duration) {
	for _, h := range t.asks {
		if h.set == nil || !h.won {
			continue
		}
		for _, m := range h.set.members {
			if !m.won {
				t.inPart(h, m, now)
			}
		}
	}
}

// inPart notes, once for a set, that one of it is held and another is not.
func (t *trial) inPart(h, m *attempt, now time.Duration) {
	if !h.set.told {
		h.set.told = true
		t.found(AllOrNothing, now, h.resource.name, "%s has hold %d of a set, and does not hold %q", h.client, h.id, m.resource.name)
	}
}
