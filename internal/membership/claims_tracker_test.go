package membership_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/testkit"
)

// shows makes a Tracker see an observation of node i, later than all before.
func shows(p *membership.Tracker, i int, at clock.Instant, o membership.Observation) {
	o.Sent, o.Seen = at, at
	p.Publish(i, o)
}

// byRecord is a member of that cluster, at a generation, with a list.
func byRecord(cluster string, gen int, names ...string) membership.Observation {
	rec := recordOf("e", cluster, "r", names, maxTTL, 0)
	rec.Gen = gen
	return observed(0, "r", &rec, 7, membership.Notice{})
}

// wantKnown fails the test unless this is what the client knows of its cluster.
func wantKnown(t *testing.T, when string, p *membership.Tracker, want membership.Claim) {
	t.Helper()
	if got := p.View().Known; !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v of %s; want %+v of %s", when, got, got.Cluster, want, want.Cluster)
	}
}

func trackerOf(names ...string) *membership.Tracker {
	return membership.NewTracker(membership.NewConfig(names, maxTTL, false), "new", clock.New())
}

func TestAClientKnowsWhatAQuorumHasInForce(t *testing.T) {
	blank := observed(0, "r2", nil, 0, membership.Notice{})
	p := trackerOf(nodeNames[:3]...)
	o := byRecord("c1", 2, nodeNames[:3]...)
	o.Record.Before, o.Record.BeforeMaxTTL, o.Record.From, o.Record.Strict = nodeNames[:2], time.Minute, "c0 4", true
	shows(p, 0, 1, o)
	wantKnown(t, "a node's word", p, membership.Claim{})
	shows(p, 1, 2, o)
	known := leasing(from(claimBy("c1", 2, nodeNames[:3]...), "c0 4"), time.Minute)
	known.Strict = true
	wantKnown(t, "a quorum's", p, known)
	o.Record.Proposed = membership.Proposed{Ballot: 1, Configuration: membership.Configuration{Names: nodeNames[:3], MaxTTL: time.Hour}}
	shows(p, 2, 3, o)
	wantKnown(t, "what a node proposes is for longer", p, leasing(known, time.Hour))
	o.Record.Proposed, o.Record.Gen, o.Record.Strict = membership.Proposed{}, 3, false
	shows(p, 2, 4, o)
	known.Gen, known.Strict = 3, false
	wantKnown(t, "a later one of the list", p, known)
	shows(p, 0, 5, blank)
	shows(p, 1, 6, blank)
	wantKnown(t, "two nodes forgot", p, known)
	shows(p, 2, 7, blank)
	wantKnown(t, "all did", p, known)
	shows(p, 0, 8, byRecord("c2", 0, nodeNames[:3]...))
	wantKnown(t, "a node of another cluster", p, known)
	shows(p, 1, 9, byRecord("c2", 0, nodeNames[:3]...))
	wantKnown(t, "a quorum of it", p, claimBy("c2", 0, nodeNames[:3]...))
}

