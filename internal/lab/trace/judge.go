package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quorumkit/redlock"
)

// Forever is the end of a belief that nothing has ended.
const Forever = time.Duration(math.MaxInt64)

// defaultLimit is how many violations of one rule a verdict lists: the first few
// say what there is to say.
const defaultLimit = 10

// Judge decides whether a trace keeps the rules. The zero value judges holders,
// tokens and writes; the other rules need to know what to expect.
type Judge struct {
	// Lease is the longest lease that anyone takes. 0: how long keys stay is not
	// judged.
	Lease time.Duration
	// Transit is how late a command may reach a node; it lengthens Lease where
	// keys are judged.
	Transit time.Duration
	// Progress is the longest that a healthy quorum may let clients ask while
	// nobody holds. A holder that died keeps a resource for a lease, so take more
	// than that. 0: not judged.
	Progress time.Duration
	// Patience is the longest that one client may have to ask a healthy quorum.
	// 0: not judged.
	Patience time.Duration
	// Order is how long before another process's first ask a client must have begun
	// to ask, to be served before it: for traces in which nothing keeps those who
	// wait from being heard, and that do not say themselves who is Queued. 0: not
	// judged.
	Order time.Duration
	// Turns is how often in a row a process that was there before may be served
	// while another one waits. 0: not judged.
	Turns int
	// Seen is how old at most what an observer is told may be. What was given up or lost may
	// stand on the nodes for Lease and Transit besides. 0: not judged.
	Seen time.Duration
	// Orphan is how long the key of an attempt that ended may stay on a node that answers its
	// client: nothing is broken between the two, or was a moment ago. 0: not judged.
	Orphan time.Duration
	// Repeated is for how long a release is tried again. What was held back for longer may
	// leave a key, which is no orphan. 0: for good.
	Repeated time.Duration
	// Notice is how late a library may tell its client of a loss. 0: not judged.
	Notice time.Duration
	// Renewed is for how long at least a quorum must have been healthy, and no node broken for
	// the client, so that a lock which its library renews is not lost. 0: not judged.
	Renewed time.Duration
	// Attempt is the longest that an attempt may take, of a client that does not wait. 0: not
	// judged.
	Attempt time.Duration
	// Limit is how many violations of a rule are listed; 0: ten.
	Limit int
}

// Judge returns its verdict on a trace: of a stage, of [Read], or one
// that the caller's own program wrote. Records out of the order of time are
// sorted first; those of one time keep their order. It is a sweep over the
// records and one over the holds: n log n at worst.
func (j Judge) Judge(records []Record) Verdict {
	if !slices.IsSortedFunc(records, ByTime) {
		records = slices.Clone(records)
		slices.SortStableFunc(records, ByTime)
	}
	t := &trial{
		judge: j, holds: make(map[int64]*attempt, len(records)/4), resources: map[named]*resourceState{},
		waits: map[wanting]*request{}, sets: map[int64]*setState{}, reigns: map[reigning][]*attempt{}, cleaned: map[atNode]time.Duration{}, well: true,
		keys: map[KeyOf]Record{}, attempts: map[wanting][]*attempt{}, healed: map[BetweenThem]time.Duration{},
		lists: lists{old: map[string]bool{}, of: map[int]configuration{}, was: map[string]bool{}, wants: map[string]bool{}, done: map[string]bool{}},
	}
	for _, r := range records {
		t.take(r)
	}
	if len(records) > 0 {
		t.finish(records[len(records)-1].At)
	}
	return t.verdict
}

// ByTime orders records.
func ByTime(a, b Record) int { return cmp.Compare(a.At, b.At) }

// attempt is an attempt, and the belief that came of it.
type attempt struct {
	id         int64
	client     string
	resource   *resourceState
	asksBeside bool      // it asked to share
	shared     bool      // it shares what it got
	set        *setState // nil if none
	limit      int       // of slots; 0: it asked for none
	value      string    // that observers are told
	of         *place    // what it got
	token      redlock.Token
	floors     []redlock.Token // the largest token that was there when it asked, of each slot
	won        bool
	over       bool
	asked      time.Duration
	barging    bool
	ends       time.Duration // when its library gives it up by itself; 0: never
	released   bool          // its client gave it up
	told       bool          // its library said that it is lost, or never says so
	from       time.Duration
	until      time.Duration // of its belief; of an attempt that failed, when it did
	rank       int           // its place among the holds
}

