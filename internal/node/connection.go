package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/round"
)

const (
	// unpinAfter is how long a connection may idle before its pool checks it. A connection that
	// breaks within that time costs one flush (ADR 1).
	unpinAfter = 100 * time.Millisecond
	// repinAfter is how long it stays with us under traffic. Of a connection that its
	// pool has not seen for five seconds, a client that speaks RESP3 looks at the
	// socket before each command and behind it: two system calls more for each flush.
	repinAfter = 4 * time.Second
)

// connection is what a node's flushes go out on: while there is traffic, one
// connection of the client's pool, which is pinned. It is the writer's own.
//
// Commands keep their order on one connection only. Nothing relies on the order between
// two: an acquire that a broken connection delivers late, behind its release, meets the
// tombstone of that release.
type connection struct {
	clock *clock.Clock
	calls redis.UniversalClient // the client, bounded by the node timeout where it can be
	dials redis.UniversalClient // the client, bounded by DialShare node timeouts, and by a context, where it can be
	pins  *redis.Client         // the same, where it is go-redis's own: connections of it are pinned
	keeps bool                  // the writer may keep one: its pool has others
	gate  *turnstile            // of a pool that may have no connection left; nil if it opens another
	other *other                // of a client that is not go-redis's own; else nil

	timeout time.Duration
	busy    func() bool    // whether the Locker holds or waits for anything
	trip    time.Duration  // of the last flush that was answered; 0 if none
	asking  sync.WaitGroup // looks that are out: the writer's end waits for them
	coming  chan error     // of the connection that is being set up, whose outcome nobody has read; nil if none
	failure error          // why the last one did not come up; nil if it did
	waits   atomic.Bool    // for a connection of a pool that has none left; CloseRound reads it

	pinned   *redis.Conn // nil if none
	pipeline redis.Pipeliner
	idler    *time.Timer
	lastUse  clock.Instant // of the pinned one
	pinnedAt clock.Instant // it was taken from its pool
	proven   clock.Instant // when the node was last seen to be the one verified, on this connection; 0 if not yet
}

// init sets it up for this client; nothing is pinned yet. A client that is not go-redis's own
// type can not be given a timeout, nor be asked for its pool: it is used as it is.
func (c *connection) init(client redis.UniversalClient, timeout time.Duration, t *clock.Clock, busy func() bool) {
	c.clock, c.timeout, c.busy, c.calls, c.dials = t, timeout, busy, client, client
	own, ok := client.(*redis.Client)
	if !ok {
		c.other = new(other)
		return
	}
	// A pool of one connection is not kept: the program, or a look, would never get it. Such a
	// client sends each flush over its pool.
	bounded, dials, o := own.WithTimeout(timeout), own.WithTimeout(DialShare*timeout), own.Options()
	dials.Options().ContextTimeoutEnabled = true // of this copy alone
	c.calls, c.dials, c.keeps = bounded, dials, o.PoolSize > 1 && o.MaxActiveConns != 1
	if o.MaxActiveConns > 0 {
		// Half the node timeout: a command that waits in vain for a connection fails while its
		// round is still open, and is known not to have been sent.
		c.gate = &turnstile{longest: timeout / 2, clock: t}
	}
	for _, client := range []*redis.Client{bounded, dials} {
		client.AddHook(careful{})
		if c.gate != nil {
			client.AddHook(c.gate)
		}
	}
	c.pins = pinnable(bounded, timeout)
}

// load loads the keeping scripts over any connection. The voting scripts go over the
// connection that will vote, and nowhere else (LoadVoting): that they are missing is how a
// server that restarted shows it.
func (c *connection) load(scripts []*lua.Script) error {
	c.unpin() // the pool may have no other connection
	_, err := c.calls.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		for _, s := range scripts {
			p.ScriptLoad(context.Background(), s.Body)
		}
		return nil
	})
	return err
}

