package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/chance"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
)

// Defaults, each with its reason.
const (
	// DefaultTTL is long beside a garbage collection or a network blip, and short
	// beside an operator's patience when a holder dies.
	DefaultTTL = 10 * time.Second
	// DefaultMaxTTL is the longest lease that anyone may take in a cluster, and so
	// what a node that forgot waits before it votes again.
	DefaultMaxTTL = 30 * time.Second
	// DefaultNodeTimeout is two orders above a round trip in one region, and small
	// beside the TTL. It is never more than a quarter of the TTL.
	DefaultNodeTimeout = 250 * time.Millisecond
	// DefaultDriftFactor is the share of a lease by which a node's clock may run
	// fast against ours: one per cent, as on the Redis page, is a hundred times
	// what a machine with NTP shows.
	DefaultDriftFactor = 0.01
	// DefaultRetryMin and DefaultRetryMax bound the pause between two attempts,
	// drawn at random so that contenders which split the vote part.
	DefaultRetryMin = 50 * time.Millisecond
	DefaultRetryMax = 250 * time.Millisecond
	// DefaultCloseTimeout bounds Close.
	DefaultCloseTimeout = 2 * time.Second
	// DefaultTurns is how many holds in a row the goroutines of one Locker have
	// before other processes have their turn: one round trip for each but the
	// last. More gains little, and delays the others.
	DefaultTurns = 8

	// MaxResourceLength is the longest name of a resource, in bytes, prefix
	// included: it travels with every command.
	MaxResourceLength = 4096

	maxLabel = 256
)

// Option configures a Locker.
type Option interface{ applyLocker(c *config) }

// AcquireOption configures one acquisition.
type AcquireOption interface{ applyAcquire(t *terms) }

// LockOption configures a Locker's locks when given to New or Open, and one lock
// when given to an acquisition.
type LockOption interface {
	Option
	AcquireOption
}

// terms are what one acquisition is made on.
type terms struct {
	ttl     time.Duration
	fixed   bool
	maxHold time.Duration // 0: no bound
	minHold time.Duration // 0 if none
	wait    time.Duration // 0: no bound
	barging bool
	reentry bool
	shared  bool
	limited bool
	limit   int // with limited: how many may hold the name
	value   string
	label   string // the value, as it stands in the owner value, behind the mark of revocable

	revocable bool
	leads     bool // by Campaign
	call      call
}

// call is how far the call has come that the terms are of: for its events.
type call struct {
	began  clock.Instant
	failed int // attempts
	turn   Turn
}

// config is what a Locker is made of.
type config struct {
	terms
	maxTTL       time.Duration
	nodeTimeout  time.Duration // 0: the default, from the TTL
	capped       bool          // the node timeout is the default
	drift        float64
	retryMin     time.Duration
	retryMax     time.Duration
	closeTimeout time.Duration
	turns        int
	prefix       string
	holder       string
	process      string // the id under which the Locker waits, and is asked for holds
	names        []string
	observers    []func(Event)
	lastWords    []func() // called once the observers were told of all
	chance       *chance.Source
	tls          *tls.Config // of Open's rediss:// clients; nil: the system's certificates
	provided     bool        // WithCredentials was given
	credentials  func(ctx context.Context) (username, password string, err error)
	trustClocks  bool

	strictRecovery bool
	cluster        string // that it is pinned to; empty: to any
	unprotected    bool   // without membership
}

func defaultConfig() config {
	return config{
		terms:        terms{ttl: DefaultTTL},
		maxTTL:       DefaultMaxTTL,
		drift:        DefaultDriftFactor,
		retryMin:     DefaultRetryMin,
		retryMax:     DefaultRetryMax,
		closeTimeout: DefaultCloseTimeout,
		turns:        DefaultTurns,
	}
}

type lockerOption func(*config)

func (o lockerOption) applyLocker(c *config) { o(c) }

type acquireOption func(*terms)

func (o acquireOption) applyAcquire(t *terms) { o(t) }

// Several names an option by which several may hold one name; "": another one. Package
// adapters asks for it where a name must have one holder.
func (o acquireOption) Several() string {
	var t terms
	switch o(&t); {
	case t.shared:
		return "WithShared"
	case t.limited:
		return "WithLimit"
	}
	return ""
}

type lockOption func(*terms)

func (o lockOption) applyLocker(c *config) { o(&c.terms) }

func (o lockOption) applyAcquire(t *terms) { o(t) }

