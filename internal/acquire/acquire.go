package acquire

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/slots"
)

// New makes an Acquirer; it sends nothing.
func New(c Config) *Acquirer {
	b := &base{Config: c, firsts: permits{free: firstPermits}, asks: permits{free: askPermits}}
	r := &Releases{b}
	return &Acquirer{
		base: b, Releases: r, attempts: &attempter{b, r},
		leaveShared: func(key string, place int64) { r.LeaveShared(key, place, c.Nodes) },
	}
}

// Acquire takes the lock on key, and waits for it until ctx is done. Where it fails,
// everything is rolled back, in the background, and the name is the next goroutine's.
func (a *Acquirer) Acquire(ctx context.Context, key string, t Terms) (Success, error) {
	switch {
	case t.Limit > 0:
		return a.acquireSlot(ctx, key, t)
	case t.Shared:
		return a.acquireShared(ctx, key, t)
	}
	name, given, err := a.Queue.Take(ctx, key, t.TTL, t.Label, t.acceptsPushes())
	if err != nil {
		return Success{}, a.Door.Ended(key, fmt.Errorf("%w: %w", errBusy, err))
	}
	acq := acquisition{a: a, name: name, terms: t}
	g, err := acq.run(ctx, given)
	acq.stopWaiting()
	g.Failed = acq.failed
	if err != nil {
		acq.giveUp()
	}
	acq.finish()
	return g, err
}

var errBusy = fmt.Errorf("%w: this Locker holds it, or queues for it (under the context of the hold, WithReentry enters it)", fault.ErrNotAcquired)

// acquireShared is Acquire of a shared hold. The goroutines of this Locker that want to share
// the name, and whose turn has come, are a group: each asks by itself at first, and once the
// nodes have refused, one of them waits for all.
func (a *Acquirer) acquireShared(ctx context.Context, key string, t Terms) (Success, error) {
	if t.Barging {
		return a.bargeShared(ctx, key, t)
	}
	name, given, leads, err := a.Queue.Share(ctx, key, t.TTL, t.Label)
	if err != nil {
		return Success{}, a.Door.Ended(key, fmt.Errorf("%w: %w", errBusy, err))
	}
	acq := acquisition{a: a, name: name, terms: t, leads: leads}
	g, err := acq.run(ctx, given)
	acq.stopWaiting()
	g.Failed = acq.failed
	if err == nil && acq.leads {
		sharing{&acq}.serveFollowers(g.Turn)
		acq.leads = false
	}
	byPlace := err == nil && *g.Claim.Place() == a.Queue.Position(name)
	a.Queue.Decided(name, acq.leads, byPlace, a.leaveShared)
	acq.finish()
	return g, err
}

// bargeShared is acquireShared past the line. It is of no group: the others would wait for an
// attempt that has no place, and may starve.
func (a *Acquirer) bargeShared(ctx context.Context, key string, t Terms) (Success, error) {
	acq := acquisition{a: a, name: queue.Apart(key), terms: t}
	g, err := acq.run(ctx, nil)
	acq.stopWaiting()
	g.Failed = acq.failed
	acq.finish()
	return g, err
}

// acquireSlot is Acquire of a slot.
func (a *Acquirer) acquireSlot(ctx context.Context, key string, t Terms) (Success, error) {
	name, _, err := a.Queue.Take(ctx, lua.SlotsKey(key), t.TTL, t.Label, false)
	if err != nil {
		return Success{}, a.Door.Ended(key, fmt.Errorf("%w: %w", errBusy, err))
	}
	acq := acquisition{a: a, name: name, terms: t, slot: &slotWay{name: key, caller: slots.New(t.Limit, a.lastSlot(key))}}
	slot := forSlot{&acq}
	slot.offer()
	g, err := acq.run(ctx, nil)
	slot.decline(a.Queue.Withdraw(name))
	acq.stopWaiting()
	g.Failed = acq.failed
	slot.leaveLine(g.Claim)
	a.Releases.passOn(name.Key)
	acq.finish()
	return g, err
}

