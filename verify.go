package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// verify finds out whether the node votes for us, on one pinned connection. It
// returns the epoch to send with every vote; or why the node abstains; or an
// error if the node can't be talked to. A node that votes has the voting scripts
// loaded.
func (n *node) verify() (epoch string, abstains, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*n.timeout)
	defer cancel()
	err = n.calls.Watch(ctx, func(tx *redis.Tx) error {
		run, err := runID(ctx, tx)
		if err != nil {
			return err
		}
		if err := n.peers.serves(n.index, run); err != nil {
			return err
		}
		if err := tx.HSetNX(ctx, nodeKey, "epoch", uuid.NewString()).Err(); err != nil {
			return err
		}
		if epoch, err = tx.HGet(ctx, nodeKey, "epoch").Result(); err != nil {
			return err
		}
		_, err = tx.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, s := range votingScripts {
				p.ScriptLoad(ctx, s.body)
			}
			return nil
		})
		return err
	})
	return epoch, nil, err
}

// runID reads the server process's own identity.
func runID(ctx context.Context, tx *redis.Tx) (string, error) {
	info, err := tx.Info(ctx, "server").Result()
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	var reply redis.Error
	switch {
	case err == nil:
		err = errors.New("it is not in the answer")
	case !errors.As(err, &reply), classify(err) == Failed:
		return "", err
	}
	return "", fmt.Errorf("%w: INFO server tells no run_id (a plain miniredis? package redlocktest has nodes that do): %w", ErrMisconfigured, err)
}
