package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumkit/redlock/internal/acquire"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/hold"
	"github.com/quorumkit/redlock/internal/set"
)

// MaxSet is how many names AcquireAll takes at most, 64: those go to a node in one command.
const MaxSet = set.Most

// AcquireAll takes the locks on all of these names, at most MaxSet, or none. It blocks
// until all are held or ctx is done. Where nobody is in the way that takes one round trip
// and one command a node, as for one name.
//
// Sets that overlap bring no deadlock, in any order in which their callers give the names.
// Where a name is not to be had, those before it in the byte order of the keys are kept,
// and those behind it are given back. The call waits for that one name as Acquire does, in
// its line; then it asks for the rest again. So who waits holds only names before the one
// it waits for. What is held meanwhile is renewed. A name that is lost in that time
// is taken anew, and all behind it are given back.
//
// That is about the names of one call. Who holds a name and acquires another, or a set,
// may wait for somebody who does it the other way round, as with any lock. And while a
// set waits, the names that it holds delay others: keep sets small. WithRevocation, a name
// that is asked for while the set waits is given back at once, as one that was lost.
//
// Options hold for all names. WithWait bounds the whole call, and WithMaxHold counts from
// when all are held. With WithReentry, a name that ctx carries a hold of is entered, and
// neither waited for nor given back; the context of the MultiLock carries the holds of
// all its names. WithFixedLease and WithBarging are ErrInvalidOption: what a set holds
// while it waits has to be renewed, and it waits in line. So is WithLimit: a set has no
// slots.
//
// No name, more than MaxSet, a name twice, or one that can't be locked is
// ErrInvalidResource, before anything is sent. When ctx ends, all is given back, and the
// error is Acquire's for the name that was waited for. So are the other errors.
func (l *Locker) AcquireAll(ctx context.Context, resources []string, opts ...AcquireOption) (*MultiLock, error) {
	return l.takeAll(ctx, resources, opts, true)
}

// TryAcquireAll makes one attempt: it returns the locks on all of these names, or says of
// the first in the byte order of the keys that was not to be had why not, and gives back
// the others. It never waits for a holder. Of two that want the same names at once,
// mostly one gets them; it may be none. It blocks as TryAcquire does, and the rest is as
// for AcquireAll.
func (l *Locker) TryAcquireAll(ctx context.Context, resources []string, opts ...AcquireOption) (*MultiLock, error) {
	return l.takeAll(ctx, resources, opts, false)
}

// DoAll runs fn while holding all of these names, as Do does with one: they are acquired
// as by AcquireAll and released when fn returns or panics. The context of fn is cancelled
// when ctx is, when Close begins, and when one of the names is lost, with the loss as its
// cause. It carries the fencing token of each name. The names stay held until fn has
// returned, in Close for WithCloseTimeout. Errors are as of Do. With WithMinHold the locks
// outlive fn.
func (l *Locker) DoAll(ctx context.Context, resources []string, fn func(ctx context.Context, locks *MultiLock) error, opts ...AcquireOption) error {
	if fn == nil {
		return fault.Errorf("redlock: do %s: %w: fn is nil", setLabel(len(resources)), ErrInvalidOption)
	}
	c, err := l.requestAll(resources, opts)
	if err != nil {
		return fault.Errorf("redlock: acquire %s: %w", setLabel(len(resources)), err)
	}
	m, err := l.takeAllOf(ctx, c, true)
	if err != nil {
		return err
	}
	err, loss := l.run(ctx, m, c.terms.kept(l.clock), func(ctx context.Context) error { return fn(ctx, m) })
	return outcome(ctx, "do", m.label(), err, loss)
}

// setCall is one call that wants a set. But for the first, its slices are in the order
// of the set.
type setCall struct {
	locker    *core
	terms     terms
	given     []string // the names, in the caller's order
	resources []string
	keys      []string
	locks     []*Lock   // nil: not held
	entered   set.Names // of these it has a handle on a hold that there was before
	failed    int       // the name that was not to be had, as of late
	why       error
	failure   *acquire.Failure // nil: no attempt was made, or another one
}

// takeAll is AcquireAll, or TryAcquireAll, which does not wait.
func (l *Locker) takeAll(ctx context.Context, resources []string, opts []AcquireOption, wait bool) (*MultiLock, error) {
	c, err := l.requestAll(resources, opts)
	if err == nil {
		err = c.terms.releasedByHand()
	}
	if err != nil {
		return nil, fault.Errorf("redlock: acquire %s: %w", setLabel(len(resources)), err)
	}
	return l.takeAllOf(ctx, c, wait)
}

