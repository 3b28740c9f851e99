package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
)

// SlotHolder is who holds one slot of a resource (WithLimit).
type SlotHolder struct {
	Slot      int           // its number
	Owner     string        // the owner value, without the mark of WithRevocation
	Remaining time.Duration // of the lease; negative: a key without an end
	Revocable bool          // it can be asked to give it up (Locker.Revoke)
}

// Slots returns who holds which slot on a quorum of nodes, by the slots' numbers. What
// remains of each is what a quorum shows at least.
func (i Inspection) Slots() []SlotHolder {
	var held []SlotHolder
	for slot := range MaxLimit {
		on, revocable := map[string][]time.Duration{}, map[string]bool{}
		for _, n := range i.Nodes {
			for _, s := range n.Slots {
				if s.Slot == slot {
					on[s.Owner], revocable[s.Owner] = append(on[s.Owner], s.Remaining), s.Revocable
				}
			}
		}
		for owner, left := range on {
			if len(left) >= i.Quorum {
				slices.Sort(left)
				held = append(held, SlotHolder{slot, owner, left[len(left)-i.Quorum], revocable[owner]})
			}
		}
	}
	return held
}

// readSlots reads who holds the key's slots, and who waits for one. It is nobody, where the
// node does not say, and slotsErr is why.
func readSlots(ctx context.Context, n *node.Node, key string, in *NodeInspection) {
	keys := make([]string, MaxLimit)
	for i := range keys {
		keys[i] = lua.SlotKey(key, i)
	}
	var owners *redis.SliceCmd
	left := make([]*redis.DurationCmd, MaxLimit)
	_, err := n.Calls.Pipelined(ctx, func(p redis.Pipeliner) error {
		owners = p.MGet(ctx, keys...)
		for i := range keys {
			left[i] = p.PTTL(ctx, keys[i])
		}
		return nil
	})
	if err == nil && len(owners.Val()) != MaxLimit {
		err = node.ErrNoReply
	}
	if err != nil {
		in.slotsErr = node.Explain(err)
		return
	}
	for i, v := range owners.Val() {
		if owner, held := v.(string); held {
			in.Slots = append(in.Slots, SlotHolder{Slot: i, Owner: owner, Remaining: left[i].Val()})
		}
	}
	in.SlotsWaiting = inLine(ctx, n, lua.SlotsKey(key))
}
