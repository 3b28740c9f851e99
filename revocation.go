package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/revocation"
	"github.com/quorumkit/redlock/internal/round"
)

// WithRevocation takes a hold that others can ask for, by Locker.Revoke: Lock.Revoked
// closes then, and the holder decides what it does. Works for every kind of hold, and costs
// a plain one nothing.
//
// The owner value has a mark that says which Locker is to be asked. It is behind
// WithHolder's label, and Inspect and Observe show the label and the value without it. A
// Locker that has taken such a hold keeps one more connection to each node, as after a
// wait in line, until it is closed. With WithReentry it is the first acquire of a hold
// that decides.
func WithRevocation() AcquireOption { return acquireOption(func(t *terms) { t.revocable = true }) }

// Revoked returns a channel that closes once the hold was asked for (Locker.Revoke); nil,
// which never does, without WithRevocation. The hold goes on: its holder ends what it
// does and releases, or goes on, and nothing is done to it then. The channel does not close
// when the hold ends: wait for Done as well. All handles of a hold (WithReentry) have the
// same.
//
// It is a request that a network carried, and anybody who may publish on the nodes can
// make it: let nothing depend on it that must happen.
func (l *Lock) Revoked() <-chan struct{} { return l.hold.Revoked }

// Revoked returns a channel that closes once one of the names was asked for, as
// Lock.Revoked does; nil if none of them can be. A name that was asked for while AcquireAll
// still waited for others was given back then, and taken anew.
func (m *MultiLock) Revoked() <-chan struct{} { return m.revoked }

// Revoke asks all who hold resource to give it up: alone, beside others or by a slot of
// it (WithLimit), where the hold was taken WithRevocation. It blocks until none of them
// holds it any more, or ctx is done. They decide: nothing takes a lock away from its holder while that trusts in it, so
// give ctx a deadline. Who takes the lock meanwhile is not asked, and the name need not be
// free when Revoke returns: to have it, acquire it, which may wait at the same time.
//
// The request names the holds that are there when the call begins, by their owner values.
// So one that comes late, twice, or from a forger reaches the hold that it names, or none.
// It is sent to all nodes, and again once a second. The nodes are looked at meanwhile, more
// often at first.
//
// It returns nil when a quorum of nodes shows that none of those who were asked holds.
// ErrMisconfigured, in a *QuorumError: each node refuses to pass the request on, as for a user
// whose ACL lacks the channels redlock:wake:* or +publish. One node that does not is enough, for
// a holder listens on all: Cluster.Check tells of the others.
// ErrNotHeld: nobody holds. ErrNotRevocable: somebody holds who can't be asked, without the
// option or through another program; nobody was asked then, also where others could be.
// An attempt that comes and goes while the nodes are read may be taken for such a hold.
// A *QuorumError with ErrNoQuorum: too few nodes that may vote answered, so nobody can say
// who holds. Once somebody was asked, that is no reason to end. A node whose clock is known
// to have stepped may not vote; a Locker that neither holds nor waits looks at no clocks, and
// may then take its word that a holder is gone. When ctx ends, it returns
// ctx's error, joined with that one where it holds; and when the Locker is closed,
// ErrClosed. ErrInvalidResource is returned before anything is sent.
//
// What was sent may reach a holder after Revoke has returned.
func (l *Locker) Revoke(ctx context.Context, resource string) error {
	_, key, err := l.request("revoke", resource, nil)
	if err != nil {
		return err
	}
	if !l.acquirer.Enter() {
		return fault.Errorf("redlock: revoke %s: %w", fault.Printable(resource), ErrClosed)
	}
	defer l.acquirer.Settled()
	c := revokeCall{locker: l.core, resource: resource, key: key}
	err = c.run(ctx)
	if _, whole := err.(*QuorumError); err == nil || whole { //nolint:errorlint // it says all by itself
		return err
	}
	return fault.Errorf("redlock: revoke %s: %w", fault.Printable(resource), err)
}

