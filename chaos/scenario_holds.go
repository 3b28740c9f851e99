package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Those who share a name, and one who wants it alone.
func shareScenarios() []Scenario {
	return []Scenario{sharersRenew(), sharersForgotten(), sharersMinority()}
}

func sharersRenew() Scenario {
	return Scenario{
		Name:     "sharers-renew",
		Claim:    "three share a name while nodes crash, forget, hang, are cut off, emptied, and set back to old data, the clock of one steps, and what is sent comes late, in another order, twice or never, two nodes at a time, and one waits to have it alone: each of the three has its lease through all of that, and the one who waits has the name when the last of them gives it up",
		Lesson:   "a lease of its own for each who shares: none lives by another's renewal, and those who wait do so for the living only",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Progress: soon},
		clocks:   true,
		script:   sharersThroughFaults,
	}
}

// hardships are what befalls two of the nodes at a time, one each.
var hardships = []struct {
	faults  [2]Fault
	forgets bool // one of them is to be taken in anew
}{
	{faults: [2]Fault{{Kind: Crash}, {Kind: Forget}}, forgets: true},
	{faults: [2]Fault{{Kind: Stall}, {Kind: Cut}}},
	{faults: [2]Fault{{Kind: LoseReplies}, {Kind: Flush}}, forgets: true},
	{faults: [2]Fault{{Kind: Step, Delay: 2 * scenarioLease}, {Kind: Old}}, forgets: true},
	{faults: [2]Fault{{Kind: Reorder, Delay: aWhile / 2}, {Kind: HalfOpen}}},
	{faults: [2]Fault{{Kind: Twice, Delay: aWhile / 2}, {Kind: Slow, Delay: aWhile / 2}}},
}

func sharersThroughFaults(ctx context.Context, s *scene) error {
	sharers, err := s.share(ctx, "ann", "bob", "cara")
	if err != nil {
		return err
	}
	dave, err := s.enter("dave")
	if err != nil {
		return err
	}
	if err := s.rehearse(ctx, dave); err != nil {
		return err
	}
	alone := make(chan error, 1)
	go func() { alone <- s.waitsAlone(ctx, dave, 20*scenarioLease) }()
	op, err := s.operator() //nolint:contextcheck // a Locker's own goroutines outlive every call
	if err != nil {
		return err
	}
	for i, h := range hardships {
		if err := s.suffer(ctx, h.faults, i); err != nil {
			return err
		}
		if h.forgets {
			if err := op.Cluster().Join(ctx); err != nil {
				return err
			}
			time.Sleep(aWhile) // clients that saw a step count its node again a little later
		}
		for _, t := range sharers {
			if err := t.Write(ctx); err != nil {
				return fmt.Errorf("%s after %v: %w", t.actor.Name, h.faults, err)
			}
		}
	}
	for _, t := range sharers {
		_ = t.Release(ctx)
		time.Sleep(aWhile)
	}
	return <-alone
}

// suffer has two faults befall two nodes for a while.
func (s *scene) suffer(ctx context.Context, faults [2]Fault, from int) error {
	for i := range faults {
		f := &faults[i]
		f.Node = (from + i) % len(s.stage.Names())
		if err := s.breakNow(*f); err != nil {
			return err
		}
	}
	select {
	case <-time.After(aWhile):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, f := range faults {
		if !f.Kind.Lasts() {
			continue
		}
		if err := s.mend(f); err != nil {
			return err
		}
	}
	return nil
}

// share has actors come on who share the scene's resource.
func (s *scene) share(ctx context.Context, names ...string) ([]*Tenure, error) {
	actors := make([]*actor, len(names))
	for i, name := range names {
		a, err := s.enter(name)
		if err != nil {
			return nil, err
		}
		actors[i] = a
	}
	if err := s.rehearse(ctx, actors...); err != nil {
		return nil, err
	}
	tenures := make([]*Tenure, len(names))
	for i, a := range actors {
		t, err := s.waitsToShare(ctx, a, 2*scenarioLease)
		if err != nil {
			return nil, err
		}
		tenures[i] = t
		time.Sleep(aWhile)
	}
	return tenures, nil
}

// waitsToShare has an actor wait until it shares the scene's resource.
func (s *scene) waitsToShare(ctx context.Context, a *actor, within time.Duration) (*Tenure, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return a.WaitFor(ctx, request{Resources: []string{scenarioResource}, Shared: true}, scenarioLease, func() time.Duration { return askEvery })
}

// waitsAlone has an actor wait for the scene's resource, write, and give it back.
func (s *scene) waitsAlone(ctx context.Context, a *actor, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	t, err := a.Wait(ctx, scenarioResource, scenarioLease, func() time.Duration { return askEvery })
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	err = t.Write(ctx)
	_ = t.Release(ctx) // nodes may be broken
	return err
}

func sharersForgotten() Scenario {
	return Scenario{
		Name:   "sharers-forgotten",
		Claim:  "two share a name, and three of five nodes lose their memory at once: one who wants it alone has it beside them, unless a node that forgot abstains",
		Lesson: "what holds for one holder holds for many: forgetting is the node's, so the wait is too",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameWithoutMembership, Guarded: true, Breaks: []Rule{TwoHolders}, May: []Rule{TokenOrder}, Refused: 1},
		},
		script: func(ctx context.Context, s *scene) error {
			sharers, err := s.share(ctx, "ann", "bob")
			if err != nil {
				return err
			}
			cara, err := s.enter("cara") // who is new
			if err != nil {
				return err
			}
			for _, t := range sharers {
				if err := s.prolong(ctx, t); err != nil {
					return err
				}
			}
			for _, n := range aMajority {
				if err := s.breakNow(Fault{Kind: Flush, Node: n}); err != nil {
					return err
				}
			}
			s.rival(ctx, cara, sharers[0])
			sharers[1].Remaining()
			return nil
		},
	}
}