// takeAllOf is takeAll, of a call that was checked.
func (l *Locker) takeAllOf(ctx context.Context, c *setCall, wait bool) (*MultiLock, error) {
	c.terms.call = l.begin(ctx)
	m, err := c.run(ctx, wait)
	if err == nil {
		l.recorder.counters.calls.Add(^uint64(0)) // each of its locks was counted
		return m, nil
	}
	c.giveBack(set.Of(len(c.keys)))
	err = fault.Errorf("redlock: acquire %s: %w", setLabel(len(c.keys)), err)
	l.tellFailure(ctx, c.resources[c.failed], &c.terms, err)
	return nil, err
}

// requestAll checks a call's arguments, before anything is sent.
func (l *Locker) requestAll(resources []string, opts []AcquireOption) (*setCall, error) {
	c := &setCall{locker: l.core, given: append([]string(nil), resources...), locks: make([]*Lock, len(resources))}
	if err := checkSet(resources, l.cfg.prefix); err != nil {
		return nil, err
	}
	keys := make([]string, len(resources))
	for i, resource := range resources {
		keys[i] = l.cfg.prefix + resource
	}
	for _, i := range set.Order(keys) {
		c.resources, c.keys = append(c.resources, resources[i]), append(c.keys, keys[i])
	}
	var err error
	if c.terms, err = l.cfg.with(opts); err != nil {
		return nil, err
	}
	switch {
	case c.terms.limited:
		return nil, fmt.Errorf("%w: WithLimit: a set has no slots: acquire each by itself", ErrInvalidOption)
	case c.terms.fixed:
		return nil, fmt.Errorf("%w: WithFixedLease is for one name: what a set holds while it waits has to be renewed: leave it out, here or where the Locker was made", ErrInvalidOption)
	case c.terms.barging:
		return nil, fmt.Errorf("%w: WithBarging is for one name: a set waits in line for the name that it lacks", ErrInvalidOption)
	case l.acquirer.Closed():
		return nil, ErrClosed
	}
	return c, nil
}

// checkSet says what is wrong with the names of a set.
func checkSet(resources []string, prefix string) error {
	switch n := len(resources); {
	case n == 0:
		return fmt.Errorf("%w: the set is empty: give at least one name", ErrInvalidResource)
	case n > MaxSet:
		return fmt.Errorf("%w: %d names: a set has at most %d", ErrInvalidResource, n, MaxSet)
	}
	seen := make(map[string]int, len(resources))
	for i, resource := range resources {
		if err := checkResource(resource, prefix+resource); err != nil {
			return fmt.Errorf("%w (name %d: %s)", err, i, fault.Printable(resource))
		}
		if first, twice := seen[resource]; twice {
			return fmt.Errorf("%w: names %d and %d are both %s: give each name once", ErrInvalidResource, first, i, fault.Printable(resource))
		}
		seen[resource] = i
	}
	return nil
}

// run takes what the set lacks until it has all of it, or can't have it.
func (c *setCall) run(ctx context.Context, wait bool) (*MultiLock, error) {
	if err := fault.OfContext(ctx); err != nil {
		return nil, err
	}
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	values := ctx
	if wait && c.terms.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.terms.wait, fault.WaitedError(c.terms.wait))
		defer cancel()
	}
	for asked, looked := false, false; ; {
		held, err := c.held()
		if err != nil {
			return nil, err
		}
		step := set.Next(len(c.keys), held, asked)
		c.giveBack(step.Back &^ c.entered)
		switch {
		case step.Do == set.Done:
			return c.complete(values), nil
		case step.Do == set.Ask:
			c.ask(ctx, wait)
			asked = true
		case wait:
			if err := c.waitFor(ctx, step.Name); err != nil {
				return nil, err
			}
			asked = false
		case !looked && c.locker.acquirer.LookAgain(ctx, c.failure):
			asked, looked = false, true
		default:
			return nil, c.why
		}
	}
}

// enter takes handles on the holds that ctx carries, with WithReentry.
func (c *setCall) enter(ctx context.Context) error {
	for i := 0; c.terms.reentry && i < len(c.keys); i++ {
		c.locker.recorder.counters.calls.Add(1)
		lock, err := c.locker.reenter(ctx, c.keys[i], c.terms.shared)
		if err == nil {
			c.locks[i], c.entered = lock, c.entered.With(i)
			continue
		}
		c.locker.recorder.counters.calls.Add(^uint64(0))
		if !errors.Is(err, errOutside) {
			c.failed = i
			return err
		}
	}
	return nil
}

