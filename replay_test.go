package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// Replies get lost, and a middlebox may send a command twice: each script, run
// twice in a row, must give what it gave, and leave what it left.

// replayed is one script call on one state of a node.
type replayed struct {
	script string
	keys   []string
	args   []any
	again  string // what the second run gives, where it is another word for the same
}

const (
	replayEpoch = "e1"
	replayKey   = "orders/42"
	replayOwner = "mine"
	replayDead  = lua.TombstoneKey + replayOwner
)

// replayStates prepare a node.
var replayStates = map[string]func(ctx context.Context, c redis.UniversalClient) error{
	"free": func(context.Context, redis.UniversalClient) error { return nil },
	"ours": func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, replayKey, replayOwner, 5*time.Second).Err()
	},
	"another's": func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, replayKey, "another", 5*time.Second).Err()
	},
	"another's, without an end": func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, replayKey, "another", 0).Err()
	},
	holes: func(ctx context.Context, c redis.UniversalClient) error {
		return c.RPush(ctx, replayKey, "a").Err()
	},
	"given up": func(ctx context.Context, c redis.UniversalClient) error {
		return errors.Join(c.Set(ctx, replayDead, 1, 5*time.Second).Err(), c.Set(ctx, lua.TombstonesKey, 1, 5*time.Second).Err())
	},
	"of another epoch": func(ctx context.Context, c redis.UniversalClient) error {
		return c.HSet(ctx, lua.NodeKey, "epoch", "e2").Err()
	},
	"of no epoch": func(ctx context.Context, c redis.UniversalClient) error {
		return c.Del(ctx, lua.NodeKey).Err()
	},
	"at the counter's end": func(ctx context.Context, c redis.UniversalClient) error {
		return c.HSet(ctx, lua.NodeKey, replayStripe(), strconv.FormatUint(uint64(redlock.MaxToken), 10)).Err()
	},
}

// holes is the state in which each try of an acquire leaves a hole in the counter.
const holes = "of another type"

func replayStripe() string { return strconv.FormatInt(lua.StripeOf(replayKey), 10) }

// replayCalls are the scripts with arguments as the library gives them.
func replayCalls() []replayed {
	const other, otherOwner = "orders/43", "mine too"
	stripe, hint, token := replayStripe(), 1000, 2000
	otherStripe := strconv.FormatInt(lua.StripeOf(other), 10)
	return []replayed{
		{"acquire", []string{replayKey, lua.NodeKey}, []any{replayOwner, 9000, hint, stripe, replayEpoch}, ""},
		{
			"acquire_batch",
			[]string{lua.NodeKey, replayKey, other},
			[]any{replayEpoch, "1", stripe, otherStripe, replayOwner, otherOwner, 9000, 9000, hint, hint},
			"",
		},
		{"raise", []string{replayKey, lua.NodeKey}, []any{replayOwner, stripe, token, replayEpoch}, ""},
		{"extend", []string{lua.NodeKey, replayKey, other}, []any{replayEpoch, replayOwner, otherOwner, 9000, 9000}, ""},
		{
			"reseed",
			[]string{lua.NodeKey, replayKey, replayDead},
			[]any{replayEpoch, stripe, replayOwner, 9000, token},
			"",
		},
		// A release that finds nothing is as good as one that deletes.
		{"release", []string{replayKey}, []any{replayOwner}, "0"},
		{"release", []string{replayKey, replayDead}, []any{replayOwner, 9000}, "0"},
		{"release_batch", []string{replayKey, other, replayDead}, []any{2, replayOwner, otherOwner, 9000}, "0"},
	}
}

// replay runs every call twice on every state.
func replay(t *testing.T, c redis.UniversalClient) {
	t.Helper()
	ctx := t.Context()
	for name, prepare := range replayStates {
		for _, call := range replayCalls() {
			what := fmt.Sprintf("%s where the name is %s", call.script, name)
			must(t, c.FlushAll(ctx).Err())
			must(t, c.HSet(ctx, lua.NodeKey, "epoch", replayEpoch, "base", 500).Err())
			must(t, prepare(ctx, c))
			before := leases(t, c)
			first := runScript(t, c, call)
			after := contents(t, c)
			between := leases(t, c)
			second := runScript(t, c, call)
			if second != first && second != call.again && !tooNarrow(call.script, first, second) {
				t.Errorf("%s: got %s, and then %s; want the same", what, first, second)
			}
			if again := contents(t, c); !slices.Equal(again, after) && name != holes {
				t.Errorf("%s: the second run left\n%q, the first\n%q; want the same", what, again, after)
			}
			for key, left := range before {
				if now, there := between[key]; there && now < left-time.Second {
					t.Errorf("%s: the lease of %s fell from %v to %v; want none lowered", what, key, left, now)
				}
			}
			if left := leases(t, c)[replayKey]; left > 0 && left < between[replayKey]-time.Second {
				t.Errorf("%s: the second run lowered the lease from %v to %v", what, between[replayKey], left)
			}
		}
	}
}