func sharersMinority() Scenario {
	return Scenario{
		Name:     "sharers-minority",
		Claim:    "two wait to share what a holder has, and two of five nodes lose the holder's key: those would let the two in, which is no quorum, and giving that back wakes nobody who wants the same, so that the two ask now and then and do not call each other without end",
		Lesson:   "what one gives back of a minority is no news to those who want the same beside him",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Progress: soon},
		script:   sharersOfAMinority,
	}
}

// mostScripts is how many scripts two who wait may have each node run in a second, one who
// asks again and again among them.
const mostScripts = 40

func sharersOfAMinority(ctx context.Context, s *scene) error {
	ann, err := s.enter("ann")
	if err != nil {
		return err
	}
	if err := s.rehearse(ctx, ann); err != nil {
		return err
	}
	first, err := s.holds(ctx, ann)
	if err != nil {
		return err
	}
	var sent scripts
	work, done := sync.WaitGroup{}, make(chan error, 2)
	for _, name := range []string{"bob", "cara"} {
		a, err := s.enterWith(name, counted{s.stage, &sent})
		if err != nil {
			return err
		}
		if err := s.rehearse(ctx, a); err != nil {
			return err
		}
		work.Go(func() { done <- s.sharesOnce(ctx, a) })
	}
	time.Sleep(2 * aWhile) // they wait on all nodes
	for _, n := range []int{3, 4} {
		for _, f := range []Fault{{Kind: Cut, Client: ann.Name, Node: n}, {Kind: Delete, Node: n, Key: scenarioResource}} {
			if err := s.breakNow(f); err != nil {
				return err
			}
		}
	}
	sent.Store(0)
	const during = 2 * scenarioLease
	time.Sleep(during)
	n, most := sent.Load(), mostScripts*int64(len(s.stage.Names()))*int64(during/time.Second)
	err = first.Write(ctx)
	_ = first.Release(ctx) // two nodes do not hear of it
	work.Wait()
	if n > most {
		err = errors.Join(err, fmt.Errorf("two who wait had the nodes run %d scripts in %v; at most %d", n, during, most))
	}
	return errors.Join(err, <-done, <-done)
}

// sharesOnce has an actor wait to share, write, and give up.
func (s *scene) sharesOnce(ctx context.Context, a *actor) error {
	t, err := s.waitsToShare(ctx, a, 10*scenarioLease)
	if err != nil {
		return err
	}
	time.Sleep(aWhile)
	err = t.Write(ctx)
	_ = t.Release(ctx) // what it leaves behind is the trace's matter
	return err
}

// scripts counts the scripts that clients have nodes run.
type scripts struct{ atomic.Int64 }

// counted is a stage whose clients' scripts are counted.
type counted struct {
	Stage

	sent *scripts
}

// Connect is [Stage.Connect].
func (c counted) Connect(client string) ([]redis.UniversalClient, error) {
	nodes, err := c.Stage.Connect(client)
	if err == nil {
		overhear(nodes, ears{sent: func(data []byte) {
			data = bytes.ToLower(data)
			c.sent.Add(int64(bytes.Count(data, []byte("\r\nevalsha\r\n")) + bytes.Count(data, []byte("\r\neval\r\n"))))
		}})
	}
	return nodes, err
}

