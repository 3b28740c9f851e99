package adapters

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
)

const (
	// electorSettles is how long an Elector waits for its own campaign before it takes a
	// leader that the nodes show for another process: they show one's own hold a moment
	// before one hears of it. It delays the first answer alone.
	electorSettles = 250 * time.Millisecond
	// electorPause is how long it waits after a campaign that failed: of WithWait, or
	// where nodes refuse.
	electorPause = time.Second
	// electorWaits is how long a campaign has to go on until the failure of the one before
	// is over: where nodes refuse, a campaign fails sooner.
	electorWaits = 2 * time.Second
)

// Elector is an Elector of gocron v2: one of several processes is the leader, and stays
// it for as long as it renews its lock. It campaigns in the background
// (redlock.Locker.Campaign), from when IsLeader is first called until Resign or Close: it
// waits in line for the lock, so it leads at once when the leader resigns, and within its
// TTL when that dies. After a loss it campaigns again.
//
// A leader that pauses may believe for the length of the pause that it is one:
// let what its jobs write to check a fencing token ([Elector.Token]).
//
// It also observes the election (redlock.Locker.Observe), by a look a second at each
// node, to know why it does not lead. It may be used by several schedulers, and by many
// goroutines at once.
type Elector struct {
	settings *settings
	resource string
	ctx      context.Context //nolint:containedctx // of the background goroutines; Close ends it
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	candidate *candidate // nil: it does not campaign
	last      *reign     // that began last; nil if none did
}

// candidate is one campaign of an Elector, with all the times that it leads.
type candidate struct {
	elector *Elector
	ctx     context.Context //nolint:containedctx // of its goroutines
	cancel  context.CancelFunc
	known   chan struct{} // closed once it is known whether it leads, or that this can't be known

	mu      sync.Mutex // guards the fields below
	told    bool       // known is closed
	reign   *reign     // nil: it does not lead
	failure error      // of the last campaign that ended
	since   time.Time  // when the campaign that goes on began; zero if none does
	sight   error      // why no look tells the leader; nil if one does
}

// reign is one time that this process leads.
type reign struct {
	held     *grip
	resigned chan struct{} // closed by Resign
	over     chan struct{} // closed when the lock is released
	err      error         // of the release; written before over is closed
}

