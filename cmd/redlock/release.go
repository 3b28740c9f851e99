package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock"
)

// deadKey begins the key of a tombstone, a part of the wire format: it keeps the
// owner from taking the key again by a command that is still on its way, or by
// the repair that renewal does.
const deadKey = "redlock:dead:"

// sharedMark is the first member of the sorted set that a shared key is.
const sharedMark = "redlock:shared"

func releaseCommand() command {
	return command{
		name: "release", synopsis: "KEY --force --yes [flags]", summary: "take a lock away from its holder",
		about: `Removes KEY from every node that answers, whoever holds it, or all who share it, and says
what it removed.
The holder may trust its lock until its next renewal fails, a third of its lease at most,
or until its validity ends: that it has stopped is for you to know. Locks whose holder has
died lapse by themselves. Without --yes it says what it would remove.`,
		define: func(fs *flag.FlagSet) action {
			force := fs.Bool("force", false, "yes, although it is somebody else's")
			yes := fs.Bool("yes", false, "do it")
			return func(ctx context.Context, a *app, args []string) error {
				if err := exactly(1, args, "one KEY"); err != nil {
					return err
				}
				if !*force {
					return usage("release: only a holder releases its own lock; to take it away from another, give --force")
				}
				return a.withSession(ctx, func(ctx context.Context, s *session) error { return a.release(ctx, s, args[0], *yes) })
			}
		},
	}
}

// removal is what was removed from one node, or would be.
type removal struct {
	Node      string   `json:"node"`
	Holder    string   `json:"holder,omitempty"`
	Sharers   []string `json:"sharers,omitempty"`
	Remaining int64    `json:"remaining_ms"`
	Removed   bool     `json:"removed"`
	Error     string   `json:"error,omitempty"`
}

func (a *app) release(ctx context.Context, s *session, resource string, yes bool) error {
	in, err := s.locker.Inspect(ctx, resource)
	if err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
		return err
	}
	life, err := tombstoneLife(ctx, s, a.connection.maxTTL)
	if err != nil {
		return err
	}
	out := make([]removal, len(in.Nodes))
	var g errgroup.Group // zero: one node's failure must not end the others
	for i, n := range in.Nodes {
		out[i] = removal{Node: n.Name, Holder: n.Owner, Remaining: milliseconds(n.Remaining), Error: oneLine(n.Err)}
		for _, one := range n.Sharers {
			out[i].Sharers = append(out[i].Sharers, one.Owner)
		}
		if !yes || n.Err != nil || n.Owner == "" && !n.Shared {
			continue
		}
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, a.connection.timeout())
			defer cancel()
			var err error
			if n.Shared {
				out[i].Sharers, err = removeShared(ctx, s.clients[i], in.Key, life)
				out[i].Removed = err == nil && len(out[i].Sharers) > 0
			} else {
				out[i].Removed, err = remove(ctx, s.clients[i], in.Key, n.Owner, life)
			}
			out[i].Error = oneLine(err)
			return nil
		})
	}
	_ = g.Wait()
	if err := a.showRemovals(resource, out, yes); err != nil {
		return err
	}
	return removalStatus(out, in.Quorum, yes)
}

// tombstoneLife is the longest lease in the cluster: whatever the holder has
// under way is over after it.
func tombstoneLife(ctx context.Context, s *session, life time.Duration) (time.Duration, error) {
	status, err := s.locker.Cluster().Status(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range status.Nodes {
		life = max(life, n.MaxTTL)
	}
	return life, nil
}

// randomLength is how long the random part is that ends each owner value of the library's.
const randomLength = 36

// sameHold tells whether a key's value is the owner value that Inspect showed: of a hold
// that can be asked for it is shown without a mark, so the random parts decide.
func sameHold(held, shown string) bool {
	if len(held) > randomLength && len(shown) >= randomLength {
		return held[len(held)-randomLength:] == shown[len(shown)-randomLength:]
	}
	return held == shown
}

// remove deletes the key if it is still the owner's, and leaves a tombstone, as
// the library's release does. A transaction does without a script of its own.
func remove(ctx context.Context, c *redis.Client, key, owner string, life time.Duration) (bool, error) {
	removed := false
	err := c.Watch(ctx, func(tx *redis.Tx) error {
		held, err := tx.Get(ctx, key).Result()
		if errors.Is(err, redis.Nil) || err == nil && !sameHold(held, owner) {
			return nil // it ended by itself, and another may have it
		}
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, key)
			p.Set(ctx, deadKey+held, 1, life)
			return nil
		})
		removed = err == nil
		return err
	}, key)
	return removed, changed(err)
}

// removeShared is remove for a shared name: it ends all who share it at that moment, and
// says who they were.
func removeShared(ctx context.Context, c *redis.Client, key string, life time.Duration) (sharers []string, err error) {
	err = c.Watch(ctx, func(tx *redis.Tx) error {
		members, err := tx.ZRange(ctx, key, 0, -1).Result()
		if err != nil {
			return err
		}
		if len(members) == 0 || members[0] != sharedMark {
			return nil // it ended by itself
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, key)
			for _, owner := range members[1:] {
				p.Set(ctx, deadKey+owner, 1, life)
			}
			return nil
		})
		if err == nil {
			sharers = members[1:]
		}
		return err
	}, key)
	return sharers, changed(err)
}

// changed explains that a transaction found the key changed.
func changed(err error) error {
	if errors.Is(err, redis.TxFailedErr) {
		return fmt.Errorf("it changed at the same moment: %w", err)
	}
	return err
}

// removalStatus is a failure where the name is not free for sure.
func removalStatus(out []removal, quorum int, yes bool) error {
	free := 0
	for _, r := range out {
		if r.Error == "" {
			free++
		}
	}
	switch {
	case !yes:
		return usage("release: nothing done: give --yes to remove it")
	case free < quorum:
		return &statusError{exitNoQuorum, fmt.Errorf("release: %d of %d nodes answered, quorum %d: the lock may stand", free, len(out), quorum)}
	}
	return nil
}

func (a *app) showRemovals(resource string, out []removal, yes bool) error {
	if a.connection.json {
		return a.answer(struct {
			Key   string    `json:"key"`
			Nodes []removal `json:"nodes"`
		}{resource, out})
	}
	p := a.newPage()
	rows := [][]cell{row("NODE", "", "LEFT", "HOLDER")}
	for _, r := range out {
		did, left, holder := "nothing there", "-", "-"
		if len(r.Sharers) > 0 {
			r.Holder = strings.Join(r.Sharers, " ")
		}
		if r.Holder != "" {
			did, left, holder = "gone by itself", short(time.Duration(r.Remaining)*time.Millisecond), r.Holder
		}
		switch {
		case r.Error != "":
			did, holder = "failed", r.Error
		case r.Removed:
			did = "removed"
		case r.Holder != "" && !yes:
			did = "would remove"
		}
		rows = append(rows, row(r.Node, did, left, holder))
	}
	p.table(rows)
	return a.flush(p)
}
