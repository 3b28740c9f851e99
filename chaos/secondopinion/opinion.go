package secondopinion

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Opinion is what porcupine makes of a trace.
type Opinion struct {
	Operations int
	// Locks, Tokens and Writes are the resources whose operations have no legal
	// order, sorted: two holders; a token repeated or out of order; a stale write.
	// Of slots, each is a lock of its own.
	Locks, Tokens, Writes []string
}

// Sound tells whether everything has a legal order.
func (o Opinion) Sound() bool { return len(o.Locks)+len(o.Tokens)+len(o.Writes) == 0 }

// Ask checks a trace. It takes what a [trace.Judge] takes; of the judge's
// rules it knows those that are about the order of things: two holders, tokens,
// stale writes. The trace must not be malformed.
//
// A belief is two operations. It begins some time in its attempt, from Asked to
// Held, and ends at the very moment when the client stops believing, whichever
// way: so two beliefs that overlap have no order, and two that touch have one. A
// token is given out some time in its attempt. A write is at its moment.
func Ask(records []chaos.Record) Opinion {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b chaos.Record) int { return cmp.Compare(a.At, b.At) })
	h := &hearing{holds: map[int64]*hold{}, ranks: map[place]redlock.Token{}, heard: map[aspect][]operation{}}
	for i, r := range records {
		h.hear(moment{r.At, 1 + i}, r)
	}
	h.close()
	return h.opinion()
}

// moment is a time, and what comes first of one time: the end of a belief (0),
// then the records in their order.
type moment struct {
	at    time.Duration
	place int
}

func (m moment) compare(n moment) int {
	return cmp.Or(cmp.Compare(m.at, n.at), cmp.Compare(m.place, n.place))
}

// operation is one operation between two moments.
type operation struct {
	in        input
	call, end moment
}

// hold is an attempt, and the belief that came of it.
type hold struct {
	in    input  // of its beginning
	asked moment // when the belief may have begun, at the earliest
	from  moment // and at the latest
	until time.Duration
	won   bool
	over  bool
	rank  redlock.Token // its place among the resource's holds
}

// hearing collects operations.
type hearing struct {
	holds map[int64]*hold
	ranks map[place]redlock.Token // holds so far
	heard map[aspect][]operation
}

func (h *hearing) add(in input, call, end moment) {
	of := aspect{in.place, in.does}
	if in.does == ends {
		of.does = begins
	}
	h.heard[of] = append(h.heard[of], operation{in, call, end})
}

func (h *hearing) hear(now moment, r chaos.Record) {
	if r.Kind == trace.Asked {
		h.holds[r.Hold] = &hold{asked: now, in: input{does: begins, place: place{resource: r.Resource}, hold: r.Hold}}
		return
	}
	was := h.holds[r.Hold]
	if was == nil {
		return // of no hold: a fault, a node's key, or the like
	}
	switch r.Kind {
	case trace.Held:
		if r.Limit > 0 { // each slot is a lock
			was.in.slot = 1 + r.Slot
		}
		h.ranks[was.in.place]++
		was.won, was.from, was.until, was.rank = true, now, endOf(r.Until), h.ranks[was.in.place]
		was.in.shared = r.Shared
		if r.Token > 0 {
			h.add(input{does: issues, place: was.in.place, token: r.Token, shared: r.Shared}, was.asked, now)
		}
	case trace.Extended:
		if r.At > was.until { // in between it did not believe
			h.believed(was, was.until)
			was.asked, was.from = now, now
		}
		was.until = endOf(r.Until)
	case trace.Released, trace.Lost:
		if was.won && !was.over {
			was.over = true
			h.believed(was, min(was.until, r.At))
		}
	case trace.Wrote:
		in := input{does: writes, place: was.in.place, token: r.Token, shared: was.in.shared}
		if r.Token == 0 {
			in.does, in.token = follows, was.rank
		}
		h.add(in, now, now)
	case trace.Asked, trace.Failed, trace.Quit, trace.Refused, trace.Cleaned, trace.Shown, trace.Saw, trace.Sick, trace.Well, trace.Queued, trace.Unqueued, trace.Granted, trace.Noted,
		trace.Broke, trace.Mended, trace.Stored, trace.Turned, trace.Began, trace.Told, trace.Listed:
	}
}

// forever is the end of a belief that nothing has ended.
const forever = time.Duration(1<<63 - 1)

func endOf(until time.Duration) time.Duration {
	if until == 0 {
		return forever
	}
	return until
}

// believed adds the two operations of a belief that is over. One that ended no
// later than it began was none.
func (h *hearing) believed(was *hold, until time.Duration) {
	if until <= was.from.at {
		return
	}
	h.add(was.in, was.asked, was.from)
	in, end := was.in, moment{at: until}
	in.does = ends
	h.add(in, end, end)
}

// close adds the beliefs that are still there when the trace ends.
func (h *hearing) close() {
	for _, was := range h.holds {
		if was.won && !was.over {
			h.believed(was, was.until)
		}
	}
}

// opinion asks porcupine about each resource and aspect by itself.
func (h *hearing) opinion() Opinion {
	var o Opinion
	for of, operations := range h.heard {
		o.Operations += len(operations)
		model, bad := lock, &o.Locks
		switch of.does {
		case issues:
			model, bad = counter, &o.Tokens
		case writes, follows:
			model, bad = guard, &o.Writes
		case begins, ends:
		}
		if !porcupine.CheckOperations(model, ranked(operations)) {
			*bad = append(*bad, of.resource)
		}
	}
	for _, bad := range []*[]string{&o.Locks, &o.Tokens, &o.Writes} {
		slices.Sort(*bad)
		*bad = slices.Compact(*bad) // of several slots, and writes of both kinds
	}
	return o
}

// ranked turns moments into numbers of the same order, which is all that
// porcupine looks at.
func ranked(operations []operation) []porcupine.Operation {
	var moments []moment
	for _, op := range operations {
		moments = append(moments, op.call, op.end)
	}
	slices.SortFunc(moments, moment.compare)
	moments = slices.CompactFunc(moments, func(a, b moment) bool { return a == b })
	rank := map[moment]int64{}
	for i, m := range moments {
		rank[m] = int64(i)
	}
	out := make([]porcupine.Operation, len(operations))
	for i, op := range operations {
		out[i] = porcupine.Operation{ClientId: i, Input: op.in, Call: rank[op.call], Return: rank[op.end]}
	}
	return out
}