func TestAClientGoesBackToNothingThatIsEarlier(t *testing.T) {
	for _, gen := range []int{0, 5} {
		p := trackerOf(nodeNames[:3]...)
		for i := range 3 {
			shows(p, i, clock.Instant(1+i), byRecord("c1", gen, nodeNames[:3]...))
		}
		known := claimBy("c1", gen, nodeNames[:3]...)
		wantKnown(t, "at first", p, known)
		for i := range 2 {
			p.Missed(i, clock.Instant(10+i), errors.New("no reply"))
		}
		if gen > 0 {
			shows(p, 2, 20, byRecord("c1", gen-1, nodeNames[:3]...))
			wantKnown(t, "one that is behind answers", p, known)
		}
		p.Missed(2, 30, errors.New("no reply"))
		wantKnown(t, "nobody answers", p, known)
	}
	p := trackerOf(nodeNames[:3]...) // one node was before the others, and forgot
	for i, gen := range []int{4, 4, 5} {
		shows(p, i, clock.Instant(1+i), byRecord("c1", gen, nodeNames[:3]...))
	}
	shows(p, 2, 5, observed(0, "r2", nil, 0, membership.Notice{}))
	wantKnown(t, "the latest forgot", p, claimBy("c1", 5, nodeNames[:3]...))
	p = trackerOf(nodeNames[:3]...) // a founding that was given up
	for i := range 2 {
		shows(p, i, clock.Instant(1+i), byRecord("c1", 2, nodeNames[:3]...))
	}
	o := byRecord("c2", 5, nodeNames[:3]...)
	o.Record.From = "c1 2"
	shows(p, 2, 5, o)
	wantKnown(t, "a quorum's word, and a node's", p, claimBy("c1", 2, nodeNames[:3]...))
	for i := range 2 {
		shows(p, i, clock.Instant(6+i), blankBy(claimBy("c1", 2, nodeNames[:3]...)))
	}
	wantKnown(t, "a node's word", p, claimBy("c1", 2, nodeNames[:3]...))
	if pl := p.Claim(1, p.View().Nodes[1]); pl.Action != membership.DoNothing { // the founder counts on what stands
		t.Errorf("got the claim %q while another founds", pl.Claim)
	}
}

// A client with a list of one node is not told of the lists to come, but by that node.
func TestAClientKnowsALaterListByANodesWord(t *testing.T) {
	p := trackerOf("a")
	shows(p, 0, 1, byRecord("c1", 1, nodeNames[:2]...))
	wantKnown(t, "a later list, and none was known", p, membership.Claim{})
	shows(p, 0, 2, byRecord("c1", 0, "a"))
	wantKnown(t, "its own", p, claimBy("c1", 0, "a"))
	shows(p, 0, 3, byRecord("c1", 2, nodeNames[:3]...))
	known := claimBy("c1", 2, nodeNames[:3]...)
	wantKnown(t, "a later list", p, known)
	shows(p, 0, 4, byRecord("c1", 1, nodeNames[:2]...))
	wantKnown(t, "an earlier one then", p, known)
	shows(p, 0, 5, byRecord("c1", 0, "a"))
	wantKnown(t, "its own then", p, known)
	shows(p, 0, 6, byRecord("c2", 9, nodeNames[:4]...))
	wantKnown(t, "another cluster's", p, known)
	shows(p, 0, 7, byRecord("c2", 9, "a"))
	wantKnown(t, "another cluster's of its list", p, known)
	o := byRecord("c2", 0, "a")
	o.Record.From = "c1 1"
	shows(p, 0, 8, o)
	wantKnown(t, "of one that was founded from an earlier", p, known)
	o.Record.From = "c7 1 c1 2"
	shows(p, 0, 9, o)
	known = from(claimBy("c2", 0, "a"), "c7 1 c1 2")
	wantKnown(t, "of one that was founded from it", p, known)
	shows(p, 0, 10, byRecord("c2", 1, nodeNames[:2]...))
	shows(p, 0, 11, byRecord("c2", 2, "a"))
	wantKnown(t, "the list is its own again", p, claimBy("c2", 2, "a"))
	shows(p, 0, 12, observed(0, "r2", nil, 0, membership.Notice{}))
	wantKnown(t, "it forgot", p, claimBy("c2", 2, "a"))
}

// idleParty is a Tracker over nodes that show this, without its loop.
func idleParty(shows ...membership.Observation) *party {
	p := &party{clock: clock.New()}
	p.Tracker = membership.NewTracker(membership.NewConfig(nodeNames[:len(shows)], maxTTL, false), "new", p.clock)
	for i, o := range shows {
		p.nodes = append(p.nodes, &partyNode{party: p, index: i, shows: o})
		p.Attach(p.nodes[i])
	}
	return p
}

