package redlock_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// seen is one thing that an observer was told.
type seen struct {
	redlock.Leader
	err error
	at  time.Time
}

// observes observes jobs, in a goroutine, until the test ends.
func observes(t *testing.T, l *redlock.Locker) <-chan seen {
	t.Helper()
	told := make(chan seen, 100)
	ctx := t.Context()
	go func() {
		for leader, err := range l.Observe(ctx, "jobs") {
			told <- seen{leader, err, time.Now()}
		}
		close(told)
	}()
	return told
}

// isTold is what the observer is told next, within so long.
func isTold(t *testing.T, from <-chan seen, within time.Duration) seen {
	t.Helper()
	select {
	case s := <-from:
		return s
	case <-time.After(within):
		t.Fatalf("the observer was told nothing for %v", within)
		return seen{}
	}
}

// isQuiet checks that the observer is told nothing more.
func isQuiet(t *testing.T, from <-chan seen, during time.Duration) {
	t.Helper()
	select {
	case s := <-from:
		t.Errorf("the observer was told %+v; want nothing", s)
	case <-time.After(during):
	}
}

func wantLeader(t *testing.T, got seen, value string, token redlock.Token) {
	t.Helper()
	if want := (redlock.Leader{Value: value, Token: token, Held: true}); got.err != nil || got.Leader != want {
		t.Errorf("got %+v, %v; want %+v", got.Leader, got.err, want)
	}
}

func wantVacant(t *testing.T, got seen) {
	t.Helper()
	if got.err != nil || got.Leader != (redlock.Leader{}) {
		t.Errorf("got %+v, %v; want nobody to lead", got.Leader, got.err)
	}
}

// candidate is a campaign under way.
type candidate struct {
	leads  chan *redlock.Lock // one for each time that lead begins
	resign chan error         // what it is to return
	done   chan error         // what Campaign returned
	cancel context.CancelFunc
}

// campaigns campaigns for jobs in a goroutine. Its lead ends when it is told to resign, or
// with its context.
func campaigns(t *testing.T, l *redlock.Locker, value string) *candidate {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &candidate{make(chan *redlock.Lock, 10), make(chan error), make(chan error, 1), cancel}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.done <- l.Campaign(ctx, "jobs", func(ctx context.Context, lock *redlock.Lock) error {
			c.leads <- lock
			select {
			case err := <-c.resign:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}, redlock.WithValue(value))
	}()
	t.Cleanup(func() { cancel(); <-ended }) // it releases: the bubble may not end before
	synctest.Wait()
	return c
}

func TestObserversAreToldOfEveryLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5, redlock.WithHolder("x"))
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)
		warm(t, l)
		told := observes(t, third)
		wantVacant(t, isTold(t, told, time.Second))
		time.Sleep(10 * time.Millisecond) // it listens on each node after its first look there

		a := campaigns(t, l, "a")
		first := <-a.leads
		s := isTold(t, told, 100*time.Millisecond) // by its hint, and no look of the second
		wantLeader(t, s, "a", first.Token())
		b := campaigns(t, other, "b")
		isQuiet(t, told, time.Minute)

		a.resign <- errWork
		wantError(t, "a's campaign", <-a.done, errWork)
		second := <-b.leads
		if second.Token() <= first.Token() {
			t.Errorf("got token %v after %v; want a greater one", second.Token(), first.Token())
		}
		for s = isTold(t, told, 100*time.Millisecond); !s.Held; {
			s = isTold(t, told, 100*time.Millisecond)
		}
		wantLeader(t, s, "b", second.Token())

		b.resign <- nil
		must(t, <-b.done)
		wantVacant(t, isTold(t, told, 100*time.Millisecond))
		isQuiet(t, told, time.Minute)
	})
}

