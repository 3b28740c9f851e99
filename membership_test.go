package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
)

const (
	maxTTL = 30 * time.Second
	second = redlock.Instant(time.Second)
	start  = 1000 * second // when the notices were first seen
)

// view builds what a client sees of a cluster, for tests.
type view struct {
	charter redlock.Charter
	names   []string
	sights  []redlock.Sight
	watches []redlock.Watch
}

// newView is a cluster of n members of "c1", read now.
func newView(n int, now redlock.Instant) *view {
	v := &view{names: nodeNames[:n], sights: make([]redlock.Sight, n), watches: make([]redlock.Watch, n)}
	v.charter = redlock.NewCharter(v.names, maxTTL, false)
	for i := range n {
		v.member(i, "c1", redlock.Token(100+i), now)
	}
	return v
}

func (v *view) record(cluster, run string) redlock.Record {
	return redlock.RecordOf("e", cluster, run, slices.Sorted(slices.Values(v.names)), maxTTL, 0)
}

func (v *view) member(i int, cluster string, largest redlock.Token, at redlock.Instant) {
	rec := v.record(cluster, "r")
	v.sights[i] = redlock.SightOf(at, "r", &rec, largest, redlock.Notice{})
}

// blank is a node that lost its memory, with a notice first seen at start.
func (v *view) blank(i int, at redlock.Instant) {
	n := redlock.NoticeOf("n", "r2")
	v.sights[i] = redlock.SightOf(at, "r2", nil, 0, n)
	v.watches[i] = redlock.WatchOf(n, start)
}

// stale is one that restarted with old data.
func (v *view) stale(i int, largest redlock.Token, at redlock.Instant) {
	v.blank(i, at)
	rec := v.record("c1", "r")
	v.sights[i] = redlock.SightOf(at, "r2", &rec, largest, redlock.NoticeOf("n", "r2"))
}

func (v *view) down(i int, at redlock.Instant) {
	v.sights[i] = redlock.Unread(v.sights[i], at, at, "connection refused")
}

func (v *view) fleet() redlock.Fleet { return redlock.NewFleet(v.charter, v.sights, v.watches) }

func (v *view) next(i int, now redlock.Instant) redlock.Plan {
	return v.fleet().Next(i, now, redlock.ProposalOf("new", 5000, false))
}

func (v *view) admit(i int, now redlock.Instant) redlock.Plan {
	return v.fleet().Next(i, now, redlock.ProposalOf("new", 5000, true))
}

func wantPlan(t *testing.T, got redlock.Plan, do redlock.Deed, cause string) {
	t.Helper()
	if got.Do() != do || !strings.Contains(got.Cause(), cause) {
		t.Errorf("got deed %d, cause %q; want %d, %q", got.Do(), got.Cause(), do, cause)
	}
}

func TestAJoinerReadsWhatEveryQuorumShares(t *testing.T) {
	for _, c := range []struct{ n, read, blank int }{{1, 1, 0}, {3, 2, 1}, {4, 2, 2}, {5, 3, 2}, {7, 4, 3}} {
		ch := redlock.NewCharter(make([]string, c.n), maxTTL, false)
		if ch.Needed() != c.read {
			t.Errorf("N=%d: got %d others to read; want %d", c.n, ch.Needed(), c.read)
		}
		if others := c.n - 1; others-c.read+1 != c.blank && c.n > 1 {
			t.Errorf("N=%d: got %d nodes that may be blank at once; want %d", c.n, others-c.read+1, c.blank)
		}
	}
}

