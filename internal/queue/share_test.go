package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// sharer is one goroutine on its way: what Share gave it.
type sharer struct {
	name  *Name
	given *Transfer
	leads bool
	err   error
}

// comes starts a goroutine that wants to share, and returns once it has its turn or waits.
func comes(ctx context.Context, q *Queue) chan sharer {
	done := make(chan sharer, 1)
	go func() {
		var s sharer
		s.name, s.given, s.leads, s.err = q.Share(ctx, "orders/42", time.Second, "")
		done <- s
	}()
	synctest.Wait()
	return done
}

func leftNothing(t *testing.T) func(string, int64) {
	t.Helper()
	return func(_ string, place int64) { t.Errorf("the place %d is given up; want it kept", place) }
}

func TestThoseWhoShareGoAtOnceWhileNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(8)
		a, b := <-comes(t.Context(), q), <-comes(t.Context(), q)
		if a.leads || b.leads || !q.MayShare("orders/42") {
			t.Fatalf("two who share lead: %v, %v; want each to ask for itself, and a third too", a.leads, b.leads)
		}
		if _, ok := q.Try("orders/42"); ok {
			t.Error("one who wants to be alone has a turn beside them")
		}
		q.Decided(a.name, false, true, leftNothing(t))
		q.Decided(b.name, false, true, leftNothing(t))
		if _, ok := q.Try("orders/42"); !ok {
			t.Error("their holds keep the line; want it to move on when they are decided")
		}
		if q.MayShare("orders/42") {
			t.Error("one may share beside who has the turn alone")
		}
	})
}

// One leads, one follows, and another whose context ends is out; who comes later has the
// next turn.
func TestAGroupIsLedByOneAndLaterOnesAreNotOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(8)
		q.Try("orders/42")
		ctx, cancel := context.WithCancel(t.Context())
		first, gone, second := comes(t.Context(), q), comes(ctx, q), comes(t.Context(), q)
		q.Pass("orders/42", func(*round.Claim) { t.Error("a place is given up") })
		a := <-first
		if a.err != nil || !a.leads {
			t.Fatalf("the first: %+v; want it to lead", a)
		}
		q.Stand(a.name, 7)
		later := comes(t.Context(), q)
		cancel()
		if s := <-gone; !errors.Is(s.err, context.Canceled) {
			t.Errorf("one whose context ended: %+v", s)
		}
		place, follow := q.Going(a.name)
		if place != 7 || len(follow) != 1 {
			t.Fatalf("%d go by the place %d; want one by 7", len(follow), place)
		}
		if entry := q.EntryAt("orders/42", 7); entry != quorum.EntryStays {
			t.Errorf("while one is undecided a release does %v with the entry; want it kept", entry)
		}
		q.Decided(a.name, false, true, leftNothing(t))
		follow[0].Give(&Transfer{Turn: 1})
		b := <-second
		synctest.Wait()
		if b.leads || len(later) != 0 {
			t.Errorf("the second leads: %v, and %d later ones have a turn; want it to go along, and them to wait", b.leads, len(later))
		}
		q.Decided(b.name, false, true, leftNothing(t))
		if entry := q.EntryAt("orders/42", 7); entry != quorum.EntryGoes {
			t.Errorf("when all are decided a release does %v with the entry; want it to go", entry)
		}
		if c := <-later; !c.leads || q.Position(c.name) != quorum.NoTicket {
			t.Errorf("the later one leads: %v, at %d; want the next turn, and no place", c.leads, q.Position(c.name))
		}
	})
}

// The leader gives up: who follows leads at its place, which the last of them gives up.
func TestThePlaceOfAGroupIsGivenUpByTheLastOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(8)
		a, b := <-comes(t.Context(), q), <-comes(t.Context(), q)
		if _, leads, _ := q.Follow(t.Context(), a.name, time.Second, ""); !leads {
			t.Fatal("the first that was refused follows")
		}
		q.Stand(a.name, 7)
		next := make(chan bool, 1)
		go func() {
			_, leads, err := q.Follow(t.Context(), b.name, time.Second, "")
			next <- leads && err == nil
		}()
		synctest.Wait()
		q.Decided(a.name, true, false, leftNothing(t))
		if !<-next || q.Position(b.name) != 7 {
			t.Fatalf("the next does not lead at 7, but at %d", q.Position(b.name))
		}
		left := int64(0)
		q.Decided(b.name, true, false, func(_ string, place int64) { left = place })
		if left != 7 || q.Recorded("orders/42", true) {
			t.Errorf("the last gave up the place %d; want 7", left)
		}
		var lines []bool
		q.hint("orders/42", 2, func(shared bool) { lines = append(lines, shared) })
		if len(lines) != 1 || !lines[0] {
			t.Errorf("a call afterwards leaves the lines %v; want that of those who share", lines)
		}
	})
}

// One who wanted to be alone kept a place for another, who has quit: it goes before those
// who share have the turn.
func TestSharersGoOnWithNoPlaceOfWhoWantedToBeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(8)
		name, _ := q.Try("orders/42")
		q.Stand(name, 7)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _, _ = q.Take(ctx, "orders/42", time.Second, "", false) }()
		synctest.Wait()
		beside := comes(t.Context(), q)
		if w := q.Ending("orders/42"); w != round.LeaveEntry {
			t.Fatalf("with another behind, the place is %v; want it kept", w)
		}
		cancel()
		synctest.Wait()
		left := 0
		q.Pass("orders/42", func(*round.Claim) { left++ })
		if s := <-beside; !s.leads || left != 1 || q.Recorded("orders/42", true) || q.Position(s.name) != quorum.NoTicket {
			t.Errorf("who shares leads: %v, %d places were given up, and it has the place %d; want one, and none", s.leads, left, q.Position(s.name))
		}
	})
}
