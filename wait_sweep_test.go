package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// A waiter goes at the k-th command that some nodes are sent after the holder has
// released, for every k, no matter what becomes of that command there: the next in line
// has the lock long before anybody's lease is over, and nothing is left behind.

// departure is one run: a holder, one who waits and goes, and the next in line.
type departure struct {
	*testing.T
	name    string
	nodes   *redlocktest.Cluster
	lock    *redlock.Lock
	leaver  <-chan gained
	goes    func() // makes the leaver go
	next    <-chan gained
	ordered bool // nothing is lost on the way
	mute    bool // who goes says so once, and sees nothing through
	crashed bool // he says nothing
	shares  bool // somebody waits to share: a mark says so for longer
}

// departures are the ways to go; each makes its scene, with the holder's lock.
var departures = map[string]func(d *departure){
	"the head's context ends": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.wants(leaver)
	},
	"the head's Locker is closed": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
		d.leaver, _ = d.wants(leaver)
		d.goes, d.mute = func() { _ = leaver.Close() }, true
	},
	"the head is cut off for good": func(d *departure) {
		holder := d.process()
		clients := d.nodes.NewClients()
		leaver := lockerWith(d.T, clients, redlock.WithNodeNames(d.nodes.Names()...), redlock.WithoutMembership())
		warm(d.T, leaver)
		d.lock = mustAcquire(d.T, holder, "orders/42")
		var end func()
		d.leaver, end = d.wants(leaver)
		d.goes, d.mute, d.crashed = func() { closeAll(clients); end() }, true, true
	},
	"the next goroutine's context ends": func(d *departure) {
		holder := d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.wants(holder)
	},
	"the head's first goroutine goes, another stays": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.wants(leaver)
		second, _ := d.wants(leaver)
		go func() {
			if g := <-second; g.err == nil {
				_ = g.lock.Release(context.Background())
			} else {
				d.Errorf("the leaver's other goroutine: %v", g.err)
			}
		}()
	},
}

func closeAll(clients []redis.UniversalClient) {
	for _, c := range clients {
		_ = c.Close()
	}
}

// process is one more Locker, ready to vote. It has no membership, which has
// proofs of its own: founding takes longer than all the rest.
func (d *departure) process() *redlock.Locker {
	d.Helper()
	l := separateLocker(d.T, d.nodes, redlock.WithoutMembership())
	warm(d.T, l)
	return l
}

// wants is a goroutine that acquires, once it waits, and what ends its wait.
func (d *departure) wants(l *redlock.Locker) (<-chan gained, func()) {
	ctx, cancel := context.WithCancel(d.Context())
	done := make(chan gained, 1)
	go func() {
		lock, err := l.Acquire(ctx, "orders/42")
		done <- gained{lock, err, time.Now()}
	}()
	synctest.Wait()
	return done, cancel
}

// faultyNodes are the nodes that fail at the k-th command, of three.
var faultyNodes = [][]int{{0}, {1, 2}, {0, 1, 2}}

// Without REDLOCK_TEST=deep it is a cut: replies lost on two nodes, at every third command.
func TestSearchDeparturesOfWaiters(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	fates := map[string]redlocktest.Verdict{"lose reply": redlocktest.LoseReply()}
	if testkit.Deep() {
		fates = maps.Clone(sweptFates)
		fates["pass"] = redlocktest.Pass()
	}
	for how, scene := range departures {
		for _, faulty := range faultyNodes {
			for fate, verdict := range fates {
				if !testkit.Deep() && len(faulty) != 2 {
					continue
				}
				for k := 1; ; k += testkit.Of(3, 1) {
					if k > 40 {
						t.Fatalf("%s, %v %s: still commands at the 40th; want an end", how, faulty, fate)
					}
					d := departure{name: fmt.Sprintf("%s, nodes %v %s at command %d", how, faulty, fate, k), ordered: fate == "pass"}
					fired := d.play(t, scene, faulty, k, verdict)
					if !fired || t.Failed() {
						break
					}
				}
			}
		}
	}
}

// play makes one run, and tells whether the nodes were sent so many commands.
func (d *departure) play(t *testing.T, scene func(*departure), faulty []int, k int, verdict redlocktest.Verdict) (fired bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d.T, d.nodes = t, redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		scene(d)
		d.next, _ = d.wants(d.process())
		fired = d.run(faulty, k, verdict)
		if t.Failed() {
			t.Logf("this was: %s", d.name)
		}
	})
	return fired
}

// run makes the leaver go at the k-th command of the nodes, and sees what becomes of
// the others.
func (d *departure) run(faulty []int, k int, verdict redlocktest.Verdict) (fired bool) {
	var mu sync.Mutex
	gone := make(chan struct{})
	for _, i := range faulty {
		calls := 0
		d.nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
			mu.Lock()
			defer mu.Unlock()
			if args[0] == "SUBSCRIBE" { // the in-process server never ends one whose reply is lost
				return redlocktest.Pass()
			}
			if calls++; calls != k {
				return redlocktest.Pass()
			}
			if !fired {
				fired = true
				go func() {
					defer close(gone)
					d.goes()
				}()
			}
			return verdict
		})
	}
	released := time.Now()
	_ = d.lock.Release(d.Context()) // the fault may keep it from being confirmed
	g := <-d.leaver
	if g.err == nil {
		_ = g.lock.Release(d.Context())
	} else if !errors.Is(g.err, context.Canceled) && !errors.Is(g.err, redlock.ErrClosed) {
		d.Errorf("the leaver: %v", g.err)
	}
	limit := 1500 * time.Millisecond // two node timeouts and two rests
	switch {
	case d.crashed, d.mute && len(faulty) > 1: // he may have taken the lock with him
		limit += redlock.DefaultTTL
	case d.ordered:
		limit = 100 * time.Millisecond
	}
	d.finish(released, limit)
	mu.Lock()
	defer mu.Unlock()
	if fired {
		<-gone
	} else {
		d.goes()
	}
	return fired
}

// finish lets the next in line take the lock, and sees what is left behind.
func (d *departure) finish(released time.Time, limit time.Duration) {
	d.Helper()
	g := <-d.next
	if g.err != nil {
		d.Errorf("the next in line: %v", g.err)
		return
	}
	if took := g.at.Sub(released); took > limit {
		d.Errorf("the next in line had it after %v; want within %v", took, limit)
	}
	_ = g.lock.Release(d.Context())
	synctest.Wait()
	for _, n := range d.nodes.Nodes() {
		n.Intercept(nil)
	}
	time.Sleep(2 * redlock.DefaultTTL) // a release that was lost, and every tombstone
	if d.mute || d.shares {
		time.Sleep(5 * time.Minute) // what is left of a queue that nobody stands in
	}
	if keys := queueKeys(d.nodes); keys != nil {
		d.Errorf("left behind: %v", keys)
	}
	wantOnlyRecords(d.T, d.nodes, "at the end")
}
