package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Inspection is what the nodes say of one resource.
type Inspection struct {
	Resource string
	Key      string // with the prefix
	Quorum   int
	Nodes    []NodeInspection
}

// NodeInspection is what one node says of one resource.
type NodeInspection struct {
	Name      string
	Owner     string        // the owner value that holds it; empty: nobody does
	Remaining time.Duration // of the lease; negative: a key without an end
	Token     Token         // the largest given on the resource's stripe: the holder's, or a later one of a name that shares the stripe
	Waiting   []string      // the ids of the Lockers that stand in line for it here and give signs of life, the next one first
	Err       error         // why the node said nothing
}

// Holder returns the owner value that a quorum of nodes shows, and whether one
// does.
func (i Inspection) Holder() (owner string, held bool) {
	for _, n := range i.Nodes {
		same := 0
		for _, m := range i.Nodes {
			if n.Owner != "" && n.Owner == m.Owner {
				same++
			}
		}
		if same >= i.Quorum {
			return n.Owner, true
		}
	}
	return "", false
}

// Inspect asks every node who holds resource there, for at most a node timeout
// or until ctx is done, whatever the clients' own timeouts are. It changes
// nothing. A node that did not answer by then has Err set, to ctx's cause where
// that ended it. Inspect itself fails only for a bad resource
// (ErrInvalidResource), a closed Locker (ErrClosed), or, with *QuorumError and
// ErrNoQuorum, when fewer than a quorum answered; what was learned is returned
// all the same.
func (l *Locker) Inspect(ctx context.Context, resource string) (Inspection, error) {
	_, key, err := l.request("inspect", resource, nil)
	if err != nil {
		return Inspection{}, err
	}
	if !l.acquirer.Enter() {
		return Inspection{}, fault.Errorf("redlock: inspect %s: %w", fault.Printable(resource), ErrClosed)
	}
	defer l.acquirer.Settled()
	in := Inspection{Resource: resource, Key: key, Quorum: l.quorum, Nodes: make([]NodeInspection, len(l.nodes))}
	l.look(ctx, &in)
	answered := 0
	votes, causes := make([]quorum.Vote, len(l.nodes)), make([]error, len(l.nodes))
	for i, n := range in.Nodes {
		votes[i].Outcome, causes[i] = node.Classify(n.Err), n.Err
		if n.Err == nil || errors.Is(n.Err, errForeignType) {
			answered++
		}
	}
	if answered < l.quorum {
		return in, quorumError("inspect", resource, ErrNoQuorum, nil, l.names, votes, causes)
	}
	return in, nil
}

// look asks all nodes at once. Its own timer and ctx bound the wait, not the
// sockets: a client that is not ours may read for much longer, and go-redis
// notices no cancellation while it reads. A call that is left behind ends by its
// client's bounds; Close waits for it.
func (l *Locker) look(ctx context.Context, in *Inspection) {
	type answer struct {
		node int
		said NodeInspection
	}
	answers := make(chan answer, len(l.nodes))
	for i, n := range l.nodes {
		in.Nodes[i].Name = n.Name
		l.looks.Go(func() { answers <- answer{i, inspectNode(ctx, n, in.Key)} })
	}
	limit := l.clock.NewTimer(l.cfg.nodeTimeout)
	defer limit.Stop()
	var why error
	heard := uint64(0) // one bit each
	for missing := len(l.nodes); missing > 0 && why == nil; {
		select {
		case a := <-answers:
			in.Nodes[a.node] = a.said
			heard |= 1 << a.node
			missing--
		case <-limit.C:
			why = node.ErrTimeout
		case <-ctx.Done():
			why = fault.OfContext(ctx)
		}
	}
	for i := range in.Nodes {
		if heard&(1<<i) == 0 {
			in.Nodes[i].Err = why
		}
	}
}

// inspectNode asks one node. The caller's deadline is not passed on: it would come
// back as the silence of the node.
func inspectNode(ctx context.Context, n *node.Node, key string) NodeInspection {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.Timeout)
	defer cancel()
	in := NodeInspection{Name: n.Name}
	var owner, stripe *redis.SliceCmd
	var left *redis.DurationCmd
	_, err := n.Calls.TxPipelined(ctx, func(p redis.Pipeliner) error {
		owner = p.MGet(ctx, key)
		left = p.PTTL(ctx, key)
		stripe = p.HMGet(ctx, lua.NodeKey, strconv.FormatInt(lua.StripeOf(key), 10), "base")
		return nil
	})
	if err != nil {
		in.Err = node.Explain(err)
		return in
	}
	in.Remaining = left.Val()
	if len(owner.Val()) != 1 {
		in.Err = node.ErrNoReply
		return in
	}
	switch held := owner.Val()[0].(type) {
	case string:
		in.Owner = held
	default:
		if in.Remaining == -2 {
			in.Remaining = 0
		} else {
			in.Err = fmt.Errorf("%w: the key holds data of another type", errForeignType)
		}
	}
	for _, v := range stripe.Val() {
		if s, ok := v.(string); ok {
			t, _ := strconv.ParseUint(s, 10, 64) // 0 where it is no number
			in.Token = max(in.Token, Token(t))
		}
	}
	in.Waiting = inLine(ctx, n, key)
	return in
}

// inLine is who waits for the key on the node: nobody, where the node does not
// say. It comes after the rest, since a client that may not read the queue is still
// told who holds.
func inLine(ctx context.Context, n *node.Node, key string) []string {
	ids, err := n.Calls.ZRange(ctx, lua.QueueKey+key, 0, -1).Result()
	if err != nil || len(ids) == 0 {
		return nil
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return strings.Contains(id, " ") }) // the attempts behind the ids
	signs := make([]*redis.IntCmd, len(ids))
	_, err = n.Calls.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			signs[i] = p.Exists(ctx, lua.LiveKey+id)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	var living []string
	for i, id := range ids {
		if signs[i].Val() > 0 {
			living = append(living, id)
		}
	}
	return living
}

var errForeignType = errors.New("not a lock")
