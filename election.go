package redlock

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/election"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Campaign has this process stand for an election, and lead while it is elected. An
// election is a lock: its name is the resource's, and its holder leads. Campaign
// waits in line as Acquire does, runs lead as Do runs its function, and resigns when lead
// returns: it releases, and returns lead's error. It blocks until then.
//
// lead's context is cancelled when ctx is, when Close begins, and when the leadership is
// lost, with the loss as its cause. This process leads until lead has returned, in Close for
// WithCloseTimeout. After a loss (ErrLost, ErrMaxHold) Campaign waits for lead to return,
// drops what it returns, and campaigns again, at the end of the line: so one call never
// runs two leads at a time. A lead that goes on after its context has ended keeps this
// call out of the election, and works beside the next leader. So give its writes the token
// of the lock, and let the resource refuse a smaller one than the largest it has seen.
// Nothing less excludes a leader that was paused.
//
// When ctx ends, Campaign returns as soon as lead has: with lead's error, and the loss if
// the leadership was lost before. If it ends while Campaign waits in line, it returns
// Acquire's error, and leaves nothing on any node. Where the Locker is closed meanwhile, the
// error is ErrClosed, with lead's if it failed. A panic of lead resigns and goes on. Other errors
// are Acquire's; with WithWait, each wait is bounded. WithShared, WithLimit and WithMinHold
// are refused with ErrInvalidOption.
//
// A reign is a whole turn (WithTurns): two calls of one Locker do not pass the lead between
// them while candidates of other Lockers wait.
//
// Observe tells others who leads, and WithValue says what they are told. A leader that
// was killed is followed within its TTL and some round trips (three seconds, where that is
// shorter: so long it counts as living), one that resigns within some round trips.
func (l *Locker) Campaign(ctx context.Context, election string, lead func(ctx context.Context, lock *Lock) error, opts ...AcquireOption) error {
	if lead == nil {
		return fault.Errorf("redlock: campaign %s: %w: lead is nil", fault.Printable(election), ErrInvalidOption)
	}
	switch t, _, err := l.request("campaign", election, opts); {
	case err != nil:
		return err
	case t.shared:
		return fault.Errorf("redlock: campaign %s: %w: WithShared: those who share a name would all lead", fault.Printable(election), ErrInvalidOption)
	case t.limited:
		return fault.Errorf("redlock: campaign %s: %w: WithLimit: several would lead", fault.Printable(election), ErrInvalidOption)
	case t.minHold != 0:
		return fault.Errorf("redlock: campaign %s: %w: WithMinHold is for Do, TryDo and DoAll: a leader that resigns is followed at once", fault.Printable(election), ErrInvalidOption)
	}
	opts = append(slices.Clone(opts), acquireOption(func(t *terms) { t.leads = true }))
	for {
		lock, err := l.Acquire(ctx, election, opts...)
		if err != nil {
			return err
		}
		err, loss := l.reign(ctx, lock, lead)
		switch closed := l.closing.Err() != nil; {
		case loss == nil && !closed:
			return err
		case ctx.Err() != nil || closed:
			return outcome(ctx, "campaign", election, err, cmp.Or(loss, ErrClosed))
		}
	}
}

// reign runs lead while the lock is held. Observers are told when it begins, with each renewal,
// for those that came later, and when it has ended: what they look for is there already.
func (l *Locker) reign(ctx context.Context, lock *Lock, lead func(ctx context.Context, lock *Lock) error) (err, loss error) {
	l.announce(ctx, lock.hold.Claim)
	defer l.announce(ctx, lock.hold.Claim)
	return l.run(ctx, lock, 0, func(ctx context.Context) error { return lead(ctx, lock) })
}

