package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// Every kind of bad input gives an error of its own, before anything is sent
// where that is possible, and nothing is overwritten or left behind.

func TestBadNodesAreRefusedByNew(t *testing.T) {
	good := func() redis.UniversalClient {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, HeartbeatFrequency: time.Hour})
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	for _, c := range []redis.UniversalClient{cluster, ring, sentinel} {
		t.Cleanup(func() { _ = c.Close() })
	}
	var noClient *redis.Client
	var noCluster *redis.ClusterClient
	var noRing *redis.Ring
	for name, tt := range map[string]struct {
		nodes []redis.UniversalClient
		opts  []redlock.Option
		want  error
		says  string
	}{
		"zero nodes":            {nil, nil, redlock.ErrInvalidNode, "at least one"},
		"nil client":            {[]redis.UniversalClient{good(), nil}, nil, redlock.ErrInvalidNode, "nil"},
		"typed nil client":      {[]redis.UniversalClient{noClient}, nil, redlock.ErrInvalidNode, "nil"},
		"typed nil cluster":     {[]redis.UniversalClient{noCluster}, nil, redlock.ErrInvalidNode, "nil"},
		"typed nil ring":        {[]redis.UniversalClient{noRing}, nil, redlock.ErrInvalidNode, "nil"},
		"same address twice":    {[]redis.UniversalClient{good(), good()}, nil, redlock.ErrInvalidNode, "127.0.0.1:1"},
		"cluster client":        {[]redis.UniversalClient{cluster}, nil, redlock.ErrInvalidNode, "Cluster"},
		"ring client":           {[]redis.UniversalClient{ring}, nil, redlock.ErrInvalidNode, "Ring"},
		"sentinel client":       {[]redis.UniversalClient{sentinel}, nil, redlock.ErrInvalidNode, "Sentinel"},
		"nil option":            {[]redis.UniversalClient{good()}, []redlock.Option{nil}, redlock.ErrInvalidOption, "nil"},
		"too few names":         {[]redis.UniversalClient{good(), good()}, []redlock.Option{redlock.WithNodeNames("a")}, redlock.ErrInvalidOption, "names"},
		"equal names":           {[]redis.UniversalClient{good(), good()}, []redlock.Option{redlock.WithNodeNames("a", "a")}, redlock.ErrInvalidNode, "a"},
		"a name with a newline": {[]redis.UniversalClient{good()}, []redlock.Option{redlock.WithNodeNames("a\nb")}, redlock.ErrInvalidNode, "name"},
		"an empty name":         {[]redis.UniversalClient{good()}, []redlock.Option{redlock.WithNodeNames("")}, redlock.ErrInvalidNode, "name"},
	} {
		l, err := redlock.New(tt.nodes, tt.opts...)
		if l != nil {
			t.Errorf("%s: got a Locker; want none", name)
		}
		wantError(t, name, err, tt.want)
		if err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %q; want it to speak of %q", name, err, tt.says)
		}
	}
}

