package round

import (
	"testing"
	"unsafe"

	"github.com/quorumkit/redlock/internal/quorum"
)

// What a claim is made to be, and what it tells of itself then.
func TestAClaimIsOfOneKindAndStandsInLineInOneWay(t *testing.T) {
	slot := &Slot{Name: "name", Line: "line"}
	handed := func(kept bool) func(c *Claim) {
		return func(c *Claim) {
			old := &Claim{Owner: "old"}
			old.AcceptPush(7)
			c.Inherit(old, kept)
		}
	}
	for _, c := range []struct {
		name   string
		make   func(c *Claim)
		kind   Kind
		line   string
		keeps  bool
		pushes bool
		owner  string
		place  int64
	}{
		{"alone", func(*Claim) {}, Exclusive{}, "key", false, false, "", quorum.NoTicket},
		{"alone, by its place", (*Claim).KeepPlace, Exclusive{}, "key", true, false, "", quorum.NoTicket},
		{"with an entry that releases grant", func(c *Claim) { c.AcceptPush(7) }, Exclusive{}, "key", true, true, "owner", 7},
		{"handed on, with the entry", handed(true), Exclusive{}, "key", true, false, "old", quorum.NoTicket},
		{"handed on, without", handed(false), Exclusive{}, "key", false, false, "old", quorum.NoTicket},
		{"shared", func(c *Claim) { c.Share(7) }, Shared{}, "key", true, false, "", 7},
		{"shared, past the line", func(c *Claim) { c.Share(quorum.Barging) }, Shared{}, "key", true, false, "", quorum.NoTicket},
		{"a slot", func(c *Claim) { c.TakeSlot(slot) }, slot, "line", false, false, "", quorum.NoTicket},
		{"a slot, by its place", func(c *Claim) { c.TakeSlot(slot); c.KeepPlace() }, slot, "line", true, false, "", quorum.NoTicket},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := &Claim{Key: "key", Owner: "owner"}
			c.make(got)
			if got.Kind() != c.kind || got.Shared() != (c.kind == Shared{}) || (got.Slot() == slot) != (c.kind == slot) || got.Kind().line(got.Key) != c.line {
				t.Errorf("got kind %T in line %s, shared %t, slot %v; want %T in %s", got.Kind(), got.Kind().line(got.Key), got.Shared(), got.Slot(), c.kind, c.line)
			}
			if got.KeepsPlace() != c.keeps || got.AcceptsPush() != c.pushes || *got.QueueOwner() != c.owner || *got.Place() != c.place {
				t.Errorf("got keeps %t, accepts %t, owner %q, place %d; want %t, %t, %q, %d",
					got.KeepsPlace(), got.AcceptsPush(), *got.QueueOwner(), *got.Place(), c.keeps, c.pushes, c.owner, c.place)
			}
			if want := map[bool]Leaving{true: LeaveEntry, false: LeaveNothing}[c.keeps]; got.Rollback() != want {
				t.Errorf("a rollback leaves by mode %d; want %d", got.Rollback(), want)
			}
		})
	}
}

// The allocator's next size is 240 bytes.
func TestAClaimFillsASizeOfTheAllocator(t *testing.T) {
	if got := unsafe.Sizeof(Claim{}); unsafe.Sizeof(uintptr(0)) == 8 && got > 224 {
		t.Errorf("a claim has %d bytes; want at most 224", got)
	}
}
