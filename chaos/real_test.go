package chaos_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
)

// realStage returns a stage of server processes, with one client of each node
// that is called ann.
func realStage(t *testing.T, n int) (chaos.Stage, []redis.UniversalClient) {
	t.Helper()
	stage, err := chaos.OpenStage(t.Context(), chaos.Real, 1, n)
	needThere(t, err)
	t.Cleanup(func() {
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
	})
	clients, err := stage.Connect("ann")
	testkit.Must(t, err)
	return stage, clients
}

// needThere ends the test at an error; it is skipped where that says what the
// machine lacks.
func needThere(t *testing.T, err error) {
	t.Helper()
	missing := errors.Is(err, redisserver.ErrNoServer) || errors.Is(err, redisserver.ErrNoFakeClock)
	if missing && os.Getenv("REDLOCK_REQUIRE_SERVERS") == "" {
		t.Skip(err)
	}
	testkit.Must(t, err)
}

// shows asks until the key has the value, or none for "".
func shows(t *testing.T, client redis.UniversalClient, key, want string) {
	t.Helper()
	var got string
	var err error
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		got, err = client.Get(ctx, key).Result()
		cancel()
		if got == want && (err == nil || errors.Is(err, redis.Nil)) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%s: got %q, %v; want %q", key, got, err, want)
}

func set(t *testing.T, client redis.UniversalClient, key, value string) {
	t.Helper()
	testkit.Must(t, client.Set(t.Context(), key, value, 0).Err())
}

// What a node remembers after each way to lose its process.
func TestRealNodesRememberWhatTheFaultLeavesThem(t *testing.T) {
	stage, clients := realStage(t, 4)
	faults := []chaos.Fault{
		{Kind: chaos.Crash, Node: 0},
		{Kind: chaos.Forget, Node: 1},
		{Kind: chaos.Old, Node: 2},
		{Kind: chaos.Failover, Node: 3},
	}
	for i, f := range faults {
		set(t, clients[i], "before", "there")
		if f.Kind == chaos.Old || f.Kind == chaos.Failover {
			testkit.Must(t, stage.Break(f))
		}
		set(t, clients[i], "after", "there")
		if f.Kind == chaos.Crash || f.Kind == chaos.Forget {
			testkit.Must(t, stage.Break(f))
			if err := clients[i].Get(t.Context(), "before").Err(); err == nil || errors.Is(err, redis.Nil) {
				t.Errorf("%v: got %v from a node that is down", f, err)
			}
		}
		testkit.Must(t, stage.Mend(f))
		for key, want := range map[string]string{
			"before": map[chaos.Break]string{chaos.Crash: "there", chaos.Old: "there", chaos.Failover: "there"}[f.Kind],
			"after":  map[chaos.Break]string{chaos.Crash: "there"}[f.Kind],
		} {
			shows(t, clients[i], key, want)
		}
		set(t, clients[i], "again", "there")
	}
}

func TestARealNodeThatIsStoppedRunsWhatCameWhenItGoesOn(t *testing.T) {
	testkit.Full(t)
	stage, clients := realStage(t, 1)
	silent := func(key string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := clients[0].Set(ctx, key, "there", 0).Err(); err == nil {
			t.Error("a node that is stopped answered")
		}
	}
	stall := chaos.Fault{Kind: chaos.Stall, Node: 0}
	testkit.Must(t, clients[0].Ping(t.Context()).Err())
	testkit.Must(t, stage.Break(stall))
	silent("late")
	testkit.Must(t, stage.Mend(stall))
	shows(t, clients[0], "late", "there")

	// One that crashed meanwhile is stopped again when it is back.
	crash := chaos.Fault{Kind: chaos.Crash, Node: 0}
	testkit.Must(t, stage.Break(stall))
	testkit.Must(t, stage.Break(crash))
	testkit.Must(t, stage.Mend(crash))
	silent("later")
	testkit.Must(t, stage.Mend(stall))
	shows(t, clients[0], "late", "there")
}

func TestOperatorsCommandsReachARealNode(t *testing.T) {
	stage, clients := realStage(t, 1)
	set(t, clients[0], "for good", "there")
	testkit.Must(t, clients[0].Set(t.Context(), "soon", "there", time.Minute).Err())
	testkit.Must(t, clients[0].Set(t.Context(), "later", "there", time.Hour).Err())
	testkit.Must(t, stage.Break(chaos.Fault{Kind: chaos.Evict, Node: 0}))
	shows(t, clients[0], "soon", "")
	shows(t, clients[0], "later", "there")
	testkit.Must(t, stage.Break(chaos.Fault{Kind: chaos.Delete, Node: 0, Key: "later"}))
	shows(t, clients[0], "later", "")
	shows(t, clients[0], "for good", "there")
	testkit.Must(t, stage.Break(chaos.Fault{Kind: chaos.Flush, Node: chaos.Everything}))
	shows(t, clients[0], "for good", "")
}

// nodeTime is a node's clock, less the machine's.
func nodeTime(t *testing.T, client redis.UniversalClient) time.Duration {
	t.Helper()
	now, err := client.Time(t.Context()).Result()
	testkit.Must(t, err)
	return time.Until(now)
}

