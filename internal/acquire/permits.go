package acquire

import (
	"container/list"
	"context"
	"sync"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/round"
)

// firstPermits and askPermits bound how many acquisitions of one Locker ask the nodes at the same
// time: those that ask for the first time, and those that were refused. The others wait in line,
// and send nothing. So what is asked fits into two flushes, and is answered in time.
//
// Without a bound, asks that were late were rolled back and made anew. With 8,000 goroutines that
// took all of the client's time, and no node was answered in time any more. An ask by a place
// costs a server five times a plain one: hence half a flush of them. Together they leave four
// fifths of a node's queue to TryAcquire, which needs no permit.
const (
	firstPermits = node.AcquiresPerFlush
	askPermits   = node.AcquiresPerFlush / 2
)

// permits are given to the acquisitions that want to ask, first in, first out.
type permits struct {
	mu   sync.Mutex // guards the fields below, and permit.called
	free int
	line list.List // of *permit
}

// permit is an acquisition's leave to ask the nodes, or its place in that line. Only its
// goroutine uses it, but for called.
type permit struct {
	of     *permits
	wake   chan struct{} // of the Sleeper on which it waits
	held   bool
	called bool          // its turn has come, and its goroutine has still to look
	at     *list.Element // its place; nil if it is not in line
}

// take reports whether the caller has the permit. If not, it stands in line, and wake is told
// when it has.
func (p *permit) take(of *permits, wake chan struct{}) bool {
	if p.of != of {
		p.end()
		p.of = of
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	switch {
	case p.called:
		p.held, p.called, p.at = true, false, nil
	case p.held || p.at != nil:
	case of.free > 0: // so nobody is in line
		of.free--
		p.held = true
	default:
		p.wake, p.at = wake, of.line.PushBack(p)
	}
	return p.held
}

// end passes the permit to the first in line, or leaves the line.
func (p *permit) end() {
	of := p.of
	if of == nil {
		return
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	switch {
	case p.held || p.called:
		of.passLocked()
	case p.at != nil:
		of.line.Remove(p.at)
	}
	*p = permit{}
}

// passLocked gives a permit to the first in line.
func (o *permits) passLocked() {
	first := o.line.Front()
	if first == nil {
		o.free++
		return
	}
	p := o.line.Remove(first).(*permit)
	p.called = true
	select {
	case p.wake <- struct{}{}:
	default: // it is woken already, and has still to look
	}
}

// mayAsk reports whether the acquisition may ask the nodes now. If not, it stands in line, and
// w is woken when it may.
func (acq *acquisition) mayAsk(w *round.Sleeper) bool {
	if acq.failed == 0 {
		return acq.permit.take(&acq.a.firsts, w.Wake)
	}
	return acq.permit.take(&acq.a.asks, w.Wake)
}

// awaitPermit blocks until the acquisition may ask, ctx is done or the Locker is closed. The
// permit is kept until the acquisition rests or ends; also for a pause, if nodes failed:
// thousands of goroutines that try again would keep each other from being answered.
func (acq *acquisition) awaitPermit(ctx context.Context) error {
	w := acq.waiter
	if w == nil {
		w = acq.a.Sleepers.Get()
		defer acq.a.Sleepers.Put(w)
	}
	for !acq.mayAsk(w) {
		var err error
		select {
		case <-w.Wake:
			continue
		case <-acq.a.Closing:
			err = fault.ErrClosed
		case <-ctx.Done():
			err = fault.OfContext(ctx)
		}
		acq.permit.end()
		return err
	}
	return nil
}
