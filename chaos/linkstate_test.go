package chaos_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

// onStages runs a test of what faults do on the virtual stage and on server
// processes: nodes there are, and clients that are called ann and bob.
func onStages(t *testing.T, nodes int, test func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient)) {
	t.Helper()
	for _, b := range []chaos.Backend{chaos.Virtual, chaos.Real} {
		t.Run(string(b), func(t *testing.T) {
			play := func(t *testing.T) {
				t.Helper()
				stage, err := chaos.OpenStage(t.Context(), b, 1, nodes)
				needThere(t, err)
				defer func() {
					if err := stage.Close(); err != nil {
						t.Error(err)
					}
				}()
				test(t, stage, connect(t, stage, "ann"), connect(t, stage, "bob"))
			}
			if b == chaos.Virtual {
				synctest.Test(t, play)
				return
			}
			play(t)
		})
	}
}

// onReal is whether a test is played on server processes: where a machine that is busy
// makes anything late.
func onReal(t *testing.T) bool {
	t.Helper()
	return strings.HasSuffix(t.Name(), "/"+string(chaos.Real))
}

// quickly bounds what is to fail.
func quickly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestJitterMakesEveryMessageLateByAnotherTime(t *testing.T) {
	onStages(t, 1, func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient) {
		t.Helper()
		testkit.Must(t, ann[0].Ping(t.Context()).Err())
		jitter := chaos.Fault{Kind: chaos.Jitter, Client: "ann", Delay: 20 * time.Millisecond}
		testkit.Must(t, stage.Break(jitter))
		least, most := time.Hour, time.Duration(0)
		for range 15 {
			start := time.Now()
			testkit.Must(t, ann[0].Ping(t.Context()).Err())
			least, most = min(least, time.Since(start)), max(most, time.Since(start))
		}
		if most-least < 10*time.Millisecond || most < 15*time.Millisecond {
			t.Errorf("got round trips from %v to %v; want them apart, up to 40 ms", least, most)
		}
		testkit.Must(t, bob[0].Ping(t.Context()).Err())
		testkit.Must(t, stage.Mend(jitter))
		five := func() time.Duration {
			start := time.Now()
			for range 5 {
				testkit.Must(t, ann[0].Ping(t.Context()).Err())
			}
			return time.Since(start)
		}
		took := five()
		for range 2 {
			if onReal(t) && took > 50*time.Millisecond {
				took = five()
			}
		}
		if took > 50*time.Millisecond {
			t.Errorf("mended: got five round trips in %v", took)
		}
	})
}

// Two connections of one client: of two commands the later one is the first to
// arrive, at times, and never without the fault.
func TestReorderedCommandsOvertakeEachOther(t *testing.T) {
	testkit.Full(t)
	onStages(t, 1, func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient) {
		t.Helper()
		one, ok := ann[0].(*redis.Client)
		if !ok {
			t.Fatal("no client of one node")
		}
		first, second := one.Conn(), one.Conn()
		defer first.Close()
		defer second.Close()
		testkit.Must(t, first.Ping(t.Context()).Err(), second.Ping(t.Context()).Err())
		apart := 5 * time.Millisecond
		if onReal(t) {
			apart = 30 * time.Millisecond // the goroutine may begin late
		}
		overtaken := func(apart time.Duration) bool {
			done := make(chan error)
			go func() { done <- first.Set(t.Context(), "k", "first", 0).Err() }()
			time.Sleep(apart)
			err := second.Set(t.Context(), "k", "second", 0).Err()
			testkit.Must(t, err, <-done)
			return bob[0].Get(t.Context(), "k").Val() == "first"
		}
		for range 5 {
			if overtaken(apart) {
				t.Error("without the fault, a later command came first")
			}
		}
		reorder := chaos.Fault{Kind: chaos.Reorder, Client: "ann", Delay: 50 * time.Millisecond}
		testkit.Must(t, stage.Break(reorder))
		found := 0
		for range 30 {
			if overtaken(5 * time.Millisecond) {
				found++
			}
		}
		if found == 0 || found == 30 {
			t.Errorf("got %d of 30 overtaken; want some", found)
		}
		testkit.Must(t, stage.Mend(reorder))
		for range 5 {
			if overtaken(apart) {
				t.Error("mended, a later command came first")
			}
		}
	})
}