// Try makes one attempt to take the lock on key, or two if nodes that were seen not
// to vote may do so by then.
func (a *Acquirer) Try(ctx context.Context, key string, t Terms) (Success, error) {
	switch {
	case t.Limit > 0:
		return a.tryToHoldSlot(ctx, key, t)
	case t.Shared && !t.Barging && !a.Queue.MayShare(key):
		return Success{}, a.Door.Ended(key, errBusy)
	case t.Shared:
		return a.retryAfterLook(ctx, func() (Success, *Failure) { return a.attempts.attempt(ctx, key, &t, 0, nil) })
	}
	name, ok := a.Queue.Try(key)
	if !ok {
		return Success{}, a.Door.Ended(key, errBusy)
	}
	g, err := a.retryAfterLook(ctx, func() (Success, *Failure) { return a.tryOnce(ctx, name, t) })
	if err != nil {
		a.Releases.passOn(key)
	}
	return g, err
}

// tryOnce is Try's attempt of an exclusive hold.
func (a *Acquirer) tryOnce(ctx context.Context, name *queue.Name, t Terms) (Success, *Failure) {
	if !t.Barging {
		return a.attempts.attempt(ctx, name.Key, &t, 0, nil)
	}
	acq := acquisition{a: a, name: name, terms: t, waiter: a.Sleepers.Get()}
	defer a.Sleepers.Put(acq.waiter)
	return acq.bid(ctx, quorum.Barging)
}

// tryToHoldSlot is Try of a slot: one attempt, and one more for as long as the refusals show
// that another slot is free on a quorum, and that nobody waits. Several that try at one
// moment may ask for the same slots one after another; the caller's own bound is as many
// attempts more as there are slots.
func (a *Acquirer) tryToHoldSlot(ctx context.Context, key string, t Terms) (Success, error) {
	return a.retryAfterLook(ctx, func() (Success, *Failure) {
		caller := slots.New(t.Limit, a.lastSlot(key))
		for {
			g, r, f := a.attempts.attemptSlot(ctx, key, &t, caller.Pick(a.Share(key)), 0)
			if f == nil || r == nil || caller.Ended(r.Votes, r.Asks.Heard, a.Share(key)) != slots.Again {
				return g, f
			}
		}
	})
}

// retryAfterLook makes Try's attempts.
func (a *Acquirer) retryAfterLook(ctx context.Context, attempt func() (Success, *Failure)) (Success, error) {
	g, f := attempt()
	if f != nil && a.relisted(f) { // the first of a process: its list was not known
		g, f = attempt()
	}
	failed := 0
	if f != nil {
		if failed = 1; a.lookAgain(ctx, f) {
			if g, f = attempt(); f != nil {
				failed = 2
			}
		}
	}
	g.Turn, g.Failed = First, failed
	if f != nil {
		return g, f.Words
	}
	return g, nil
}

// lookAgain looks at the nodes before an acquisition is refused because some were seen not to
// vote. It tells whether another attempt would end otherwise, since such a node may vote by
// now. A refusal for any other reason stands as it is.
func (a *Acquirer) lookAgain(ctx context.Context, f *Failure) bool {
	if a.relisted(f) {
		return true
	}
	if f.Sentinel != fault.ErrNoQuorum { //nolint:errorlint // it is one of two
		return false
	}
	var seen *membership.AbstentionError
	judged := func(i int) bool {
		return f.Votes[i].Outcome == quorum.Abstained && errors.As(f.cause(i), &seen)
	}
	for i := range f.Votes {
		if judged(i) {
			return a.Tracker.LookAgain(ctx, a.Timeout) && a.standingChanged(f, judged)
		}
	}
	return false
}

// relisted reports whether the nodes decided an attempt by another list than the Locker goes by now.
func (a *Acquirer) relisted(f *Failure) bool { return f.Sentinel != nil && f.List != a.Tracker.List() }

