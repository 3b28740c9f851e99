package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/acquire"
	"github.com/quorumkit/redlock/internal/chance"
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

// New makes a Locker over the caller's clients, one for each node, in any order.
// It sends nothing, never closes a client and never adds hooks to one; close the
// clients after the Locker. Clients with default options are safe: a command is
// never sent twice, and a node that hangs or refuses delays nobody else. Most
// commands travel on a pinned connection, which go-redis does not take through a
// client's hooks: to see what the library does, use WithObserver. A client with a
// StreamingCredentialsProvider is given itself, and not inside a wrapper: there go-redis
// panics, and the node is ErrMisconfigured.
//
// A Cluster, Ring or Sentinel client is no node and is refused, and so are a database
// other than 0 and equal names. Where New can't see that, inside a wrapper, the node
// is ErrMisconfigured before it grants a lock. All faults come joined, as ErrInvalidNode, ErrInvalidOption or
// ErrInvalidTTL.
func New(nodes []redis.UniversalClient, opts ...Option) (*Locker, error) {
	cfg, err := buildConfig(len(nodes), opts)
	if cfg.tls != nil {
		err = errors.Join(err, fmt.Errorf("%w: WithTLS is for Open: give New clients that have a TLSConfig", ErrInvalidOption))
	}
	if cfg.provided {
		err = errors.Join(err, fmt.Errorf("%w: WithCredentials is for Open: give New clients that have a CredentialsProviderContext", ErrInvalidOption))
	}
	return newLocker(nodes, cfg, err)
}

// newLocker makes a Locker; err are the faults that were found before.
func newLocker(nodes []redis.UniversalClient, cfg config, err error) (*Locker, error) {
	names, nodeErr := checkNodes(nodes, cfg.names)
	if err = errors.Join(err, nodeErr); err != nil {
		return nil, fault.Errorf("redlock: %w", err)
	}
	first, _ := nodes[0].(*redis.Client)
	cfg.chance = chance.Of(first)
	l := &core{
		cfg: cfg, clock: clock.New(), names: names, queue: queue.New(cfg.turns), requests: hold.NewRequests(),
	}
	l.closing, l.shut = context.WithCancel(context.Background())
	l.clock.WallOff(clock.WallOf(first))
	l.recorder = newRecorder(l.clock, cfg.observers, len(nodes))
	l.sleepers = round.NewSleepers(l.clock)
	hints := round.NewHints(l.clock)
	seen := &nodeEvents{l, names}
	member := membership.NewConfig(names, cfg.maxTTL, cfg.strictRecovery)
	member.Pin = cfg.cluster
	l.tracker = membership.NewTracker(member, cfg.chance.Name(), l.clock)
	siblings := node.NewSiblings(names, cfg.drift, hints)
	forNodes := l.nodeConfig(cfg.chance.ID())
	l.cfg.process = forNodes.Process
	for i, client := range nodes {
		l.nodes = append(l.nodes, node.New(i, names[i], client, forNodes, l.clock, siblings, l.tracker, seen))
	}
	for _, n := range l.nodes {
		l.tracker.Attach(n)
	}
	l.clocks = node.NewClockWatch(l.nodes, l.clock, l.busy)
	l.presence = queue.NewPresence(queue.Config{
		Process: forNodes.Process, Nodes: l.nodes, Clock: l.clock, Timeout: cfg.nodeTimeout, Closing: l.closing.Done(),
		Watch: l.clocks.Start, Leave: l.leaveLine, GiveBack: l.giveBackGrant, Asked: l.requests.Hear,
	}, l.queue)
	l.acquirer = acquire.New(acquire.Config{
		Nodes: l.nodes, Clock: l.clock, Hints: hints, Tracker: l.tracker, Queue: l.queue, Presence: l.presence, Sleepers: l.sleepers, Chance: cfg.chance,
		Holder: lua.HolderLabel(cfg.holder), TTL: cfg.ttl, Timeout: cfg.nodeTimeout, Bound: l.cfg.bound, Drift: cfg.drift, RetryMin: cfg.retryMin, RetryMax: cfg.retryMax,
		Closing: l.closing.Done(), Door: &attemptEvents{l},
	})
	l.keeper = hold.NewKeeper(hold.Config{
		Acquirer: l.acquirer, Requests: l.requests, Watch: l.clocks.Start, Door: &holdEvents{l},
		Causes: hold.Causes{hold.Released: ErrReleased, hold.MaxHeld: ErrMaxHold, hold.Closed: ErrClosed, hold.Lapsed: errLapsed},
	})
	l.watcher = observe.New(observe.Config{Nodes: l.nodes, Clock: l.clock, Go: l.looks.Go, Closing: l.closing.Done()})
	l.tracker.OnList(func() {
		l.keeper.Relisted()
		l.queue.Relisted()
	})
	for _, n := range l.nodes {
		go n.Write()
	}
	go l.tracker.Run()
	return &Locker{core: l}, nil
}

