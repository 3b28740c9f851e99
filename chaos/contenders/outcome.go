package contenders

import (
	"math/big"
	"slices"
	"time"
)

// outcome is what a scenario showed of a contender.
type outcome struct {
	Contender, Scenario string
	Skipped             string // why it was not played; empty: it was
	Failed              string // why it has no result; empty: it has one

	Two      time.Duration // two believed at once, for so long; 0: never
	Told     string        // who told the holder first; empty: nobody
	After    time.Duration // of the fault, or of going on
	Late     bool          // the next one held before the holder knew
	Kept     bool          // the holder had the lock to the end
	Answer   string        // what a question at the end brought
	Next     time.Duration // until the next one held; 0: it did not
	Fences   []string      // the numbers of the holds, as they came
	Rising   bool          // each was greater than the one before
	Repeated int           // how often Next was measured; it is the median

	Optimistic bool   // nobody was locked out: Next is until a write, and two at work are no breach
	Write      string // what became of the late write, where nobody is locked out; empty: there was none

	GivenBack time.Duration // how long the release took; of hung-server
	// Plain tells whether it was measured with library and client as they come, too.
	Plain                     bool
	PlainNext, PlainGivenBack time.Duration // the same with these; 0: it did not come about

	zero    int64 // the fault, by which pictures are aligned
	records []record
}

// span is a hold, by what its holder believed.
type span struct {
	who    string
	fence  string
	begin  int64   // when its acquire returned
	claims []int64 // the moments at which it believed
}

func (s span) first() int64 { return s.claims[0] }
func (s span) last() int64  { return s.claims[len(s.claims)-1] }

// spans are the holds of a trace, in the order in which they began.
func spans(records []record) []span {
	var all []span
	open := map[string]int{} // the last of each holder
	for _, r := range inOrder(records) {
		switch r.What {
		case acquired:
			open[r.Who] = len(all)
			all = append(all, span{who: r.Who, fence: r.Fence, begin: r.At})
		case holds:
			if i, ok := open[r.Who]; ok {
				all[i].claims = append(all[i].claims, r.At)
			}
		case releasing:
			delete(open, r.Who)
		}
	}
	return all
}

func inOrder(records []record) []record {
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b record) int { return int(max(-1, min(1, a.At-b.At))) })
	return sorted
}

// twoHolders is for how long two holders of the trace believed at once. A belief is
// known at the moments of the looks, and nothing is claimed of a process that stands
// still: of each two holds it is the shorter of what one's looks show within the
// other's.
func twoHolders(all []span) time.Duration {
	var longest time.Duration
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.who != b.who {
				longest = max(longest, min(within(a, b), within(b, a)))
			}
		}
	}
	return longest
}

// within is how long a's looks lie within b's hold.
func within(a, b span) time.Duration {
	if len(a.claims) == 0 || len(b.claims) == 0 {
		return 0
	}
	var first, last int64
	for _, at := range a.claims {
		if at < b.first() || at > b.last() {
			continue
		}
		if first == 0 {
			first = at
		}
		last = at
	}
	if first == 0 {
		return 0
	}
	return between(first, last) + lookEvery
}

// learned is who first told the holder that it holds no longer, not before from, and
// when.
func learned(records []record, who string, from int64) (by string, at int64) {
	for _, r := range inOrder(records) {
		if r.Who != who || r.At < from {
			continue
		}
		if r.What == told || r.What == ended {
			return r.Text, r.At
		}
	}
	return "", 0
}

// rising tells whether each hold's number is greater than the one before. Without
// numbers it is not.
func rising(fences []string) bool {
	var last *big.Int
	for _, text := range fences {
		n, ok := new(big.Int).SetString(text, 10)
		if !ok || last != nil && n.Cmp(last) <= 0 {
			return false
		}
		last = n
	}
	return last != nil
}

// judge fills in what follows from the trace. The holder is who had the lock at the
// fault; told is the moment from which it can learn of a loss.
func (o *outcome) judge(records []record, holder string, told int64) {
	o.records = records
	all := spans(records)
	o.Two = twoHolders(all)
	for _, s := range all {
		o.Fences = append(o.Fences, s.fence)
	}
	o.Rising = rising(o.Fences)
	if holder == "" {
		return
	}
	by, at := learned(records, holder, told)
	if at != 0 {
		o.Told, o.After = by, between(told, at)
	}
	for _, s := range all {
		if s.who != holder && s.begin > o.zero && (at == 0 || s.begin < at) {
			o.Late = true
		}
	}
}

// breach is whether two had what one must have: where nobody is locked out, a late write
// that was not refused.
func (o *outcome) breach() bool {
	if o.Optimistic {
		return o.Write != "" && o.Write != writeRefused
	}
	return o.Two > 0
}