// revokeCall is one call of Revoke.
type revokeCall struct {
	locker   *core
	resource string
	key      string
	request  revocation.Request
	causes   []error       // why each node said nothing in the last look that ctx did not end
	looks    int           // since it asked
	asked    clock.Instant // when it last did

	mu      sync.Mutex // guards the fields below
	refused []error    // why each node has not passed a request on; nil: it has
	heard   bool       // by a Locker that listened
}

// run looks and asks until that has come to something.
func (c *revokeCall) run(ctx context.Context) error {
	for again := false; ; {
		if err := fault.OfContext(ctx); err != nil {
			return c.interrupted(err)
		}
		readings := c.read(ctx)
		if ctx.Err() != nil {
			continue // what is missing is its doing
		}
		switch step := c.request.Next(readings); step.Do {
		case revocation.LookAgain:
			if err := c.locker.acquirer.Wait(ctx, revocation.SecondLook); err != nil {
				return c.interrupted(err)
			}
		case revocation.Ask:
			c.ask(ctx, step.Owners)
			if err := c.locker.acquirer.Wait(ctx, revocation.Pause(c.looks)); err != nil {
				return c.interrupted(err)
			}
			c.looks++
			if err := c.refusal(); err != nil {
				return err
			}
		case revocation.Gone:
			return nil
		case revocation.NotHeld:
			return ErrNotHeld
		case revocation.NotRevocable:
			return unaskable(step.Owners)
		case revocation.Unknown:
			if again {
				return c.locker.silent("revoke", c.resource, c.causes)
			}
			again = true
		}
	}
}

// unaskable says who can't be asked.
func unaskable(owners []string) error {
	if len(owners) == 0 {
		return fmt.Errorf("%w: no client of this library holds it", ErrNotRevocable)
	}
	return fmt.Errorf("%w: held without WithRevocation by %s", ErrNotRevocable, fault.Printable(owners[0]))
}

// interrupted is the error of a call that ended before it had come to something.
func (c *revokeCall) interrupted(err error) error {
	said := "no holder was asked yet"
	c.mu.Lock()
	passed := slices.Contains(c.refused, nil)
	switch {
	case c.asked == 0:
	case c.heard:
		said = "its holders were asked, and may still give it up"
	case passed:
		said = "its holders were asked, but none of them was listening on any node"
	default:
		said = "no node has passed the request on to its holders"
	}
	c.mu.Unlock()
	err = fmt.Errorf("%s: %w", said, err)
	if c.causes == nil || c.answered() >= c.locker.quorum() || errors.Is(err, ErrClosed) {
		return err
	}
	return errors.Join(err, fault.Within(c.locker.silent("revoke", c.resource, c.causes)))
}

// answered is how many nodes said something when they were last looked at. That one was not
// seen to vote is often so at a first look, and says nothing against it.
func (c *revokeCall) answered() (n int) {
	for _, cause := range c.causes {
		if cause == nil || errors.Is(cause, errUnseen) {
			n++
		}
	}
	return n
}

// read is what the nodes show. What one shows that may not vote counts for nothing: it may
// have forgotten a hold. What ctx cut short is no node's doing, and not kept as its cause.
func (c *revokeCall) read(ctx context.Context) []revocation.Reading {
	l := c.locker
	readings, causes := make([]revocation.Reading, len(l.nodes)), make([]error, len(l.nodes))
	before, since := l.tracker.View(), l.clock.Early()
	c.request.List = l.tracker.List()
	in := Inspection{Key: c.key, Nodes: make([]NodeInspection, len(l.nodes))}
	l.look(ctx, &in)
	for i := range in.Nodes {
		readings[i], causes[i] = readingOf(&in.Nodes[i])
		readings[i].Lists = l.tracker.ListsOn(i)
	}
	if count(readings, causes); !l.cfg.unprotected && c.request.Relies(readings) {
		c.checkVotes(ctx, causes, before, since)
		count(readings, causes)
	}
	if ctx.Err() == nil {
		c.causes = causes
	}
	return readings
}

