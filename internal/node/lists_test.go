package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// A node votes by its record's list and the one before, and no vote of it counts by another.
func TestANodeVotesForTheListsOfItsRecordAlone(t *testing.T) {
	const one, two, three = quorum.List(0b001), quorum.List(0b011), quorum.List(0b101)
	for list, votes := range map[quorum.List]bool{one: true, two: true, three: false, 0: false} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Config{})
			s.writer.lists = [2]quorum.List{two, one}
			s.answers["acquire"], s.answers["raise"], s.answers["pass"] = 42, 1, 42
			want := quorum.Abstained
			if votes {
				want = quorum.Granted
			}
			asks := func() *round.Round {
				c := s.claim("orders/1")
				c.GoBy(list)
				return s.round(c)
			}
			acquire, raise := asks(), asks()
			raise.Raise = 42
			s.SubmitAcquire(acquire)
			s.SubmitRaise(raise)
			s.flush()
			for what, r := range map[string]*round.Round{"acquire": acquire, "raise": raise} {
				if r.Votes[0].Outcome != want || !votes && !errors.Is(r.Cause(0), errRelisted) {
					t.Errorf("%s by list %b: got %v, %v; want %v", what, list, r.Votes[0].Outcome, r.Cause(0), want)
				}
				if r.Votes[2].Outcome == quorum.Unlisted == list.Has(2) {
					t.Errorf("%s by list %b: node 2 is %v", what, list, r.Votes[2].Outcome)
				}
			}
			pass := asks()
			old := s.release(s.claim("orders/2"))
			s.SubmitPass(&Handover{Old: old, Round: pass})
			s.flush()
			if got := pass.Votes[0].Outcome; got == quorum.Granted != votes {
				t.Errorf("a pass by list %b: got %v", list, got)
			}
		})
	}
}

// goingOver is an extension of a lock of the first list to the second, by three nodes that answer as
// the test says.
func goingOver(t *testing.T, from, to quorum.List) (c *round.Claim, e *Extension, says func(i int, reply int64, lists ...quorum.List)) {
	t.Helper()
	cl := clock.New()
	var nodes []*Node
	for i := range 3 {
		n := &Node{Index: i, Clock: cl, Tracker: membership.NewTracker(membership.NewConfig([]string{"a", "b", "c"}, 0, false), "", cl), Timeout: time.Second, wake: make(chan struct{}, 1)}
		n.queue.node = i
		nodes = append(nodes, n)
	}
	c = &round.Claim{Key: "orders/1", Owner: "me", TTL: 10_000}
	c.MarkNodes(3)
	c.GoBy(from)
	e = Extend(nodes, to, []*round.Claim{c}, []int64{10_000}, cl.Early())
	return c, e, func(i int, reply int64, lists ...quorum.List) {
		g := nodes[i].queue.groups[0]
		g.lists = [2]quorum.List{lists[0], lists[len(lists)-1]}
		g.answer(g, i, quorum.Granted, []int64{reply}, nil)
	}
}

// reseeds are the nodes on which the extension puts the lock back.
func (e *Extension) reseeds() (nodes []int) {
	for i, n := range e.nodes {
		for _, g := range n.queue.groups {
			if g.script == lua.ReseedScript {
				nodes = append(nodes, i)
			}
		}
	}
	return nodes
}

