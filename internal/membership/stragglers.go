package membership

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Stragglers are clients of the list before the latest: the next change ends their locks. Each
// leaves a sign on the nodes that vote for it, when it verifies them, so that an operator
// knows. Others leave none. They are dated by the nodes' clocks. By them an operator is asked; no
// vote rests on one.

const (
	// SignEvery is how old a straggler's sign may get while it uses the node.
	SignEvery = time.Minute
	// SignFor is how long a sign counts: a client that was idle for longer is not told of.
	SignFor = time.Hour
	// signSlack is beside a renewal's time: for what is under way, and a late timer.
	signSlack = 2 * time.Second
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

// Named are stragglers in words.
func Named(seen []Straggler) string {
	var who []string
	for _, s := range seen {
		who = append(who, fmt.Sprintf("%s (%s)", fault.Printable(s.Name), s.When()))
	}
	return strings.Join(who, ", ")
}

// Sign is a straggler's sign for a node that showed this, and its field.
func (o Observation) Sign(name string) (slot, sign string) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return SignSlots[h.Sum32()%signSlots], fmt.Sprintf("%d %d %s", o.Record.Gen, o.Time.Unix(), name)
}

// Straggles tells whether a node with this record votes for our list as the one before its own.
func (t *Tracker) Straggles(r Record) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.Equal(r.Names, t.config.sorted) && !r.Settled && slices.Equal(r.Before, t.config.sorted) &&
		len(without(r.Names, t.config.Names)) > 0 // else it goes over
}

// Stragglers are the clients of the list before the one of that generation, by each node's signs:
// the one seen last comes first. Signs of an earlier list say nothing any more.
func (v View) Stragglers(generation int, signs [][]any) (out []Straggler) {
	for i, node := range v.Nodes {
		for _, sign := range signs[i] {
			text, _ := sign.(string)
			words := strings.SplitN(text, " ", 3)
			if len(words) < 3 || words[0] != strconv.Itoa(generation) {
				continue
			}
			at, err := strconv.ParseInt(words[1], 10, 64)
			s := Straggler{words[2], max(node.Time.Sub(time.Unix(at, 0)), 0).Truncate(time.Second)}
			k := slices.IndexFunc(out, func(o Straggler) bool { return o.Name == s.Name })
			switch {
			case err != nil || node.Time.IsZero() || s.Seen > SignFor:
			case k < 0:
				out = append(out, s)
			default:
				out[k].Seen = min(out[k].Seen, s.Seen)
			}
		}
	}
	slices.SortFunc(out, func(a, b Straggler) int { return cmp.Or(cmp.Compare(a.Seen, b.Seen), cmp.Compare(a.Name, b.Name)) })
	return out
}

// signsBy is how long a client that holds a lock takes at most to leave its first sign on a node
// with a new list: it renews the lock at a third of the lease. One that only waits may leave none.
func (v View) signsBy() time.Duration { return v.wait()/3 + signSlack }

// UntilIdle is how long ago a straggler that holds a lock may have left its last sign.
func (v View) UntilIdle() time.Duration { return SignEvery + v.signsBy() }

// AtWork are the stragglers that may hold a lock: these sign again and again. Others idle, or are
// gone.
func (v View) AtWork(seen []Straggler) (out []Straggler) {
	for _, s := range seen {
		if s.Seen <= v.UntilIdle() {
			out = append(out, s)
		}
	}
	return out
}

// Unsigned is for how much longer a straggler at work may have left no sign, since a node has
// had the list only since lately; waited is for how long somebody has waited for that, for a
// node whose clock was set back. A node that joined with the list does not count: by MaxTTL
// earlier others had it.
func (v View) Unsigned(c Change, waited time.Duration) (left time.Duration) {
	for _, o := range v.Nodes {
		if age := o.Time.Sub(o.Record.Since); o.ofCluster(c.Cluster) && o.Record.Gen == c.Gen && !o.Record.Since.IsZero() {
			left = max(left, v.signsBy()-max(age, waited))
		}
	}
	return left
}

// Spares reports whether clients of the list before that lack a node have a quorum left, which the
// change will take away.
func (c Change) Spares(v View) bool {
	settled := 0
	for i, o := range v.Nodes {
		if slices.Contains(c.From.Names, v.Names[i]) && o.ofCluster(c.Cluster) && o.Record.Gen == c.Gen && o.Record.Settled {
			settled++
		}
	}
	return c.Gen > 0 && !c.Begun() && len(without(c.From.Names, c.Before)) > 0 && settled < quorum.Size(len(c.From.Names))
}

// Pending is the change that has begun, in words. Until a node has accepted it, nobody can tell
// what it is. It is empty if none has begun.
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
	if to.Names == nil {
		return notProposed
	}
	return v.newest.changeTo(to.Configuration)
}

// Again is the change that has begun as arguments of redlock nodes change, which finish it; empty
// if none has begun, or nobody can tell what it is.
func (v View) Again() string {
	flags := strings.NewReplacer("\nadd ", " --add ", "\nremove ", " --remove ", "\nMaxTTL ", " --max-ttl ", "\nstrict recovery ", " --strict ", "\n"+CloseWords, " --"+CloseWords)
	if pending := v.Pending(); pending != "" && pending != notProposed {
		return flags.Replace("\n" + strings.ReplaceAll(pending, ", ", "\n"))
	}
	return ""
}

const (
	// CloseWords are a change that proposes the same again.
	CloseWords = "close"
	// notProposed are one of which nobody can tell what it is.
	notProposed = "not yet proposed"
)

// changeTo says how the other differs from this one.
func (c Configuration) changeTo(to Configuration) string {
	var words []string
	for _, name := range without(to.Names, c.Names) {
		words = append(words, "add "+name)
	}
	for _, name := range without(c.Names, to.Names) {
		words = append(words, "remove "+name)
	}
	if to.MaxTTL != c.MaxTTL {
		words = append(words, fmt.Sprintf("MaxTTL %v", to.MaxTTL))
	}
	if to.Strict != c.Strict {
		words = append(words, map[bool]string{true: "strict recovery on", false: "strict recovery off"}[to.Strict])
	}
	if words == nil {
		return CloseWords
	}
	return strings.Join(words, ", ")
}

// without are the names of a list that the other lacks.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(other, name) })
}
