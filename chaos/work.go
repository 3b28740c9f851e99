package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// noticeWithin is what own code is given, after a pause in which its lock ended, to look
// at the lock, or to have its write refused, before it counts as at work again.
const noticeWithin = 100 * time.Millisecond

// Enter says that the client is at work under a lock: from here on, up to [Tenure.Leave],
// nobody else may be, but those who share it where it is shared, or have another slot of
// it. That holds no matter what the lock's validity is and what the code believes: code that
// goes on after its lock was lost breaks the rule of [TwoHolders] as soon as another
// client is at work. So leave before the lock is released.
//
// Only while the client rests in [Client.Step] or [Tenure.Write] is it not at work. After a
// pause in which its lock ended it has a tenth of a second to notice that.
func (c *Client) Enter(lock *redlock.Lock) *Tenure {
	w, hold := request{Resources: []string{lock.Resource()}, Shared: lock.Shared()}, Hold(redlockHold{lock})
	if slot := lock.Slot(); slot >= 0 {
		w.Limit, hold = slot+1, redlockSlot{redlockHold{lock}} // how many there are it does not say
	}
	set, ids := c.actor.history.ask(c.Name, w)
	t := &Tenure{actor: c.actor, work: c, hold: one{hold}, want: w, set: set, ids: ids, ended: make(chan struct{})}
	t.mu.Lock()
	t.record(trace.Held)
	t.mu.Unlock()
	c.mu.Lock()
	c.atWork = append(c.atWork, t)
	c.mu.Unlock()
	c.actor.watching.Go(t.tellLoss)
	return t
}

// Leave says that the actor is no longer at work; it does not release the lock.
func (t *Tenure) Leave() {
	t.end()
	if c := t.work; c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.atWork = slices.DeleteFunc(c.atWork, func(of *Tenure) bool { return of == t })
	}
}

// Step is a step of the client's own code: while a pause or a suspend has stopped the
// client, it blocks, as all that a process does stands still meanwhile. Call it before
// what counts, such as between the look at the lock and the write: a garbage collection
// may come there. It returns ctx's error if ctx is done by then, and else nil; that the
// lock may be lost it does not say.
func (c *Client) Step(ctx context.Context) error {
	c.rest()
	return ctx.Err()
}

// rest blocks while the client is stopped. What it was at rests with it.
func (c *Client) rest() {
	if s, ok := c.actor.stage.(interface {
		stops(string, Moment) bool
	}); !ok || !s.stops(c.Name, AtWrite) {
		return
	}
	resting := c.working()
	for _, t := range resting {
		t.pauses()
	}
	c.actor.rest(AtWrite)
	for _, t := range resting {
		t.goesOn()
	}
}

// working is what the client is at.
func (c *Client) working() []*Tenure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.atWork)
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
		t.record(trace.Extended)
	default:
		t.actor.watching.Go(t.notices)
	}
}

// notices is the moment after which own code is at work again.
func (t *Tenure) notices() {
	timer := time.NewTimer(noticeWithin)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ended:
	case <-t.actor.closed:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rests == 0 && !t.over {
		t.record(trace.Extended)
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
			t.actor.history.Add(Record{Kind: trace.Noted, Client: t.actor.Name, Resource: t.want.Resources[0], Text: "its lock is lost"})
		}
	}
}