func TestAHalfOpenConnectionTakesEverythingAndSaysNothing(t *testing.T) {
	onStages(t, 1, func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient) {
		t.Helper()
		testkit.Must(t, ann[0].Ping(t.Context()).Err())
		testkit.Must(t, bob[0].Ping(t.Context()).Err())
		half := chaos.Fault{Kind: chaos.HalfOpen, Client: "ann"}
		testkit.Must(t, stage.Break(half))
		if err := ann[0].Set(quickly(t), "k", "there", 0).Err(); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
			t.Errorf("got %v; want that nothing comes back", err)
		}
		testkit.Must(t, ann[0].Ping(t.Context()).Err()) // over a new one
		shows(t, bob[0], "k", "")
		testkit.Must(t, stage.Mend(half))
		set(t, ann[0], "k", "there")
		shows(t, bob[0], "k", "there")
	})
}

func isTimeout(err error) bool {
	var timed interface{ Timeout() bool }
	return errors.As(err, &timed) && timed.Timeout()
}

// A crash that is mended meanwhile does not let new connections in, and the end of
// the fault does not while the node is down.
func TestRefusedConnectionsLeaveThoseThatThereAre(t *testing.T) {
	onStages(t, 1, func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient) {
		t.Helper()
		testkit.Must(t, ann[0].Ping(t.Context()).Err())
		refuse, crash := chaos.Fault{Kind: chaos.Refuse}, chaos.Fault{Kind: chaos.Crash}
		refused := func(when string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // what comes at once, if nothing stalls
			defer cancel()
			if err := bob[0].Ping(ctx).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: got %v; want ECONNREFUSED", when, err)
			}
		}
		testkit.Must(t, stage.Break(refuse))
		testkit.Must(t, ann[0].Ping(t.Context()).Err())
		refused("refused")
		testkit.Must(t, stage.Break(crash))
		testkit.Must(t, stage.Mend(crash))
		refused("refused, after a crash")
		testkit.Must(t, stage.Break(crash))
		testkit.Must(t, stage.Mend(refuse))
		refused("crashed")
		testkit.Must(t, stage.Mend(crash))
		shows(t, bob[0], "k", "")
		shows(t, ann[0], "k", "")
	})
}

// The client's first node is the second one, with what befalls that, and then the
// first again.
func TestAClientWithAnotherListReachesAnotherNode(t *testing.T) {
	onStages(t, 2, func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient) {
		t.Helper()
		set(t, ann[0], "k", "first")
		other := chaos.Fault{Kind: chaos.OtherList, Client: "ann", Node: 0, To: 1}
		testkit.Must(t, stage.Break(other))
		shows(t, ann[0], "k", "")
		set(t, ann[0], "k", "second")
		shows(t, bob[1], "k", "second")
		shows(t, bob[0], "k", "first")
		for _, f := range []chaos.Fault{{Kind: chaos.Crash, Node: 1}, {Kind: chaos.Stall, Node: 1}} {
			testkit.Must(t, stage.Break(f))
			if err := ann[0].Get(quickly(t), "k").Err(); err == nil || errors.Is(err, redis.Nil) {
				t.Errorf("%v: got %v from it", f, err)
			}
			testkit.Must(t, stage.Mend(f))
			shows(t, ann[0], "k", "second")
		}
		crash := chaos.Fault{Kind: chaos.Crash, Node: 0}
		testkit.Must(t, stage.Break(crash))
		testkit.Must(t, stage.Break(chaos.Fault{Kind: chaos.Reset, Client: "ann", Node: 0})) // a new connection, too, knows nothing of it
		shows(t, ann[0], "k", "second")
		testkit.Must(t, stage.Mend(other))
		if err := ann[0].Get(quickly(t), "k").Err(); err == nil || errors.Is(err, redis.Nil) {
			t.Errorf("mended: got %v from a node that is down", err)
		}
		testkit.Must(t, stage.Mend(crash))
		shows(t, ann[0], "k", "first")
		other.To = 2
		if err := stage.Break(other); !errors.Is(err, chaos.ErrUnknownTarget) {
			t.Errorf("%v: got %v; want ErrUnknownTarget", other, err)
		}
	})
}

