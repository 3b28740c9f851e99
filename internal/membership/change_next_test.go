package membership_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

// changed is an operator's change from a, b, c to a, b, c, d, and what it sees.
type changed struct {
	*view
	membership.Change
}

func newChanged() *changed {
	c := &changed{newView(4, start), membership.Change{
		Cluster: "c1", From: listed(0, nodeNames[:3], nil).Configuration, Wanted: listed(0, nodeNames[:4], nil).Configuration,
	}}
	for i := range 3 {
		rec := listed(0, nodeNames[:3], nil)
		c.nodes[i] = observed(start, "r", &rec, 7, membership.Notice{})
	}
	c.blank(3, start)
	return c
}

// turn is what the operator does then.
func (c *changed) turn(now clock.Instant) (turn membership.Turn) {
	c.Change, turn = c.Next(c.seen(), now)
	return turn
}

// settles makes a node do the first step, with this ballot.
func (c *changed) settles(i int, ballot uint64) {
	c.Marks[i] = fmt.Sprintf("s%d", i)
	rec := &c.nodes[i].Record
	rec.Epoch, rec.Settled, rec.Ballot = c.Marks[i], true, ballot
}

// accepts makes it accept a list.
func (c *changed) accepts(i int, ballot uint64, list []string) {
	c.nodes[i].Record.Proposed = membership.Proposed{Ballot: ballot, Configuration: listed(0, list, nil).Configuration}
}

func wantStage(t *testing.T, when string, got membership.Turn, want membership.Stage) {
	t.Helper()
	if got.Stage != want || got.Err != nil {
		t.Errorf("%s: got %v (%d of %d), %v; want %v", when, got.Stage, got.Done, got.Of, got.Err, want)
	}
}

func TestTheNextListIsInForceOnceAQuorumHasAcceptedIt(t *testing.T) {
	c := newChanged()
	c.nodes[2].Record.BeforeMaxTTL, c.Wanted.MaxTTL, c.Wanted.Strict = 2*maxTTL, maxTTL/2, true
	wantStage(t, "at first", c.turn(start), membership.Settling)
	c.settles(0, 1)
	wantStage(t, "one node is settled", c.turn(start), membership.Settling)
	c.settles(1, 1)
	turn := c.turn(start)
	wantStage(t, "two are", turn, membership.Pausing)
	if want := start.Add(2 * maxTTL); turn.Until != want {
		t.Errorf("got a pause until %v; want %v, for the leases of the configuration before", turn.Until, want)
	}
	c.accepts(0, 1, nodeNames[:4])
	wantStage(t, "one has accepted", c.turn(turn.Until), membership.Accepting)
	c.accepts(1, 1, nodeNames[:4])
	turn = c.turn(turn.Until)
	wantStage(t, "two have", turn, membership.Forcing)
	if r := turn.Do[0].Plan.Record; r.Gen != 1 || !reflect.DeepEqual(r.Configuration, c.Wanted) || !slices.Equal(r.Before, nodeNames[:3]) || r.BeforeMaxTTL != maxTTL {
		t.Errorf("got %+v; want what is wanted in force, after the one from which it came", r)
	}
}

func TestWhatAnotherOperatorProposedIsFinished(t *testing.T) {
	c := newChanged()
	c.accepts(1, 3, nodeNames[:2])
	c.nodes[1].Record.Ballot = 3
	c.turn(start)
	c.settles(0, c.Ballot)
	c.settles(1, c.Ballot)
	if turn := c.turn(start); c.Ballot != 4 || !slices.Equal(c.To.Names, nodeNames[:2]) {
		t.Errorf("got ballot %d, %v (%v); want the fourth, and the list that was accepted", c.Ballot, c.To, turn.Stage)
	}
}

func TestAnOperatorStopsForAHigherBallot(t *testing.T) {
	c := newChanged()
	c.turn(start)
	c.settles(0, 1)
	c.nodes[2].Record.Ballot = 2
	if turn := c.turn(start); !errors.Is(turn.Err, membership.ErrContested) || turn.Do != nil {
		t.Errorf("got %v, %d tasks; want ErrContested", turn.Err, len(turn.Do))
	}
}

