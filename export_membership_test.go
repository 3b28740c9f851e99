package redlock

import (
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// What the proofs and the search of the membership rules need of the inside.
type (
	Record    = record
	Placement = placement
	Notice    = notice
	Sight     = sight
	Charter   = charter
	Watch     = watch
	Tenure    = tenure
	Fleet     = fleet
	Proposal  = proposal
	Plan      = plan
	Deed      = deed
	Seat      = seat
)

const (
	DoNothing = doNothing
	DoNotice  = doNotice
	DoWait    = doWait
	DoRead    = doRead
	DoPlace   = doPlace
	DoInstall = doInstall
	DoAmend   = doAmend

	RecordFormat = recordFormat
)

// RecordFields are the fields of redlock:node that are not stripes.
var RecordFields = recordFields

// SightOf is the sight of a node that answered: a record (nil: none), a run_id,
// a largest number and a notice, read at an instant.
func SightOf(at clock.Instant, run string, rec *record, largest quorum.Token, n notice) sight {
	s := sight{sent: at, seen: at, answered: true, run: run, counted: true, largest: largest, notice: n}
	if rec != nil {
		s.recorded, s.rec = true, *rec
	}
	return s
}

// RecordOf is a record as install.lua leaves it.
func RecordOf(epoch, cluster, run string, names []string, maxTTL time.Duration, base quorum.Token) record {
	return record{format: recordFormat, epoch: epoch, cluster: cluster, n: len(names), names: names, maxTTL: maxTTL, run: run, base: base}
}

func NoticeOf(nonce, run string) notice { return notice{nonce, run} }

func PlacementOf(old, fresh string) placement { return placement{old, fresh} }

func WatchOf(n notice, since clock.Instant) watch { return watch{notice: n, since: since} }

func ProposalOf(cluster string, clock quorum.Token, admit bool) proposal {
	return proposal{cluster: cluster, clock: clock, admit: admit}
}

func NewCharter(names []string, maxTTL time.Duration, strict bool) charter {
	return newCharter(names, maxTTL, strict)
}

// Needing is the charter with another count of members that a joiner reads.
func (c charter) Needing(n int) charter {
	c.needed = n
	return c
}

func (c charter) Needed() int { return c.needed }

func NewFleet(c charter, sights []sight, watches []watch) fleet { return newFleet(c, sights, watches) }

func ParseSight(reply []any, sent, seen clock.Instant) sight { return parseSight(reply, sent, seen) }

func Unread(last sight, sent, seen clock.Instant, cause string) sight {
	return unread(last, sent, seen, cause)
}

func CheckNames(names []string) error { return checkNames(names) }

func (w watch) Look(s sight) watch { return w.look(s) }

func (t tenure) Look(s sight) (tenure, sight) { return t.look(s) }

func (s sight) Returned() bool { return s.returned }

// AsReturned is the sight with the mark of an epoch that has ended.
func (s sight) AsReturned(returned bool) sight {
	s.returned = returned
	return s
}

func (w watch) Since() clock.Instant { return w.since }

func (w watch) Notice() notice { return w.notice }

// Knowing is the fleet as a client sees it that knew a strict cluster.
func (f fleet) Knowing(cluster string) fleet {
	f.knew = cluster
	return f
}

// Knows is the strict cluster that the client knows then.
func (f fleet) Knows() string { return f.knows() }

func (f fleet) Cluster() string { return f.cluster() }

func (f fleet) Standing(i int) (NodeState, string) { return f.standing(i) }

func (f fleet) Seat(i int) (seat, string) { return f.seat(i) }

func (s seat) Epoch() string { return s.epoch }

func (f fleet) Next(i int, now clock.Instant, p proposal) plan { return f.next(i, now, p) }

func (p plan) Do() deed { return p.do }

func (p plan) Cause() string { return p.cause }

func (p plan) Record() record { return p.record }

func (p plan) Notice() notice { return p.notice }

func (p plan) Until() (clock.Instant, bool) { return p.until, p.waiting }

func (p plan) Founding() bool { return p.founding }

func (p plan) Places() ([]int, []placement) { return p.at, p.places }

func (r record) Base() quorum.Token { return r.base }

func (r record) Cluster() string { return r.cluster }

func (r record) Epoch() string { return r.epoch }

func (r record) Names() []string { return r.names }

func (r record) MaxTTL() time.Duration { return r.maxTTL }

func (r record) Was() time.Duration { return r.was }

// WithWas is the record of a node whose MaxTTL is being lowered.
func (r record) WithWas(was time.Duration) record {
	r.was = was
	return r
}

func (r record) Longest() time.Duration { return r.longest() }

func (r record) Retired() []string { return r.retired }

func (r record) Replaced() []placement { return r.replaced }

func (r record) Gone() bool { return r.gone }

func (r record) WithEpoch(epoch string) record {
	r.epoch = epoch
	return r
}

// With is the record with marks.
func (r record) With(retired []string, replaced []placement) record {
	r.retired, r.replaced = retired, replaced
	return r
}

// AsGone is the record as retire.lua leaves it.
func (r record) AsGone() record {
	r.gone, r.epoch, r.run = true, "", ""
	return r
}

func (r record) Strict() bool { return r.strict }

// AsStrict is the record of a cluster that an operator recovers.
func (r record) AsStrict() record {
	r.strict = true
	return r
}

func (r record) InstallArgs(n notice) []any { return r.installArgs(n) }

func (r record) AmendArgs() []any { return r.amendArgs() }

func (s sight) Record() (record, bool) { return s.rec, s.recorded }

func (s sight) Refused() (string, bool) { return s.cause, s.refused }

func (s sight) Run() string { return s.run }

func (s sight) Sent() clock.Instant { return s.sent }

func (s sight) Largest() quorum.Token { return s.largest }

func (s sight) Standing() (notice, bool) { return s.standingNotice() }

func (c charter) MaxTTL() time.Duration { return c.maxTTL }

func (r record) Run() string { return r.run }

func (n notice) Nonce() string { return n.nonce }

func (n notice) Run() string { return n.run }
