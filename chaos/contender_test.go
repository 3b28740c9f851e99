package chaos_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

func kits() []chaos.Kit {
	return []chaos.Kit{
		chaos.Redlock("redlock", redlock.WithFixedLease()),
		chaos.Redlock("redlock, bare", redlock.WithFixedLease(), redlock.WithoutMembership(), redlock.WithoutClockWatch()),
		chaos.SingleMaster(),
		chaos.TextbookRedlock(),
	}
}

// open makes n contenders of a kit over fresh nodes.
func open(t *testing.T, kit chaos.Kit, n int) (*redlocktest.Cluster, []chaos.Contender) {
	t.Helper()
	nodes := redlocktest.Start(t, 5)
	var contenders []chaos.Contender
	for range n {
		c, err := kit.Open(nodes.NewClients(), nodes.Names())
		testkit.Must(t, err)
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		contenders = append(contenders, c)
	}
	return nodes, contenders
}

func TestEveryContenderLocksExtendsAndReleases(t *testing.T) {
	for _, kit := range kits() {
		t.Run(kit.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, c := open(t, kit, 2)
				first, err := c[0].Acquire(t.Context(), "r", 5*time.Second)
				testkit.Must(t, err)
				if left := first.Remaining(); left < 4900*time.Millisecond || left > 5*time.Second {
					t.Errorf("got %v left; want the lease less the drift", left)
				}
				if _, err := c[1].Acquire(t.Context(), "r", 5*time.Second); err == nil {
					t.Error("got a second lock; want an error")
				}
				time.Sleep(4 * time.Second)
				if err := first.Extend(t.Context(), 5*time.Second); err != nil {
					t.Error(err)
				}
				time.Sleep(4 * time.Second)
				if left := first.Remaining(); left == 0 {
					t.Error("got no validity after the extension; want about a second")
				}
				if err := first.Release(t.Context()); err != nil {
					t.Error(err)
				}
				if left := first.Remaining(); left != 0 {
					t.Errorf("got %v left after the release; want 0", left)
				}
				second, err := c[1].Acquire(t.Context(), "r", 5*time.Second)
				testkit.Must(t, err)
				if second.Token() < first.Token() || (first.Token() > 0) != (first.Lost() != nil) {
					t.Errorf("got tokens %d, %d and a loss signal %t", first.Token(), second.Token(), first.Lost() != nil)
				}
				time.Sleep(5 * time.Second)
				if left := second.Remaining(); left != 0 {
					t.Errorf("got %v left after the lease; want 0", left)
				}
				if err := second.Extend(t.Context(), 5*time.Second); err == nil {
					t.Error("a lapsed lock was extended")
				}
			})
		})
	}
}

func TestAFailedAttemptLeavesNoKey(t *testing.T) {
	for _, kit := range kits() {
		t.Run(kit.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, c := open(t, kit, 1)
				for i := range 3 {
					testkit.Must(t, nodes.Clients()[i].Set(t.Context(), "r", "another", 0).Err())
				}
				if _, err := c[0].Acquire(t.Context(), "r", 5*time.Second); err == nil {
					t.Error("got a lock; want an error")
				}
				synctest.Wait()
				for i, node := range nodes.Nodes() {
					if got, _ := node.Miniredis().Get("r"); (got != "") != (i < 3) {
						t.Errorf("node %d: got %q", i, got)
					}
				}
			})
		})
	}
}

func TestContendersNeedANode(t *testing.T) {
	for _, kit := range kits() {
		if _, err := kit.Open(nil, nil); err == nil {
			t.Errorf("%s: got a contender without nodes", kit.Name)
		}
	}
}

// Another library becomes a contender by a Kit of its own.
func ExampleKit() {
	kit := chaos.Kit{Name: "the same, twice as long", Open: func(nodes []redis.UniversalClient, names []string) (chaos.Contender, error) {
		inner, err := chaos.TextbookRedlock().Open(nodes, names)
		return doubled{inner}, err
	}}
	nodes, err := redlocktest.Run(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	c, err := kit.Open(nodes.Clients(), nodes.Names())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	hold, err := c.Acquire(context.Background(), "report", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(hold.Remaining() > 15*time.Second, hold.Release(context.Background()))
	// Output: true <nil>
}

type doubled struct{ chaos.Contender }

func (d doubled) Acquire(ctx context.Context, resource string, lease time.Duration) (chaos.Hold, error) {
	return d.Contender.Acquire(ctx, resource, 2*lease)
}
