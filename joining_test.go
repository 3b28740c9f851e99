package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// One node that can't be taken in must not keep a program that lives for a minute
// from taking in the others.
func TestJoinTakesInTheOthersBeforeItSaysWhichItCouldNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		l, nodes := newLocker(t, 7)
		warm(t, l)
		must(t, l.Cluster().Retire(t.Context(), 6))
		nodes.Node(5).Miniredis().HSet(lua.NodeKey, "n", "2", "names", "x\ny")
		nodes.Node(4).Restart()
		began := time.Now()
		err := l.Cluster().Join(ctx)
		wantError(t, "Join", err, redlock.ErrMisconfigured)
		wantText(t, "Join", errorText(err), "node-5", "node-6", "retired")
		if strings.Contains(errorText(err), "node-4") {
			t.Errorf("Join: got %v; want no word of node-4, which votes", err)
		}
		if took := time.Since(began); took < redlock.DefaultMaxTTL-time.Millisecond || took > redlock.DefaultMaxTTL+5*time.Second {
			t.Errorf("Join took %v; want MaxTTL, for node-4, and little more", took)
		}
		wantVotes(t, "after Join", l, 5)

		began = time.Now()
		wantError(t, "Join again", l.Cluster().Join(ctx), redlock.ErrMisconfigured)
		if took := time.Since(began); took > time.Second {
			t.Errorf("Join with nothing to wait for took %v; want it at once", took)
		}
	})
}

// Without hope of a quorum Join says so at once; a node that does not answer is hope.
func TestJoinWaitsForAQuorumOnlyWhileOneCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		l, nodes := newLocker(t, 3)
		warm(t, l)
		other := func(i int) {
			nodes.Node(i).Miniredis().HSet(lua.NodeKey, "n", "2", "names", "x\ny")
		}
		other(0)
		nodes.Node(1).Stop()
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { other(1); nodes.Node(1).Start() })
		err := l.Cluster().Join(ctx)
		wantError(t, "Join", err, redlock.ErrMisconfigured)
		wantError(t, "Join", err, redlock.ErrNoQuorum)
		if took := time.Since(began); took < 10*time.Second || took > 21*time.Second { // at the next look
			t.Errorf("Join took %v; want it to wait for the node that was down, and no longer: %v", took, err)
		}
	})
}

// The mark of a name that no record lists would be of nobody.
func TestRetireRefusesANameThatTheRecordsDoNotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		stranger := lockerOver(t, nodes, redlock.WithNodeNames("a", "b", "c", "d", "e"))
		err := stranger.Cluster().Retire(t.Context(), 1)
		wantError(t, "Retire by a client with other names", err, redlock.ErrMisconfigured)
		wantText(t, "Retire", errorText(err), "retire b", "node-0", "node-4", "WithNodeNames")
		wantVotes(t, "after it", l, 5)
		for i, n := range nodes.Nodes() {
			if got := n.Miniredis().HGet(lua.NodeKey, "retired"); got != "" {
				t.Errorf("node %d: got the marks %q; want none", i, got)
			}
		}
		must(t, l.Cluster().Retire(t.Context(), 1))
		must(t, l.Cluster().Retire(t.Context(), 1)) // idempotent
		wantVotes(t, "after the cluster's own client retired it", l, 4)
	})
}

// What one client asks for outlasts it, so it is told before it is done.
func TestWhoRaisesMaxTTLSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		full := nodes.Node(2)
		full.Intercept(func(args []string) redlocktest.Verdict {
			if strings.EqualFold(args[0], "evalsha") && strings.Contains(strings.Join(args, " "), "60000") {
				return redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'.")
			}
			return redlocktest.Pass()
		})
		told, same := &events{}, &events{}
		warm(t, lockerOver(t, nodes, same.option()))
		more := lockerOver(t, nodes, told.option(), redlock.WithMaxTTL(time.Minute))
		warm(t, more)
		time.Sleep(10 * time.Second) // the reconcile loop tries again on the full node
		raised := told.of(redlock.MaxTTLRaised)
		if len(raised) != 3 || len(same.of(redlock.MaxTTLRaised)) != 0 {
			t.Fatalf("got %d events of who raises, %d of who does not; want one a node, and none", len(raised), len(same.of(redlock.MaxTTLRaised)))
		}
		wantText(t, "the event", raised[0].Err.Error(), "from 30s to 1m0s", "LowerMaxTTL")
	})
}

// What the reconcile loop's action was refused, and no probe meets, is a warning of Check's;
// while nothing keeps a node out there is nothing to do.
func TestCheckSaysWhatTheJoinerWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes)
		for i, f := range blankSaid(t, l, 3) {
			if !strings.HasPrefix(f.Remedy, "Nothing") || f.Severity != redlock.SeverityInfo {
				t.Errorf("node %d: got %v; want nothing to do", i, f)
			}
		}
		nodes.Node(1).Intercept(func(args []string) redlocktest.Verdict {
			if len(args) == 5 && args[3] == lua.NodeKey && len(args[4]) > 1 { // a notice has a nonce, a look a digit
				return redlocktest.ReplyError("OOM for a notice")
			}
			return redlocktest.Pass()
		})
		nodes.Node(1).Restart() // its notice is gone
		_ = l.Cluster().Admit(t.Context())
		for i, f := range blankSaid(t, l, 3) {
			wantText(t, fmt.Sprintf("node %d", i), f.What, "notice", "OOM for a notice")
			if strings.HasPrefix(f.Remedy, "Nothing") || f.Severity != redlock.SeverityWarning {
				t.Errorf("node %d: got %v; want a warning that nobody else gives", i, f)
			}
		}
	})
}