// What a lock without a campaign shows comes by looks only, and no token with it.
func TestObserversFindWhoDoesNotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithHolder("host-7"))
		told := observes(t, separateLocker(t, nodes))
		wantVacant(t, isTold(t, told, time.Second))
		lock := mustAcquire(t, l, "jobs")
		wantLeader(t, isTold(t, told, 1100*time.Millisecond), "host-7", 0)
		mustRelease(t, lock)
		wantVacant(t, isTold(t, told, 1100*time.Millisecond))
	})
}

// Who comes when the reign has begun is told of the leader at once, and of its token with
// the next renewal.
func TestALateObserverLearnsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := <-campaigns(t, l, "a").leads
		time.Sleep(time.Second)
		told := observes(t, separateLocker(t, nodes))
		wantLeader(t, isTold(t, told, time.Second), "a", 0)
		wantLeader(t, isTold(t, told, redlock.DefaultTTL/3), "a", lock.Token())
		isQuiet(t, told, time.Minute)
	})
}

// Two candidates of one Locker do not pass the lead between them, past one of another.
func TestTheLeadGoesToOtherLockersFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		first, second := campaigns(t, l, "a"), campaigns(t, l, "a")
		other := campaigns(t, separateLocker(t, nodes), "b")
		for _, next := range []*candidate{other, second} {
			<-first.leads
			first.resign <- nil
			must(t, <-first.done)
			select {
			case lock := <-next.leads:
				next.leads <- lock
			case <-time.After(time.Second):
				t.Fatal("the lead did not go to the Locker that did not have it")
			}
			first = next
		}
	})
}

// A hint is never believed: it may say anything.
func TestForgedHintsTellObserversNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		told := observes(t, separateLocker(t, nodes))
		wantVacant(t, isTold(t, told, time.Second))
		time.Sleep(10 * time.Millisecond) // it listens on each node after its first look there
		publish := func(message string, on ...int) {
			for _, i := range on {
				if n := nodes.Node(i).Miniredis().Publish("redlock:leader:jobs", message); n != 1 {
					t.Fatalf("%d listen on node %d; want the observer", n, i)
				}
			}
		}
		publish("77 mallory0f8fad5b-d9cb-469f-a165-70867728950e", 0, 1, 2)
		synctest.Wait() // it is heard, before anything else replaces it
		publish("", 0)
		publish("nonsense", 1)
		isQuiet(t, told, 10*time.Second)
		lock := mustAcquire(t, l, "jobs")
		wantLeader(t, isTold(t, told, 1100*time.Millisecond), "", 0)
		in, err := l.Inspect(t.Context(), "jobs")
		must(t, err)
		owner, _ := in.Holder()
		publish("999999 "+owner, 0) // fewer than a quorum
		isQuiet(t, told, 10*time.Second)
		mustRelease(t, lock)
	})
}

func TestALossIsFollowedByACampaignOnlyOnceLeadHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		leads, release := make(chan *redlock.Lock, 2), make(chan struct{})
		letGo := sync.OnceFunc(func() { close(release) })
		defer letGo()
		running, most := 0, 0
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			done <- l.Campaign(ctx, "jobs", func(inner context.Context, lock *redlock.Lock) error {
				running++
				most = max(most, running)
				leads <- lock
				<-inner.Done()
				<-release // it takes its time
				running--
				return errWork
			})
		}()
		first := <-leads
		for _, n := range nodes.Nodes() {
			n.FlushAll() // all forget, so the lock is lost
		}
		<-first.Done()
		wantError(t, "the end of the first reign", first.Err(), redlock.ErrLost)
		time.Sleep(5 * time.Minute)
		lock := mustAcquire(t, other, "jobs") // nobody of the campaign is in line
		mustRelease(t, lock)
		if len(leads) > 0 || len(done) > 0 {
			t.Errorf("got a second lead, or an end, before the first lead had returned")
		}
		letGo()
		second := <-leads
		if most > 1 || second.Token() <= lock.Token() {
			t.Errorf("got %d leads at a time, and token %v after %v", most, second.Token(), lock.Token())
		}
		cancel()
		wantError(t, "Campaign", <-done, errWork)
	})
}

