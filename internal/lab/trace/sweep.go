package trace

import (
	"cmp"
	"slices"
	"time"
)

// request is that a client asks for a resource.
type request struct {
	at     time.Duration // when it began to
	since  time.Duration // the healthy time then
	shared bool
	set    *setState // as of the latest attempt; nil if none
}

// wants notes that a client asks, if it did not before.
func (t *trial) wants(h *attempt, now time.Duration) {
	res, who := h.resource, wanting{h.client, h.resource.named}
	w := t.waits[who]
	if w == nil || w.shared != h.asksBeside {
		if !h.asksBeside {
			t.sharersProgressed(res, now) // it may keep them out from here on
		}
		fresh := &request{at: now, since: t.healthy(now), shared: h.asksBeside}
		if w != nil { // one and the same wait, of another kind from now on
			fresh.since = w.since
			t.drops(who, res, now)
		}
		w = fresh
		t.waits[who] = w
		*res.asking.Of(w.shared)++
	}
	w.set.notFor(res)
	if w.set = h.set; w.set != nil {
		res.sets = append(res.sets, w.set)
		w.set.shared, w.set.at = w.shared, w.at
		return
	}
	if res.asking.Exclusive+res.asking.Shared-len(res.sets) == 1 {
		res.idle = max(res.idle, w.at)
	}
	if w.shared && res.sharing() == 1 {
		res.beside = max(res.beside, w.at)
	}
}

// stopsAsking ends a client's wait: it holds, or it quit.
func (t *trial) stopsAsking(client string, res *resourceState, now time.Duration) {
	who := wanting{client, res.named}
	if w := t.waits[who]; w != nil {
		t.drops(who, res, now)
		t.waited(who, w.since, now)
	}
}

// drops forgets a wait.
func (t *trial) drops(who wanting, res *resourceState, now time.Duration) {
	w := t.waits[who]
	delete(t.waits, who)
	*res.asking.Of(w.shared)--
	if !w.shared {
		res.beside = max(res.beside, now)
	}
	w.set.notFor(res)
}

// quits takes in that a client no longer wants a resource. What it had of a set by then,
// unseen, is free from here on.
func (t *trial) quits(r Record) {
	res := t.resource(r)
	w := t.waits[wanting{r.Client, res.named}]
	res.rival(r.Client, w != nil && w.shared).quits(r)
	if w != nil && w.set != nil {
		res.idle = max(res.idle, r.At)
	}
	t.stopsAsking(r.Client, res, r.At)
}

func (t *trial) waited(who wanting, since, now time.Duration) {
	wait := t.healthy(now) - since
	t.verdict.LongestWait = max(t.verdict.LongestWait, wait)
	if t.judge.Patience > 0 && wait > t.judge.Patience {
		t.found(Starved, now, who.name, "%s asked a healthy quorum for %v", who.client, wait)
	}
}

// progressed looks whether a resource was left idle for too long up to now.
func (t *trial) progressed(res *resourceState, now time.Duration) {
	if t.judge.Progress == 0 || !t.well {
		return
	}
	t.sharersProgressed(res, now)
	asking, since := res.asking.Exclusive+res.asking.Shared, Forever
	if asking > len(res.sets) {
		since = res.freeSince(now)
	}
	for _, set := range res.sets {
		since = min(since, set.freeSince(now))
	}
	if idle := now - max(since, t.wellSince); asking > 0 && idle > t.judge.Progress {
		who := "nobody held"
		if res.slots {
			who = "a slot was free"
		}
		t.found(NoProgress, now, res.name, "%d clients asked, %s, for %v", asking, who, idle)
	}
}

// freeSince is since when nobody has the resource. A set that waits for a resource may
// have those of its names that stand before that one, and nothing says so: those are not
// free before the ones behind them are.
func (res *resourceState) freeSince(now time.Duration) time.Duration {
	if res.slots {
		return res.slotSince(now)
	}
	since := res.idle
	for _, h := range res.open {
		since = max(since, min(h.until, now))
	}
	for _, set := range res.sets {
		for _, m := range set.members {
			if m.resource.name > res.name {
				since = max(since, m.resource.freeSince(now))
			}
		}
	}
	return since
}

// sharersProgressed looks whether clients that want to share a resource were kept out for
// too long up to now by nobody who is, or waits to be, alone.
func (t *trial) sharersProgressed(res *resourceState, now time.Duration) {
	if t.judge.Progress == 0 || !t.well || res.asking.Shared == 0 {
		return
	}
	since := Forever
	if res.sharing() > 0 {
		since = res.besideSince(now)
	}
	for _, set := range res.sets {
		if set.shared {
			since = min(since, set.besideSince(now))
		}
	}
	if idle := now - max(since, t.wellSince); idle > t.judge.Progress {
		t.found(NoProgress, now, res.name, "%d clients asked to share it, nobody was in their way, for %v", res.asking.Shared, idle)
	}
}

// sharing is how many want to share this one resource.
func (res *resourceState) sharing() int {
	n := res.asking.Shared
	for _, set := range res.sets {
		if set.shared {
			n--
		}
	}
	return n
}

// besideSince is since when nobody is, or waits to be, alone; now, where somebody does.
func (res *resourceState) besideSince(now time.Duration) time.Duration {
	if res.asking.Exclusive > 0 {
		return now
	}
	since := res.beside
	for _, h := range res.open {
		if !h.shared {
			since = max(since, min(h.until, now))
		}
	}
	return since
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
			if until == Forever {
				until = now + 1 // it lasts at the last record, and may end behind it
			}
			t.believed(h, until)
		}
		for _, p := range res.places {
			t.overlaps(res, p)
		}
		t.crowds(res)
	}
	t.keysEnd()
	t.orphans(now)
	t.untold(now)
	t.gatheredAll(now)
	t.seenTokens()
	t.listsEnd(now)
	for _, h := range t.asks {
		t.stopsAsking(h.client, h.resource, now)
	}
	slices.SortStableFunc(t.verdict.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Text, b.Text))
	})
}

