package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// The line of those who want to share a name, beside that of those who want to be alone.

// standsToShare acquires orders/42 beside others in a goroutine, and returns once it waits.
func standsToShare(t *testing.T, l *redlock.Locker, opts ...redlock.AcquireOption) <-chan locktest.Gained {
	t.Helper()
	return locktest.Wants(t, l, append(opts, redlock.WithShared())...)
}

// wantLinesEmpty checks, once all have released, that nobody stands in line, and no lock
// is there.
func wantLinesEmpty(t *testing.T, nodes *redlocktest.Cluster) {
	t.Helper()
	synctest.Wait()
	if keys := locktest.QueueKeys(nodes); keys != nil {
		t.Errorf("left behind: %v", keys)
	}
	locktest.WantNoLocks(t, nodes, "in the end")
}

// called is within which one has a name who is called, and those who are called after it.
// On a busy machine one may ask between the releases of two nodes, and asks again after two
// milliseconds. Who is not called looks after a second.
const called = 50 * time.Millisecond

// wantTogether checks that all of them were called at this moment, and lets them go.
func wantTogether(t *testing.T, when time.Time, all ...<-chan locktest.Gained) {
	t.Helper()
	time.Sleep(called / 10)
	synctest.Wait()
	var locks []*redlock.Lock
	for i, from := range all {
		select {
		case g := <-from:
			testkit.Must(t, g.Err)
			if g.At.Sub(when) > called || g.Lock.Token() != max(g.Lock.Token(), locks0(locks)) {
				t.Errorf("sharer %d had it %v later, with token %v; want at once", i, g.At.Sub(when), g.Lock.Token())
			}
			locks = append(locks, g.Lock)
		default:
			t.Fatalf("sharer %d of %d does not have it; want all to go together", i, len(all))
		}
	}
	for _, lock := range locks {
		locktest.MustRelease(t, lock)
	}
}

func locks0(locks []*redlock.Lock) redlock.Token {
	if locks == nil {
		return 0
	}
	return locks[0].Token()
}

func TestAllWhoWaitToShareGoTogether(t *testing.T) {
	testkit.Unraced(t)
	for _, n := range []int{1, 2, 3, 5} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, n)
			lock := locktest.MustAcquire(t, l, "orders/42")
			var all []<-chan locktest.Gained
			for range 6 { // processes
				all = append(all, standsToShare(t, locktest.SeparateLocker(t, nodes)))
			}
			writer := locktest.Wants(t, locktest.SeparateLocker(t, nodes))
			late := standsToShare(t, locktest.SeparateLocker(t, nodes))
			time.Sleep(10 * time.Second)
			locktest.WantWaiting(t, "while it is held alone", slices.Concat(all, []<-chan locktest.Gained{writer, late})...)
			released := time.Now()
			locktest.MustRelease(t, lock)
			synctest.Wait()
			locktest.WantWaiting(t, "before the writer", writer, late)
			wantTogether(t, released, all...)
			synctest.Wait()
			g := locktest.Got(t, writer)
			if took := g.At.Sub(released); took > called {
				t.Errorf("%d nodes: the writer had it %v after the last sharer; want it called", n, took)
			}
			locktest.WantWaiting(t, "beside the writer", late)
			locktest.MustRelease(t, g.Lock)
			synctest.Wait()
			wantTogether(t, released, late)
			wantLinesEmpty(t, nodes)
		})
	}
}

// A thousand goroutines that wait to share cost the nodes as much as one.
func TestThoseWhoWaitToShareHaveOneEntryAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, l)
		locktest.Warm(t, other)
		lock := locktest.MustAcquire(t, l, "orders/42")
		synctest.Wait() // all nodes have it
		var all []<-chan locktest.Gained
		for range 50 {
			all = append(all, standsToShare(t, other))
		}
		time.Sleep(3 * time.Second)
		for i, n := range nodes.Nodes() {
			line, err := n.Miniredis().ZMembers("redlock:sharers:orders/42")
			testkit.Must(t, err)
			if len(line) != 1 {
				t.Errorf("node %d: %d entries for 50 goroutines of a process; want one", i, len(line))
			}
		}
		count := locktest.CountSent(nodes)
		time.Sleep(10 * time.Second)
		for i := range nodes.Nodes() {
			if asks, looks := count(i, "share"), count(i, "look"); asks != 0 || looks > 40 {
				t.Errorf("node %d: %d asks and %d looks in 10s of waiting; want none, and those of one", i, asks, looks)
			}
		}
		released := time.Now()
		locktest.MustRelease(t, lock)
		synctest.Wait()
		wantTogether(t, released, all...)
		synctest.Wait()
		for i := range nodes.Nodes() { // one leads, then 49 go in batches of 32
			if asks := count(i, "share"); asks > 6 {
				t.Errorf("node %d: %d asks when it was free; want a few for all", i, asks)
			}
		}
		wantLinesEmpty(t, nodes)
	})
}

