package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// errNotLocked is a plain lock's only reason.
var errNotLocked = errors.New("chaos: not locked")

const (
	// textbookTimeout bounds a command to one node, as the Redis page on
	// distributed locks asks for: small beside the lease. It is redlock's, so that
	// the two differ in what they do, and not in how long they wait.
	textbookTimeout = redlock.DefaultNodeTimeout
	// The drift that the page has the holder allow for.
	textbookDriftShare = 100
	textbookDriftFloor = 2 * time.Millisecond

	// The page's script, and its twin for the expiry.
	deleteIfOurs = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`
	expireIfOurs = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`
)

// singleMaster is the plain lock on one master, the first of the nodes: SET NX PX
// with a random value, and compare-and-delete. It has no token, and tells nobody
// of a loss; its holder minds the lease by its own clock, from before the SET was
// sent. That is more than most of its users do.
func singleMaster() Kit {
	return Kit{Name: trace.NameSingle, Open: func(nodes []redis.UniversalClient, _ []string) (Contender, error) {
		if len(nodes) == 0 {
			return nil, fmt.Errorf("chaos: single master: %w: no node", redlock.ErrInvalidNode)
		}
		return &plain{nodes: nodes[:1], quorum: 1}, nil
	}}
}

// textbookRedlock is Redlock as the Redis page on distributed locks has it, and
// no more: SET NX PX on all nodes, each bounded by a small timeout; a majority
// and a validity of the lease less the time it took less the drift; an unlock on
// all nodes otherwise. No token, no membership, no tombstone, no loss signal.
func textbookRedlock() Kit {
	return Kit{Name: trace.NameTextbook, Open: func(nodes []redis.UniversalClient, _ []string) (Contender, error) {
		if len(nodes) == 0 {
			return nil, fmt.Errorf("chaos: textbook Redlock: %w: no node", redlock.ErrInvalidNode)
		}
		return &plain{
			nodes: nodes, quorum: len(nodes)/2 + 1, timeout: textbookTimeout,
			driftShare: textbookDriftShare, driftFloor: textbookDriftFloor,
		}, nil
	}}
}

// plain is a lock without protections over any number of nodes.
type plain struct {
	nodes      []redis.UniversalClient
	quorum     int
	timeout    time.Duration // of a command to one node; 0 if none
	driftShare time.Duration // of a lease, by which a validity is shorter; 0 if none
	driftFloor time.Duration
}

func (p *plain) Acquire(ctx context.Context, resource string, lease time.Duration) (Hold, error) {
	h := &plainHold{plain: p, resource: resource, owner: uuid.NewString()}
	sent := time.Now()
	granted := p.all(ctx, func(ctx context.Context, node redis.UniversalClient) bool {
		return node.SetArgs(ctx, resource, h.owner, redis.SetArgs{Mode: "NX", TTL: lease}).Err() == nil
	})
	h.until = p.valid(sent, lease)
	if granted >= p.quorum && h.Remaining() > 0 {
		return h, nil
	}
	h.unlock(ctx)
	return nil, fmt.Errorf("%w: %d of %d nodes", errNotLocked, granted, len(p.nodes))
}

func (p *plain) Close() error { return nil }

// valid is when the belief in a lease ends that was sent then.
func (p *plain) valid(sent time.Time, lease time.Duration) time.Time {
	drift := p.driftFloor
	if p.driftShare > 0 {
		drift += lease / p.driftShare
	}
	return sent.Add(lease - drift)
}

// all sends a command to every node and returns how many agreed.
func (p *plain) all(ctx context.Context, command func(context.Context, redis.UniversalClient) bool) int {
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex // guards count
		count int
	)
	for _, node := range p.nodes {
		wait.Go(func() {
			ctx := ctx
			if p.timeout > 0 {
				bounded, cancel := context.WithTimeout(ctx, p.timeout)
				defer cancel()
				ctx = bounded
			}
			if command(ctx, node) {
				mu.Lock()
				defer mu.Unlock()
				count++
			}
		})
	}
	wait.Wait()
	return count
}

// plainHold is a lock of plain, or an attempt that is to be undone. One
// goroutine uses it.
type plainHold struct {
	plain    *plain
	resource string
	owner    string
	until    time.Time
}

func (h *plainHold) Token() redlock.Token { return 0 }

func (h *plainHold) Remaining() time.Duration { return max(time.Until(h.until), 0) }

func (h *plainHold) Lost() <-chan struct{} { return nil }

func (h *plainHold) Extend(ctx context.Context, lease time.Duration) error {
	sent := time.Now()
	kept := h.plain.all(ctx, func(ctx context.Context, node redis.UniversalClient) bool {
		n, err := node.Eval(ctx, expireIfOurs, []string{h.resource}, h.owner, lease.Milliseconds()).Int()
		return err == nil && n == 1
	})
	if kept < h.plain.quorum {
		return fmt.Errorf("%w any more: %d of %d nodes", errNotLocked, kept, len(h.plain.nodes))
	}
	h.until = h.plain.valid(sent, lease)
	return nil
}

func (h *plainHold) Release(ctx context.Context) error {
	h.until = time.Time{}
	if freed := h.unlock(ctx); freed < h.plain.quorum {
		return fmt.Errorf("%w any more: %d of %d nodes", errNotLocked, freed, len(h.plain.nodes))
	}
	return nil
}

func (h *plainHold) unlock(ctx context.Context) int {
	return h.plain.all(ctx, func(ctx context.Context, node redis.UniversalClient) bool {
		n, err := node.Eval(ctx, deleteIfOurs, []string{h.resource}, h.owner).Int()
		return err == nil && n == 1
	})
}
