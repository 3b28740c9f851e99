package report

import (
	"slices"
	"time"
)

// rows has those that are in one lane at one time each in a row of its own, the first that
// is free. It takes them in the order of their beginnings.
type rows struct {
	row  map[int]int // of each
	many map[string]int
	ends map[string][]time.Duration
}

func newRows() *rows {
	return &rows{row: map[int]int{}, many: map[string]int{}, ends: map[string][]time.Duration{}}
}

// place gives number i of a lane its row.
func (r *rows) place(i int, lane string, from, until time.Duration) {
	ends := r.ends[lane]
	row := slices.IndexFunc(ends, func(end time.Duration) bool { return end <= from })
	if row < 0 {
		row = len(ends)
		ends = append(ends, 0)
	}
	ends[row] = until
	r.row[i], r.ends[lane], r.many[lane] = row, ends, max(r.many[lane], row+1)
}

// of is how many rows a lane has.
func (r *rows) of(lane string) int { return max(r.many[lane], 1) }

// more is how much higher a lane is that has them.
func (r *rows) more(lane string) int { return (r.of(lane) - 1) * rowHeight }
