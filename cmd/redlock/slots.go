package main

import (
	"strconv"
	"time"

	"github.com/quorumkit/redlock"
)

// slotShows is who holds a slot of a key, on a quorum of nodes.
type slotShows struct {
	Slot      int    `json:"slot"`
	Holder    string `json:"holder"`
	Remaining int64  `json:"remaining_ms"`
	Revocable bool   `json:"revocable,omitempty"`

	left time.Duration
}

// slotsOf are the slots of a key that are held on a quorum of nodes, and how many stand in
// line for one on a quorum.
func slotsOf(in redlock.Inspection) (slots []slotShows, waiting int) {
	for _, one := range in.Slots() {
		slots = append(slots, slotShows{one.Slot, one.Owner, milliseconds(one.Remaining), one.Revocable, one.Remaining})
	}
	on := map[string]int{}
	for _, n := range in.Nodes {
		for _, id := range n.SlotsWaiting {
			if on[id]++; on[id] == in.Quorum {
				waiting++
			}
		}
	}
	return slots, waiting
}

// printSlots shows the slots that are held, if any is.
func (s keyStatus) printSlots(p *page) {
	if len(s.Slots) == 0 && s.SlotsWaiting == 0 {
		return
	}
	p.printf("slots: %d held, %d in line\n", len(s.Slots), s.SlotsWaiting)
	rows := [][]cell{row("SLOT", "LEFT", "HOLDER")}
	for _, one := range s.Slots {
		rows = append(rows, row(strconv.Itoa(one.Slot), short(one.left), marked(one.Holder, one.Revocable)))
	}
	p.table(rows)
}