func TestABlankNodeRejoinsInFourSteps(t *testing.T) {
	over := start + redlock.Instant(maxTTL)
	v := newView(5, start)
	v.blank(1, start)
	v.watches[1] = redlock.Watch{}
	wantPlan(t, v.next(1, start), redlock.DoNotice, "lost its memory")
	v.blank(1, start)
	wantPlan(t, v.next(1, over-1), redlock.DoWait, "Cluster.Admit")
	if until, _ := v.next(1, over-1).Until(); until != over {
		t.Errorf("got a wait until %d; want %d", until, over)
	}
	wantPlan(t, v.next(1, over), redlock.DoRead, "") // all was read before the wait was over
	for _, i := range []int{0, 2} {
		v.member(i, "c1", redlock.Token(100+i), over)
	}
	wantPlan(t, v.next(1, over), redlock.DoRead, "") // 2 of 3 were read since
	v.member(4, "c1", 104, over)
	p := v.next(1, over)
	wantPlan(t, p, redlock.DoInstall, "")
	if rec := p.Record(); rec.Base() != 104 || rec.Cluster() != "c1" || p.Founding() {
		t.Errorf("got %+v; want the largest number of those read, 104, in c1", rec)
	}
	if p.Notice() != redlock.NoticeOf("n", "r2") {
		t.Errorf("got an install under %v; want the notice that was waited for", p.Notice())
	}
}

func TestAnotherNonceOrRunRestartsTheWait(t *testing.T) {
	w := redlock.WatchOf(redlock.NoticeOf("n", "r2"), start)
	at := start + second
	for name, c := range map[string]struct {
		s     redlock.Sight
		since redlock.Instant
	}{
		"the same":               {redlock.SightOf(at, "r2", nil, 0, redlock.NoticeOf("n", "r2")), start},
		"another nonce":          {redlock.SightOf(at, "r2", nil, 0, redlock.NoticeOf("m", "r2")), at},
		"another run":            {redlock.SightOf(at, "r3", nil, 0, redlock.NoticeOf("n", "r3")), at},
		"a notice of an old run": {redlock.SightOf(at, "r3", nil, 0, redlock.NoticeOf("n", "r2")), 0},
		"none, after a flush":    {redlock.SightOf(at, "r2", nil, 0, redlock.Notice{}), 0},
		"no answer":              {redlock.Unread(redlock.Sight{}, at, at, "timeout"), start},
	} {
		if got := w.Look(c.s).Since(); got != c.since {
			t.Errorf("%s: got a wait since %d; want %d", name, got, c.since)
		}
	}
}

func TestTheLargestMaxTTLIsWaitedFor(t *testing.T) {
	over := start + redlock.Instant(maxTTL)
	v := newView(3, over)
	v.blank(0, over)
	longer := redlock.RecordOf("e", "c1", "r", v.names, 2*maxTTL, 0)
	v.sights[2] = redlock.SightOf(over, "r", &longer, 7, redlock.Notice{})
	p := v.next(0, over) // read in (3): somebody raised it meanwhile
	wantPlan(t, p, redlock.DoWait, "")
	if until, _ := p.Until(); until != start+2*redlock.Instant(maxTTL) {
		t.Errorf("got a wait until %v; want twice %v", until, maxTTL)
	}
	p = v.next(0, start+2*redlock.Instant(maxTTL))
	wantPlan(t, p, redlock.DoRead, "") // and reads again after it
	twice := start + 2*redlock.Instant(maxTTL)
	v.member(1, "c1", 1, twice)
	v.sights[2] = redlock.SightOf(twice, "r", &longer, 7, redlock.Notice{})
	p = v.next(0, twice)
	wantPlan(t, p, redlock.DoInstall, "")
	if got := p.Record().MaxTTL(); got != 2*maxTTL {
		t.Errorf("got MaxTTL %v in the new record; want %v", got, 2*maxTTL)
	}
}

func TestAClientRaisesMaxTTLBeforeItVotesThere(t *testing.T) {
	v := newView(3, start)
	v.charter = redlock.NewCharter(v.names, 2*maxTTL, false)
	if s, why := v.fleet().Seat(0); s.Epoch() != "" || !strings.Contains(why, "MaxTTL") {
		t.Errorf("got seat %v, %q; want none before the record says the longer MaxTTL", s, why)
	}
	p := v.next(0, start)
	wantPlan(t, p, redlock.DoAmend, "")
	if got := p.Record().AmendArgs(); fmt.Sprint(got) != fmt.Sprint([]any{"e", (2 * maxTTL).Milliseconds(), ""}) {
		t.Errorf("got %v; want MaxTTL raised under the epoch that was read", got)
	}
	v.charter = redlock.NewCharter(v.names, maxTTL/2, false)
	wantPlan(t, v.next(0, start), redlock.DoNothing, "")
}

