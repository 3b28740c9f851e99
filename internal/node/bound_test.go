package node

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// sign is a sign of life, a look without names.
type sign struct{ refused error }

func (*sign) Wanted() ([]string, []int64, []*round.Claim)  { return nil, nil, nil }
func (s *sign) Answer(_ int, _ bool, _ []int64, err error) { s.refused = err }
func (*sign) Size() int                                    { return 0 }
func (*sign) Singly() []Poll                               { return nil }
func nameless() *round.Sleeper                             { return &round.Sleeper{Wake: make(chan struct{}, 1)} }

func on(name string, m quorum.Mark) *round.Claim {
	return &round.Claim{Key: name, Marks: []quorum.Mark{m}}
}
func ask(name string) *round.Round { return round.New(on(name, quorum.Absent), 1, 1, nameless()) }
func owed(name string) Release     { return Release{Claim: on(name, quorum.Present), Until: clock.Never} }

func namesOf(rounds []*round.Round) (names []string) {
	for _, r := range rounds {
		names = append(names, r.Claim.Key)
	}
	return names
}

// With 10,000 names waited for, a node's queue was full of asks. It refused the renewals as
// well, and the Locker lost what it held.
func TestAQueueFullOfAsksRefusesNothingElse(t *testing.T) {
	n := &Node{Clock: clock.New(), Tracker: membership.NewTracker(membership.NewConfig([]string{"a"}, 0, false), "", clock.New()), Timeout: time.Second, wake: make(chan struct{}, 1)}
	for range queueBound {
		n.SubmitAcquire(ask("jobs"))
	}
	late := ask("jobs")
	if n.SubmitAcquire(late); late.Votes[0].Outcome != quorum.Failed || !errors.Is(late.Cause(0), errBusy) {
		t.Fatalf("one ask more: got %v, %v; want it to be refused", late.Votes, late.Cause(0))
	}
	n.submitGroup(&group{script: lua.ExtendScript, answer: func(_ *group, _ int, _ quorum.Outcome, _ []int64, err error) {
		t.Errorf("a renewal: got %v; want it to be queued", err)
	}}, 1)
	s := &sign{}
	n.SubmitPoll(s)
	n.SubmitRaise(ask("held"))
	n.SubmitPass(&Handover{Old: owed("held"), Round: ask("held")})
	n.Release(owed("held"))
	n.SubmitSample(1)
	q := &n.queue
	if s.refused != nil || len(q.groups) != 1 || len(q.polls) != 1 || len(q.raises) != 1 || len(q.passes) != 1 || len(q.releases) != 1 || !q.sample {
		t.Errorf("queued: %d renewals, %d signs of life, %d raises, %d hand-overs, %d releases, a reading %t; want one of each",
			len(q.groups), len(q.polls), len(q.raises), len(q.passes), len(q.releases), q.sample)
	}
}

// While more releases waited than fit into a flush, no ask went at all. Those that were over by
// then stayed in the queue, and new ones were refused.
func TestOnlyTheAsksOfItsNameWaitForARelease(t *testing.T) {
	const last = AcquiresPerFlush + 1
	var q pending
	for i := range last + 1 {
		q.releases = append(q.releases, owed(fmt.Sprint(i)))
	}
	over := ask(fmt.Sprint(last))
	over.Claim.Abandoned.Store(true)
	q.acquires = append(q.acquires, over, ask(fmt.Sprint(last)), ask("0"), ask("free"))
	for i, want := range [][]string{{"0", "free"}, {fmt.Sprint(last)}} {
		var b batch
		if q.take(&b, 0); !slices.Equal(namesOf(b.acquires), want) {
			t.Errorf("flush %d asks for %q; want %q", i, namesOf(b.acquires), want)
		}
	}
	if len(q.acquires)+len(q.releases) > 0 || q.behind != nil {
		t.Errorf("left: %q, %d releases, %v; want nothing", namesOf(q.acquires), len(q.releases), q.behind)
	}
}

// A flush that takes a large part of the node timeout makes the renewal behind it late.
func TestAFlushFitsTheTimeThatANodeTakes(t *testing.T) {
	const timeout = 160 * time.Millisecond
	for _, tt := range []struct {
		what string
		took []int
		want int
	}{
		{"quick", []int{1, 2, 3}, AcquiresPerFlush},
		{"far away", []int{100, 101, 102, 100, 104}, AcquiresPerFlush},
		{"slow", []int{1, 30}, AcquiresPerFlush / 2},
		{"slow for long", []int{1, 30, 30, 30, 30, 30, 30}, leastPerFlush},
		{"slow, and quick again", []int{1, 30, 30, 2}, AcquiresPerFlush / 2},
		{"far away, and reset at once", []int{100, 101, -1, 100, 101}, AcquiresPerFlush},
		{"down", []int{1, -160}, AcquiresPerFlush / 2},
	} {
		var b batch
		for _, took := range tt.took {
			var err error
			if took < 0 { // it failed
				took, err = -took, net.ErrClosed
			}
			b.fit(time.Duration(took)*time.Millisecond, err, timeout)
		}
		if got := b.most(); got != tt.want {
			t.Errorf("%s: the next flush takes %d asks; want %d", tt.what, got, tt.want)
		}
	}
	q, b := pending{}, batch{less: AcquiresPerFlush - leastPerFlush}
	for range 3 {
		q.polls = append(q.polls, &sign{})
		q.releases = append(q.releases, owed("a"))
		q.groups = append(q.groups, &group{script: lua.ExtendScript, claims: make([]*round.Claim, lua.ExtendBatchSize)})
	}
	if q.take(&b, 0); len(b.polls) != 1 || len(b.groups) != 2 || len(b.releases) != 3 {
		t.Errorf("from a slow node's queue, %d looks, %d renewals and %d releases go; want 1, 2 and 3", len(b.polls), len(b.groups), len(b.releases))
	}
}
