package chaos_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

// What one SET sees of each fault, and what is there before and after the mend.
func TestEachFaultDoesWhatItSays(t *testing.T) {
	for _, c := range []struct {
		fault               chaos.Fault
		fails               bool // the SET, within a second
		during, after, kept bool // its key, and one that was there before, at the end
	}{
		{fault: chaos.Fault{Kind: chaos.Crash}, fails: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Forget}, fails: true},
		{fault: chaos.Fault{Kind: chaos.Stall}, fails: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Cut}, fails: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.CutRequests}, fails: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.CutReplies}, fails: true, during: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.LoseRequests}, fails: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.LoseReplies}, fails: true, during: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Slow, Delay: 300 * time.Millisecond}, during: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Slow, Delay: 600 * time.Millisecond}, fails: true, during: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Reset}, during: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Flush}, during: true, after: true},
		{fault: chaos.Fault{Kind: chaos.Delete, Key: "before"}, during: true, after: true},
		{fault: chaos.Fault{Kind: chaos.Evict, Key: "before"}, during: true, after: true},
		{fault: chaos.Fault{Kind: chaos.Old}, during: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Failover}, during: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Step, Delay: time.Hour}, during: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Drift, Delay: time.Second}, during: true, after: true, kept: true},
		{fault: chaos.Fault{Kind: chaos.Cut, Client: "bob"}, during: true, after: true, kept: true},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stage, err := chaos.NewVirtual(1, 2)
				testkit.Must(t, err)
				ann, bob, witness := connect(t, stage, "ann"), connect(t, stage, "bob"), connect(t, stage, "witness")
				c.fault.Node = 0
				if c.fault.Client == "" && c.fault.Kind != chaos.Crash && c.fault.Kind != chaos.Forget && c.fault.Kind != chaos.Stall {
					c.fault.Client = "ann"
				}
				testkit.Must(t, ann[0].Set(t.Context(), "before", "x", 0).Err())
				testkit.Must(t, stage.Break(c.fault))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				if err := ann[0].Set(ctx, "k", "v", 0).Err(); (err != nil) != c.fails || time.Since(start) > time.Second+10*time.Microsecond { // deadlines have their place on a grid
					t.Errorf("the SET: got %v after %v; want an error: %t", err, time.Since(start), c.fails)
				}
				if err := ann[1].Ping(t.Context()).Err(); err != nil {
					t.Errorf("the other node: %v", err)
				}
				if c.fault.Kind != chaos.Crash && c.fault.Kind != chaos.Forget && c.fault.Kind != chaos.Stall {
					exists(t, "during the fault", witness[0], "k", c.during)
				}
				testkit.Must(t, stage.Mend(c.fault))
				time.Sleep(2 * time.Second)
				exists(t, "after the mend", witness[0], "k", c.after)
				exists(t, "after the mend", bob[0], "before", c.kept)
				if err := ann[0].Ping(t.Context()).Err(); err != nil {
					t.Errorf("after the mend: %v", err)
				}
				testkit.Must(t, errors.Join(stage.Close(), stage.Close()))
			})
		})
	}
}

func connect(t *testing.T, stage chaos.Stage, name string) []redis.UniversalClient {
	t.Helper()
	clients, err := stage.Connect(name)
	testkit.Must(t, err)
	return clients
}

func exists(t *testing.T, when string, node redis.UniversalClient, key string, want bool) {
	t.Helper()
	if n, err := node.Exists(t.Context(), key).Result(); err != nil || (n == 1) != want {
		t.Errorf("%s: %s is there: got %t, %v; want %t", when, key, n == 1, err, want)
	}
}

// openVirtual opens a virtual stage that is closed with the test.
func openVirtual(t *testing.T, seed uint64, nodes int) chaos.Stage {
	t.Helper()
	stage, err := chaos.NewVirtual(seed, nodes)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = stage.Close() })
	return stage
}

// Two faults of one link: the end of one leaves the other.
func TestFaultsOfALinkAreMendedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := openVirtual(t, 1, 1)
		ann := connect(t, stage, "ann")[0]
		cut, lose := chaos.Fault{Kind: chaos.Cut}, chaos.Fault{Kind: chaos.LoseReplies}
		for _, f := range []chaos.Fault{cut, lose} {
			testkit.Must(t, stage.Break(f))
		}
		testkit.Must(t, stage.Mend(cut))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ann.Ping(ctx).Err(); err == nil {
			t.Error("got a reply while replies are lost")
		}
		testkit.Must(t, stage.Mend(lose))
		if err := ann.Ping(t.Context()).Err(); err != nil {
			t.Errorf("after both were mended: %v", err)
		}
	})
}

func TestAPausedClientRestsUntilItIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := openVirtual(t, 1, 1)
		pause := chaos.Fault{Kind: chaos.Pause, Client: "ann"}
		testkit.Must(t, stage.Break(pause))
		start := time.Now()
		time.AfterFunc(time.Minute, func() { _ = stage.Mend(pause) })
		stage.Rest("bob", chaos.AtWrite)
		if d := time.Since(start); d != 0 {
			t.Errorf("bob rested for %v; want not at all", d)
		}
		stage.Rest("ann", chaos.AtWrite)
		if d := time.Since(start); d != time.Minute {
			t.Errorf("ann rested for %v; want a minute", d)
		}
	})
}

// A clock that steps moves the ends of all keys, as a real Redis's does.
func TestAStepMovesTheEndsOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := openVirtual(t, 1, 1)
		node := connect(t, stage, "ann")[0]
		left := func() time.Duration {
			t.Helper()
			left, err := node.PTTL(t.Context(), "k").Result()
			testkit.Must(t, err)
			return left.Round(time.Second)
		}
		for _, c := range []struct {
			fault        chaos.Fault
			during, back time.Duration
		}{
			{chaos.Fault{Kind: chaos.Step, Delay: -20 * time.Second}, 30 * time.Second, 10 * time.Second},
			{chaos.Fault{Kind: chaos.Step, Delay: 4 * time.Second}, 6 * time.Second, 10 * time.Second},
			{chaos.Fault{Kind: chaos.Step, Delay: 20 * time.Second}, -2, -2},
		} {
			testkit.Must(t, node.Set(t.Context(), "k", "v", 10*time.Second).Err())
			testkit.Must(t, stage.Break(c.fault))
			if got := left(); got != c.during && c.during > 0 || (got > 0) != (c.during > 0) {
				t.Errorf("%v: got %v left; want %v", c.fault, got, c.during)
			}
			testkit.Must(t, stage.Mend(c.fault))
			if got := left(); got != c.back && c.back > 0 || (got > 0) != (c.back > 0) {
				t.Errorf("%v, mended: got %v left; want %v", c.fault, got, c.back)
			}
		}
		drift := chaos.Fault{Kind: chaos.Drift, Delay: 500 * time.Millisecond}
		testkit.Must(t, node.Set(t.Context(), "k", "v", time.Minute).Err(), stage.Break(drift))
		time.Sleep(20 * time.Second)
		if got := left(); got != 30*time.Second {
			t.Errorf("%v for 20s: got %v left; want half a minute", drift, got)
		}
		testkit.Must(t, stage.Mend(drift))
		if got := left(); got != 40*time.Second {
			t.Errorf("%v, mended: got %v left; want 40s", drift, got)
		}
	})
}

func TestASuspendedClientIsCutOffAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := openVirtual(t, 1, 2)
		ann, bob := connect(t, stage, "ann"), connect(t, stage, "bob")
		both := []chaos.Fault{{Kind: chaos.Suspend, Client: "ann"}, {Kind: chaos.Pause, Client: "ann"}}
		for _, f := range both {
			testkit.Must(t, stage.Break(f))
		}
		for i := range ann {
			if err := ann[i].Ping(t.Context()).Err(); err == nil {
				t.Errorf("ann reaches node %d", i)
			}
			if err := bob[i].Ping(t.Context()).Err(); err != nil {
				t.Errorf("bob: %v", err)
			}
		}
		start := time.Now()
		for i, f := range both {
			time.AfterFunc(time.Duration(i+1)*time.Minute, func() { _ = stage.Mend(f) })
		}
		stage.Rest("ann", chaos.AtWrite)
		if d := time.Since(start); d != 2*time.Minute {
			t.Errorf("ann rested for %v; want until both were mended", d)
		}
		if err := ann[0].Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	})
}

// A node that came back with old data is another process: what was loaded is gone,
// and so are the connections.
func TestOldDataComeWithAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []chaos.Break{chaos.Old, chaos.Failover, chaos.Crash, chaos.Forget} {
			stage, err := chaos.NewVirtual(1, 1)
			testkit.Must(t, err)
			node := connect(t, stage, "ann")[0]
			hash, err := node.ScriptLoad(t.Context(), "return 1").Result()
			testkit.Must(t, err)
			before := node.Info(t.Context(), "server").Val()
			f := chaos.Fault{Kind: kind}
			testkit.Must(t, stage.Break(f), stage.Mend(f))
			time.Sleep(time.Second)
			if got := node.ScriptExists(t.Context(), hash).Val(); len(got) != 1 || got[0] {
				t.Errorf("%v: the script: got %v; want false", f, got)
			}
			if after := node.Info(t.Context(), "server").Val(); after == before || after == "" {
				t.Errorf("%v: got the same process", f)
			}
			if err := stage.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