// held are the names that the set has. One that was lost is to be taken anew; where it
// was a hold from before, or the Locker was closed, the call has failed.
func (c *setCall) held() (set.Names, error) {
	var held set.Names
	now := c.locker.clock.Now()
	for i, lock := range c.locks {
		if lock == nil {
			continue
		}
		cause := lock.grip.Err(now)
		if cause == nil {
			held = held.With(i)
			continue
		}
		c.failed, c.failure, c.why = i, nil, ended("acquire", c.resources[i], cause)
		if errors.Is(cause, ErrClosed) || c.entered.Has(i) {
			return 0, c.why
		}
		c.locks[i] = nil
	}
	return held, nil
}

// giveBack gives back what the call has of these names. The releases go on in the
// background.
func (c *setCall) giveBack(names set.Names) {
	for i, lock := range c.locks {
		if lock != nil && names.Has(i) {
			lock.grip.Leave(hold.Released, false)
			c.locks[i] = nil
		}
	}
}

// ask makes one round for all that is missing. Of what it brings it holds what is to be
// kept. Where the call does not wait, that is all or nothing.
func (c *setCall) ask(ctx context.Context, wait bool) {
	var won set.Names
	var missing []int
	var keys []string
	for i, lock := range c.locks {
		if lock != nil {
			won = won.With(i)
			continue
		}
		missing, keys = append(missing, i), append(keys, c.keys[i])
	}
	answers := c.locker.acquirer.AskAll(ctx, keys, c.acquireTerms())
	c.why, c.failure = nil, nil
	for k, a := range answers {
		if a.Err == nil {
			won = won.With(missing[k])
			continue
		}
		if a.Failure != nil {
			c.terms.call.failed++
		}
		if c.why == nil {
			c.failed, c.why, c.failure = missing[k], a.Err, a.Failure
		}
	}
	back := set.Next(len(c.keys), won, true).Back
	if c.why != nil && !wait {
		back = won
	}
	for k := range answers {
		switch i, g := missing[k], &answers[k].Success; {
		case !won.Has(i):
		case back.Has(i):
			c.locker.acquirer.Return(g, c.terms.ttl)
		default:
			_ = c.hold(ctx, i, *g) // the next round finds why it is not held
		}
	}
}

// waitFor waits for one name as Acquire does. It returns nil, and does not have it, if
// one that is held was lost or asked for meanwhile.
func (c *setCall) waitFor(ctx context.Context, i int) error {
	c.failed = i
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, lock := range c.locks {
		if lock == nil {
			continue
		}
		defer context.AfterFunc(lock.Context(), cancel)()
		if c.terms.revocable && !c.entered.Has(i) {
			defer c.locker.requests.Also(lock.hold.Claim.Owner, c, cancel)()
		}
	}
	g, err := c.locker.acquirer.WaitFor(inner, c.keys[i], c.acquireTerms())
	c.terms.call.failed += g.Failed
	switch {
	case err == nil:
		return c.hold(ctx, i, g)
	case inner.Err() != nil && ctx.Err() == nil:
		c.yield()
		return nil
	default:
		return err
	}
}

// yield gives back what was asked for.
func (c *setCall) yield() {
	for i, lock := range c.locks {
		if lock == nil || c.entered.Has(i) {
			continue
		}
		select {
		case <-lock.Revoked():
			c.giveBack(set.Names(0).With(i))
		default:
		}
	}
}

func (c *setCall) acquireTerms() acquire.Terms {
	return acquire.Terms{TTL: c.terms.ttl, Label: c.terms.label, Shared: c.terms.shared}
}

// hold makes a lock of a grant. How long it is held at most is not known before the set
// is complete.
func (c *setCall) hold(ctx context.Context, i int, g acquire.Success) error {
	t := c.terms
	t.maxHold, t.call.failed, t.call.turn = 0, g.Failed, Turn(g.Turn)
	calls := &c.locker.recorder.counters.calls
	calls.Add(1)
	lock, err := c.locker.hold(ctx, c.resources[i], g, &t)
	if err != nil {
		calls.Add(^uint64(0))
		c.failed, c.why = i, err
		return err
	}
	c.locks[i] = lock
	return nil
}

// complete makes the MultiLock.
func (c *setCall) complete(values context.Context) *MultiLock {
	if c.terms.maxHold > 0 {
		until := c.locker.clock.Early().Add(c.terms.maxHold)
		for i, lock := range c.locks {
			if !c.entered.Has(i) {
				lock.hold.EndAt(until)
			}
		}
	}
	return newMultiLock(values, c.locker, c.given, c.locks)
}
