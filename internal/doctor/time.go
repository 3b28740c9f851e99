package doctor

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/round"
)

const (
	// stepSize is the difference above which ntpd steps a clock instead of
	// slewing it: a clock that is off by more is one that jumps when it is mended.
	stepSize = 128 * time.Millisecond
	// A renewal begins at a third of the TTL and should have room for a few more
	// tries of two round trips each before validity ends.
	roundTripsPerTTL = 9
	// A renewal that a hung node keeps waiting for one node timeout should still
	// leave room for another.
	timeoutsPerTTL = 3
	// How many TTLs MaxTTL may be before it is worth a word.
	ttlsPerMaxTTL = 30
	// The advised one, as the defaults have it.
	ttlsInMaxTTL = 3
)

var (
	aboutRoundTrip = diagnosis{
		FindingRoundTrip,
		"A reply that comes after the node timeout is no vote, and what it did must be rolled back",
		"Put the node nearer, find what holds it up (SLOWLOG, a busy disk, swapping), or raise WithNodeTimeout",
	}
	aboutShortTTL = diagnosis{
		FindingTTLRound,
		"A renewal has two thirds of the TTL to succeed in; with few round trips in it, one hiccup loses the lock",
		"Raise WithTTL, or put the nodes nearer",
	}
	aboutLongTimeout = diagnosis{
		FindingNodeTimeout,
		"A renewal that waits for a hung node leaves no time for another try before the lock is lost",
		"Lower WithNodeTimeout to a quarter of the TTL, or raise WithTTL",
	}
	aboutLongMaxTTL = diagnosis{
		FindingMaxTTL,
		"A node that forgot, and a new cluster, wait MaxTTL before they vote, though the usual lease is far shorter",
		"If no acquisition asks for more, lower it: Cluster.Change (redlock nodes change --max-ttl %v)",
	}
	aboutClocks = diagnosis{
		FindingClock,
		"When somebody sets it right, it jumps by that much: leases end early (a second holder) or late, and the node abstains for MaxTTL; expiry itself needs only its rate to be right. If it jumped while the server ran, that is done already, and a client that starts later does not see it",
		"Stop that server, set its clock, start it, and run redlock nodes join --wait; then keep it by NTP or chrony, which slew (docs/OPERATIONS.md)",
	}
	aboutTwoClocks = diagnosis{
		FindingClock,
		aboutClocks.why,
		"Find out which is right; the number of servers does not tell. Stop each server that is wrong, one after another, set its clock, start it, and run redlock nodes join --wait",
	}
	aboutOwnClock = diagnosis{
		FindingClock,
		"Validity does not depend on it; the fencing tokens that this client suggests are clamped to the nodes' clocks",
		"Run NTP or chrony on this machine",
	}
	aboutUnknownClock = diagnosis{
		FindingClock,
		"A clock that is off, and the round trip, could not be seen",
		"Let the user run TIME",
	}
)

// roundTrip judges what the pings took.
func (d *doctor) roundTrip(i int) {
	e := &d.exams[i]
	asked := len(e.trips) + e.lost
	if e.lost > 0 {
		severity := SeverityWarning
		if len(e.trips) == 0 {
			severity = SeverityError
		}
		d.find(severity, i, aboutRoundTrip, "%d of %d commands had no reply: %v", e.lost, asked, node.Explain(e.timeErr))
	}
	if len(e.trips) == 0 {
		return
	}
	p99 := percentile99(e.trips)
	if p99 > d.cfg.NodeTimeout*3/4 {
		d.find(SeverityWarning, i, aboutRoundTrip, "the 99th percentile of %d round trips is %v, more than three quarters of the node timeout of %v",
			len(e.trips), p99.Round(time.Microsecond), d.cfg.NodeTimeout)
	}
	if roundTripsPerTTL*p99 > d.cfg.TTL {
		d.find(SeverityWarning, i, aboutShortTTL, "the TTL of %v is less than %d round trips of %v (the 99th percentile of %d)",
			d.cfg.TTL, roundTripsPerTTL, p99.Round(time.Microsecond), len(e.trips))
	}
}