// exec sends the commands: by itself where there is one, otherwise in a
// pipeline. Each command keeps its own error. It is sent a second time only after
// errUndialled, which says that nothing was sent. It returns the first error.
func (c *connection) exec(cmds []redis.Cmder) error {
	w, sent := c.pin(), c.clock.Early()
	err := c.send(w, cmds)
	// Nothing was sent, and the pinned client may not dial by itself (pinnable). The client
	// dials for this flush; the next one finds its connection in the pool, to pin.
	if errors.Is(err, errUndialled) {
		c.unpin()
		for _, cmd := range cmds {
			cmd.SetErr(nil)
		}
		err = c.send(c.calls, cmds)
	}
	// go-redis keeps the error from the commands where a pinned connection was
	// bad before they were sent, and what made it bad was an error reply.
	for _, cmd := range cmds {
		if cmd.Err() == nil && !answered(cmd) {
			cmd.SetErr(fmt.Errorf("%w (%v)", ErrNoReply, err)) //nolint:errorlint // it is an earlier command's error
		}
	}
	if err == nil {
		c.trip = c.clock.Early().Sub(sent)
	}
	return err
}

// send sends the commands over w. It returns the first of their errors. The client's timeouts
// bound it, and no caller's context: a caller that goes away must not cut off a flush that
// carries the commands of others.
func (c *connection) send(w wire, cmds []redis.Cmder) error {
	ctx := context.Background()
	if len(cmds) == 1 && c.keeps { // else all goes through one pool, which was looked at
		return w.Process(ctx, cmds[0])
	}
	p := c.pipeline
	if p == nil {
		p = w.Pipeline()
	}
	_ = p.BatchProcess(ctx, cmds...) // queues only
	_, err := p.Exec(ctx)
	return err
}

// wire is what flushes go out on: a pinned connection, or a client.
type wire interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// pin returns the connection for the next flush. While there is traffic it is
// always the same one, which saves the pool's work and its look at the socket;
// after a pause, and every few seconds, the pool looks again whether the connection
// still lives. While the program uses up the pool (usedUp), it is not given back even so:
// the pool would give it to the program's next command, and a renewal would wait for it.
//
// A new connection is proven by nothing yet: its first flush looks at the node's identity.
func (c *connection) pin() wire {
	if !c.keeps {
		return c.calls
	}
	// The pool judges a pinned connection that goes back, and may give the same one out again.
	now := c.clock.Early()
	if c.pinned != nil && (now.Sub(c.lastUse) > unpinAfter || now.Sub(c.pinnedAt) > repinAfter) && !c.usedUp() {
		c.unpin()
	}
	if c.pinned == nil {
		c.pinned, c.pinnedAt, c.proven = c.pins.Conn(), now, 0
		c.pipeline = c.pinned.Pipeline()
	}
	c.lastUse = now
	return c.pinned
}

// unpin gives the connection back to its pool, which drops it if it failed. It comes before
// any command that goes over the client instead: the pool may have no other connection.
func (c *connection) unpin() {
	if c.pinned != nil {
		_ = c.pinned.Close() // always nil for a connection of a pool
		c.pinned, c.pipeline = nil, nil
	}
}

// rest blocks until one of the two is ready. A pinned connection is given back when
// that takes long: an idle Locker keeps none of its user's pool. A Locker that holds or waits
// keeps it: the program may use up its pool, and a renewal must not wait for that. It first
// asks after unpinAfter, then every repinAfter: a hold that ends wakes nobody here.
func (c *connection) rest(wake, stop <-chan struct{}) {
	if c.pinned != nil && c.idler == nil {
		c.idler = c.clock.NewTimer(unpinAfter)
	}
	for pause := unpinAfter; c.pinned != nil; pause = repinAfter {
		c.idler.Reset(pause)
		select {
		case <-wake:
			c.idler.Stop()
			return
		case <-stop:
			c.idler.Stop()
			return
		case <-c.idler.C:
			if !c.busy() {
				c.unpin()
			}
		}
	}
	select {
	case <-wake:
	case <-stop:
	}
}

// giveWay leaves the connection to commands that wait for one at the turnstile. The writer
// would take it again before they look, so it pauses for a few of their tries.
func (c *connection) giveWay() {
	if c.gate == nil || c.gate.waiting.Load() == 0 {
		return
	}
	c.unpin()
	c.gate.pause(context.Background(), turnGiven)
}