// announce publishes a hold on all nodes, and waits for none. It is a hint: observers
// look sooner for it, and miss nothing without.
func (l *core) announce(ctx context.Context, c *round.Claim) {
	if !l.acquirer.Enter() {
		return
	}
	defer l.acquirer.Settled()
	hint := election.Hint{Owner: c.Owner, Token: quorum.Token(c.Token)}.String() //nolint:gosec // positive
	for _, n := range l.nodes {
		l.looks.Go(func() {
			ctx, cancel := n.Bound(context.WithoutCancel(ctx))
			defer cancel()
			_ = n.Calls.Process(ctx, node.AnyCall{Cmd: redis.NewCmd(ctx, "PUBLISH", lua.LeaderChannel+c.Key, hint)})
		})
	}
}

// Leader is who led an election when the nodes were looked at.
type Leader struct {
	// Value is what the leader gave with WithValue, or its WithHolder label if it gave
	// none.
	Value string
	// Token is the fencing token of its hold; 0 until the leader's word for it has come
	// from a quorum of the nodes. Campaign gives it at the begin, and with each renewal, at
	// a third of the TTL (WithFixedLease: at the begin alone): so a later observer is told of
	// the leader at first, and of its token then. A holder by Acquire gives none. It is fit
	// for telling reigns apart, and for asking a resource for nothing older; only the leader
	// itself writes under it. It stays 0 where the ACL of the leader or of the observer
	// lacks the channels redlock:leader:*, as Cluster.Check says.
	Token Token
	// Held is false where nobody leads.
	Held bool
}

// Observe yields who leads an election, at first and at every change: who holds the lock of that name, by
// Campaign or otherwise. While nobody does, Held is false: of a name that nobody ever held, and of one
// that is shared (WithShared), which nobody leads. Nodes are looked at once a second, in one call for up
// to 250 names that this Locker observes, and at once where a leader says that it was elected or has
// resigned. That word is never believed alone. A leader is yielded once a quorum of the nodes that vote
// has shown its hold at one moment, which is never longer ago than two seconds. While the list of nodes
// changes, a Locker with the shorter list may yield an attempt that lacked a quorum of the longer one.
//
// What was seen may have ended since: decide nothing by it that a token does not check.
// A leader that died is seen for as long as the nodes keep its lease. A reign of less than
// a second may be missed, and so may a pause between two.
//
// The sequence goes on behind an error: where nobody could say who leads for two seconds,
// it is a *QuorumError with ErrNoQuorum; where a quorum has something under the name that
// no client of this library wrote, ErrForeign. It ends with ctx's error, with ErrClosed, or
// with ErrInvalidResource, which come as the last pair; and when the loop does. What runs
// for it ends then as well, within a node timeout. Each loop over the sequence begins
// anew.
func (l *Locker) Observe(ctx context.Context, election string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		_, key, err := l.request("observe", election, nil)
		if err == nil && !l.acquirer.Enter() {
			err = fault.Errorf("redlock: observe %s: %w", fault.Printable(election), ErrClosed)
		}
		if err != nil {
			yield(Leader{}, err)
			return
		}
		o := l.watcher.Join(key) //nolint:contextcheck // what it starts serves other loops too
		l.acquirer.Settled()     // Close need not wait for the loop
		defer o.Leave()
		for {
			sight, causes, err := o.Next(ctx)
			if err != nil {
				yield(Leader{}, fault.Errorf("redlock: observe %s: %w", fault.Printable(election), err))
				return
			}
			if !yield(l.leader(election, sight, causes)) {
				return
			}
		}
	}
}

// leader is what an observer is told, in public words.
func (l *Locker) leader(name string, s election.Sight, causes []error) (Leader, error) {
	switch s.State {
	case election.Led:
		value, _ := lua.ValueOf(s.Owner)
		return Leader{Value: value, Token: Token(s.Token), Held: true}, nil
	case election.Vacant:
		return Leader{}, nil
	case election.Taken:
		return Leader{}, fault.Errorf("redlock: observe %s: %w", fault.Printable(name), ErrForeign)
	case election.Unknown, election.Young, election.Split:
	}
	return Leader{}, l.silent("observe", name, causes)
}
