package redlock_test

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// stripeOn sets the counter of orders/42 on a node.
func stripeOn(n *redlocktest.Node, to int64) {
	n.Miniredis().HSet(lua.NodeKey, strconv.FormatInt(lua.StripeOf("orders/42"), 10), strconv.FormatInt(to, 10))
}

func TestTheTokenOfASharedHoldIsANumberThatAQuorumShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		last := mustAcquire(t, l, "orders/42")
		mustRelease(t, last)
		synctest.Wait()
		for i, n := range nodes.Nodes() {
			stripeOn(n, int64(last.Token())+int64(1000*i))
		}
		check := func(lock *redlock.Lock) {
			t.Helper()
			same := 0
			for _, n := range nodes.Nodes() {
				if number(t, n) == lock.Token() {
					same++
				}
			}
			if same < 3 {
				t.Errorf("token %v is the number on %d of 5 nodes; want a quorum", lock.Token(), same)
			}
		}
		first := shares(t, l)
		check(first)
		second := shares(t, separateLocker(t, nodes))
		check(second)
		if second.Token() < first.Token() {
			t.Errorf("shared tokens fall: %v, then %v", first.Token(), second.Token())
		}
		mustRelease(t, first)
		mustRelease(t, second)
		after := mustAcquire(t, l, "orders/42")
		if after.Token() <= second.Token() {
			t.Errorf("got token %v after %v", after.Token(), second.Token())
		}
		mustRelease(t, after)
	})
}

// Other names that have the same counter move it between the grants and the raise, which
// then answers with the number as it is: a further raise goes beyond the clock.
func TestARaiseThatOtherNamesOutranIsMadeAgain(t *testing.T) {
	for _, outrun := range []int{1, 4, 5} { // raises
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			last := mustAcquire(t, l, "orders/42")
			mustRelease(t, last)
			synctest.Wait()
			var raises atomic.Int64
			for i, n := range nodes.Nodes() {
				stripeOn(n, int64(last.Token())+int64(1000*i))
				left := outrun
				n.Intercept(func(args []string) redlocktest.Verdict {
					if len(args) > 1 && args[1] == lua.RaiseSharedScript.Hash {
						raises.Add(1)
						if left--; left >= 0 {
							to, _ := strconv.ParseInt(args[len(args)-2], 10, 64)
							stripeOn(n, to+1)
						}
					}
					return redlocktest.Pass()
				})
			}
			lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared())
			if outrun == 5 {
				if !errors.Is(err, redlock.ErrNotAcquired) || !strings.Contains(err.Error(), "without a settled token") {
					t.Errorf("five raises outrun: got %v, %v; want ErrNotAcquired that says so", lock, err)
				}
			} else {
				must(t, err)
				if lock.Token() <= last.Token() {
					t.Errorf("got token %v after %v", lock.Token(), last.Token())
				}
				mustRelease(t, lock)
			}
			synctest.Wait()
			rounds := int64(min(outrun+1, 5))
			if least, most := 3*rounds-1, 5*rounds-1; raises.Load() < least || raises.Load() > most { // the largest grant needs none at first
				t.Errorf("%d raises outrun: %d were sent; want %d to %d", outrun, raises.Load(), least, most)
			}
			for i, n := range nodes.Nodes() {
				if left := members(t, n); left != nil {
					t.Errorf("node %d keeps %v", i, left)
				}
			}
		})
	}
}

// A command that comes late, or whose reply is lost, leaves nothing behind that lasts.
func TestWhatASharedAttemptLeftInDoubtIsCleaned(t *testing.T) {
	for name, fate := range map[string]func() redlocktest.Verdict{
		"reply lost": redlocktest.LoseReply, "request lost": redlocktest.LoseRequest,
		"broken before": redlocktest.BreakBefore, "broken after": redlocktest.BreakAfter,
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			beside := shares(t, separateLocker(t, nodes))
			warm(t, l)
			synctest.Wait() // that share has reached all nodes
			for _, n := range nodes.Nodes()[:3] {
				var once atomic.Bool
				n.Intercept(func(args []string) redlocktest.Verdict {
					if len(args) > 1 && args[1] == lua.ShareScript.Hash && !once.Swap(true) {
						return fate()
					}
					return redlocktest.Pass()
				})
			}
			lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared())
			switch {
			case err == nil && name == "broken after": // it was made again, since nodes were seen not to vote
				mustRelease(t, lock)
			case !errors.Is(err, redlock.ErrNoQuorum):
				t.Fatalf("%s: got %v, %v; want ErrNoQuorum", name, lock, err)
			}
			time.Sleep(2 * time.Second)
			for i, n := range nodes.Nodes() {
				if got := members(t, n); len(got) != 1 {
					t.Errorf("%s: node %d has the members %v; want the one beside only", name, i, got)
				}
			}
			must(t, beside.Err())
			mustRelease(t, beside)
		})
	}
}

// A command that comes when its attempt was rolled back, and nobody shares any more.
func TestALateShareMeetsItsTombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		var late [2]atomic.Pointer[[]any]
		for i := range late {
			nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
				if len(args) > 1 && args[1] == lua.ShareScript.Hash {
					var all []any
					for _, a := range args {
						all = append(all, a)
					}
					late[i].Store(&all)
					return redlocktest.LoseRequest()
				}
				return redlocktest.Pass()
			})
		}
		if lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithShared()); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Fatalf("got %v, %v; want ErrNoQuorum", lock, err)
		}
		time.Sleep(2 * time.Second)
		for i := range late {
			nodes.Node(i).Intercept(nil)
			reply, err := nodes.Clients()[i].Do(t.Context(), *late[i].Load()...).Int64Slice()
			if err != nil || reply[0] != -1 {
				t.Errorf("node %d: the late command: got %v, %v; want -1, dead", i, reply, err)
			}
			if left := members(t, nodes.Node(i)); left != nil {
				t.Errorf("node %d has %v", i, left)
			}
		}
	})
}

// Each grant is followed by a reading of the node's clock, as a plain one's is, and what
// it costs is one command more.
func TestAShareIsFollowedByAReadingOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		for range 3 {
			mustRelease(t, shares(t, l))
			synctest.Wait()
		}
		const pairs = 20
		commands, times := nodes.Node(0).Calls(), nodes.Node(0).Calls("TIME")
		for range pairs {
			mustRelease(t, shares(t, l))
			synctest.Wait()
		}
		const behind = pairs / 2 // pairs at most for which the node is so far behind the others that it gets the two together
		if got := nodes.Node(0).Calls("TIME") - times; got < pairs-behind {
			t.Errorf("%d shared pairs: %d readings of the clock; want one each", pairs, got)
		}
		if got := nodes.Node(0).Calls() - commands; got > 3*pairs+behind {
			t.Errorf("%d shared pairs: %d commands; want %d or so at most", pairs, got, 3*pairs)
		}
	})
}
