package hold

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/acquire"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

const (
	// pollInterval is how often the keeper looks at the clock while a lock is
	// held: Go's timers do not count a suspend, and Done must follow within a
	// second of its end.
	pollInterval = 500 * time.Millisecond
	// A lock is renewed at a third of its TTL, up to a tenth of that earlier, on
	// a grid of a two-hundredth of the TTL, so that many locks go in one script.
	renewalShare = 3
	renewalGrid  = 200
	// retryRenewal is the longest pause after a renewal that failed.
	retryRenewal = 250 * time.Millisecond
	// A node that votes again gets each held lock within node.ConfirmSpread, on this grid:
	// the locks of one holder go in batches.
	confirmGrid = 50 * time.Millisecond
)

// renewalAfter is when a lease that was sent at start is renewed; share, from 0 to
// 1, is how much of the spread that is earlier.
func renewalAfter(start clock.Instant, ttl time.Duration, share float64) clock.Instant {
	third := ttl / renewalShare
	at := start.Add(third - time.Duration(share*float64(third/10)))
	return max(at.Floor(max(ttl/renewalGrid, time.Millisecond)), start)
}

// confirmationAfter is when a lock is confirmed on a node that votes again since now.
func confirmationAfter(now clock.Instant, share float64) clock.Instant {
	return max(now.Add(time.Duration(share*float64(node.ConfirmSpread))).Floor(confirmGrid), now)
}

// Config is what a Keeper knows of its Locker.
type Config struct {
	Acquirer *acquire.Acquirer // brings the grants, and takes the releases
	Requests *Requests
	Watch    func() // starts the watch over the nodes' clocks
	Causes   Causes
	Door     Door
}

// Door is what is told of holds, and puts into words what became of them.
type Door interface {
	// Began tells that a call that began then was granted a hold, which is valid for so long.
	Began(h *Hold, began clock.Instant, g acquire.Success, valid time.Duration)
	// Entered tells that a context got one more handle.
	Entered(ctx context.Context, h *Hold)
	// Extended tells what an extension that began at start came to: the hold goes on, and is
	// valid for so long. Where no quorum confirmed it, refusal has the votes, and it returns
	// their error.
	Extended(h *Hold, start clock.Instant, valid time.Duration, renewal bool, refusal *Refusal) error
	// Ended tells why a hold ended, how long it was held, and what was left of its validity.
	Ended(h *Hold, cause error, held, valid time.Duration)
	// Released tells what a release came to, as Extended does.
	Released(h *Hold, took time.Duration, refusal *Refusal) error
	// NotHeld returns the error of an extension of a hold that ended for this cause.
	NotHeld(h *Hold, cause error) error
	// Gone returns why a hold ended that nodes said they no longer have.
	Gone(h *Hold, said *Refusal) error
	// Doubted returns why a hold ended for which only so many nodes are left that vouch.
	Doubted(left int, cause error) error
}

// Refusal is a round that brought no quorum.
type Refusal struct {
	Votes  []quorum.Vote
	Causes []error // of the votes
}

// Keeper watches over all held locks of a Locker: it renews them in time, and ends
// them when their validity, or their longest hold, has passed. It is one heap and
// one timer, for any number of locks.
type Keeper struct {
	Config
	clock *clock.Clock
	nodes []*node.Node
	work  sync.WaitGroup // renewals under way

	mu      sync.Mutex // guards the fields below, and due and place of every hold
	holds   dueHeap
	beside  map[string]int // holds beside which this Locker may ask the nodes for the name again: shared ones, and slots
	timer   *time.Timer
	armed   clock.Instant // when the timer fires; 0: it is not set
	stopped bool
}

// NewKeeper makes a Keeper that has nothing to keep.
func NewKeeper(c Config) *Keeper {
	nodes := c.Acquirer.Nodes
	return &Keeper{Config: c, clock: c.Acquirer.Clock, nodes: nodes, beside: map[string]int{}}
}

// Terms are what a hold is made on.
type Terms struct {
	Resource  string
	Began     clock.Instant // the call
	TTL       time.Duration
	MaxHold   time.Duration // 0: no bound
	Fixed     bool
	Barging   bool
	Leads     bool
	Revocable bool
}