// checkNodes refuses what can't be a node, and names the rest.
func checkNodes(nodes []redis.UniversalClient, given []string) ([]string, error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: no client given: a Locker needs at least one node", ErrInvalidNode)
	}
	if len(nodes) > quorum.MaxNodes {
		return nil, fmt.Errorf("%w: %d clients given: a Locker takes at most %d nodes", ErrInvalidNode, len(nodes), quorum.MaxNodes)
	}
	var errs []error
	names := make([]string, len(nodes))
	for i, client := range nodes {
		name, err := nodeName(i, client)
		if err != nil {
			errs = append(errs, err)
		}
		if names[i] = name; len(given) == len(nodes) {
			names[i] = given[i]
		}
		if names[i] == "" || len(names[i]) > membership.MaxNodeName || !fault.IsText(names[i]) || strings.ContainsAny(names[i], " ,\r\n\t") {
			errs = append(errs, fmt.Errorf("%w: node %d: a name is 1 to %d bytes of printable text without blanks and commas: see WithNodeNames", ErrInvalidNode, i, membership.MaxNodeName))
		}
		for j := range i {
			if names[j] == names[i] {
				errs = append(errs, fmt.Errorf("%w: nodes %d and %d are both %s: a node may not vote twice", ErrInvalidNode, j, i, names[i]))
			}
		}
	}
	return names, errors.Join(errs...)
}

// nodeName is the address of a client that may be a node.
func nodeName(i int, client redis.UniversalClient) (string, error) {
	fallback := fmt.Sprintf("node-%d", i)
	if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fallback, fmt.Errorf("%w: node %d: the client is nil", ErrInvalidNode, i)
	}
	switch c := client.(type) {
	case *redis.ClusterClient:
		return fallback, fmt.Errorf("%w: node %d is a Cluster client: a node is one master, and a Cluster may move a key to another", ErrInvalidNode, i)
	case *redis.Ring:
		return fallback, fmt.Errorf("%w: node %d is a Ring client: a node is one master, and a Ring moves keys when a shard is down", ErrInvalidNode, i)
	case interface{ Options() *redis.Options }: // a *redis.Client, or what embeds one
		if db := c.Options().DB; db != 0 {
			return fallback, fmt.Errorf("%w: node %d uses database %d: %s", ErrInvalidNode, i, db, node.NotDatabase)
		}
		if c.Options().Addr == node.FailoverAddr {
			return fallback, fmt.Errorf("%w: node %d is %s", ErrInvalidNode, i, node.NotSentinel)
		}
		return node.NameOf(c.Options().Addr), nil
	default: // its first connection tells
		return fallback, nil
	}
}

// nodeConfig is what each node knows of the Locker, which waits under this id.
func (l *core) nodeConfig(process string) node.Config {
	c := &l.cfg
	return node.Config{
		Timeout: c.nodeTimeout, Drift: c.drift, TrustClocks: c.trustClocks, Unprotected: c.unprotected, Chance: c.chance, Process: process, Holder: c.holder,
		Untold: func(bids []*round.Round) []node.Poll { return l.presence.Telling(bids) }, Recorded: l.queue.Recorded, Busy: l.busy,
	}
}