// span is one unbroken belief.
type span struct {
	of          *attempt
	from, until time.Duration
}

// place is what one has who excludes others: a resource, or a slot of it.
type place struct {
	highest redlock.Token              // of all locks so far
	issued  map[redlock.Token]*attempt // who has which token
	spans   []span
	held    int                  // locks so far
	wrote   Kinds[redlock.Token] // the largest accepted
	rank    Kinds[int]           // the latest hold without a token that wrote
}

func newPlace() *place { return &place{issued: map[redlock.Token]*attempt{}} }

// named is a resource, or what slots of it there are: neither excludes the other.
type named struct {
	name  string
	slots bool
}

// resourceState is what the sweep knows of one resource.
type resourceState struct {
	named

	places []*place      // one, or the slots so far
	open   []*attempt    // won and not over
	active time.Duration // the last time that a client did anything
	asking Kinds[int]    // clients that want it
	idle   time.Duration // since when it could have been granted, the open ones apart
	beside time.Duration // since when sharers could have been, the open exclusive ones apart
	sets   []*setState   // with it among them, that clients want
	rivals []*rival      // the processes that wanted it
}

// Kinds is something of exclusive holds, and of shared ones.
type Kinds[T any] struct{ Exclusive, Shared T }

// Of is that of the one kind or the other.
func (k *Kinds[T]) Of(shared bool) *T {
	if shared {
		return &k.Shared
	}
	return &k.Exclusive
}

// Waiting is who wants what.
type Waiting struct{ Client, Resource string }

// wanting is who wants what.
type wanting struct {
	client string
	named
}

type atNode struct{ node, owner string }

// trial is one sweep over a trace.
type trial struct {
	judge     Judge
	verdict   Verdict
	holds     map[int64]*attempt
	asks      []*attempt // all holds, as they were asked for
	resources map[named]*resourceState
	order     []*resourceState // as they came
	waits     map[wanting]*request
	sets      map[int64]*setState
	reigns    map[reigning][]*attempt
	cleaned   map[atNode]time.Duration
	shares    []Record // the latest that were shown of one shared key
	seen      []Record // what observers were told
	keys      map[KeyOf]Record
	attempts  map[wanting][]*attempt // of a process at a resource: those that are open, and the latest
	forgets   forgetting
	troubles  []Trouble // that are not mended
	healing   []Trouble // that were, a moment ago
	healed    map[BetweenThem]time.Duration
	lists     lists
	well      bool
	wellSince time.Duration
	wellSum   time.Duration // healthy time before wellSince
}

// healthy is how much of the time up to now a quorum was healthy.
func (t *trial) healthy(now time.Duration) time.Duration {
	if t.well {
		return t.wellSum + now - t.wellSince
	}
	return t.wellSum
}

func (t *trial) found(rule Rule, at time.Duration, resource, format string, args ...any) {
	limit := t.judge.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	if t.verdict.Count(rule) >= limit {
		return
	}
	t.verdict.Violations = append(t.verdict.Violations, Violation{Rule: rule, At: at, Resource: resource, Text: fmt.Sprintf(format, args...)})
}

// resource is what a record is about.
func (t *trial) resource(about Record) *resourceState {
	what := named{about.Resource, about.Limit > 0}
	r := t.resources[what]
	if r == nil {
		r = &resourceState{named: what, places: []*place{newPlace()}}
		t.resources[what] = r
		t.order = append(t.order, r)
	}
	return r
}