func TestBeyondTheTableEveryNodeMustAnswer(t *testing.T) {
	over := start + redlock.Instant(maxTTL)
	v := newView(3, over)
	v.member(0, "c1", 9000, over)
	v.blank(1, over)
	v.stale(2, 300, over)
	p := v.next(1, over)
	wantPlan(t, p, redlock.DoInstall, "")
	if rec := p.Record(); !p.Founding() || rec.Cluster() != "c1" || rec.Base() != 9000 {
		t.Errorf("got %+v, founding %t; want the id that was found, and the largest number known", rec, p.Founding())
	}
	v.member(0, "c1", 10, over)
	if got := v.next(1, over).Record().Base(); got != 5000 {
		t.Errorf("got base %d; want the clock's 5000 where nothing greater is known", got)
	}
	wantPlan(t, v.admit(1, start+second), redlock.DoInstall, "")
	wantPlan(t, v.next(2, over), redlock.DoRead, "b comes first")
	v.down(2, over)
	wantPlan(t, v.next(1, over), redlock.DoNothing, "c: connection refused")
	v.stale(2, 0, over-1)
	wantPlan(t, v.next(1, over), redlock.DoRead, "")
	v.watches[2] = redlock.WatchOf(redlock.NoticeOf("n", "r2"), start+second)
	wantPlan(t, v.next(1, over), redlock.DoRead, "its wait goes on")
}

func TestStrictRecoveryAsksForAnOperator(t *testing.T) {
	over := start + redlock.Instant(maxTTL)
	v := newView(3, over)
	v.charter = redlock.NewCharter(v.names, maxTTL, true)
	v.blank(1, over)
	wantPlan(t, v.next(1, over), redlock.DoInstall, "") // the ordinary way needs none
	v.blank(2, over)
	wantPlan(t, v.next(1, over), redlock.DoNothing, "WithStrictRecovery")
	wantPlan(t, v.admit(1, over), redlock.DoInstall, "")
	v.down(2, over)
	wantPlan(t, v.admit(1, over), redlock.DoNothing, "every node must answer")
}

func TestAdmitSkipsTheWaitAndNothingElse(t *testing.T) {
	v := newView(3, start-1)
	v.blank(1, start)
	wantPlan(t, v.admit(1, start), redlock.DoRead, "") // the others were read before the notice
	v.member(0, "c1", 1, start)
	v.member(2, "c1", 2, start)
	wantPlan(t, v.admit(1, start), redlock.DoInstall, "")
	foreign := redlock.RecordOf("e", "c2", "r", []string{"x", "y", "z"}, maxTTL, 0)
	v.sights[1] = redlock.SightOf(start, "r", &foreign, 0, redlock.Notice{})
	wantPlan(t, v.admit(1, start), redlock.DoNothing, "another cluster")
	v.names = []string{"a", "b", "x"}
	v.charter = redlock.NewCharter(v.names, maxTTL, false)
	v.blank(2, start)
	wantPlan(t, v.admit(2, start), redlock.DoNothing, "same list")
}

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
	out := []any{"r", int64(0)}
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

