package observe

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/election"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
)

// run looks at node i, until ctx is done: at all names once in election.LookEvery, and at
// those that are due when it is woken. Nodes have their looks a nanosecond apart: what is
// due at one instant comes in any order, and a simulation has one.
func (w *Watcher) run(ctx context.Context, i int, wake <-chan struct{}, sub *node.Subscription) {
	apart := time.Duration(i)
	t := w.cfg.Clock.NewTimer(apart)
	defer t.Stop()
	followed, listening := make(map[string]bool), false
	next := w.cfg.Clock.Early() // when all are looked at
	for {
		select {
		case <-ctx.Done():
			if listening {
				<-sub.Stopped()
			}
			return
		case <-t.C:
		case <-wake:
			if w.pause(ctx, gatherAfter+apart) {
				continue
			}
		}
		now := w.cfg.Clock.Early()
		w.follow(ctx, sub, followed)
		if !listening {
			listening = true
			w.cfg.Go(func() { sub.Run(ctx) })
		}
		all := now >= next
		if all {
			next = now.Add(election.LookEvery)
		}
		for keys := range slices.Chunk(w.due(i, all), lua.LookBatchSize) {
			w.look(ctx, i, keys)
		}
		t.Reset(max(next.Sub(w.cfg.Clock.Early()), 0))
	}
}

// pause blocks for d; true: ctx is done.
func (w *Watcher) pause(ctx context.Context, d time.Duration) bool {
	t := w.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-ctx.Done():
		return true
	}
}

// follow has the subscription be to the channels of the names that are observed.
func (w *Watcher) follow(ctx context.Context, sub *node.Subscription, followed map[string]bool) {
	wanted := make(map[string]bool)
	w.mu.Lock()
	for key := range w.names {
		wanted[key] = true
	}
	w.mu.Unlock()
	for key := range wanted {
		if !followed[key] {
			followed[key] = true
			sub.Add(ctx, lua.LeaderChannel+key)
		}
	}
	for key := range followed {
		if !wanted[key] {
			delete(followed, key)
			sub.Drop(ctx, lua.LeaderChannel+key)
		}
	}
}

// due takes the names that are to be looked at on node i, or all.
func (w *Watcher) due(i int, all bool) (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, n := range w.names {
		if all || n.due&(1<<i) != 0 {
			n.due &^= 1 << i
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// look looks at these names on node i, and takes in what it says.
func (w *Watcher) look(ctx context.Context, i int, keys []string) {
	sent := w.cfg.Clock.Now()
	readings, err := read(ctx, w.cfg.Nodes[i], keys)
	received := w.cfg.Clock.Now()
	if why := w.cfg.Votes(i); err == nil {
		err = why
	}
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, key := range keys {
		n := w.names[key]
		if n == nil {
			continue
		}
		if n.causes[i] = err; err == nil {
			n.view.Look(i, readings[k], sent, received)
		}
		if again := n.view.Again(received); again != 0 {
			n.due |= again
			w.wake(again)
		}
		n.tell()
	}
}

// read is what a node has under these names. One call tells that of names whose holds are
// plain; where others have anything, a second one tells what.
func read(ctx context.Context, n *node.Node, keys []string) ([]election.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	readings, others, err := readStrings(ctx, n, keys)
	if err != nil || !others {
		return readings, err
	}
	return readAll(ctx, n, keys)
}

// readStrings reads owner values; others tells that some names have data of another type.
func readStrings(ctx context.Context, n *node.Node, keys []string) (readings []election.Reading, others bool, err error) {
	var values *redis.SliceCmd
	var there *redis.IntCmd
	_, err = n.Calls.TxPipelined(ctx, func(p redis.Pipeliner) error {
		values, there = p.MGet(ctx, keys...), p.Exists(ctx, keys...)
		return nil
	})
	if err != nil {
		return nil, false, node.Explain(err)
	}
	if len(values.Val()) != len(keys) {
		return nil, false, node.ErrNoReply
	}
	strings := int64(0)
	for _, v := range values.Val() {
		readings = append(readings, readingOf(v))
		if _, isString := v.(string); isString {
			strings++
		}
	}
	return readings, there.Val() > strings, nil
}

// readAll reads what is there of any type. Who shares a name leads nothing, so that the
// name is free.
func readAll(ctx context.Context, n *node.Node, keys []string) (readings []election.Reading, err error) {
	var values *redis.SliceCmd
	marks, there := make([]*redis.StringSliceCmd, len(keys)), make([]*redis.IntCmd, len(keys))
	_, err = n.Calls.TxPipelined(ctx, func(p redis.Pipeliner) error {
		values = p.MGet(ctx, keys...)
		for k, key := range keys {
			marks[k], there[k] = p.ZRange(ctx, key, 0, 0), p.Exists(ctx, key) // a mark's score is the least
		}
		return nil
	})
	if values.Err() != nil || there[len(keys)-1].Err() != nil { // that of a mark is an answer
		return nil, node.Explain(err)
	}
	if len(values.Val()) != len(keys) {
		return nil, node.ErrNoReply
	}
	for k, v := range values.Val() {
		r := readingOf(v)
		if r.Kind == election.Free && there[k].Val() > 0 && !slices.Equal(marks[k].Val(), []string{lua.SharedMark}) {
			r.Kind = election.Foreign
		}
		readings = append(readings, r)
	}
	return readings, nil
}

// readingOf is what the reply to MGET says of a name.
func readingOf(reply any) election.Reading {
	value, isString := reply.(string)
	if !isString {
		return election.Reading{Kind: election.Free}
	}
	if _, ours := lua.ValueOf(value); !ours {
		return election.Reading{Kind: election.Foreign}
	}
	return election.Reading{Kind: election.Owned, Owner: value}
}