// newWatch is a Tracker over three members of "c1" whose looks take a second; it is at work, and
// has looked at all of them just now.
func newWatch(t *testing.T, maxTTL time.Duration) *party {
	t.Helper()
	names := nodeNames[:3]
	p := &party{clock: clock.New()}
	p.Tracker = membership.NewTracker(membership.NewConfig(names, 10*maxTTL, false), "new", p.clock)
	for i := range names {
		rec := recordOf("e", "c1", "r", names, maxTTL, 0)
		rec.From = "c0 4"
		p.nodes = append(p.nodes, &partyNode{party: p, index: i, shows: observed(0, "r", &rec, 7, membership.Notice{})})
		p.Attach(slowNode{p.nodes[i]})
	}
	go p.Run()
	t.Cleanup(p.Close)
	p.LookAtAll(t.Context(), false)
	return p
}

type slowNode struct{ *partyNode }

func (n slowNode) Look(ctx context.Context, counted bool) {
	time.Sleep(time.Second)
	if pl := n.party.Claim(n.index, n.shown()); pl.Action != membership.DoNothing { // as node does
		_ = n.Do(ctx, pl)
	}
	n.partyNode.Look(ctx, counted)
}

// failsWith is what the node's actions fail with from now on.
func (n *partyNode) failsWith(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails = err
}

func TestAnAcquisitionLooksWhereTheLastLookIsTooOld(t *testing.T) {
	for most, limit := range map[time.Duration]time.Duration{
		20 * time.Second: 10 * time.Second, time.Hour: 15 * time.Second, // half of MaxTTL of the records, 15 s at most
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newWatch(t, most)
			counted := func(when string, after time.Duration, looks int, waits bool) {
				t.Helper()
				time.Sleep(after)
				before := p.nodes[1].looked()
				began := time.Now()
				testkit.Must(t, p.Claimed(t.Context(), time.Second, 0))
				if took := time.Since(began); waits && took != time.Second || !waits && took != 0 {
					t.Errorf("MaxTTL %v, %s: it took %v; want it to wait for a look: %t", most, when, took, waits)
				}
				time.Sleep(2 * time.Second)
				if got := p.nodes[1].looked() - before; got != looks {
					t.Errorf("MaxTTL %v, %s: got %d looks; want %d", most, when, got, looks)
				}
			}
			counted("at once", 0, 0, false)
			counted("soon after", 0, 0, false)
			counted("before half of it", limit/2-4*time.Second-time.Millisecond, 0, false)
			time.Sleep(limit/2 - 2*time.Second) // another one, and the first of these looks
			counted("behind half of it", 0, 1, false)
			counted("before the limit", limit-time.Second-time.Millisecond, 1, false)
			counted("behind the limit", limit-time.Second+time.Millisecond, 1, true)
			p.nodes[0].show(membership.Unread(p.nodes[0].shown(), 0, 0, "no reply"))
			counted("a node that does not answer", limit, 1, true)
			counted("and is as good as looked at", 0, 0, false)
			for i := range 2 { // one node's look is too old
				time.Sleep(limit - 2*time.Second)
				shows(p.Tracker, 1-i, p.clock.Now(), p.nodes[1-i].shown())
				shows(p.Tracker, 2, p.clock.Now(), p.nodes[2].shown())
				counted("one of three nodes", 2*time.Second, 1, true)
			}
		})
	}
}

// Who looks is busy elsewhere: an operator changes nodes, or one look hangs.
func TestWithoutALookInTimeNoVoteCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWatch(t, maxTTL)
		done, err := p.Alone(t.Context())
		testkit.Must(t, err)
		time.Sleep(time.Minute)
		if err := p.Claimed(t.Context(), time.Second, 0); err == nil || !strings.Contains(err.Error(), "no node was looked at for 1m") {
			t.Errorf("got %v; want no vote to count", err)
		}
		done()
		testkit.Must(t, p.Claimed(t.Context(), time.Second, 0))
	})
}

