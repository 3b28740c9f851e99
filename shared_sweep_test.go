package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// One who waits to share goes at the k-th command that some nodes are sent after a release,
// for every k, no matter what becomes of that command there: those who share beside it and the
// one behind have the name long before anybody's lease is over, and nothing is left behind.

// sharedDepartures are the ways to go; each makes its scene, with the holder's lock.
var sharedDepartures = map[string]func(d *departure){
	"the leader's context ends": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.sharing(leaver)
	},
	"the leader's Locker is closed": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
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
		d.lock = mustAcquire(d.T, holder, "orders/42", redlock.WithShared())
		d.leaver, d.goes = d.wants(leaver)
		d.bystander(d.process())
	},
}

// together has goroutines of one process stand in line by one place, behind the holder: they
// come while their process has the name.
func (d *departure) together(come func(l *redlock.Locker)) {
	l := d.process()
	before := mustAcquire(d.T, l, "orders/42")
	holder, _ := d.wants(d.process())
	come(l)
	mustRelease(d.T, before)
	d.lock = got(d.T, holder).lock
	synctest.Wait()
}

// sharing is wants of one who shares.
func (d *departure) sharing(l *redlock.Locker) (<-chan gained, func()) {
	ctx, cancel := context.WithCancel(d.Context())
	done := make(chan gained, 1)
	go func() {
		lock, err := l.Acquire(ctx, "orders/42", redlock.WithShared())
		done <- gained{lock, err, time.Now()}
	}()
	synctest.Wait()
	return done, cancel
}

// bystander shares beside the leaver, and releases as soon as it has it.
func (d *departure) bystander(l *redlock.Locker) {
	from, _ := d.sharing(l)
	go func() {
		switch g := <-from; {
		case g.err == nil:
			_ = g.lock.Release(context.Background()) // the fault may keep it from being confirmed
		case !errors.Is(g.err, redlock.ErrClosed):
			d.Errorf("one who shares beside: %v", g.err)
		}
	}()
}

// Without REDLOCK_TEST=deep it is a cut: replies lost on two nodes, at every eighth command.
func TestSearchDeparturesOfThoseWhoShare(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	fates := map[string]redlocktest.Verdict{"lose reply": redlocktest.LoseReply()}
	if testkit.Deep() {
		fates = maps.Clone(sweptFates)
		fates["pass"] = redlocktest.Pass()
	}
	for how, scene := range sharedDepartures {
		for _, faulty := range faultyNodes {
			for fate, verdict := range fates {
				if !testkit.Deep() && len(faulty) != 2 {
					continue
				}
				for k := 1; ; k += testkit.Of(8, 1) {
					if k > 60 {
						t.Fatalf("%s, %v %s: still commands at the 60th; want an end", how, faulty, fate)
					}
					d := departure{name: fmt.Sprintf("%s, nodes %v %s at command %d", how, faulty, fate, k), ordered: fate == "pass", shares: true}
					fired := d.play(t, scene, faulty, k, verdict)
					if !fired || t.Failed() {
						break
					}
				}
			}
		}
	}
}