// Begin makes of h the hold that a quorum granted, and keeps it. It returns false once
// the keeper was stopped: the grant is given back then.
func (k *Keeper) Begin(ctx context.Context, h *Hold, t *Terms, g *acquire.Success) bool {
	*h = Hold{
		Resource: t.Resource, Claim: g.Claim, Values: ctx, Fixed: t.Fixed, Leads: t.Leads,
		keeper: k, Since: k.clock.Early(), ttl: t.TTL, asked: t.TTL, valid: g.Valid, place: -1,
	}
	if t.MaxHold > 0 {
		h.maxUntil = g.Asked.Add(t.MaxHold)
	}
	start := g.Start
	h.renewAt = h.renewalLocked(start) // nobody else has it
	if g.Short {                       // most are released before
		h.renewAt = min(h.renewAt, h.Since.Add(grant.ExtendAfter))
	}
	if !g.Claim.Shared() {
		k.Acquirer.Queue.CountHold(g.Claim.Key, t.Barging && g.Turn != acquire.HandedOver, t.Leads)
	}
	if t.Revocable {
		h.Revoked = k.Requests.begin(g.Claim.Owner)
		k.Acquirer.Presence.Listen() //nolint:contextcheck // it serves other holds too
	}
	if !k.add(h, t.Began, g) {
		h.unregister()
		k.Acquirer.Releases.GiveBack(g.Claim, t.TTL)
		return false
	}
	h.doubt(start)
	if g.Turn == acquire.HandedOver { // its predecessor may still have been due
		start = start.Add(-node.ConfirmSpread)
	}
	if h.missed(start) {
		h.hasten()
	}
	return true
}

// add takes a hold in, and tells that it begins: nothing else of it can have been told by
// then. It returns false once the keeper was stopped.
func (k *Keeper) add(h *Hold, began clock.Instant, g *acquire.Success) bool {
	due := h.nextDue()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return false
	}
	k.Door.Began(h, began, *g, g.Valid.Remaining(h.Since))
	h.due = due
	heap.Push(&k.holds, h)
	if key, beside := besideKey(h.Claim); beside {
		k.beside[key]++
	}
	k.armLocked()
	k.Watch()
	return true
}

func (k *Keeper) remove(h *Hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.place >= 0 {
		heap.Remove(&k.holds, h.place)
		if key, beside := besideKey(h.Claim); beside {
			if k.beside[key]--; k.beside[key] == 0 {
				delete(k.beside, key)
			}
		}
	}
}

// besideKey is the key that a hold counts under in beside, if it does.
func besideKey(c *round.Claim) (key string, beside bool) {
	if slot := c.Slot(); slot != nil {
		return slot.Line, true
	}
	return c.Key, c.Shared()
}

// Holds says that the Locker itself holds what the nodes refuse it; nil: it does not. An
// exclusive hold never gets so far: the queue knows it.
func (k *Keeper) Holds(key string) error {
	name, _, slot := lua.SlotOf(key)
	if slot {
		key = lua.SlotsKey(name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch n := k.beside[key]; {
	case n == 0:
		return nil
	case slot:
		return fmt.Errorf("this Locker holds %d of its slots", n)
	}
	return errHoldsIt
}

var errHoldsIt = errors.New("this Locker holds it")

// Busy tells whether any lock is held.
func (k *Keeper) Busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.holds) > 0
}

// held returns the locks that are held.
func (k *Keeper) held() []*Hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.holds)
}

// Distrust takes a node out of what every held lock stands on that it vouched for in
// a round since then.
func (k *Keeper) Distrust(node int, since clock.Instant, cause error) {
	for _, h := range k.held() {
		h.discount(node, since, cause)
	}
}

