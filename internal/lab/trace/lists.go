package trace

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// lists is what a trial knows of the cluster's lists of nodes.
type lists struct {
	of     map[int][]string // by generation: the names
	latest int              // generation
	was    map[string]bool  // by node that an operator wanted in or out: was it in?
	done   map[string]bool  // by node of which an operator was told that it is done: is it in?
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
		l.was[r.Node] = in
		delete(l.done, r.Node)
	case begun && was != in:
		l.done[r.Node] = in
	}
}

// listed finds a second list of one generation, and one that differs from the list before in
// more than a node that an operator wanted in or out.
func (t *trial) listed(r Record) {
	l, names := &t.lists, strings.Fields(r.Value)
	gen, err := strconv.Atoi(r.Text)
	known, before := l.of[gen], l.of[gen-1]
	switch {
	case err != nil:
		t.found(Malformed, r.At, "", "a list of generation %q", r.Text)
	case gen == 0: // a retired node may be replaced
		l.of[gen] = names
	case known == nil:
		l.of[gen], l.latest = names, max(l.latest, gen)
		other := differ(names, before)
		if before != nil && (len(other) > 1 || !l.wanted(other)) {
			t.found(WrongList, r.At, "", "list %d is %v on %s: nobody wanted that of %v", gen, names, r.Node, before)
		}
	case !slices.Equal(known, names):
		t.found(WrongList, r.At, "", "list %d is %v on %s, and was %v", gen, names, r.Node, known)
	}
}

// wanted tells whether operators wanted all these nodes in or out.
func (l *lists) wanted(nodes []string) bool {
	return !slices.ContainsFunc(nodes, func(n string) bool { _, asked := l.was[n]; return !asked })
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
