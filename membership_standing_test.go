package redlock_test

import (
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// What a node shows, and what that makes it.

func TestStandings(t *testing.T) {
	other := func(n int, cluster, run string, names ...string) *redlock.Record {
		r := redlock.RecordOf("e", cluster, run, names[:n], maxTTL, 0)
		return &r
	}
	gone := redlock.RecordOf("", "c1", "", nodeNames[:3], maxTTL, 0).AsGone()
	for name, c := range map[string]struct {
		s     redlock.Sight
		state redlock.NodeState
	}{
		"a record of this run":       {redlock.SightOf(0, "r", other(3, "c1", "r", "a", "b", "c"), 0, redlock.Notice{}), redlock.NodeMember},
		"a record of another run":    {redlock.SightOf(0, "r2", other(3, "c1", "r", "a", "b", "c"), 0, redlock.Notice{}), redlock.NodeBlank},
		"nothing":                    {redlock.SightOf(0, "r", nil, 0, redlock.Notice{}), redlock.NodeBlank},
		"retired":                    {redlock.SightOf(0, "r", &gone, 0, redlock.Notice{}), redlock.NodeRetired},
		"another N":                  {redlock.SightOf(0, "r", other(2, "c1", "r", "a", "b"), 0, redlock.Notice{}), redlock.NodeMisconfigured},
		"another cluster":            {redlock.SightOf(0, "r", other(3, "c0", "r", "c", "d", "e"), 0, redlock.Notice{}), redlock.NodeForeign},
		"another cluster, restarted": {redlock.SightOf(0, "r2", other(3, "c0", "r", "c", "d", "e"), 0, redlock.Notice{}), redlock.NodeForeign},
		"the other founder's":        {redlock.SightOf(0, "r", other(3, "c0", "r", "a", "b", "c"), 0, redlock.Notice{}), redlock.NodeBlank},
		"another format":             {redlock.ParseSight(reply("format", "2"), 0, 0), redlock.NodeMisconfigured},
		"no answer":                  {redlock.Unread(redlock.Sight{}, 0, 0, "timeout"), redlock.NodeUnreachable},
	} {
		v := newView(3, start)
		v.sights[2] = c.s
		got, why := v.fleet().Standing(2)
		if got != c.state || got != redlock.NodeMember && why == "" {
			t.Errorf("%s: got %v, %q; want %v with a reason", name, got, why, c.state)
		}
	}
}

// reply is read.lua's, with these fields.
func reply(fields ...string) []any {
	out := []any{"r", "master", int64(0)}
	for _, name := range redlock.RecordFields {
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
	if err := redlock.CheckNames([]string{"a:1", "unix:/b c", "é"}); err != nil {
		t.Errorf("got %v; want these names accepted", err)
	}
	for _, bad := range [][]string{{""}, {"a", "a"}, {"a\nb"}, {"a\tb"}, {strings.Repeat("x", 256)}} {
		if redlock.CheckNames(bad) == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

// FuzzParseSight: whatever a node shows, it is a record that goes back into the
// same fields, or refused, or nothing; it never votes for a reason of its own.
func FuzzParseSight(f *testing.F) {
	f.Add("1", "e", "c", "3", "a\nb\nc", "30000", "r", "7", "", "", "")
	f.Add("2", "", "", "", "", "", "", "", "", "", "")
	f.Add("1", "e", "c", "3", "a\nb\nc", "-1", "r", "x", "1", "a", "a\tb")
	parse := func(values ...string) redlock.Sight {
		r := []any{"r", "master", int64(0)}
		for _, v := range values {
			if v == "" {
				r = append(r, nil)
			} else {
				r = append(r, v)
			}
		}
		for len(r) < 3+len(redlock.RecordFields) {
			r = append(r, nil)
		}
		return redlock.ParseSight(r, 0, 0)
	}
	if _, ok := parse("1", "e", "c", "3", "a\nb\nc", "30000", "r", "7").Record(); !ok {
		f.Fatal("got no record of the first example; want one, or this shows nothing")
	}
	f.Fuzz(func(t *testing.T, format, epoch, cluster, n, names, ttl, run, base, gone, retired, replaced string) {
		s := parse(format, epoch, cluster, n, names, ttl, run, base, gone, retired, replaced)
		rec, ok := s.Record()
		cause, refused := s.Refused()
		if ok && refused || refused && cause == "" {
			t.Fatalf("got a record %t and a refusal %t %q", ok, refused, cause)
		}
		if !ok || rec.Gone() {
			return
		}
		if rec.MaxTTL() <= 0 || rec.Cluster() == "" || redlock.CheckNames(rec.Names()) != nil || rec.Base() > quorum.MaxToken {
			t.Fatalf("got %+v; want it refused", rec)
		}
	})
}