// WithTTL sets the lease: how long the nodes keep a lock that is not renewed. The default
// is DefaultTTL, 10s. It must be at least 10 ms, above a node timeout that was given, and
// at most WithMaxTTL; otherwise it is ErrInvalidTTL. Above the cluster's MaxTTL no node votes:
// ErrMisconfigured.
func WithTTL(d time.Duration) LockOption { return lockOption(func(t *terms) { t.ttl = d }) }

// WithFixedLease switches renewal off: the lock ends with its first lease,
// unless Extend is called.
func WithFixedLease() LockOption { return lockOption(func(t *terms) { t.fixed = true }) }

// WithReentry lets a hold be entered again. An acquire under a context that
// carries a hold of the same name, taken through the same Locker, returns at once
// with a handle of its own on that hold, whose token it has, and sends nothing. A
// context carries a hold if it comes from the lock's Context, or from what Do gave
// to its function. Both acquisitions must be made with this option: a hold made
// without it is never shared, and an acquire without it waits, for itself too.
//
// Each handle is released once. Its Context ends then, and the hold goes on; the
// release of the last one, in any order, ends the hold and is the only one
// that is sent. A loss, the end of WithMaxHold and Close end all of them. TTL,
// renewal and WithMaxHold are the hold's, those of its first acquire; Extend is
// for all.
//
// An acquire under a context whose hold was lost, or held for its maximum, is
// ErrNotHeld joined with that cause, also where the context itself goes on
// (context.WithoutCancel). A fresh hold would let the inner part go on in the
// middle of an outer one that is broken. After the last release it is an acquire
// like any other.
//
// Goroutines that share the context are not excluded from one another: all that are
// given it stand inside the hold. Redisson's lock belongs to a thread instead: it
// excludes the threads that its holder starts, can't be handed to them, and asks
// the server on each entry. Goroutines have no identity to which a lock could
// belong, and work goes from one to another; so what is written down, the context,
// decides here.
func WithReentry() LockOption { return lockOption(func(t *terms) { t.reentry = true }) }

// WithMaxHold bounds how long a lock is held, renewals included: after d it is
// released and its context ends with ErrMaxHold. It catches a lock that was
// forgotten. So it is released under a function of Do, TryDo, DoAll or Campaign that still runs,
// which may meet the next holder. Zero means no bound.
func WithMaxHold(d time.Duration) LockOption { return lockOption(func(t *terms) { t.maxHold = d }) }

// WithWait bounds how long Acquire waits: after d it fails as if its context had
// ended then, with context.DeadlineExceeded joined with what the nodes last said.
// Zero means no bound but the context. TryAcquire and TryDo never wait.
func WithWait(d time.Duration) LockOption { return lockOption(func(t *terms) { t.wait = d }) }

// WithBarging takes the lock past those who wait for it, if it is free: for an
// operator's tool, or a task that must not queue. With it, Acquire does not queue
// either, but tries again after a random pause, and may starve.
func WithBarging() AcquireOption { return acquireOption(func(t *terms) { t.barging = true }) }

// WithValue publishes v with the hold: it stands in the owner value, behind the label of
// WithHolder, for as long as the hold lasts. Observe yields it, and Inspect and redis-cli
// show it, so it is no place for a secret. It is printable text, with the label at most
// 256 bytes long. It can't be changed: what changes belongs into the data, under the
// token. It decides nothing.
func WithValue(v string) AcquireOption { return acquireOption(func(t *terms) { t.value = v }) }

// WithTurns sets how many times in a row the goroutines of this Locker may have
// the lock on a name before other processes have their turn, at least 1. Within a
// turn the lock goes from one goroutine to the next in one round trip. The default is
// DefaultTurns, 8. 1 is strict: after each hold, the one that has waited longest in any
// process (docs/PERFORMANCE.md has what that costs).
func WithTurns(k int) Option { return lockerOption(func(c *config) { c.turns = k }) }

// WithMaxTTL sets the longest lease that this client takes, from 10 ms to a day, and the
// MaxTTL of a cluster that it founds. The default is DefaultMaxTTL, 30s. A cluster that is there has
// its own, in the nodes' records: a longer lease gets ErrMisconfigured there, until
// Cluster.Change has raised it. Every node that restarts waits so long before it votes again. Do
// not give less than the cluster's: where all records are lost, who founds anew waits its own.
func WithMaxTTL(d time.Duration) Option { return lockerOption(func(c *config) { c.maxTTL = d }) }

