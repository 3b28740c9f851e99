package node_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// A release that a node refuses was repeated with its whole batch, again and again,
// and until its lease was over no acquire of any name went to that node.
func TestARefusedReleaseHoldsBackItsOwnNameOnly(t *testing.T) {
	for _, reply := range []string{locktest.NoRight, "OOM command not allowed when used memory > 'maxmemory'.", "ERR no word of what happened"} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 3)
			locktest.Warm(t, l)
			var locks []*redlock.Lock
			for _, name := range []string{"orders/1", "secret/1", "orders/2"} {
				locks = append(locks, locktest.MustAcquire(t, l, name))
			}
			synctest.Wait()
			node := nodes.Node(0)
			node.Intercept(locktest.Refusing("secret/1", reply))
			for _, lock := range locks { // in one call
				go func() { _ = lock.Release(t.Context()) }()
			}
			time.Sleep(time.Second)
			left := locktest.LocksOn(node)
			if reply == locktest.NoRight && !slices.Equal(left, []string{"secret/1"}) { // any other refusal says nothing of the rest of its call
				t.Errorf("%s: node 0 has %q; want only the name that it refuses", reply, left)
			}
			lock := locktest.MustAcquire(t, l, "orders/9")
			synctest.Wait()
			if !node.Miniredis().Exists("orders/9") {
				t.Errorf("%s: another name is not on node 0; want it to vote for all others", reply)
			}
			locktest.MustRelease(t, lock)
			_, err := l.TryAcquire(t.Context(), "secret/1")
			testkit.Must(t, ignore(err, redlock.ErrNoQuorum)) // two nodes are enough, or say why not
			node.Intercept(nil)
			time.Sleep(time.Second)
			if left := locktest.LocksOn(node); slices.Contains(left, "orders/1") || slices.Contains(left, "orders/2") {
				t.Errorf("%s: it refuses nothing any more, and has %q; want the releases repeated", reply, left)
			}
		})
	}
}

// ignore is err, unless it is one of that kind.
func ignore(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// The name itself waits for its release: what is sent of it would meet our own key.
func TestAnAcquireBehindARefusedReleaseSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, l, "secret/1", redlock.WithFixedLease())
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Intercept(locktest.Refusing("secret/1", locktest.NoRight))
		}
		err := lock.Release(t.Context())
		locktest.WantError(t, "Release", err, redlock.ErrMisconfigured)
		_, err = l.TryAcquire(t.Context(), "secret/1")
		locktest.WantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		locktest.WantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
		if err != nil && !strings.Contains(err.Error(), "an earlier release was refused") {
			t.Errorf("got %v; want it to say that an earlier release was refused", err)
		}
	})
}

// An acquire travels in one pipeline with the release before it. Where that one is
// refused, what the acquire finds is our own key, and no contention.
func TestAnAcquireBehindARefusedReleaseIsNoContention(t *testing.T) {
	for _, reply := range []string{locktest.NoRight, "OOM command not allowed when used memory > 'maxmemory'."} {
		for _, alone := range []bool{true, false} { // or in one call with another release
			for _, once := range []bool{true, false} { // or for good
				t.Run(fmt.Sprintf("%.4s alone %t once %t", reply, alone, once), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { behindRefused(t, reply, alone, once) })
				})
			}
		}
	}
}

