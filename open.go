package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// slowStart is how long Open waits for a quorum of nodes that are slow to
// answer. A first connection, and the first look at a node, take many round
// trips on a machine that has just begun to do everything at once.
const slowStart = 3 * time.Second

// Open makes a Locker over clients of its own, one for each URL, which Close
// closes. A URL is redis://[user:password@]host[:port], rediss:// for TLS,
// unix://[user:password@]/path, or a bare host:port; always database 0. The clients never
// send a command twice, are bounded by the node timeout, and need no more than
// eight connections each. Every new connection asks the server for its run_id: an
// address that leads to another server than before is verified before it votes
// again, which New can't do for clients of the caller's.
//
// Open connects to every node and asks whether it votes, for at most four node
// timeouts, or until ctx is done; nodes that are slow, and that a quorum depends
// on, get three seconds. It succeeds while a quorum answers, also one whose list of nodes
// lacks one of these, or has one more, as Cluster.Change wants it: the nodes
// that did not are told to WithObserver as EventNodeDown, and are tried again by
// every acquisition. Otherwise it returns a *QuorumError with ErrNoQuorum that
// names each node's fault, and keeps nothing open. One server under two addresses
// is ErrMisconfigured, also where the others form a quorum. Faults of the arguments come
// joined, as ErrInvalidNode, ErrInvalidOption or ErrInvalidTTL, before anything
// is sent. A password appears in no error.
func Open(ctx context.Context, urls []string, opts ...Option) (*Locker, error) {
	cfg, err := buildConfig(len(urls), opts)
	if len(urls) == 0 {
		err = errors.Join(err, fmt.Errorf("%w: no URL given: a Locker needs at least one node", ErrInvalidNode))
	}
	options := make([]*redis.Options, len(urls))
	for i, u := range urls {
		o, parseErr := node.ParseURL(u)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("%w: URL %d: %w", ErrInvalidNode, i, parseErr))
		}
		options[i] = o
	}
	err = errors.Join(err, secure(options, cfg.tls), identify(options, &cfg))
	if err != nil {
		return nil, fault.Errorf("redlock: %w", err)
	}
	clients := make([]redis.UniversalClient, len(urls))
	own := make([]io.Closer, len(urls))
	servers := make([]*node.ServerIdentity, len(urls))
	for i, o := range options {
		node.Harden(o, cfg.nodeTimeout)
		node.Identify(o, cfg.credentials)
		node.Listen(o)
		if !cfg.unprotected {
			servers[i] = node.Guard(o)
		}
		c := redis.NewClient(o)
		clients[i], own[i] = c, c
	}
	l, err := newLocker(clients, cfg, nil)
	if err != nil {
		return nil, errors.Join(err, closeAll(own))
	}
	l.own = own
	for i, n := range l.nodes {
		n.Server = servers[i] // before anything is sent
	}
	if err := l.warmUp(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// secure gives the clients that speak TLS their settings.
func secure(options []*redis.Options, c *tls.Config) error {
	if c == nil {
		return nil
	}
	used := false
	for _, o := range options {
		if o == nil || o.TLSConfig == nil {
			continue
		}
		used = true
		host := o.TLSConfig.ServerName
		if o.TLSConfig = c.Clone(); o.TLSConfig.ServerName == "" {
			o.TLSConfig.ServerName = host
		}
	}
	if !used {
		return fmt.Errorf("%w: WithTLS, and no URL is rediss://", ErrInvalidOption)
	}
	return nil
}

// identify checks that credentials come from one side.
func identify(options []*redis.Options, cfg *config) error {
	var errs []error
	for i, o := range options {
		if cfg.provided && o != nil && (o.Username != "" || o.Password != "") {
			errs = append(errs, fmt.Errorf("%w: WithCredentials, and URL %d has a user or a password: give one of the two", ErrInvalidOption, i))
		}
	}
	return errors.Join(errs...)
}

// warmUp asks every node whether it votes, and those that do not answer again,
// until all have answered or its bound has passed. Where it takes the nodes that
// are slow to make a quorum, it waits longer for them.
func (l *Locker) warmUp(ctx context.Context) error {
	began := l.clock.Now()
	until := began.Add(node.DialShare * l.cfg.nodeTimeout)
	longest := began.Add(max(node.DialShare*l.cfg.nodeTimeout, slowStart))
	causes := make([]error, len(l.nodes)) // the last that each node gave itself
	for met := false; ; {
		bound := until
		if !met && l.clock.Now() >= until {
			bound = longest
		}
		r, stopped := l.probe(ctx, max(bound.Sub(l.clock.Now()), 0))
		answered, slow := 0, 0
		list := l.tracker.List()
		for i, v := range r.Votes {
			cause := r.Cause(i)
			switch {
			case !list.Has(i):
			case errors.Is(cause, node.ErrDuplicateServer):
				return fault.Errorf("redlock: open: %w", cause)
			case v.Outcome == quorum.Granted || v.Outcome == quorum.Abstained:
				answered++
			case isSlow(cause):
				slow++
			}
			if causes[i] == nil || !errors.Is(cause, round.ErrNotSent) {
				causes[i] = cause
			}
		}
		met = met || answered >= l.quorum() // the last round may have had no time to be sent
		now := l.clock.Now()
		if answered == len(list.Indexes(len(r.Votes))) || met && now >= until {
			return nil
		}
		failed := quorumError("open", "nodes", ErrNoQuorum, nil, l.names, r.Votes, unreached(causes, now.Sub(began)))
		late := now >= until && (now >= longest || answered+slow < l.quorum())
		hopeless := fault.Hopeless(len(causes), l.quorum(), func(i int) error {
			if errors.Is(failed.Nodes[i].Err, membership.ErrNextList) {
				return nil // Cluster.Change wants this client, and mends it
			}
			return failed.Nodes[i].Err
		})
		if stopped == nil && (late || hopeless) {
			return failed
		}
		if stopped == nil {
			stopped = l.acquirer.Wait(ctx, node.FirstBackoff)
		}
		if stopped != nil {
			return fault.Errorf("redlock: open: %w", errors.Join(stopped, failed))
		}
	}
}

// isSlow tells a node that has not answered yet from one that refuses.
func isSlow(cause error) bool {
	return errors.Is(cause, round.ErrNotSent) || errors.Is(cause, round.ErrTimeout) || errors.Is(cause, node.ErrUnreached)
}

// unreached puts the cause of nodes that gave none into words: what was asked of
// them waited for a connection, or for the first command's reply.
func unreached(causes []error, within time.Duration) []error {
	told := slices.Clone(causes)
	for i, cause := range told {
		if errors.Is(cause, round.ErrNotSent) || errors.Is(cause, node.ErrUnreached) {
			told[i] = fmt.Errorf("%w: nothing came of it within %v", node.ErrUnreached, within.Round(time.Millisecond))
		}
	}
	return told
}

// probe makes one round of all nodes that asks whether they answer, and vote.
func (l *Locker) probe(ctx context.Context, limit time.Duration) (*round.Round, error) {
	w := l.sleepers.Get()
	defer l.sleepers.Put(w)
	r := round.New(&round.Claim{Marks: make([]quorum.Mark, len(l.nodes))}, len(l.nodes), l.clock.Now(), w)
	for _, n := range l.nodes {
		n.SubmitProbe(r)
	}
	_, err := r.Await(ctx, l.clock, limit, func(votes []quorum.Vote) round.Stage {
		for _, i := range l.tracker.List().Indexes(len(votes)) {
			if votes[i].Outcome == quorum.Pending {
				return round.Open
			}
		}
		return round.Finished
	}, nil)
	node.CloseRound(l.nodes, r, false)
	return r, err
}

func closeAll(cs []io.Closer) error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