// WithNodeTimeout bounds how long each node may take to answer a command, from its sending to
// the reply. A command is sent once those before it are answered, and waits for that as long
// again at most: a round of commands to all nodes ends within two node timeouts. A reply that
// comes later is no vote, and no command goes to that node until it answers a probe.
//
// It must be below the TTL; the default is the smaller of DefaultNodeTimeout, 250ms, and a
// quarter of the TTL, of the lock's own as well where an acquisition takes a shorter one.
func WithNodeTimeout(d time.Duration) Option {
	return lockerOption(func(c *config) {
		c.nodeTimeout = d
		if d == 0 {
			c.nodeTimeout = -1 // an explicit zero is refused, not taken for the default
		}
	})
}

// WithRetry sets the bounds of the random pause between two attempts of Acquire where
// nothing is known to wait for: no quorum answered, or another program holds the lock.
// Both are positive, the smaller first. The defaults are DefaultRetryMin, 50ms, and
// DefaultRetryMax, 250ms. Equal bounds let contenders that split the vote split it again.
func WithRetry(least, most time.Duration) Option {
	return lockerOption(func(c *config) { c.retryMin, c.retryMax = least, most })
}

// WithCloseTimeout bounds Close, and so how long functions of Do, TryDo, DoAll and Campaign may take
// to return while their locks stay held: give more than they need, and two node timeouts. It
// must be positive. The default is DefaultCloseTimeout, 2s.
func WithCloseTimeout(d time.Duration) Option {
	return lockerOption(func(c *config) { c.closeTimeout = d })
}

// WithPrefix is put before every resource's name to make its key. Clients exclude
// each other only with the same prefix. The key has at most MaxResourceLength
// bytes, and may not begin with "redlock:".
func WithPrefix(prefix string) Option { return lockerOption(func(c *config) { c.prefix = prefix }) }

// WithHolder puts a label and a slash before the random part of every owner value, so that
// Inspect and redis-cli show who holds a lock: at most 256 bytes of printable text. Observe
// yields it without the slash. It decides nothing; two Lockers may have the same.
func WithHolder(label string) Option { return lockerOption(func(c *config) { c.holder = label }) }

// WithNodeNames names the nodes, in the order given to New or Open. A node's
// name is its address unless this option says otherwise (127.0.0.1 for localhost): use
// it where clients see the same node under different addresses, and for in-memory dialers.
// Give one for each node, no two alike; the same ones to all clients: one who names a node
// otherwise gets ErrMisconfigured.
func WithNodeNames(names ...string) Option {
	return lockerOption(func(c *config) { c.names = append([]string{}, names...) })
}

// WithTLS is how Open's rediss:// clients speak TLS: whose certificates they trust
// (RootCAs), and what they show of their own. It is copied; a ServerName that is
// empty is each URL's host. Without it, the system's certificates decide. It is
// ErrInvalidOption where no URL is rediss://, and with New, whose clients have
// settings of their own.
func WithTLS(c *tls.Config) Option { return lockerOption(func(l *config) { l.tls = c }) }

// WithCredentials asks the provider for a user and password each time that one of Open's
// clients dials: for credentials that change, as those that cloud services hand out. An
// open connection keeps those that it has. The user is "" for the server's default one. An
// error keeps the connection from being made. The provider is called by several goroutines
// at once, and must return soon after ctx is done.
//
// If the server takes the new credentials before the provider returns them, and the old
// ones until then, nobody is refused. Otherwise an attempt may be ErrMisconfigured
// meanwhile. It is ErrInvalidOption where the provider is nil or a URL has a user or a
// password, and with New, whose clients may have a CredentialsProviderContext.
func WithCredentials(provider func(ctx context.Context) (username, password string, err error)) Option {
	return lockerOption(func(c *config) { c.credentials, c.provided = provider, true })
}

// WithStrictRecovery leaves it to an operator (Cluster.Admit) to found a cluster
// and to recover one whose majority lost its memory. Without it, both happen by
// themselves, MaxTTL after every node has answered, and tokens then lean on the
// clocks once.
//
// A cluster that is founded with it has it in the nodes' records, and Cluster.Change sets it
// there and takes it away. While one such record is left, or a blank node has a claim of a client
// that saw one, no client founds the cluster anew by itself, with or without the option. A Locker with it takes no lock in a cluster
// without: its calls return ErrMisconfigured.
//
// Where neither is left, on any node, nothing says it any more: a client without
// the option then founds a new cluster, in which those with it take no lock.
func WithStrictRecovery() Option { return lockerOption(func(c *config) { c.strictRecovery = true }) }