// A look that has begun is enough, where a node hangs.
func TestAnAcquisitionWaitsForTwoNodeTimeoutsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWatch(t, maxTTL)
		time.Sleep(time.Minute)
		began := time.Now()
		testkit.Must(t, p.Claimed(t.Context(), 100*time.Millisecond, 0))
		if took := time.Since(began); took < 200*time.Millisecond || took > 400*time.Millisecond {
			t.Errorf("it took %v; want two node timeouts, and little more", took)
		}
	})
}

// The writers look at the nodes first, and claim them.
func TestAnAcquisitionWaitsForTheFirstLookAtEachNode(t *testing.T) {
	member := byRecord("c1", 0, nodeNames[:3]...)
	for what, c := range map[string]struct {
		seen []membership.Observation // one each 300 ms
		took time.Duration
	}{
		"all are members":          {[]membership.Observation{member, member, member}, 900 * time.Millisecond},
		"the last does not answer": {[]membership.Observation{member, member, {}}, 900 * time.Millisecond},
		"the last takes too long":  {[]membership.Observation{member, member}, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := idleParty(member, member, member)
			time.Sleep(time.Minute)
			go func() {
				for i, o := range c.seen {
					time.Sleep(300 * time.Millisecond)
					shows(p.Tracker, i, p.clock.Now(), o)
				}
			}()
			began := time.Now()
			testkit.Must(t, p.Claimed(t.Context(), time.Second, 0))
			if took := time.Since(began); took != c.took {
				t.Errorf("%s: it took %v; want %v", what, took, c.took)
			}
		})
	}
}

func TestAnAcquisitionThatIsOverWaitsForNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		watched := newWatch(t, maxTTL)
		time.Sleep(time.Minute)
		for what, p := range map[string]*party{"the last look is old": watched, "there was none": idleParty(membership.Observation{})} {
			began := time.Now()
			err := p.Claimed(ctx, time.Second, 0)
			if took := time.Since(began); took != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v after %v; want it to end with its ctx", what, err, took)
			}
		}
	})
}

func TestNoVoteCountsBesideABlankNodeThatLacksTheClaim(t *testing.T) {
	const lacks = "c forgot, and lacks this client's claim"
	known := from(claimBy("c1", 0, nodeNames[:3]...), "c0 4")
	after := known
	after.Gen = 4
	replica := observed(0, "r2", nil, 0, membership.Notice{})
	replica.Replica = true
	restarted := recordOf("e", "c1", "r", nodeNames[:3], maxTTL, 0)
	for what, c := range map[string]struct {
		o    membership.Observation
		want string
	}{
		"it has none":                      {observed(0, "r2", nil, 0, membership.Notice{}), lacks},
		"it has a plain notice":            {observed(0, "r2", nil, 0, noticeOf("n", "r2")), lacks},
		"it restarted with its data":       {observed(0, "r2", &restarted, 0, noticeOf("n", "r2")), lacks},
		"it has the claim":                 {blankBy(known), ""},
		"it has a later one":               {blankBy(after), ""},
		"it has the claim for less":        {blankBy(leasing(known, time.Second)), lacks},
		"of an identity before":            {observed(0, "r3", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: claimText(known)}), lacks},
		"it has another's of a list in it": {blankBy(claimBy("c2", 0, "c")), "c has another cluster's record or claim"},
		"it has another's of another list": {blankBy(claimBy("c2", 0, "c", "x")), ""},
		"it is another's of a list in it":  {recorded("c2", 0, maxTTL, "c"), "c has another cluster's record or claim"},
		"it is another's of another list":  {recorded("c2", 0, maxTTL, "c", "x"), ""},
		"it is a replica":                  {replica, ""},
		"it has that of which it is from":  {blankBy(claimBy("c0", 4, "c")), lacks},
		"it does not answer, another's":    {membership.Unread(recorded("c2", 0, maxTTL, "c"), 0, 0, "no reply"), ""},
		"it does not answer":               {membership.Unread(membership.Observation{}, 0, 0, "no reply"), ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newWatch(t, maxTTL)
			done, err := p.Alone(t.Context()) // the loop claims nothing
			testkit.Must(t, err)
			defer done()
			shows(p.Tracker, 2, p.clock.Now(), c.o)
			err = p.Claimed(t.Context(), time.Second, 0)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v; want %q", what, err, c.want)
			}
		})
	}
}