// NewElector returns an elector by the lock of that name. Nothing is sent before IsLeader
// is called. It fails with ErrInvalidOption, also for redlock.WithShared and redlock.WithLimit:
// one process leads.
func NewElector(locker *redlock.Locker, resource string, opts ...Option) (*Elector, error) {
	s, err := newSettings(locker, resource, opts)
	if err != nil {
		return nil, err
	}
	if err := s.exclusive("NewElector"); err != nil {
		return nil, err
	}
	e := &Elector{settings: s, resource: resource}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// IsLeader returns nil if this process is the leader now. Otherwise its error is
// ErrNotAcquired if another is, or nobody yet; ErrNoQuorum if too few nodes answer for
// anybody to say; ErrForeign if another program's data is under the name; Campaign's if
// that failed, until the next has waited for two seconds; and ErrClosed after Close.
//
// The first call, and the first after Resign, begins to campaign, and waits until this
// process leads, or it is known why not: some round trips, two seconds where no quorum
// answers, or until ctx ends. Others return at once, and send nothing.
func (e *Elector) IsLeader(ctx context.Context) error {
	c := e.begin()
	if c == nil {
		return fmt.Errorf("adapters: elector %q: %w", e.resource, redlock.ErrClosed)
	}
	select {
	case <-c.known:
	default:
		select {
		case <-c.known:
		case <-ctx.Done():
			return fmt.Errorf("adapters: elector %q: %w", e.resource, context.Cause(ctx))
		}
	}
	return c.verdict()
}

// Token returns the fencing token of this leadership, 0 if this process does not lead
// now.
func (e *Elector) Token() redlock.Token {
	e.mu.Lock()
	c := e.candidate
	e.mu.Unlock()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokenLocked()
}

// Resign gives the leadership up, no matter what became of ctx; this process may be elected
// again once IsLeader is called, at the end of the line. It blocks until the release is
// confirmed, for at most two node timeouts, and returns the error of one that was not. It
// returns nil if there was nothing to give up; a campaign that waits goes on. With
// WithMinHold it returns at once, and the lock is kept until then.
func (e *Elector) Resign(context.Context) error {
	e.mu.Lock()
	r := e.candidate.resign()
	if r != nil {
		e.candidate = nil
	}
	e.mu.Unlock()
	if r == nil || r.rest() > 0 {
		return nil
	}
	<-r.over
	if errors.Is(r.err, redlock.ErrNotHeld) {
		return nil // lost meanwhile: it was reported
	}
	return r.err
}

// Close ends the campaign: it resigns if this process leads, and waits until the lock is
// released and nothing runs in the background. It returns the error of a release that was
// not confirmed. WithMinHold does not hold it up. Further calls do nothing and return
// nil. Closing the Locker ends the campaign too.
func (e *Elector) Close() error {
	e.mu.Lock()
	closed := e.ctx.Err() != nil
	e.cancel()
	e.candidate = nil
	e.mu.Unlock()
	e.work.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if closed || e.last == nil || errors.Is(e.last.err, redlock.ErrNotHeld) {
		return nil
	}
	return e.last.err
}

// begin returns the campaign that goes on, or a new one; nil after Close.
func (e *Elector) begin() *candidate {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.candidate != nil || e.ctx.Err() != nil {
		return e.candidate
	}
	c := &candidate{elector: e, known: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(e.ctx)
	e.candidate = c
	e.work.Go(c.campaign)
	e.work.Go(c.observe)
	return c
}

// verdict is IsLeader's answer.
func (c *candidate) verdict() error {
	e := c.elector
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.leading() != nil:
		return nil
	case e.ctx.Err() != nil:
		return fmt.Errorf("adapters: elector %q: %w", e.resource, redlock.ErrClosed)
	case c.failure != nil && !c.waitsLocked():
		return c.failure
	case c.sight != nil:
		return c.sight
	}
	return fmt.Errorf("adapters: elector %q: %w: this process does not lead", e.resource, redlock.ErrNotAcquired)
}

// leading is the reign that goes on; the lock is asked, which consults the clock. mu is
// held.
func (c *candidate) leading() *reign {
	if c.reign == nil || c.reign.held.lock.Err() != nil {
		return nil
	}
	return c.reign
}

// tokenLocked is the token of the reign that goes on; 0 if none does.
func (c *candidate) tokenLocked() redlock.Token {
	if r := c.leading(); r != nil {
		return r.held.lock.Token()
	}
	return 0
}

// waitsLocked tells whether the campaign has gone on for so long that it does not fail as the
// one before did.
func (c *candidate) waitsLocked() bool {
	return !c.since.IsZero() && time.Since(c.since) > electorWaits
}

// resign ends the current reign, and returns it; nil if there is none.
func (c *candidate) resign() *reign {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.leading()
	if r != nil {
		c.reign = nil
		close(r.resigned)
	}
	return r
}

// tellLocked lets first callers of IsLeader go on.
func (c *candidate) tellLocked() {
	if !c.told {
		c.told = true
		close(c.known)
	}
}

// campaign stands for the election until it has resigned, or can't stand any more.
func (c *candidate) campaign() {
	s := c.elector.settings
	for {
		c.mu.Lock()
		c.since = time.Now()
		c.mu.Unlock()
		err := s.locker.Campaign(c.ctx, c.elector.resource, c.lead, s.acquire...)
		c.mu.Lock()
		isNew := c.failure == nil || c.waitsLocked()
		c.failure, c.since = err, time.Time{}
		c.tellLocked()
		c.mu.Unlock()
		if err == nil || c.ctx.Err() != nil {
			c.cancel()
			return
		}
		if isNew {
			s.reportUnasked(err)
		}
		for _, final := range []error{redlock.ErrClosed, redlock.ErrInvalidOption, redlock.ErrInvalidResource, redlock.ErrInvalidTTL} {
			if errors.Is(err, final) {
				return
			}
		}
		t := time.NewTimer(electorPause)
		select {
		case <-t.C:
		case <-c.ctx.Done():
			t.Stop()
		}
	}
}

// lead is what Campaign runs: this process leads until it resigns, or ctx ends.
func (c *candidate) lead(ctx context.Context, lock *redlock.Lock) error {
	s := c.elector.settings
	r := &reign{held: s.grasp(lock), resigned: make(chan struct{}), over: make(chan struct{})}
	defer close(r.over)
	c.elector.mu.Lock()
	c.elector.last = r
	c.elector.mu.Unlock()
	c.mu.Lock()
	c.reign, c.failure = r, nil
	c.tellLocked()
	c.mu.Unlock()
	select {
	case <-r.resigned:
		r.keep(ctx)
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.reign = nil // from now on it can't be resigned
	c.mu.Unlock()
	select {
	case <-r.resigned:
		c.cancel() // else Campaign takes a lock that was lost meanwhile for a reason to go on
	default:
	}
	r.err = lock.Release(context.WithoutCancel(ctx))
	if r.err != nil && !errors.Is(r.err, redlock.ErrNotHeld) && s.atLeast > 0 {
		s.report(r.err) // nobody may be waiting for it
	}
	return nil
}

// rest is the remainder of WithMinHold.
func (r *reign) rest() time.Duration { return r.held.atLeast - time.Since(r.held.since) }

// keep waits for the rest, or until ctx ends: with the lock, or by Close.
func (r *reign) keep(ctx context.Context) {
	t := time.NewTimer(max(r.rest(), 0))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// observe notes what the nodes tell of the election.
func (c *candidate) observe() {
	for leader, err := range c.elector.settings.locker.Observe(c.ctx, c.elector.resource) {
		if c.ctx.Err() != nil {
			return
		}
		if leader.Held {
			c.settle()
		}
		c.mu.Lock()
		foreign := errors.Is(err, redlock.ErrForeign) && c.sight == nil
		c.sight = err
		if leader.Held || err != nil {
			c.tellLocked()
		}
		c.mu.Unlock()
		if foreign {
			c.elector.settings.report(err) // the campaign waits on, and can't tell
		}
	}
}

// settle gives the campaign time to hear that the leader is this process.
func (c *candidate) settle() {
	select {
	case <-c.known:
		return
	default:
	}
	t := time.NewTimer(electorSettles)
	defer t.Stop()
	select {
	case <-c.known:
	case <-t.C:
	case <-c.ctx.Done():
	}
}
