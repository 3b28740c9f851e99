package redlock

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/round"
)

const (
	// pollInterval is how often the scheduler looks at the clock while a lock is
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
	// confirmTime is what all holders are given for that: until the loop of each
	// has looked, and its clock watch has had the node verified, the spread, and the
	// same for what is given again to a node that did not answer just then.
	confirmTime = membership.JoinPoll + node.WatchEvery + 2*node.ConfirmSpread + 3*DefaultNodeTimeout
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

// scheduler watches over all held locks of a Locker: it renews them in time,
// and ends them when their validity, or their longest hold, has passed. It is
// one heap and one timer, for any number of locks.
type scheduler struct {
	locker *core
	work   sync.WaitGroup // renewals under way

	mu      sync.Mutex // guards the fields below, and due and place of every lock
	locks   dueHeap
	beside  map[string]int // holds beside which this Locker may ask the nodes for the name again: shared ones, and slots
	timer   *time.Timer
	armed   clock.Instant // when the timer fires; 0: it is not set
	stopped bool
}

func newScheduler(l *core) *scheduler {
	return &scheduler{locker: l, beside: map[string]int{}}
}

// add takes a lock in, and tells that its hold begins: nothing else of it can have
// been told by then. It returns false once the scheduler was stopped.
func (s *scheduler) add(l *Lock, begun Event) bool {
	due := l.nextDue()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	l.tell(begun)
	l.due = due
	heap.Push(&s.locks, l)
	if key, beside := besideKey(l.claim); beside {
		s.beside[key]++
	}
	s.arm()
	s.locker.clocks.Start()
	return true
}

func (s *scheduler) remove(l *Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.place >= 0 {
		heap.Remove(&s.locks, l.place)
		if key, beside := besideKey(l.claim); beside {
			if s.beside[key]--; s.beside[key] == 0 {
				delete(s.beside, key)
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

// holds says that the Locker itself holds what the nodes refuse it; nil: it does not. An
// exclusive hold never gets so far: the queue knows it.
func (s *scheduler) holds(key string) error {
	name, _, slot := lua.SlotOf(key)
	if slot {
		key = lua.SlotsKey(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := s.beside[key]; {
	case n == 0:
		return nil
	case slot:
		return fmt.Errorf("this Locker holds %d of its slots", n)
	}
	return errHoldsIt
}

var errHoldsIt = errors.New("this Locker holds it")

// reschedule puts a held lock where its next date says.
func (s *scheduler) reschedule(l *Lock) {
	due := l.nextDue()
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.place >= 0 {
		l.due = due
		heap.Fix(&s.locks, l.place)
		s.arm()
	}
}

// busy tells whether any lock is held.
func (s *scheduler) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.locks) > 0
}

// held returns the locks that are held.
func (s *scheduler) held() []*Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Lock(nil), s.locks...)
}

// stop ends the scheduler and returns the locks that are still held.
func (s *scheduler) stop() []*Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return append([]*Lock(nil), s.locks...)
}

// arm sets the timer for the first lock's date; mu is held. A timer that fires
// too early costs nothing but the look.
func (s *scheduler) arm() {
	if s.stopped || len(s.locks) == 0 {
		return
	}
	now := s.locker.clock.Early()
	at := min(s.locks[0].due, now.Add(pollInterval))
	if s.armed != 0 && s.armed <= at {
		return
	}
	s.armed = at
	wait := max(at.Sub(now), 0)
	if s.timer == nil {
		s.timer = s.locker.clock.AfterFunc(wait, s.tick)
	} else {
		s.timer.Reset(wait)
	}
}

// tick does what is due.
func (s *scheduler) tick() {
	now := s.locker.clock.Now()
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.armed = 0
	var due []*Lock
	for len(s.locks) > 0 && s.locks[0].due <= now {
		l := s.locks[0]
		due = append(due, l)
		l.due = now.Add(pollInterval) // until it is known better
		heap.Fix(&s.locks, 0)
	}
	s.work.Add(1)
	s.arm()
	s.mu.Unlock()
	defer s.work.Done()

	var renewals []*Lock
	for _, l := range due {
		holds, overheld := l.holds(now)
		switch {
		case !holds:
			l.end(errLapsed, nil)
		case overheld:
			s.work.Go(func() { l.endHold() })
		case l.beginRenewal(now):
			renewals = append(renewals, l)
			s.reschedule(l)
		default:
			s.reschedule(l)
		}
	}
	for _, group := range together(renewals) {
		s.work.Go(func() { s.renew(group) })
	}
}

// together are the locks in groups that are renewed in one call each: they are of one
// kind, and their calls wait equally long for a node.
func together(locks []*Lock) [][]*Lock {
	type kind struct {
		bound  time.Duration
		shared bool
	}
	by := make(map[kind][]*Lock)
	for _, l := range locks {
		of := kind{l.bound(), l.claim.Shared()}
		by[of] = append(by[of], l)
	}
	var groups [][]*Lock
	for _, same := range by {
		groups = slices.AppendSeq(groups, slices.Chunk(same, lua.ExtendBatchSize))
	}
	return groups
}

// extend sends the extension of locks to ttls, and returns at once.
func (l *core) extend(locks []*Lock, ttls []time.Duration) *node.Extension {
	claims, leases := make([]*round.Claim, len(locks)), make([]int64, len(locks))
	for i, lock := range locks {
		claims[i], leases[i] = lock.claim, clock.Milliseconds(ttls[i])
	}
	return node.Extend(l.nodes, claims, leases, l.clock.Early())
}

// renew makes one round for up to lua.ExtendBatchSize locks. A lock that no quorum
// confirmed is tried again, as often as fits into what is left of its validity.
func (s *scheduler) renew(locks []*Lock) {
	ttls := make([]time.Duration, len(locks))
	for i, l := range locks {
		ttls[i] = l.lease(s.locker.clock.Early())
	}
	e := s.locker.extend(locks, ttls)
	e.Renewal = true
	e.Wait(context.Background(), s.locker.clock, locks[0].bound(), func(k int) {
		l := locks[k]
		if err := l.extended(e, k, ttls[k]); err != nil {
			l.retryRenewal()
		}
		l.passTurn()
	})
}

// holds tells whether the lock is valid, and whether it was held for its maximum.
func (l *Lock) holds(now clock.Instant) (valid, overheld bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valid.Holds(now), l.overheld(now)
}

// nextDue is the next date of a lock: its renewal, unless one is under way, and
// at the latest the end of its validity or of its longest hold.
func (l *Lock) nextDue() clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.valid.Until
	if l.maxUntil != 0 {
		due = min(due, l.maxUntil)
	}
	if l.turn == nil {
		due = min(due, l.renewAt)
	}
	return due
}

// beginRenewal takes the turn if a renewal is due and no extension is under way.
func (l *Lock) beginRenewal(now clock.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn != nil || l.cause != nil || now < l.renewAt {
		return false
	}
	l.turn = make(chan struct{})
	return true
}

// confirmOn hastens the confirmation of all held locks that a node has not vouched for: it
// votes again, and may hold none of them. Else a restart of the next node of three takes
// locks away: all of twenty at a TTL of 6 s, and a fixed lease would never come back.
//
// Each is an ordinary extension to all nodes, which re-seeds the node if a quorum confirms
// the lock. A re-seed without that may leave a key that no quorum stands behind. Nor does
// another client copy keys: their holders may release them in that moment.
func (s *scheduler) confirmOn(node int) {
	for _, l := range s.held() {
		if !l.claim.VouchedBy(node) {
			l.hasten()
		}
	}
}

// hasten confirms the lock soon, if that is sooner than it would be renewed.
func (l *Lock) hasten() {
	at := confirmationAfter(l.locker.clock.Early(), l.locker.share(l.claim.Key))
	l.mu.Lock()
	l.renewAt = min(l.renewAt, at)
	l.mu.Unlock()
	l.locker.scheduler.reschedule(l)
}

// missed tells whether a node has voted again since t and does not vouch for the
// lock: the round that was sent at about t came too early for it.
func (l *Lock) missed(t clock.Instant) bool {
	for i, n := range l.locker.nodes {
		if clock.Instant(n.Returned.Load()) > t && !l.claim.VouchedBy(i) {
			return true
		}
	}
	return false
}

// retryRenewal sets the next try: soon, but often enough before the end.
func (l *Lock) retryRenewal() {
	now := l.locker.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := min(retryRenewal, l.valid.Remaining(now)/4)
	l.renewAt = now.Add(max(pause, time.Millisecond))
}

// endHold releases a lock that was held for its maximum.
func (l *Lock) endHold() {
	if r := l.letGo(ErrMaxHold); r != nil {
		_ = l.confirmRelease(r, 2*l.bound()) // told by an event
	}
}

// dueHeap orders locks by date, for container/heap.
type dueHeap []*Lock

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push adds a lock at the end.
func (h *dueHeap) Push(x any) {
	l := x.(*Lock)
	l.place = len(*h)
	*h = append(*h, l)
}

// Pop takes the last lock out.
func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.place = -1
	return l
}