// WithCluster pins this client to the cluster with this id, which ClusterStatus.ID (redlock nodes)
// tells: it counts no other's votes, and founds none. So a client with an old list can't found a
// cluster on nodes that restarted empty. Where the pinned cluster is gone its calls return
// ErrMisconfigured. Without the option any cluster of the list counts.
func WithCluster(id string) Option { return lockerOption(func(c *config) { c.cluster = id }) }

// WithoutMembership lets every server vote that answers, also one that has just
// lost its memory: a second holder is possible after a restart. It is for
// experiments that show what membership is worth, and for servers whose ACL
// denies INFO to scripts. One server under two addresses is not noticed then. All
// clients of the nodes must agree on it.
func WithoutMembership() Option { return lockerOption(func(c *config) { c.unprotected = true }) }

// buildConfig applies the options and returns all their faults, joined.
func buildConfig(nodes int, opts []Option) (config, error) {
	c := defaultConfig()
	for i, o := range opts {
		if o == nil {
			return c, fmt.Errorf("%w: option %d is nil", ErrInvalidOption, i)
		}
		o.applyLocker(&c)
	}
	err := c.validate(nodes)
	if c.nodeTimeout == 0 {
		c.nodeTimeout, c.capped = min(DefaultNodeTimeout, c.ttl/4), true
	}
	return c, err
}

// bound is how long a round for a lock of this TTL waits for the nodes: one node timeout for
// the flush before its own, and one for the reply. The default node timeout is never more
// than a quarter of the lock's own TTL.
func (c *config) bound(ttl time.Duration) time.Duration {
	if !c.capped {
		return 2 * c.nodeTimeout
	}
	return 2 * min(c.nodeTimeout, ttl/4)
}

// workTimeout is how long Close waits for functions: what it needs then for releases is left.
func (c *config) workTimeout() time.Duration {
	return c.closeTimeout - min(2*c.nodeTimeout, c.closeTimeout/2)
}

func (c *config) validate(nodes int) error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalidOption}, args...)...))
		}
	}
	wrong(c.maxTTL < clock.MinTTL || c.maxTTL > clock.MaxMaxTTL, "WithMaxTTL %v: give %v to %v", c.maxTTL, clock.MinTTL, clock.MaxMaxTTL)
	wrong(c.nodeTimeout < 0, "WithNodeTimeout: give a positive duration, below the TTL of %v", c.ttl)
	wrong(c.nodeTimeout >= c.ttl && c.ttl > 0, "WithNodeTimeout %v is not below WithTTL %v", c.nodeTimeout, c.ttl)
	wrong(!(c.drift >= 0 && c.drift <= clock.MaxDriftFactor), "WithDriftFactor %v: give 0 to %v", c.drift, clock.MaxDriftFactor)
	wrong(c.retryMin <= 0 || c.retryMax < c.retryMin, "WithRetry %v to %v: give positive bounds, the smaller first", c.retryMin, c.retryMax)
	wrong(c.closeTimeout <= 0, "WithCloseTimeout %v: give a positive duration", c.closeTimeout)
	wrong(c.provided && c.credentials == nil, "WithCredentials: give a function")
	wrong(c.turns < 1, "WithTurns %d: give at least 1", c.turns)
	wrong(len(c.holder) > maxLabel || !fault.IsText(c.holder), "WithHolder: give at most %d bytes of printable text", maxLabel)
	wrong(len(c.prefix) >= MaxResourceLength, "WithPrefix: give less than %d bytes", MaxResourceLength)
	wrong(c.cluster != "" && c.unprotected, "WithCluster: WithoutMembership knows no cluster: give one of them")
	wrong(len(c.cluster) > membership.MaxNodeName || !fault.IsText(c.cluster), "WithCluster: give the id that redlock nodes shows")
	if c.names != nil {
		wrong(len(c.names) != nodes, "WithNodeNames gives %d names for %d nodes", len(c.names), nodes)
	}
	if err := c.terms.validate(c); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// with are the terms of one acquisition that gives options of its own.
