package lua

import (
	"strconv"
	"strings"
)

// A name with several holders at once (WithLimit) has slots, each a lock on a key of its own,
// and one queue for them all.
const (
	// MaxSlots is the largest limit: a script says in one number which slots are free.
	MaxSlots = 48
	// slotKey, the slot's number, a colon and the name are a slot's key.
	slotKey = OwnPrefix + "slot:"
	// slotsKey and the name are the key that waiters for a slot wait for: nothing is stored
	// there, and its queue is that of the slots.
	slotsKey = OwnPrefix + "slots:"
	// LongestSlot is by how much the longest key of a slot is longer than its name.
	LongestSlot = len(slotKey) + len("47:")
)

// SlotKey is the key of a slot of the name.
func SlotKey(name string, slot int) string { return slotKey + strconv.Itoa(slot) + ":" + name }

// SlotsKey is the key that waiters for a slot of the name wait for.
func SlotsKey(name string) string { return slotsKey + name }

// LineOf is the name with slots, of a key of SlotsKey. It returns false for any other key.
func LineOf(key string) (name string, ok bool) { return strings.CutPrefix(key, slotsKey) }

// SlotOf is the name and the slot of a slot's key. It returns false for any other key.
func SlotOf(key string) (name string, slot int, ok bool) {
	rest, ok := strings.CutPrefix(key, slotKey)
	if !ok {
		return "", 0, false
	}
	number, name, ok := strings.Cut(rest, ":")
	slot, err := strconv.Atoi(number)
	return name, slot, ok && err == nil && slot >= 0 && slot < MaxSlots
}

// NameOf is the name of a key: for a slot's key, or one of SlotsKey, the name with slots; for
// any other the key itself.
func NameOf(key string) string {
	if name, ok := LineOf(key); ok {
		return name
	}
	if name, _, ok := SlotOf(key); ok {
		return name
	}
	return key
}
