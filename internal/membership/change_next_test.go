package membership_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

// changed is an operator's change from a, b, c to a, b, c, d, and what it sees.
type changed struct {
	*view
	membership.Change
}

func newChanged() *changed {
	c := &changed{newView(4, start), membership.Change{Cluster: "c1", From: nodeNames[:3], Wanted: nodeNames[:4]}}
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
	c.nodes[i].Record.Proposed = membership.Proposed{Ballot: ballot, Names: list}
}

func wantStage(t *testing.T, when string, got membership.Turn, want membership.Stage) {
	t.Helper()
	if got.Stage != want || got.Err != nil {
		t.Errorf("%s: got %v (%d of %d), %v; want %v", when, got.Stage, got.Done, got.Of, got.Err, want)
	}
}

func TestTheNextListIsInForceOnceAQuorumHasAcceptedIt(t *testing.T) {
	c := newChanged()
	wantStage(t, "at first", c.turn(start), membership.Settling)
	c.settles(0, 1)
	wantStage(t, "one node is settled", c.turn(start), membership.Settling)
	c.settles(1, 1)
	turn := c.turn(start)
	wantStage(t, "two are", turn, membership.Pausing)
	c.accepts(0, 1, nodeNames[:4])
	wantStage(t, "one has accepted", c.turn(turn.Until), membership.Accepting)
	c.accepts(1, 1, nodeNames[:4])
	wantStage(t, "two have", c.turn(turn.Until), membership.Forcing)
}

func TestWhatAnotherOperatorProposedIsFinished(t *testing.T) {
	c := newChanged()
	c.accepts(1, 3, nodeNames[:2])
	c.nodes[1].Record.Ballot = 3
	c.turn(start)
	c.settles(0, c.Ballot)
	c.settles(1, c.Ballot)
	if turn := c.turn(start); c.Ballot != 4 || !slices.Equal(c.To, nodeNames[:2]) {
		t.Errorf("got ballot %d, list %q (%v); want the fourth, and the list that was accepted", c.Ballot, c.To, turn.Stage)
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
		to   []string
		want string
	}{{nodeNames[:4], "add d"}, {nodeNames[:2], "shrink c"}, {nodeNames[:3], "settle"}} {
		c := newChanged()
		pending := func(when, want string) {
			t.Helper()
			seen := membership.NewView(membership.NewConfig(nodeNames[:3], maxTTL, false), c.nodes[:3], c.waits[:3])
			if got := seen.Pending(); got != want {
				t.Errorf("%s %s: got %q; want %q", when, k.want, got, want)
			}
		}
		pending("before", "")
		c.Change, _ = c.Next(c.seen(), start)
		c.settles(0, 1)
		pending("one node is settled to", "add, shrink or settle")
		c.settles(1, 1)
		c.accepts(1, 1, k.to)
		pending("one node has accepted", k.want)
		c.accepts(0, 2, nodeNames[:3])
		pending("a later operator's settling after", "settle")
	}
}