// checkVotes looks who votes, and adds the causes of those that did not, before and after
// they were read.
func (c *revokeCall) checkVotes(ctx context.Context, causes []error, before membership.View, since clock.Instant) {
	l := c.locker
	all := l.tracker.LookAgain(ctx, l.cfg.nodeTimeout)
	after := l.tracker.View()
	for i := range causes {
		was, why := before.Voter(i)
		is, whyNow := after.Voter(i)
		switch {
		case causes[i] != nil:
		case l.nodes[i].Stepped():
			causes[i] = errStepped
		case whyNow != "":
			causes[i] = cmp.Or(l.tracker.WhyNot(i), errUnseen)
		case why != "" || was != is || !all && !l.tracker.ReadSince(i, since):
			causes[i] = errUnseen
		}
	}
}

var (
	errUnseen  = errors.New("it was not seen to vote before and after it was read")
	errStepped = errors.New("its clock stepped: what it shows no more may still be held")
)

// count says which readings count.
func count(readings []revocation.Reading, causes []error) {
	for i := range readings {
		readings[i].Answered = causes[i] == nil
	}
}

// readingOf is what a node shows of a name and its slots, or why it said nothing.
func readingOf(n *NodeInspection) (r revocation.Reading, silent error) {
	if errors.Is(n.Err, errForeignType) {
		r.Foreign = true
		return r, nil
	}
	if silent = cmp.Or(n.Err, n.slotsErr); silent != nil {
		return r, silent
	}
	var owners []string
	if n.Owner != "" {
		owners = append(owners, n.Owner)
	}
	for _, one := range n.Sharers {
		owners = append(owners, one.Owner)
	}
	for _, one := range n.Slots {
		owners = append(owners, one.Owner)
	}
	for _, owner := range owners {
		if _, ours := lua.ValueOf(owner); ours {
			r.Owners = append(r.Owners, owner)
		} else {
			r.Foreign = true
		}
	}
	return r, nil
}

// ask makes all nodes pass on that these are asked for, once in revocation.AskEvery, and
// waits for none.
func (c *revokeCall) ask(ctx context.Context, owners []string) {
	l, now := c.locker, c.locker.clock.Early()
	if c.asked != 0 && now.Sub(c.asked) < revocation.AskEvery {
		return
	}
	if c.asked == 0 {
		c.refused = slices.Repeat([]error{round.ErrNotSent}, len(l.nodes))
	}
	c.asked = now
	for i, n := range l.nodes {
		l.looks.Go(func() {
			ctx, cancel := n.Bound(context.WithoutCancel(ctx))
			defer cancel()
			listeners := make([]*redis.IntCmd, len(owners))
			_, err := n.Calls.Pipelined(ctx, func(p redis.Pipeliner) error {
				for k, owner := range owners {
					id, _ := lua.LockerOf(owner)
					listeners[k] = p.Publish(ctx, lua.WakeChannel+id, revocation.Message(owner))
				}
				return nil
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, cmd := range listeners {
				c.heard = c.heard || cmd.Val() > 0
			}
			if c.refused[i] != nil {
				c.refused[i] = node.Explain(err)
			}
		})
	}
}

// refusal returns an error if nobody can be asked: no node has passed a request on, and none will.
func (c *revokeCall) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !fault.Hopeless(len(c.refused), 1, func(i int) error { return c.refused[i] }) {
		return nil
	}
	votes := slices.Repeat([]quorum.Vote{{Outcome: quorum.Failed}}, len(c.refused))
	return quorumError("revoke", c.resource, ErrMisconfigured, errors.New("no node passes the request on to a holder"), c.locker.names, votes, slices.Clone(c.refused))
}
