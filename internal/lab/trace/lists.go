package trace

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lists is what a trial knows of the cluster's lists of nodes.
type lists struct {
	cluster string           // whose lists these are: the one that was founded last
	old     map[string]bool  // clusters before it
	of      map[int][]string // by generation: the names
	latest  int              // generation
	was     map[string]bool  // by node that an operator wanted in or out: was it in?
	wants   map[string]bool  // the same until a list shows it: is it to be in?
	done    map[string]bool  // by node of which an operator was told that it is done: is it in?
}

// changed takes in that an operator begins or ends. If it is done, the list is another in its node.
func (l *lists) changed(r Record) {
	if r.Fault == nil || r.Fault.Kind != ListChange {
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

// listed finds a second list of one generation, and one that differs from the generation
// before, as far as that is known, by more than a node each, or by one that no operator wanted
// so. Of a list that is seen after a later one it judges the number alone.
func (t *trial) listed(r Record) {
	l, names := &t.lists, strings.Fields(r.Value)
	text, cluster, _ := strings.Cut(r.Text, " ")
	if l.old[cluster] {
		return // a node that was away
	}
	if cluster != l.cluster && len(l.of) > 0 { // it was founded anew
		l.old[l.cluster] = true
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
	known := l.of[gen]
	switch {
	case err != nil || gen < 0:
		t.found(Malformed, r.At, "", "a list of generation %q", r.Text)
	case gen == 0: // several clusters may have been founded
		l.of[gen] = names
	case known == nil:
		earlier := -1
		for g := range l.of {
			if g < gen {
				earlier = max(earlier, g)
			}
		}
		before := l.of[earlier]
		other := differ(names, before)
		unwanted := func(n string) bool { in, asked := l.wants[n]; return !asked || in != slices.Contains(names, n) }
		if before != nil && (len(other) > gen-earlier || gen > l.latest && slices.ContainsFunc(other, unwanted)) {
			t.found(WrongList, r.At, "", "list %d is %v on %s: nobody wanted that of %v", gen, names, r.Node, before)
		}
		l.of[gen] = names
		if gen > l.latest {
			l.latest = gen
			maps.DeleteFunc(l.wants, func(n string, _ bool) bool { return !unwanted(n) })
		}
	case !slices.Equal(known, names):
		t.found(WrongList, r.At, "", "list %d is %v on %s, and was %v", gen, names, r.Node, known)
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

// listsEnd finds what an operator was told is done, and the latest list does not have.
func (t *trial) listsEnd(now time.Duration) {
	last := t.lists.of[t.lists.latest]
	for node, in := range t.lists.done {
		if last != nil && slices.Contains(last, node) != in {
			t.found(WrongList, now, "", "an operator was told that it is done with %s, and the latest list is %v", node, last)
		}
	}
}