// A node may have been looked at before the cluster was known, and so without a claim.
func TestAnAcquisitionHasTheNodeClaimedAndOneThatTakesNoWritesHindersNobody(t *testing.T) {
	for _, full := range []error{nil, errors.New("OOM command not allowed")} {
		synctest.Test(t, func(t *testing.T) {
			p := newWatch(t, maxTTL)
			time.Sleep(time.Second) // the loop sleeps
			forgets := func(run string) {
				p.nodes[2].show(observed(0, run, nil, 0, membership.Notice{}))
				shows(p.Tracker, 2, p.clock.Now(), p.nodes[2].shown())
			}
			p.nodes[2].failsWith(full)
			forgets("r2")
			began := time.Now()
			err := p.Claimed(t.Context(), time.Second, 0)
			if full != nil {
				time.Sleep(3 * time.Second) // the loop has tried, too
				testkit.Must(t, p.Claimed(t.Context(), time.Second, 0))
				p.nodes[2].failsWith(nil)
				forgets("r3")
				began, err = time.Now(), p.Claimed(t.Context(), time.Second, 0)
			}
			testkit.Must(t, err)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %v; want one look, or two", took)
			}
			if got := p.nodes[2].shown().Notice.Claim; full == nil && got != claimText(from(claimBy("c1", 0, nodeNames[:3]...), "c0 4")) {
				t.Errorf("got the claim %q", got)
			}
			if time.Sleep(5 * time.Second); p.nodes[2].shown().Notice.Claim == "" {
				t.Error("the node takes writes, and is not claimed")
			}
		})
	}
}

func TestNoVoteCountsWhileWhatWasSeizedMayHaveLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWatch(t, maxTTL)
		testkit.Must(t, p.Claimed(t.Context(), time.Second, 0))
		done, err := p.Alone(t.Context()) // the loop looks at nothing
		testkit.Must(t, err)
		defer done()
		look := func() {
			for i, n := range p.nodes {
				shows(p.Tracker, i, p.clock.Now(), n.shown())
			}
		}
		claim := func(gen int, lease time.Duration, seized bool) {
			t.Helper()
			c := leasing(claimBy("c1", gen, nodeNames[:3]...), lease)
			c.Seized = seized
			o := blankBy(c)
			o.Notice.Nonce = fmt.Sprint(gen) // a seizing's is new
			p.nodes[2].show(o)
			look()
		}
		wants := func(when string, left time.Duration) {
			t.Helper()
			look() // again
			err := p.Claimed(t.Context(), time.Second, 0)
			if (err != nil) != (left > 0) || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("may have locks for another %v", left)) {
				t.Errorf("%s: got %v; want an error for %v", when, err, left)
			}
		}
		claim(0, 40*time.Second, false)
		wants("a claim that is not marked", 0)
		claim(1, 10*time.Second, true)
		wants("at once", 10*time.Second)
		time.Sleep(5 * time.Second)
		wants("five seconds later", 5*time.Second)
		claim(2, 40*time.Second, true)
		wants("a second one, for more", 40*time.Second)
		time.Sleep(10 * time.Second)
		wants("ten seconds later", 30*time.Second)
		claim(3, 20*time.Second, true)
		wants("a third one, for less", 30*time.Second)
		p.nodes[2].show(blankBy(claimBy("c1", 4, nodeNames[:3]...)))
		wants("the mark is gone", 30*time.Second)
		rec := recordOf("e", "c1", "r", nodeNames[:3], maxTTL, 0)
		p.nodes[2].show(observed(0, "r", &rec, 7, membership.Notice{}))
		wants("the node is a member", 30*time.Second)
		time.Sleep(30*time.Second - time.Millisecond)
		if look(); p.Claimed(t.Context(), time.Second, 0) == nil {
			t.Error("a millisecond before the lease is over: got no error")
		}
		time.Sleep(time.Millisecond)
		wants("the lease is over", 0)
		claim(5, 40*time.Second, true)
		wants("a second time", 40*time.Second)
	})
}