func behindRefused(t *testing.T, reply string, alone, once bool) {
	t.Helper()
	l, nodes := locktest.NewLocker(t, 3)
	locktest.Warm(t, l)
	held, other := locktest.MustAcquire(t, l, "orders/42"), locktest.MustAcquire(t, l, "orders/41")
	synctest.Wait()
	met := new(atomic.Int64)
	for _, n := range nodes.Nodes() {
		refused := false
		n.Intercept(func(args []string) redlocktest.Verdict {
			name := locktest.ScriptOf(args)
			switch {
			case slices.Contains(args, "busy") && strings.HasPrefix(name, "acquire"):
				time.Sleep(10 * time.Millisecond) // the others gather behind it
			case (strings.HasPrefix(name, "release") || strings.HasPrefix(name, "hand")) && slices.Contains(args, "orders/42") && (!once || !refused):
				refused = true
				return redlocktest.ReplyError(reply)
			case strings.HasPrefix(name, "acquire") && slices.Contains(args, "orders/42") && n.Miniredis().Exists("orders/42"):
				met.Add(1)
			}
			return redlocktest.Pass()
		})
	}
	busy := mustStart(t, l, "busy")
	var releases sync.WaitGroup
	releases.Go(func() { _ = held.Release(t.Context()) })
	if !alone {
		releases.Go(func() { _ = other.Release(t.Context()) })
	}
	time.Sleep(time.Millisecond)
	lock, err := l.TryAcquire(t.Context(), "orders/42")
	if errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("got %v; want no word of contention: nobody else was there", err)
	}
	if met.Load() == 0 {
		t.Error("no acquire met our own key; want one, or this test shows nothing")
	}
	if err == nil {
		locktest.MustRelease(t, lock)
	}
	locktest.MustRelease(t, <-busy)
	releases.Wait()
}

// A look at many names that is refused for one of them tells nothing of the others:
// they are looked at one by one.
func TestALookIsRefusedForOneNameAlone(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		names := []string{"secret/1", "orders/1", "orders/2", "orders/3"}
		for _, name := range names {
			locktest.MustAcquire(t, l, name)
			go func() { _, _ = other.Acquire(t.Context(), name) }()
		}
		time.Sleep(time.Second)
		var hidden, seen atomic.Int64
		for _, n := range nodes.Nodes() {
			forbid := locktest.Refusing("secret/1", locktest.NoRight)
			n.Intercept(func(args []string) redlocktest.Verdict {
				if locktest.ScriptOf(args) != "look" { // an ask that is refused everywhere would end the wait
					return redlocktest.Pass()
				}
				v := forbid(args)
				if slices.Contains(args, "orders/1") {
					if v == redlocktest.Pass() {
						seen.Add(1)
					} else {
						hidden.Add(1)
					}
				}
				return v
			})
		}
		for i := 0; i < 30 || hidden.Load() == 0 && i < 600; i++ { // which names go in one look is chance
			for _, n := range nodes.Nodes() {
				for _, key := range locktest.LiveKeys(n) { // without it the node is asked about all names
					n.Miniredis().Del(key)
				}
			}
			time.Sleep(time.Second)
		}
		if hidden.Load() == 0 {
			t.Fatal("no look had a forbidden name beside another; want some, or this test shows nothing")
		}
		if seen.Load() < hidden.Load() {
			t.Errorf("%d of %d looks at a name were refused for another, and %d reached it; want each repeated", hidden.Load(), hidden.Load()+seen.Load(), seen.Load())
		}
	})
}

// A server whose ACL loses a name that is held.
func TestAServerThatForbidsOneNameVotesForAllOthers(t *testing.T) {
	servers := testserver.Need(t, 3, redisserver.Config{Users: []string{"lock on >secret &* ~* +@all"}})
	var clients []redis.UniversalClient
	for _, s := range servers {
		clients = append(clients, locktest.ClientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "lock", "secret" }))
	}
	l := locktest.LockerWith(t, clients, redlock.WithTTL(30*time.Second)) // no key ends by itself before the polls do
	locktest.Admit(t, l)
	locktest.Warm(t, l)
	var locks []*redlock.Lock
	for i := range 20 {
		locks = append(locks, locktest.MustAcquire(t, l, fmt.Sprintf("orders/%d", i)))
	}
	locks = append(locks, locktest.MustAcquire(t, l, "secret/1"))
	admin := locktest.ClientOf(t, servers[0])
	locktest.PollUntil(t, 5*time.Second, "server 0, whose vote was not waited for, has the name", func() bool { return locktest.KeyOn(t, servers[0], "secret/1") != "" })
	testkit.Must(t, admin.Do(t.Context(), "ACL", "SETUSER", "lock", "resetkeys", "~redlock:*", "~orders/*", "~warm").Err())
	for _, lock := range locks {
		go func() { _ = lock.Release(t.Context()) }()
	}
	locktest.PollUntil(t, 20*time.Second, "server 0 has nothing but the name that it refuses", func() bool {
		return slices.Equal(locktest.KeysOn(t, servers[0]), []string{"secret/1"})
	})
	locktest.PollUntil(t, 20*time.Second, "server 0 votes for another name", func() bool {
		lock := locktest.MustAcquire(t, l, "orders/99")
		defer locktest.MustRelease(t, lock)
		return locktest.KeyOn(t, servers[0], "orders/99") != ""
	})
}