func TestFoundersAgreeOnTheSmallestID(t *testing.T) {
	over := start + redlock.Instant(maxTTL)
	v := newView(4, over)
	for i, id := range []string{"c2", "c1", "c2", "c1"} {
		rec := v.record(id, "r2")
		n := redlock.NoticeOf("n", "r2")
		v.sights[i], v.watches[i] = redlock.SightOf(over, "r2", &rec, 0, n), redlock.WatchOf(n, start)
	}
	if id := v.fleet().Cluster(); id != "" {
		t.Errorf("got cluster %q; want none without a quorum", id)
	}
	p := v.next(0, over)
	wantPlan(t, p, redlock.DoInstall, "founded as cluster c2")
	if p.Record().Cluster() != "c1" {
		t.Errorf("got %q; want the smallest id", p.Record().Cluster())
	}
	wantPlan(t, v.next(1, over), redlock.DoNothing, "")
	if _, why := v.fleet().Seat(1); !strings.Contains(why, "one cluster's id") {
		t.Errorf("got %q; want that no id has a quorum", why)
	}
	v.down(3, over)
	wantPlan(t, v.next(0, over), redlock.DoNothing, "d: connection refused")
}

func TestListsThatOverlapDoNotFound(t *testing.T) {
	over := start + redlock.Instant(maxTTL)
	v := newView(3, over)
	v.names = []string{"c", "d", "e"}
	v.charter = redlock.NewCharter(v.names, maxTTL, false)
	established := redlock.RecordOf("e", "c1", "r", []string{"a", "b", "c"}, maxTTL, 0)
	v.sights[0] = redlock.SightOf(over, "r", &established, 0, redlock.Notice{})
	v.blank(1, over)
	v.blank(2, over)
	for i := range 3 {
		if p := v.next(i, over); p.Do() == redlock.DoInstall {
			t.Errorf("node %d: got an install; want none with a record of other names", i)
		}
		if p := v.admit(i, over); p.Do() == redlock.DoInstall {
			t.Errorf("node %d: got an install by Admit; want none with a record of other names", i)
		}
	}
	wantPlan(t, v.next(1, over), redlock.DoNothing, "same list")
}

func TestReplacingWantsTheRetirementFirst(t *testing.T) {
	over := start + redlock.Instant(maxTTL)
	v := newView(5, over)
	before := slices.Clone(v.names)
	v.names = []string{"a", "b", "c", "d", "f"}
	v.charter = redlock.NewCharter(v.names, maxTTL, false)
	v.blank(4, over)
	mark := func(i int, retired []string, replaced []redlock.Placement, names []string) {
		rec := redlock.RecordOf("e", "c1", "r", names, maxTTL, 0).With(retired, replaced)
		v.sights[i] = redlock.SightOf(over, "r", &rec, 50, redlock.Notice{})
	}
	for i := range 4 {
		mark(i, nil, nil, before)
	}
	wantPlan(t, v.next(4, over), redlock.DoNothing, "Cluster.Retire")
	for i := range 3 {
		mark(i, []string{"e"}, nil, before)
	}
	p := v.next(4, over)
	wantPlan(t, p, redlock.DoPlace, "")
	at, places := p.Places()
	if !slices.Equal(at, []int{0, 1, 2, 3}) || !slices.Equal(places, []redlock.Placement{redlock.PlacementOf("e", "f")}) {
		t.Errorf("got %v at %v; want e -> f on every other member", places, at)
	}
	placed := []redlock.Placement{redlock.PlacementOf("e", "f")}
	for i := range 2 {
		mark(i, []string{"e"}, placed, v.names)
	}
	wantPlan(t, v.next(4, over), redlock.DoPlace, "") // not on a quorum yet
	mark(2, []string{"e"}, placed, v.names)
	p = v.next(4, over)
	wantPlan(t, p, redlock.DoInstall, "")
	if rec := p.Record(); !slices.Equal(rec.Names(), v.names) || !slices.Equal(rec.Retired(), []string{"e"}) || !slices.Equal(rec.Replaced(), placed) {
		t.Errorf("got %+v; want the new list, and the marks with it", rec)
	}
	wantPlan(t, v.next(3, over), redlock.DoAmend, "") // what a quorum has is written where it lacks

	t.Run("the old client's node stays retired", func(t *testing.T) {
		v.names = before
		v.charter = redlock.NewCharter(before, maxTTL, false)
		if state, why := v.fleet().Standing(4); state != redlock.NodeRetired {
			t.Errorf("got %v, %q; want a blank e retired by its name", state, why)
		}
	})
	t.Run("another name finds the place taken", func(t *testing.T) {
		v.names = []string{"a", "b", "c", "d", "g"}
		v.charter = redlock.NewCharter(v.names, maxTTL, false)
		wantPlan(t, v.next(4, over), redlock.DoNothing, "f is not this client's")
	})
}

