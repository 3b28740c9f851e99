package redlock_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/redlocktest"
)

// hidden is a client whose type says nothing, so that nobody can bound it.
type hidden struct{ redis.UniversalClient }

// patientClients read for half a minute, no matter what the context says.
func patientClients(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, len(nodes.Nodes()))
	for i, n := range nodes.Nodes() {
		o := n.Options()
		o.ReadTimeout, o.ContextTimeoutEnabled = 30*time.Second, false
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients
}

// wrappedClients are patient, and can't be given another timeout.
func wrappedClients(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	clients := patientClients(t, nodes)
	for i, c := range clients {
		clients[i] = hidden{c}
	}
	return clients
}

func boundedClients(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	return nodes.NewClients()
}

// Inspect returns when its context ends, or a node timeout has passed, or four where a
// connection has to come up, no matter what the clients do, and says which of the two it was.
func TestInspectIsBoundedByItsContextAndTheNodeTimeout(t *testing.T) {
	const soon = redlock.DefaultNodeTimeout / 5
	for name, tt := range map[string]struct {
		context func(context.Context) (context.Context, context.CancelFunc)
		after   time.Duration
		want    error // nil: no context's error
	}{
		"no bound": {context.WithCancel, redlock.DefaultNodeTimeout, nil},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, soon)
		}, soon, context.DeadlineExceeded},
		"cancel": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(soon, cancel)
			return ctx, cancel
		}, soon, context.Canceled},
	} {
		for kind, clients := range map[string]func(*testing.T, *redlocktest.Cluster) []redis.UniversalClient{
			"patient": patientClients, "wrapped": wrappedClients, "bounded by their context": boundedClients,
		} {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				l := lockerWith(t, clients(t, nodes), redlock.WithNodeNames(nodes.Names()...))
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				for i := range 2 {
					nodes.Node(i).Hang()
				}
				ctx, cancel := tt.context(t.Context())
				defer cancel()
				began := time.Now()
				in, err := l.Inspect(ctx, "orders/42")
				after := tt.after
				most := after
				switch {
				case tt.want != nil:
				case kind == "wrapped": // all its questions together
					after, most = 7*after, 7*after
				default: // its other connection may only be dialled, behind a silence too
					most = node.DialShare * after
				}
				if took := time.Since(began); took != after && took != most && (kind == "wrapped" || took != after+most) {
					t.Errorf("%s, clients %s: took %v; want %v", name, kind, took, after)
				}
				wantError(t, name, err, redlock.ErrNoQuorum)
				ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
				if ended != (tt.want != nil) || ended && !errors.Is(err, tt.want) {
					t.Errorf("%s, clients %s: got %v; want %v in it", name, kind, err, tt.want)
				}
				if blamed := strings.Contains(err.Error(), "node timeout"); blamed != (tt.want == nil) {
					t.Errorf("%s, clients %s: got %v; want the node blamed for its own silence only", name, kind, err)
				}
				if in.Nodes[0].Err == nil || in.Nodes[0].Name != "node-0" || in.Nodes[2].Err != nil {
					t.Errorf("%s: got %+v; want two nodes that said nothing, and the third", name, in.Nodes)
				}
				for i := range 2 {
					nodes.Node(i).Resume()
				}
			})
		}
	}
}

// Who stands in line is shown in its order, without those that are dead.
func TestInspectTellsWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithPrefix("locks:"))
		lock := mustAcquire(t, l, "orders/42")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var left sync.WaitGroup
		for range 2 { // two processes, of which each has two goroutines that wait
			other := lockerOver(t, nodes, redlock.WithPrefix("locks:"))
			for range 2 {
				left.Go(func() {
					if _, err := other.Acquire(ctx, "orders/42"); !errors.Is(err, context.Canceled) {
						t.Errorf("a waiter: got %v; want its cancellation", err)
					}
				})
			}
			time.Sleep(time.Second)
		}
		if _, err := nodes.Node(1).Miniredis().ZAdd("redlock:queue:locks:orders/42", 1, "ghost"); err != nil {
			t.Fatal(err)
		}
		in, err := l.Inspect(t.Context(), "orders/42")
		must(t, err)
		lines, standing := map[string]bool{}, map[string]int{}
		for i, n := range in.Nodes {
			if slices.Contains(n.Waiting, "ghost") || len(n.Waiting) > 2 {
				t.Errorf("node %d: got %q in line; want the two that wait, or one", i, n.Waiting)
			}
			for _, process := range n.Waiting {
				standing[process]++
			}
			if len(n.Waiting) == 2 {
				lines[strings.Join(n.Waiting, " ")] = true
			}
		}
		if _, held := in.Holder(); !held || lock.Err() != nil {
			t.Errorf("got %+v; want the holder as well", in)
		}
		if len(lines) != 1 || len(standing) != 2 || slices.Min(slices.Collect(maps.Values(standing))) < 2 {
			t.Errorf("got %+v; want each on a quorum, and one order", in.Nodes)
		}
		cancel()
		left.Wait()
		synctest.Wait()
		in, err = l.Inspect(t.Context(), "orders/42")
		must(t, err)
		for i, n := range in.Nodes {
			if len(n.Waiting) != 0 {
				t.Errorf("node %d: got %q in line; want nobody", i, n.Waiting)
			}
		}
	})
}

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
		l, nodes := newLocker(t, 3, redlock.WithHolder("first"))
		second := lockerOver(t, nodes, redlock.WithHolder("second"))
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
