package queue

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// One at a time has its turn, in the order in which they came. One who quits is passed over.
func TestTheTurnGoesRoundInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(8)
		if _, free := q.Try("jobs"); !free {
			t.Fatal("a name that nobody has is not free")
		}
		if _, free := q.Try("jobs"); free {
			t.Fatal("a name whose turn somebody has is free")
		}
		ctx, quit := context.WithCancel(t.Context())
		var order []int
		for i := range 4 {
			under := t.Context()
			if i == 1 {
				under = ctx
			}
			go func() {
				if _, _, err := q.Take(under, "jobs", time.Minute, "", false); err == nil {
					order = append(order, i)
				}
			}()
			synctest.Wait()
		}
		quit()
		synctest.Wait()
		for range 4 {
			q.Pass("jobs", func(*round.Claim) { t.Error("a place is left that nobody had") })
			synctest.Wait()
		}
		if want := []int{0, 2, 3}; !slices.Equal(order, want) {
			t.Errorf("they went in the order %v; want %v", order, want)
		}
		if _, free := q.Try("jobs"); !free {
			t.Error("the name is not free when all are done")
		}
	})
}

// What becomes of the hold when it ends, and of the place: by who waits here, how often the
// process had the name in a row, and what its entry on the nodes is.
func TestWhoGoesOnWhenAHoldEnds(t *testing.T) {
	for _, tt := range []struct {
		what            string
		waiter          *Waiter // who is next here; nil: nobody
		held            int     // of two turns
		barged          bool
		recorded, stood bool // the process has an entry, and it takes pushes
		next, goesOn    bool
		entry           round.Leaving // of a release that nobody here goes on from
	}{
		{"nobody waits", nil, 1, false, false, false, false, false, round.LeaveNothing},
		{"nobody waits, and a place is left", nil, 1, false, true, false, false, false, round.LeaveQueue},
		{"the turn lasts", &Waiter{}, 1, false, false, false, true, false, round.LeaveNothing},
		{"the turn lasts, with a place", &Waiter{}, 1, false, true, true, true, false, round.LeaveEntry},
		{"the turn is over", &Waiter{}, 2, false, true, true, false, false, round.LeaveQueue},
		{"the turn is over, and a release may grant", &Waiter{Pushes: true}, 2, false, true, true, false, true, round.LeaveQueue},
		{"it has no entry yet", &Waiter{Pushes: true}, 2, false, false, false, false, true, round.LeaveNothing},
		{"its entry takes no pushes", &Waiter{Pushes: true}, 2, false, true, false, false, false, round.LeaveQueue},
		{"the hold went past those who wait", &Waiter{Pushes: true}, 0, true, true, true, false, true, round.LeaveEntry},
		{"who waits wants to share", &Waiter{Shared: true}, 1, false, true, true, false, false, round.LeaveQueue},
	} {
		t.Run(tt.what, func(t *testing.T) {
			begin := func() *Queue {
				q := New(2)
				name, _ := q.Try("jobs")
				if tt.waiter != nil {
					w := *tt.waiter
					name.joinLocked(&w)
				}
				if tt.recorded {
					q.Stand(name, 5)
				}
				for range tt.held {
					q.CountHold("jobs", false, false)
				}
				if tt.barged {
					q.CountHold("jobs", true, false)
				}
				return q
			}
			if w, recorded := begin().Next("jobs"); (w != nil) != tt.next || w != nil && recorded != tt.recorded {
				t.Errorf("handed on here: %t, with the place: %t; want %t, %t", w != nil, recorded, tt.next, tt.recorded)
			}
			q := begin()
			if w, name, entry := q.GoesOn("jobs", tt.stood); (w != nil) != tt.goesOn {
				t.Errorf("put in line by the release: %t; want %t", w != nil, tt.goesOn)
			} else if w != nil && (q.Position(name) != quorum.NoTicket || !q.Recorded("jobs", false) || (entry == round.LeaveQueue) != tt.recorded) {
				t.Errorf("it goes on at place %d, and the entry is left by mode %d; want a new place, and the old entry gone", q.Position(name), entry)
			}
			if got := begin().Ending("jobs"); got != tt.entry {
				t.Errorf("the entry is left by mode %d; want %d", got, tt.entry)
			}
		})
	}
}

// Close gives up each place once, of either kind.
func TestEveryPlaceIsLeftOnce(t *testing.T) {
	q := New(8)
	for _, key := range []string{"b", "a", "none"} {
		name, _ := q.Try(key)
		if key != "none" {
			q.Stand(name, 7)
		}
	}
	var left []string
	leave := func(key string, _ *round.Claim) { left = append(left, key) }
	for range 2 {
		q.LeaveAll(leave, func(key string, _ int64) { left = append(left, "shared "+key) })
	}
	if want := []string{"a", "b"}; !slices.Equal(left, want) {
		t.Errorf("left %q; want %q", left, want)
	}
}
