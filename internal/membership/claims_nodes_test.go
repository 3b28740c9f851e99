package membership_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// The scripts, one by one.

// eval runs a script as a client does.
func (s *scripted) eval(script *lua.Script, args ...any) any {
	s.t.Helper()
	got, err := s.c.Eval(s.t.Context(), script.Body, []string{nodeKey}, args...).Result()
	if err != nil {
		s.t.Fatalf("%s %q: %v", script.Name, args, err)
	}
	return got
}

func TestANoticeGetsAClaimOnlyWhereWhatStandsIsAsRead(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		put := func(what, nonce, claim, read string, want ...string) {
			t.Helper()
			got := s.eval(lua.NoticeScript, nonce, claim, read)
			n, stands := s.read().StandingNotice()
			if !stands || n.Nonce != want[0] || n.Claim != want[1] || !reflect.DeepEqual(got, []any{n.Nonce, n.Run}) {
				t.Errorf("%s: got %v, and %+v stands (%t); want nonce %q, claim %q", what, got, n, stands, want[0], want[1])
			}
		}
		put("the first is plain", "n1", "", "", "n1", "")
		put("another plain one", "n2", "", "", "n1", "")
		put("a claim, with another read", "n3", "X", "Y", "n1", "")
		s.c.HDel(t.Context(), nodeKey, "claim") // as notices were
		put("a claim over one that has no such field", "n4", "X", "", "n1", "X")
		s.c.HSet(t.Context(), nodeKey, "claim", "")
		put("a claim over a plain one", "n4", "X", "", "n1", "X")
		put("a plain one over it", "n5", "", "X", "n1", "X")
		put("a claim by who read a plain one", "n6", "Y", "", "n1", "X")
		put("a claim by who read another", "n6", "Y", "Z", "n1", "X")
		put("a claim by who read it", "n7", "Y", "X", "n1", "Y")
		s.restart(true)
		if _, stands := s.read().StandingNotice(); stands {
			t.Error("a notice stands over a restart")
		}
		put("a plain one, after a restart", "n8", "", "", "n8", "")
		put("a claim", "n9", "X", "", "n8", "X")
		s.restart(true)
		put("a claim, after a restart", "n10", "Z", "Y", "n10", "Z")
		s.restart(false)
		put("a claim on an empty node", "n11", "X", "Y", "n11", "X")
		if o := s.read(); o.Recorded || o.Refused {
			t.Errorf("got %+v; want a notice, and no record", o)
		}
	})
}

func TestAnInstallIsRefusedWhereTheClaimIsAnother(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		for _, claim := range []string{"X", ""} {
			s.c.Del(t.Context(), nodeKey)
			s.eval(lua.NoticeScript, "n", claim, "")
			n := s.read().Notice
			rec := recordOf("e1", "c1", "", []string{"a"}, time.Second, 7)
			rec.From = "c0 4 c9 1"
			for _, read := range []string{"", "X", "Y"} {
				if read == claim {
					continue
				}
				n.Claim = read
				if got := s.eval(lua.InstallScript, rec.InstallArgs(n, "")...); got != int64(0) || s.read().Recorded {
					t.Errorf("over the claim %q by who read %q: got %v; want it refused", claim, read, got)
				}
			}
			if n.Claim = claim; claim == "" {
				s.c.HDel(t.Context(), nodeKey, "claim") // as notices were
			}
			if got := s.eval(lua.InstallScript, rec.InstallArgs(n, "")...); got != int64(1) {
				t.Errorf("over the claim %q: got %v; want it installed", claim, got)
			}
			if o := s.read(); o.Record.From != rec.From || o.Notice != (membership.Notice{}) {
				t.Errorf("got %+v, %+v; want %q, and no notice", o.Record, o.Notice, rec.From)
			}
		}
		s.eval(lua.NoticeScript, "n", "X", "") // a survivor goes by its epoch
		rec := recordOf("e2", "c2", "", []string{"a"}, time.Second, 7)
		if got := s.eval(lua.InstallScript, rec.InstallArgs(membership.Notice{Run: s.read().Run}, "e1")...); got != int64(1) {
			t.Errorf("over a survivor: got %v; want it installed", got)
		}
		if o := s.read(); o.Record.From != "" || o.Record.Cluster != "c2" || o.Notice.Claim != "" {
			t.Errorf("got %+v, %+v; want nothing left of what was there", o.Record, o.Notice)
		}
	})
}

