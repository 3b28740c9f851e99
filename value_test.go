package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
)

// shownValue is the owner value of orders/42 on a quorum, without its random part.
func shownValue(t *testing.T, l *redlock.Locker) string {
	t.Helper()
	in, err := l.Inspect(t.Context(), "orders/42")
	must(t, err)
	owner, _ := in.Holder()
	if len(owner) < 36 {
		t.Fatalf("got the owner value %q; want one of a holder", owner)
	}
	return owner[:len(owner)-36]
}

// Each way to a hold has its own value: a first attempt, a hand-over, a grant by a
// release, and a place in line that another goroutine had taken, and left.
func TestAHoldShowsItsOwnValueHoweverItWasComeBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder("web/"))
		other := separateLocker(t, nodes, redlock.WithHolder("db/"))
		rnd := rand.New(rand.NewPCG(1, 2))
		var all sync.WaitGroup
		for i := range 60 {
			locker, label := l, "web/"
			if i%3 == 0 {
				locker, label = other, "db/"
			}
			value := fmt.Sprintf("v%d", i%5)
			start, hold, patience := time.Duration(rnd.IntN(3000))*time.Millisecond, time.Duration(rnd.IntN(60))*time.Millisecond, time.Minute
			if i%4 == 0 {
				patience = time.Duration(rnd.IntN(500)) * time.Millisecond
			}
			all.Go(func() {
				time.Sleep(start)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				lock, err := locker.Acquire(ctx, "orders/42", redlock.WithValue(value))
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Acquire: %v", err)
					}
					return
				}
				if got, want := shownValue(t, locker), fmt.Sprintf("%s%s#2#", label, value); got != want {
					t.Errorf("got %q; want %q", got, want)
				}
				time.Sleep(hold)
				must(t, lock.Release(t.Context()))
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		wantNoLocks(t, nodes, "in the end")
		if left := queueKeys(nodes); len(left) > 0 {
			t.Errorf("left in line: %v", left)
		}
	})
}

// A place that somebody left is gone on with under the value of who goes on.
func TestAPlaceThatWasLeftIsGoneOnWithUnderTheNextOnesValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		held := mustAcquire(t, other, "orders/42")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := l.Acquire(ctx, "orders/42", redlock.WithValue("gone"))
			gone <- err
		}()
		synctest.Wait()
		next := wants(t, l, redlock.WithValue("next"))
		cancel()
		wantError(t, "who left", <-gone, context.Canceled)
		synctest.Wait()
		mustRelease(t, held)
		lock := got(t, next).lock
		if got := shownValue(t, l); got != "next#4#" {
			t.Errorf("got %q; want the value of who holds it", got)
		}
		mustRelease(t, lock)
		time.Sleep(time.Minute)
		wantNoLocks(t, nodes, "in the end")
	})
}

func TestAValueThatCantBePublishedIsRefusedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder(strings.Repeat("h", 100)))
		warm(t, l)
		synctest.Wait()
		sent := nodes.Node(0).Calls()
		for name, value := range map[string]string{
			"257 bytes":                   strings.Repeat("v", 257),
			"157 bytes behind a label":    strings.Repeat("v", 157),
			"a line feed":                 "a\nb",
			"what turns the direction":    "a\u202eb",
			"no UTF-8":                    "a\xff",
			"a tab, which is not printed": "\t",
		} {
			_, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithValue(value))
			wantError(t, name, err, redlock.ErrInvalidOption)
			if err != nil && !strings.Contains(err.Error(), "WithValue") {
				t.Errorf("%s: got %v; want the option's name", name, err)
			}
		}
		if got := nodes.Node(0).Calls(); got != sent {
			t.Errorf("%d commands were sent; want none", got-sent)
		}
		lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithValue(strings.Repeat("v", 156)))
		must(t, err)
		mustRelease(t, lock)
	})
}
