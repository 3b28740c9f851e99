package lua

import (
	"strconv"
	"strings"
)

// A name that several hold at once (WithLimit) has slots, each a lock on a key of its own,
// and one line in front of them all.
const (
	// MaxSlots is the largest limit: a script says in one number which slots are free.
	MaxSlots = 48
	// slotKey, the slot's number, a colon and the name are a slot's key.
	slotKey = OwnPrefix + "slot:"
	// slotsKey and the name are what is waited for where a slot is: nothing is stored
	// there, and its line is that of the slots.
	slotsKey = OwnPrefix + "slots:"
	// LongestSlot is by how much the longest key of a slot is longer than its name.
	LongestSlot = len(slotKey) + len("47:")
)

// SlotKey is the key of a slot of the name.
func SlotKey(name string, slot int) string { return slotKey + strconv.Itoa(slot) + ":" + name }

// SlotsKey is what is waited for where a slot of the name is.
func SlotsKey(name string) string { return slotsKey + name }

// LineOf is the name that has slots, of what is waited for where one of them is. It returns
// false of any other key.
func LineOf(key string) (name string, ok bool) { return strings.CutPrefix(key, slotsKey) }

// SlotOf is the name and the slot of a slot's key. It returns false of any other key.
func SlotOf(key string) (name string, slot int, ok bool) {
	rest, ok := strings.CutPrefix(key, slotKey)
	if !ok {
		return "", 0, false
	}
	number, name, ok := strings.Cut(rest, ":")
	slot, err := strconv.Atoi(number)
	return name, slot, ok && err == nil && slot >= 0 && slot < MaxSlots
}

// NameOf is the name that a key is of: of a slot's, or of what is waited for where one is,
// the name that has slots; of any other the key itself.
func NameOf(key string) string {
	if name, ok := LineOf(key); ok {
		return name
	}
	if name, _, ok := SlotOf(key); ok {
		return name
	}
	return key
}