// tooNarrow tells a difference that is only the remaining lease, which runs.
func tooNarrow(script, first, second string) bool {
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(second)
	return script == "acquire" && errA == nil && errB == nil && a <= -10 && b <= -10 && b-a < 1000 && b >= a
}

func runScript(t *testing.T, c redis.UniversalClient, call replayed) string {
	t.Helper()
	for _, s := range slices.Concat(lua.VotingScripts, lua.KeepingScripts) {
		if s.Name == call.script {
			reply, err := c.Eval(t.Context(), s.Body, call.keys, call.args...).Result()
			if err != nil {
				t.Fatalf("%s: %v", call.script, err)
			}
			if list, ok := reply.([]any); ok { // a batch's remaining leases run, too
				for i := range list {
					if n, ok := list[i].(int64); ok && n <= -10 {
						list[i] = "taken"
					}
				}
			}
			return fmt.Sprint(reply)
		}
	}
	t.Fatalf("there is no script %q", call.script)
	return ""
}

// contents are the keys and what they hold, less the leases.
func contents(t *testing.T, c redis.UniversalClient) []string {
	t.Helper()
	ctx := t.Context()
	keys, err := c.Keys(ctx, "*").Result()
	must(t, err)
	slices.Sort(keys)
	var out []string
	for _, key := range keys {
		kind := c.Type(ctx, key).Val()
		value := ""
		switch kind {
		case "string":
			value = c.Get(ctx, key).Val()
		case "hash":
			value = fmt.Sprint(c.HGetAll(ctx, key).Val())
		case "list":
			value = fmt.Sprint(c.LRange(ctx, key, 0, -1).Val())
		}
		out = append(out, key+" "+kind+" "+value)
	}
	return out
}

// leases are the remaining leases of the keys that end.
func leases(t *testing.T, c redis.UniversalClient) map[string]time.Duration {
	t.Helper()
	out := map[string]time.Duration{}
	keys, err := c.Keys(t.Context(), "*").Result()
	must(t, err)
	for _, key := range keys {
		if left := c.PTTL(t.Context(), key).Val(); left > 0 {
			out[key] = left
		}
	}
	return out
}

func TestEveryScriptTwiceGivesWhatItGaveInProcess(t *testing.T) {
	replay(t, redlocktest.Start(t, 1, redlocktest.WithoutFounding()).Clients()[0])
}

func TestEveryScriptTwiceGivesWhatItGaveOnARealServer(t *testing.T) {
	replay(t, redisserver.Need(t, redisserver.Config{}).Client())
}

// What becomes of a node behind whose address the server is exchanged.

// floating is one address in front of two servers.
type floating struct {
	*tcpproxy.Proxy

	first, second *redisserver.Server
	urls, names   []string // of the nodes; the address is the first of them
}