// What was founded beside is seen, and is out of reach then: its locks are held all the same.
func TestNoVoteCountsWhileWhatWasSeenBesideMayHaveLocks(t *testing.T) {
	for what, o := range map[string]membership.Observation{
		"a record": recorded("c2", 0, 40*time.Second, "c"), "a claim": blankBy(leasing(claimBy("c2", 0, "c"), 40*time.Second)),
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newWatch(t, maxTTL)
			done, err := p.Alone(t.Context())
			testkit.Must(t, err)
			defer done()
			see := func(i int, o membership.Observation) { shows(p.Tracker, i, p.clock.Now(), o) }
			wants := func(when, want string) {
				t.Helper()
				see(0, p.nodes[0].shown())
				see(1, p.nodes[1].shown())
				if err := p.Claimed(t.Context(), time.Second, 0); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s: got %v; want %q", what, when, err, want)
				}
			}
			wants("before", "")
			see(2, o)
			wants("at once", "c has another cluster's record or claim")
			time.Sleep(5 * time.Second)
			see(2, o)
			p.Missed(2, p.clock.Now(), errors.New("no reply"))
			wants("it does not answer any more", "may have locks for another 40s")
			time.Sleep(10 * time.Second)
			p.Missed(2, p.clock.Now(), errors.New("no reply"))
			wants("ten seconds later", "may have locks for another 30s")
			see(2, recorded("c3", 0, time.Second, "c"))
			p.Missed(2, p.clock.Now(), errors.New("no reply"))
			wants("it had another with shorter leases", "may have locks for another 30s")
			time.Sleep(30 * time.Second)
			p.Missed(2, p.clock.Now(), errors.New("no reply"))
			wants("its leases are over", "")
		})
	}
}

func TestABlankNodeIsClaimedBeforeItIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh := idleParty(membership.Observation{}, membership.Observation{}, membership.Observation{})
		p := newWatch(t, maxTTL)
		none := func(what string, i int, o membership.Observation) {
			t.Helper()
			if pl := p.Tracker.Claim(i, o); pl.Action != membership.DoNothing {
				t.Errorf("%s: got action %d, claim %q; want none", what, pl.Action, pl.Claim)
			}
		}
		blank := observed(0, "r2", nil, 0, noticeOf("n", "r2"))
		if pl := fresh.Tracker.Claim(2, blank); pl.Action != membership.DoNothing {
			t.Errorf("nothing is known: got action %d, claim %q; want none", pl.Action, pl.Claim)
		}
		known := from(claimBy("c1", 0, nodeNames[:3]...), "c0 4")
		for what, o := range map[string]membership.Observation{"blank": blank, "without a notice": observed(0, "r2", nil, 0, membership.Notice{})} {
			if pl := p.Tracker.Claim(2, o); pl.Action != membership.DoNotice || pl.Claim != claimText(known) || pl.Notice != o.Notice {
				t.Errorf("%s: got action %d, claim %q over %+v; want the claim over what was read", what, pl.Action, pl.Claim, pl.Notice)
			}
		}
		none("it has the claim", 2, blankBy(known))
		again := observed(0, "r3", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: claimText(known)})
		if pl := p.Tracker.Claim(2, again); pl.Action != membership.DoNotice || pl.Notice != (membership.Notice{}) {
			t.Errorf("it restarted with its data, the claim among them: got action %d over %+v; want a claim over none", pl.Action, pl.Notice)
		}
		none("a member", 2, p.nodes[2].shown())
		none("another's", 2, recorded("c2", 0, maxTTL, "c"))
		replica := blank
		replica.Replica = true
		none("a replica", 2, replica)
		if o := p.View().Nodes[2]; o.Run != "r" {
			t.Errorf("got %+v published; want what was asked about not", o)
		}
		p.Forgot(2, "e") // its epoch has ended: it is blank
		if pl := p.Tracker.Claim(2, p.nodes[2].shown()); pl.Action != membership.DoNotice {
			t.Errorf("an epoch that has ended: got action %d; want a claim", pl.Action)
		}
	})
}

