package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/fencing"
)

// Actor is a client on a stage, whose every step is recorded: it asks for a
// resource, writes to it, extends, and releases. One goroutine uses it.
type Actor struct {
	Name string

	stage     Stage
	history   *History
	contender Contender
	guard     *fencing.Memory
}

// NewActor puts a client of a kit on the stage. guard, which all actors of a
// stage share, stands before the resources; with nil, or for a kit without
// tokens, they take every write. The caller closes the actor.
func NewActor(name string, kit Kit, stage Stage, history *History, guard *fencing.Memory) (*Actor, error) {
	clients, err := stage.Connect(name)
	if err != nil {
		return nil, err
	}
	history.witness.overhear(name, clients)
	contender, err := kit.Open(clients, stage.Names())
	if err != nil {
		return nil, fmt.Errorf("chaos: %s: %w", name, err)
	}
	return &Actor{Name: name, stage: stage, history: history, contender: contender, guard: guard}, nil
}

// Close closes the actor's contender.
func (a *Actor) Close() error { return a.contender.Close() }

// Ask makes one attempt at a resource.
func (a *Actor) Ask(ctx context.Context, resource string, lease time.Duration) (*Tenure, error) {
	id := a.history.Ask(a.Name, resource)
	hold, err := a.contender.Acquire(ctx, resource, lease)
	if err != nil {
		a.history.Add(Record{Kind: Failed, Client: a.Name, Resource: resource, Hold: id})
		return nil, err
	}
	t := &Tenure{actor: a, hold: hold, resource: resource, id: id}
	t.record(Held)
	return t, nil
}

// Insist asks again and again, with a pause in between, until it holds or ctx is
// done; then it quits and returns ctx's error joined with the last one.
func (a *Actor) Insist(ctx context.Context, resource string, lease time.Duration, pause func() time.Duration) (*Tenure, error) {
	for {
		t, err := a.Ask(ctx, resource, lease)
		if err == nil {
			return t, nil
		}
		timer := time.NewTimer(pause())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			a.Quit(resource)
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// Quit says that the actor no longer wants the resource.
func (a *Actor) Quit(resource string) {
	a.history.Add(Record{Kind: Quit, Client: a.Name, Resource: resource})
}

// Tenure is a lock that an actor got. It may believe in it no longer.
type Tenure struct {
	actor    *Actor
	hold     Hold
	resource string
	id       int64
	until    time.Duration // as last recorded
	over     bool
}

// record notes that the tenure begins or goes on, until when its validity says.
// The time is read first, so that the end is never noted later than it is.
func (t *Tenure) record(k Kind) {
	now := t.actor.history.Now()
	t.until = max(now+t.hold.Remaining(), 1)
	t.add(Record{Kind: k, Client: t.actor.Name, Token: t.hold.Token(), Until: t.until})
}

func (t *Tenure) add(r Record) {
	r.Hold, r.Resource = t.id, t.resource
	t.actor.history.Add(r)
}

// Remaining is how long the actor may believe that it holds. What the look
// finds is recorded: a renewal by the library itself, and the first time that
// nothing is left, the loss.
func (t *Tenure) Remaining() time.Duration {
	now := t.actor.history.Now()
	left := t.hold.Remaining()
	switch {
	case t.over:
	case left == 0:
		t.over = true
		t.add(Record{Kind: Lost})
	case now+left > t.until+time.Millisecond:
		t.record(Extended)
	}
	return left
}

// Lost is closed when the actor's library says that it holds no longer; nil if
// it never says so.
func (t *Tenure) Lost() <-chan struct{} { return t.hold.Lost() }

// Write writes to the resource if the actor believes that it holds it: between
// the look and the write it rests, if it is paused. It reports whether the
// resource accepted the write; the error is fencing.ErrStale where the guard
// refused it, or errNotLocked where the actor knew by itself.
func (t *Tenure) Write(ctx context.Context) error {
	if t.Remaining() == 0 {
		return fmt.Errorf("%w any more: nothing was written", errNotLocked)
	}
	t.actor.stage.Rest(t.actor.Name)
	token := t.hold.Token()
	if token == 0 || t.actor.guard == nil {
		t.add(Record{Kind: Wrote})
		return nil
	}
	err := t.actor.guard.Write(ctx, t.resource, token, func(context.Context) error {
		t.add(Record{Kind: Wrote, Token: token})
		return nil
	})
	if errors.Is(err, fencing.ErrStale) {
		t.add(Record{Kind: Refused, Token: token})
	}
	return err
}

// Extend lengthens the lease.
func (t *Tenure) Extend(ctx context.Context, lease time.Duration) error {
	if t.Remaining() == 0 {
		return fmt.Errorf("%w any more", errNotLocked)
	}
	if err := t.hold.Extend(ctx, lease); err != nil {
		t.Remaining()
		return err
	}
	t.Remaining()
	return nil
}

// Release gives the resource up.
func (t *Tenure) Release(ctx context.Context) error {
	if t.Remaining() > 0 {
		t.over = true
		t.add(Record{Kind: Released})
	}
	return t.hold.Release(ctx)
}