// etcd #21128, #22123: a campaign that was cancelled left its key, and led later.
func TestACancelledCampaignLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		a, b := campaigns(t, l, "a"), campaigns(t, other, "b")
		<-a.leads
		b.cancel() // in line
		err := <-b.done
		wantError(t, "who waited", err, context.Canceled)
		synctest.Wait()
		if left := queueKeys(nodes); len(left) > 0 {
			t.Errorf("left in line: %v", left)
		}
		a.cancel() // leading
		wantError(t, "who led", <-a.done, context.Canceled)
		synctest.Wait()
		wantNoLocks(t, nodes, "after the leader's end")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err = l.Campaign(ended, "jobs", func(context.Context, *redlock.Lock) error { t.Error("it leads"); return nil })
		wantError(t, "an ended context", err, context.Canceled)
		time.Sleep(time.Minute)
		if len(b.leads) > 0 {
			t.Error("the cancelled campaign leads")
		}
		wantNoLocks(t, nodes, "in the end")
	})
}

func TestACampaignEndsWithItsLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		c := campaigns(t, l, "a")
		<-c.leads
		must(t, l.Close())
		wantError(t, "Campaign", <-c.done, redlock.ErrClosed)
		synctest.Wait()
		wantNoLocks(t, nodes, "after Close")
		wantError(t, "a campaign of a closed Locker", l.Campaign(t.Context(), "jobs", func(context.Context, *redlock.Lock) error { return nil }), redlock.ErrClosed)
	})
}

// What lead returns is not lost with the Locker.
func TestACampaignWhoseLockerIsClosedSaysWhatLeadSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3)
		failed, leads, done := errors.New("it failed"), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- l.Campaign(t.Context(), "jobs", func(ctx context.Context, _ *redlock.Lock) error {
				close(leads)
				<-ctx.Done()
				return failed
			})
		}()
		<-leads
		must(t, l.Close())
		err := <-done
		wantError(t, "Campaign", err, redlock.ErrClosed)
		wantError(t, "Campaign", err, failed)
	})
}

func TestAPanicOfALeaderResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		func() {
			defer func() {
				if r := recover(); r != "out" {
					t.Errorf("recovered %v; want lead's own panic", r)
				}
			}()
			_ = l.Campaign(t.Context(), "jobs", func(context.Context, *redlock.Lock) error { panic("out") })
		}()
		synctest.Wait()
		wantNoLocks(t, nodes, "after the panic")
	})
}

// A leader that goes without a word is seen until its lease has ended, and followed then.
func TestADeadLeaderIsFollowedAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5)
		dying := nodes.NewClients()
		a := campaigns(t, lockerWith(t, dying, redlock.WithNodeNames(nodes.Names()...)), "a")
		<-a.leads
		b := campaigns(t, separateLocker(t, nodes), "b")
		told := observes(t, separateLocker(t, nodes))
		if s := isTold(t, told, time.Second); s.Value != "a" {
			t.Errorf("got %+v; want a to lead", s)
		}
		died := time.Now()
		for _, c := range dying {
			_ = c.Close()
		}
		next := <-b.leads
		if took := time.Since(died); took > redlock.DefaultTTL+time.Second {
			t.Errorf("the next one leads after %v; want one TTL", took)
		}
		s := isTold(t, told, 2*time.Second)
		for s.err == nil && !s.Held {
			s = isTold(t, told, 2*time.Second)
		}
		wantLeader(t, s, "b", next.Token())
	})
}

func TestObserveTellsWhatItCanNotSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		told := observes(t, other)
		wantVacant(t, isTold(t, told, time.Second))
		for _, i := range []int{0, 1} {
			must(t, nodes.Node(i).Miniredis().Set("jobs", "bm90IG91cnM="))
		}
		wantError(t, "another client's value", isTold(t, told, 1100*time.Millisecond).err, redlock.ErrForeign)
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("jobs")
			n.Miniredis().HSet("jobs", "a", "b")
		}
		isQuiet(t, told, 10*time.Second)
		for _, n := range nodes.Nodes() {
			if got := n.Miniredis().HGet("jobs", "a"); got != "b" {
				t.Errorf("another program's data: got %q; want it as it was", got)
			}
			n.Miniredis().Del("jobs")
		}
		wantVacant(t, isTold(t, told, 1100*time.Millisecond))
		nodes.Node(0).Hang()
		isQuiet(t, told, 10*time.Second)
		nodes.Node(1).Hang()
		s := isTold(t, told, 4*time.Second)
		wantError(t, "two nodes of three hang", s.err, redlock.ErrNoQuorum)
		var q *redlock.QuorumError
		if !errors.As(s.err, &q) || q.Op != "observe" || len(q.Nodes) != 3 || q.Nodes[2].Err != nil {
			t.Errorf("got %v; want what each node did", s.err)
		}
		isQuiet(t, told, 10*time.Second)
		nodes.Node(1).Resume()
		wantVacant(t, isTold(t, told, 3*time.Second))
		nodes.Node(0).Resume()
		c := campaigns(t, l, "a")
		lock := <-c.leads
		led := isTold(t, told, 3*time.Second)
		if led.Token == 0 { // the leader's word for it has not come yet (Leader.Token)
			led = isTold(t, told, redlock.DefaultTTL)
		}
		wantLeader(t, led, "a", lock.Token())
		must(t, other.Close())
		wantError(t, "a closed Locker", isTold(t, told, time.Second).err, redlock.ErrClosed)
		if _, open := <-told; open {
			t.Error("the sequence goes on behind the end of its Locker")
		}
	})
}

func TestWhatRunsForAnObserverEndsWithItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		before := 0
		for i := range 4 {
			for leader, err := range l.Observe(t.Context(), "jobs") {
				if err != nil || leader.Held {
					t.Errorf("got %+v, %v; want nobody", leader, err)
				}
				break
			}
			time.Sleep(time.Second)
			if i == 0 { // its connections are made, and stay in their pools
				before = runtime.NumGoroutine()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var last error
		for _, err := range l.Observe(ctx, "jobs") {
			last = err
		}
		wantError(t, "the last pair", last, context.DeadlineExceeded)
		time.Sleep(time.Second)
		if got := runtime.NumGoroutine(); got > before+3 { // a connection more or less; four loops have ended since
			t.Errorf("got %d goroutines; want %d as before", got, before)
		}
		calls := nodes.Node(0).Calls()
		time.Sleep(10 * time.Second)
		if more := nodes.Node(0).Calls() - calls; more > 12 {
			t.Errorf("%d calls in ten seconds; want those of the Locker itself", more)
		}
	})
}

// While another name is observed, the subscriptions go on without the one that is not.
func TestANameThatNobodyObservesAnyMoreIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		follows := func(name string) bool {
			return slices.ContainsFunc(nodes.Node(0).Miniredis().PubSubChannels("*"), func(channel string) bool { return strings.HasSuffix(channel, name) })
		}
		told := observes(t, l)
		isTold(t, told, time.Minute)
		for _, err := range l.Observe(t.Context(), "reports") {
			must(t, err)
			time.Sleep(time.Minute)
			if !follows("reports") {
				t.Error("a name that is observed is not followed")
			}
			break
		}
		time.Sleep(time.Minute)
		if follows("reports") || !follows("jobs") {
			t.Errorf("got the channels %q; want those of jobs, and none of reports", nodes.Node(0).Miniredis().PubSubChannels("*"))
		}
	})
}

// 600 names are three calls a second to each node.
func TestManyNamesAreLookedAtInFewCalls(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		const names = 600
		first := make(chan error, names)
		for i := range names {
			go func() {
				for _, err := range l.Observe(t.Context(), strings.Repeat("x", i+1)) {
					first <- err
				}
			}()
		}
		for range names {
			must(t, <-first)
		}
		time.Sleep(3 * time.Second)
		calls := nodes.Node(0).Calls()
		time.Sleep(10 * time.Second)
		if each := nodes.Node(0).Calls() - calls; each > 10*(3*7+4) {
			t.Errorf("%d commands in ten seconds; want three transactions of seven a second, and the Locker's own", each)
		}
	})
}

func TestBadElectionsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		synctest.Wait()
		sent := nodes.Node(0).Calls()
		lead := func(context.Context, *redlock.Lock) error { return nil }
		for _, name := range []string{"", "redlock:node", strings.Repeat("x", redlock.MaxResourceLength+1)} {
			wantError(t, "Campaign", l.Campaign(t.Context(), name, lead), redlock.ErrInvalidResource)
			told := 0
			for leader, err := range l.Observe(t.Context(), name) {
				told++
				wantError(t, "Observe", err, redlock.ErrInvalidResource)
				if leader != (redlock.Leader{}) {
					t.Errorf("got %+v with an error", leader)
				}
			}
			if told != 1 {
				t.Errorf("%.20q: got %d pairs; want the error alone", name, told)
			}
		}
		wantError(t, "no lead", l.Campaign(t.Context(), "jobs", nil), redlock.ErrInvalidOption)
		wantError(t, "a value of 257 bytes", l.Campaign(t.Context(), "jobs", lead, redlock.WithValue(strings.Repeat("v", 257))), redlock.ErrInvalidOption)
		if got := nodes.Node(0).Calls(); got != sent {
			t.Errorf("%d commands were sent; want none", got-sent)
		}
	})
}

// To observe a name that nobody ever held says so, and writes nothing.
func TestObservingANameThatNobodyHeldWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		time.Sleep(5 * time.Minute) // tombstones and signs of life end
		synctest.Wait()
		before := make([]string, 3)
		for i, n := range nodes.Nodes() {
			before[i] = n.Miniredis().Dump()
		}
		told := observes(t, l)
		wantVacant(t, isTold(t, told, time.Second))
		isQuiet(t, told, 10*time.Second)
		for i, n := range nodes.Nodes() {
			if got := n.Miniredis().Dump(); got != before[i] {
				t.Errorf("node %d has\n%s; want what it had:\n%s", i, got, before[i])
			}
		}
	})
}

// A name that is shared has no leader; what another program has there is told from that.
func TestSharedHoldsLeadNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lead := func(context.Context, *redlock.Lock) error { t.Error("it leads"); return nil }
		wantError(t, "a shared campaign", l.Campaign(t.Context(), "jobs", lead, redlock.WithShared()), redlock.ErrInvalidOption)
		told := observes(t, other)
		wantVacant(t, isTold(t, told, time.Second))
		beside := mustAcquire(t, l, "other-name") // read in the same call
		lock := mustAcquire(t, l, "jobs", redlock.WithShared(), redlock.WithValue("reader"))
		isQuiet(t, told, 10*time.Second)
		mustRelease(t, lock)
		isQuiet(t, told, 10*time.Second)
		mustRelease(t, beside)
		for _, n := range nodes.Nodes() {
			_, err := n.Miniredis().ZAdd("jobs", 1, "theirs")
			must(t, err)
		}
		wantError(t, "another program's sorted set", isTold(t, told, 1100*time.Millisecond).err, redlock.ErrForeign)
	})
}

// The body of a loop that does not return keeps nothing running when its Locker closes.
func TestCloseEndsWhatRunsForAnObserverWhoseBodyHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		in, out := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			var last error
			for _, err := range l.Observe(t.Context(), "jobs") {
				if last = err; err == nil {
					close(in)
					<-out
				}
			}
			ended <- last
		}()
		<-in
		must(t, l.Close())
		synctest.Wait()
		calls := nodes.Node(0).Calls()
		time.Sleep(time.Minute)
		if more := nodes.Node(0).Calls() - calls; more > 0 {
			t.Errorf("%d calls after Close; want none", more)
		}
		close(out)
		wantError(t, "the last pair", <-ended, redlock.ErrClosed)
	})
}
