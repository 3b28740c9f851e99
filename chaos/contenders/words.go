package contenders

import (
	"fmt"
	"strings"
	"time"
)

// String is the outcome in the words of the table.
func (o *outcome) String() string {
	switch {
	case o.Skipped != "":
		return "not played: " + o.Skipped
	case o.Failed != "":
		return "no result: " + o.Failed
	case o.Optimistic:
		return o.workWords()
	case o.Scenario == "hand-over":
		return short(o.Next)
	case o.Scenario == "hung-server":
		return o.roundTrips()
	}
	var parts []string
	switch {
	case o.Two > lookEvery:
		parts = append(parts, "**two holders for "+short(o.Two)+"**")
	case o.Two > 0:
		parts = append(parts, "**two holders** at one look")
	}
	parts = append(parts, o.nextWords())
	if words := o.toldWords(); words != "" {
		parts = append(parts, words)
	}
	return strings.Join(parts, "; ")
}

// workWords is the outcome where nobody is locked out: that two are at work is so by
// design, and the late write must not be one of two.
func (o *outcome) workWords() string {
	var parts []string
	if o.Two > 0 {
		parts = append(parts, "two at work")
	}
	switch {
	case o.Next == 0:
		parts = append(parts, "no write of the next one within "+short(patience))
	case o.Scenario == "hand-over":
		parts = append(parts, "nobody waits: at work again after "+short(o.Next))
	case o.Scenario == "given-up":
		parts = append(parts, "at work after "+short(o.Next))
	default:
		parts = append(parts, "next one's write after "+short(o.Next))
	}
	switch o.Write {
	case "":
	case writeRefused:
		parts = append(parts, "late write refused")
	default:
		parts = append(parts, "**late write: "+o.Write+"**")
	}
	return strings.Join(parts, "; ")
}

// roundTrips is how long it took to get a lock and to give it back.
func (o *outcome) roundTrips() string {
	words := roundTrip(o.Next, o.GivenBack)
	if o.Plain {
		words += "; as it comes: " + roundTrip(o.PlainNext, o.PlainGivenBack)
	}
	return words
}

func roundTrip(taken, back time.Duration) string {
	if taken == 0 {
		return fmt.Sprintf("nobody held within %s", short(hungBound))
	}
	return fmt.Sprintf("held after %s, given back in %s", short(taken), short(back))
}

func (o *outcome) nextWords() string {
	switch {
	case o.Next == 0:
		return fmt.Sprintf("nobody held within %s", short(patience))
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
	switch o.Scenario {
	case "hand-over", "holder-killed", "given-up":
		return ""
	}
	switch {
	case o.Kept && o.Told == "":
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