// Those who want several names at once.
func setScenarios() []Scenario { return []Scenario{setHolderDies()} }

// ledger stands before the scene's resource, in the order in which sets are taken.
const ledger = "ledger"

func setHolderDies() Scenario {
	return Scenario{
		Name:     "set-holder-dies",
		Claim:    "a client wants two names at once, has the first and waits for the second when it dies: one who wants the first has it when that lease is over, and the next who wants both has both, as soon as the second is given up",
		Lesson:   "what a set holds while it waits is a lease like any other: it ends with who had it, and no order of names is left behind",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Progress: scenarioLease + soon},
		script:   deathWithinASet,
	}
}

func deathWithinASet(ctx context.Context, s *scene) error {
	l, err := s.line(ctx) // ann holds, nobody waits
	if err != nil {
		return err
	}
	both := request{Resources: []string{scenarioResource, ledger}}
	bob, err := l.wants(ctx, "bob", both)
	if err != nil {
		return err
	}
	cara, err := l.wants(ctx, "cara", request{Resources: []string{ledger}})
	if err != nil {
		return err
	}
	if err := l.dies(bob); err != nil {
		return err
	}
	if err := l.keepUntil(ctx, func(context.Context) error { return <-cara.done }); err != nil {
		return err
	}
	cara.gone = true // it has had its turn
	if _, err := l.wants(ctx, "dave", both); err != nil {
		return err
	}
	return l.handOver(ctx)
}

// wants has one more come on, and wait for something.
func (l *line) wants(ctx context.Context, name string, w request) (*inLineFor, error) {
	a, err := l.scene.enter(name)
	if err != nil {
		return nil, err
	}
	if err := l.scene.rehearse(ctx, a); err != nil {
		return nil, err
	}
	waiting, end := context.WithTimeout(ctx, 10*scenarioLease)
	one := &inLineFor{actor: a, end: end, wants: w, done: make(chan error, 1)}
	l.waits = append(l.waits, one)
	go func() {
		defer end()
		t, err := a.WaitFor(waiting, w, scenarioLease, func() time.Duration { return askEvery })
		if err == nil {
			time.Sleep(aWhile / 10)
			err = t.Write(waiting)
			err = errors.Join(err, t.Release(waiting))
		}
		one.done <- err
	}()
	return one, l.keep(ctx, aWhile)
}

// Those who have a slot of a name.
func slotScenarios() []Scenario { return []Scenario{slotHolderDies()} }

func slotHolderDies() Scenario {
	return Scenario{
		Name:     "slot-holder-dies",
		Claim:    "two clients have the two slots of a name, two more wait, and one of the holders dies: the first who waits has that slot as soon as its lease is over, and the second the other one, when it is given up",
		Lesson:   "a permit that is a lease comes back by itself: nobody has to count who is still alive",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		script:   deathInASlot,
	}
}

func deathInASlot(ctx context.Context, s *scene) error {
	slot := request{Resources: []string{scenarioResource}, Limit: 2}
	var holders []*Tenure
	for _, name := range []string{"ann", "bob"} {
		a, err := s.enter(name)
		if err != nil {
			return err
		}
		if err := s.rehearse(ctx, a); err != nil {
			return err
		}
		t, err := s.waitsFor(ctx, a, slot)
		if err != nil {
			return err
		}
		holders = append(holders, t)
	}
	l := &line{scene: s, holder: holders[0]}
	var waits []*inLineFor
	for _, name := range []string{"cara", "dave"} {
		w, err := l.wants(ctx, name, slot)
		if err != nil {
			return err
		}
		waits = append(waits, w)
	}
	if err := s.dies("bob"); err != nil {
		return err
	}
	if err := l.keepUntil(ctx, func(context.Context) error { return <-waits[0].done }); err != nil {
		return err
	}
	if holders[1].Remaining() > 0 {
		return errors.New("cara had a slot while both were held")
	}
	waits[0].gone = true // it has had its turn
	return l.handOver(ctx)
}

// waitsFor has an actor wait until it has something.
func (s *scene) waitsFor(ctx context.Context, a *actor, w request) (*Tenure, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*scenarioLease)
	defer cancel()
	return a.WaitFor(ctx, w, scenarioLease, nil)
}

// dies ends a client's connections for good.
func (s *scene) dies(client string) error {
	for _, k := range []Break{Refuse, Reset} {
		if err := s.breakNow(Fault{Kind: k, Client: client, Node: Everything}); err != nil {
			return err
		}
	}
	return nil
}
