package redlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/nodeurl"
)

const (
	// maxNodes is how many nodes a Locker takes: a lock keeps one bit for each.
	maxNodes = 64
	// dialShare is how many node timeouts a connection may take to come up.
	dialShare = nodeurl.DialShare
)

// Open makes a Locker over clients of its own, one for each URL, which Close
// closes. A URL is redis://[user:password@]host[:port], rediss:// for TLS,
// unix://[user:password@]/path, or a bare host:port; always database 0. The clients never
// send a command twice, are bounded by the node timeout, and need no more than
// eight connections each. Every new connection asks the server for its run_id: an
// address that leads to another server than before is verified before it votes
// again, which New can't do for clients of the caller's.
//
// Open connects to every node and asks whether it votes, for at most four node
// timeouts, or until ctx is done. It succeeds while a quorum answers: the nodes
// that did not are told to WithObserver as NodeDown, and are tried again by
// every acquisition. Otherwise it returns a *QuorumError with ErrNoQuorum that
// names each node's fault, and keeps nothing open. One server under two addresses
// is ErrMisconfigured, whatever the others say. Faults of the arguments come
// joined, as ErrInvalidNode, ErrInvalidOption or ErrInvalidTTL, before anything
// is sent. A password appears in no error.
func Open(ctx context.Context, urls []string, opts ...Option) (*Locker, error) {
	cfg, err := buildConfig(len(urls), opts)
	if len(urls) == 0 {
		err = errors.Join(err, fmt.Errorf("%w: no URL given: a Locker needs at least one node", ErrInvalidNode))
	}
	options := make([]*redis.Options, len(urls))
	for i, u := range urls {
		o, parseErr := nodeurl.Parse(u)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("%w: URL %d: %w", ErrInvalidNode, i, parseErr))
		}
		options[i] = o
	}
	if err != nil {
		return nil, err
	}
	clients := make([]redis.UniversalClient, len(urls))
	own := make([]io.Closer, len(urls))
	doors := make([]*doorkeeper, len(urls))
	for i, o := range options {
		nodeurl.Harden(o, cfg.nodeTimeout)
		if !cfg.unprotected {
			doors[i] = guard(o)
		}
		c := redis.NewClient(o)
		clients[i], own[i] = c, c
	}
	l, err := New(clients, opts...)
	if err != nil {
		return nil, errors.Join(err, closeAll(own))
	}
	l.own = own
	for i, n := range l.nodes {
		n.door = doors[i] // before anything is sent
	}
	if err := l.warmUp(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// warmUp asks every node whether it votes, and those that do not answer again,
// until all have answered or its bound has passed.
func (l *Locker) warmUp(ctx context.Context) error {
	until := l.clock.now().add(dialShare * l.cfg.nodeTimeout)
	for met := false; ; {
		r, err := l.probe(ctx, max(until.sub(l.clock.now()), 0))
		if err != nil {
			return fmt.Errorf("redlock: open: %w", err)
		}
		answered := 0
		for i, v := range r.votes {
			switch {
			case r.causes != nil && errors.Is(r.causes[i], errTwice):
				return fmt.Errorf("redlock: open: %w", r.causes[i])
			case v.outcome == Granted || v.outcome == Abstained:
				answered++
			}
		}
		met = met || answered >= l.quorum // the last round may have had no time to be sent
		late := l.clock.now() >= until
		if answered == len(r.votes) || met && late {
			return nil
		}
		failed := quorumError("open", "nodes", ErrNoQuorum, nil, l.nodes, r.votes, r.causes)
		if late || failed.hopeless() {
			return failed
		}
		if err := l.wait(ctx, firstBackoff); err != nil {
			return fmt.Errorf("redlock: open: %w", errors.Join(err, failed))
		}
	}
}

// probe makes one round of all nodes that asks whether they answer, and vote.
func (l *Locker) probe(ctx context.Context, limit time.Duration) (*round, error) {
	w := l.waiters.Get().(*waiter).ready()
	defer l.waiters.Put(w)
	r := newRound(&claim{marks: make([]mark, len(l.nodes))}, len(l.nodes), l.clock.now(), w)
	for _, n := range l.nodes {
		n.submitProbe(r)
	}
	_, err := r.await(ctx, l.clock, limit, func(votes []vote) stage {
		if count(votes).pending == 0 {
			return finished
		}
		return open
	}, nil)
	r.close(l.nodes, false)
	return r, err
}

func closeAll(cs []io.Closer) error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// checkNodes refuses what can't be a node, and names the rest.
func checkNodes(nodes []redis.UniversalClient, given []string) ([]string, error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: no client given: a Locker needs at least one node", ErrInvalidNode)
	}
	if len(nodes) > maxNodes {
		return nil, fmt.Errorf("%w: %d clients given: a Locker takes at most %d nodes", ErrInvalidNode, len(nodes), maxNodes)
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
		if names[i] == "" || len(names[i]) > maxNodeName || !isText(names[i]) || strings.ContainsAny(names[i], " ,\r\n\t") {
			errs = append(errs, fmt.Errorf("%w: node %d: a name is 1 to %d bytes of printable text without blanks and commas: see WithNodeNames", ErrInvalidNode, i, maxNodeName))
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
	case *redis.Client:
		if db := c.Options().DB; db != 0 {
			return fallback, fmt.Errorf("%w: node %d uses database %d: all databases of a server share its scripts, whose absence keeps a restarted server from voting: use database 0, and WithPrefix to keep names apart", ErrInvalidNode, i, db)
		}
		if c.Options().Addr == "FailoverClient" {
			return fallback, fmt.Errorf("%w: node %d is a Sentinel client: after a failover the node would be another server, which may lack the keys", ErrInvalidNode, i)
		}
		return c.Options().Addr, nil
	default:
		return fallback, nil
	}
}
