package redlock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
)

// mostNamed is how many names of one node the error of Close spells out.
const mostNamed = 5

// unreleasedError is what the nodes were not seen to release when Close's time was
// over.
type unreleasedError struct{ nodes []unreleased }

// unreleased is what one node did not confirm the release of.
type unreleased struct {
	node  int
	name  string
	names []string
	cause error
}

// Error names the nodes, the names on each, and the cause.
func (e *unreleasedError) Error() string {
	var b strings.Builder
	b.WriteString("redlock: close: not released")
	for i, u := range e.nodes {
		if i > 0 {
			b.WriteString(";")
		}
		fmt.Fprintf(&b, " on node %d (%s)", u.node, u.name)
		for k, name := range u.names[:min(len(u.names), mostNamed)] {
			b.WriteString([]string{": ", ", "}[min(k, 1)] + fault.Printable(name))
		}
		if more := len(u.names) - mostNamed; more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
		b.WriteString(": " + fault.Unnamed(u.cause.Error()))
	}
	return b.String()
}

// Unwrap returns the causes.
func (e *unreleasedError) Unwrap() []error {
	causes := make([]error, len(e.nodes))
	for i, u := range e.nodes {
		causes[i] = u.cause
	}
	return causes
}

// unreleased is what is left on the nodes; nil: nothing. A key whose lease is over
// has ended by itself.
func (l *Locker) unreleased() error {
	var e unreleasedError
	for i, n := range l.nodes {
		u := unreleased{node: i, name: n.Name}
		if u.names, u.cause = n.Unreleased(l.clock.Early()); len(u.names) == 0 {
			continue
		}
		for k, name := range u.names {
			u.names[k] = strings.TrimPrefix(lua.NameOf(name), l.cfg.prefix)
		}
		slices.Sort(u.names)
		u.names = slices.Compact(u.names) // several slots of one name
		e.nodes = append(e.nodes, u)
	}
	if len(e.nodes) == 0 {
		return nil
	}
	return &e
}
