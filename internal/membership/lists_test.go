package membership_test

import (
	"testing"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

// Clusters whose lists of nodes meet: founders that race, and lists that overlap.

func TestWhereNoClusterHasAQuorumAllNodesAreFoundedAnew(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(4, over)
	for i, id := range []string{"c2", "c1", "c2", "c1"} {
		rec := v.record(id, "r2")
		n := noticeOf("n", "r2")
		v.nodes[i], v.waits[i] = observed(over, "r2", &rec, 0, n), waitOf(n, start)
	}
	if id := v.seen().Cluster(); id != "" {
		t.Errorf("got cluster %q; want none without a quorum", id)
	}
	p := v.next(0, over)
	wantPlan(t, p, membership.DoInstall, "")
	if p.Record.Cluster != "new" || p.Notice.Nonce != "" || p.Epoch != v.nodes[0].Record.Epoch {
		t.Errorf("got %+v; want the founder's own id, over the survivor's epoch", p)
	}
	wantPlan(t, v.next(1, over), membership.DoRead, "")
	if _, why := v.seen().Voter(1); why != "well; waits for one of the others" {
		t.Errorf("got %q; want that no quorum is of its cluster", why)
	}
	v.down(3, over)
	wantPlan(t, v.next(0, over), membership.DoNothing, "")
}

func TestListsThatOverlapDoNotFound(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	v.names = []string{"c", "d", "e"}
	v.config = membership.NewConfig(v.names, maxTTL, false)
	established := recordOf("e", "c1", "r", []string{"a", "b", "c"}, maxTTL, 0)
	v.nodes[0] = observed(over, "r", &established, 0, membership.Notice{})
	v.blank(1, over)
	v.blank(2, over)
	for i := range 3 {
		if p := v.next(i, over); p.Action == membership.DoInstall {
			t.Errorf("node %d: got an install; want none with a record of other names", i)
		}
		if p := v.admit(i, over); p.Action == membership.DoInstall {
			t.Errorf("node %d: got an install by Admit; want none with a record of other names", i)
		}
	}
	wantPlan(t, v.next(1, over), membership.DoNothing, "one list")
}

func TestAFoundingGoesOnWhileNodesAreAsTheyWere(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	v.blank(1, over)
	v.blank(2, over)
	beside := v.seen()
	beside.Rival = over + 1
	wantPlan(t, beside.Next(1, over, proposalOf("new", 5000, true)), membership.DoRead, "another client founds")
	begun := v.next(0, over).Founding
	rec := begun.Record
	rec.Epoch, rec.Run = "e2", "r"
	v.nodes[0] = observed(over, "r", &rec, 0, membership.Notice{})
	p := proposalOf("another", 9000, false)
	p.Begun = begun
	if !begun.Stands(v.seen()) {
		t.Error("one node of three is installed: got a founding that is over; want one that goes on")
	}
	if got := v.seen().Next(1, over, p); got.Action != membership.DoInstall || got.Record.Cluster != "new" || got.Record.Base != begun.Record.Base {
		t.Errorf("got %+v; want the second node installed with the same record", got)
	}
	wantPlan(t, v.seen().Next(2, over, p), membership.DoRead, "b comes first")
	v.nodes[2].Notice.Nonce = "n2" // it has forgotten again
	if begun.Stands(v.seen()) {
		t.Error("a node has another notice: got a founding that goes on; want none")
	}
}