func TestMarksNeedAQuorumToSpread(t *testing.T) {
	v := newView(5, start)
	rec := v.record("c1", "r").With([]string{"e"}, nil)
	v.sights[0] = redlock.SightOf(start, "r", &rec, 0, redlock.Notice{})
	wantPlan(t, v.next(1, start), redlock.DoNothing, "")
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

// TestJoinByOracle compares the rules with a dumb second version, over random
// views: when may node 0 be installed, and with which base?
func TestJoinByOracle(t *testing.T) {
	over := start + redlock.Instant(maxTTL)
	rnd := rand.New(rand.NewPCG(1, 2))
	installs := 0
	for range 50_000 {
		n := 1 + rnd.IntN(5)
		v := newView(n, over)
		members, answer, largest, all := 0, n, redlock.Token(0), redlock.Token(5000)
		v.blank(0, over)
		for i := 1; i < n; i++ {
			number := redlock.Token(rnd.IntN(9000))
			switch rnd.IntN(4) {
			case 0, 1:
				v.member(i, "c1", number, over)
				members, largest = members+1, max(largest, number)
			case 2:
				v.stale(i, number, over)
			case 3:
				v.down(i, over)
				answer, number = answer-1, 0
			}
			all = max(all, number)
		}
		want := members >= n-(n/2+1)+1 && n > 1
		base := largest
		if !want && answer == n {
			want, base = true, all
		}
		p := v.next(0, over)
		if got := p.Do() == redlock.DoInstall; got != want {
			t.Fatalf("%d nodes, %d members, %d answer: got install %t (%s); want %t", n, members, answer, got, p.Cause(), want)
		}
		if want && p.Record().Base() != base {
			t.Fatalf("%d nodes, %d members, %d answer: got base %d; want %d", n, members, answer, p.Record().Base(), base)
		}
		if want {
			installs++
		}
	}
	if installs < 5000 {
		t.Errorf("got %d installs; want thousands, or this shows nothing", installs)
	}
}

// FuzzParseSight: whatever a node shows, it is a record that goes back into the
// same fields, or refused, or nothing; it never votes for a reason of its own.
func FuzzParseSight(f *testing.F) {
	f.Add("1", "e", "c", "3", "a\nb\nc", "30000", "r", "7", "", "", "")
	f.Add("2", "", "", "", "", "", "", "", "", "", "")
	f.Add("1", "e", "c", "3", "a\nb\nc", "-1", "r", "x", "1", "a", "a\tb")
	f.Fuzz(func(t *testing.T, format, epoch, cluster, n, names, ttl, run, base, gone, retired, replaced string) {
		values := []string{format, epoch, cluster, n, names, ttl, run, base, gone, retired, replaced}
		r := []any{"r", int64(0)}
		for _, v := range values {
			if v == "" {
				r = append(r, nil)
			} else {
				r = append(r, v)
			}
		}
		s := redlock.ParseSight(append(r, nil, nil), 0, 0)
		rec, ok := s.Record()
		cause, refused := s.Refused()
		if ok && refused || refused && cause == "" {
			t.Fatalf("got a record %t and a refusal %t %q", ok, refused, cause)
		}
		if !ok || rec.Gone() {
			return
		}
		if rec.MaxTTL() <= 0 || rec.Cluster() == "" || redlock.CheckNames(rec.Names()) != nil || rec.Base() > redlock.MaxToken {
			t.Fatalf("got %+v; want it refused", rec)
		}
	})
}
