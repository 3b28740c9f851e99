package membership_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/testkit"
)

// party is a Tracker over nodes that keep what is written on them.
type party struct {
	*membership.Tracker
	clock *clock.Clock
	nodes []*partyNode
}

// partyNode is one of them.
type partyNode struct {
	party *party
	index int

	mu      sync.Mutex // guards the fields below
	shows   membership.Observation
	looks   int
	actions []membership.Action
	fails   error // what Do returns
	behind  int   // so many looks that count have one of the node's writer behind them
}

func (n *partyNode) Look(_ context.Context, counted bool) {
	n.mu.Lock()
	o := n.shows
	n.looks++
	again := counted && n.behind > 0
	if again {
		n.behind--
	}
	n.mu.Unlock()
	o.Sent, o.Seen, o.Counted = n.party.clock.Now(), n.party.clock.Now(), counted
	n.party.Publish(n.index, o)
	if again {
		o.Counted = false
		n.party.Publish(n.index, o)
	}
}

func (n *partyNode) Do(_ context.Context, p membership.Plan) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.actions = append(n.actions, p.Action)
	switch {
	case n.fails != nil:
		return n.fails
	case p.Action == membership.DoNotice:
		n.shows.Notice = membership.Notice{Nonce: "n", Run: n.shows.Run, Claim: p.Claim}
	case p.Action == membership.DoInstall && p.Notice == n.shows.Notice:
		n.shows.Recorded, n.shows.Record, n.shows.Notice = true, p.Record, membership.Notice{}
		n.shows.Record.Epoch, n.shows.Record.Run = "e2", n.shows.Run
	default:
		return membership.ErrRefused
	}
	return nil
}

// shown is what the node shows.
func (n *partyNode) shown() membership.Observation {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.shows
}

// show makes the node show something else.
func (n *partyNode) show(o membership.Observation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shows = o
}

func (n *partyNode) did() []membership.Action {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.actions
}

func (n *partyNode) looked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.looks
}

// newParty is three nodes of "c1", of which the last forgot, and the Tracker at work.
func newParty(t *testing.T) *party {
	t.Helper()
	names := []string{"a", "b", "c"}
	p := &party{clock: clock.New()}
	p.Tracker = membership.NewTracker(membership.NewConfig(names, maxTTL, false), "new", p.clock)
	for i := range names {
		rec := recordOf("e", "c1", "r", names, maxTTL, 0)
		p.nodes = append(p.nodes, &partyNode{party: p, index: i, shows: observed(0, "r", &rec, 7, membership.Notice{})})
		p.Attach(p.nodes[i])
	}
	p.nodes[2].shows = observed(0, "r2", nil, 0, membership.Notice{})
	go p.Run()
	t.Cleanup(p.Close)
	return p
}

// verify is what a node's writer asks, by what the node shows.
func (p *party) verify(t *testing.T, i int) (membership.Voter, error) {
	t.Helper()
	o := p.nodes[i].shown()
	o.Sent, o.Seen = p.clock.Now(), p.clock.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return p.VoterOf(ctx, i, p.Publish(i, o))
}

func TestTheLoopTakesANodeInAfterItsWaitAndHasItVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		if v, err := p.verify(t, 2); err == nil {
			t.Fatalf("got %+v of a node that forgot; want none", v)
		}
		time.Sleep(maxTTL - time.Millisecond)
		if got := p.nodes[2].did(); len(got) != 1 || got[0] != membership.DoNotice {
			t.Fatalf("before its wait is over: got actions %v; want a notice", got)
		}
		p.Outdated(2) // its writer verified it meanwhile, in vain
		time.Sleep(2 * time.Second)
		if got := p.nodes[2].did(); len(got) != 2 || got[1] != membership.DoInstall {
			t.Fatalf("after its wait: got actions %v; want an install", got)
		}
		if !p.Outdated(2) {
			t.Error("its writer is not told to verify it")
		}
		if v, err := p.verify(t, 2); err != nil || v.Epoch != "e2" {
			t.Errorf("got %+v, %v; want its new epoch", v, err)
		}
		if rec := p.nodes[2].shown().Record; rec.Base != 7 || rec.Cluster != "c1" {
			t.Errorf("got %+v; want the others' largest number and cluster", rec)
		}
		for _, n := range p.nodes[:2] {
			if got := n.did(); got != nil {
				t.Errorf("got actions %v on a member; want none", got)
			}
		}
	})
}