// usedUp tells whether all connections that the pool may have are in use. The pool's figures
// may be out of date by the next line: it decides what is tried first, and nothing else.
func (c *connection) usedUp() bool {
	if c.pins == nil {
		return false
	}
	o, s := c.pins.Options(), c.calls.PoolStats()
	most := o.PoolSize
	if o.MaxActiveConns > 0 {
		most = min(most, o.MaxActiveConns)
	}
	return s.IdleConns == 0 && int(s.TotalConns) >= most
}

// claim takes a connection for the next flush where the pool may have none left. A flush
// that waits in vain says nothing of the node, and its votes would be unknown, to be rolled
// back. So the cheapest command goes first, for three quarters of the node timeout at most:
// then the flush is known not to have been sent, while its rounds are still open.
func (c *connection) claim() error {
	if c.pinned != nil || !c.usedUp() {
		return nil
	}
	c.waits.Store(true)
	defer c.waits.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), 3*c.timeout/4) // the turnstile gives up before
	defer cancel()
	err := c.askOver(ctx, c.pin())
	if errors.Is(err, errUndialled) { // its flush goes another way
		return nil
	}
	if err != nil {
		c.unpin()
	}
	return err
}

// blame names the pool where a wait for one of its connections was in vain: go-redis returns
// the deadline alone, which reads as if the node had not answered.
func (c *connection) blame(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && c.usedUp() {
		return fmt.Errorf("%w (%v)", errNoConnection, err) //nolint:errorlint // it would read as no reply
	}
	return err
}

// A network may forget an idle connection, and tell neither end: a NAT, a firewall, a
// load balancer. A pool takes such a connection for a good one, since it looks at the
// socket only. What is sent on it is lost, and an attempt with it. So after a silence
// the writer asks for a reply first.

const (
	// trustIdle is how old a node's last reply may be before its connections are looked
	// at. A Locker that holds or waits asks four times as often (WatchEvery), and so does not
	// look. No network is known to forget sooner; one that locks less often pays a command and
	// a round trip.
	trustIdle = time.Second
	// A look at one idle connection gives way to a look at all, and at a new one, after
	// the firstLook-th part of the node timeout: several round trips, where nodes are near.
	// What is silent for the lastLook-th part (patience) is closed: a pool that is full of such
	// connections dials only then, and the rest of the node timeout is for that.
	firstLook, lastLook = 8, 3
)

// ready makes sure that the pool has a connection which is up, before anything of a flush is
// sent: one that has to come up may take longer than a round. After a silence, and after an
// outage (suspect), it looks at those that the pool has.
func (c *connection) ready(quiet, suspect bool) error {
	if quiet || suspect {
		c.unpin()
	}
	if c.pinned == nil && !c.usedUp() && (quiet || suspect || c.idle() == 0) {
		if err := c.look(); err != nil {
			return err
		}
	}
	return c.claim()
}

// look blocks until one of the pool's idle connections, or a new one, has brought a
// reply: the pool gives that one out next, to pin. It returns an error if none did in time.
func (c *connection) look() error {
	late := c.clock.NewTimer(c.timeout) // a round has as long again, for the flush
	defer late.Stop()
	if idle := c.idle(); idle > 0 {
		if err := c.survey(idle, late.C); err == nil || undialled(err) || errors.Is(err, round.ErrTimeout) {
			return err
		}
	}
	return c.await(late.C)
}

// patience bounds a look at an idle connection. A node that is far, or of which nothing is known
// yet, has up to a node timeout: a good connection must not be closed for its distance.
func (c *connection) patience() time.Duration {
	if c.trip == 0 {
		return c.timeout
	}
	return min(max(c.timeout/lastLook, 2*c.trip), c.timeout)
}

// survey looks at the idle connections, and at a new one. A look that is still out at its end
// ends by its own timeout, and closes its connection.
//
// It tries one connection first, so that a Locker which was idle for a while costs one
// command, and all at once when that one fails or is slow: networks forget connections
// together. A failure to dial says that the node is not there, so no more are tried.
func (c *connection) survey(idle int, late <-chan time.Time) error {
	ctx, end := context.WithCancel(context.Background())
	defer end() // so that none waits for a connection any more
	within := c.patience()
	c.trip = 0 // by its answer: a node that is farther by now must not lose good connections again
	answers, asked := make(chan error, idle+1), 1
	c.ask(ctx, within, answers)
	next := c.clock.NewTimer(c.timeout / firstLook)
	defer next.Stop()
	all := func() {
		for ; asked <= idle; asked++ { // the last one is dialled if the others are taken
			c.ask(ctx, within, answers)
		}
	}
	for failed := 0; ; {
		select {
		case err := <-answers:
			if err == nil {
				return nil
			}
			if failed++; failed > idle || undialled(err) {
				return err
			}
			all() // one that is dead is seldom alone
		case <-next.C:
			all()
		case <-late:
			c.raise() // what lay in the pool may not be up
			return round.ErrTimeout
		}
	}
}