// Readers that overlap all the time, in several processes, let a writer have its turn.
func TestAWriterAmongReadersHasItsTurn(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		const hold = 100 * time.Millisecond
		l, nodes := locktest.NewLocker(t, 5)
		ctx, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		reads := 0
		var mu sync.Mutex
		for range 4 {
			other := locktest.SeparateLocker(t, nodes)
			locktest.Warm(t, other)
			for i := range 8 {
				readers.Go(func() {
					time.Sleep(time.Duration(i) * hold / 8) // they overlap
					for ctx.Err() == nil {
						lock, err := other.Acquire(ctx, "orders/42", redlock.WithShared())
						if err != nil {
							if !errors.Is(err, context.Canceled) {
								t.Error(err)
							}
							return
						}
						mu.Lock()
						reads++
						mu.Unlock()
						time.Sleep(hold)
						if err := lock.Release(context.Background()); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		time.Sleep(time.Second)
		for range 20 {
			began := time.Now()
			lock := locktest.MustAcquire(t, l, "orders/42")
			if took := time.Since(began); took > 2*hold {
				t.Errorf("the writer waited %v; want no longer than the holds before it, of %v", took, hold)
			}
			mu.Lock()
			before := reads
			mu.Unlock()
			time.Sleep(hold)
			mu.Lock()
			if reads != before {
				t.Errorf("%d read while it was written", reads-before)
			}
			mu.Unlock()
			locktest.MustRelease(t, lock)
			time.Sleep(hold / 2)
			mu.Lock()
			if reads-before < 32 {
				t.Errorf("%d of 32 readers went after the writer; want all", reads-before)
			}
			mu.Unlock()
		}
		stop()
		readers.Wait()
		wantLinesEmpty(t, nodes)
	})
}

// heldUp is a context that holds up Acquire's second look at it. A look calls Err twice, so
// its third call is the one.
type heldUp struct {
	context.Context //nolint:containedctx // it is one
	looks           atomic.Int64
	gate            chan struct{}
}

func (c *heldUp) Err() error {
	if c.looks.Add(1) == 3 {
		<-c.gate
	}
	return c.Context.Err()
}

// One who may ask beside others, and is slow to, does not ask by the place that their leader
// has taken meanwhile: the nodes would call it in the leader's stead, and nobody would wake
// the leader.
func TestWhoIsSlowToShareLeavesTheLeadToTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		other := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, other, "orders/42")
		slow := &heldUp{Context: t.Context(), gate: make(chan struct{})}
		follower := locktest.WantsUnder(slow, l, redlock.WithShared()) // it has its turn, and is about to ask
		leader := standsToShare(t, l)
		var asked atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if locktest.ScriptOf(args) == "share" {
					asked.Add(1)
				}
				return redlocktest.Pass()
			})
		}
		close(slow.gate)
		synctest.Wait()
		if n := asked.Load(); n < 3 || n > 5 { // three refusals are enough
			t.Errorf("%d nodes were asked by the slow one; want a quorum: it was to be admitted before there was a leader", n)
		}
		released := time.Now()
		locktest.MustRelease(t, lock)
		synctest.Wait()
		wantTogether(t, released, leader, follower)
		wantLinesEmpty(t, nodes)
	})
}

// Writers that always want it, in two processes and of several goroutines each, let a
// reader have its turn.
func TestAReaderAmongWritersHasItsTurn(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		const hold = 100 * time.Millisecond
		l, nodes := locktest.NewLocker(t, 5)
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for range 2 {
			other := locktest.SeparateLocker(t, nodes)
			for range 4 {
				writers.Go(func() {
					for ctx.Err() == nil {
						lock, err := other.Acquire(ctx, "orders/42")
						if err != nil {
							return
						}
						time.Sleep(hold)
						_ = lock.Release(context.Background()) // not what is tested
					}
				})
			}
		}
		time.Sleep(time.Second)
		for range 5 {
			began := time.Now()
			lock := locktest.Shares(t, l)
			if took := time.Since(began); took > 17*hold { // a turn of 8 holds in each process
				t.Errorf("the reader waited %v; want no more than a turn of each process, of 8 holds", took)
			}
			locktest.MustRelease(t, lock)
			time.Sleep(hold)
		}
		stop()
		writers.Wait()
		wantLinesEmpty(t, nodes)
	})
}

