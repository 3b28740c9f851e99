package chaos

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// elector is a [Contender] whose library holds elections.
type elector interface {
	Contender

	// Campaign stands for an election, with a value that observers are told. It runs lead
	// each time that it is elected, with a context that ends with the leadership, and stands
	// again after a loss. It returns when lead has returned of its own accord, or ctx is done.
	Campaign(ctx context.Context, election, value string, lease time.Duration, lead func(context.Context, Hold) error) error
	// Observe yields who leads, at first and at every change, until ctx is done.
	Observe(ctx context.Context, election string) iter.Seq2[redlock.Leader, error]
}

// Campaign is elector.Campaign.
func (c *redlockContender) Campaign(ctx context.Context, election, value string, lease time.Duration, lead func(context.Context, Hold) error) error {
	return c.locker.Campaign(ctx, election, func(ctx context.Context, lock *redlock.Lock) error {
		return lead(ctx, redlockHold{lock})
	}, redlock.WithTTL(lease), redlock.WithValue(value))
}

// Observe is elector.Observe.
func (c *redlockContender) Observe(ctx context.Context, election string) iter.Seq2[redlock.Leader, error] {
	return c.locker.Observe(ctx, election)
}

// seenWithin is how old what an observer is told may be: so redlock promises.
const seenWithin = 2 * time.Second

// campaign is an actor that stands for an election: the attempt that it is at.
type campaign struct {
	actor *actor
	want  request
	ids   []int64
	open  bool // it was asked for, and nothing came of it yet
	once  bool // it does not stand again after a loss
}

// Campaign has the actor's library stand for an election, and runs lead while it leads.
// Where it can't, the actor insists, leads once, and releases. What lead is given ends with
// lead, and must not be released. On failure the actor has quit; the error is lead's or the
// library's.
func (a *actor) Campaign(ctx context.Context, election string, lease time.Duration, pause func() time.Duration, lead func(context.Context, *Tenure) error) error {
	a.campaigns++
	c := &campaign{actor: a, want: request{Resources: []string{election}, Value: fmt.Sprintf("%s/%d", a.Name, a.campaigns)}}
	elector, ok := a.contender.(elector)
	if !ok {
		t, err := a.InsistOn(ctx, c.want, lease, pause)
		if err != nil {
			return err
		}
		err = lead(ctx, t)
		_ = t.Release(ctx) // what it leaves behind is the trace's matter
		return err
	}
	a.rest(AtAsk)
	c.asks()
	err := elector.Campaign(ctx, election, c.want.Value, lease, func(leading context.Context, hold Hold) error {
		return c.leads(ctx, leading, hold, lead)
	})
	if c.open {
		a.history.Add(Record{Kind: trace.Failed, Client: a.Name, Resource: election, Hold: c.ids[0]})
		a.Quit(election)
	}
	return err
}

// asks records an attempt.
func (c *campaign) asks() {
	_, c.ids = c.actor.history.ask(c.actor.Name, c.want)
	c.open = true
}

// leads is one reign. After a loss the library stands again, unless ctx is done.
func (c *campaign) leads(ctx, leading context.Context, hold Hold, lead func(context.Context, *Tenure) error) error {
	if !c.open {
		c.asks() // it was lost as lead returned
	}
	c.open = false
	t := c.actor.begins(one{hold}, c.want, 0, c.ids)
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
	elector, ok := a.contender.(elector)
	if !ok {
		return
	}
	for leader, err := range elector.Observe(ctx, election) {
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
