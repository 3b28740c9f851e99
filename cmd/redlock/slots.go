package main

import (
	"strconv"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
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
		slots = append(slots, slotShows{one.Slot, one.Owner, one.Remaining.Milliseconds(), one.Revocable, one.Remaining})
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
func (s keyStatus) printSlots(p *cli.Page) {
	if len(s.Slots) == 0 && s.SlotsWaiting == 0 {
		return
	}
	p.Printf("slots: %d held, %d in line\n", len(s.Slots), s.SlotsWaiting)
	rows := [][]cli.Cell{cli.Row("SLOT", "LEFT", "HOLDER")}
	for _, one := range s.Slots {
		rows = append(rows, cli.Row(strconv.Itoa(one.Slot), cli.Short(one.left), marked(one.Holder, one.Revocable)))
	}
	p.Table(rows)
}