// raise has the pool set up a connection, one at a time, and does not wait: the dial, TLS,
// HELLO, AUTH and INFO have DialShare node timeouts together, no matter the client's own.
func (c *connection) raise() {
	if c.coming != nil {
		return
	}
	coming := make(chan error, 1)
	c.coming = coming
	c.asking.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), DialShare*c.timeout)
		defer cancel()
		coming <- c.misdialled(c.askOver(ctx, c.dials))
	})
}

// await blocks until a new connection is up. One that is not when it is late goes on coming up,
// for a later flush.
func (c *connection) await(late <-chan time.Time) error {
	if len(c.coming) > 0 { // of an earlier flush: it may have been forgotten since
		c.failure, c.coming = <-c.coming, nil
	}
	c.raise()
	slow := c.clock.NewTimer(c.timeout / 3)
	defer slow.Stop()
	refused := make(chan error, 1)
	for {
		select {
		case c.failure = <-c.coming:
			c.coming = nil
			return c.failure
		case err := <-refused:
			return err
		case <-slow.C:
			if c.pins != nil && c.failure == nil {
				c.asking.Go(func() { c.dialApart(refused) })
			}
		case <-late:
			return cmp.Or(c.failure, errComing)
		}
	}
}

// dialApart finds out why a connection does not come up, for the message alone: the pool dials
// several times before it says. It waits for the rest of look's time at most.
func (c *connection) dialApart(refused chan<- error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout/4)
	defer cancel()
	o := c.pins.Options()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	switch {
	case err == nil:
		_ = conn.Close()
	case ctx.Err() == nil:
		refused <- err
	}
}

// misdialled puts before why a connection did not come up that one side speaks TLS alone, as far
// as that shows. A server without TLS waits for the end of the line that a handshake looks like
// to it: it is asked, since it is in nobody's way. One with TLS closes.
func (c *connection) misdialled(err error) error {
	var slow net.Error
	switch {
	case err == nil || c.pins == nil:
		return err
	case errors.Is(err, io.EOF) && c.pins.Options().TLSConfig == nil && !errors.Is(err, errWordless):
		return fmt.Errorf("%w: %w", errWordless, err)
	case !errors.As(err, &slow) || !slow.Timeout():
		return err
	case c.pins.Options().TLSConfig != nil:
		ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
		defer cancel()
		if what := Speaks(ctx, c.pins.Options()); what != nil {
			return fmt.Errorf("%w: %w", what, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrUnreached, err)
}

// idle is how many connections lie in the pool that flushes go out on. A client that pins
// nothing sends pipelines only, which may have a pool of their own.
func (c *connection) idle() int {
	s := c.calls.PoolStats()
	if !c.keeps && s.PipelineStats != nil {
		return int(s.PipelineStats.IdleConns)
	}
	return int(s.IdleConns)
}

// mayDial reports whether the next command may get a connection that is not set up: a new one,
// or one of those that the pool only dials ahead. Anyone may call it.
func (c *connection) mayDial() bool {
	ahead := 0
	if c.pins != nil {
		ahead = c.pins.Options().MinIdleConns
	}
	return c.idle() <= ahead
}

// ask looks at one connection of the pool, in a goroutine. answers has room for all of them:
// none blocks once look has returned.
func (c *connection) ask(ctx context.Context, within time.Duration, answers chan<- error) {
	c.asking.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		answers <- c.askOver(ctx, c.dials)
	})
}

