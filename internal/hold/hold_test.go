package hold

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/acquire"
	"github.com/quorumkit/redlock/internal/chance"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/round"
)

// told is a Door that keeps what it is told.
type told struct {
	Door
	events []string
}

func (d *told) tell(what string) { d.events = append(d.events, what) }

func (d *told) Began(*Hold, clock.Instant, acquire.Success, time.Duration) { d.tell("began") }

func (d *told) Entered(context.Context, *Hold) { d.tell("entered") }

func (d *told) Gone(*Hold, *Refusal) error { return errors.New("gone") }

func (d *told) Doubted(int, error) error { return errors.New("doubted") }

func (d *told) Ended(_ *Hold, cause error, _, _ time.Duration) { d.tell(cause.Error()) }

func (d *told) Released(*Hold, time.Duration, *Refusal) error { return errors.New("not confirmed") }

// begin makes a keeper without nodes, so that no quorum ever confirms anything, and holds of
// ten seconds.
func begin(t *testing.T, holds int, terms Terms) (*Keeper, *told, []*Hold) {
	t.Helper()
	c, door := clock.New(), &told{}
	k := NewKeeper(Config{
		Acquirer: acquire.New(acquire.Config{
			Clock: c, Tracker: membership.NewTracker(membership.NewConfig(nil, 0, false), "", c), Queue: queue.New(1), Sleepers: round.NewSleepers(c), Chance: chance.Of((*redis.Client)(nil)),
			Bound: func(ttl time.Duration) time.Duration { return ttl / 40 },
		}),
		Requests: NewRequests(), Watch: func() {}, Door: door,
		Causes: Causes{errors.New("released"), errors.New("held too long"), errors.New("closed"), errors.New("lapsed")},
	})
	t.Cleanup(func() { k.Close(c.Now(), func() {}); k.Await() })
	terms.Resource, terms.TTL = "r", 10*time.Second
	held := make([]*Hold, holds)
	for i := range held {
		start := c.Start()
		held[i] = &Hold{}
		g := acquire.Success{Claim: &round.Claim{Key: "r"}, Start: start, Asked: start, Valid: clock.ValidFrom(start, terms.TTL, 0)}
		g.Claim.Share(0)
		g.Claim.Stand(start, 1)
		if !k.Begin(t.Context(), held[i], &terms, &g) {
			t.Fatal("the keeper took no hold")
		}
	}
	return k, door, held
}

func TestAHoldEndsOnceForItsFirstCause(t *testing.T) {
	for name, test := range map[string]struct {
		terms Terms
		end   func(k *Keeper, h *Hold)
		want  []string
	}{
		"released":      {Terms{}, func(_ *Keeper, h *Hold) { h.Leave(Released, false) }, []string{"began", "released"}},
		"doubted":       {Terms{}, func(k *Keeper, _ *Hold) { k.Distrust(0, 0, errors.New("forgot")) }, []string{"began", "doubted"}},
		"fixed":         {Terms{Fixed: true}, func(*Keeper, *Hold) { time.Sleep(11 * time.Second) }, []string{"began", "lapsed"}},
		"held too long": {Terms{MaxHold: time.Second}, func(*Keeper, *Hold) { time.Sleep(2 * time.Second) }, []string{"began", "held too long"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			k, door, held := begin(t, 1, test.terms)
			done := held[0].Context().Done()
			test.end(k, held[0])
			<-done
			if _, left := held[0].Leave(Closed, false); left || !slices.Equal(door.events, test.want) || k.Busy() {
				t.Errorf("%s: got %q, ended again: %v, still kept: %v; want %q", name, door.events, left, k.Busy(), test.want)
			}
		})
	}
}

func TestAHoldIsRenewedAtAThirdOfItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, door, held := begin(t, 1, Terms{})
		start := time.Now()
		<-held[0].Context().Done() // no node has it, which is known after the bound of 250 ms
		if took := time.Since(start); took < 3*time.Second || took > 10*time.Second/3+250*time.Millisecond || door.events[1] != "gone" {
			t.Errorf("it was renewed after %v, and told %q", took, door.events)
		}
	})
}

func TestTheLastHandleThatLeavesEndsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, door, held := begin(t, 1, Terms{})
		first := NewHandle(t.Context(), held[0])
		on := k.Within(first.Context(), "r")
		second, now := on.Enter(t.Context()), k.clock.Now()
		if _, left := first.Leave(Released, false); !left || first.Err(now) == nil || first.Context().Err() == nil || second.Err(now) != nil {
			t.Errorf("after the first left it has %v, the second %v", first.Err(now), second.Err(now))
		}
		second.Leave(Released, false)
		if on.Open() || on.Enter(t.Context()) != nil || !errors.Is(held[0].Err(now), k.Causes[Released]) {
			t.Errorf("the last one left, and the hold has %v", held[0].Err(now))
		}
		if want := []string{"began", "entered", "released"}; !slices.Equal(door.events, want) {
			t.Errorf("got %q; want %q", door.events, want)
		}
	})
}

func TestOneExtensionOfAHoldAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _, held := begin(t, 2, Terms{})
		if ended, err := TakeTurns(t.Context(), held); ended || err != nil {
			t.Fatal(ended, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if ended, err := TakeTurns(ctx, held[1:]); ended || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v while another one extends", ended, err)
		}
		time.AfterFunc(time.Second, func() { held[1].Leave(Released, false) })
		if ended, err := TakeTurns(t.Context(), held[1:]); !ended || !errors.Is(err, k.Causes[Released]) {
			t.Errorf("got %v, %v of a hold that ended", ended, err)
		}
		PassTurns(held)
	})
}
