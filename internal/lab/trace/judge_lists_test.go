package trace_test

import (
	"slices"
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

// The same of MaxTTL and strict recovery, and no lock has a longer lease than two generations
// allow.
func TestMaxTTLAndStrictRecoveryAreWhatAnOperatorWanted(t *testing.T) {
	wants := func(maxTTL time.Duration, strict string) (begins, done trace.Record) {
		f := trace.Fault{Kind: trace.ListChange, Node: trace.Everything, MaxTTL: maxTTL, Strict: strict}
		begins, done = f.Record(trace.Broke, nil), f.Record(trace.Mended, nil)
		done.Text = trace.Done(f)
		return begins, done
	}
	shows := func(text string) trace.Record {
		return trace.Record{Kind: trace.Listed, Node: "n0", Text: text, Value: "n0 n1"}
	}
	on := func(node string, r trace.Record) trace.Record {
		r.Node = node
		return r
	}
	holds := func(hold int64, lease time.Duration) []trace.Record {
		asked := trace.Record{Kind: trace.Asked, Client: "ann", Resource: "report", Hold: hold}
		held := asked
		held.Kind, held.Until = trace.Held, lease // from when it is held
		gives := asked
		gives.Kind = trace.Released
		return []trace.Record{asked, held, gives}
	}
	first, longer, shorter, strict := shows("0 c 4000ms"), shows("1 c 6000ms"), shows("1 c 2000ms"), shows("1 c 4000ms strict")
	six, sixDone := wants(6*time.Second, "")
	two, twoDone := wants(2*time.Second, "")
	on4, onDone := wants(0, trace.StrictOn)
	off, offDone := wants(0, trace.StrictOff)
	notDone := sixDone
	notDone.Text = six.Text
	later := trace.Record{Kind: trace.Noted, At: time.Minute}
	for name, c := range map[string]struct {
		records []trace.Record
		breaks  trace.Rule // empty if none is broken
	}{
		"MaxTTL is longer":                      {[]trace.Record{first, six, longer, sixDone}, ""},
		"one that nobody wanted":                {[]trace.Record{first, two, longer}, trace.WrongList},
		"it is longer, and nobody asked":        {[]trace.Record{first, longer}, trace.WrongList},
		"two of one generation":                 {[]trace.Record{first, six, two, longer, on("n1", shorter)}, trace.WrongList},
		"strict in one of one generation":       {[]trace.Record{first, on4, shows("1 c 4000ms"), on("n1", strict)}, trace.WrongList},
		"told done, and it is not":              {[]trace.Record{first, six, sixDone}, trace.WrongList},
		"not done, and nobody is told":          {[]trace.Record{first, six, notDone}, ""},
		"the first of two rivals wins":          {[]trace.Record{first, six, two, shorter, twoDone, shows("2 c 6000ms"), sixDone}, ""},
		"the last of two rivals wins":           {[]trace.Record{first, six, two, longer, sixDone, shows("2 c 2000ms"), twoDone}, ""},
		"the earlier one comes back":            {[]trace.Record{first, six, longer, sixDone, two, shows("2 c 2000ms"), twoDone, shows("3 c 6000ms")}, trace.WrongList},
		"strict":                                {[]trace.Record{first, on4, strict, onDone, off, shows("2 c 4000ms"), offDone}, ""},
		"strict, and nobody asked":              {[]trace.Record{first, strict}, trace.WrongList},
		"strict no more, and nobody asked":      {[]trace.Record{first, on4, strict, onDone, shows("2 c 4000ms")}, trace.WrongList},
		"told that it is strict, and it is not": {[]trace.Record{first, on4, onDone}, trace.WrongList},
		"founded anew, though strict":           {[]trace.Record{first, on4, strict, onDone, shows("0 d 4000ms strict")}, trace.WrongList},
		"founded anew, as strict is to end":     {[]trace.Record{first, on4, strict, onDone, off, shows("0 d 4000ms")}, ""},
		"founded anew":                          {[]trace.Record{first, shows("0 d 4000ms")}, ""},
		"a lease of MaxTTL":                     {append([]trace.Record{first}, holds(1, 4*time.Second)...), ""},
		"a longer one":                          {append([]trace.Record{first}, holds(1, 5*time.Second)...), trace.LongLease},
		"of the MaxTTL before":                  {append([]trace.Record{first, two, shorter}, holds(1, 4*time.Second)...), ""},
		"of the one before that":                {append([]trace.Record{first, two, shorter, shows("2 c 2000ms")}, holds(1, 4*time.Second)...), trace.LongLease},
		"of one that shows a moment later":      {append(append([]trace.Record{first, six}, holds(1, 5*time.Second)...), longer), ""},
		"of one that shows much later":          {append(append([]trace.Record{first, six}, holds(1, 5*time.Second)...), later, longer), trace.LongLease},
		"of a cluster before":                   {append([]trace.Record{shows("0 c 6000ms"), shows("0 d 4000ms")}, holds(1, 5*time.Second)...), ""},
		"of a generation that was not seen":     {append([]trace.Record{first, two, shows("2 c 2000ms")}, holds(1, 5*time.Second)...), ""},
		"a MaxTTL that is not told":             {append([]trace.Record{shows("0 c")}, holds(1, 5*time.Second)...), ""},
	} {
		at := time.Duration(0)
		for i := range c.records {
			r := &c.records[i]
			at = max(at+time.Millisecond, r.At)
			if r.At = at; r.Kind == trace.Held {
				r.Until += at
			}
		}
		v := trace.Judge{}.Judge(c.records)
		if c.breaks == "" && len(v.Violations) > 0 || c.breaks != "" && !slices.Equal(v.Broken(), []trace.Rule{c.breaks}) {
			t.Errorf("%s: got %v; want %q", name, v.Violations, c.breaks)
		}
	}
}

// A lease that is lengthened counts, too.
func TestALeaseIsNotLengthenedBeyondMaxTTL(t *testing.T) {
	of := trace.Record{Client: "ann", Resource: "report", Hold: 1}
	kind := func(k trace.Kind, at, until int) trace.Record {
		r := of
		r.Kind, r.At, r.Until = k, time.Duration(at)*time.Second, time.Duration(until)*time.Second
		return r
	}
	listed := trace.Record{Kind: trace.Listed, Node: "n0", Text: "0 c 4000ms", Value: "n0"}
	for until, want := range map[int]int{7: 0, 8: 1} {
		v := trace.Judge{}.Judge([]trace.Record{listed, kind(trace.Asked, 1, 0), kind(trace.Held, 2, 6), kind(trace.Extended, 3, until)})
		if v.Count(trace.LongLease) != want || len(v.Violations) != want {
			t.Errorf("up to %d s: got %v; want %d long leases", until, v.Violations, want)
		}
	}
}
