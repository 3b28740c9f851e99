package trace

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock"
)

// ProcessOf is the process that a client is of: what stands before a #, by which a
// trace tells the goroutines of one process apart.
func ProcessOf(client string) string {
	process, _, _ := strings.Cut(client, "#")
	return process
}

// rival is what the sweep knows of one process that wants a resource, to share it or
// alone: who wants both is two of them.
//
// It is so made that it never raises a false alarm: who stands in line is taken
// from what the nodes store, up to the moment at which another one is served; a
// place that was interrupted counts from its new beginning; and a process that
// neither lost its lock in its own eyes nor quit is still at what it began. What
// it can't see is an order among those whose first asks overlap, which nobody
// promises.
type rival struct {
	process string
	shared  bool
	asking  map[string]time.Duration // its clients that ask, since when
	holding int                      // holds that are not over
	began   time.Duration            // it neither asked nor held before
	left    time.Duration            // when it last held, or quit
	served  []time.Duration          // when it got the lock, since it began
	stood   bool                     // in line, on a quorum of nodes
	since   time.Duration            // if it stood
}

// rival is the one of a client's process that wants a resource so.
func (res *resourceState) rival(client string, shared bool) *rival {
	process := ProcessOf(client)
	for _, v := range res.rivals {
		if v.process == process && v.shared == shared {
			return v
		}
	}
	v := &rival{process: process, shared: shared, asking: map[string]time.Duration{}}
	res.rivals = append(res.rivals, v)
	return v
}

// lateLeave is how late the news may be that somebody left, besides what holds
// messages back: until then his place may still be there.
const lateLeave = 500 * time.Millisecond

// asks notes that a client wants the resource, if it did not before. Its process
// begins anew, unless it had a place a moment ago, or has one that it left: it may
// come back to it.
func (v *rival) asks(r Record, transit time.Duration) {
	if len(v.asking) == 0 && v.holding == 0 && (v.began == 0 || r.At-v.left > transit+lateLeave) {
		v.began, v.served = r.At, v.served[:0]
		if r.Since > 0 {
			v.began = r.Since
		}
	}
	if _, before := v.asking[r.Client]; !before {
		v.asking[r.Client] = r.At
	}
}

func (v *rival) quits(r Record) {
	delete(v.asking, r.Client)
	v.left = r.At
}

// gives notes that it holds no longer.
func (v *rival) gives(now time.Duration) {
	v.holding--
	v.left = now
}

// stands takes in what is known of its place in line.
func (v *rival) stands(r Record) { v.stood, v.since = r.Kind == Queued, r.Since }

// waitsSince is since when it has been in line, for a turn that it did not have
// yet; false: nothing says so.
func (v *rival) waitsSince(order time.Duration) (since time.Duration, ok bool) {
	if len(v.asking) == 0 {
		return 0, false
	}
	first := Forever
	for _, at := range v.asking {
		first = min(first, at)
	}
	switch {
	case v.stood:
		since = max(v.since, first)
	case order > 0:
		since = first + order
	default:
		return 0, false
	}
	if n := len(v.served); n > 0 {
		since = max(since, v.served[n-1])
	}
	return since, true
}

// overtakes tells whether v would overtake the other, served before it: it is another
// process, and not both want to share. A process orders its own goroutines by itself.
func (v *rival) overtakes(other *rival) bool {
	return v.process != other.process && (!v.shared || !other.shared)
}

