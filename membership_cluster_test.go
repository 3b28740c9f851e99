package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// What a caller asks of the Cluster handle, and what a record says for everybody.

// A program that ends after a second never sees the wait's end, unless it asks.
func TestJoinIsForProgramsThatEndSoon(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		for range 100 { // each a process of its own
			l, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...))
			must(t, err)
			_, err = l.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
			time.Sleep(time.Second)
			must(t, l.Close())
		}
		l := lockerOver(t, nodes)
		start := time.Now()
		must(t, l.Cluster().Join(t.Context()))
		if took := time.Since(start); took < redlock.DefaultMaxTTL-time.Millisecond || took > redlock.DefaultMaxTTL+2*time.Second {
			t.Errorf("Join took %v; want MaxTTL", took)
		}
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		must(t, err)
		mustRelease(t, lock)
		start = time.Now()
		must(t, l.Cluster().Join(t.Context()))
		must(t, l.Cluster().Admit(t.Context()))
		if took := time.Since(start); took > time.Second {
			t.Errorf("Join and Admit where nothing is to be done took %v", took)
		}
	})
}

func TestJoinEndsWithItsContextAndSaysWhoDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.Cluster().Join(ctx)
		wantError(t, "Join", err, context.DeadlineExceeded)
		wantError(t, "Join", err, redlock.ErrNoQuorum)
		wantText(t, "Join", fmt.Sprint(err), "node-0", "node-1", "node-2", "Admit")

		ended := make(chan error)
		go func() { ended <- l.Cluster().Join(context.Background()) }()
		synctest.Wait()
		must(t, l.Close())
		wantError(t, "Join of a Locker that was closed meanwhile", <-ended, redlock.ErrClosed)
		for what, err := range map[string]error{
			"Join": l.Cluster().Join(t.Context()), "Admit": l.Cluster().Admit(t.Context()), "Retire": l.Cluster().Retire(t.Context(), 0),
		} {
			wantError(t, what+" after Close", err, redlock.ErrClosed)
		}
	})
}

func TestMaxTTLIsTheClustersAndNeverFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := lockerOver(t, nodes)
		warm(t, l)
		more := lockerOver(t, nodes, redlock.WithMaxTTL(2*time.Minute))
		lock, err := more.Acquire(t.Context(), "orders/42", redlock.WithTTL(90*time.Second))
		must(t, err)
		time.Sleep(time.Second)
		for _, n := range status(t, l).Nodes {
			if n.MaxTTL != 2*time.Minute {
				t.Errorf("%s: got MaxTTL %v; want it raised before anyone takes more", n.Name, n.MaxTTL)
			}
		}
		mustRelease(t, lock)
		must(t, more.Close())
		// The client with the smaller value waits the larger.
		held := mustAcquire(t, l, "orders/42")
		nodes.Node(0).Restart()
		time.Sleep(2*time.Minute - time.Second)
		wantVotes(t, "before the larger MaxTTL is over", l, 2)
		time.Sleep(10 * time.Second)
		wantVotes(t, "after the larger MaxTTL", l, 3)
		if got := status(t, l).Nodes[0].MaxTTL; got != 2*time.Minute {
			t.Errorf("the record of the node that came back: got MaxTTL %v; want the larger", got)
		}
		mustRelease(t, held)
	})
}

func TestAClientWithOtherNamesLocksAndRejoinsNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := lockerWith(t, nodes.NewClients(), redlock.WithNodeNames("a", "b", "c"))
		held := mustAcquire(t, l, "orders/42")
		nodes.Node(0).Restart()
		time.Sleep(5 * redlock.DefaultMaxTTL)
		wantVotes(t, "only a client with other names runs", l, 2)
		wantText(t, "its Status", status(t, l).Nodes[0].Cause, "node-0", "not this client's")
		must(t, held.Err())
		other := lockerOver(t, nodes)
		must(t, other.Cluster().Join(t.Context()))
		wantVotes(t, "after a client with the names of the records", l, 3)
		mustRelease(t, held)
	})
}

func TestReplacingANodeKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		spare := redlocktest.Start(t, 1, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes)
		warm(t, l)
		clients := []redis.UniversalClient{nodes.Client(0), nodes.Client(1), spare.Client(0)}
		fresh := lockerWith(t, clients, redlock.WithNodeNames("node-0", "node-1", "node-3"))

		err := fresh.Cluster().Admit(t.Context())
		wantText(t, "Admit before Retire", fmt.Sprint(err), "node-2", "not retired")
		must(t, l.Cluster().Retire(t.Context(), 2))
		s := status(t, l)
		if s.Votes() != 2 || s.Nodes[2].State != redlock.NodeRetired {
			t.Errorf("after Retire: got %+v; want two votes, node 2 retired", s)
		}
		nodes.Node(2).Restart() // it comes back with nothing: its name is marked elsewhere
		time.Sleep(3 * redlock.DefaultMaxTTL)
		if got := status(t, l).Nodes[2].State; got != redlock.NodeRetired {
			t.Errorf("the retired node, back and blank: got %v; want it retired", got)
		}
		err = l.Cluster().Admit(t.Context())
		wantText(t, "Admit of a retired node", fmt.Sprint(err), "node-2", "retired")
		must(t, fresh.Cluster().Join(t.Context()))
		wantVotes(t, "the new list", fresh, 3)
		wantVotes(t, "the old list", l, 2)
		lock := mustAcquire(t, l, "orders/42")
		_, err = fresh.TryAcquire(t.Context(), "orders/42")
		wantError(t, "the new list, while the old one holds", err, redlock.ErrNotAcquired)
		mustRelease(t, lock)
	})
}

func TestRetireOfANodeThatDoesNotAnswerLeavesItsMarksAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		nodes.Node(4).Stop()
		err := l.Cluster().Retire(t.Context(), 4)
		wantText(t, "Retire", fmt.Sprint(err), "node-4", "marks stand", "dead")
		nodes.Node(4).Start()
		_, _ = l.TryAcquire(t.Context(), "orders/42")
		if s := status(t, l); s.Nodes[4].State != redlock.NodeRetired || s.Votes() != 4 {
			t.Errorf("the node is back: got %+v; want it retired by its name", s)
		}
		must(t, l.Cluster().Retire(t.Context(), 4))

		nodes.Node(0).Stop()
		nodes.Node(1).Stop()
		err = l.Cluster().Retire(t.Context(), 3)
		wantError(t, "Retire with two other members left", err, redlock.ErrNoQuorum)
		wantError(t, "Retire of no node", l.Cluster().Retire(t.Context(), 5), redlock.ErrInvalidNode)
	})
}

func TestWithoutMembershipThereIsNothingToAskOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3, redlock.WithoutMembership())
		_, err := l.Cluster().Status(t.Context())
		wantError(t, "Status", err, redlock.ErrInvalidOption)
		wantError(t, "Admit", l.Cluster().Admit(t.Context()), redlock.ErrInvalidOption)
		wantError(t, "Join", l.Cluster().Join(t.Context()), redlock.ErrInvalidOption)
	})
}
