package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
)

// slotRemoval is a slot that was removed from one node, or would be.
type slotRemoval struct {
	Slot      int    `json:"slot"`
	Holder    string `json:"holder"`
	Remaining int64  `json:"remaining_ms"`
	Removed   bool   `json:"removed"`
}

// removeSlots is remove for all slots of the key that are held on a node at that moment. By
// the library's own release, which wakes the first who waits for one.
func (r *removal) removeSlots(ctx context.Context, c *redis.Client, key string, life time.Duration) error {
	shown := r.Slots
	r.Slots = nil
	keys := make([]string, lua.MaxSlots)
	for i := range keys {
		keys[i] = lua.SlotKey(key, i)
	}
	owners, err := c.MGet(ctx, keys...).Result()
	if err != nil {
		return err
	}
	for i, v := range owners {
		owner, held := v.(string)
		if !held {
			continue
		}
		one := slotRemoval{Slot: i, Holder: lua.Unmarked(owner)}
		for _, s := range shown {
			if s.Slot == i && s.Holder == one.Holder {
				one.Remaining = s.Remaining
			}
		}
		if one.Removed, err = removeSlot(ctx, c, key, i, owner, life); err != nil {
			return err
		}
		r.Slots = append(r.Slots, one)
	}
	return nil
}

// removeSlot ends one hold of a slot, and tells whether it was still there.
func removeSlot(ctx context.Context, c *redis.Client, key string, slot int, owner string, life time.Duration) (bool, error) {
	release, plain := lua.ReleaseSlotScript, 0 // no leave of a line, and no rollback
	if err := c.ScriptLoad(ctx, release.Body).Err(); err != nil {
		return false, err
	}
	gone, err := c.EvalSha(ctx, release.Hash, []string{lua.SlotKey(key, slot), lua.TombstoneKey + owner},
		owner, key, lua.MaxSlots, plain, "", 0, life.Milliseconds()).Int()
	return gone == 1, err
}
