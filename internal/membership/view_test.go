package membership_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/testkit"
)

const (
	maxTTL = 30 * time.Second
	second = clock.Instant(time.Second)
	start  = 1000 * second // when the notices were first seen
)

// view builds what a client sees of a cluster, for tests.
type view struct {
	config membership.Config
	names  []string
	nodes  []membership.Observation
	waits  []membership.Wait
}

// newView is a cluster of n members of "c1", read now.
func newView(n int, now clock.Instant) *view {
	v := &view{names: nodeNames[:n], nodes: make([]membership.Observation, n), waits: make([]membership.Wait, n)}
	v.config = membership.NewConfig(v.names, maxTTL, false)
	for i := range n {
		v.member(i, "c1", quorum.Token(100+i), now)
	}
	return v
}

func (v *view) record(cluster, run string) membership.Record {
	return recordOf("e", cluster, run, slices.Sorted(slices.Values(v.names)), maxTTL, 0)
}

func (v *view) member(i int, cluster string, largest quorum.Token, at clock.Instant) {
	rec := v.record(cluster, "r")
	v.nodes[i] = observed(at, "r", &rec, largest, membership.Notice{})
}

// blank is a node that lost its memory, with a notice first seen at start.
func (v *view) blank(i int, at clock.Instant) {
	n := noticeOf("n", "r2")
	v.nodes[i] = observed(at, "r2", nil, 0, n)
	v.waits[i] = waitOf(n, start)
}

// stale is one that restarted with old data.
func (v *view) stale(i int, largest quorum.Token, at clock.Instant) {
	v.blank(i, at)
	rec := v.record("c1", "r")
	v.nodes[i] = observed(at, "r2", &rec, largest, noticeOf("n", "r2"))
}

func (v *view) down(i int, at clock.Instant) {
	v.nodes[i] = membership.Unread(v.nodes[i], at, at, "connection refused")
}

func (v *view) seen() membership.View { return membership.NewView(v.config, v.nodes, v.waits) }

func (v *view) next(i int, now clock.Instant) membership.Plan {
	return v.seen().Next(i, now, proposalOf("new", 5000, false))
}

func (v *view) admit(i int, now clock.Instant) membership.Plan {
	return v.seen().Next(i, now, proposalOf("new", 5000, true))
}

func wantPlan(t *testing.T, got membership.Plan, do membership.Action, cause string) {
	t.Helper()
	if got.Action != do || !strings.Contains(got.Cause, cause) {
		t.Errorf("got action %d, cause %q; want %d, %q", got.Action, got.Cause, do, cause)
	}
}