func TestARealNodesClockStepsAndDrifts(t *testing.T) {
	stage, clients := realStage(t, 1)
	step := chaos.Fault{Kind: chaos.Step, Node: 0, Delay: -time.Hour}
	needThere(t, stage.Break(step))
	near := func(when string, want, slack time.Duration) {
		t.Helper()
		if got := nodeTime(t, clients[0]); (got - want).Abs() > slack {
			t.Errorf("%s: got a clock that is off by %v; want %v", when, got, want)
		}
	}
	near("stepped", -time.Hour, time.Second)
	drift := chaos.Fault{Kind: chaos.Drift, Node: 0, Delay: 100 * time.Second}
	begun := time.Now()
	testkit.Must(t, stage.Break(drift))
	for nodeTime(t, clients[0]) < -time.Hour+20*time.Second {
		if time.Since(begun) > 5*time.Second {
			t.Fatal("the clock does not drift")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(begun); took < 150*time.Millisecond {
		t.Errorf("got twenty seconds within %v; want a hundred in a second", took)
	}
	crash := chaos.Fault{Kind: chaos.Crash, Node: 0}
	testkit.Must(t, stage.Break(crash))
	testkit.Must(t, stage.Mend(crash))
	shows(t, clients[0], "nothing", "")
	near("drifting, after a restart", -time.Hour+100*time.Second, 95*time.Second)
	testkit.Must(t, stage.Mend(drift))
	near("no longer drifting", -time.Hour, 30*time.Second)
	testkit.Must(t, stage.Mend(step))
	near("mended", 0, 30*time.Second)
	if err := stage.Break(chaos.Fault{Kind: chaos.Drift, Node: 0, Delay: -time.Second}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a clock that stands still: got %v; want ErrUnsupported", err)
	}
}

func TestLinksOfARealStageAreCutOneByOne(t *testing.T) {
	testkit.Full(t)
	stage, clients := realStage(t, 2)
	others, err := stage.Connect("bob")
	testkit.Must(t, err)
	cut := chaos.Fault{Kind: chaos.CutReplies, Client: "ann", Node: 1}
	slow := chaos.Fault{Kind: chaos.Slow, Client: "ann", Node: chaos.Everything, Delay: 30 * time.Millisecond}
	testkit.Must(t, clients[1].Ping(t.Context()).Err())
	testkit.Must(t, stage.Break(cut))
	testkit.Must(t, stage.Break(slow))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := clients[1].Set(ctx, "k", "there", 0).Err(); err == nil {
		t.Error("got a reply over a link that holds them")
	}
	shows(t, others[1], "k", "there")
	began := time.Now()
	testkit.Must(t, clients[0].Ping(t.Context()).Err())
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("got a reply over a slow link after %v; want 60 ms", took)
	}
	testkit.Must(t, stage.Mend(cut)) // the other fault stands
	began = time.Now()
	shows(t, clients[1], "k", "there")
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("got a reply over a slow link after %v; want 60 ms", took)
	}
	testkit.Must(t, stage.Mend(slow))
	testkit.Must(t, stage.Break(chaos.Fault{Kind: chaos.Reset, Node: chaos.Everything}))
	shows(t, clients[0], "k", "")

	testkit.Must(t, others[0].Ping(t.Context()).Err())
	suspend := chaos.Fault{Kind: chaos.Suspend, Client: "bob"}
	testkit.Must(t, stage.Break(suspend))
	rested := make(chan struct{})
	go func() {
		defer close(rested)
		stage.Rest("bob", chaos.AtWrite)
	}()
	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := others[0].Set(ctx, "late", "there", 0).Err(); err == nil {
		t.Error("a suspended client got a reply")
	}
	shows(t, clients[0], "late", "")
	select {
	case <-rested:
		t.Error("a suspended client did not rest")
	default:
	}
	testkit.Must(t, stage.Mend(suspend))
	<-rested
	shows(t, clients[0], "late", "there")
	for _, f := range []chaos.Fault{{Kind: chaos.Crash, Node: 2}, {Kind: chaos.Cut, Client: "cara"}, {Kind: chaos.Suspend, Client: "cara"}} {
		if err := stage.Break(f); !errors.Is(err, chaos.ErrUnknownTarget) {
			t.Errorf("%v: got %v; want ErrUnknownTarget", f, err)
		}
	}
}

func TestOpenStageKnowsEveryBackend(t *testing.T) {
	for _, b := range chaos.Backends() {
		stage, err := chaos.OpenStage(t.Context(), b, 1, 3)
		if errors.Is(err, redisserver.ErrNoServer) && os.Getenv("REDLOCK_REQUIRE_SERVERS") == "" {
			continue
		}
		testkit.Must(t, err)
		for i, name := range stage.Names() {
			if want := "node-" + strconv.Itoa(i); name != want {
				t.Errorf("%s: got the name %q; want %q", b, name, want)
			}
		}
		testkit.Must(t, stage.Close())
	}
	if _, err := chaos.OpenStage(t.Context(), "cloud", 1, 3); err == nil {
		t.Error("got a stage on a backend that there is not")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := chaos.OpenStage(ctx, chaos.Real, 1, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want context.Canceled", err)
	}
}
