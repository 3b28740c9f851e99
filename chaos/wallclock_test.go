package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// A lock's validity is of the monotonic clock: the wall clock dates events, and decides
// nothing.
func TestAWallClockThatStepsDecidesNothing(t *testing.T) {
	onStages(t, 1, func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient) {
		t.Helper()
		ctx, day := t.Context(), 24*time.Hour
		times := make(chan time.Time, 1) // of extensions that the test asked for
		open := func(nodes []redis.UniversalClient) *redlock.Locker {
			l, err := redlock.New(nodes, redlock.WithNodeNames(stage.Names()...), redlock.WithTTL(20*time.Second), redlock.WithObserver(func(e redlock.Event) {
				if e.Kind == redlock.EventLockExtended && !e.Renewal {
					times <- e.Time
				}
			}))
			testkit.Must(t, err)
			t.Cleanup(func() { _ = l.Close() })
			return l
		}
		off := func(l *redlock.Lock) time.Duration {
			testkit.Must(t, l.Extend(ctx, 20*time.Second))
			return time.Until(<-times).Round(time.Hour)
		}
		anns, bobs := open(ann), open(bob)
		testkit.Must(t, anns.Cluster().Admit(ctx))
		lock, err := anns.Acquire(ctx, "report")
		testkit.Must(t, err)
		other, err := bobs.Acquire(ctx, "other")
		testkit.Must(t, err)
		for _, by := range []time.Duration{-day, day} {
			step := chaos.Fault{Kind: chaos.WallClock, Client: "ann", Delay: by}
			testkit.Must(t, stage.Break(step))
			if got := off(lock); got != by {
				t.Errorf("%v: ann's wall clock is off by %v; want %v", step, got, by)
			}
			if got := off(other); got != 0 {
				t.Errorf("%v: bob's wall clock is off by %v; want none", step, got)
			}
			if left := lock.Remaining(); left <= 0 || left > 20*time.Second || lock.Err() != nil {
				t.Errorf("%v: got %v left, %v; want some of 20 s", step, left, lock.Err())
			}
			next, err := anns.Acquire(ctx, "next")
			testkit.Must(t, err)
			if lead := time.Duration(next.Token())*time.Microsecond - time.Duration(time.Now().UnixMicro())*time.Microsecond; lead > 2*time.Minute {
				t.Errorf("%v: got a token that is %v ahead; want two minutes at most", step, lead)
			}
			testkit.Must(t, next.Release(ctx))
			testkit.Must(t, stage.Mend(step))
			if got := off(lock); got != 0 {
				t.Errorf("%v, mended: ann's wall clock is off by %v; want none", step, got)
			}
		}
		testkit.Must(t, lock.Release(ctx))
		testkit.Must(t, other.Release(ctx))
	})
}

// A step of all clients' wall clocks is of one that came meanwhile, too, whose clock is right
// once it is mended. Steps of one clock add up, and each is taken off by itself.
func TestAWallClockThatCameMeanwhileStepsAndIsRightAgain(t *testing.T) {
	onStages(t, 1, func(t *testing.T, stage chaos.Stage, ann, _ []redis.UniversalClient) {
		t.Helper()
		off := func(nodes []redis.UniversalClient) func() time.Duration {
			first, ok := nodes[0].(*redis.Client)
			if !ok {
				t.Fatal("no client of one node")
			}
			return clock.WallOf(first)
		}
		all := chaos.Fault{Kind: chaos.WallClock, Delay: time.Hour}
		anns := chaos.Fault{Kind: chaos.WallClock, Client: "ann", Delay: time.Minute}
		testkit.Must(t, stage.Break(all))
		annOff, carolOff := off(ann), off(connect(t, stage, "carol"))
		testkit.Must(t, stage.Break(anns))
		if a, c := annOff(), carolOff(); a != time.Hour+time.Minute || c != time.Hour {
			t.Errorf("got clocks that are off by %v and %v; want 1h1m, and 1h of who came later", a, c)
		}
		testkit.Must(t, stage.Mend(chaos.Fault{Kind: chaos.WallClock, At: 1, For: 1, Delay: time.Hour}))
		if a, c := annOff(), carolOff(); a != time.Minute || c != 0 {
			t.Errorf("got clocks that are off by %v and %v, mended; want 1m, and 0 of who came later", a, c)
		}
		testkit.Must(t, stage.Mend(all)) // it is over
		testkit.Must(t, stage.Mend(anns))
		if a, c := annOff(), carolOff(); a != 0 || c != 0 {
			t.Errorf("got clocks that are off by %v and %v, all mended; want 0", a, c)
		}
	})
}

// beliefs are when clients of a trace began and ended to believe that they hold, and until
// when.
func beliefs(records []chaos.Record) []string {
	var all []string
	for _, r := range records {
		if slices.Contains([]trace.Kind{trace.Held, trace.Extended, trace.Released, trace.Lost, trace.Told}, r.Kind) {
			all = append(all, fmt.Sprintf("%v: %s %s %s until %v", r.At, r.Client, r.Kind, r.Resource, r.Until))
		}
	}
	return all
}

// No rule breaks where wall clocks step, and the plan's locks are those of a plan without: each
// begins, is valid until, and ends at the same nanosecond.
func TestRedlockStandsWallClocksThatStep(t *testing.T) {
	p := smallPlan(1, 20*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.WallClock}, Every: 500 * time.Millisecond, Longest: 4 * time.Second})
	still := p
	still.Faults = nil
	records := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records
	if v := p.Judge().Judge(records); len(v.Violations) > 0 || v.Rounds == 0 {
		t.Errorf("got %d rounds, %v; want no rule broken", v.Rounds, v.Violations)
	}
	got, want := beliefs(records), beliefs(chaos.PlayVirtual(t, still, still.Redlock("redlock")).Records)
	if len(p.Faults) < 5 || len(want) < 100 {
		t.Errorf("got %d steps and %d beginnings and ends; want more", len(p.Faults), len(want))
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("got %d beginnings and ends, %d without the steps; the first that differ are %q and %q", len(got), len(want), got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
		}
	}
}
