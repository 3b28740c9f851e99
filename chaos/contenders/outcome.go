package contenders

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// outcome is what a scenario showed of a contender.
type outcome struct {
	Contender, Scenario string
	Skipped             string // why it was not played; empty: it was
	Failed              string // why it has no result; empty: it has one

	Two    time.Duration // two believed at once, for so long; 0: never
	Told   string        // who told the holder first; empty: nobody
	After  time.Duration // of the fault, or of going on
	Late   bool          // the next one held before the holder knew
	Kept   bool          // the holder had the lock to the end
	Answer string        // what a question at the end brought
	Next   time.Duration // until the next one held; 0: it did not. Of hand-over it is the median
	Fences []string      // the numbers of the holds, as they came
	Rising bool          // each was greater than the one before

	Optimistic bool   // nobody was locked out: Next is until a write, and two at work are no breach
	Write      string // what became of the late write, where nobody is locked out; empty: there was none

	GivenBack time.Duration // how long the release took; of hung-server
	// Plain tells whether it was measured with library and client as they come, too.
	Plain                     bool
	PlainNext, PlainGivenBack time.Duration // the same with these; 0: it did not come about

	Records []record
	zero    int64 // the fault, by which pictures are aligned
}

// span is a hold, by what its holder believed.
type span struct {
	who    string
	fence  string
	begin  int64   // when its acquire returned
	claims []int64 // the moments at which it believed
}

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
	return slices.SortedStableFunc(slices.Values(records), func(a, b record) int { return cmp.Compare(a.At, b.At) })
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
	if len(b.claims) == 0 {
		return 0
	}
	inside := slices.DeleteFunc(slices.Clone(a.claims), func(at int64) bool {
		return at < b.claims[0] || at > b.claims[len(b.claims)-1]
	})
	if len(inside) == 0 {
		return 0
	}
	return between(inside[0], inside[len(inside)-1]) + lookEvery
}

// learned is who first told the holder that it holds no longer, not before from, and
// when.
func learned(records []record, who string, from int64) (by string, at int64) {
	for _, r := range inOrder(records) {
		if r.Who == who && r.At >= from && (r.What == told || r.What == ended) {
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
	o.Late = slices.ContainsFunc(all, func(s span) bool {
		return s.who != holder && s.begin > o.zero && (at == 0 || s.begin < at)
	})
}

// breach is whether two had what one must have: where nobody is locked out, a late write
// that was not refused.
func (o *outcome) breach() bool {
	if o.Optimistic {
		return o.Write != "" && o.Write != writeRefused
	}
	return o.Two > 0
}

// String is the outcome in the words of the table.
func (o *outcome) String() string {
	var two, late string
	switch {
	case o.Skipped != "":
		return "not played: " + o.Skipped
	case o.Failed != "":
		return "no result: " + o.Failed
	case o.Optimistic && o.Two > 0:
		two = "two at work"
	case o.Optimistic:
	case o.Scenario == "hand-over":
		return short(o.Next)
	case o.Scenario == "hung-server" && o.Plain:
		return roundTrip(o.Next, o.GivenBack) + "; as it comes: " + roundTrip(o.PlainNext, o.PlainGivenBack)
	case o.Scenario == "hung-server":
		return roundTrip(o.Next, o.GivenBack)
	case o.Two > lookEvery:
		two = "**two holders for " + short(o.Two) + "**"
	case o.Two > 0:
		two = "**two holders** at one look"
	}
	switch {
	case o.Write == writeRefused:
		late = "late write refused"
	case o.Write != "":
		late = "**late write: " + o.Write + "**"
	}
	words := slices.DeleteFunc([]string{two, o.nextWords(), o.toldWords(), late}, func(s string) bool { return s == "" })
	return strings.Join(words, "; ")
}

// roundTrip is how long it took to get a lock and to give it back.
func roundTrip(taken, back time.Duration) string {
	if taken == 0 {
		return "nobody held within " + short(hungBound)
	}
	return fmt.Sprintf("held after %s, given back in %s", short(taken), short(back))
}

// nextWords is how long the next one waited; where nobody is locked out, until its write
// counted.
func (o *outcome) nextWords() string {
	switch {
	case o.Next == 0 && o.Optimistic:
		return "no write of the next one within " + short(patience)
	case o.Next == 0:
		return "nobody held within " + short(patience)
	case o.Scenario == "hand-over": // of those whom nobody locks out
		return "nobody waits: at work again after " + short(o.Next)
	case o.Scenario == "given-up" && o.Optimistic:
		return "at work after " + short(o.Next)
	case o.Optimistic:
		return "next one's write after " + short(o.Next)
	case o.Kept:
		return "kept, then handed on in " + short(o.Next)
	case o.Scenario == "given-up":
		return "free after " + short(o.Next)
	default:
		return "next after " + short(o.Next)
	}
}

// toldWords is who told the holder, in the scenarios in which it lives and loses.
func (o *outcome) toldWords() string {
	switch {
	case o.Optimistic || o.Kept && o.Told == "" || o.Scenario == "holder-killed" || o.Scenario == "given-up":
		return ""
	case o.Kept:
		return fmt.Sprintf("in doubt after %s, by %s", short(o.After), o.Told)
	case o.Told == "":
		return "holder not told; asked: " + o.Answer
	case o.Late:
		return fmt.Sprintf("told after %s by %s, when the next one held", short(o.After), o.Told)
	default:
		return fmt.Sprintf("told after %s by %s", short(o.After), o.Told)
	}
}

// short is a duration to two figures.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + short(-d)
	case d < time.Millisecond:
		return "under 1 ms"
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(10*time.Millisecond).Milliseconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}
