package chaos_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// sharing is a plan in which clients wait, share and want sets.
func sharing(seed uint64) chaos.Plan {
	p := smallPlan(seed, 15*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.LoseCalls}, Every: 5 * time.Second})
	p.Waits, p.Renews, p.Threads, p.Names, p.Shares, p.Sets = true, true, 3, 4, 2, 2
	return p
}

// met is how often those who share were there together, and how many sets were held.
func met(records []chaos.Record) (together, sets int) {
	at := map[string]map[int64]bool{}
	of := map[int64]string{}
	seen := map[int64]bool{}
	for _, r := range records {
		switch {
		case r.Kind == trace.Held && r.Shared:
			if at[r.Resource] == nil {
				at[r.Resource] = map[int64]bool{}
			}
			if len(at[r.Resource]) > 0 {
				together++
			}
			at[r.Resource][r.Hold], of[r.Hold] = true, r.Resource
		case r.Kind == trace.Released || r.Kind == trace.Lost:
			delete(at[of[r.Hold]], r.Hold)
		}
		if r.Kind == trace.Held && r.Set != 0 {
			seen[r.Set] = true
		}
	}
	return together, len(seen)
}

func TestClientsOfAPlanShareAndWantSets(t *testing.T) {
	testkit.Unraced(t)
	p := sharing(1)
	records := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records
	together, sets := met(records)
	if v := p.Judge().Judge(records); len(v.Violations) > 0 || together < 5 || sets < 5 {
		t.Errorf("got %v; %d were together with another, %d sets; want some of each, and nothing broken", v, together, sets)
	}
}

// Without renewal there are no sets, and without a share of them nothing is asked for but
// one name after another, alone.
func TestClientsOfAPlanWantWhatItSays(t *testing.T) {
	testkit.Unraced(t)
	p := sharing(2)
	p.Renews = false
	together, sets := met(chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records)
	if together == 0 || sets > 0 {
		t.Errorf("without renewal: %d together, %d sets; want some, and none", together, sets)
	}
	p.Renews, p.Shares, p.Sets = true, 0, 0
	if together, sets := met(chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records); together+sets > 0 {
		t.Errorf("got %d together, %d sets; want none", together, sets)
	}
}

// slotted is a plan in which clients wait for slots, and at times for all of a name.
func slotted(seed uint64) chaos.Plan {
	p := smallPlan(seed, 15*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.LoseCalls, chaos.Suspend}, Every: 3 * time.Second})
	p.Waits, p.Renews, p.Threads, p.Slots = true, true, 3, 2
	return p
}

func TestClientsOfAPlanWantSlots(t *testing.T) {
	p := slotted(1)
	records := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records
	var slots [2]int
	queued := 0
	for _, r := range records {
		if r.Kind == trace.Held && r.Limit == 2 {
			slots[r.Slot]++
		}
		if r.Kind == trace.Queued && r.Limit > 0 {
			queued++
		}
	}
	if v := p.Judge().Judge(records); len(v.Violations) > 0 || slots[0] < 5 || slots[1] < 5 || queued < 1 || v.Refused > 0 {
		t.Errorf("got %v; slots held %d times, %d in line for one; want some of each, and nothing broken", v, slots, queued)
	}
}

// A contender that knows neither takes a name alone, of a set the first.
func TestAKitThatCannotShareIsAloneAndTakesTheFirst(t *testing.T) {
	p := sharing(3)
	own := p.Redlock("own")
	records := chaos.PlayVirtual(t, p, chaos.Kit{Name: "own", Open: func(nodes []redis.UniversalClient, names []string) (chaos.Contender, error) {
		c, err := own.Open(nodes, names)
		return onlyAcquires{c}, err
	}}).Records
	if v := p.Judge().Judge(records); len(v.Violations) > 0 || v.Won < 20 {
		t.Errorf("got %v; want locks, and nothing broken", v)
	}
	if slices.ContainsFunc(records, func(r chaos.Record) bool { return r.Shared || r.Set != 0 }) {
		t.Error("got a record of a shared hold, or of a set")
	}
}

// onlyAcquires hides all that a contender can do beside the least.
type onlyAcquires struct{ chaos.Contender }

// An actor records each name of a set at one time, writes to each, and shows a guard whose
// tokens are shared.
func TestAnActorHasASetAsAWhole(t *testing.T) {
	onStages(t, 3, func(t *testing.T, stage chaos.Stage, _, _ []redis.UniversalClient) {
		t.Helper()
		history, guard := chaos.NewHistory(), &fencing.Memory{}
		kit := chaos.Redlock("redlock", redlock.WithoutMembership())
		var actors []*chaos.Actor
		for _, name := range []string{"cara", "dave"} {
			a, err := chaos.NewActor(name, kit, stage, history, guard)
			testkit.Must(t, err)
			defer a.Close()
			actors = append(actors, a)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		w := chaos.Request{Resources: []string{"b", "a"}, Shared: true}
		var tenures []*chaos.Tenure
		for _, a := range actors {
			tenure, err := a.Insist(ctx, w, 5*time.Second, func() time.Duration { return 20 * time.Millisecond })
			testkit.Must(t, err)
			tenures = append(tenures, tenure)
		}
		for _, i := range []int{1, 0, 1} {
			testkit.Must(t, tenures[i].Write(ctx))
		}
		testkit.Must(t, tenures[0].Extend(ctx, 6*time.Second))
		if _, err := actors[0].Ask(ctx, chaos.Only("c", "b"), time.Second); err == nil {
			t.Error("got a set alone of which a name is shared")
		}
		for _, tenure := range tenures {
			testkit.Must(t, tenure.Release(ctx))
		}
		v := trace.Judge{}.Judge(history.Records())
		if len(v.Violations) > 0 || v.Writes != 6 || v.Refused != 0 {
			t.Errorf("got %v; want six writes and nothing broken", v)
		}
		for _, resource := range []string{"a", "b"} {
			none := func(context.Context) error { return nil }
			if err := guard.Write(ctx, resource, guard.Highest(resource), none); !errors.Is(err, fencing.ErrStale) {
				t.Errorf("%s: got %v; want that the guard has seen this token as a shared one", resource, err)
			}
		}
	})
}