// overlaps finds the beliefs that met. In the order of their beginnings each one
// needs to be held against one other of each kind only: that which lasts longest so far;
// a shared one against the exclusive. Beliefs are half open: one may begin when another
// ends.
func (t *trial) overlaps(res *resourceState, p *place) {
	slices.SortFunc(p.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.of.id, b.of.id))
	})
	var longest Kinds[span]
	for _, s := range p.spans {
		t.meets(res, longest.Exclusive, s)
		if !s.of.shared {
			t.meets(res, longest.Shared, s)
		}
		if l := longest.Of(s.of.shared); l.of == nil || s.until > l.until {
			*l = s
		}
	}
}

// meets notes where a belief begins within another.
func (t *trial) meets(res *resourceState, l, s span) {
	if l.of == nil || l.of == s.of || s.from >= l.until {
		return
	}
	both := min(s.until, l.until) - s.from
	t.found(TwoHolders, s.from, res.name, "%s (hold %d) since %v and %s (hold %d), for %v",
		l.of.client, l.of.id, l.from, s.of.client, s.of.id, both)
	t.verdict.Overlap += both
}

// lost judges that a lock is lost which its library was to renew.
func (t *trial) lost(h *attempt, now time.Duration) {
	if t.judge.Renewed == 0 || h.over || h.endsItself(now) || !t.unbroken(h.client, now-t.judge.Renewed) {
		return
	}
	t.found(NeedlessLoss, now, h.resource.name, "%s lost hold %d, which it had since %v; a quorum has been healthy since %v", h.client, h.id, h.from, t.wellSince)
}

// endsItself tells whether the hold may have come to the end that it was given: that counts
// from when it was asked for on the nodes, which is some time before it was held.
func (h *attempt) endsItself(now time.Duration) bool {
	return h.ends > 0 && now >= h.ends-min(h.from-h.asked, SettlesWithin)
}

// overheld judges a belief that its library was to end by itself.
func (t *trial) overheld(h *attempt, until time.Duration) {
	if t.judge.Notice > 0 && h.ends > 0 && until > h.ends+t.judge.Notice && until != Forever {
		t.found(LateNotice, h.ends, h.resource.name, "%s was to have hold %d until %v, and had it until %v", h.client, h.id, h.ends, until)
	}
}

// wellSinceThen tells whether a quorum was healthy, and nothing wrong with the client, from
// then up to now.
func (t *trial) wellSinceThen(client string, then time.Duration) bool {
	since, answers := t.answersSince(client, "")
	return t.well && t.wellSince <= max(then, 0) && answers && since <= max(then, 0)
}

// unbroken tells whether a quorum was healthy, and nothing wrong between the client and any
// node, from then up to now: a lock that stands on a bare quorum goes with the first node of it.
func (t *trial) unbroken(client string, then time.Duration) bool {
	between := BetweenThem{Client: ProcessOf(client)}
	broken := func(o Trouble) bool { return o.meets(between) }
	for at, healed := range t.healed {
		if at.meets(between) && healed > max(then, 0) {
			return false
		}
	}
	forgot := t.forgets.open > 0 || t.forgets.last > max(then, 0)
	return !forgot && !slices.ContainsFunc(t.troubles, broken) && t.wellSinceThen(client, then)
}

// told takes in that a library tells its client of a loss.
func (t *trial) told(h *attempt, now time.Duration) {
	if !h.told && !h.released {
		t.notice(h, now, "was told so %v later", now-h.until)
	}
	h.told = true
}

// notice judges a loss whose client was told by now, or not yet.
func (t *trial) notice(h *attempt, now time.Duration, format string, args ...any) {
	if late := now - h.until; t.judge.Notice > 0 && late > t.judge.Notice {
		t.found(LateNotice, now, h.resource.name, "%s lost hold %d at %v, and "+format, append([]any{h.client, h.id, h.until}, args...)...)
	}
}

// untold judges, at the end, the locks that ended, and whose clients nobody told.
func (t *trial) untold(now time.Duration) {
	for _, h := range t.asks {
		if h.won && !h.told && !h.released {
			t.notice(h, now, "was never told so")
		}
	}
}

// took judges how long an attempt took.
func (t *trial) took(h *attempt, now time.Duration) {
	if took := now - h.asked; t.judge.Attempt > 0 && took > t.judge.Attempt && t.wellSinceThen(h.client, h.asked) {
		t.found(SlowAttempt, now, h.resource.name, "%s (hold %d) asked at %v, and it took %v", h.client, h.id, h.asked, took)
	}
}

// keyEnd takes in one who shares a key that a node shows: those of one key are together.
func (t *trial) keyEnd(r Record) {
	if len(t.shares) > 0 {
		if one := t.shares[0]; !r.Shared || r.Node != one.Node || r.Resource != one.Resource || r.At != one.At {
			t.keysEnd()
		}
	}
	if r.Shared {
		t.shares = append(t.shares, r)
	}
}

// keysEnd judges the shared key that was shown last: it ends with the last who shares it.
func (t *trial) keysEnd() {
	if len(t.shares) == 0 {
		return
	}
	last := t.shares[0]
	for _, r := range t.shares {
		if r.Until > last.Until {
			last = r
		}
	}
	if last.Ends != last.Until {
		t.found(KeyEnd, last.At, last.Resource, "%s has the key end at %v, and the last who shares it, %s, at %v",
			last.Node, last.Ends, last.Owner, last.Until)
	}
	t.shares = t.shares[:0]
}
