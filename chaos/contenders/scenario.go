package contenders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// scenario is one failure, the same for all contenders.
type scenario struct {
	name string
	what string // happens
	next string // what Next is measured from
	play func(ctx context.Context, p *play, o *outcome) error
}

// The holder, the one who waits, and the one who gives up.
const (
	first  = "A"
	second = "B"
	third  = "C"
)

const (
	// warmUp is how long a holder holds, and another one waits, before a fault.
	warmUp = 500 * time.Millisecond
	// outage is how long servers are down, or a holder stands still at least.
	outage = lease + time.Second
	// watchFor is how long the play watches after the fault has been mended.
	watchFor = 1500 * time.Millisecond
	// patience bounds the wait for the next holder.
	patience = 5 * lease
	// rounds is how often a hand-over is measured.
	rounds = 5
)

// errOneServer is why a scenario of many servers is not played.
var errOneServer = fmt.Errorf("it has one server: %w", errors.ErrUnsupported)

// errNoReplica is why no failover is played.
var errNoReplica = fmt.Errorf("it has no replica here: %w", errors.ErrUnsupported)

// errUnbounded is that nobody gave up, so there is nothing to look for.
var errUnbounded = errors.New("the call did not end with its context, and got the lock when the servers went on")

// scenarios is all of them. Those that leave servers in another state come last.
var scenarios = []scenario{
	{"hand-over", "the holder gives up, and another one waits", "the release", playHandOver},
	{"pause", "the holder's process stands still (SIGSTOP) for longer than its lease", "the stop", playPause},
	{"holder-killed", "the holder's process is killed (SIGKILL)", "the kill", playHolderKilled},
	{"holder-cut", "nothing gets from the holder to the servers or back, and its connections stay open", "the cut", playHolderCut},
	{"given-up", "most servers stand still for two seconds, and meanwhile somebody asks for a free name and gives up", "when they go on", playGivenUp},
	{"hung-server", "the leading server stands still, or the first where none leads: it accepts connections and does not answer, and somebody asks for a free name", "the ask", playHungServer},
	{"one-server", "the leading server is killed, or the first where none leads, for four seconds", "the release, where the lock was kept; otherwise when the server is back, or the kill, if the next one held before", playOneServer},
	{"majority", "more than half of the servers are killed for four seconds", "the same", playMajority},
	{"restart", "more than half of the servers are killed and started again at once", "the restart", playRestart},
	{"failover", "a replica of the first server lags, the lock is taken, the server is killed, and clients are led to the replica", "the kill, or the release, where the lock was kept", playFailover},
	{"clock-one", "the wall clock of one server of several steps ahead by an hour", "the step, or the release, where the lock was kept", playClockOne},
	{"clock", "the wall clocks of more than half of the servers step ahead by an hour", "the step", playClock},
}

// both brings in a holder and one who waits for it.
func both(ctx context.Context, p *play) (a, b *actor, err error) {
	if a, err = p.enter(ctx, first); err != nil {
		return nil, nil, err
	}
	if b, err = p.enter(ctx, second); err != nil {
		return nil, nil, err
	}
	if _, err = p.hold(ctx, a); err != nil {
		return nil, nil, err
	}
	if err = p.acquire(b, 2*patience); err != nil {
		return nil, nil, err
	}
	if p.spec.optimistic { // nobody waits: it is at work too
		if _, err = p.await(ctx, b.who, 0, startBound, acquired); err != nil {
			return nil, nil, err
		}
	}
	pause(ctx, warmUp)
	return a, b, nil
}

// next waits until the second has the lock, and notes how long it took. Where nobody was
// locked out, it is until its write.
func (p *play) next(ctx context.Context, o *outcome, b *actor, from int64) error {
	if p.spec.optimistic {
		return p.nextWrite(ctx, o, b, from)
	}
	return p.nextHold(ctx, o, b, from)
}

func (p *play) nextHold(ctx context.Context, o *outcome, b *actor, from int64) error {
	r, err := p.await(ctx, b.who, from, patience, acquired)
	if err == nil {
		o.Next = max(between(from, r.At), time.Microsecond)
		return nil
	}
	if errors.Is(err, errNotSeen) {
		return nil // that is the result
	}
	return err
}

// learnFor bounds the wait for a holder that has not learned yet: some libraries retry
// before they tell.
const learnFor = 2 * lease

