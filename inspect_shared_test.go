package redlock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

func inspected(t *testing.T, l *redlock.Locker) redlock.Inspection {
	t.Helper()
	in, err := l.Inspect(t.Context(), "orders/42")
	must(t, err)
	return in
}

// ownersOf are the owner values of sharers, in their order.
func ownersOf(sharers []redlock.Sharer) []string {
	var owners []string
	for _, s := range sharers {
		owners = append(owners, s.Owner)
	}
	return owners
}

// Each who shares is shown with what remains of its own lease, on each node and on a
// quorum; who is on a minority only is shown there, and who has ended nowhere.
func TestInspectShowsWhoShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder("first/"))
		second := lockerOver(t, nodes, redlock.WithHolder("second/"))
		fixed := redlock.WithFixedLease()
		lock := shares(t, l, fixed, redlock.WithTTL(5*time.Second))
		shares(t, second, fixed, redlock.WithTTL(20*time.Second))
		shares(t, l, fixed, redlock.WithTTL(10*time.Second))
		synctest.Wait()
		three := members(t, nodes.Node(0))
		if _, err := nodes.Node(2).Miniredis().ZRem("orders/42", three[1]); err != nil { // the second to end
			t.Fatal(err)
		}
		if _, err := nodes.Node(1).Miniredis().ZAdd("orders/42", float64(time.Now().UnixMilli()+60_000), "stray"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)

		in := inspected(t, l)
		if owner, held := in.Holder(); held || owner != "" {
			t.Errorf("got the holder %q; want none of a shared name", owner)
		}
		if got := ownersOf(in.Sharers()); !slices.Equal(got, three) {
			t.Errorf("got %q on a quorum; want %q", got, three)
		}
		for i, left := range []time.Duration{4 * time.Second, 9 * time.Second, 19 * time.Second} {
			if got := in.Sharers()[i].Remaining; got != left {
				t.Errorf("sharer %d: got %v left; want %v", i, got, left)
			}
		}
		for i, want := range [][]string{three, append(three[:3:3], "stray"), {three[0], three[2]}} {
			n := in.Nodes[i]
			if got := ownersOf(n.Sharers); !slices.Equal(got, want) || !n.Shared || n.Owner != "" || n.Err != nil || n.Token != lock.Token() {
				t.Errorf("node %d: got %+v; want %q, who share it with %d", i, n, want, lock.Token())
			}
		}
		if got := in.Nodes[0].Remaining; got != 19*time.Second {
			t.Errorf("got %v left of the name; want that of the last, 19s", got)
		}

		for _, n := range nodes.Nodes() { // who ends, and nobody removes it
			_, err := n.Miniredis().ZAdd("orders/42", float64(time.Now().UnixMilli()+1000), "dead")
			must(t, err)
		}
		time.Sleep(time.Second)
		if got := ownersOf(inspected(t, l).Sharers()); !slices.Equal(got, append([]string{"dead"}, three...)) {
			t.Errorf("got %q on a quorum; want the one that is about to end as well", got)
		}
		time.Sleep(time.Millisecond)
		if got := ownersOf(inspected(t, l).Sharers()); !slices.Equal(got, three) {
			t.Errorf("got %q on a quorum; want %q, without the one who has ended", got, three)
		}
		time.Sleep(time.Minute)
		in = inspected(t, l)
		if n := in.Nodes[1]; in.Sharers() != nil || n.Shared || n.Remaining != 0 || n.Err != nil {
			t.Errorf("got %+v; want nobody any more", in)
		}
	})
}