func TestALockGoesOverOnceAQuorumOfTheNewerListConfirmsIt(t *testing.T) {
	const one, two, pair, all = quorum.List(0b001), quorum.List(0b011), quorum.List(0b110), quorum.List(0)
	const has, gone = 1, 0
	type said struct {
		node  int
		reply int64
		lists []quorum.List
	}
	both, newer := []quorum.List{two, one}, []quorum.List{two}
	for _, c := range []struct {
		name     string
		from, to quorum.List
		said     []said
		verdict  quorum.Verdict
		list     quorum.List
		nodes    uint64
		back     []int
	}{
		{"its own list confirms", one, two, []said{{0, has, both}}, quorum.Won, one, 0b001, nil},
		{"the node that is added lacks it", one, two, []said{{0, has, both}, {1, gone, both}}, quorum.Won, one, 0b001, []int{1}},
		{"that one answers first", one, two, []said{{1, gone, both}, {0, has, both}}, quorum.Won, one, 0b001, []int{1}},
		{"both have it", one, two, []said{{0, has, both}, {1, has, both}}, quorum.Won, two, 0b011, nil},
		{"the added one first", one, two, []said{{1, has, both}, {0, has, both}}, quorum.Won, two, 0b011, nil},
		{"its list has ended, and both have it", one, two, []said{{0, has, newer}, {1, has, newer}}, quorum.Won, two, 0b011, nil},
		{"its list has ended, and one lacks it", one, two, []said{{0, has, newer}, {1, gone, newer}}, quorum.NoQuorum, one, 0, []int{1}},
		{"that one answers first, its list has ended", one, two, []said{{1, gone, newer}, {0, has, newer}}, quorum.NoQuorum, one, 0, []int{1}},
		{"its own list has lost it", one, two, []said{{0, gone, both}, {1, has, both}}, quorum.Lost, one, 0, nil},
		{"half of its own have lost it, and the others do not vote", two, all, []said{{0, gone, []quorum.List{all, two}}, {1, has, []quorum.List{all, two}}, {2, has, []quorum.List{all, two}}}, quorum.Lost, two, 0, nil},
		{"a node votes by neither", one, two, []said{{0, has, []quorum.List{all}}, {1, has, []quorum.List{all}}}, quorum.NoQuorum, one, 0, nil},
		{"a node is taken out", all, pair, []said{{0, has, []quorum.List{all}}, {1, has, []quorum.List{pair, all}}, {2, gone, []quorum.List{pair, all}}}, quorum.Won, all, 0b011, []int{2}},
		{"its newer list alone", all, pair, []said{{1, has, []quorum.List{pair}}, {2, has, []quorum.List{pair}}}, quorum.Won, pair, 0b110, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			lock, e, says := goingOver(t, c.from, c.to)
			for _, s := range c.said {
				says(s.node, s.reply, s.lists...)
			}
			if got := e.Verdict(0); got != c.verdict || lock.List() != c.list || got == quorum.Won && lock.Set() != c.nodes {
				t.Errorf("%s: got verdict %d, list %b, nodes %b; want %d, %b, %b", c.name, got, lock.List(), lock.Set(), c.verdict, c.list, c.nodes)
			}
			if back := e.reseeds(); len(back) != len(c.back) || len(back) > 0 && back[0] != c.back[0] {
				t.Errorf("%s: it is put back on %v; want %v", c.name, back, c.back)
			}
		})
	}
}

// A node is found to have stepped while the last reply is out by which the lock goes over.
func TestADoubtIsNotLostWhenALockGoesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const two, all = quorum.List(0b011), quorum.List(0)
		c, _, says := goingOver(t, two, all)
		says(0, 1, two)
		says(1, 1, all, two)
		if vouched, left, _ := c.Discount(1, 0); !vouched || left != 1 {
			t.Fatalf("got %t, %d left; want it doubted", vouched, left)
		}
		says(2, 1, all, two)
		if c.List() != two || c.VouchedBy(1) {
			t.Errorf("got list %b, nodes %b; want it where it was, without the node in doubt", c.List(), c.Set())
		}
	})
}

// A renewal of two locks, one by the list before: the other is put on no node of that.
func TestALockIsPutBackOnNoNodeOutsideItsLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pair, all = quorum.List(0b110), quorum.List(0)
		_, before, _ := goingOver(t, all, pair)
		nodes := before.nodes
		for _, n := range nodes {
			n.queue.groups = nil
		}
		claims := []*round.Claim{{Key: "orders/1", Owner: "me"}, {Key: "orders/2", Owner: "me"}}
		for i, list := range []quorum.List{all, pair} {
			claims[i].MarkNodes(3)
			claims[i].GoBy(list)
		}
		e := Extend(nodes, pair, claims, []int64{10_000, 10_000}, before.Start)
		for i, replies := range [][]int64{{1, 0}, {1, 1}, {1, 1}} {
			g := nodes[i].queue.groups[0]
			g.lists = [2]quorum.List{pair, all}
			g.answer(g, i, quorum.Granted, replies, nil)
		}
		if back := e.reseeds(); back != nil {
			t.Errorf("put back on %v; want none", back)
		}
	})
}

// A node that no list had holds nothing of ours. One that was taken out may have an entry of an
// attempt, and grant it late.
func TestAnAttemptThatIsOverIsReleasedWhereTheNodeWasTakenOut(t *testing.T) {
	cl := clock.New()
	tracker := membership.NewTracker(membership.NewConfig([]string{"a", "b"}, 0, false), "", cl)
	n := &Node{Index: 1, Clock: cl, Tracker: tracker, Timeout: time.Second, wake: make(chan struct{}, 1)}
	n.queue.node, n.queue.flushed = 1, true
	shows := membership.Observation{Sent: 1, Seen: 1, Answered: true, Run: "r", Recorded: true, Record: membership.Record{
		Format: membership.RecordFormat, Epoch: "e", Cluster: "c", Run: "r", Gen: 1, Before: []string{"a", "b"},
		Configuration: membership.Configuration{Names: []string{"a"}, MaxTTL: time.Minute},
	}}
	tracker.Publish(0, shows)
	for _, member := range []bool{false, true} {
		if member {
			tracker.Publish(1, shows)
		}
		r := owed("orders/1")
		r.Claim.MarkNodes(2)
		r.Claim.AcceptPush(7)
		if n.Release(r); len(n.queue.releases) == 1 != member {
			t.Errorf("it was taken out %t: got %d releases", member, len(n.queue.releases))
		}
	}
}