// A node that forgot its answer is back after MaxTTL at the earliest.
func TestARoundOfAChangeCountsForHalfOfMaxTTL(t *testing.T) {
	c := newChanged()
	c.turn(start)
	c.settles(0, 1)
	late := start.Add(maxTTL / 2)
	c.settles(1, 1)
	if turn := c.turn(late); turn.Stage != membership.Settling || c.Ballot != 2 {
		t.Errorf("settling: got %v with ballot %d; want it begun once more", turn.Stage, c.Ballot)
	}
	c = newChanged()
	c.nodes[2].Record.MaxTTL = maxTTL / 2 // it is behind: who joins by it is back so early
	c.turn(start)
	c.settles(0, 1)
	c.settles(1, 1)
	if turn := c.turn(start.Add(maxTTL / 4)); turn.Stage != membership.Settling || c.Ballot != 2 {
		t.Errorf("settling beside a shorter MaxTTL: got %v with ballot %d; want it begun once more", turn.Stage, c.Ballot)
	}
	c = newChanged()
	c.turn(start)
	c.settles(0, 1)
	c.settles(1, 1)
	over := c.turn(start).Until
	c.turn(over)
	c.accepts(0, 1, nodeNames[:4])
	c.accepts(1, 1, nodeNames[:4])
	if turn := c.turn(over.Add(maxTTL / 2)); turn.Stage != membership.Settling {
		t.Errorf("accepting: got %v; want it begun once more", turn.Stage)
	}
}

func TestPendingSaysWhichChangeHasBegun(t *testing.T) {
	for _, k := range []struct {
		to     []string
		maxTTL time.Duration
		strict bool
		want   string
		again  string // the arguments that finish it
	}{
		{nodeNames[:4], maxTTL, false, "add d", " --add d"},
		{nodeNames[:2], maxTTL, false, "remove c", " --remove c"},
		{nodeNames[:3], maxTTL, false, "close", " --close"},
		{nodeNames[:3], 2 * maxTTL, false, "MaxTTL 1m0s", " --max-ttl 1m0s"},
		{[]string{"a", "b", "d"}, maxTTL / 2, true, "add d, remove c, MaxTTL 15s, strict recovery on", " --add d --remove c --max-ttl 15s --strict on"},
	} {
		c := newChanged()
		pending := func(when, want, again string) {
			t.Helper()
			seen := membership.NewView(membership.NewConfig(nodeNames[:3], maxTTL, false), c.nodes[:3], c.waits[:3])
			if got := seen.Pending(); got != want {
				t.Errorf("%s %s: got %q; want %q", when, k.want, got, want)
			}
			if got := seen.Again(); got != again {
				t.Errorf("%s %s: got the arguments %q; want %q", when, k.want, got, again)
			}
		}
		pending("before", "", "")
		c.Change, _ = c.Next(c.seen(), start)
		c.settles(0, 1)
		pending("one node is settled to", "not yet proposed", "")
		c.settles(1, 1)
		c.accepts(1, 1, k.to)
		c.nodes[1].Record.Proposed.MaxTTL, c.nodes[1].Record.Proposed.Strict = k.maxTTL, k.strict
		pending("one node has accepted", k.want, k.again)
		c.accepts(0, 2, nodeNames[:3])
		pending("a later operator's settling after", "close", " --close")
	}
}

