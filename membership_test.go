package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

const (
	maxTTL = 30 * time.Second
	second = clock.Instant(time.Second)
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
func newView(n int, now clock.Instant) *view {
	v := &view{names: nodeNames[:n], sights: make([]redlock.Sight, n), watches: make([]redlock.Watch, n)}
	v.charter = redlock.NewCharter(v.names, maxTTL, false)
	for i := range n {
		v.member(i, "c1", quorum.Token(100+i), now)
	}
	return v
}

func (v *view) record(cluster, run string) redlock.Record {
	return redlock.RecordOf("e", cluster, run, slices.Sorted(slices.Values(v.names)), maxTTL, 0)
}

func (v *view) member(i int, cluster string, largest quorum.Token, at clock.Instant) {
	rec := v.record(cluster, "r")
	v.sights[i] = redlock.SightOf(at, "r", &rec, largest, redlock.Notice{})
}

// blank is a node that lost its memory, with a notice first seen at start.
func (v *view) blank(i int, at clock.Instant) {
	n := redlock.NoticeOf("n", "r2")
	v.sights[i] = redlock.SightOf(at, "r2", nil, 0, n)
	v.watches[i] = redlock.WatchOf(n, start)
}

// stale is one that restarted with old data.
func (v *view) stale(i int, largest quorum.Token, at clock.Instant) {
	v.blank(i, at)
	rec := v.record("c1", "r")
	v.sights[i] = redlock.SightOf(at, "r2", &rec, largest, redlock.NoticeOf("n", "r2"))
}

func (v *view) down(i int, at clock.Instant) {
	v.sights[i] = redlock.Unread(v.sights[i], at, at, "connection refused")
}

func (v *view) fleet() redlock.Fleet { return redlock.NewFleet(v.charter, v.sights, v.watches) }

func (v *view) next(i int, now clock.Instant) redlock.Plan {
	return v.fleet().Next(i, now, redlock.ProposalOf("new", 5000, false))
}

func (v *view) admit(i int, now clock.Instant) redlock.Plan {
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
	over := start + clock.Instant(maxTTL)
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
		v.member(i, "c1", quorum.Token(100+i), over)
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
		since clock.Instant
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
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	v.blank(0, over)
	longer := redlock.RecordOf("e", "c1", "r", v.names, 2*maxTTL, 0)
	v.sights[2] = redlock.SightOf(over, "r", &longer, 7, redlock.Notice{})
	p := v.next(0, over) // read in (3): somebody raised it meanwhile
	wantPlan(t, p, redlock.DoWait, "")
	if until, _ := p.Until(); until != start+2*clock.Instant(maxTTL) {
		t.Errorf("got a wait until %v; want twice %v", until, maxTTL)
	}
	p = v.next(0, start+2*clock.Instant(maxTTL))
	wantPlan(t, p, redlock.DoRead, "") // and reads again after it
	twice := start + 2*clock.Instant(maxTTL)
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
	if got := p.Record().AmendArgs(); fmt.Sprint(got) != fmt.Sprint([]any{"e", (2 * maxTTL).Milliseconds(), "", ""}) {
		t.Errorf("got %v; want MaxTTL raised under the epoch that was read", got)
	}
	v.charter = redlock.NewCharter(v.names, maxTTL/2, false)
	wantPlan(t, v.next(0, start), redlock.DoNothing, "")
}

func TestBeyondTheTableEveryNodeMustAnswer(t *testing.T) {
	over := start + clock.Instant(maxTTL)
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
	over := start + clock.Instant(maxTTL)
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

// TestJoinByOracle compares the rules with a dumb second version, over random
// views: when may node 0 be installed, and with which base?
func TestJoinByOracle(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	rnd := rand.New(rand.NewPCG(1, 2))
	installs := 0
	for range 50_000 {
		n := 1 + rnd.IntN(5)
		v := newView(n, over)
		members, answer, largest, all := 0, n, quorum.Token(0), quorum.Token(5000)
		v.blank(0, over)
		for i := 1; i < n; i++ {
			number := quorum.Token(rnd.IntN(9000))
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
