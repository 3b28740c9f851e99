package membership_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
)

// What a node shows, and what that makes it.

func TestStandings(t *testing.T) {
	other := func(n int, cluster, run string, names ...string) *membership.Record {
		r := recordOf("e", cluster, run, names[:n], maxTTL, 0)
		return &r
	}
	for name, c := range map[string]struct {
		s     membership.Observation
		state membership.State
	}{
		"a record of this run":       {observed(0, "r", other(3, "c1", "r", "a", "b", "c"), 0, membership.Notice{}), membership.Member},
		"a record of another run":    {observed(0, "r2", other(3, "c1", "r", "a", "b", "c"), 0, membership.Notice{}), membership.Blank},
		"nothing":                    {observed(0, "r", nil, 0, membership.Notice{}), membership.Blank},
		"another N":                  {observed(0, "r", other(2, "c1", "r", "a", "b"), 0, membership.Notice{}), membership.Misconfigured},
		"another cluster":            {observed(0, "r", other(3, "c0", "r", "c", "d", "e"), 0, membership.Notice{}), membership.Foreign},
		"another cluster, restarted": {observed(0, "r2", other(3, "c0", "r", "c", "d", "e"), 0, membership.Notice{}), membership.Foreign},
		"the other founder's":        {observed(0, "r", other(3, "c0", "r", "a", "b", "c"), 0, membership.Notice{}), membership.Blank},
		"another's list":             {observed(0, "r", other(3, "c1", "r", "a", "b", "d"), 0, membership.Notice{}), membership.Misconfigured},
		"another format":             {membership.ParseObservation(reply("format", "3"), 0, 0), membership.Misconfigured},
		"strict, and no record":      {membership.ParseObservation(reply("strict", "1"), 0, 0), membership.Misconfigured},
		"no answer":                  {membership.Unread(membership.Observation{}, 0, 0, "timeout"), membership.Unreachable},
	} {
		v := newView(3, start)
		v.nodes[2] = c.s
		got, why := v.seen().Standing(2)
		if got != c.state || got != membership.Member && why == "" {
			t.Errorf("%s: got %v, %q; want %v with a reason", name, got, why, c.state)
		}
	}
}

// reply is read.lua's, with these fields.
func reply(fields ...string) []any {
	out := []any{"r", "master", int64(0), "1000000"}
	for _, name := range membership.RecordFields {
		var value any
		for i := 0; i < len(fields); i += 2 {
			if fields[i] == name {
				value = fields[i+1]
			}
		}
		out = append(out, value)
	}
	return out
}

