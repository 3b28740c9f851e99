package trace

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lists are the cluster's configurations that a trial has seen.
type lists struct {
	cluster string                // whose they are: the one that was founded last
	old     map[string]bool       // clusters before it
	of      map[int]configuration // by generation
	latest  int                   // generation
	earlier time.Duration         // the longest lease by the cluster before
	was     map[string]bool       // by node that an operator wanted in or out: was it in?
	wants   map[string]bool       // the same until a list shows it: is it to be in?
	done    map[string]bool       // by node of which an operator was told that it is done: is it in?
	maxTTL  wishes[time.Duration]
	strict  wishes[bool]
	long    []longLease // that no configuration allows, as far as is known yet
}

// configuration is that of a node's record.
type configuration struct {
	names  []string
	maxTTL time.Duration // 0: it is not known, nor is strict
	strict bool
}

// longLease is a lease of a hold that was above the longest of then.
type longLease struct {
	of         *attempt
	at         time.Duration
	lease, top time.Duration
}

// A node's record is shown within shownWithin.
const shownWithin = time.Second

// Done is the text of a ListChange that has ended, where its operator was told that it is done.
func Done(f Fault) string { return f.String() + ": done" }

// wish is the value of a field that an operator asks for.
type wish[T comparable] struct {
	fault Fault
	is    T
	begun time.Duration
	ended time.Duration // Forever: not yet
	done  bool
}

type wishes[T comparable] []wish[T]

func (w *wishes[T]) begin(r Record, is T) {
	*w = append(*w, wish[T]{fault: *r.Fault, is: is, begun: r.At, ended: Forever})
}

func (w wishes[T]) end(r Record) {
	for i := range w {
		if w[i].fault == *r.Fault && w[i].ended == Forever {
			w[i].ended, w[i].done = r.At, r.Text == Done(*r.Fault)
		}
	}
}

// stands reports whether an operator asks for that value, or has, and no later one was told that
// another is in force. Of those at work at once each may be the last.
func (w wishes[T]) stands(is T) bool {
	return slices.ContainsFunc(w, func(o wish[T]) bool {
		return o.is == is && !slices.ContainsFunc(w, func(later wish[T]) bool { return later.done && later.begun > o.ended })
	})
}

// kept reports whether no operator was told that it is done.
func (w wishes[T]) kept() bool {
	return !slices.ContainsFunc(w, func(o wish[T]) bool { return o.done })
}

// changed takes in that an operator begins or ends. If it is done, the list is another in its node.
func (l *lists) changed(r Record) {
	if r.Fault == nil || r.Fault.Kind != ListChange {
		return
	}
	if r.Kind == Broke {
		if r.Fault.MaxTTL != 0 {
			l.maxTTL.begin(r, r.Fault.MaxTTL)
		}
		if r.Fault.Strict != "" {
			l.strict.begin(r, r.Fault.Strict == StrictOn)
		}
	} else {
		l.maxTTL.end(r)
		l.strict.end(r)
	}
	if r.Fault.Node == Everything {
		return
	}
	in := slices.Contains(strings.Fields(r.Value), strconv.Itoa(r.Fault.Node))
	was, begun := l.was[r.Node]
	switch {
	case r.Kind == Broke:
		l.was[r.Node], l.wants[r.Node] = in, !in
		delete(l.done, r.Node)
	case begun && was != in:
		l.done[r.Node] = in
	}
}

// listed finds a second configuration of one generation, and one that differs from the generation
// before, as far as that is known, by more than a node each, or by what no operator wanted
// so. Of one that is seen after a later one it judges the number of nodes alone.
func (t *trial) listed(r Record) {
	l, words := &t.lists, strings.Fields(r.Text)
	text, cluster, now := "", "", configuration{names: strings.Fields(r.Value)}
	if len(words) > 0 {
		text = words[0]
	}
	if len(words) > 1 {
		cluster = words[1]
	}
	if len(words) > 2 {
		now.maxTTL, _ = time.ParseDuration(words[2])
		now.strict = slices.Contains(words[3:], "strict")
	}
	if l.old[cluster] {
		return // a node that was away
	}
	if cluster != l.cluster && len(l.of) > 0 { // it was founded anew
		if last := l.of[l.latest]; last.strict && now.maxTTL != 0 && !l.strict.stands(false) {
			t.found(WrongList, r.At, "", "%s is of cluster %s, which was founded anew, though recovery was strict", r.Node, cluster)
		}
		l.old[l.cluster] = true
		l.earlier = l.longest()
		clear(l.of)
		l.latest = 0
		for node, was := range l.was { // what is not done is done once more
			if _, done := l.done[node]; !done {
				l.wants[node] = !was
			}
		}
	}
	l.cluster = cluster
	gen, err := strconv.Atoi(text)
	known, seen := l.of[gen]
	switch {
	case err != nil || gen < 0:
		t.found(Malformed, r.At, "", "a list of generation %q", r.Text)
	case gen == 0: // several clusters may have been founded
		l.of[gen] = now
	case !seen:
		t.follows(r, gen, now)
	case !known.equal(now):
		t.found(WrongList, r.At, "", "configuration %d is %v on %s, and was %v", gen, now, r.Node, known)
	}
	t.longLeases(r.At)
}