// Within a Locker, both kinds stand in one line, and sharers who stand together go so.
func TestBothKindsOfALockerStandInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		lock := locktest.MustAcquire(t, l, "orders/42")
		first := []<-chan locktest.Gained{standsToShare(t, l), standsToShare(t, l)}
		writer := locktest.Wants(t, l)
		second := []<-chan locktest.Gained{standsToShare(t, l), standsToShare(t, l), standsToShare(t, l)}
		last := locktest.Wants(t, l)
		now := time.Now()
		locktest.MustRelease(t, lock)
		synctest.Wait()
		locktest.WantWaiting(t, "behind the first who share", append(second, writer, last)...)
		time.Sleep(time.Minute)
		locktest.WantWaiting(t, "while it is shared", append(second, writer, last)...)
		wantTogether(t, now, first...)
		synctest.Wait()
		locktest.WantWaiting(t, "beside the writer", append(second, last)...)
		now = time.Now()
		locktest.MustRelease(t, locktest.Got(t, writer).Lock)
		synctest.Wait()
		wantTogether(t, now, second...)
		synctest.Wait()
		locktest.MustRelease(t, locktest.Got(t, last).Lock)
		wantLinesEmpty(t, nodes)
	})
}

// Processes have their turns in the order in which they came, no matter their kind; those
// who share and stand next to each other go together.
func TestBothKindsHaveTheirTurnsInOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		lock := locktest.MustAcquire(t, l, "orders/42")
		stand := func(kinds string) (all []<-chan locktest.Gained) {
			for _, k := range kinds {
				other := locktest.SeparateLocker(t, nodes)
				if k == 's' {
					all = append(all, standsToShare(t, other))
				} else {
					all = append(all, locktest.Wants(t, other))
				}
			}
			return all
		}
		all := stand("xsssxxssx")
		now := time.Now()
		locktest.MustRelease(t, lock)
		for _, turn := range [][]<-chan locktest.Gained{all[:1], all[1:4], all[4:5], all[5:6], all[6:8], all[8:]} {
			synctest.Wait()
			locktest.WantWaiting(t, "behind", all[slices.Index(all, turn[len(turn)-1])+1:]...)
			wantTogether(t, now, turn...)
		}
		wantLinesEmpty(t, nodes)
	})
}

// Those who share in one process overlap all the time; one of another process who wants to
// be alone has its turn, though their process has a place before it.
func TestOverlappingSharersOfAProcessLetAnotherGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		readers, writer := locktest.SeparateLocker(t, nodes), locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42")
		first := standsToShare(t, readers) // it takes a place
		alone := locktest.Wants(t, writer)
		waiting := standsToShare(t, readers) // the place is not for it
		locktest.MustRelease(t, lock)
		one := locktest.Got(t, first)
		later := standsToShare(t, readers)
		time.Sleep(time.Second)
		locktest.WantWaiting(t, "while an earlier one shares", alone, waiting, later)
		now := time.Now()
		locktest.MustRelease(t, one.Lock)
		synctest.Wait()
		locktest.WantWaiting(t, "behind who came before", waiting, later)
		wantTogether(t, now, alone)
		synctest.Wait()
		wantTogether(t, now, waiting, later)
		wantLinesEmpty(t, nodes)
	})
}

// Who waits to be alone leaves, while others share: those who wait to share behind it go
// at once, and not when those who share are done.
func TestWhoLeavesWhileOthersShareWakesSharersBehind(t *testing.T) {
	testkit.Unraced(t)
	for _, how := range []string{"its context ends", "its Locker is closed"} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 5)
			held := locktest.Shares(t, l)
			leaver := locktest.SeparateLocker(t, nodes)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := leaver.Acquire(ctx, "orders/42")
				failed <- err
			}()
			synctest.Wait()
			behind := []<-chan locktest.Gained{standsToShare(t, locktest.SeparateLocker(t, nodes)), standsToShare(t, locktest.SeparateLocker(t, nodes)), standsToShare(t, l)}
			time.Sleep(time.Minute)
			locktest.WantWaiting(t, "behind one who waits", behind...)
			now := time.Now()
			if how == "its context ends" {
				cancel()
			} else {
				testkit.Must(t, leaver.Close())
			}
			if err := <-failed; err == nil {
				t.Fatal("the leaver has it")
			}
			synctest.Wait()
			wantTogether(t, now, behind...)
			testkit.Must(t, held.Err())
			locktest.MustRelease(t, held)
			cancel()
			wantLinesEmpty(t, nodes)
		})
	}
}

