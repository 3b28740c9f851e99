package redlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// Bad input that a node gives: servers that are none, replies that refuse, data of
// somebody else under the library's names.

func TestAPlainMiniredisIsRefusedWithAWordOnRedlocktest(t *testing.T) {
	var urls []string
	for range 3 {
		urls = append(urls, miniredis.RunT(t).Addr())
	}
	_, err := redlock.Open(t.Context(), urls)
	wantError(t, "Open", err, redlock.ErrMisconfigured)
	if err != nil && !strings.Contains(err.Error(), "redlocktest") {
		t.Errorf("Open: got %v; want it to name redlocktest", err)
	}
	l := lockerWith(t, defaultClients(t, urls...))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = l.Acquire(ctx, "orders/42") // at once: waiting does not mend it
	wantError(t, "Acquire", err, redlock.ErrMisconfigured)
	wantError(t, "Acquire", err, redlock.ErrNoQuorum)
	if ctx.Err() != nil || err != nil && !strings.Contains(err.Error(), "redlocktest") {
		t.Errorf("Acquire: got %v; want it at once, naming redlocktest", err)
	}
}

// refusingReplies are what a server says before it has written anything, and
// whether waiting does not mend it.
var refusingReplies = map[string]bool{
	"LOADING Redis is loading the dataset in memory":                       false,
	"READONLY You can't write against a read only replica.":                false,
	"OOM command not allowed when used memory > 'maxmemory'.":              false,
	"MISCONF Redis is configured to save RDB snapshots, but is unable to.": false,
	"NOREPLICAS Not enough good replicas to write.":                        false,
	"NOSCRIPT No matching script. Please use EVAL.":                        false,
	"NOAUTH Authentication required.":                                      true,
	"MOVED 866 127.0.0.1:7001":                                             true,
	"CROSSSLOT Keys in request don't hash to the same slot":                true,
	"CLUSTERDOWN Hash slot not served":                                     true,
	"NOPERM this user has no permissions to run the 'evalsha' command":     true,
}

func TestANodeThatRefusesHasFailedAndHoldsNothing(t *testing.T) {
	for reply, forGood := range refusingReplies {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			warm(t, l)
			synctest.Wait()
			for _, i := range []int{0, 2} {
				nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
					if args[0] == "EVALSHA" {
						return redlocktest.ReplyError(reply)
					}
					return redlocktest.Pass()
				})
			}
			_, err := l.TryAcquire(t.Context(), "orders/42")
			wantError(t, reply, err, redlock.ErrNoQuorum)
			var failed *redlock.QuorumError
			if !errors.As(err, &failed) {
				t.Fatalf("%s: got %v; want a *QuorumError", reply, err)
			}
			for _, i := range []int{0, 2} {
				if got := failed.Nodes[i].Outcome; got != redlock.Failed {
					t.Errorf("%s: node %d: got %v; want failed", reply, i, got)
				}
			}
			if got := errors.Is(err, redlock.ErrMisconfigured); got != forGood {
				t.Errorf("%s: misconfigured: got %v; want %v", reply, got, forGood)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if forGood {
				_, err = l.Acquire(ctx, "orders/42")
				wantError(t, reply+": Acquire at once", err, redlock.ErrMisconfigured)
				return
			}
			time.AfterFunc(3*time.Second, func() {
				nodes.Node(0).Intercept(nil)
				nodes.Node(2).Intercept(nil)
			})
			lock, err := l.Acquire(ctx, "orders/42") // waits until it is mended
			if err != nil {
				t.Fatalf("%s: Acquire: %v", reply, err)
			}
			mustRelease(t, lock)
			time.Sleep(time.Second)
			wantNoLocks(t, nodes, reply)
		})
	}
}