func TestNamesAreOneAlineAndDifferent(t *testing.T) {
	if err := membership.CheckNames([]string{"a:1", "unix:/b c", "é"}); err != nil {
		t.Errorf("got %v; want these names accepted", err)
	}
	for _, bad := range [][]string{{""}, {"a", "a"}, {"a\nb"}, {"a\tb"}, {strings.Repeat("x", 256)}} {
		if membership.CheckNames(bad) == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

// FuzzParseObservation: no matter what a node shows, it is a record that goes back into the
// same fields, or refused, or nothing; it never votes for a reason of its own.
func FuzzParseObservation(f *testing.F) {
	f.Add("4", "e", "c", "a\nb\nc", "30000", "r", "7", "1", "1", "a\nb", "20000", "1", "3", "3\n40000\n1\na\nb\nc\nd")
	f.Add("3", "", "", "", "", "", "", "", "", "", "", "", "", "")
	f.Add("4", "e", "c", "a\nb\nc", "-1", "r", "x", "", "x", "\n", "-1", "", "-1", "0\n")
	f.Add("4", "e", "c", "a\nb\nc", "30000", "r", "7", "", "1", "a\nb", "", "", "", "3\n\n\na")           // lacks two MaxTTL
	f.Add("4", "e", "c", "a\nb\nc", "30000", "r", "9007199254740992", "", "", "", "", "", "", "3\n1\n\n") // above MaxToken
	parse := func(values ...string) membership.Observation {
		r := []any{"r", "master", int64(0), ""}
		for _, v := range values {
			if v == "" {
				r = append(r, nil)
			} else {
				r = append(r, v)
			}
		}
		for len(r) < 4+len(membership.RecordFields) {
			r = append(r, nil)
		}
		return membership.ParseObservation(r, 0, 0)
	}
	o := parse("4", "e", "c", "a\nb\nc", "30000", "r", "7", "1", "1", "a\nb", "20000", "1", "3", "3\n40000\n1\na\nb\nc\nd")
	if r := o.Record; !o.Recorded || !r.Strict || r.BeforeMaxTTL != 20*time.Second || r.Proposed.MaxTTL != 40*time.Second || !r.Proposed.Strict || len(r.Proposed.Names) != 4 {
		f.Fatalf("got %+v of the first example; want all of it, or this shows nothing", o)
	}
	f.Fuzz(func(t *testing.T, format, epoch, cluster, names, ttl, run, base, strict, gen, before, beforeTTL, settled, ballot, proposed string) {
		s := parse(format, epoch, cluster, names, ttl, run, base, strict, gen, before, beforeTTL, settled, ballot, proposed)
		rec, ok := s.Record, s.Recorded
		cause, refused := s.Cause, s.Refused
		if ok && refused || refused && cause == "" {
			t.Fatalf("got a record %t and a refusal %t %q", ok, refused, cause)
		}
		if !ok {
			return
		}
		if rec.MaxTTL <= 0 || rec.Cluster == "" || membership.CheckNames(rec.Names) != nil || rec.Gen < 0 || rec.Base > quorum.MaxToken ||
			(rec.Before != nil) != (rec.BeforeMaxTTL > 0) || (rec.Proposed.Ballot > 0) != (rec.Proposed.MaxTTL > 0) {
			t.Fatalf("got %+v; want it refused", rec)
		}
	})
}

// A node whose clock was set back since it has the list can't tell for how long it has had it:
// then who waits for it counts.
func TestANodeWhoseClockWasSetBackIsWaitedForByOurs(t *testing.T) {
	const whole = maxTTL/3 + 2*time.Second
	now := time.Unix(1_800_000_000, 0)
	rec := listed(1, nodeNames[:2], nodeNames[:1])
	c := membership.Change{Cluster: rec.Cluster, Gen: 1}
	for _, tt := range []struct{ age, waited, want time.Duration }{
		{0, 0, whole},
		{time.Second, 0, whole - time.Second},
		{time.Second, 3 * time.Second, whole - 3*time.Second},
		{whole, 0, 0},
		{-time.Hour, 0, whole},
		{-time.Hour, time.Second, whole - time.Second},
		{-time.Hour, whole, 0},
	} {
		rec.Since = now.Add(-tt.age)
		v := membership.View{Config: membership.NewConfig(nodeNames[:1], maxTTL, false), Nodes: []membership.Observation{{Answered: true, Recorded: true, Record: rec, Time: now}}}
		if got := v.Unsigned(c, tt.waited); got != tt.want {
			t.Errorf("%v after it came, %v waited: got %v more; want %v", tt.age, tt.waited, got, tt.want)
		}
	}
}

// FuzzStragglers: no matter what signs clients leave, each name is told of once, in plain text,
// within the hour, the one seen last first.
func FuzzStragglers(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	v := membership.View{Nodes: []membership.Observation{{Time: now}}}
	f.Add("2 1799999990 a", "2 1799999999 b")
	f.Add("2 1799999990 a", "2 1900000000 a")
	f.Add("2 -9223372036854775808 a b", "2  \n")
	f.Add("1 1799999990 a", "2 x a")
	if got := v.Stragglers(2, [][]any{{"2 1799999990 a", nil}}); len(got) != 1 || got[0].Seen != 10*time.Second {
		f.Fatalf("got %v of the first example; want a, 10 s ago, or this shows nothing", got)
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		got := v.Stragglers(2, [][]any{{one, other}})
		for i, s := range got {
			if s.Seen < 0 || s.Seen > membership.SignFor || i > 0 && (s.Name == got[0].Name || s.Seen < got[0].Seen) {
				t.Fatalf("got %v", got)
			}
		}
		if text := membership.Named(got); !fault.IsText(text) {
			t.Fatalf("got %q", text)
		}
	})
}