// The steps of what an operator wants, from each configuration that there may be. Where one is
// cut short behind any step, the same wanted again gives the others.
func TestWhatIsWantedComesInSteps(t *testing.T) {
	const half, twice = maxTTL / 2, 2 * maxTTL
	ab, abc := nodeNames[:2], nodeNames[:3]
	strict, lax := new(bool), new(bool)
	*strict = true
	for _, c := range []struct {
		in, before []string
		was        time.Duration // MaxTTL before
		wanted     membership.Wanted
		want       string
	}{
		{abc, nil, 0, membership.Wanted{}, ""},
		{abc, nil, 0, membership.Wanted{Add: abc[:1], Remove: nodeNames[3:4], MaxTTL: maxTTL, Strict: lax}, ""},
		{abc, nil, 0, membership.Wanted{Remove: ab[:1], Add: nodeNames[3:]}, "abcd 30s, abcde 30s, bcde 30s, bcde 30s"},
		{abc, nil, 0, membership.Wanted{Add: nodeNames[3:4], MaxTTL: twice, Strict: strict}, "abcd 1m0s strict"},
		{abc, nil, 0, membership.Wanted{Strict: strict}, "abc 30s strict"},
		{abc, nil, 0, membership.Wanted{MaxTTL: twice}, "abc 1m0s"},
		{abc, nil, 0, membership.Wanted{MaxTTL: half - time.Microsecond}, "abc 15s, abc 15s"},
		{abc, nil, 0, membership.Wanted{MaxTTL: half, Add: nodeNames[3:4]}, "abcd 15s, abcd 15s"},
		{abc, nil, 0, membership.Wanted{MaxTTL: half, Remove: ab}, "bc 15s, c 15s, c 15s"}, // the second closes the first, and the third the second
		{abc, ab, maxTTL, membership.Wanted{}, "abc 30s"},
		{abc, ab, maxTTL, membership.Wanted{MaxTTL: maxTTL, Strict: lax}, ""}, // not a close
		{abc, ab, maxTTL, membership.Wanted{Remove: nodeNames[3:4]}, ""},
		// A removal that ended before its close.
		{ab, abc, maxTTL, membership.Wanted{Remove: abc[2:]}, "ab 30s"},
		{ab, abc, maxTTL, membership.Wanted{Strict: strict}, "ab 30s strict"},
		{abc, abc, maxTTL, membership.Wanted{}, ""},
		{abc, abc, half, membership.Wanted{}, ""},
		// A lowering that ended before its close.
		{abc, abc, twice, membership.Wanted{}, "abc 30s"},
		{abc, abc, twice, membership.Wanted{Strict: lax}, "abc 30s"},
		{abc, abc, twice, membership.Wanted{Strict: strict}, "abc 30s strict"},
		{abc, abc, twice, membership.Wanted{MaxTTL: half}, "abc 15s, abc 15s"},
		{abc, ab, twice, membership.Wanted{Add: nodeNames[3:4]}, "abcd 30s"},
	} {
		rec := listed(0, c.in, c.before)
		if c.before != nil {
			rec.Gen, rec.BeforeMaxTTL = 4, c.was
		}
		steps := func() (out []membership.Configuration) {
			v := newView(5, start)
			for i := range v.nodes {
				v.blank(i, start)
				if slices.Contains(rec.Names, v.names[i]) {
					v.nodes[i] = observed(start, "r", &rec, 7, membership.Notice{})
				}
			}
			change, err := membership.NewChange(v.seen(), c.wanted)
			if err != nil || (len(change.Steps) == 0) != change.Begun() {
				t.Errorf("%v of %v, %v before: got %+v, %v", c.wanted, rec.Configuration, c.before, change, err)
			}
			return change.Steps
		}
		text := func(of []membership.Configuration) string {
			var out []string
			for _, s := range of {
				out = append(out, fmt.Sprint(strings.Join(s.Names, ""), " ", s.MaxTTL, map[bool]string{true: " strict"}[s.Strict]))
			}
			return strings.Join(out, ", ")
		}
		all := steps()
		if got := text(all); got != c.want {
			t.Errorf("%v of %v, %v before: got %q; want %q", c.wanted, rec.Configuration, c.before, got, c.want)
		}
		for k, next := range all { // in force
			rec.Gen, rec.Before, rec.BeforeMaxTTL, rec.Configuration = rec.Gen+1, rec.Names, rec.MaxTTL, next
			if got, want := text(steps()), text(all[k+1:]); got != want {
				t.Errorf("%v, after step %d (%v): got %q; want %q", c.wanted, k+1, next, got, want)
			}
		}
	}
}

func TestWhatHasBegunIsFinishedThoughNothingIsWanted(t *testing.T) {
	v := newView(3, start)
	wanted := membership.Wanted{MaxTTL: maxTTL}
	c, err := membership.NewChange(v.seen(), wanted)
	if err != nil || len(c.Steps) != 0 {
		t.Errorf("in force already: got %v, %v; want no step", c.Steps, err)
	}
	for i := range 2 { // a quorum has settled: a later configuration may be in force where nobody looks
		v.nodes[i].Record.Settled, v.nodes[i].Record.Ballot = true, 1
	}
	if c, err = membership.NewChange(v.seen(), wanted); err != nil || len(c.Steps) != 1 {
		t.Errorf("a change has begun: got %v, %v; want a step that finishes it", c.Steps, err)
	}
}

// Another operator may have the same ballot: what it settled has an epoch of its own.
func TestWhatAnotherSettledWithTheSameBallotDoesNotStand(t *testing.T) {
	c := newChanged()
	c.turn(start)
	c.settles(0, 1)
	c.settles(1, 1)
	c.nodes[1].Record.Epoch = "another's"
	wantStage(t, "another settled the second node", c.turn(start), membership.Settling)
	c.nodes[1].Record.Epoch = c.Marks[1]
	wantStage(t, "it is ours again", c.turn(start), membership.Pausing)
}