func (c configuration) equal(o configuration) bool {
	return slices.Equal(c.names, o.names) && c.maxTTL == o.maxTTL && c.strict == o.strict
}

// follows takes in a generation that was not seen before.
func (t *trial) follows(r Record, gen int, now configuration) {
	l, earlier := &t.lists, -1
	for g := range l.of {
		if g < gen {
			earlier = max(earlier, g)
		}
	}
	before, known := l.of[earlier]
	other := differ(now.names, before.names)
	unwanted := func(n string) bool { in, asked := l.wants[n]; return !asked || in != slices.Contains(now.names, n) }
	switch {
	case !known:
	case len(other) > gen-earlier || gen > l.latest && slices.ContainsFunc(other, unwanted):
		t.found(WrongList, r.At, "", "list %d is %v on %s: nobody wanted that of %v", gen, now.names, r.Node, before.names)
	case gen < l.latest || now.maxTTL == 0 || before.maxTTL == 0:
	case now.maxTTL != before.maxTTL && !l.maxTTL.stands(now.maxTTL):
		t.found(WrongList, r.At, "", "the MaxTTL of generation %d is %v on %s: nobody wanted that of %v", gen, now.maxTTL, r.Node, before.maxTTL)
	case now.strict != before.strict && !l.strict.stands(now.strict):
		t.found(WrongList, r.At, "", "strict recovery of generation %d is %t on %s: nobody wanted that", gen, now.strict, r.Node)
	}
	l.of[gen] = now
	if gen > l.latest {
		l.latest = gen
		maps.DeleteFunc(l.wants, func(n string, _ bool) bool { return !unwanted(n) })
	}
}

// differ are the names that one of the two lists has alone.
func differ(a, b []string) (only []string) {
	for _, name := range slices.Concat(a, b) {
		if slices.Contains(a, name) != slices.Contains(b, name) {
			only = append(only, name)
		}
	}
	return only
}

// longest is the longest lease that nodes vote for: with the latest generation one may be in
// force on some of them that is not seen yet, and the one before still is. 0: it is not known.
func (l *lists) longest() time.Duration {
	last, ok := l.of[l.latest]
	before, known := l.of[l.latest-1]
	switch {
	case !ok || last.maxTTL == 0 || l.latest > 0 && before.maxTTL == 0:
		return 0
	case known:
		return max(last.maxTTL, before.maxTTL)
	}
	return max(last.maxTTL, l.earlier)
}

// lasts takes in for how long a hold is.
func (t *trial) lasts(h *attempt, r Record) {
	if top := t.lists.longest(); r.Until != 0 && top != 0 && r.Until-r.At > top {
		t.lists.long = append(t.lists.long, longLease{h, r.At, r.Until - r.At, top})
	}
}

// longLeases finds leases that are above the longest by what is known now, of those that were so
// by what was known then.
func (t *trial) longLeases(now time.Duration) {
	top := t.lists.longest()
	t.lists.long = slices.DeleteFunc(t.lists.long, func(o longLease) bool {
		late := now-o.at > shownWithin
		if late {
			t.found(LongLease, o.at, o.of.resource.name, "%s (hold %d) holds for %v, and the longest lease is %v", o.of.client, o.of.id, o.lease, o.top)
		}
		return late || o.lease <= top
	})
}

// listsEnd finds what an operator was told is done, and the latest configuration does not have.
func (t *trial) listsEnd(now time.Duration) {
	t.longLeases(Forever)
	l := &t.lists
	last, known := l.of[l.latest]
	for node, in := range l.done {
		if known && slices.Contains(last.names, node) != in {
			t.found(WrongList, now, "", "an operator was told that it is done with %s, and the latest list is %v", node, last.names)
		}
	}
	if last.maxTTL == 0 {
		return
	}
	if !l.maxTTL.kept() && !l.maxTTL.stands(last.maxTTL) {
		t.found(WrongList, now, "", "an operator was told that its MaxTTL is in force, and the latest is %v", last.maxTTL)
	}
	if !l.strict.kept() && !l.strict.stands(last.strict) {
		t.found(WrongList, now, "", "an operator was told that it is done with strict recovery, and the latest is %t", last.strict)
	}
}