func (t *trial) take(r Record) {
	switch r.Kind {
	case Asked:
		t.asked(r)
	case Quit:
		t.quits(r)
	case Queued, Unqueued:
		t.resource(r).rival(r.Client, r.Shared).stands(r)
	case Cleaned:
		t.cleaned[atNode{r.Node, r.Owner}] = r.At
	case Shown:
		t.shown(r)
	case Saw:
		t.observed(r)
	case Sick:
		t.fallsSick(r.At)
	case Well:
		t.recovers(r.At)
	case Stored:
		t.stores(r)
	case Broke:
		t.breaks(r)
		t.lists.changed(r)
	case Mended:
		t.mends(r)
		t.lists.changed(r)
	case Listed:
		t.listed(r)
	case Granted, Turned, Began, Noted:
	case Failed, Held, Extended, Released, Lost, Told, Wrote, Refused:
		h := t.holds[r.Hold]
		if h == nil {
			t.found(Malformed, r.At, r.Resource, "%q of hold %d, which nobody asked for", r.Kind, r.Hold)
			return
		}
		h.resource.active = r.At
		t.ofHold(h, r)
	default:
		t.found(Malformed, r.At, r.Resource, "kind %q is unknown", r.Kind)
	}
}

// ofHold takes a record that is about an attempt or a lock.
func (t *trial) ofHold(h *attempt, r Record) {
	needsLock := r.Kind != Failed && r.Kind != Held
	switch {
	case needsLock && !h.won:
		t.found(Malformed, r.At, h.resource.name, "%q of hold %d, which was never held", r.Kind, r.Hold)
		return
	case !needsLock && (h.won || h.over):
		t.found(Malformed, r.At, h.resource.name, "%q of hold %d, whose attempt had ended", r.Kind, r.Hold)
		return
	}
	switch r.Kind {
	case Held:
		t.held(h, r)
	case Failed:
		t.verdict.Rounds++
		h.over, h.until = true, r.At
		t.took(h, r.At)
	case Extended:
		t.extended(h, r)
	case Released:
		h.released = h.released || !h.over
		t.ends(h, r.At)
	case Lost:
		t.lost(h, r.At)
		t.ends(h, r.At)
	case Told:
		t.told(h, r.At)
	case Refused:
		t.verdict.Refused++
	case Wrote:
		t.wrote(h, r)
	case Asked, Quit, Queued, Unqueued, Granted, Cleaned, Shown, Saw, Sick, Well, Broke, Mended, Stored, Turned, Began, Listed, Noted:
	}
}

func (t *trial) asked(r Record) {
	if t.holds[r.Hold] != nil {
		t.found(Malformed, r.At, r.Resource, "hold %d was asked for twice", r.Hold)
		return
	}
	res := t.resource(r)
	res.active = r.At
	h := &attempt{
		id: r.Hold, client: r.Client, resource: res, asksBeside: r.Shared, set: t.setOf(r),
		limit: r.Limit, value: r.Value, floors: res.floors(), asked: r.At, barging: r.Barging, until: Forever,
	}
	t.holds[r.Hold], t.asks = h, append(t.asks, h)
	if h.set != nil {
		h.set.members = append(h.set.members, h)
	}
	if h.value != "" {
		what := reigning{res.name, h.value}
		t.reigns[what] = append(t.reigns[what], h)
	}
	t.attempted(h)
	res.rival(r.Client, r.Shared).asks(r, t.judge.Transit)
	t.wants(h, r.At)
}

func (t *trial) held(h *attempt, r Record) {
	t.verdict.Rounds++
	t.verdict.Won++
	t.took(h, r.At)
	res := h.resource
	h.shared, h.told = r.Shared, r.Untold
	slot, ok := t.slotOf(h, r)
	if !ok {
		return
	}
	h.of = res.place(slot)
	t.progressed(res, r.At)
	t.inTurn(h, r.At)
	t.stopsAsking(h.client, res, r.At)
	h.of.held++
	res.open = append(res.open, h)
	h.won, h.token, h.from, h.until, h.ends, h.rank = true, r.Token, r.At, EndOf(r.Until), r.Ends, h.of.held
	if h.shared {
		res.beside = max(res.beside, r.At)
	}
	t.gathered(h, r)
	t.lasts(h, r)
	if r.Token == 0 {
		return
	}
	if other := h.of.issued[r.Token]; other != nil && (!other.shared || !h.shared) {
		t.found(TokenRepeated, r.At, res.name, "%s (hold %d) and %s (hold %d) both have %d", other.client, other.id, h.client, h.id, r.Token)
	}
	h.of.issued[r.Token] = h
	if slot < len(h.floors) && r.Token < h.floors[slot] {
		t.found(TokenOrder, r.At, res.name, "%s (hold %d) has %d; %d was there before it asked", h.client, h.id, r.Token, h.floors[slot])
	}
	h.of.highest = max(h.of.highest, r.Token)
}