// Acquire takes the lock on resource, and blocks until it is held or ctx is done.
// A name may be any bytes, at most MaxResourceLength; errors quote what is not
// printable text.
// Goroutines of one Locker that want the same name queue first in, first out, and
// so do Lockers, on the nodes. One that stands in line on a quorum of them before
// another first asks has its turn first, while it gives signs of life. A
// release grants it to the next in line, or wakes it. ctx bounds the acquisition only:
// Lock.Context keeps its values, not its cancellation.
//
// Acquire tries again after contention and after a missing quorum, and after
// nothing else. When ctx ends, it returns at once with ctx's error joined with
// the last *QuorumError, or with ErrNotAcquired where it still waited behind
// another goroutine of this Locker; what was sent is rolled back in the
// background. ErrInvalidResource, ErrInvalidTTL, ErrInvalidOption and ErrClosed
// return at once, and so does a *QuorumError when ErrMisconfigured nodes leave
// no quorum possible.
func (l *Locker) Acquire(ctx context.Context, resource string, opts ...AcquireOption) (*Lock, error) {
	return l.take(ctx, resource, opts, true)
}

// TryAcquire makes one attempt: it returns the lock, or says why not, and never
// waits for a holder. ErrNotAcquired: a quorum answered and it was not ours;
// ErrNoQuorum: too few answered, so nobody can say. A free name for which another
// Locker waits is ErrNotAcquired too, unless WithBarging is given. A name that this Locker
// holds or queues for is ErrNotAcquired, without traffic. It blocks for at most
// two node timeouts (WithNodeTimeout), or four where the nodes have to settle on a token.
// Before it refuses because nodes were seen not to vote, all nodes are looked at again, which
// takes two node timeouts and 100 ms at most, and asked again where one may vote by
// then. The rest is as for Acquire; what a failed attempt sent is rolled back in
// the background.
func (l *Locker) TryAcquire(ctx context.Context, resource string, opts ...AcquireOption) (*Lock, error) {
	return l.take(ctx, resource, opts, false)
}

// take is Acquire, or TryAcquire, which does not wait.
func (l *Locker) take(ctx context.Context, resource string, opts []AcquireOption, wait bool) (*Lock, error) {
	t, key, err := l.request("acquire", resource, opts)
	if err != nil {
		return nil, err
	}
	if err := t.releasedByHand(); err != nil {
		return nil, fault.Errorf("redlock: acquire %s: %w", fault.Printable(resource), err)
	}
	return l.takeOn(ctx, resource, key, wait, &t)
}

// takeOn is take on these terms.
func (l *Locker) takeOn(ctx context.Context, resource, key string, wait bool, t *terms) (*Lock, error) {
	t.call = l.begin(ctx)
	lock, err := l.acquire(ctx, resource, key, wait, t)
	switch {
	case errors.Is(err, fault.ErrOnlyChecked):
		l.recorder.counters.calls.Add(^uint64(0))
	case err != nil:
		l.tellFailure(ctx, resource, t, err)
	}
	return lock, err
}

// acquire acquires without telling observers of a failure; t records how far it came.
func (l *Locker) acquire(ctx context.Context, resource, key string, wait bool, t *terms) (*Lock, error) {
	if err := fault.OfContext(ctx); err != nil {
		return nil, fault.Errorf("redlock: acquire %s: %w", fault.Printable(resource), err)
	}
	if t.reentry {
		if lock, err := l.reenter(ctx, key, t.shared); !errors.Is(err, errOutside) {
			return lock, err
		}
	}
	if wait && t.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.wait, fault.WaitedError(t.wait))
		defer cancel()
	}
	attempt := l.acquirer.Try
	if wait {
		attempt = l.acquirer.Acquire
	}
	g, err := attempt(ctx, key, acquire.Terms{TTL: t.ttl, Barging: t.barging, Fixed: t.fixed, Shared: t.shared, Limit: t.limit, Label: t.label})
	t.call.failed, t.call.turn = g.Failed, Turn(g.Turn)
	if err != nil {
		return nil, err
	}
	return l.hold(ctx, resource, g, t)
}