// standingChanged tells whether a judged node may vote by now, or is known by now not to
// vote for good, which its refusal is to say.
func (a *Acquirer) standingChanged(f *Failure, judged func(i int) bool) bool {
	for i := range f.Votes {
		if !judged(i) {
			continue
		}
		now := a.Tracker.WhyNot(i)
		if a.Tracker.MayVote(i) || errors.Is(now, fault.ErrMisconfigured) && !errors.Is(f.cause(i), fault.ErrMisconfigured) {
			return true
		}
	}
	return false
}

// run makes attempts until one succeeds, waiting does not help, or ctx ends.
func (acq *acquisition) run(ctx context.Context, given *queue.Transfer) (Success, error) {
	var last *Failure
	for {
		if err := fault.OfContext(ctx); err != nil && given == nil {
			return Success{}, acq.a.Door.Ended(acq.name.Key, joined(err, last))
		}
		var err error
		if acq.terms.Shared {
			if given, err = (sharing{acq}).take(ctx, given); err != nil {
				return Success{}, acq.a.Door.Ended(acq.name.Key, joined(err, last))
			}
		}
		turn := acq.turn(given)
		g, next, failed := acq.try(ctx, given)
		given = nil
		if failed == nil {
			switch g.Turn = turn; {
			case g.Short:
				g.Turn = Granted
			case turn == Found && acq.called:
				g.Turn = Called
			}
			return g, nil
		}
		acq.failed++
		switch {
		case failed.Sentinel == nil:
			if errors.Is(failed.Cause, fault.ErrClosed) {
				last = nil
			}
			return Success{}, acq.a.Door.Ended(acq.name.Key, joined(failed.Cause, last))
		case acq.a.relisted(failed), (acq.failed == 1 || failed.hopeless()) && acq.a.lookAgain(ctx, failed):
			continue // at once: a node that abstained may vote by now
		case failed.hopeless():
			return Success{}, failed.Words
		}
		last = failed
		var race *raceError
		if errors.As(failed.Cause, &race) {
			acq.floor = race.above + 1
			continue // at once
		}
		if given, err = acq.await(ctx, next); err != nil {
			return Success{}, acq.a.Door.Ended(acq.name.Key, joined(err, last))
		}
	}
}

// joined is why an acquisition ended, and what its last attempt brought.
func joined(err error, last *Failure) error {
	if last == nil {
		return err
	}
	if errors.Is(err, fault.ErrClosed) {
		err = fault.Within(err) // of a wait that Close ended, for a message that has the name
	}
	return fmt.Errorf("%w: %w", err, fault.Within(last.Words))
}

// turn is how the attempt that is due came about.
func (acq *acquisition) turn(given *queue.Transfer) Turn {
	switch {
	case given != nil && given.Turn != 0:
		return Turn(given.Turn)
	case given != nil && given.Open == nil:
		return HandedOver
	case acq.failed == 0 && given == nil:
		return First
	case acq.hints != 0:
		return Called
	default:
		return Found
	}
}

// try makes the attempt that is due, once it may, and says how to wait if it fails. What was
// given is sent already; an attempt that is open may be granted meanwhile, and waits where it asks.
func (acq *acquisition) try(ctx context.Context, given *queue.Transfer) (Success, interval, *Failure) {
	if given == nil && acq.open == nil {
		if err := acq.awaitPermit(ctx); err != nil {
			return Success{}, atOnce, acq.a.attempts.ended(acq.name.Key, err)
		}
	}
	switch {
	case acq.slot != nil:
		return forSlot{acq}.try(ctx, given)
	case acq.terms.Shared:
		return sharing{acq}.try(ctx, given)
	default:
		return alone{acq}.try(ctx, given)
	}
}

// await waits the interval, or until ctx is done or the Locker is closed. It may have been
// given a slot meanwhile.
func (acq *acquisition) await(ctx context.Context, i interval) (given *queue.Transfer, err error) {
	switch {
	case acq.slot != nil:
		return forSlot{acq}.await(ctx, i)
	case i == afterPause:
		err = acq.pause(ctx)
	case i == untilCalled:
		err = acq.rest(ctx)
	}
	return nil, err
}