// close waits for the holder to learn of its loss, not before learns, and asks it what
// the servers say, at the end.
func (p *play) close(ctx context.Context, o *outcome, a *actor, learns int64) error {
	if p.spec.optimistic {
		return p.lateWrite(ctx, o, a)
	}
	if _, err := p.await(ctx, a.who, learns, learnFor, told, ended); err != nil && !errors.Is(err, errNotSeen) {
		return err
	}
	from := monotonic()
	if err := a.do(doAsk, "", 0); err != nil {
		return err
	}
	r, err := p.await(ctx, a.who, from, 2*callBound, answered)
	if err != nil && !errors.Is(err, errNotSeen) {
		return err
	}
	o.Answer = r.Text
	return nil
}

func playHandOver(ctx context.Context, p *play, o *outcome) error {
	a, b, err := both(ctx, p)
	if err != nil {
		return err
	}
	if p.spec.optimistic {
		return p.takeTurns(ctx, o, a, b)
	}
	var took []time.Duration
	for i := range rounds {
		pause(ctx, warmUp/2)
		from := monotonic()
		if err := a.do(doRelease, "", 0); err != nil {
			return err
		}
		r, err := p.await(ctx, a.who, from, patience, releasing)
		if err != nil {
			return err
		}
		if i == 0 {
			o.zero = r.At
		}
		got, err := p.await(ctx, b.who, r.At, patience, acquired)
		if err != nil {
			return err
		}
		took = append(took, between(r.At, got.At))
		if err := p.acquire(a, patience); err != nil {
			return err
		}
		a, b = b, a
	}
	slices.Sort(took)
	o.Next, o.Repeated = took[len(took)/2], len(took)
	o.judge(p.trace(), "", 0)
	return nil
}

func playPause(ctx context.Context, p *play, o *outcome) error {
	a, b, err := both(ctx, p)
	if err != nil {
		return err
	}
	at, err := p.signal(a, syscall.SIGSTOP, stopped)
	if err != nil {
		return err
	}
	o.zero = at
	if err := p.next(ctx, o, b, at); err != nil {
		return err
	}
	pause(ctx, outage-between(at, monotonic())) // longer than the lease in any case
	pause(ctx, warmUp)
	on, err := p.signal(a, syscall.SIGCONT, continued)
	if err != nil {
		return err
	}
	pause(ctx, watchFor)
	if err := p.close(ctx, o, a, on); err != nil {
		return err
	}
	o.judge(p.trace(), a.who, on)
	o.Late = o.Two > 0 // a process that stands still does nothing
	return nil
}

func playHolderKilled(ctx context.Context, p *play, o *outcome) error {
	a, b, err := both(ctx, p)
	if err != nil {
		return err
	}
	at, err := p.signal(a, syscall.SIGKILL, killed)
	if err != nil {
		return err
	}
	o.zero = at
	if err := p.next(ctx, o, b, at); err != nil {
		return err
	}
	pause(ctx, warmUp) // for the picture
	o.judge(p.trace(), "", 0)
	return nil
}

func playHolderCut(ctx context.Context, p *play, o *outcome) error {
	a, b, err := both(ctx, p)
	if err != nil {
		return err
	}
	o.zero = p.note(a.who, cut)
	a.cut()
	if err := p.next(ctx, o, b, o.zero); err != nil {
		return err
	}
	pause(ctx, outage-between(o.zero, monotonic()))
	pause(ctx, warmUp)
	p.note(a.who, healed)
	if err := a.heal(); err != nil {
		return err
	}
	pause(ctx, watchFor)
	if err := p.close(ctx, o, a, o.zero); err != nil {
		return err
	}
	o.judge(p.trace(), a.who, o.zero)
	return nil
}

// playGivenUp looks for what an attempt leaves behind that was given up.
func playGivenUp(ctx context.Context, p *play, o *outcome) error {
	c, err := p.enter(ctx, third)
	if err != nil {
		return err
	}
	b, err := p.enter(ctx, second)
	if err != nil {
		return err
	}
	nodes, err := p.most(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := n.hang(); err != nil {
			return err
		}
	}
	p.note(servers, stopped)
	if err := p.acquire(c, time.Second); err != nil {
		return err
	}
	pause(ctx, 2*time.Second)
	for _, n := range nodes {
		if err := n.wake(); err != nil {
			return err
		}
	}
	o.zero = p.note(servers, continued)
	r, err := p.await(ctx, c.who, 0, patience, gaveUp, acquired)
	if err != nil {
		return err
	}
	if r.What == acquired {
		return errUnbounded
	}
	if err := p.acquire(b, patience); err != nil {
		return err
	}
	if err := p.nextHold(ctx, o, b, o.zero); err != nil {
		return err
	}
	pause(ctx, warmUp) // for the picture
	o.judge(p.trace(), "", 0)
	return nil
}
