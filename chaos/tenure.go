package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Tenure is a lock that a client got, or a set of them: see [Client.Enter]. The client may
// believe in it no longer.
type Tenure struct {
	actor   *actor
	work    worker // whose own code is at work up to Leave; nil: a contender's, which ends with its validity
	hold    setHold
	request request       // what it has
	set     int64         // the number of the set, if it is one
	ids     []int64       // of the attempts, in the order of the resources
	ended   chan struct{} // closed when it is over
	ends    time.Duration // when its library gives it up by itself; 0: never

	mu      sync.Mutex    // guards the rest; taken before the history's
	until   time.Duration // as last recorded
	rests   int           // of own code, that are not over
	over    bool
	givenUp bool // by its client, who believed in it
}

// worker is a client whose own code is at work.
type worker interface {
	// rest blocks while the client is stopped.
	rest()
	// left is told that it is no longer at work under a tenure.
	left(t *Tenure)
}

// begin records that the client holds, and watches over the tenure: what its
// library says of a loss, and whether it has renewed by the time that the
// recorded validity ends, is in the trace though nobody looks.
func (a *actor) begin(hold setHold, w request, set int64, ids []int64) *Tenure {
	t := &Tenure{actor: a, hold: hold, request: w, set: set, ids: ids, ended: make(chan struct{})}
	if w.MaxHold > 0 {
		t.ends = a.history.Now() + w.MaxHold
	}
	t.mu.Lock()
	t.recordLocked(trace.Held)
	t.mu.Unlock()
	if t.Lost() != nil {
		a.watching.Go(t.watch)
	}
	return t
}

// watch returns when the tenure was given up, or its library has said that it is lost.
func (t *Tenure) watch() {
	for left := t.Remaining(); left > 0; left = t.Remaining() {
		select {
		case <-time.After(t.untilLook(left)):
		case <-t.Lost():
			t.told()
			return
		case <-t.ended:
			t.awaitWord()
			return
		case <-t.actor.closed:
			t.Remaining()
			return
		}
	}
	t.awaitWord()
}

// awaitWord returns once the library has said that the tenure is lost, which its client
// knows already; or it was given up, and there is nothing to say.
func (t *Tenure) awaitWord() {
	if t.isGivenUp() {
		return
	}
	select {
	case <-t.Lost():
		t.told()
	case <-t.actor.closed:
	}
}

const (
	// aheadOfEnd is how long before the recorded validity ends the watch looks whether it
	// was renewed. From there on it waits for word of the loss: a library that is asked
	// then may only find out by that.
	aheadOfEnd = time.Millisecond
	// wordWithin is how long it waits.
	wordWithin = 500 * time.Millisecond
)

// untilLook is when the watch looks again: just before the recorded validity ends; then,
// if that is no news, a while after it; and later as what is left ends.
func (t *Tenure) untilLook(left time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch wait := t.until - t.actor.history.Now(); {
	case wait > aheadOfEnd:
		return wait - aheadOfEnd
	case wait > 0:
		return wait + wordWithin
	}
	return left
}

// told records what the library says of a loss.
func (t *Tenure) told() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.givenUp {
		return
	}
	t.loseLocked()
	t.add(Record{Kind: trace.Told})
}

func (t *Tenure) isGivenUp() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.givenUp
}

// recordLocked notes that the tenure begins or goes on, until when its validity says.
// The time is read first, so that the end is never noted later than it is. Own code is at
// work without end.
func (t *Tenure) recordLocked(k trace.Kind) {
	now := t.actor.history.Now()
	t.until = max(now+t.hold.Remaining(), 1)
	r := Record{Kind: k, Client: t.actor.Name, Until: t.until}
	if t.work != nil {
		r.Until = 0
	}
	t.add(r)
}

// loseLocked records the loss, unless the tenure was over before.
func (t *Tenure) loseLocked() {
	if !t.over {
		t.over = true
		close(t.ended)
		t.add(Record{Kind: trace.Lost})
	}
}

// add records something of each lock, at one time.
func (t *Tenure) add(r Record) {
	records := make([]Record, len(t.ids))
	for i, id := range t.ids {
		r.Hold, r.Resource = id, t.request.Resources[i]
		if r.Kind == trace.Held {
			r.Shared, r.Set = t.request.Shared, t.set
			r.Limit, r.Slot = t.request.Limit, slotIn(t.hold)
			r.Ends, r.Untold = t.ends, t.Lost() == nil
		}
		if r.Kind == trace.Held || r.Kind == trace.Extended {
			r.Token = t.hold.Token(r.Resource)
		}
		records[i] = r
	}
	t.actor.history.addAll(records)
}

// Remaining is how long the client may believe that it holds. What the look
// finds is recorded: a renewal by the library itself, and the first time that
// nothing is left, the loss.
func (t *Tenure) Remaining() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.actor.history.Now()
	left := t.hold.Remaining()
	switch {
	case t.over, t.work != nil:
	case left == 0:
		t.loseLocked()
	case now+left > t.until+time.Millisecond:
		t.recordLocked(trace.Extended)
	}
	return left
}

// end records that the client gives the tenure up, if it still believes in it, or is at
// work.
func (t *Tenure) end() {
	if t.Remaining() == 0 && t.work == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.over, t.givenUp = true, true
		close(t.ended)
		t.add(Record{Kind: trace.Released})
	}
}

// Lost is closed when the client's library says that it holds no longer; nil if
// it never says so.
func (t *Tenure) Lost() <-chan struct{} { return t.hold.Lost() }