// A node that refuses releases must not be asked as fast as it answers.
func TestARefusedReleaseIsRepeatedWithPauses(t *testing.T) {
	for reply := range refusingReplies {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			lock := mustAcquire(t, l, "orders/42")
			synctest.Wait()
			const most = 100 // in five seconds; a spinning writer would not let the time pass
			var refused atomic.Int64
			nodes.Node(1).Intercept(func(args []string) redlocktest.Verdict {
				if args[0] != "EVALSHA" || refused.Load() == most {
					return redlocktest.Pass()
				}
				refused.Add(1)
				return redlocktest.ReplyError(reply)
			})
			must(t, lock.Release(t.Context()))
			time.Sleep(5 * time.Second)
			asked := refused.Load()
			if asked == most {
				t.Errorf("%s: the release was repeated %d times; want pauses between", reply, asked)
			}
			if asked == 0 {
				t.Errorf("%s: the release was never refused; want it to be, or this test shows nothing", reply)
			}
			nodes.Node(1).Intercept(nil)
			time.Sleep(2 * time.Second)
			wantNoLocks(t, nodes, reply+": after it was mended")
		})
	}
}

// An error that may come after a write says nothing: it is rolled back.
func TestAnUnclearErrorReplyIsUnknownAndRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Intercept(onScripts("acquire", redlocktest.ReplyError("ERR something went wrong in the middle")))
		}
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		var failed *redlock.QuorumError
		if !errors.As(err, &failed) || !slices.ContainsFunc(failed.Nodes, func(n redlock.NodeResult) bool { return n.Outcome == redlock.Unknown }) {
			t.Fatalf("got %v; want unknown outcomes", err)
		}
		time.Sleep(time.Second)
		for i, n := range nodes.Nodes() {
			n.Intercept(nil)
			if failed.Nodes[i].Outcome == redlock.Unknown && len(n.Keys()) != 2 {
				t.Errorf("%s has %q; want its record and a tombstone", n.Name(), n.Keys())
			}
		}
	})
}

func TestDataOfAnotherTypeUnderTheNameIsNeverTouched(t *testing.T) {
	for _, set := range [][]int{{0}, {0, 1}, {0, 1, 2}} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			for _, i := range set {
				_, err := nodes.Node(i).Miniredis().Push("orders/42", "a", "b")
				must(t, err)
			}
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if len(set) < 2 {
				must(t, err)
				must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
				mustRelease(t, lock)
			} else {
				wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
			}
			time.Sleep(2 * redlock.DefaultTTL)
			for i, n := range nodes.Nodes() {
				list, err := n.Miniredis().List("orders/42")
				had := i < len(set)
				if had && (err != nil || strings.Join(list, "") != "ab") {
					t.Errorf("node %d: got %q, %v; want the list as it was", i, list, err)
				}
				if !had && len(locksOn(n)) > 0 {
					t.Errorf("node %d has %q; want nothing", i, locksOn(n))
				}
			}
			in, err := l.Inspect(t.Context(), "orders/42")
			must(t, err)
			if in.Nodes[0].Err == nil || in.Nodes[0].Owner != "" {
				t.Errorf("Inspect: got %+v; want an error for data of another type", in.Nodes[0])
			}
		})
	}
}

func TestDataUnderTheLibrarysOwnHashIsNeverOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		for _, i := range []int{0, 1} {
			nodes.Node(i).FlushAll()
			must(t, nodes.Node(i).Miniredis().Set(lua.NodeKey, "somebody's"))
		}
		l := lockerOver(t, nodes)
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		time.Sleep(time.Second)
		for _, i := range []int{0, 1} {
			if v, err := nodes.Node(i).Miniredis().Get(lua.NodeKey); err != nil || v != "somebody's" {
				t.Errorf("node %d: got %q, %v; want it as it was", i, v, err)
			}
		}
		wantNoLocks(t, nodes, "at the end")
	})
}

func TestAKeyWithoutAnEndIsTakenAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for _, n := range nodes.Nodes() {
			must(t, n.Miniredis().Set("orders/42", "an old script's"))
		}
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
		if err != nil && !strings.Contains(err.Error(), "without an end") {
			t.Errorf("got %v; want it to say that the key has no end", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = l.Acquire(ctx, "orders/42")
		wantError(t, "Acquire: the context", err, context.DeadlineExceeded)
		wantError(t, "Acquire: the reason", err, redlock.ErrNotAcquired)
		for _, n := range nodes.Nodes() {
			if v, _ := n.Miniredis().Get("orders/42"); v != "an old script's" {
				t.Errorf("%s: got %q; want it as it was", n.Name(), v)
			}
		}
	})
}