func TestASeizingEndsWhatWasReadAndNothingElse(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		ctx := t.Context()
		seize := func(what string, want int64, run, epoch, claim string) {
			t.Helper()
			before := s.c.HGetAll(ctx, nodeKey).Val()
			if got := s.eval(lua.SeizeScript, run, epoch, claim, "n9", "Z"); got != want {
				t.Errorf("%s: got %v; want %d", what, got, want)
			}
			after := s.c.HGetAll(ctx, nodeKey).Val()
			switch {
			case want == 0 && !reflect.DeepEqual(after, before):
				t.Errorf("%s: got %v; want it as it was: %v", what, after, before)
			case want == 1:
				left := map[string]string{"4095": "9", "nonce": "n9", "nonce_run": s.read().Run, "claim": "Z"}
				if !reflect.DeepEqual(after, left) {
					t.Errorf("%s: got %v; want the stripes and the notice: %v", what, after, left)
				}
			}
			if got := s.c.Get(ctx, "orders/42").Val(); got != "owner" {
				t.Errorf("%s: got %q under a key; want it kept", what, got)
			}
		}
		member := func() (run string) {
			t.Helper()
			testkit.Must(t, s.c.Del(ctx, nodeKey).Err(), s.c.Set(ctx, "orders/42", "owner", 0).Err(), s.c.HSet(ctx, nodeKey, "4095", 9).Err())
			rec := asStrict(listed(3, []string{"a", "b"}, []string{"a"}))
			rec.Settled, rec.Ballot, rec.From, rec.Epoch = true, 7, "c0 4", "e"
			rec.Proposed = membership.Proposed{Ballot: 7, Configuration: rec.Configuration}
			s.install(rec)
			s.c.HSet(ctx, nodeKey, "since", "1000000")
			return s.read().Run
		}
		run := member()
		seize("another identity", 0, "other.run", "e", "")
		seize("another epoch", 0, run, "e2", "")
		seize("no epoch", 0, run, "", "")
		seize("another claim", 0, run, "e", "X")
		seize("as it was read", 1, run, "e", "")
		seize("the record, a second time", 0, run, "e", "")
		seize("a record, by who read it blank", 0, member(), "", "Z")

		s.c.HDel(ctx, nodeKey, "format", "epoch", "cluster", "names", "maxttl", "run", "base", "strict", "gen", "before", "before_maxttl", "settled", "ballot", "proposed", "since", "from")
		s.eval(lua.NoticeScript, "n", "X", "")
		seize("a claim, by who read a plain notice", 0, run, "", "")
		seize("a claim, by who read another", 0, run, "", "Y")
		seize("a claim, by who read a record", 0, run, "e", "X")
		seize("the claim", 1, run, "", "X")

		s.restart(true) // what stood there does not any more
		if s.c.Get(ctx, "orders/42").Val() == "" {
			s.c.Set(ctx, "orders/42", "owner", 0)
		}
		now := s.read().Run
		seize("after a restart", 0, run, "", "Z")
		seize("the claim of an identity before", 0, now, "", "Z")
		seize("a claim that does not stand", 1, now, "", "")
	})
}

func TestAReplicaIsNotSeized(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		ctx := t.Context()
		s.install(recordOf("e", "c1", "", []string{"a"}, time.Second, 7))
		if s.c.ConfigSet(ctx, "replica-read-only", "no").Err() != nil || s.c.SlaveOf(ctx, "127.0.0.1", "1").Err() != nil {
			t.Skip("it can't become a replica")
		}
		if got := s.eval(lua.SeizeScript, s.read().Run, "e", "", "n", "Z"); got != int64(0) {
			t.Errorf("got %v; want it refused", got)
		}
		testkit.Must(t, s.c.SlaveOf(ctx, "NO", "ONE").Err())
	})
}

// The nodes, in virtual time.

// foundedBeside makes the node forget, and a client with a list of it alone found a cluster there,
// or claim it.
func foundedBeside(t *testing.T, n *redlocktest.Node, founded bool) {
	t.Helper()
	if n.Restart(); !founded {
		n.Miniredis().HSet(lua.NodeKey, "nonce", "n", "nonce_run", locktest.Identity(n), "claim", claimText(leasing(claimBy("beside", 4, n.Name()), 40*time.Second)))
		return
	}
	n.Miniredis().HSet(lua.NodeKey, "format", fmt.Sprint(membership.RecordFormat), "epoch", "old", "cluster", "beside",
		"names", n.Name(), "maxttl", "40000", "run", locktest.Identity(n), "base", "7")
}

// refusing answers so to the calls of a script.
func refusing(script *lua.Script, v redlocktest.Verdict) redlocktest.Interceptor {
	return func(args []string) redlocktest.Verdict {
		if len(args) > 1 && args[0] == "EVALSHA" && args[1] == script.Hash {
			return v
		}
		return redlocktest.Pass()
	}
}

