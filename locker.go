package redlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quorumkit/redlock/internal/acquire"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/hold"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/observe"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Locker takes locks over one list of nodes; Open and New make one. It is safe for use
// by many goroutines at once; a process needs one for each list of nodes.
type Locker struct {
	*core

	own []io.Closer // the clients that Open built
}

// core is what a Locker, its locks and its Cluster stand on.
//
// Their time is that of one clock.Clock, a scale that never goes back and counts what
// the machine spent suspended, where the system can tell. What decides about a validity
// asks its Now; a lease begins at a reading of Start, which may be too early, never too
// late. Wall clocks never enter a validity: they only suggest tokens (internal/round,
// ask.go), and date what is logged.
type core struct {
	cfg      config
	recorder *recorder
	clock    *clock.Clock
	names    []string // of the nodes
	nodes    []*node.Node
	tracker  *membership.Tracker
	queue    *queue.Queue
	presence *queue.Presence
	acquirer *acquire.Acquirer
	keeper   *hold.Keeper
	clocks   *node.ClockWatch
	sleepers *round.Sleepers
	looks    sync.WaitGroup // calls to nodes of Inspect, Campaign, Observe and Revoke; holds that outlive Do
	requests *hold.Requests
	watcher  *observe.Watcher
	work     sync.WaitGroup  // functions of Do, TryDo, DoAll and Campaign, until what they held is released
	closing  context.Context //nolint:containedctx // it ends when Close begins, for those that wait and for those functions
	shut     context.CancelFunc
}

// quorum is the size of one, of the list that the Locker goes by.
func (l *core) quorum() int { return l.tracker.List().Quorum(len(l.nodes)) }

// leaveLine takes the entry for a name off these nodes, in the line of its kind.
func (l *core) leaveLine(key string, shared bool, nodes []*node.Node) {
	if shared {
		l.acquirer.Releases.LeaveShared(key, int64(quorum.MaxToken), nodes)
	} else {
		l.acquirer.Releases.Leave(key, nodes)
	}
}

// giveBackGrant releases what a node granted to an attempt that is over.
func (l *core) giveBackGrant(key, owner string, n *node.Node) {
	l.acquirer.Releases.GiveBackGrant(key, owner, n)
}

// busy tells whether anything is held, or waited for.
func (l *core) busy() bool { return l.keeper.Busy() || l.presence.Busy() }

// usable refuses what is asked of a closed Locker, or under a ctx that is done.
func (l *core) usable(ctx context.Context, op string) error {
	if l.acquirer.Closed() {
		return fault.Errorf("redlock: %s: %w", op, ErrClosed)
	}
	if err := fault.OfContext(ctx); err != nil {
		return fault.Errorf("redlock: %s: %w", op, err)
	}
	if l.cfg.unprotected {
		return fault.Errorf("redlock: %s: %w: WithoutMembership leaves no membership to speak of", op, ErrInvalidOption)
	}
	return nil
}

// tellAttempt tells that an attempt brought no lock.
func (l *core) tellAttempt(ctx context.Context, resource string, start clock.Instant, rounds int, err error) {
	l.recorder.tell(Event{
		Kind: EventAttemptFailed, Node: -1, Resource: resource, Err: err, Reason: refusal(err),
		Duration: l.clock.Early().Sub(start), Rounds: rounds, Context: ctx,
	})
}

// silent is the error of a look at nodes of which too few answered or agree: causes say why.
func (l *core) silent(op, resource string, causes []error) *QuorumError {
	votes := make([]quorum.Vote, len(causes))
	for i, cause := range causes {
		votes[i].Outcome = node.Classify(cause)
	}
	l.tracker.List().Leave(votes)
	e := quorumError(op, resource, ErrNoQuorum, nil, l.names, votes, causes)
	if quorum.Count(votes).Granted >= e.Quorum {
		e.cause = errors.New("what they show may be a lock by another list of nodes, one on nodes that do not answer, or one that was not seen twice in time, as on a busy machine")
	}
	return e
}

// request checks a call's arguments, before anything is sent.
func (l *Locker) request(op, resource string, opts []AcquireOption) (terms, string, error) {
	t, key := l.cfg.terms, l.cfg.prefix+resource
	err := checkResource(resource, key)
	if err == nil && len(opts) > 0 {
		t, err = l.cfg.with(opts)
	}
	if err == nil {
		err = t.checkLimit(key)
	}
	if err == nil && l.acquirer.Closed() {
		err = ErrClosed
	}
	if err != nil {
		return t, key, fault.Errorf("redlock: %s %s: %w", op, fault.Printable(resource), err)
	}
	return t, key, nil
}

// MaxResourceLength is what the layers below take for the longest key.
var _ = [1]struct{}{}[MaxResourceLength-lua.MaxKeyLength]

func checkResource(resource, key string) error {
	switch {
	case resource == "":
		return fmt.Errorf("%w: the name is empty", ErrInvalidResource)
	case len(key) > MaxResourceLength:
		return fmt.Errorf("%w: the name, prefix included, is longer than %d bytes", ErrInvalidResource, MaxResourceLength)
	case len(key) >= len(lua.OwnPrefix) && key[:len(lua.OwnPrefix)] == lua.OwnPrefix:
		return fmt.Errorf("%w: keys that begin with %q are the library's own", ErrInvalidResource, lua.OwnPrefix)
	}
	return nil
}
