package chaos

import (
	"slices"
	"time"
)

// settlesWithin is how long a client and a node need to be at one again after a fault of
// their link.
const settlesWithin = time.Second

// betweenThem is a client's process and a node; empty: all of them.
type betweenThem struct{ client, node string }

// trouble is a fault that may keep a node from answering a client.
type trouble struct {
	betweenThem

	fault  Fault
	delays map[betweenThem]time.Duration // of messages, at most, by link: of this fault and those beside it
	since  time.Duration                 // without a break: of this fault, or of one before it
	healed time.Duration                 // once it was mended
}

// covers tells whether b has all that o has.
func (b betweenThem) covers(o betweenThem) bool {
	return (b.client == "" || b.client == o.client) && (b.node == "" || b.node == o.node)
}

// addDelays raises the delays of links that at has to what these faults together make a
// message late by there: on a link delays add up.
func addDelays(delays map[betweenThem]time.Duration, at betweenThem, together []trouble) {
	clients, nodes := []string{at.client}, []string{at.node}
	for _, o := range together {
		if at.client == "" && !slices.Contains(clients, o.client) {
			clients = append(clients, o.client)
		}
		if at.node == "" && !slices.Contains(nodes, o.node) {
			nodes = append(nodes, o.node)
		}
	}
	for _, c := range clients {
		for _, n := range nodes {
			link, sum := betweenThem{c, n}, time.Duration(0)
			for _, o := range together {
				if o.covers(link) {
					sum += o.fault.holdsBack()
				}
			}
			delays[link] = max(delays[link], sum)
		}
	}
}

// holdsBack is by how much the fault makes a message late, at most.
func (f Fault) holdsBack() time.Duration {
	if f.Kind == Slow || f.Kind == Jitter || f.Kind == Reorder {
		return f.Delay
	}
	return 0
}

// meets tells whether there are a client and a node that both are between.
func (b betweenThem) meets(o betweenThem) bool {
	return (b.client == "" || o.client == "" || b.client == o.client) && (b.node == "" || o.node == "" || b.node == o.node)
}

// keepsApart tells whether the fault may keep a node from answering a client.
func (f Fault) keepsApart() bool {
	switch f.Kind {
	case Flush, Delete, Evict, Step, Drift, Twice, WallClock:
		return false
	case Pause:
		return f.Where == AtReplies
	case Crash, Forget, Old, Failover, Stall, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Slow, Jitter, Reorder, Reset, HalfOpen, Refuse, OtherList, Suspend:
	}
	return true
}

// forgets tells whether a node may have forgotten after the fault, or be another one.
func (f Fault) forgets() bool {
	return f.Kind != Stall && (!f.Kind.ofLink() || f.Kind == OtherList) && !f.Kind.ofClient()
}

// whom is whom the fault of a record keeps apart. A node that the record does not name is
// any.
func whom(r Record) betweenThem {
	switch f := r.Fault; {
	case f.Kind.ofClient():
		return betweenThem{client: processOf(f.Client)}
	case f.Kind == OtherList:
		return betweenThem{client: processOf(f.Client)}
	case f.Kind.ofLink():
		return betweenThem{processOf(f.Client), r.Node}
	}
	return betweenThem{node: r.Node}
}

// breaks takes in that a fault begins.
func (t *trial) breaks(r Record) {
	t.forgets.takes(r)
	if r.Fault == nil || !r.Fault.keepsApart() {
		return
	}
	t.orphans(r.At)
	o := trouble{betweenThem: whom(r), fault: *r.Fault, delays: map[betweenThem]time.Duration{}, since: r.At}
	for _, before := range slices.Concat(t.troubles, t.healing) {
		if o.meets(before.betweenThem) && (before.healed == 0 || before.healed > r.At) {
			o.since = min(o.since, before.since)
		}
	}
	if r.Fault.Kind.lasts() {
		t.troubles = append(t.troubles, o)
		for i := range t.troubles {
			if other := &t.troubles[i]; other.meets(o.betweenThem) {
				addDelays(other.delays, other.betweenThem, t.troubles)
			}
		}
		return
	}
	t.heals(o, r.At)
}

// mends takes in that it ends.
func (t *trial) mends(r Record) {
	t.forgets.takes(r)
	i := slices.IndexFunc(t.troubles, func(o trouble) bool {
		return r.Fault != nil && o.fault == *r.Fault && o.betweenThem == whom(r)
	})
	if i >= 0 {
		o := t.troubles[i]
		t.troubles = slices.Delete(t.troubles, i, i+1)
		t.heals(o, r.At)
	}
}

