package page

import (
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/lab/report"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

const (
	// A picture shows all of a run that is not longer, and is about no more resources;
	// of others it shows what was broken first.
	wholeFor       = 25 * time.Second
	wholeResources = 3
	// So much before it and behind it: some leases, in which it came about.
	focusBefore = 6 * time.Second
	focusBehind = 3 * time.Second
)

// focus is the part of a run that its picture is about.
type focus struct {
	resource    string
	from, until time.Duration
}

// focusOf is the part in which the first rule was broken; false: the picture shows all.
func focusOf(line report.Timeline, v trace.Verdict) (focus, bool) {
	i := slices.IndexFunc(v.Violations, func(v trace.Violation) bool { return v.Resource != "" })
	resources := map[string]bool{}
	for _, w := range line.Waits {
		resources[w.Resource] = true
	}
	if i < 0 || line.End-line.Begin <= wholeFor && len(resources) <= wholeResources {
		return focus{}, false
	}
	first := v.Violations[i]
	return focus{first.Resource, max(first.At-focusBefore, line.Begin), min(first.At+focusBehind, line.End)}, true
}

// of is what of a timeline is in focus: what befalls the resource, who wants it, and what
// befalls the nodes and those clients then.
func (f focus) of(line report.Timeline) report.Timeline {
	in := func(resource string, from, until time.Duration) bool {
		return resource == f.resource && f.sees(from, until)
	}
	line.Beliefs = kept(line.Beliefs, func(b report.Belief) bool { return in(b.Resource, b.From, b.Until) })
	for i := range line.Beliefs {
		b := &line.Beliefs[i]
		b.Extended = kept(b.Extended, func(at time.Duration) bool { return f.sees(at, at) })
	}
	line.Waits = kept(line.Waits, func(w report.Wait) bool { return in(w.Resource, w.From, w.Until) })
	line.Keys = kept(line.Keys, func(k report.Key) bool { return in(k.Resource, k.From, k.Until) })
	line.Sights = kept(line.Sights, func(s report.Sight) bool { return in(s.Resource, s.From, s.Until) })
	line.Grants = kept(line.Grants, func(g report.Grant) bool { return in(g.Resource, g.Released, g.Until) })
	line.Writes = kept(line.Writes, func(w report.Write) bool { return in(w.Resource, w.At, w.At) })
	line.Overlaps = kept(line.Overlaps, func(o report.Overlap) bool { return in(o.Resource, o.From, o.Until) })
	line.States = kept(line.States, func(s report.State) bool { return f.sees(s.From, s.Until) })
	line.Faults = kept(line.Faults, func(s report.Fault) bool { return f.sees(s.From, s.Until) })
	line.Clients = kept(line.Clients, func(client string) bool {
		return slices.ContainsFunc(line.Beliefs, func(b report.Belief) bool { return b.Client == client }) ||
			slices.ContainsFunc(line.Waits, func(w report.Wait) bool { return w.Client == client })
	})
	line.Observers = kept(line.Observers, func(observer string) bool {
		return slices.ContainsFunc(line.Sights, func(s report.Sight) bool { return s.Observer == observer })
	})
	line.Begin, line.End, line.Last = f.from, f.until, min(line.Last, f.until)
	return line
}

// sees tells whether some of that time is in focus.
func (f focus) sees(from, until time.Duration) bool { return from <= f.until && until >= f.from }

// flags are those of the resource in that time.
func (f focus) flags(all []report.Flag) []report.Flag {
	return kept(all, func(v report.Flag) bool { return v.Resource == f.resource && f.sees(v.At, v.At) })
}

// kept are those that are to stay.
func kept[T any](all []T, stays func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !stays(one) })
}
