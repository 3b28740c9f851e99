package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
)

// Of two goroutines of one process the first takes grants and gives up, and the second
// takes none: it is called. A grant to the claim that was left for the one who leads next would
// be heard by nobody, and keep the name for three seconds.
func TestWhoTakesNoGrantsIsNotHeldUpByAGrantToWhoGaveUp(t *testing.T) {
	for name, option := range map[string]redlock.AcquireOption{
		"a short lease": redlock.WithTTL(2 * time.Second), "a fixed lease": redlock.WithFixedLease(), "barging": redlock.WithBarging(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 5)
				waiting := separateLocker(t, nodes)
				warm(t, l)
				warm(t, waiting)
				lock := mustAcquire(t, l, "orders/42")
				ctx, giveUp := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() {
					_, err := waiting.Acquire(ctx, "orders/42")
					left <- err
				}()
				time.Sleep(100 * time.Millisecond)
				next := wants(t, waiting, option)
				time.Sleep(100 * time.Millisecond)
				giveUp()
				if err := <-left; err == nil {
					t.Fatal("the first goroutine got the lock that another one holds")
				}
				time.Sleep(500 * time.Millisecond)
				released := time.Now()
				mustRelease(t, lock)
				g := got(t, next)
				if took := g.at.Sub(released); took > 800*time.Millisecond {
					t.Errorf("it was served %v after the release; want well below the three seconds of a grant", took)
				}
				mustRelease(t, g.lock)
			})
		})
	}
}

// A hold that went past those who wait is none of its process's turn: the other goroutines
// there get the lock after those who wait longer.
func TestNobodyRidesOnAHoldThatWentPastThoseWhoWait(t *testing.T) {
	for name, waits := range map[string]redlock.AcquireOption{"to be granted": redlock.WithTTL(5 * time.Second), "to be called": redlock.WithFixedLease()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 5)
				waiting := separateLocker(t, nodes)
				warm(t, l)
				warm(t, waiting)
				ghost(t, nodes) // the name is free, and kept for it
				before := wants(t, waiting)
				barging, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithBarging())
				must(t, err)
				behind := wants(t, l, waits)
				mustRelease(t, barging)
				time.Sleep(time.Second)
				if len(before) == 0 || len(behind) > 0 {
					t.Fatal("one who came later, and does not go past those who wait, had it before")
				}
				mustRelease(t, got(t, before).lock)
				mustRelease(t, got(t, behind).lock)
				synctest.Wait()
				if keys := queueKeys(nodes); keys != nil {
					t.Errorf("left behind: %v", keys)
				}
			})
		})
	}
}