// What remains on a quorum is not what one node shows that was not told of the last
// renewal, or of a longer one alone.
func TestWhatRemainsOfASharerIsWhatAQuorumShows(t *testing.T) {
	t.Parallel()
	of := func(left ...time.Duration) redlock.Inspection {
		in := redlock.Inspection{Quorum: 2}
		for _, d := range left {
			in.Nodes = append(in.Nodes, redlock.NodeInspection{Shared: true, Sharers: []redlock.Sharer{{Owner: "a", Remaining: d}}})
		}
		return in
	}
	for _, tt := range []struct {
		in   redlock.Inspection
		want []redlock.Sharer
	}{
		{of(), nil},
		{of(9), nil},
		{of(9, 4), []redlock.Sharer{{Owner: "a", Remaining: 4}}},
		{of(9, 4, 7), []redlock.Sharer{{Owner: "a", Remaining: 7}}},
	} {
		if got := tt.in.Sharers(); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %v; want %v", tt.in.Nodes, got, tt.want)
		}
	}
}

// Another program's data stay shown as such: also a sorted set, and one that has the mark
// anywhere but in the first place.
func TestInspectTakesNoForeignDataForSharers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		set := func(i int, score float64, member string) {
			t.Helper()
			_, err := nodes.Node(i).Miniredis().ZAdd("orders/42", score, member)
			must(t, err)
		}
		set(0, 1, "theirs")
		set(1, 2, lua.SharedMark)
		set(1, 1, "theirs")
		_, err := nodes.Node(2).Miniredis().Lpush("orders/42", "theirs")
		must(t, err)
		in := inspected(t, l)
		for i, n := range in.Nodes {
			if !errors.Is(n.Err, redlock.ErrForeignType) || n.Shared || n.Sharers != nil || n.Remaining != -1 {
				t.Errorf("node %d: got %+v; want data of another type", i, n)
			}
		}
	})
}

// between runs something between the first transaction of a connection and the next.
type between struct{ run func() }

func (b *between) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if run := b.run; run != nil && slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "mget" }) {
			b.run = nil
			run()
		}
		return err
	}
}

// A name may change hands between two questions: it is shown as it is by then.
func TestInspectReadsAgainWhereANameChangesItsKind(t *testing.T) {
	for name, tt := range map[string]struct {
		becomes func(t *testing.T, n *redlocktest.Node)
		owner   string
	}{
		"held alone": {func(t *testing.T, n *redlocktest.Node) {
			t.Helper()
			n.Miniredis().Del("orders/42")
			must(t, n.Miniredis().Set("orders/42", "somebody"))
		}, "somebody"},
		"free": {func(t *testing.T, n *redlocktest.Node) {
			t.Helper()
			n.Miniredis().Del("orders/42")
		}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 1)
			client, hook := nodes.NewClients()[0], new(between)
			client.AddHook(hook)
			l := lockerWith(t, []redis.UniversalClient{hidden{client}}, redlock.WithNodeNames(nodes.Names()...))
			shares(t, l)
			hook.run = func() { tt.becomes(t, nodes.Node(0)) }
			n := inspected(t, l).Nodes[0]
			if n.Err != nil || n.Shared || n.Sharers != nil || n.Owner != tt.owner {
				t.Errorf("%s: got %+v; want the owner %q", name, n, tt.owner)
			}
		})
	}
}

// Who waits to share is in one order with who waits to be alone: by place, and at one
// place who wants to be alone goes first. A process that stands in both lines is one.
func TestInspectShowsBothLinesInOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 1)
		m := nodes.Node(0).Miniredis()
		stand := func(line, id string, place float64, living bool) {
			t.Helper()
			_, err := m.ZAdd(line+"orders/42", place, id)
			must(t, err)
			if living {
				must(t, m.Set(lua.LiveKey+id, "1"))
			}
		}
		stand(lua.QueueKey, "writer", 5, true)
		stand(lua.QueueKey, "both", 9, true)
		stand(lua.QueueKey, "both ..owner", 9, true)
		stand(lua.SharersKey, "before", 4, true)
		stand(lua.SharersKey, "alike", 5, true)
		stand(lua.SharersKey, "both", 7, true)
		stand(lua.SharersKey, "dead", 6, false)
		if got, want := inspected(t, l).Nodes[0].Waiting, []string{"before", "writer", "alike", "both"}; !slices.Equal(got, want) {
			t.Errorf("got %q in line; want %q", got, want)
		}
	})
}
