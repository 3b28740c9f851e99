package trace

import (
	"slices"
	"time"
)

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