// floatingPair is a cluster of three, whose first node is one address in front of
// two servers that both have voted: the first one leads now, and the second has
// been its replica since, and has its record.
func floatingPair(t *testing.T) (floating, []*redisserver.Server) {
	t.Helper()
	servers := testserver.Need(t, 4, redisserver.Config{})
	f := floating{first: servers[0], second: servers[1]}
	rest := servers[2:]
	p, err := tcpproxy.New(f.second.Addr())
	must(t, err)
	t.Cleanup(p.Close)
	f.Proxy = p
	f.names = []string{p.Addr(), rest[0].Addr(), rest[1].Addr()}
	f.urls = []string{"redis://" + p.Addr(), rest[0].URL(), rest[1].URL()}

	founder := f.open(t, true)
	admitted(t, founder)
	warm(t, founder)
	f.leadsTo(f.first)
	admitted(t, founder)
	warm(t, founder)
	c := f.second.Client()
	host, port, err := net.SplitHostPort(f.first.Addr())
	must(t, err)
	must(t, c.ReplicaOf(t.Context(), host, port).Err())
	pollUntil(t, 15*time.Second, "the replica is in step", func() bool {
		info, err := c.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	must(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
	return f, rest
}

func (f floating) leadsTo(s *redisserver.Server) {
	f.Aim(s.Addr())
	f.Reset()
}

// open is a Locker over the three, by Open or by New.
func (f floating) open(t *testing.T, byOpen bool, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	opts = append(opts, redlock.WithNodeTimeout(time.Second))
	if byOpen {
		l, err := redlock.Open(t.Context(), f.urls, opts...)
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	return lockerWith(t, defaultClients(t, f.names...), opts...)
}

// A replica takes over that lacks a lock and has all that a vote is judged by:
// the record, with its epoch, and the voting scripts. Only who it is differs.
func TestAServerThatTakesOverAnAddressIsVerifiedBeforeItVotes(t *testing.T) {
	for _, c := range []struct {
		name            string
		byOpen, guarded bool
		opts            []redlock.Option
	}{
		{"Open", true, true, nil},
		{"New", false, true, nil},
		{"New, without membership", false, false, []redlock.Option{redlock.WithoutMembership()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			guarded := c.guarded
			f, rest := floatingPair(t)
			contender := f.open(t, c.byOpen, c.opts...)
			admitted(t, f.open(t, true)) // the first replica attached: the node joins anew
			warm(t, contender)
			holder := openWithout(t, []*redisserver.Server{f.first, rest[0], rest[1]}, []int{2}, redlock.WithNodeNames(f.names...))
			held := mustAcquire(t, holder, "orders/42") // on the first server and one more
			f.leadsTo(f.second)

			second := false
			for began, after := time.Now(), 0; !second && after < 20 && time.Since(began) < 2*time.Second; pause(5 * time.Millisecond) {
				_, err := contender.TryAcquire(t.Context(), "orders/42")
				second = err == nil && held.Err() == nil
				if err != nil && strings.Contains(err.Error(), "its data may be old") {
					after++ // it was verified: a few more tries
				}
			}
			if second == guarded {
				t.Errorf("got a second holder: %v; want it only where nobody looks, or this test shows nothing", second)
			}
			if guarded {
				// A look may meet a connection that was closed with the exchange.
				pollUntil(t, 10*time.Second, "the server that took over waits like any node that forgot", func() bool {
					got := status(t, contender).Nodes[0].State
					return got == redlock.NodeBlank || got == redlock.NodeJoining
				})
			}
			must(t, held.Err())
		})
	}
}

// The servers behind an address are exchanged, and exchanged back: the first one
// is a member by its own record, and does not know what the second one granted.
// Who has seen both lets it wait; who comes now can't know, which is a limit.
func TestAServerThatComesBackToItsAddressWaitsForWhoSawAnotherThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		first, second := nodes.Node(0), redlocktest.Start(t, 1, redlocktest.WithoutFounding()).Node(0)
		var leads atomic.Pointer[redlocktest.Node]
		over := func() *redlock.Locker {
			o := first.Options()
			o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return leads.Load().Dial(ctx) }
			c := redis.NewClient(o)
			t.Cleanup(func() { _ = c.Close() })
			return lockerWith(t, []redis.UniversalClient{c, nodes.Clients()[1], nodes.Clients()[2]}, redlock.WithNodeNames(nodes.Names()...))
		}
		leads.Store(first)
		l := over()
		warm(t, l)
		wantVotes(t, "the first server", l, 3)
		first.Stop()
		leads.Store(second)
		must(t, l.Cluster().Join(t.Context()))
		wantVotes(t, "the second server, after its wait", l, 3)

		second.Stop()
		first.Start()
		leads.Store(first)
		warm(t, l)
		wantVotes(t, "the first server again", l, 2)
		wantText(t, "its Status", status(t, l).Nodes[0].Cause, "an epoch that has ended")
		wantVotes(t, "the first server, for who never saw the second", over(), 3)
		must(t, l.Cluster().Join(t.Context()))
		wantVotes(t, "the first server, after its wait", l, 3)
		warm(t, l)
	})
}

// A node that refuses to raise its counter, because it has moved meanwhile, says what it
// is now: the next attempt begins above that, and needs no raise.
func TestAnAttemptAfterARefusedRaiseBeginsAboveTheCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 2)
		warm(t, l)
		synctest.Wait()
		stripe := strconv.FormatInt(lua.StripeOf("orders/42"), 10)
		counts := func(n *redlocktest.Node, to int) { n.Miniredis().HSet(lua.NodeKey, stripe, strconv.Itoa(2e15+to)) }
		var raises atomic.Int32
		for i, n := range nodes.Nodes() {
			counts(n, 1000*i)
			n.Intercept(func(args []string) redlocktest.Verdict {
				if scriptOf(args) == "raise" {
					raises.Add(1)
					counts(n, 10_000) // another name of the stripe
				}
				return redlocktest.Pass()
			})
		}
		lock := mustAcquire(t, l, "orders/42")
		if got, want := int64(lock.Token()), int64(2e15+10_001); got != want {
			t.Errorf("got the token %d; want %d, the first above the counter", got, want)
		}
		if n := raises.Load(); n != 1 {
			t.Errorf("%d raises; want that of the first attempt", n)
		}
		mustRelease(t, lock)
	})
}
