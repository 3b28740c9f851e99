package trace

import (
	"slices"
	"strings"
	"time"
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