// Do runs fn while holding resource, which is acquired as by Acquire and
// released when fn returns or panics. Where Acquire fails, Do returns its error
// and fn is not called. fn's context is cancelled when ctx is, when Close begins, with
// ErrClosed as its cause, and when the lock is lost, with the loss as its cause; it carries
// the fencing token. The lock stays held until fn has returned: after ctx's end for as long
// as that takes, and in Close for WithCloseTimeout.
//
// Do returns fn's error; with the loss if validity ended before fn returned, and with
// ErrClosed if Close had begun before fn failed. While ctx goes on, errors.Is finds no
// context.Canceled in such an error: a loss does not look like a shutdown. fn may release by
// itself; a release that no quorum confirmed is an event, not Do's error. With WithMinHold
// the lock outlives fn.
func (l *Locker) Do(ctx context.Context, resource string, fn func(ctx context.Context, lock *Lock) error, opts ...AcquireOption) error {
	return l.do(ctx, resource, fn, opts, true)
}

// TryDo is Do with one attempt, as TryAcquire makes it: where another holds resource, it
// returns ErrNotAcquired at once, and fn is not called. fn's context ends with ctx and with
// the lock, unlike Lock.Context, which does not end with ctx.
func (l *Locker) TryDo(ctx context.Context, resource string, fn func(ctx context.Context, lock *Lock) error, opts ...AcquireOption) error {
	return l.do(ctx, resource, fn, opts, false)
}

// do is Do, or TryDo, which does not wait.
func (l *Locker) do(ctx context.Context, resource string, fn func(ctx context.Context, lock *Lock) error, opts []AcquireOption, wait bool) error {
	if fn == nil {
		return fault.Errorf("redlock: do %s: %w: fn is nil", fault.Printable(resource), ErrInvalidOption)
	}
	t, key, err := l.request("acquire", resource, opts)
	if err != nil {
		return err
	}
	lock, err := l.takeOn(ctx, resource, key, wait, &t)
	if err != nil {
		return err
	}
	err, loss := l.run(ctx, lock, t.kept(l.clock), func(ctx context.Context) error { return fn(ctx, lock) })
	return outcome(ctx, "do", resource, err, loss)
}

// outcome is the error of a call whose function returned err; loss is run's. The error of
// fn's context must not hide a loss behind the context.Canceled of a shutdown.
func outcome(ctx context.Context, op, label string, err, loss error) error {
	if loss == nil {
		return err
	}
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), loss) {
		err = fault.Uncancelled(err)
	}
	if err == nil || errors.Is(err, loss) { // fn says it by itself
		return fault.Errorf("redlock: %s %s: %w", op, fault.Printable(label), cmp.Or(err, loss))
	}
	return fault.Errorf("redlock: %s %s: %w: %w", op, fault.Printable(label), loss, err)
}

// holding is what Do has: a lock, or a set of them.
type holding interface {
	Err() error
	Context() context.Context
	Release(ctx context.Context) error
	carry(ctx context.Context) context.Context
	work(by int32)
}

// run runs fn while h is held, and releases it when fn returns or panics, but not
// before the time that is given. The loss is why it had ended before fn returned, or
// ErrClosed if fn failed when Close had begun; nil: it had not, or fn released it.
func (l *core) run(ctx context.Context, h holding, kept clock.Instant, fn func(ctx context.Context) error) (err, loss error) {
	if !l.acquirer.Enter() { // Close has begun since h was granted, and no longer waits for fn
		_ = h.Release(ctx)
		return nil, ErrClosed
	}
	l.work.Add(1)
	h.work(1)
	l.acquirer.Settled()
	defer l.work.Done()
	defer func() { h.work(-1); l.releaseAt(ctx, h, kept) }()
	inner, cancel := context.WithCancelCause(h.carry(ctx))
	stop := context.AfterFunc(h.Context(), func() { cancel(h.Err()) })
	stay := context.AfterFunc(l.closing, func() { cancel(ErrClosed) })
	defer func() { stop(); stay(); cancel(nil) }()
	err = fn(inner)
	if loss = h.Err(); errors.Is(loss, ErrReleased) {
		loss = nil
	}
	if loss == nil && err != nil && l.closing.Err() != nil {
		loss = ErrClosed
	}
	return err, loss
}