func TestAJoinerReadsWhatEveryQuorumShares(t *testing.T) {
	for _, c := range []struct{ n, read, blank int }{{1, 1, 0}, {3, 2, 1}, {4, 2, 2}, {5, 3, 2}, {7, 4, 3}} {
		needed := membership.NewConfig(nil, maxTTL, false).Needed(c.n)
		if needed != c.read {
			t.Errorf("N=%d: got %d others to read; want %d", c.n, needed, c.read)
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
	v.waits[1] = membership.Wait{}
	wantPlan(t, v.next(1, start), membership.DoNotice, "lost its memory")
	v.blank(1, start)
	wantPlan(t, v.next(1, over-1), membership.DoWait, "may have forgotten is over")
	if until := v.next(1, over-1).Until; until != over {
		t.Errorf("got a wait until %d; want %d", until, over)
	}
	wantPlan(t, v.next(1, over), membership.DoRead, "") // all was read before the wait was over
	for _, i := range []int{0, 2} {
		v.member(i, "c1", quorum.Token(100+i), over)
	}
	wantPlan(t, v.next(1, over), membership.DoRead, "") // 2 of 3 were read since
	v.member(4, "c1", 104, over)
	p := v.next(1, over)
	wantPlan(t, p, membership.DoInstall, "")
	if rec := p.Record; rec.Base != 104 || rec.Cluster != "c1" || p.Founding != nil {
		t.Errorf("got %+v; want the largest number of those read, 104, in c1", rec)
	}
	if p.Notice != noticeOf("n", "r2") {
		t.Errorf("got an install under %v; want the notice that was waited for", p.Notice)
	}
}

func TestAnotherNonceOrRunRestartsTheWait(t *testing.T) {
	w := waitOf(noticeOf("n", "r2"), start)
	at := start + second
	for name, c := range map[string]struct {
		s     membership.Observation
		since clock.Instant
	}{
		"the same":               {observed(at, "r2", nil, 0, noticeOf("n", "r2")), start},
		"another nonce":          {observed(at, "r2", nil, 0, noticeOf("m", "r2")), at},
		"another run":            {observed(at, "r3", nil, 0, noticeOf("n", "r3")), at},
		"a notice of an old run": {observed(at, "r3", nil, 0, noticeOf("n", "r2")), 0},
		"none, after a flush":    {observed(at, "r2", nil, 0, membership.Notice{}), 0},
		"no answer":              {membership.Unread(membership.Observation{}, at, at, "timeout"), start},
	} {
		if got := w.After(c.s).Since; got != c.since {
			t.Errorf("%s: got a wait since %d; want %d", name, got, c.since)
		}
	}
}

func TestTheLargestMaxTTLIsWaitedFor(t *testing.T) {
	over, twice := start+clock.Instant(maxTTL), start+2*clock.Instant(maxTTL)
	for what, longer := range map[string]func(*membership.Record){
		"in force":                 func(r *membership.Record) { r.Gen, r.Before, r.BeforeMaxTTL, r.MaxTTL = 1, r.Names, maxTTL, 2*maxTTL },
		"of the generation before": func(r *membership.Record) { r.Gen, r.Before, r.BeforeMaxTTL = 1, r.Names, 2*maxTTL },
		"proposed": func(r *membership.Record) {
			r.Proposed.Ballot, r.Proposed.Names, r.Proposed.MaxTTL = 1, r.Names, 2*maxTTL
		},
	} {
		v := newView(3, over)
		v.blank(0, over)
		rec := v.record("c1", "r")
		longer(&rec)
		v.nodes[2] = observed(over, "r", &rec, 7, membership.Notice{})
		p := v.next(0, over) // read in (3): it was raised meanwhile
		wantPlan(t, p, membership.DoWait, "")
		if p.Until != twice {
			t.Errorf("%s: got a wait until %v; want twice %v", what, p.Until, maxTTL)
		}
		wantPlan(t, v.next(0, twice), membership.DoRead, "") // and reads again after it
		v.member(1, "c1", 1, twice)
		v.nodes[2] = observed(twice, "r", &rec, 7, membership.Notice{})
		p = v.next(0, twice)
		wantPlan(t, p, membership.DoInstall, "")
		if got := p.Record.Longest(); got != 2*maxTTL {
			t.Errorf("%s: got %v for the longest lease in the new record; want %v", what, got, 2*maxTTL)
		}
	}
}

func TestAClientsOwnMaxTTLCountsOnlyWhereItMayFound(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	v.config = membership.NewConfig(v.names, 2*maxTTL, false)
	if s, why := v.seen().Voter(0); s.Epoch != "e" || s.MaxTTL != maxTTL {
		t.Errorf("got %+v, %q; want the right to vote, for leases of the record's MaxTTL", s, why)
	}
	wantPlan(t, v.next(0, over), membership.DoNothing, "")
	v.blank(0, over)
	p := v.next(0, over)
	wantPlan(t, p, membership.DoInstall, "")
	if p.Record.MaxTTL != maxTTL {
		t.Errorf("got MaxTTL %v in the new record; want the cluster's, %v", p.Record.MaxTTL, maxTTL)
	}
	v.blank(1, over) // no quorum carries the cluster's id any more
	wantPlan(t, v.next(0, over), membership.DoWait, "")
}

func TestBeyondTheTableEveryNodeMustAnswer(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	v.member(0, "c1", 9000, over)
	v.blank(1, over)
	v.stale(2, 300, over)
	p := v.next(0, over)
	wantPlan(t, p, membership.DoInstall, "")
	if rec := p.Record; p.Founding == nil || rec.Cluster != "new" || rec.Gen != 0 || rec.Base != 9000 {
		t.Errorf("got %+v, founding %v; want another id, and the largest number known", rec, p.Founding)
	}
	v.member(0, "c1", 10, over)
	if got := v.next(0, over).Record.Base; got != 5000 {
		t.Errorf("got base %d; want the clock's 5000 where nothing greater is known", got)
	}
	wantPlan(t, v.admit(0, start+second), membership.DoInstall, "")
	wantPlan(t, v.next(1, over), membership.DoRead, "a comes first")
	wantPlan(t, v.next(2, over), membership.DoRead, "a comes first")
	v.down(2, over)
	wantPlan(t, v.next(1, over), membership.DoNothing, "c: connection refused")
	v.stale(2, 0, over-1)
	wantPlan(t, v.next(1, over), membership.DoRead, "")
	v.waits[2] = waitOf(noticeOf("n", "r2"), start+second)
	wantPlan(t, v.next(1, over), membership.DoRead, "its wait goes on")
}

func TestStrictRecoveryAsksForAnOperator(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	v.config = membership.NewConfig(v.names, maxTTL, true)
	v.blank(1, over)
	wantPlan(t, v.next(1, over), membership.DoInstall, "") // the ordinary way needs none
	v.blank(2, over)
	wantPlan(t, v.next(1, over), membership.DoNothing, "WithStrictRecovery")
	wantPlan(t, v.admit(0, over), membership.DoInstall, "")
	v.down(2, over)
	wantPlan(t, v.admit(1, over), membership.DoNothing, "every node must answer")
}

func TestAdmitSkipsTheWaitAndNothingElse(t *testing.T) {
	v := newView(3, start-1)
	v.blank(1, start)
	wantPlan(t, v.admit(1, start), membership.DoRead, "") // the others were read before the notice
	v.member(0, "c1", 1, start)
	v.member(2, "c1", 2, start)
	wantPlan(t, v.admit(1, start), membership.DoInstall, "")
	foreign := recordOf("e", "c2", "r", []string{"x", "y", "z"}, maxTTL, 0)
	v.nodes[1] = observed(start, "r", &foreign, 0, membership.Notice{})
	wantPlan(t, v.admit(1, start), membership.DoNothing, "another cluster")
	v.names = []string{"a", "b", "x"}
	v.config = membership.NewConfig(v.names, maxTTL, false)
	v.blank(2, start)
	wantPlan(t, v.admit(2, start), membership.DoNothing, "one list")
}

// TestJoinByOracle compares the rules with a dumb second version, over random
// views: when may node 0 be installed, and with which base?
func TestJoinByOracle(t *testing.T) {
	testkit.Unraced(t)
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
		if got := p.Action == membership.DoInstall; got != want {
			t.Fatalf("%d nodes, %d members, %d answer: got install %t (%s); want %t", n, members, answer, got, p.Cause, want)
		}
		if want && p.Record.Base != base {
			t.Fatalf("%d nodes, %d members, %d answer: got base %d; want %d", n, members, answer, p.Record.Base, base)
		}
		if want {
			installs++
		}
	}
	if installs < 5000 {
		t.Errorf("got %d installs; want thousands, or this shows nothing", installs)
	}
}