// percentile99 is by nearest rank: up to a hundred samples, it is the largest.
func percentile99(trips []trip) time.Duration {
	took := make([]time.Duration, len(trips))
	for i, t := range trips {
		took[i] = t.took
	}
	slices.Sort(took)
	return took[(99*len(took)+99)/100-1]
}

// clockSample is a clock's time at our Clock's origin, give or take the bound.
type clockSample struct {
	node  int // -1: our own
	at    wallTime
	bound time.Duration
}

// clocks compares the nodes' clocks with their median. Fewer than three have
// none that is worth the name: then our own has a voice.
func (d *doctor) clocks() {
	own := clockSample{node: -1, at: d.origin}
	var all []clockSample
	for i, e := range d.exams {
		switch {
		case len(e.trips) > 0:
			best, _ := e.bestTrip()
			all = append(all, clockSample{node: i, at: best.offset, bound: best.took / 2})
		case e.err == nil && e.lost == 0:
			d.find(SeverityUnknown, i, aboutUnknownClock, "TIME was refused: %v", e.timeErr)
		}
	}
	middle := own
	if len(all) > 1 {
		voices := slices.Clone(all)
		if len(voices) < 3 {
			voices = append(voices, own)
		}
		slices.SortFunc(voices, func(a, b clockSample) int { return a.at.Compare(b.at) })
		middle = voices[(len(voices)-1)/2]
	}
	limit := max(clock.Drift(d.cfg.TTL, d.cfg.Drift), stepSize)
	agree := func(a, b clockSample) bool { return a.at.Sub(b.at).Abs() <= limit+a.bound+b.bound }
	other, apart := secondGroup(all, middle, own, agree)
	var theirs, others []string // nodes by the median, and by the second group's clock
	for _, r := range all {
		switch {
		case agree(r, middle):
			theirs = append(theirs, d.names[r.node])
		case apart && agree(r, other):
			others = append(others, d.names[r.node])
		default:
			off := r.at.Sub(middle.at)
			d.find(SeverityWarning, r.node, aboutClocks, "its clock is %v %s the nodes' median (give or take %v)",
				off.Abs().Round(time.Millisecond), aheadOrBehind(off), (r.bound + middle.bound).Round(time.Microsecond))
		}
	}
	if apart {
		off, and := other.at.Sub(middle.at), [2]string{}
		switch {
		case agree(own, other):
			and[0] = " and of this machine"
		case agree(own, middle):
			and[1] = " and of this machine"
		}
		d.find(SeverityWarning, -1, aboutTwoClocks, "the clocks of %s%s are %v %s those of %s%s: one of the two is wrong",
			strings.Join(others, ", "), and[0], off.Abs().Round(time.Millisecond), aheadOrBehind(off), strings.Join(theirs, ", "), and[1])
	}
	if off := own.at.Sub(middle.at); len(all) > 1 && off.Abs() > round.HintLead && (!apart || !agree(own, other)) {
		d.find(SeverityInfo, -1, aboutOwnClock, "this client's clock is %v %s the nodes' median", off.Abs().Round(time.Millisecond), aheadOrBehind(off))
	}
}

// secondGroup is a clock on which, against the median, this machine and a node agree, or two
// nodes do. A single node that is off is no group.
func secondGroup(all []clockSample, middle, own clockSample, agree func(a, b clockSample) bool) (clockSample, bool) {
	for i, c := range append([]clockSample{own}, all...) {
		if len(all) < 2 || agree(c, middle) {
			continue
		}
		with := 0
		for _, r := range all {
			if agree(r, c) && !agree(r, middle) {
				with++
			}
		}
		if i == 0 && with > 0 || with > 1 {
			return c, true
		}
	}
	return clockSample{}, false
}

func aheadOrBehind(d time.Duration) string {
	if d > 0 {
		return "ahead of"
	}
	return "behind"
}
