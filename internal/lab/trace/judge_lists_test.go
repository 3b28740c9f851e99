package trace_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// A generation has one list, which operators wanted; and what one was told is done is in the
// latest.
func TestAListIsOneThatAnOperatorWanted(t *testing.T) {
	changes := func(k trace.Kind, node int, list string) trace.Record {
		r := trace.Fault{Kind: trace.ListChange, Node: node}.Record(k, []string{"n0", "n1", "n2", "n3", "n4"})
		r.Value = list
		return r
	}
	adds := func(k trace.Kind, list string) trace.Record { return changes(k, 2, list) }
	shows := func(node, gen, list string) trace.Record {
		return trace.Record{Kind: trace.Listed, Node: node, Text: gen, Value: list}
	}
	first, second := shows("n0", "0", "n0 n1"), shows("n0", "1", "n0 n1 n2")
	begins, done := adds(trace.Broke, "0 1"), adds(trace.Mended, "0 1 2")
	beside, both := changes(trace.Broke, 3, "0 1"), shows("n0", "2", "n0 n1 n2 n3")
	for name, c := range map[string]struct {
		records []trace.Record
		breaks  trace.Rule // empty if none is broken
	}{
		"one is added":                         {[]trace.Record{first, begins, second, done}, ""},
		"one that nobody wanted":               {[]trace.Record{first, second}, trace.WrongList},
		"two at once":                          {[]trace.Record{first, begins, shows("n0", "1", "n0 n2")}, trace.WrongList},
		"two lists of a generation":            {[]trace.Record{first, begins, second, shows("n1", "1", "n0 n1 n3")}, trace.WrongList},
		"a node that is behind":                {[]trace.Record{first, begins, second, shows("n1", "0", "n0 n1"), done}, ""},
		"told done, and it is not":             {[]trace.Record{first, begins, done}, trace.WrongList},
		"not done, and nobody is told":         {[]trace.Record{first, begins, adds(trace.Mended, "0 1")}, ""},
		"told done, where nobody sees records": {[]trace.Record{begins, done}, ""},
		"another cluster is founded":           {[]trace.Record{first, shows("n0", "0", "n0 n3")}, ""},
		"taken out by nobody":                  {[]trace.Record{first, begins, second, shows("n0", "2", "n0 n1")}, trace.WrongList},
		"out where an operator wants it in":    {[]trace.Record{shows("n0", "0", "n0 n1 n2"), begins, shows("n0", "1", "n0 n1")}, trace.WrongList},
		"in and out, one after the other":      {[]trace.Record{first, begins, second, done, adds(trace.Broke, "0 1 2"), shows("n0", "2", "n0 n1")}, ""},
		"two, and one generation was not seen": {[]trace.Record{first, begins, beside, both}, ""},
		"that one is seen later":               {[]trace.Record{first, begins, beside, both, second}, ""},
		"that one is seen later, and is wrong": {[]trace.Record{first, begins, beside, both, shows("n0", "1", "n0 n2 n3")}, trace.WrongList},
		"not seen, and one nobody wanted":      {[]trace.Record{first, begins, both}, trace.WrongList},
		"three in two generations":             {[]trace.Record{first, begins, beside, changes(trace.Broke, 4, "0 1"), shows("n0", "2", "n0 n1 n2 n3 n4")}, trace.WrongList},
		"founded anew, and changed":            {[]trace.Record{first, begins, second, shows("n0", "0 new", "n0 n1"), shows("n0", "1 new", "n0 n1 n2"), shows("n1", "1", "n0 n2"), done}, ""},
		"founded anew, and not changed":        {[]trace.Record{first, begins, second, shows("n0", "0 new", "n0 n1"), done}, trace.WrongList},
		"a generation below 0":                 {[]trace.Record{shows("n0", "-1", "n0")}, trace.Malformed},
		"no generation":                        {[]trace.Record{shows("n0", "x", "n0")}, trace.Malformed},
	} {
		for i := range c.records {
			c.records[i].At = time.Duration(i) * time.Millisecond
		}
		v := trace.Judge{}.Judge(c.records)
		if c.breaks == "" && len(v.Violations) > 0 || c.breaks != "" && (len(v.Violations) != 1 || v.Violations[0].Rule != c.breaks) {
			t.Errorf("%s: got %v; want %q", name, v.Violations, c.breaks)
		}
	}
}