// ConfirmOn hastens the confirmation of all held locks that a node has not vouched for: it
// votes again, and may hold none of them. Else a restart of the next node of three takes
// locks away: all of twenty at a TTL of 6 s, and a fixed lease would never come back.
//
// Each is an ordinary extension to all nodes, which re-seeds the node if a quorum confirms
// the lock. A re-seed without that may leave a key that no quorum stands behind. Nor does
// another client copy keys: their holders may release them in that moment.
func (k *Keeper) ConfirmOn(node int) {
	for _, h := range k.held() {
		if !h.Claim.VouchedBy(node) {
			h.hasten()
		}
	}
}

// list is the one that the Locker goes by.
func (k *Keeper) list() quorum.List { return k.Acquirer.Tracker.List() }

// Relisted makes all held locks go over to the list that the Locker goes by now.
func (k *Keeper) Relisted() {
	for _, h := range k.held() {
		if h.Claim.List() != k.list() {
			h.mu.Lock()
			h.tries = 0
			h.mu.Unlock()
			h.hasten()
		}
	}
}

// reschedule puts a held lock where its next date says.
func (k *Keeper) reschedule(h *Hold) {
	due := h.nextDue()
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.place >= 0 {
		h.due = due
		heap.Fix(&k.holds, h.place)
		k.armLocked()
	}
}

// armLocked sets the timer for the first lock's date. A timer that fires too early costs
// nothing but the look.
func (k *Keeper) armLocked() {
	if k.stopped || len(k.holds) == 0 {
		return
	}
	now := k.clock.Early()
	at := min(k.holds[0].due, now.Add(pollInterval))
	if k.armed != 0 && k.armed <= at {
		return
	}
	k.armed = at
	wait := max(at.Sub(now), 0)
	if k.timer == nil {
		k.timer = k.clock.AfterFunc(wait, k.tick)
	} else {
		k.timer.Reset(wait)
	}
}

// tick does what is due.
func (k *Keeper) tick() {
	now := k.clock.Now()
	k.mu.Lock()
	if k.stopped {
		k.mu.Unlock()
		return
	}
	k.armed = 0
	var due []*Hold
	for len(k.holds) > 0 && k.holds[0].due <= now {
		h := k.holds[0]
		due = append(due, h)
		h.due = now.Add(pollInterval) // until it is known better
		heap.Fix(&k.holds, 0)
	}
	k.work.Add(1)
	k.armLocked()
	k.mu.Unlock()
	defer k.work.Done()

	var renewals []*Hold
	for _, h := range due {
		holds, overheld := h.holds(now)
		switch {
		case !holds:
			h.end(Lapsed)
		case overheld:
			k.work.Go(func() { h.overrun() })
		case h.beginRenewal(now):
			renewals = append(renewals, h)
			k.reschedule(h)
		default:
			k.reschedule(h)
		}
	}
	for _, group := range together(renewals) {
		k.work.Go(func() { k.renew(group) })
	}
}

// overrun releases a lock that was held for its maximum.
func (h *Hold) overrun() {
	if r, left := h.Leave(MaxHeld, true); left {
		_ = r.Confirm(0) // told by an event
	}
}

// together are the holds in groups that are renewed in one call each: they are of one
// kind, and their calls wait equally long for a node.
func together(holds []*Hold) [][]*Hold {
	type kind struct {
		bound  time.Duration
		shared bool
	}
	by := make(map[kind][]*Hold)
	for _, h := range holds {
		of := kind{h.bound(), h.Claim.Shared()}
		by[of] = append(by[of], h)
	}
	var groups [][]*Hold
	for _, same := range by {
		groups = slices.AppendSeq(groups, slices.Chunk(same, lua.ExtendBatchSize))
	}
	return groups
}

// send sends the extension of holds to ttls, and returns at once.
func (k *Keeper) send(holds []*Hold, ttls []time.Duration) *node.Extension {
	claims, leases := make([]*round.Claim, len(holds)), make([]int64, len(holds))
	for i, h := range holds {
		claims[i], leases[i] = h.Claim, clock.Milliseconds(ttls[i])
	}
	return node.Extend(k.nodes, k.list(), claims, leases, k.clock.Early())
}