// What the node shows now counts for what the others make of it.
func TestANodeIsClaimedByWhatItShowsNow(t *testing.T) {
	member, blank := byRecord("c1", 0, nodeNames[:3]...), blankBy(claimBy("c1", 0, nodeNames[:3]...))
	p := idleParty(member, blank, member)
	p.LookAtAll(t.Context(), false)
	other := byRecord("c2", 0, nodeNames[:3]...)
	if pl := p.Tracker.Claim(2, other); pl.Action != membership.DoNothing { // no cluster has a quorum then
		t.Errorf("a member of another cluster: got action %d, claim %q; want none", pl.Action, pl.Claim)
	}
	shows(p.Tracker, 1, p.clock.Now(), member)
	if pl := p.Tracker.Claim(2, other); pl.Action != membership.DoNotice {
		t.Errorf("of one beside a quorum: got action %d; want a claim", pl.Action)
	}
}

// A founder's own look claims nothing while it founds: that would end the founding.
func TestAFounderDoesNotClaimWhatItFounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		for i := range p.nodes {
			_, _ = p.verify(t, i)
		}
		for i, n := range p.nodes {
			n.show(observed(0, "r2", nil, 0, membership.Notice{}))
			_, _ = p.verify(t, i)
		}
		time.Sleep(maxTTL - time.Second)
		for i, n := range p.nodes {
			if got, want := n.shown().Notice.Claim, claimText(claimBy("c1", 0, nodeNames[:3]...)); got != want {
				t.Fatalf("node %d: got the claim %q; want %q", i, got, want)
			}
		}
		full := errors.New("OOM command not allowed")
		p.nodes[2].failsWith(full)
		time.Sleep(3 * time.Second)
		if rec := p.nodes[1].shown().Record; rec.Cluster != "new" || rec.From != "c1 0" || p.View().Known.Cluster != "new" {
			t.Fatalf("got %+v; want two nodes founded, and known", rec)
		}
		if pl := p.Tracker.Claim(2, p.nodes[2].shown()); pl.Action != membership.DoNothing {
			t.Errorf("got action %d, claim %q; want none while the founding goes on", pl.Action, pl.Claim)
		}
		p.nodes[2].failsWith(nil)
		time.Sleep(3 * time.Second)
		for i, n := range p.nodes {
			if rec := n.shown().Record; rec.Cluster != "new" {
				t.Errorf("node %d: got %+v; want the founding to have gone on", i, rec)
			}
		}
	})
}

// The founder's own loop gives a founding up while a writer looks at its node: for the race detector.
func TestAFoundingIsGivenUpWhileAWriterLooks(t *testing.T) {
	for k := range 200 {
		blank := observed(0, "r2", nil, 7, noticeOf("n", "r2"))
		p := idleParty(blank, blank)
		p.nodes[1].failsWith(errors.New("OOM command not allowed"))
		proposal := p.Proposal()
		proposal.Admit = true
		p.Settle(t.Context(), proposal)
		if !p.nodes[0].shown().Recorded {
			t.Fatal("got no node founded")
		}
		p.nodes[1].show(observed(0, "r2", nil, 7, noticeOf(fmt.Sprint(k), "r2")))
		ctx, stop := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			for ctx.Err() == nil {
				p.Tracker.Claim(1, p.nodes[1].shown())
			}
		})
		p.Settle(t.Context(), proposal)
		stop()
		writer.Wait()
	}
}
