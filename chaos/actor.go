package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// actor is a client on a stage, whose every step is recorded: it asks for a
// resource, writes to it, extends, and releases. One goroutine uses it.
type actor struct {
	Name string

	stage     Stage
	history   *history
	contender Contender
	nodes     []redis.UniversalClient
	guard     *fencing.Memory
	watching  *sync.WaitGroup // of one watch for each tenure
	left      *leftToClose
	campaigns int
	closed    chan struct{}
	closing   sync.Once
}

// bareActor is an actor without a contender of its own.
func bareActor(name string, stage Stage, history *history, guard *fencing.Memory) *actor {
	return &actor{Name: name, stage: stage, history: history, guard: guard, watching: &sync.WaitGroup{}, left: &leftToClose{}, closed: make(chan struct{})}
}

// newActor puts a client of a kit on the stage. guard, which all actors of a
// stage share, stands before the resources; with nil, or for a kit without
// tokens, they take every write. The caller closes the actor.
func newActor(name string, kit Kit, stage Stage, history *history, guard *fencing.Memory) (*actor, error) {
	clients, err := stage.Connect(name)
	if err != nil {
		return nil, err
	}
	history.witness.overhear(name, clients, stage.Names())
	history.lines.overhear(name, clients)
	history.senders.overhear(name, clients)
	contender, err := kit.Open(clients, stage.Names())
	if err != nil {
		return nil, fmt.Errorf("chaos: %s: %w", name, err)
	}
	if _, ours := contender.(*redlockContender); !ours {
		if v, ok := whole(stage).(*virtual); ok {
			v.foreign(name)
		}
	}
	a := bareActor(name, stage, history, guard)
	a.contender, a.nodes = contender, clients
	return a, nil
}

// reopened is the actor with another contender of the kit over the same connections, after
// its own was closed.
func (a *actor) reopened(kit Kit) (*actor, error) {
	contender, err := kit.Open(a.nodes, a.stage.Names())
	if err != nil {
		return nil, fmt.Errorf("chaos: %s, again: %w", a.Name, err)
	}
	again := bareActor(a.Name, a.stage, a.history, a.guard)
	again.contender, again.nodes, again.campaigns = contender, a.nodes, a.campaigns
	return again, nil
}

// leftToClose are the tenures that end with their process's library.
type leftToClose struct {
	mu      sync.Mutex // guards tenures
	tenures []*Tenure
}

// leaveToClose has the tenure end when the actor closes, and be released by that.
func (t *Tenure) leaveToClose() {
	left := t.actor.left
	left.mu.Lock()
	defer left.mu.Unlock()
	left.tenures = append(left.tenures, t)
}

// end records that they are given up.
func (l *leftToClose) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tenures {
		t.end()
	}
	l.tenures = nil
}

// Close closes the actor's contender.
func (a *actor) Close() error {
	a.left.end()
	err := a.contender.Close()
	a.leave()
	return err
}

// leave ends the watches over the actor's tenures.
func (a *actor) leave() {
	a.closing.Do(func() { close(a.closed) })
	a.watching.Wait()
}

// Ask makes one attempt at a resource.
func (a *actor) Ask(ctx context.Context, resource string, lease time.Duration) (*Tenure, error) {
	return a.AskFor(ctx, request{Resources: []string{resource}}, lease)
}

// AskFor makes one attempt at what is wanted, as far as the actor's library can do that:
// one that can't share takes a resource alone, and one that knows no sets takes the first
// of them.
func (a *actor) AskFor(ctx context.Context, w request, lease time.Duration) (*Tenure, error) {
	return a.attempt(ctx, can(a.contender, w), lease, false)
}

// attempt is an attempt at what the library can do.
func (a *actor) attempt(ctx context.Context, w request, lease time.Duration, wait bool) (*Tenure, error) {
	a.rest(AtAsk)
	set, ids := a.history.ask(a.Name, w)
	hold, err := take(ctx, a.contender, w, lease, wait)
	if err != nil {
		failed := make([]Record, len(ids))
		for i, id := range ids {
			failed[i] = Record{Kind: trace.Failed, Client: a.Name, Resource: w.Resources[i], Hold: id}
		}
		a.history.addAll(failed)
		return nil, err
	}
	return a.begins(hold, w, set, ids), nil
}

// begins is what follows an attempt that brought a lock.
func (a *actor) begins(hold setHold, w request, set int64, ids []int64) *Tenure {
	for _, resource := range w.Resources {
		a.history.lines.look(resource)
	}
	t := a.begin(hold, w, set, ids)
	a.rest(AtHeld)
	return t
}

// rest blocks while the actor's process is paused at that moment.
func (a *actor) rest(at Moment) { a.stage.Rest(trace.ProcessOf(a.Name), at) }

// Insist asks again and again, with a pause in between, until it holds or ctx is
// done; then it quits and returns ctx's error joined with the last one.
func (a *actor) Insist(ctx context.Context, resource string, lease time.Duration, pause func() time.Duration) (*Tenure, error) {
	return a.InsistOn(ctx, request{Resources: []string{resource}}, lease, pause)
}

// InsistOn is Insist for what actor.AskFor asks for.
func (a *actor) InsistOn(ctx context.Context, w request, lease time.Duration, pause func() time.Duration) (*Tenure, error) {
	for w = can(a.contender, w); ; {
		t, err := a.attempt(ctx, w, lease, false)
		if err == nil {
			return t, nil
		}
		timer := time.NewTimer(pause())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			a.quit(w)
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// Quit says that the actor no longer wants these resources.
func (a *actor) Quit(resources ...string) { a.quit(request{Resources: resources}) }

// quit says that the actor no longer wants this.
func (a *actor) quit(w request) {
	quit := make([]Record, len(w.Resources))
	for i, resource := range w.Resources {
		quit[i] = Record{Kind: trace.Quit, Client: a.Name, Resource: resource, Limit: w.Limit}
	}
	a.history.addAll(quit)
}