func (c *config) with(opts []AcquireOption) (terms, error) {
	t := c.terms
	for i, o := range opts {
		if o == nil {
			return t, fmt.Errorf("%w: option %d is nil", ErrInvalidOption, i)
		}
		o.applyAcquire(&t)
	}
	t.label = lua.ValueLabel(t.value)
	if t.revocable {
		t.label = lua.RevocationMark(c.process) + t.label
	}
	return t, t.validate(c)
}

// validate checks the terms of one acquisition against the Locker's.
func (t *terms) validate(c *config) error {
	switch {
	case t.ttl < clock.MinTTL:
		return fmt.Errorf("%w: WithTTL %v: give at least %v", ErrInvalidTTL, t.ttl, clock.MinTTL)
	case t.ttl > c.maxTTL:
		return fmt.Errorf("%w: WithTTL %v is above WithMaxTTL %v: take less, or raise it", ErrInvalidTTL, t.ttl, c.maxTTL)
	case !c.capped && c.nodeTimeout > 0 && t.ttl <= c.nodeTimeout:
		return fmt.Errorf("%w: WithTTL %v is not above the node timeout %v: take more, or lower WithNodeTimeout", ErrInvalidTTL, t.ttl, c.nodeTimeout)
	case t.ttl <= clock.Drift(t.ttl, c.drift):
		return fmt.Errorf("%w: WithTTL %v leaves no validity after %v for drift", ErrInvalidTTL, t.ttl, clock.Drift(t.ttl, c.drift))
	case t.wait < 0:
		return fmt.Errorf("%w: WithWait %v: give a positive duration, or 0 for no bound", ErrInvalidOption, t.wait)
	case t.value != "" && len(c.holder)+len(t.value) > maxLabel:
		return fmt.Errorf("%w: WithValue: give at most %d bytes: it has %d, and WithHolder's label %d", ErrInvalidOption, maxLabel, len(t.value), len(c.holder))
	case !fault.IsText(t.value):
		return fmt.Errorf("%w: WithValue: give printable text", ErrInvalidOption)
	case t.maxHold < 0:
		return fmt.Errorf("%w: WithMaxHold %v: give a positive duration, or 0 for no bound", ErrInvalidOption, t.maxHold)
	}
	if err := t.checkMinHold(c); err != nil {
		return err
	}
	return t.validateLimit()
}

// validateLimit checks what WithLimit was given, and what else.
func (t *terms) validateLimit() error {
	switch {
	case !t.limited:
		return nil
	case t.limit < 1 || t.limit > lua.MaxSlots:
		return fmt.Errorf("%w: WithLimit %d: give 1 to %d", ErrInvalidOption, t.limit, lua.MaxSlots)
	case t.shared:
		return fmt.Errorf("%w: WithLimit and WithShared exclude each other: a slot is held alone", ErrInvalidOption)
	case t.reentry:
		return fmt.Errorf("%w: WithLimit and WithReentry exclude each other: leave WithReentry out, here or where the Locker was made, and pass the Lock on", ErrInvalidOption)
	}
	return nil
}

// checkLimit checks whether the keys of the slots fit.
func (t *terms) checkLimit(key string) error {
	if t.limited && len(key)+lua.LongestSlot > MaxResourceLength {
		return fmt.Errorf("%w: WithLimit: the name, prefix included, is longer than %d bytes", ErrInvalidResource, MaxResourceLength-lua.LongestSlot)
	}
	return nil
}

// checkMinHold checks WithMinHold against the other terms.
func (t *terms) checkMinHold(c *config) error {
	switch lease := t.ttl - clock.Drift(t.ttl, c.drift); {
	case t.minHold < 0:
		return fmt.Errorf("%w: WithMinHold: give a positive duration", ErrInvalidOption)
	case t.maxHold > 0 && t.minHold > t.maxHold:
		return fmt.Errorf("%w: WithMinHold %v is above WithMaxHold %v: take less, or raise WithMaxHold", ErrInvalidOption, t.minHold, t.maxHold)
	case t.fixed && t.minHold > lease:
		return fmt.Errorf("%w: WithMinHold %v is above the %v for which WithFixedLease holds: take less, a longer WithTTL, or a lease that is renewed", ErrInvalidOption, t.minHold, lease)
	}
	return nil
}

// releasedByHand refuses WithMinHold where the caller releases, and not Do.
func (t *terms) releasedByHand() error {
	if t.minHold == 0 {
		return nil
	}
	return fmt.Errorf("%w: WithMinHold is for Do, TryDo and DoAll: Release ends a hold at once", ErrInvalidOption)
}
