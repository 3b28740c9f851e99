package chaos

import (
	"cmp"
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
	nodes     []redis.UniversalClient // all of the stage
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
	clients, err := whole(stage).Connect(name)
	if err != nil {
		return nil, err
	}
	history.witness.listen(name, clients, whole(stage).Names())
	history.lines.listen(name, clients)
	history.senders.listen(name, clients)
	contender, err := kit.Open(known(stage, clients), stage.Names())
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
// its own was closed; stage has the nodes that it knows now.
func (a *actor) reopened(kit Kit, stage Stage) (*actor, error) {
	contender, err := kit.Open(known(stage, a.nodes), stage.Names())
	if err != nil {
		return nil, fmt.Errorf("chaos: %s, again: %w", a.Name, err)
	}
	again := bareActor(a.Name, stage, a.history, a.guard)
	again.contender, again.nodes, again.campaigns = contender, a.nodes, a.campaigns
	return again, nil
}

// leftToClose are the tenures that end with their process's library.
type leftToClose struct {
	mu      sync.Mutex // guards tenures
	tenures []*Tenure
}

// leaveToClose leaves the tenure to end, and to be released, when the actor closes.
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

// Ask makes one attempt at what is wanted, as far as the actor's library can do that.
func (a *actor) Ask(ctx context.Context, w request, lease time.Duration) (*Tenure, error) {
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
func (a *actor) Insist(ctx context.Context, w request, lease time.Duration, pause func() time.Duration) (*Tenure, error) {
	for w = can(a.contender, w); ; {
		t, err := a.attempt(ctx, w, lease, false)
		if err == nil {
			return t, nil
		}
		if !sleep(ctx, pause()) {
			a.Quit(w)
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// sleep sleeps for so long; false: ctx was done before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Quit says that the actor no longer wants this.
func (a *actor) Quit(w request) {
	quit := make([]Record, len(w.Resources))
	for i, resource := range w.Resources {
		quit[i] = Record{Kind: trace.Quit, Client: a.Name, Resource: resource, Limit: w.Limit}
	}
	a.history.addAll(quit)
}

// Beside is another goroutine of the actor's process: the same client, which its
// library must allow. It is closed with the actor.
func (a *actor) Beside(i int) *actor {
	return &actor{
		Name: fmt.Sprintf("%s#%d", trace.ProcessOf(a.Name), i), stage: a.stage, history: a.history,
		contender: a.contender, guard: a.guard, watching: a.watching, left: a.left, closed: a.closed,
	}
}

// Wait waits by the actor's library. Where the library can't, Wait is
// actor.Insist. On failure the actor has quit; the error is ctx's, joined with
// the library's.
func (a *actor) Wait(ctx context.Context, w request, lease time.Duration, pause func() time.Duration) (*Tenure, error) {
	if _, ok := a.contender.(Waiter); !ok {
		return a.Insist(ctx, w, lease, pause)
	}
	w = can(a.contender, w)
	t, err := a.attempt(ctx, w, lease, true)
	if err != nil {
		a.Quit(w)
		return nil, errors.Join(ctx.Err(), err)
	}
	return t, nil
}

// campaign is an actor that stands for an election: the attempt that it is at.
type campaign struct {
	actor   *actor
	request request
	ids     []int64
	open    bool // it was asked for, and nothing came of it yet
	once    bool // it does not stand again after a loss
}

// Campaign stands for an election by the actor's library, and runs lead while it leads.
// Where the library can't, the actor insists, leads once, and releases. The tenure ends with
// lead, and must not be released. On failure the actor has quit; the error is lead's or the
// library's.
func (a *actor) Campaign(ctx context.Context, election string, lease time.Duration, pause func() time.Duration, lead func(context.Context, *Tenure) error) error {
	a.campaigns++
	w := request{Resources: []string{election}, Value: fmt.Sprintf("%s/%d", a.Name, a.campaigns)}
	all, ok := a.contender.(library)
	if !ok {
		return workOnce(ctx, lead, func() (*Tenure, error) { return a.Insist(ctx, w, lease, pause) })
	}
	c := &campaign{actor: a, request: w}
	return c.run(ctx, lead, func(lead func(context.Context, Hold) error) error {
		return all.Campaign(ctx, election, w.Value, lease, lead)
	})
}

// Do holds the resources by the actor's library while work runs, and waits for work. Where
// the library can't, the actor waits, works and releases. On failure the actor has quit.
func (a *actor) Do(ctx context.Context, w request, lease time.Duration, pause func() time.Duration, work func(context.Context, *Tenure) error) error {
	all, ok := a.contender.(library)
	if !ok {
		return workOnce(ctx, work, func() (*Tenure, error) { return a.Wait(ctx, w, lease, pause) })
	}
	c := &campaign{actor: a, request: w, once: true}
	return c.run(ctx, work, func(work func(context.Context, Hold) error) error { return all.Do(ctx, w, lease, work) })
}

// workOnce gets a lock, works under it, and releases it.
func workOnce(ctx context.Context, work func(context.Context, *Tenure) error, get func() (*Tenure, error)) error {
	t, err := get()
	if err != nil {
		return err
	}
	err = work(ctx, t)
	_ = t.Release(ctx) // what it leaves behind is the trace's matter
	return err
}

// run records what call does, which runs lead each time that the actor holds.
func (c *campaign) run(ctx context.Context, lead func(context.Context, *Tenure) error, call func(lead func(context.Context, Hold) error) error) error {
	c.actor.rest(AtAsk)
	c.asks()
	err := call(func(leading context.Context, hold Hold) error { return c.leads(ctx, leading, hold, lead) })
	if c.open {
		c.actor.history.Add(Record{Kind: trace.Failed, Client: c.actor.Name, Resource: c.request.Resources[0], Hold: c.ids[0]})
		c.actor.Quit(c.request)
	}
	return err
}

// asks records an attempt.
func (c *campaign) asks() {
	_, c.ids = c.actor.history.ask(c.actor.Name, c.request)
	c.open = true
}

// leads is one reign. After a loss the library stands again, unless ctx is done.
func (c *campaign) leads(ctx, leading context.Context, hold Hold, lead func(context.Context, *Tenure) error) error {
	if !c.open {
		c.asks() // it was lost as lead returned
	}
	c.open = false
	t := c.actor.begins(one{hold}, c.request, 0, c.ids)
	err := lead(leading, t)
	c.actor.rest(AtRelease)
	t.end()
	select {
	case <-hold.Lost():
		if ctx.Err() == nil && !c.once {
			c.asks()
		}
	default:
	}
	return err
}

// Observe records what the actor's library says of who leads, until ctx is done. Where it
// can't, it records nothing.
func (a *actor) Observe(ctx context.Context, election string) {
	all, ok := a.contender.(library)
	if !ok {
		return
	}
	for leader, err := range all.Observe(ctx, election) {
		if err != nil {
			continue // nobody can say, or ctx is done
		}
		r := Record{Kind: trace.Saw, Client: a.Name, Resource: election, Token: leader.Token}
		if leader.Held {
			r.Value = cmp.Or(leader.Value, "?")
		}
		a.history.Add(r)
	}
}