// EndOf is the end of a belief whose record has until.
func EndOf(until time.Duration) time.Duration {
	if until == 0 {
		return Forever
	}
	return until
}

// extended lengthens a belief. One that had lapsed begins anew: in between the
// client did not believe.
func (t *trial) extended(h *attempt, r Record) {
	if h.over {
		t.found(Malformed, r.At, h.resource.name, "hold %d was extended after its end", r.Hold)
		return
	}
	if r.At > h.until {
		t.believed(h, h.until)
		h.from = r.At
	}
	h.until = EndOf(r.Until)
	t.whole(h, r.At)
	t.lasts(h, r)
}

// ends closes a belief: at now, or earlier where its validity ended before.
func (t *trial) ends(h *attempt, now time.Duration) {
	if h.over {
		return // lost and then released, or the like
	}
	h.over = true
	h.resource.crowded(now)
	h.resource.rival(h.client, h.asksBeside).gives(now)
	open := &h.resource.open
	*open = slices.DeleteFunc(*open, func(o *attempt) bool { return o == h })
	h.until = min(h.until, now)
	t.overheld(h, h.until)
	t.believed(h, h.until)
}

func (t *trial) believed(h *attempt, until time.Duration) {
	if until > h.from {
		h.of.spans = append(h.of.spans, span{h, h.from, until})
	}
	if !h.resource.slots {
		h.resource.idle = max(h.resource.idle, until)
	}
	if !h.shared {
		h.resource.beside = max(h.resource.beside, until)
	}
}

// wrote judges an accepted write by the rule that guards keep (fencing.Seen): those who
// share make one another not stale.
func (t *trial) wrote(h *attempt, r Record) {
	t.verdict.Writes++
	t.whole(h, r.At)
	res := h.resource
	x, s := h.of.wrote.Exclusive, h.of.wrote.Shared
	switch {
	case r.Token > 0 && h.shared && x > 0 && r.Token <= x:
		t.found(StaleWrite, r.At, res.name, "%s wrote with shared token %d after %d was accepted", h.client, r.Token, x)
	case r.Token > 0 && !h.shared && (r.Token < x || s > 0 && r.Token <= s):
		t.found(StaleWrite, r.At, res.name, "%s wrote with token %d after %d was accepted", h.client, r.Token, max(x, s))
	case r.Token == 0 && (h.rank < h.of.rank.Exclusive || !h.shared && h.rank < h.of.rank.Shared):
		t.found(StaleWrite, r.At, res.name, "%s (hold %d) wrote after a later holder had", h.client, h.id)
	}
	if rank := h.of.rank.Of(h.shared); r.Token == 0 {
		*rank = max(*rank, h.rank)
	}
	wrote := h.of.wrote.Of(h.shared)
	*wrote = max(*wrote, r.Token)
}

func (t *trial) shown(r Record) {
	if at, cleaned := t.cleaned[atNode{r.Node, r.Owner}]; cleaned {
		t.found(Litter, r.At, r.Resource, "%s shows %s, which it released at %v", r.Node, r.Owner, at)
	}
	t.keyEnd(r)
	if t.judge.Lease == 0 {
		return
	}
	res := t.resource(r)
	switch longest := t.judge.Lease + t.judge.Transit; {
	case r.Until == 0:
		t.found(Litter, r.At, r.Resource, "%s shows %s without an expiry", r.Node, r.Owner)
	case r.Until-r.At > t.judge.Lease:
		t.found(Litter, r.At, r.Resource, "%s keeps %s for another %v", r.Node, r.Owner, r.Until-r.At)
	case r.At-res.active > longest:
		t.found(Litter, r.At, r.Resource, "%s shows %s, %v after the last client was there", r.Node, r.Owner, r.At-res.active)
	}
}

// KeyOf is a key on a node, or one of those who share it.
type KeyOf struct {
	Node, Resource string
	Shared         int64 // its attempt; 0: it is not shared
	Slots          bool
	Slot           int
}