// Write writes to the resource if the client believes that it holds it, to each of a set:
// between the look and the write it rests, if it is paused. It reports whether the
// resource accepted the write; the error is fencing.ErrStale where the guard
// refused it, and another where the client knew by itself that it holds no longer.
func (t *Tenure) Write(ctx context.Context) error {
	if t.Remaining() == 0 {
		return fmt.Errorf("%w any more: nothing was written", errNotLocked)
	}
	t.restToWrite()
	var errs []error
	for i, resource := range t.request.Resources {
		errs = append(errs, t.write(ctx, resource, t.ids[i]))
	}
	return errors.Join(errs...)
}

// restToWrite blocks while the client is paused before it writes.
func (t *Tenure) restToWrite() {
	if t.work != nil {
		t.work.rest()
		return
	}
	t.actor.rest(AtWrite)
}

// Wrote says what a store of the caller's own made of a write under this lock: with which
// fencing token it came, 0 if it came with none, and whether the store accepted it. Call
// it where the store decides, so that the trace has the writes in the store's order. The
// judge then finds the [StaleWrite]s of that store.
func (t *Tenure) Wrote(token redlock.Token, accepted bool) {
	r := Record{Kind: trace.Wrote, Token: token}
	if !accepted {
		r.Kind = trace.Refused
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(r)
}

// write writes to one resource.
func (t *Tenure) write(ctx context.Context, resource string, id int64) error {
	r := Record{Kind: trace.Wrote, Resource: resource, Hold: id}
	token := t.hold.Token(resource)
	if token == 0 || t.actor.guard == nil {
		t.actor.history.Add(r)
		return nil
	}
	r.Token = token
	if t.request.Limit > 0 {
		resource = fmt.Sprintf("%s, slot %d", resource, slotIn(t.hold)) // tokens are a slot's
	}
	if t.request.Shared {
		shared, err := fencing.NewSharedContext(ctx, resource, token)
		if err != nil {
			return err
		}
		ctx = shared
	}
	err := t.actor.guard.Write(ctx, resource, token, func(context.Context) error {
		t.actor.history.Add(r)
		return nil
	})
	if errors.Is(err, fencing.ErrStale) {
		r.Kind = trace.Refused
		t.actor.history.Add(r)
	}
	return err
}

// Extend lengthens the lease.
func (t *Tenure) Extend(ctx context.Context, lease time.Duration) error {
	if t.Remaining() == 0 {
		return fmt.Errorf("%w any more", errNotLocked)
	}
	t.actor.rest(AtExtend)
	if err := t.hold.Extend(ctx, lease); err != nil {
		t.Remaining()
		return err
	}
	t.Remaining()
	return nil
}

// Release gives the resource up.
func (t *Tenure) Release(ctx context.Context) error {
	t.actor.rest(AtRelease)
	t.end()
	return t.hold.Release(ctx)
}

// reenter enters the tenure again, writes, and leaves it, if the actor's library can:
// the tenure stays.
func (t *Tenure) reenter(ctx context.Context) error {
	all, ok := t.actor.contender.(library)
	outer := lockOf(t.hold)
	if !ok || outer == nil || !t.request.Reentry || t.Remaining() == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w := t.request
	w.Resources = []string{outer.Resource()}
	inner, err := all.Take(outer.Context(), w, 0, false) //nolint:contextcheck // the lock's own says that it is inside
	if err != nil {
		return err
	}
	err = t.Write(ctx)
	_ = inner.Release(ctx) // nothing is sent
	return err
}

// Revoked is closed once the tenure was asked for; nil if it can't be.
func (t *Tenure) Revoked() <-chan struct{} {
	if lock := lockOf(t.hold); lock != nil {
		return lock.Revoked()
	}
	return nil
}

// noticeWithin is what own code is given, after a pause in which its lock ended, to look
// at the lock, or to have its write refused, before it counts as at work again.
const noticeWithin = 100 * time.Millisecond

// Leave says that the client is no longer at work; it does not release the lock.
func (t *Tenure) Leave() {
	t.end()
	if t.work != nil {
		t.work.left(t)
	}
}

// pauses records that own code stands still from here on.
func (t *Tenure) pauses() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rests++; t.rests == 1 && !t.over {
		t.add(Record{Kind: trace.Extended, Client: t.actor.Name, Until: max(t.actor.history.Now(), 1), Text: "stands still"})
	}
}

// goesOn records that own code is at work again: at once, or a moment later if its lock
// ended meanwhile.
func (t *Tenure) goesOn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.rests--; {
	case t.rests > 0 || t.over:
	case t.hold.Remaining() > 0:
		t.recordLocked(trace.Extended)
	default:
		t.actor.watching.Go(t.notices)
	}
}

// notices is the moment after which own code is at work again.
func (t *Tenure) notices() {
	select {
	case <-time.After(noticeWithin):
	case <-t.ended:
	case <-t.actor.closed:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rests == 0 && !t.over {
		t.recordLocked(trace.Extended)
	}
}

// tellLoss notes in the trace when the lock is lost under which own code is at work.
func (t *Tenure) tellLoss() {
	select {
	case <-t.ended:
	case <-t.actor.closed:
	case <-t.Lost():
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.over {
			t.actor.history.Add(Record{Kind: trace.Noted, Client: t.actor.Name, Resource: t.request.Resources[0], Text: "its lock is lost"})
		}
	}
}