// On real servers: a user who may acquire, and not release, for want of DEL. What is
// our own there is not said to be another's.
func TestAnAcquireBehindARefusedReleaseIsNoContentionOnRealServers(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{Users: []string{"lock on >secret &* ~* +@all"}})
	var clients []redis.UniversalClient
	for _, s := range servers {
		clients = append(clients, locktest.ClientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "lock", "secret" }))
	}
	l := locktest.LockerWith(t, clients, redlock.WithTTL(30*time.Second))
	locktest.Admit(t, l)
	locktest.Warm(t, l)
	rights := func(del string) {
		for _, s := range servers[:2] {
			c := s.Client()
			testkit.Must(t, c.Do(t.Context(), "ACL", "SETUSER", "lock", del).Err())
			testkit.Must(t, c.Close())
		}
	}
	refused := 0
	for i := range 8 {
		name := fmt.Sprintf("orders/%d", i)
		lock := locktest.MustAcquire(t, l, name)
		rights("-del")
		released := make(chan struct{})
		go func() {
			defer close(released)
			_ = lock.Release(t.Context())
		}()
		next, err := l.TryAcquire(t.Context(), name)
		for ; strings.Contains(locktest.ErrorText(err), "this Locker holds it"); next, err = l.TryAcquire(t.Context(), name) {
			locktest.Pause(time.Millisecond) // the release has not begun
		}
		<-released
		rights("+del")
		switch {
		case errors.Is(err, redlock.ErrNotAcquired):
			t.Errorf("%v; want our own key not to be called another's", err)
		case err != nil:
			refused++
		default:
			locktest.MustRelease(t, next)
		}
	}
	if refused == 0 {
		t.Error("no acquire met a refused release")
	}
}

// writeRefusals are what servers say that answer and do not write.
var writeRefusals = []string{
	"OOM command not allowed when used memory > 'maxmemory'.",
	"READONLY You can't write against a read only replica.",
	"MISCONF Redis is configured to save RDB snapshots, but is unable to.",
	"NOREPLICAS Not enough good replicas to write.",
}

func TestANodeThatRefusesWritesIsToldOnceAndWhenItIsOver(t *testing.T) {
	for _, reply := range writeRefusals {
		synctest.Test(t, func(t *testing.T) {
			told := &locktest.Events{}
			l, nodes := locktest.NewLocker(t, 3, told.Option())
			locktest.Warm(t, l)
			nodes.Node(1).Intercept(func(args []string) redlocktest.Verdict {
				if name := locktest.ScriptOf(args); name != "" && name != "read" {
					return redlocktest.ReplyError(reply)
				}
				return redlocktest.Pass()
			})
			for range 5 {
				locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
				time.Sleep(time.Second)
			}
			got := told.Of(redlock.EventNodeRefusesWrites)
			if len(got) != 1 || got[0].Node != 1 || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), reply) {
				t.Fatalf("%s: got %v; want one event of node 1, with the reply", reply, got)
			}
			if down := told.Of(redlock.EventNodeDown); len(down) > 0 {
				t.Errorf("%s: got %v; want no node down: it answers", reply, down)
			}
			if s := l.Stats().Nodes; !s[1].Refuses || s[0].Refuses || s[1].Down {
				t.Errorf("%s: got %+v; want node 1 alone to refuse", reply, s)
			}
			nodes.Node(1).Intercept(nil)
			rest := 4 * time.Second                   // an acquire may be over before its command leaves for node 1
			if strings.HasPrefix(reply, "READONLY") { // it was a replica: it forgot
				rest += redlock.DefaultMaxTTL + 5*time.Second
			}
			for range rest / time.Second {
				time.Sleep(time.Second)
				locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
			}
			synctest.Wait()
			over := told.Of(redlock.EventNodeTakesWrites)
			if len(over) != 1 || over[0].Node != 1 || over[0].Duration < 5*time.Second || over[0].Duration > rest+7*time.Second {
				t.Errorf("%s: got %v; want that node 1 takes writes, after %v at the most", reply, over, rest+7*time.Second)
			}
			if l.Stats().Nodes[1].Refuses {
				t.Errorf("%s: node 1 refuses still; want it to take writes", reply)
			}
		})
	}
}