// heals notes when the two are at one again. A process that is back with old data has the
// keys of then, for a lease; and what was held back for longer than a release is repeated
// may come, and stay for a lease.
func (t *trial) heals(o trouble, now time.Duration) {
	if o.fault.holdsBack() == 0 { // what others hold back is theirs
		o.delays = map[betweenThem]time.Duration{o.betweenThem: 0}
	}
	for link, late := range o.delays {
		healed := now + settlesWithin + late
		if o.fault.Kind == Old || o.fault.Kind == Failover || t.judge.Repeated > 0 && now+late-o.since > t.judge.Repeated-2*settlesWithin {
			healed += t.judge.Lease
		}
		t.healed[link], o.healed = max(t.healed[link], healed), max(o.healed, healed)
	}
	t.healing = append(slices.DeleteFunc(t.healing, func(p trouble) bool { return p.healed < now }), o)
}

// answersSince is since when a node, or if it is empty all of them, answers a client;
// false: it need not now.
func (t *trial) answersSince(client, node string) (since time.Duration, ok bool) {
	client = processOf(client)
	for _, o := range t.troubles {
		if (o.client == "" || o.client == client) && (o.node == node || o.node == "" && node != "") {
			return 0, false
		}
	}
	for _, between := range []betweenThem{{client, node}, {client, ""}, {"", node}, {}} {
		if node != "" || between.client != "" {
			since = max(since, t.healed[between])
		}
	}
	return since, true
}

// attempted notes an attempt of its client's process.
func (t *trial) attempted(h *attempt) {
	if t.judge.Orphan == 0 {
		return
	}
	of := wanting{processOf(h.client), h.resource.named}
	t.attempts[of] = append(slices.DeleteFunc(t.attempts[of], func(o *attempt) bool { return o.over && h.asked-o.until > forgottenAfter }), h)
}

// forgottenAfter is for how long an attempt that has ended is looked for by the time at
// which its owner value was sent first.
const forgottenAfter = 30 * time.Second

// stores takes in what a node has under a key from here on.
func (t *trial) stores(r Record) {
	if t.judge.Orphan == 0 {
		return
	}
	at := keyOf{node: r.Node, resource: r.Resource, slots: r.Limit > 0, slot: r.Slot}
	if r.Shared {
		at.shared = max(r.Hold, 1)
	}
	t.orphan(at, r.At)
	delete(t.keys, at)
	if r.Client != "" && (!r.Shared || r.Until > 0) {
		t.keys[at] = r
	}
}

// orphans judges all that nodes have up to now.
func (t *trial) orphans(now time.Duration) {
	for at := range t.keys {
		t.orphan(at, now)
	}
}

// orphan judges what a node has had under a key up to now.
func (t *trial) orphan(at keyOf, now time.Duration) {
	r, there := t.keys[at]
	if !there {
		return
	}
	if r.Until > 0 {
		now = min(now, r.Until)
	}
	ended, over := t.endOfOwner(r)
	answers, ok := t.answersSince(r.Client, r.Node)
	if late := now - max(ended, answers); over && ok && late > t.judge.Orphan {
		t.found(Orphan, now, r.Resource, "%s still has the key of %s, whose attempt ended at %v; it has answered since %v", r.Node, r.Client, ended, answers)
		delete(t.keys, at)
	}
}

// endOfOwner is when the attempt ended that a key is for; false: it may not have. Of
// several that the owner value may be of, the last counts; a later attempt of the process
// may be one of them, since a claim that stands may pass to it.
func (t *trial) endOfOwner(r Record) (ended time.Duration, over bool) {
	ended = r.Since
	if r.Hold > 0 { // the last of its process that was asked for; of several goroutines any may have it
		h := t.holds[r.Hold]
		if h == nil || !h.over {
			return 0, false
		}
		ended = max(ended, h.until)
	}
	if ended == 0 {
		return 0, false
	}
	for _, h := range t.attempts[wanting{processOf(r.Client), named{r.Resource, r.Limit > 0}}] {
		if h.over && h.until < r.Since {
			continue
		}
		if !h.over {
			return 0, false
		}
		ended = max(ended, h.until)
	}
	return ended, true
}