func TestNoLockIsHadBesideWhatAnOldListFoundedUntilItsLeasesAreOver(t *testing.T) {
	for _, founded := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 3)
			id := locktest.Status(t, l).ID
			testkit.Must(t, l.Close())
			foundedBeside(t, nodes.Node(0), founded)
			nodes.Node(0).Intercept(refusing(lua.SeizeScript, redlocktest.ReplyError("ERR not now")))
			l = locktest.LockerOver(t, nodes)
			for range 10 {
				_, err := l.TryAcquire(t.Context(), "orders/42")
				locktest.WantError(t, "before it is seized", err, redlock.ErrNoQuorum)
				locktest.WantText(t, "before it is seized", locktest.ErrorText(err), "node-0 has another cluster's record or claim")
				time.Sleep(7 * time.Second)
			}
			locktest.WantNoLocks(t, nodes, "no lock was had")
			nodes.Node(0).Intercept(nil)
			began := time.Now()
			for range 3 {
				time.Sleep(11 * time.Second) // such nodes are looked at every ten seconds
				_, err := l.TryAcquire(t.Context(), "orders/42")
				locktest.WantError(t, "before its leases are over", err, redlock.ErrNoQuorum)
				locktest.WantText(t, "before its leases are over", locktest.ErrorText(err), "may have locks for another")
				if got := nodes.Node(0).Miniredis().HGet(lua.NodeKey, "claim"); !strings.HasPrefix(got, id+"\n0\n40000\n1\n") {
					t.Errorf("got the claim %q; want the mark of what was seized", got)
				}
			}
			lock := locktest.MustAcquire(t, l, "orders/42")
			if took := time.Since(began); took < 40*time.Second || took > 60*time.Second {
				t.Errorf("the next lock was had after %v; want it after the leases of 40 s of what was founded", took)
			}
			time.Sleep(5 * time.Second)
			locktest.WantVotes(t, "then", l, 3)
			if got := locktest.Status(t, l).ID; got != id {
				t.Errorf("got cluster %q; want %q", got, id)
			}
			locktest.MustRelease(t, lock)
		})
	}
}

func TestWithoutMembershipNothingIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3, redlock.WithoutMembership())
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if len(args) > 1 && args[1] == lua.ReadScript.Hash {
					t.Errorf("%s was looked at; its user may not have the rights for that", n.Name())
				}
				return redlocktest.Pass()
			})
		}
		for range 2 {
			time.Sleep(time.Minute)
			began := time.Now()
			locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
			if took := time.Since(began); took != 0 {
				t.Errorf("it took %v; want no wait for a look", took)
			}
		}
	})
}

// A look at a node that forgot claims it first: who locks meanwhile is neither refused nor delayed.
func TestWhoLocksDoesNotWaitForANodeThatForgotJustNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		known := locktest.Status(t, l).ID
		for _, claim := range []string{"", "", claimText(leasing(claimBy("c0", 4, nodes.Names()...), time.Second))} {
			nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
				if len(args) == 7 && args[1] == lua.NoticeScript.Hash {
					time.Sleep(20 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
			if nodes.Node(0).Restart(); claim != "" {
				nodes.Node(0).Miniredis().HSet(lua.NodeKey, "nonce", "n", "nonce_run", locktest.Identity(nodes.Node(0)), "claim", claim)
			}
			for range 300 { // such a node is looked at once a second
				began := time.Now()
				lock, err := l.TryAcquire(t.Context(), "orders/42")
				testkit.Must(t, err)
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %v; want no wait", took)
				}
				locktest.MustRelease(t, lock)
				time.Sleep(10 * time.Millisecond)
			}
			if got := nodes.Node(0).Miniredis().HGet(lua.NodeKey, "claim"); !strings.HasPrefix(got, known+"\n0\n30000\n\n\n30000\n\nnode-0\nnode-1\nnode-2") {
				t.Errorf("got the claim %q; want one of %s", got, known)
			}
		}
	})
}

// A new process may look at the node before it knows the cluster, and so without a claim.
func TestTheFirstAttemptOfAProcessIsNotRefusedBesideANodeThatForgot(t *testing.T) {
	for range 40 {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 3)
			locktest.Warm(t, l)
			testkit.Must(t, l.Close())
			nodes.Node(2).Restart()
			lock, err := locktest.LockerOver(t, nodes).TryAcquire(t.Context(), "orders/42")
			testkit.Must(t, err)
			locktest.MustRelease(t, lock)
		})
	}
}

// A node changes between an operator's look and the install. He has said his word, and says it once.
func TestAdmitLooksAgainWhereANodeHasChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, 0, 3)
		var changed atomic.Bool
		y.nodes[0].Intercept(func(args []string) redlocktest.Verdict {
			if changeScript(args) == "install" && !changed.Swap(true) {
				y.nodes[0].FlushAll() // its notice is gone
			}
			return redlocktest.Pass()
		})
		l := y.locker(t, 0, 1, 2)
		testkit.Must(t, l.Cluster().Admit(t.Context()))
		if s := locktest.Status(t, l); s.Votes() != 3 || !changed.Load() {
			t.Errorf("got %d votes; want 3", s.Votes())
		}
	})
}