// renew makes one round for up to lua.ExtendBatchSize holds. One that no quorum
// confirmed is tried again, as often as fits into what is left of its validity.
func (k *Keeper) renew(holds []*Hold) {
	ttls := make([]time.Duration, len(holds))
	for i, h := range holds {
		ttls[i] = h.lease(k.clock.Early())
	}
	e := k.send(holds, ttls)
	e.Renewal = true
	e.Wait(context.Background(), k.clock, holds[0].bound(), func(i int) {
		h := holds[i]
		if err := h.extended(e, i, ttls[i]); err != nil {
			h.retryRenewal()
		}
		h.passTurn()
	})
}

// TakeTurns waits until the caller alone may extend these holds. It fails where ctx ends,
// or one of them does: ended then tells so, and err is the cause.
func TakeTurns(ctx context.Context, holds []*Hold) (ended bool, err error) {
	for i, h := range holds {
		if ended, err = h.takeTurn(ctx); err != nil {
			PassTurns(holds[:i])
			return ended, err
		}
	}
	return false, nil
}

// PassTurns ends what TakeTurns began, where Extend was not called.
func PassTurns(holds []*Hold) {
	for _, h := range holds {
		h.passTurn()
	}
}

// Longest is the longest that one of these holds has left.
func (k *Keeper) Longest(holds []*Hold) (left time.Duration) {
	now := k.clock.Now()
	for _, h := range holds {
		left = max(left, h.Remaining(now))
	}
	return left
}

// Extend makes one round that lengthens the leases of these holds to ttl, for a caller
// that has their turns, and passes them on. It returns the error of the first that was
// not confirmed.
func (k *Keeper) Extend(ctx context.Context, holds []*Hold, ttl time.Duration) error {
	ttls, bound := make([]time.Duration, len(holds)), time.Duration(0)
	for i, h := range holds {
		bound = max(bound, h.bound())
		h.mu.Lock()
		h.asked, ttls[i] = max(h.asked, ttl), ttl // also where no reply comes
		h.mu.Unlock()
	}
	e := k.send(holds, ttls)
	errs := make([]error, len(holds))
	e.Wait(ctx, k.clock, bound, func(i int) {
		errs[i] = holds[i].extended(e, i, ttl)
		holds[i].passTurn()
	})
	return cmp.Or(errs...)
}

// Closing counts the holds that Close ended.
type Closing struct {
	Held, Failed int      // how many there were, and of how many the release was not confirmed
	First        error    // of those, why
	Worked       []string // the names of those under which a function still ran
}

// Close ends every hold, and waits for the releases until then: at first those under which
// no function runs, the others once returned comes back. It keeps none from then on.
func (k *Keeper) Close(until clock.Instant, returned func()) (c Closing) {
	c.leave(slices.DeleteFunc(k.held(), (*Hold).worked), until)
	returned()
	k.mu.Lock()
	k.stopped = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	c.leave(k.held(), until)
	return c
}

// worked reports whether a function runs under the hold.
func (h *Hold) worked() bool { return h.Working.Load() > 0 }

// leave ends holds of one Keeper, and waits for their releases until then.
func (c *Closing) leave(holds []*Hold, until clock.Instant) {
	releases := make([]Release, len(holds))
	for i, h := range holds {
		if releases[i], _ = h.Leave(Closed, true); h.worked() {
			c.Worked = append(c.Worked, h.Resource)
		}
	}
	c.Held += len(holds)
	for _, r := range releases {
		if !r.Sent() {
			continue
		}
		if err := r.ConfirmWithin(max(until.Sub(r.hold.keeper.clock.Now()), 0)); err != nil {
			c.Failed++
			c.First = cmp.Or(c.First, err)
		}
	}
}

// Await returns when no renewal is under way.
func (k *Keeper) Await() { k.work.Wait() }

// dueHeap orders holds by date, for container/heap.
type dueHeap []*Hold

func (d dueHeap) Len() int { return len(d) }

func (d dueHeap) Less(i, j int) bool { return d[i].due < d[j].due }

func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push adds a hold at the end.
func (d *dueHeap) Push(x any) {
	h := x.(*Hold)
	h.place = len(*d)
	*d = append(*d, h)
}

// Pop takes the last hold out.
func (d *dueHeap) Pop() any {
	old := *d
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	h.place = -1
	return h
}