// An operator's call is not to fail because a writer looked at its node in the same moment.
func TestAnAdmissionOutlivesTheLooksOfWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		p.nodes[0].behind = 2
		proposal := p.Proposal()
		proposal.Admit = true
		p.Settle(t.Context(), proposal)
		if got := p.nodes[2].did(); len(got) != 2 || got[1] != membership.DoInstall {
			t.Errorf("got actions %v; want a notice and an install", got)
		}
	})
}

func TestWhatAnActionFailedWithIsWhyTheNodeAbstains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		full := errors.New("OOM command not allowed")
		p.nodes[2].fails = full
		_, _ = p.verify(t, 2)
		time.Sleep(time.Second)
		why := p.WhyNot(2)
		var abstains *membership.AbstentionError
		if !errors.Is(why, full) || !errors.As(why, &abstains) || !strings.Contains(why.Error(), "lost its memory") {
			t.Errorf("got %v; want why it abstains, and what it answered", why)
		}
	})
}

func TestAThousandWhoAskShareALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		_, _ = p.verify(t, 2)
		time.Sleep(time.Minute) // it is taken in, and the loop sleeps
		before := p.nodes[0].looked()
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if !p.LookAgain(t.Context(), 50*time.Millisecond) {
					t.Error("got no look")
				}
			})
		}
		all.Wait()
		if got := p.nodes[0].looked() - before; got < 1 || got > 2 {
			t.Errorf("got %d looks at a node; want one or two", got)
		}
	})
}

func TestOneAtATimeChangesNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		done, err := p.Alone(t.Context())
		testkit.Must(t, err)
		_, _ = p.verify(t, 2) // wakes the loop
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Alone(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second: got %v; want it to wait until its ctx is done", err)
		}
		if got := p.nodes[2].did(); got != nil {
			t.Errorf("got actions %v of the loop meanwhile; want none", got)
		}
		done()
		synctest.Wait()
		if got := p.nodes[2].did(); len(got) != 1 {
			t.Errorf("got actions %v of the loop afterwards; want a notice", got)
		}
	})
}

// A look that was sent before another, and comes after it, says nothing of now: neither
// what it read, nor that it had no answer.
func TestALookThatComesLateReplacesNoNewerOne(t *testing.T) {
	names := []string{"a"}
	rec := recordOf("e", "c1", "r", names, maxTTL, 0)
	for name, late := range map[string]func(p *membership.Tracker){
		"with an answer": func(p *membership.Tracker) { p.Publish(0, observed(1, "r0", nil, 0, membership.Notice{})) },
		"without one":    func(p *membership.Tracker) { p.Missed(0, 1, errors.New("no reply")) },
	} {
		p := membership.NewTracker(membership.NewConfig(names, maxTTL, false), "new", clock.New())
		p.Publish(0, observed(2, "r", &rec, 7, membership.Notice{}))
		late(p)
		if !p.ReadSince(0, 1) {
			t.Errorf("%s: the older look is what counts", name)
		}
	}
}

// The writer of a node learns late that the server which it verified is another by now.
// The node was installed anew meanwhile, and has not to be installed once more for that.
func TestAnEpochThatEndedTakesNoLaterOneWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		_, _ = p.verify(t, 1) // with it a quorum is known
		if v, err := p.verify(t, 0); err != nil || v.Epoch != "e" {
			t.Fatalf("got %+v, %v; want epoch e", v, err)
		}
		anew := recordOf("e3", "c1", "r3", []string{"a", "b", "c"}, maxTTL, 0)
		old := p.nodes[0].shown()
		p.nodes[0].show(observed(0, "r3", &anew, 7, membership.Notice{}))
		if v, err := p.verify(t, 0); err != nil || v.Epoch != "e3" {
			t.Fatalf("got %+v, %v; want epoch e3", v, err)
		}
		p.Forgot(0, "e")
		if v, err := p.verify(t, 0); err != nil || v.Epoch != "e3" {
			t.Errorf("got %+v, %v; want epoch e3, which has not ended", v, err)
		}
		p.Forgot(0, "e3")
		if v, err := p.verify(t, 0); err == nil {
			t.Errorf("got %+v; want no vote under an epoch that has ended", v)
		}
		p.nodes[0].show(old)
		if v, err := p.verify(t, 0); err == nil {
			t.Errorf("got %+v; want no vote of data that came back", v)
		}
	})
}