// A pause at the replies is the one that is inside a call: the command takes
// effect, and its reply is read when the client goes on.
func TestAClientPausedAtTheRepliesReadsThemLater(t *testing.T) {
	onStages(t, 2, func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient) {
		t.Helper()
		testkit.Must(t, ann[0].Ping(t.Context()).Err())
		pause := chaos.Fault{Kind: chaos.Pause, Client: "ann", Where: chaos.AtReplies}
		testkit.Must(t, stage.Break(pause))
		done := make(chan error)
		go func() { done <- ann[0].Set(t.Context(), "k", "there", 0).Err() }()
		shows(t, bob[0], "k", "there")
		select {
		case err := <-done:
			t.Errorf("got %v while it was paused", err)
		case <-time.After(20 * time.Millisecond):
		}
		testkit.Must(t, stage.Mend(pause))
		testkit.Must(t, <-done)
		pause.Where = "lunch"
		if err := stage.Break(pause); !errors.Is(err, chaos.ErrUnknownTarget) {
			t.Errorf("%v: got %v; want ErrUnknownTarget", pause, err)
		}
	})
}

// A fault of all clients is of one that connects while it stands, too, even if none was there
// as it began; mended, it is gone from both. One that is over leaves nothing behind.
func TestAFaultOfAllClientsIsOfThoseThatComeLater(t *testing.T) {
	onStages(t, 2, func(t *testing.T, stage chaos.Stage, ann, _ []redis.UniversalClient) {
		t.Helper()
		slow := chaos.Fault{Kind: chaos.Slow, Node: chaos.Everything, Delay: 40 * time.Millisecond}
		suspend := chaos.Fault{Kind: chaos.Suspend}
		other := chaos.Fault{Kind: chaos.OtherList, Node: 0, To: 1}
		late := func(c redis.UniversalClient) bool {
			start := time.Now()
			testkit.Must(t, c.Ping(t.Context()).Err())
			return time.Since(start) >= 80*time.Millisecond
		}
		testkit.Must(t, stage.Break(slow))
		carol := connect(t, stage, "carol")
		if !late(ann[0]) || !late(carol[0]) || !late(carol[1]) {
			t.Error("got a reply in time from a link that is slow")
		}
		testkit.Must(t, stage.Mend(slow))
		if late(ann[0]) && !onReal(t) || late(carol[0]) && !onReal(t) {
			t.Error("got a late reply, mended")
		}
		testkit.Must(t, stage.Break(suspend))
		dave := connect(t, stage, "dave")
		if err := dave[1].Ping(quickly(t)).Err(); err == nil {
			t.Error("got a reply while all clients are suspended")
		}
		testkit.Must(t, stage.Mend(suspend))
		testkit.Must(t, stage.Break(other))
		erin := connect(t, stage, "erin")
		set(t, erin[0], "k", "there")
		shows(t, erin[1], "k", "there")
		testkit.Must(t, stage.Mend(other))
		shows(t, erin[0], "k", "")
		shows(t, connect(t, stage, "frank")[0], "k", "")
	})
	stage := openVirtual(t, 1, 1)
	testkit.Must(t, stage.Break(chaos.Fault{Kind: chaos.CutReplies}))
	if err := connect(t, stage, "ann")[0].Ping(quickly(t)).Err(); err == nil {
		t.Error("got a reply over a link that was cut before there was any client")
	}
}

// What is due on two connections is due at two instants: at one, which is first
// would be drawn, and the same seed would give two traces. Here it is what fifteen
// clients learn that ask at one instant: nothing in time, or a refusal.
func TestNothingIsDueOnTwoConnectionsAtOneInstant(t *testing.T) {
	for _, f := range []chaos.Fault{{Kind: chaos.Cut, Node: chaos.Everything}, {Kind: chaos.Crash, Node: chaos.Everything}, {Kind: chaos.Refuse, Node: chaos.Everything}} {
		synctest.Test(t, func(t *testing.T) {
			stage, err := chaos.NewVirtual(1, 5)
			testkit.Must(t, err)
			var clients []redis.UniversalClient
			for _, name := range []string{"ann", "bob", "cara"} {
				clients = append(clients, connect(t, stage, name)...)
			}
			testkit.Must(t, stage.Break(f))
			var (
				work sync.WaitGroup
				mu   sync.Mutex
				told = map[time.Time]int{}
			)
			for _, c := range clients {
				work.Go(func() {
					err := c.Ping(t.Context()).Err()
					mu.Lock()
					defer mu.Unlock()
					if told[time.Now()]++; err == nil {
						t.Errorf("%v: got a reply", f)
					}
				})
			}
			began := time.Now()
			work.Wait()
			if len(told) != len(clients) || told[began] > 0 {
				t.Errorf("%v: got %d instants for %d connections, %d at once; want each its own, and none at once", f, len(told), len(clients), told[began])
			}
			testkit.Must(t, stage.Close())
		})
	}
}