// Who waits to be alone dies while others share, and nobody says so: who waits to share
// behind it finds it dead.
func TestADeadWaiterKeepsSharersForThreeSeconds(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		held := locktest.Shares(t, l)
		clients := nodes.NewClients()
		dead := locktest.LockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		alone := locktest.Wants(t, dead)
		behind := []<-chan locktest.Gained{standsToShare(t, locktest.SeparateLocker(t, nodes)), standsToShare(t, locktest.SeparateLocker(t, nodes)), standsToShare(t, l)}
		time.Sleep(10 * time.Second)
		locktest.WantWaiting(t, "behind one who lives", append(behind, alone)...)
		_, err := locktest.SeparateLocker(t, nodes).TryAcquire(t.Context(), "orders/42", redlock.WithShared())
		locktest.WantText(t, "one who would share", fmt.Sprint(err), "or shared while one waits to hold it alone")
		died := time.Now()
		locktest.CloseAll(clients)
		for i, from := range behind {
			g := locktest.Got(t, from)
			if took := g.At.Sub(died); took < 2*time.Second || took > 4500*time.Millisecond {
				t.Errorf("sharer %d went %v after the one before it died; want its sign of life, and a look", i, took)
			}
			defer locktest.MustRelease(t, g.Lock)
		}
		testkit.Must(t, held.Err())
		locktest.MustRelease(t, held)
	})
}

// The same where one node lacks the entry of the one that dies. That node takes the next
// for the first in line, who need not look often: a release calls it.
func TestOneNodeAloneMakesNobodyTheFirstInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		locktest.Warm(t, l) // else another node may lack an entry as well
		held := locktest.Shares(t, l)
		synctest.Wait()
		clients := nodes.NewClients()
		locktest.Wants(t, locktest.LockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...)))
		nodes.Nodes()[0].Miniredis().Del("redlock:queue:orders/42")
		behind := standsToShare(t, locktest.SeparateLocker(t, nodes))
		died := time.Now()
		locktest.CloseAll(clients)
		g := locktest.Got(t, behind)
		if took := g.At.Sub(died); took > 4500*time.Millisecond {
			t.Errorf("got the lock %v after the one before died; want its sign of life, and a look", took)
		}
		locktest.MustRelease(t, g.Lock)
		locktest.MustRelease(t, held)
	})
}

// One who waits to share goes at the k-th command that some nodes are sent after a release,
// for every k, no matter what becomes of that command there: those who share beside it and the
// one behind have the name long before anybody's lease is over, and nothing is left behind.

// sharedDepartures are the ways to go; each makes its scene, with the holder's lock.
var sharedDepartures = map[string]func(d *departure){
	"the leader's context ends": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = locktest.MustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.sharing(leaver)
	},
	"the leader's Locker is closed": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = locktest.MustAcquire(d.T, holder, "orders/42")
		d.leaver, _ = d.sharing(leaver)
		d.goes, d.mute = func() { _ = leaver.Close() }, true
	},
	"one who follows goes": func(d *departure) {
		d.together(func(l *redlock.Locker) {
			d.bystander(l)
			d.leaver, d.goes = d.sharing(l)
			d.bystander(l)
		})
	},
	"the leader goes, and others follow": func(d *departure) {
		d.together(func(l *redlock.Locker) {
			d.leaver, d.goes = d.sharing(l)
			d.bystander(l)
			d.bystander(l)
		})
	},
	"who waits to be alone goes while others share": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = locktest.MustAcquire(d.T, holder, "orders/42", redlock.WithShared())
		d.leaver, d.goes = d.wants(leaver)
		d.bystander(d.process())
	},
}

// together has goroutines of one process stand in line by one place, behind the holder: they
// come while their process has the name.
func (d *departure) together(come func(l *redlock.Locker)) {
	l := d.process()
	before := locktest.MustAcquire(d.T, l, "orders/42")
	holder, _ := d.wants(d.process())
	come(l)
	locktest.MustRelease(d.T, before)
	d.lock = locktest.Got(d.T, holder).Lock
	synctest.Wait()
}

// sharing is wants of one who shares.
func (d *departure) sharing(l *redlock.Locker) (<-chan locktest.Gained, func()) {
	ctx, cancel := context.WithCancel(d.Context())
	done := make(chan locktest.Gained, 1)
	go func() {
		lock, err := l.Acquire(ctx, "orders/42", redlock.WithShared())
		done <- locktest.Gained{Lock: lock, Err: err, At: time.Now()}
	}()
	synctest.Wait()
	return done, cancel
}

// bystander shares beside the leaver, and releases as soon as it has it.
func (d *departure) bystander(l *redlock.Locker) {
	from, _ := d.sharing(l)
	go func() {
		switch g := <-from; {
		case g.Err == nil:
			_ = g.Lock.Release(context.Background()) // the fault may keep it from being confirmed
		case !errors.Is(g.Err, redlock.ErrClosed):
			d.Errorf("one who shares beside: %v", g.Err)
		}
	}()
}

// Without REDLOCK_TEST=deep it is a cut: replies lost on two nodes, at every eighth command.
func TestSearchDeparturesOfThoseWhoShare(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	searchDepartures(t, sharedDepartures, testkit.Of(8, 1), 60, true)
}