// askOver sends the cheapest command, the way that flushes go. It returns nil if that
// brought a reply: an error reply too shows that the connection lives. So does errExchanged,
// which the flush meets again.
func (c *connection) askOver(ctx context.Context, w wire) error {
	var err error
	if cmd := (TimeCall{redis.NewTimeCmd(ctx, "TIME")}); c.keeps {
		err = w.Process(ctx, cmd)
	} else {
		_, err = w.Pipeline().Pipelined(ctx, func(p redis.Pipeliner) error { return p.Process(ctx, cmd) })
	}
	if IsReply(err) || errors.Is(err, errExchanged) { // which is seen again
		return nil
	}
	return err
}

// pinnable is the client to pin connections of. In go-redis 9.23, what Conn and Watch
// dial of a client with a StreamingCredentialsProvider panics: their connections lack
// the manager that listens for credentials. So of such a client only connections are
// pinned that it dialled itself, which are also authenticated again when the provider
// says so: what this copy, without the provider, would have to dial is errUndialled.
func pinnable(bounded *redis.Client, timeout time.Duration) *redis.Client {
	if bounded.Options().StreamingCredentialsProvider == nil {
		return bounded
	}
	pins := bounded.WithTimeout(timeout)
	o := pins.Options() // of this copy alone
	o.StreamingCredentialsProvider = nil
	o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "", errUndialled }
	return pins
}

// watch is Watch on the connections that may be pinned. Where the pool would have to dial one
// that only the client itself may dial (pinnable), it makes the client dial first, by any
// command, and runs f again, which has sent nothing, until ctx is done.
func (c *connection) watch(ctx context.Context, f func(*redis.Tx) error) error {
	for {
		err := c.pins.Watch(ctx, f)
		if !errors.Is(err, errUndialled) || ctx.Err() != nil {
			return err
		}
		if err := c.dials.Ping(ctx).Err(); err != nil && !IsReply(err) { // any command dials
			return err
		}
	}
}

// other is a client whose settings are not known.
type other struct {
	refused atomic.Pointer[error] // why it is not asked again; nil if it is
}

// watchOther is watch over a client whose settings are not known: the connection is
// judged before f, each time, since the client may connect elsewhere next time.
func (c *connection) watchOther(ctx context.Context, f func(*redis.Tx) error) error {
	if refused := c.other.refused.Load(); refused != nil {
		return *refused
	}
	err := c.calls.Watch(ctx, func(tx *redis.Tx) error {
		if err := c.other.judge(ctx, tx); err != nil {
			return err
		}
		return f(tx)
	})
	if err != nil && strings.Contains(err.Error(), "Watch requires at least one key") { // by which it would choose a server
		return fmt.Errorf("%w: it is %s", fault.ErrMisconfigured, notSeveral)
	}
	return err
}

// judge is judgeConnection, and makes an error of the panic that dialling may come to:
// where a client with a StreamingCredentialsProvider is inside, go-redis panics, and
// keeps what it took from the pool. It is not asked again, or its pool would be used up.
func (o *other) judge(ctx context.Context, tx *redis.Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the client panics where it dials for Watch (%v), as go-redis does inside a wrapper with a StreamingCredentialsProvider: "+
				"give the *redis.Client itself, or a CredentialsProviderContext", fault.ErrMisconfigured, p)
			o.refused.Store(&err)
		}
	}()
	return judgeConnection(ctx, tx)
}

// judgeConnection refuses a connection that is not to database 0 of one server. What the
// client was told to connect to stands in its words for itself; what a hook of it has
// selected since, the server says. Without the right to ask, nothing is known of that.
func judgeConnection(ctx context.Context, tx *redis.Tx) error {
	settings := tx.String() // Redis<ADDRESS db:NUMBER>
	if strings.HasPrefix(settings, "Redis<"+FailoverAddr+" ") {
		return fmt.Errorf("%w: it is %s", fault.ErrMisconfigured, NotSentinel)
	}
	info, err := tx.Do(ctx, "CLIENT", "INFO").Text()
	if err != nil && !IsReply(err) {
		return err
	}
	_, db, asked := strings.Cut(info, " db=")
	if !asked {
		_, db, _ = strings.Cut(settings, " db:")
	}
	if !strings.HasPrefix(db, "0") {
		return fmt.Errorf("%w: it is connected to another database than 0: %s", fault.ErrMisconfigured, NotDatabase)
	}
	return nil
}
