package membership

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stragglers are clients of the list before the latest: the next change ends their locks. Each
// leaves a sign on the nodes that vote for it, when it verifies them, so that an operator
// knows. Others leave none. Signs decide nothing. They are dated by the clients' wall clocks.

const (
	// SignEvery is how old a straggler's sign may get while it uses the node.
	SignEvery = time.Minute
	// SignFor is how long a sign counts: a client that was idle for longer is not told of.
	SignFor = time.Hour
	// signSlots bounds the signs on a node, no matter how many processes come and go. Of two
	// stragglers in one slot the later is told of.
	signSlots = 64
)

// SignSlots are the fields in which signs stand.
var SignSlots = func() (slots [signSlots]string) {
	for i := range slots {
		slots[i] = strconv.Itoa(i)
	}
	return slots
}()

// Straggler is a client of the list before the latest, and how long ago it left its sign.
type Straggler struct {
	Name string
	Seen time.Duration
}

// When is in words how long ago: a client that is at work may not have signed again yet.
func (s Straggler) When() string {
	if s.Seen <= SignEvery+10*time.Second {
		return "within the last minute"
	}
	return s.Seen.String() + " ago"
}

// Sign is a straggler's sign for a node with this record, and its field.
func (r Record) Sign(name string, at time.Time) (slot, sign string) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return SignSlots[h.Sum32()%signSlots], fmt.Sprintf("%d %d %s", r.Gen, at.Unix(), name)
}

// Straggles tells whether a node with this record votes for our list as the one before its own.
func (t *Tracker) Straggles(r Record) bool {
	return !slices.Equal(r.Names, t.config.sorted) && !r.Settled && slices.Equal(r.Before, t.config.sorted)
}

// Stragglers are the clients of the list before the one of that generation, by the nodes' signs: the one seen
// last comes first. Signs of an earlier list say nothing any more.
func Stragglers(generation int, signs [][]any, now time.Time) (out []Straggler) {
	for _, sign := range slices.Concat(signs...) {
		text, _ := sign.(string)
		words := strings.SplitN(text, " ", 3)
		if len(words) < 3 || words[0] != strconv.Itoa(generation) {
			continue
		}
		at, err := strconv.ParseInt(words[1], 10, 64)
		s := Straggler{words[2], max(now.Sub(time.Unix(at, 0)), 0).Truncate(time.Second)}
		k := slices.IndexFunc(out, func(o Straggler) bool { return o.Name == s.Name })
		switch {
		case err != nil || s.Seen > SignFor:
		case k < 0:
			out = append(out, s)
		default:
			out[k].Seen = min(out[k].Seen, s.Seen)
		}
	}
	slices.SortFunc(out, func(a, b Straggler) int { return cmp.Or(cmp.Compare(a.Seen, b.Seen), cmp.Compare(a.Name, b.Name)) })
	return out
}

// Pending is the change of the latest list that has begun: "add d", "shrink c" or "settle". Until
// a node has accepted it, nobody can tell which of them it is. It is empty if none has begun.
func (v View) Pending() string {
	if !v.changing() {
		return ""
	}
	var to Proposed
	for _, o := range v.Nodes {
		if p := o.Record.Proposed; v.atNewest(o) && p.Ballot > to.Ballot {
			to = p
		}
	}
	fresh, gone := without(to.Names, v.newest.Names), without(v.newest.Names, to.Names)
	switch {
	case to.Names == nil:
		return "add, shrink or settle"
	case len(fresh) > 0:
		return "add " + fresh[0]
	case len(gone) > 0:
		return "shrink " + gone[0]
	}
	return "settle"
}

// without are the names of a list that the other lacks.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(other, name) })
}
