package trace

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quorumkit/redlock"
)

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
