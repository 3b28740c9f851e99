package redlock_test

import (
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
)

// Nodes that forget while their process lives: run_id and scripts stay.

// The data of a node are swapped, and swapped back once the node votes with the
// others: the first are a member's by their own record, and do not know what was
// granted since. Who has seen both epochs vote lets them wait.
func TestDataThatAreSwappedBackDoNotVoteForWhoSawTheOthers(t *testing.T) {
	t.Parallel()
	servers := chaos.NeedServers(t, 3, chaos.ServerConfig{})
	opts := []redlock.Option{redlock.WithMaxTTL(redlock.DefaultTTL), redlock.WithFixedLease()}
	holder, contender := openWithout(t, servers, []int{2}, opts...), openWithout(t, servers, nil, opts...)
	admitted(t, contender)
	warm(t, contender)
	warm(t, holder)
	swap := func() { must(t, servers[0].Client().Do(t.Context(), "SWAPDB", 0, 1).Err()) }
	swap()
	admitted(t, contender)
	warm(t, contender)
	wantVotes(t, "with the other data", contender, 3)
	held := mustAcquire(t, holder, "orders/42") // on the swapped node and one more
	if keyOn(t, servers[0], "orders/42") == "" {
		t.Fatal("the lock is not on the node whose data are swapped: this test shows nothing")
	}
	swap()

	for range 20 {
		lock, err := contender.TryAcquire(t.Context(), "orders/42")
		if err == nil {
			t.Fatalf("got token %v beside the holder of %v (%v)", lock.Token(), held.Token(), held.Err())
		}
	}
	must(t, held.Err())
	wantVotes(t, "with the first data again", contender, 2)
	wantText(t, "its Status", status(t, contender).Nodes[0].Cause, "an epoch that has ended")
	admitted(t, contender)
	wantVotes(t, "under a new epoch", contender, 3)
}
