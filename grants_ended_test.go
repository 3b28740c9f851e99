package redlock_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
)

// A node that was away for longer than a release is repeated may have an entry in line of
// an attempt that is over. The next release there grants the name to it, and the process
// that hears of it gives it back; else that node would keep the key for three seconds.
func TestAGrantToAnAttemptThatIsOverIsGivenBack(t *testing.T) {
	testkit.Unraced(t)
	for _, tt := range []struct {
		name                  string
		handedOn, wantedAgain bool
		turns                 int
	}{
		{name: "of a name that is not wanted"},
		{name: "of one that is", wantedAgain: true},
		{name: "of a lock that was handed on", handedOn: true},
		{name: "of one whose process went on in line", handedOn: true, turns: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holder, nodes := newLocker(t, 5)
				var opts []redlock.Option
				if tt.turns > 0 {
					opts = append(opts, redlock.WithTurns(tt.turns))
				}
				l := separateLocker(t, nodes, opts...)
				warm(t, l)
				lock := mustAcquire(t, holder, "orders/42")
				synctest.Wait()
				next := standing(t, nodes, l)
				var second <-chan gained
				if tt.handedOn {
					second = wants(t, l)
				}
				node := nodes.Node(3).Miniredis()
				entry, err := node.ZMembers("redlock:queue:orders/42")
				must(t, err)
				place, err := node.ZScore("redlock:queue:orders/42", entry[0])
				must(t, err)
				mustRelease(t, lock)
				mustRelease(t, got(t, next).lock)
				if tt.handedOn {
					mustRelease(t, got(t, second).lock)
				}
				synctest.Wait() // a node that is not yet free would refuse the next
				another := mustAcquire(t, holder, "orders/41")
				lives := make(chan *redlock.Lock, 1)
				go func() {
					lock, err := l.Acquire(t.Context(), "orders/41")
					if err != nil {
						t.Error(err)
					}
					lives <- lock
				}()
				lock = mustAcquire(t, holder, "orders/42")
				synctest.Wait() // one that it has not reached may grant the next attempt
				if tt.wantedAgain {
					next = wants(t, l)
				}
				time.Sleep(2500 * time.Millisecond) // signs of life are under way
				if held, _ := node.Get("orders/42"); held == "" {
					t.Fatal("the node has not granted the lock; its release would show nothing")
				}
				for _, member := range entry {
					_, err = node.ZAdd("redlock:queue:orders/42", place, member)
					must(t, err)
				}
				at := slices.IndexFunc(entry, func(m string) bool { return strings.Contains(m, " ") })
				if at < 0 {
					t.Fatalf("got %q; want an attempt in line", entry)
				}
				_, owner, _ := strings.Cut(entry[at], " ")
				mustRelease(t, lock)
				synctest.Wait()
				time.Sleep(10 * time.Millisecond)
				if key, _ := node.Get("orders/42"); key == owner {
					t.Errorf("the node keeps %q, of an attempt that is over", key)
				}
				if tt.wantedAgain {
					mustRelease(t, got(t, next).lock)
				}
				mustRelease(t, another)
				mustRelease(t, <-lives)
			})
		})
	}
}
