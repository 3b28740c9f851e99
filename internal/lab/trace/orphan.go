package trace

import (
	"slices"
	"time"
)

// SettlesWithin is how long a client and a node need to be at one again after a fault of
// their link.
const SettlesWithin = time.Second

// BetweenThem is a client's process and a node; empty: all of them.
type BetweenThem struct{ Client, node string }

// Trouble is a fault that may keep a node from answering a client.
type Trouble struct {
	BetweenThem

	Fault  Fault
	delays map[BetweenThem]time.Duration // of messages, at most, by link: of this fault and those beside it
	since  time.Duration                 // without a break: of this fault, or of one before it
	healed time.Duration                 // once it was mended
}

// covers tells whether b has all that o has.
func (b BetweenThem) covers(o BetweenThem) bool {
	return (b.Client == "" || b.Client == o.Client) && (b.node == "" || b.node == o.node)
}

// AddDelays raises the delays of links that at has to what these faults together make a
// message late by there: on a link delays add up.
func AddDelays(delays map[BetweenThem]time.Duration, at BetweenThem, together []Trouble) {
	clients, nodes := []string{at.Client}, []string{at.node}
	for _, o := range together {
		if at.Client == "" && !slices.Contains(clients, o.Client) {
			clients = append(clients, o.Client)
		}
		if at.node == "" && !slices.Contains(nodes, o.node) {
			nodes = append(nodes, o.node)
		}
	}
	for _, c := range clients {
		for _, n := range nodes {
			link, sum := BetweenThem{c, n}, time.Duration(0)
			for _, o := range together {
				if o.covers(link) {
					sum += o.Fault.HoldsBack()
				}
			}
			delays[link] = max(delays[link], sum)
		}
	}
}

// HoldsBack is by how much the fault makes a message late, at most.
func (f Fault) HoldsBack() time.Duration {
	if f.Kind == Slow || f.Kind == Jitter || f.Kind == Reorder {
		return f.Delay
	}
	return 0
}

// meets tells whether there are a client and a node that both are between.
func (b BetweenThem) meets(o BetweenThem) bool {
	return (b.Client == "" || o.Client == "" || b.Client == o.Client) && (b.node == "" || o.node == "" || b.node == o.node)
}

// KeepsApart tells whether the fault may keep a node from answering a client.
func (f Fault) KeepsApart() bool {
	switch f.Kind {
	case Flush, Delete, Evict, Step, Drift, Twice, WallClock, ListChange:
		return false
	case Pause:
		return f.Where == AtReplies
	case Crash, Forget, Old, Failover, Stall, Cut, CutRequests, CutReplies, LoseRequests, LoseReplies, LoseCalls, Slow, Jitter, Reorder, Reset, HalfOpen, Refuse, OtherList, Suspend:
	}
	return true
}

// Forgets tells whether a node may have forgotten after the fault, or be another one.
func (f Fault) Forgets() bool {
	return f.Kind != Stall && f.Kind != ListChange && (!f.Kind.OfLink() || f.Kind == OtherList) && !f.Kind.OfClient()
}

// whom is whom the fault of a record keeps apart. A node that the record does not name is
// any.
func whom(r Record) BetweenThem {
	switch f := r.Fault; {
	case f.Kind.OfClient():
		return BetweenThem{Client: ProcessOf(f.Client)}
	case f.Kind == OtherList:
		return BetweenThem{Client: ProcessOf(f.Client)}
	case f.Kind.OfLink():
		return BetweenThem{ProcessOf(f.Client), r.Node}
	}
	return BetweenThem{node: r.Node}
}

// breaks takes in that a fault begins.
func (t *trial) breaks(r Record) {
	t.forgets.takes(r)
	if r.Fault == nil || !r.Fault.KeepsApart() {
		return
	}
	t.orphans(r.At)
	o := Trouble{BetweenThem: whom(r), Fault: *r.Fault, delays: map[BetweenThem]time.Duration{}, since: r.At}
	for _, before := range slices.Concat(t.troubles, t.healing) {
		if o.meets(before.BetweenThem) && (before.healed == 0 || before.healed > r.At) {
			o.since = min(o.since, before.since)
		}
	}
	if r.Fault.Kind.Lasts() {
		t.troubles = append(t.troubles, o)
		for i := range t.troubles {
			if other := &t.troubles[i]; other.meets(o.BetweenThem) {
				AddDelays(other.delays, other.BetweenThem, t.troubles)
			}
		}
		return
	}
	t.heals(o, r.At)
}

// mends takes in that it ends.
func (t *trial) mends(r Record) {
	t.forgets.takes(r)
	i := slices.IndexFunc(t.troubles, func(o Trouble) bool {
		return r.Fault != nil && o.Fault == *r.Fault && o.BetweenThem == whom(r)
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
func (t *trial) heals(o Trouble, now time.Duration) {
	if o.Fault.HoldsBack() == 0 { // what others hold back is theirs
		o.delays = map[BetweenThem]time.Duration{o.BetweenThem: 0}
	}
	for link, late := range o.delays {
		healed := now + SettlesWithin + late
		if o.Fault.Kind == Old || o.Fault.Kind == Failover || t.judge.Repeated > 0 && now+late-o.since > t.judge.Repeated-2*SettlesWithin {
			healed += t.judge.Lease
		}
		t.healed[link], o.healed = max(t.healed[link], healed), max(o.healed, healed)
	}
	t.healing = append(slices.DeleteFunc(t.healing, func(p Trouble) bool { return p.healed < now }), o)
}

// answersSince is since when a node, or if it is empty all of them, answers a client;
// false: it need not now.
func (t *trial) answersSince(client, node string) (since time.Duration, ok bool) {
	client = ProcessOf(client)
	for _, o := range t.troubles {
		if (o.Client == "" || o.Client == client) && (o.node == node || o.node == "" && node != "") {
			return 0, false
		}
	}
	for _, between := range []BetweenThem{{client, node}, {client, ""}, {"", node}, {}} {
		if node != "" || between.Client != "" {
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
	of := wanting{ProcessOf(h.client), h.resource.named}
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
	at := KeyOf{Node: r.Node, Resource: r.Resource, Slots: r.Limit > 0, Slot: r.Slot}
	if r.Shared {
		at.Shared = max(r.Hold, 1)
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
func (t *trial) orphan(at KeyOf, now time.Duration) {
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
	for _, h := range t.attempts[wanting{ProcessOf(r.Client), named{r.Resource, r.Limit > 0}}] {
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

// reigning is what an observer is told of: a resource, and the value of who holds it.
type reigning struct{ resource, value string }

// observed judges what an observer is told. Nodes may have a hold before its client believes in
// it, and for a lease after: so a value is too old once all that asked with it have ended so
// long ago. But while one held it alone and nodes remembered, no other was on a quorum.
func (t *trial) observed(r Record) {
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