// inTurn judges whether it was the turn of h's process, and notes that it had it. How
// often those of one process share in a row is not judged: all who stand in line go at
// once. Of slots each is handed on by itself.
func (t *trial) inTurn(h *attempt, now time.Duration) {
	res := h.resource
	mine := res.rival(h.client, h.asksBeside)
	for _, v := range res.rivals {
		if h.barging {
			break // it goes past all of them
		}
		since, waits := v.waitsSince(t.judge.Order)
		if !mine.overtakes(v) || !waits || since > now {
			continue
		}
		i, _ := slices.BinarySearch(mine.served, since)
		before := len(mine.served) - i // served since then
		switch {
		case mine.began > since:
			t.found(Overtaken, now, res.name, "%s (hold %d) first asked at %v, and had it before %s, in line since %v",
				h.client, h.id, mine.began, v.process, since)
		case t.judge.Turns > 0 && before >= t.judge.Turns*max(h.limit, 1) && !mine.shared:
			t.found(Overtaken, now, res.name, "%s (hold %d) had it %d times while %s was in line, since %v",
				h.client, h.id, before+1, v.process, since)
		}
	}
	delete(mine.asking, h.client)
	mine.holding++
	if !h.barging {
		mine.served = append(mine.served, now)
	}
}

// place is the place of a slot; of a resource without slots it is slot 0.
func (res *resourceState) place(slot int) *place {
	for len(res.places) <= slot {
		res.places = append(res.places, newPlace())
	}
	return res.places[slot]
}

// floors are the largest tokens so far, by slot.
func (res *resourceState) floors() []redlock.Token {
	floors := make([]redlock.Token, len(res.places))
	for i, p := range res.places {
		floors[i] = p.highest
	}
	return floors
}

// largestLimit is the most slots that a trace may speak of.
const largestLimit = 1 << 16

// slotOf is the slot of a hold that begins; false: the trace contradicts itself.
func (t *trial) slotOf(h *attempt, r Record) (slot int, ok bool) {
	if r.Limit != h.limit || r.Slot < 0 || r.Slot >= max(r.Limit, 1) || r.Limit > largestLimit {
		t.found(Malformed, r.At, r.Resource, "hold %d was asked for with a limit of %d, and has slot %d of %d", h.id, h.limit, r.Slot, r.Limit)
		return 0, false
	}
	return r.Slot, true
}

// crowded notes when the last slot was taken, before one of those who hold gives up. While
// limits differ, the largest holds.
func (res *resourceState) crowded(now time.Duration) {
	if res.slots {
		res.idle = max(res.idle, res.slotSince(now))
	}
}

// slotSince is since when a slot is free: once all but one of them are taken, the next
// belief that ends makes room.
func (res *resourceState) slotSince(now time.Duration) time.Duration {
	limit, ends := 0, make([]time.Duration, len(res.open))
	for i, h := range res.open {
		limit, ends[i] = max(limit, h.limit), min(h.until, now)
	}
	if limit == 0 || len(ends) < limit {
		return res.idle
	}
	slices.SortFunc(ends, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return max(res.idle, ends[limit-1])
}

// crowds finds the moments at which more had a slot than the largest of their limits.
func (t *trial) crowds(res *resourceState) {
	if !res.slots {
		return
	}
	var begins, ends []span
	for _, p := range res.places {
		begins = append(begins, p.spans...)
	}
	slices.SortStableFunc(begins, func(a, b span) int { // at one moment, one who may be one of more comes first
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.of.limit, a.of.limit))
	})
	ends = slices.Clone(begins)
	slices.SortStableFunc(ends, func(a, b span) int { return cmp.Compare(a.until, b.until) })
	limits, now := map[int]int{}, 0 // how many hold with which limit, and in all
	for _, s := range begins {
		for ; ends[0].until <= s.from; ends = ends[1:] {
			now--
			if limits[ends[0].of.limit]--; limits[ends[0].of.limit] == 0 {
				delete(limits, ends[0].of.limit)
			}
		}
		now++
		limits[s.of.limit]++
		if most := slices.Max(slices.Collect(maps.Keys(limits))); now > most {
			t.found(TooMany, s.from, res.name, "%s (hold %d) is the %d. at once, and %d may be", s.of.client, s.of.id, now, most)
		}
	}
}

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

// setOf is the set of an attempt that begins; nil if none.
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