// kept is when a hold of now may be released at the earliest; 0: at any time. It is read
// from the later of the two clocks, and compared with the earlier one: d is the least.
func (t *terms) kept(c *clock.Clock) clock.Instant {
	if t.minHold == 0 {
		return 0
	}
	return c.Now().Add(t.minHold)
}

// releaseAt releases what Do held: now, or in the background when its time has come.
// Whether that is confirmed is an event.
func (l *core) releaseAt(ctx context.Context, h holding, at clock.Instant) {
	left := time.Duration(0)
	if at != 0 {
		left = at.Sub(l.clock.Early())
	}
	if left <= 0 || h.Err() != nil || !l.acquirer.Enter() {
		_ = h.Release(ctx)
		return
	}
	defer l.acquirer.Settled()
	ctx = context.WithoutCancel(ctx)
	l.looks.Go(func() {
		t := l.clock.NewTimer(left)
		defer t.Stop()
		select {
		case <-t.C:
			_ = h.Release(ctx)
		case <-h.Context().Done(): // Close, at the latest
		}
	})
}

// Close releases what is held, and ends the locks' contexts with ErrClosed. Calls
// that wait end with ErrClosed, and so does every later one. Functions of Do, TryDo, DoAll
// and Campaign are asked to return, by the contexts that they were given; what they hold is
// released when they have, and Lock.Context ends then. Close waits for them within the
// close timeout, and leaves two node timeouts of it, or half, for releases: then it releases what they hold all the same. Called by such a
// function, it waits that long. Clients given to New stay open. A node that does not take a
// release, of a lock that is held or of one that ended before, is tried again until the close
// timeout. So where a node is down that may hold something of this Locker, Close takes that
// long.
//
// It returns an error that says what was not released on which node, and why; it is
// ErrNoQuorum if no quorum confirmed the release of a held lock, which keeps the
// name taken for up to a lease. It names the locks that were released before their functions
// returned, and is context.DeadlineExceeded then. The Locker is closed all the same. Further calls do
// nothing and return nil.
func (l *Locker) Close() error {
	if l.acquirer.Close() {
		return nil
	}
	l.shut()
	deadline, working := l.clock.NewTimer(l.cfg.closeTimeout), l.clock.NewTimer(l.cfg.workTimeout())
	defer deadline.Stop()
	defer working.Stop()
	began := l.clock.Now()
	until := began.Add(l.cfg.closeTimeout)
	bounded(deadline, l.acquirer.Await) // what they took, they hold or roll back
	l.queue.LeaveAll(l.acquirer.Releases.LeaveAs, func(key string, place int64) { l.acquirer.Releases.LeaveShared(key, place, l.nodes) })
	unconfirmed := l.unconfirmed(l.keeper.Close(until, func() { bounded(working, l.work.Wait) }))
	l.clocks.Close()
	l.presence.Close()
	for _, n := range l.nodes {
		n.Close(began.Add(max(l.cfg.closeTimeout-l.cfg.nodeTimeout, 0))) // so that the last call ends in time
	}
	bounded(deadline, func() {
		for _, n := range l.nodes {
			<-n.Stopped
		}
		l.keeper.Await()
		l.looks.Wait()
		l.presence.Await()
		l.tracker.Close()
		l.recorder.observers.Close() // last: what ends may have something to tell
		for _, say := range l.cfg.lastWords {
			say()
		}
	})
	left := l.unreleased()
	for _, c := range l.own {
		_ = c.Close() // a socket that broke while it lay idle says so here, under TLS: no release's failure
	}
	if err := errors.Join(unconfirmed, left); err != nil {
		return fault.Errorf("redlock: %w", err)
	}
	return nil
}

// bounded runs wait, and goes on without it once the deadline has passed: what it
// waits for then ends by itself, when its node answers or times out.
func bounded(deadline *time.Timer, wait func()) {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	select {
	case <-done:
	case <-deadline.C:
		deadline.Reset(0) // one bound for all
	}
}
