package chaos_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// electing is a plan in which clients stand for an election, and observe it.
func electing(seed uint64) chaos.Plan {
	p := smallPlan(seed, 20*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.Suspend, chaos.LoseReplies}, Every: 2 * time.Second})
	p.Waits, p.Renews, p.Threads, p.Leads, p.Linger = true, true, 2, 2, 5
	return p
}

// elected is how often somebody led the election of a plan, and what observers were told.
func elected(records []chaos.Record) (led, sawOne, sawNobody int) {
	for _, r := range records {
		switch {
		case r.Kind == trace.Held && r.Resource == "election":
			led++
		case r.Kind == trace.Saw && r.Value != "":
			sawOne++
		case r.Kind == trace.Saw:
			sawNobody++
		}
	}
	return led, sawOne, sawNobody
}

func TestClientsOfAPlanStandForAnElectionAndObserveIt(t *testing.T) {
	testkit.Unraced(t)
	p := electing(1)
	records := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records
	led, one, nobody := elected(records)
	if v := p.Judge().Judge(records); len(v.Violations) > 0 || led < 10 || one < 10 || nobody < 1 {
		t.Errorf("got %v; %d reigns, %d sightings of a leader, %d of nobody; want some of each, and nothing broken", v, led, one, nobody)
	}
	p.Leads = 0
	if led, one, nobody := elected(chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records); led+one+nobody > 0 {
		t.Errorf("without an election: got %d reigns, and %d and %d sightings; want none", led, one, nobody)
	}
}

// A library that holds no elections leads as it locks, and shows observers nothing.
func TestAKitWithoutElectionsLeadsAsItLocks(t *testing.T) {
	p := electing(2)
	own := p.Redlock("own")
	records := chaos.PlayVirtual(t, p, chaos.Kit{Name: "own", Open: func(nodes []redis.UniversalClient, names []string) (chaos.Contender, error) {
		c, err := own.Open(nodes, names)
		return onlyAcquires{c}, err
	}}).Records
	led, one, nobody := elected(records)
	if v := p.Judge().Judge(records); len(v.Violations) > 0 || led < 5 || one+nobody > 0 {
		t.Errorf("got %v; %d reigns, %d sightings; want some, and none", v, led, one+nobody)
	}
}

// A campaign whose leader loses its lease is another attempt from then on; one that ends
// in vain has failed, and quit.
func TestACampaignAsksAgainAfterALoss(t *testing.T) {
	testkit.Unraced(t)
	onStages(t, 3, func(t *testing.T, stage chaos.Stage, _, nodes []redis.UniversalClient) {
		t.Helper()
		history := chaos.NewHistory()
		cara, err := chaos.NewActor("cara", chaos.Redlock("redlock", redlock.WithoutMembership()), stage, history, nil)
		testkit.Must(t, err)
		defer cara.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		pause := func() time.Duration { return 20 * time.Millisecond }
		reigns := 0
		err = cara.Campaign(ctx, "e", 2*time.Second, pause, func(leading context.Context, held *chaos.Tenure) error {
			if reigns++; reigns == 2 {
				return held.Write(leading)
			}
			for _, n := range nodes {
				testkit.Must(t, n.Del(ctx, "e").Err())
				testkit.Must(t, n.Set(ctx, "e", "somebody else's", 3*time.Second).Err())
			}
			<-leading.Done()
			return leading.Err()
		})
		testkit.Must(t, err)
		vain, end := context.WithTimeout(ctx, 50*time.Millisecond)
		defer end()
		testkit.Must(t, nodes[0].Set(ctx, "e", "somebody else's", 3*time.Second).Err())
		testkit.Must(t, nodes[1].Set(ctx, "e", "somebody else's", 3*time.Second).Err())
		if err := cara.Campaign(vain, "e", time.Second, pause, nothingToLead); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v; want that the time was over", err)
		}
		var kinds []trace.Kind
		for _, r := range history.Records() {
			if r.Kind != trace.Extended && r.Kind != trace.Told { // the word of a loss may come after the next ask
				kinds = append(kinds, r.Kind)
			}
		}
		want := []trace.Kind{trace.Asked, trace.Held, trace.Lost, trace.Asked, trace.Held, trace.Wrote, trace.Released, trace.Asked, trace.Failed, trace.Quit}
		if !equalKinds(kinds, want) {
			t.Errorf("got %q; want %q", kinds, want)
		}
	})
}

func nothingToLead(context.Context, *chaos.Tenure) error { return nil }

func equalKinds(a, b []trace.Kind) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