func TestBadOptionsAreRefusedByNew(t *testing.T) {
	for name, tt := range map[string]struct {
		opts []redlock.Option
		want error
	}{
		"TTL 0":                        {opts(redlock.WithTTL(0)), redlock.ErrInvalidTTL},
		"TTL negative":                 {opts(redlock.WithTTL(-time.Second)), redlock.ErrInvalidTTL},
		"TTL tiny":                     {opts(redlock.WithTTL(time.Millisecond)), redlock.ErrInvalidTTL},
		"TTL above MaxTTL":             {opts(redlock.WithTTL(redlock.DefaultMaxTTL + 1)), redlock.ErrInvalidTTL},
		"TTL of the node timeout":      {opts(redlock.WithTTL(time.Second), redlock.WithNodeTimeout(time.Second)), redlock.ErrInvalidOption},
		"node timeout above TTL":       {opts(redlock.WithNodeTimeout(11 * time.Second)), redlock.ErrInvalidOption},
		"node timeout 0":               {opts(redlock.WithNodeTimeout(0)), redlock.ErrInvalidOption},
		"node timeout negative":        {opts(redlock.WithNodeTimeout(-1)), redlock.ErrInvalidOption},
		"drift negative":               {opts(redlock.WithDriftFactor(-0.1)), redlock.ErrInvalidOption},
		"drift too large":              {opts(redlock.WithDriftFactor(0.6)), redlock.ErrInvalidOption},
		"drift NaN":                    {opts(redlock.WithDriftFactor(math.NaN())), redlock.ErrInvalidOption},
		"drift infinite":               {opts(redlock.WithDriftFactor(math.Inf(1))), redlock.ErrInvalidOption},
		"retry 0":                      {opts(redlock.WithRetry(0, 0)), redlock.ErrInvalidOption},
		"retry the wrong way round":    {opts(redlock.WithRetry(2, 1)), redlock.ErrInvalidOption},
		"close timeout 0":              {opts(redlock.WithCloseTimeout(0)), redlock.ErrInvalidOption},
		"MaxTTL 0":                     {opts(redlock.WithMaxTTL(0)), redlock.ErrInvalidOption},
		"MaxTTL of a year":             {opts(redlock.WithMaxTTL(365 * 24 * time.Hour)), redlock.ErrInvalidOption},
		"MaxHold negative":             {opts(redlock.WithMaxHold(-1)), redlock.ErrInvalidOption},
		"holder with a newline":        {opts(redlock.WithHolder("a\nb")), redlock.ErrInvalidOption},
		"holder with an escape":        {opts(redlock.WithHolder("a\u009bb")), redlock.ErrInvalidOption},
		"holder of 1 MiB":              {opts(redlock.WithHolder(strings.Repeat("h", 1<<20))), redlock.ErrInvalidOption},
		"prefix of 1 MiB":              {opts(redlock.WithPrefix(strings.Repeat("p", 1<<20))), redlock.ErrInvalidOption},
		"no validity left after drift": {opts(redlock.WithTTL(10*time.Millisecond), redlock.WithDriftFactor(0.5), redlock.WithMaxTTL(10*time.Millisecond), redlock.WithNodeTimeout(11*time.Millisecond)), redlock.ErrInvalidOption},
	} {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		l, err := redlock.New([]redis.UniversalClient{c}, tt.opts...)
		if l != nil {
			t.Errorf("%s: got a Locker; want none", name)
			must(t, l.Close())
		}
		wantError(t, name, err, tt.want)
		must(t, c.Close())
	}
	_, err := redlock.New(nil, redlock.WithTTL(-1), redlock.WithDriftFactor(-1), redlock.WithRetry(0, 0))
	for _, want := range []error{redlock.ErrInvalidNode, redlock.ErrInvalidTTL, redlock.ErrInvalidOption} {
		wantError(t, "all faults at once", err, want)
	}
}

func opts(o ...redlock.Option) []redlock.Option { return o }

func TestBadArgumentsOfAnAcquisitionAreRefusedWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		prefixed := lockerOver(t, nodes, redlock.WithPrefix("red"))
		patient := lockerOver(t, nodes, redlock.WithNodeTimeout(redlock.DefaultNodeTimeout))
		synctest.Wait()
		before := nodes.Node(0).Calls()
		mega := strings.Repeat("x", 1<<20)
		for _, tt := range []struct {
			l        *redlock.Locker
			resource string
			opts     []redlock.AcquireOption
			want     error
		}{
			{l, "", nil, redlock.ErrInvalidResource},
			{l, mega, nil, redlock.ErrInvalidResource},
			{l, mega[:redlock.MaxResourceLength+1], nil, redlock.ErrInvalidResource},
			{l, "redlock:node", nil, redlock.ErrInvalidResource},
			{l, "redlock:dead:x", nil, redlock.ErrInvalidResource},
			{l, "redlock:", nil, redlock.ErrInvalidResource},
			{prefixed, "lock:node", nil, redlock.ErrInvalidResource},
			{prefixed, mega[:redlock.MaxResourceLength-2], nil, redlock.ErrInvalidResource},
			{l, "a", []redlock.AcquireOption{redlock.WithTTL(0)}, redlock.ErrInvalidTTL},
			{l, "a", []redlock.AcquireOption{redlock.WithTTL(-1)}, redlock.ErrInvalidTTL},
			{l, "a", []redlock.AcquireOption{redlock.WithTTL(time.Hour)}, redlock.ErrInvalidTTL},
			{patient, "a", []redlock.AcquireOption{redlock.WithTTL(redlock.DefaultNodeTimeout)}, redlock.ErrInvalidTTL},
			{l, "a", []redlock.AcquireOption{redlock.WithMaxHold(-1)}, redlock.ErrInvalidOption},
			{l, "a", []redlock.AcquireOption{nil}, redlock.ErrInvalidOption},
		} {
			_, errAcquire := tt.l.Acquire(t.Context(), tt.resource, tt.opts...)
			_, errTry := tt.l.TryAcquire(t.Context(), tt.resource, tt.opts...)
			errDo := tt.l.Do(t.Context(), tt.resource, func(context.Context, *redlock.Lock) error {
				t.Error("Do called its function")
				return nil
			}, tt.opts...)
			for _, err := range []error{errAcquire, errTry, errDo} {
				wantError(t, fmt.Sprintf("%.20q", tt.resource), err, tt.want)
				if err != nil && len(err.Error()) > 1024 {
					t.Errorf("the error for %.20q has %d bytes; want a short one", tt.resource, len(err.Error()))
				}
			}
		}
		if _, err := l.Inspect(t.Context(), ""); !errors.Is(err, redlock.ErrInvalidResource) {
			t.Errorf("Inspect of no name: got %v; want ErrInvalidResource", err)
		}
		if err := l.Do(t.Context(), "a", nil); err == nil {
			t.Error("Do without a function: got nil; want an error")
		}
		if sent := nodes.Node(0).Calls() - before; sent != 0 {
			t.Errorf("%d commands were sent; want none", sent)
		}
	})
}

func TestBinaryNamesAreNamesLikeAnyOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		for _, name := range []string{
			"\x00", "\xff\xfe", "a b\r\nDEL c", "名前", "{a}", strings.Repeat("\x00", redlock.MaxResourceLength), "redlock", "Redlock:node", "%s%d",
			"\x1b[31mred", "\u009b31m", "a\u202eb", "a\u2028b",
		} {
			lock := mustAcquire(t, l, name)
			if got := lock.Resource(); got != name {
				t.Errorf("got the name %.20q; want %.20q", got, name)
			}
			_, err := other.TryAcquire(t.Context(), name)
			wantError(t, fmt.Sprintf("%.20q: a second holder", name), err, redlock.ErrNotAcquired)
			if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("got %.80q; want a printable error", err.Error())
			}
			must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
			mustRelease(t, lock)
			synctest.Wait()
			wantNoLocks(t, nodes, fmt.Sprintf("%.20q: after the release", name))
		}
	})
}

func TestBadURLsAreRefusedAndNoPasswordIsShown(t *testing.T) {
	besideServers(t)
	const secret = "s3cret"
	for _, url := range []string{
		"", "localhost", ":6379", "http://127.0.0.1:6379", "redis://127.0.0.1:port",
		"redis://:" + secret + "@127.0.0.1:port", "redis://:" + secret + "@127.0.0.1:1/x", "redis://:" + secret + "%zz@127.0.0.1:1",
		"redis://:" + secret + "/9@127.0.0.1:1", "redis://:" + secret + "#9@127.0.0.1:1", "redis://:" + secret + "?9@127.0.0.1:1",
		"redis://:77" + "#" + secret + "@127.0.0.1:1", "redis://" + secret + ":77#" + secret + "@127.0.0.1:1",
		"redis://user:" + secret + "@127.0.0.1:1?unknown=1", "user:" + secret + "@127.0.0.1:1", secret + "@127.0.0.1:1",
		":" + secret + "@127.0.0.1:1", "redis//:" + secret + "@127.0.0.1:1", "unix://user:" + secret + "@",
		"redis://:" + secret + "@127.0.0.1:1\x7f", "redis://:" + secret + "@[::1:1",
	} {
		l, err := redlock.Open(t.Context(), []string{"127.0.0.1:1", url})
		wantError(t, fmt.Sprintf("%q", url), err, redlock.ErrInvalidNode)
		if l != nil {
			_ = l.Close()
		}
		for _, part := range []string{secret, "77"} {
			if err != nil && strings.Contains(err.Error(), part) {
				t.Errorf("%q: the error shows %q: %v", url, part, err)
			}
		}
	}
	if _, err := redlock.Open(t.Context(), nil); !errors.Is(err, redlock.ErrInvalidNode) {
		t.Errorf("no URL: got %v; want ErrInvalidNode", err)
	}
	_, err := redlock.Open(t.Context(), []string{"redis://:" + secret + "@127.0.0.1:1"}) // parses; nobody is there
	wantError(t, "nobody there", err, redlock.ErrNoQuorum)
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error shows the password: %v", err)
	}
}

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
				if got := failed.Nodes[i].Outcome; got != redlock.OutcomeFailed {
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
		if !errors.As(err, &failed) || !slices.ContainsFunc(failed.Nodes, func(n redlock.NodeResult) bool { return n.Outcome == redlock.OutcomeUnknown }) {
			t.Fatalf("got %v; want unknown outcomes", err)
		}
		time.Sleep(time.Second)
		for i, n := range nodes.Nodes() {
			n.Intercept(nil)
			if failed.Nodes[i].Outcome == redlock.OutcomeUnknown && len(n.Keys()) != 3 {
				t.Errorf("%s has %q; want its record, a tombstone and the mark of tombstones", n.Name(), n.Keys())
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
