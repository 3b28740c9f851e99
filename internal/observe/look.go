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
// the due ones when it is woken. The looks of two nodes are a nanosecond apart: looks at
// the same instant would come in any order, and a simulation must repeat its order.
func (w *Watcher) run(ctx context.Context, i int, wake <-chan struct{}, sub *node.Subscription) {
	apart := time.Duration(i)
	t := w.cfg.Clock.NewTimer(apart)
	defer t.Stop()
	followed, listening := make(map[string]bool), false
	next := w.cfg.Clock.Early() // when all are looked at
	var changed <-chan struct{} // closes when more is known of a node that counts for nothing
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
		case <-changed:
			_, answered, later, why := w.cfg.Nodes[i].Tracker.Known(i)
			if changed = later; why != nil || !answered || w.pause(ctx, gatherAfter+apart) {
				continue
			}
			next = w.cfg.Clock.Early()
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
			changed = w.look(ctx, i, keys)
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

// follow subscribes to the channels of the names that are observed, and to no others.
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

// look looks at these names on node i, and takes in the answer. If the answer counts for
// nothing because of the node's membership, changed closes when more is known.
func (w *Watcher) look(ctx context.Context, i int, keys []string) (changed <-chan struct{}) {
	sent := w.cfg.Clock.Now()
	readings, said, err := read(ctx, w.cfg.Nodes[i], keys)
	received := w.cfg.Clock.Now()
	if err == nil {
		changed, err = w.counts(ctx, i, said)
	}
	lists := w.cfg.Nodes[i].Tracker.ListsOn(i)
	if ctx.Err() != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, key := range keys {
		n := w.names[key]
		if n == nil {
			continue
		}
		if n.causes[i] = err; err == nil {
			w.viewLocked(n).Look(i, readings[k], sent, received, lists...)
		}
		if again := w.viewLocked(n).Again(w.cfg.Clock.Now()); again != 0 {
			n.due |= again
			w.wakeLocked(again)
		}
		n.tellLocked()
	}
	return changed
}

// counts is why node i's look counts for nothing, by its word of itself; nil if it counts.
// A node that may have forgotten is no sign that nobody holds. An idle Locker learns of it
// here: then all nodes are looked at.
func (w *Watcher) counts(ctx context.Context, i int, said node.Testimony) (changed <-chan struct{}, why error) {
	n := w.cfg.Nodes[i]
	unclear, changed, why := n.Counts(said)
	if unclear {
		n.Tracker.LookAgain(ctx, n.Timeout)
		_, changed, why = n.Counts(said)
	}
	return changed, why
}

// read is a node's content under these names. One call reads the names with plain holds; a
// second one reads the others, if there is anything under them.
func read(ctx context.Context, n *node.Node, keys []string) ([]election.Reading, node.Testimony, error) {
	ctx, cancel := n.Bound(ctx)
	defer cancel()
	readings, said, others, err := readStrings(ctx, n, keys)
	if err != nil || !others {
		return readings, said, err
	}
	return readAll(ctx, n, keys)
}

// readStrings reads owner values; others tells that some names have data of another type.
func readStrings(ctx context.Context, n *node.Node, keys []string) (readings []election.Reading, said node.Testimony, others bool, err error) {
	var values *redis.SliceCmd
	var there *redis.IntCmd
	var witness node.Witness
	cmds, err := n.Calls.TxPipelined(ctx, func(p redis.Pipeliner) error {
		values, there = p.MGet(ctx, keys...), p.Exists(ctx, keys...)
		witness = n.Witness(ctx, p)
		return nil
	})
	if err != nil {
		return nil, said, false, node.Explain(node.Discarded(cmds, err))
	}
	if len(values.Val()) != len(keys) {
		return nil, said, false, node.ErrNoReply
	}
	if said, err = witness.Said(); err != nil {
		return nil, said, false, err
	}
	strings := int64(0)
	for _, v := range values.Val() {
		readings = append(readings, readingOf(v))
		if _, isString := v.(string); isString {
			strings++
		}
	}
	return readings, said, there.Val() > strings, nil
}

// readAll reads keys of any type. A sharer of a name leads nothing, so the name counts as
// free.
func readAll(ctx context.Context, n *node.Node, keys []string) (readings []election.Reading, said node.Testimony, err error) {
	var values *redis.SliceCmd
	var witness node.Witness
	marks, there := make([]*redis.StringSliceCmd, len(keys)), make([]*redis.IntCmd, len(keys))
	cmds, err := n.Calls.TxPipelined(ctx, func(p redis.Pipeliner) error {
		values, witness = p.MGet(ctx, keys...), n.Witness(ctx, p)
		for k, key := range keys {
			marks[k], there[k] = p.ZRange(ctx, key, 0, 0), p.Exists(ctx, key) // a mark's score is the least
		}
		return nil
	})
	if values.Err() != nil || there[len(keys)-1].Err() != nil { // that of a mark is an answer
		return nil, said, node.Explain(node.Discarded(cmds, err))
	}
	if len(values.Val()) != len(keys) {
		return nil, said, node.ErrNoReply
	}
	if said, err = witness.Said(); err != nil {
		return nil, said, err
	}
	for k, v := range values.Val() {
		r := readingOf(v)
		if r.Kind == election.Free && there[k].Val() > 0 && !slices.Equal(marks[k].Val(), []string{lua.SharedMark}) {
			r.Kind = election.Foreign
		}
		readings = append(readings, r)
	}
	return readings, said, nil
}

// readingOf is the reading of a name, by the reply to MGET.
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