// A right that is missing inside a script was told as a node that goes down and comes up with
// each command, and the log ended on "node up" while nothing could be locked.
func TestAMissingRightIsToldOnceAndWhenItIsGranted(t *testing.T) {
	for _, reply := range []string{
		"ERR The user executing the script can't run this command or subcommand script: e1e8, on @user_script:56.",
		"NOPERM User redlock has no permissions to run the 'evalsha' command",
		"ERR ACL failure in script: User redlock has no permissions to run the 'set' command script: e1e8",
	} {
		for _, scripts := range [][]string{{"acquire"}, {"extend"}, {"hand_one", "release", "release_batch", "hand"}} {
			synctest.Test(t, func(t *testing.T) {
				told := &locktest.Events{}
				l, nodes := locktest.NewLocker(t, 3, told.Option())
				locktest.Warm(t, l)
				node := nodes.Node(1)
				node.Intercept(func(args []string) redlocktest.Verdict {
					if slices.Contains(scripts, locktest.ScriptOf(args)) {
						return redlocktest.ReplyError(reply)
					}
					return redlocktest.Pass()
				})
				for i := range 7 {
					if i == 5 {
						node.Intercept(nil)
					}
					lock := locktest.MustAcquire(t, l, "orders/42")
					time.Sleep(4 * time.Second) // a renewal
					locktest.MustRelease(t, lock)
					if refuses := l.Stats().Nodes[1].Refuses; i > 0 && i < 5 && !refuses {
						t.Errorf("%v, %s: node 1 does not refuse; want it to until the right is there", scripts, reply)
					}
				}
				synctest.Wait()
				got, over := told.Of(redlock.EventNodeRefusesWrites), told.Of(redlock.EventNodeTakesWrites)
				if len(got) != 1 || !strings.Contains(fmt.Sprint(got[0].Err), "redlock nodes acl prints the rights") || len(over) != 1 {
					t.Errorf("%v, %s: got %v and %v; want it told once, and its end", scripts, reply, got, over)
				}
				if down := told.Of(redlock.EventNodeDown); len(down) > 0 || l.Stats().Nodes[1].Refuses {
					t.Errorf("%v, %s: got %v, and %+v; want no node down, nor one that refuses", scripts, reply, down, l.Stats().Nodes[1])
				}
			})
		}
	}
}

// A full memory refuses what takes memory, and nothing else: a renewal that a node
// confirms is no sign that it could grant a lock.
func TestARenewalIsNoSignThatANodeTakesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &locktest.Events{}
		l, nodes := locktest.NewLocker(t, 3, told.Option())
		lock := locktest.MustAcquire(t, l, "orders/42")
		nodes.Node(1).Intercept(locktest.OnScripts("acquire", redlocktest.ReplyError(writeRefusals[0])))
		other := locktest.MustAcquire(t, l, "orders/43")
		synctest.Wait() // node 1 was asked, too
		locktest.MustRelease(t, other)
		time.Sleep(8 * time.Second) // two renewals
		if over := told.Of(redlock.EventNodeTakesWrites); len(over) > 0 || len(told.Of(redlock.EventNodeRefusesWrites)) != 1 {
			t.Errorf("got %v; want node 1 to refuse until it has granted a lock", over)
		}
		locktest.MustRelease(t, lock)
	})
}
