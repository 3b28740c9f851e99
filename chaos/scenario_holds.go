package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Clients that share a name, and one that wants it alone.
var shareScenarios = []Scenario{
	{
		Name:     "sharers-renew",
		Claim:    "three share a name while nodes crash, forget, hang, are cut off, emptied, and set back to old data, the clock of one steps, and what is sent comes late, in another order, twice or never, two nodes at a time, and one waits to have it alone: each of the three has its lease through all of that, and the one who waits has the name when the last of them gives it up",
		Lesson:   "a lease of its own for each who shares: none lives by another's renewal, and those who wait do so for the living only",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Progress: soon},
		clocks:   true,
		script:   sharersRenew,
	},
	{
		Name:     "sharers-forgotten",
		Claim:    "two share a name, and three of five nodes lose their memory at once: one who wants it alone has it beside them, unless a node that forgot abstains",
		Lesson:   "what holds for one holder holds for many: forgetting is the node's, so the wait is too",
		Showings: slices.Concat(guarded(trace.NameRedlock), otherTokens),
		script:   sharersForgotten,
	},
	{
		Name:     "sharers-minority",
		Claim:    "two wait to share what a holder has, and two of five nodes lose the holder's key: those would let the two in, which is no quorum, and giving that back wakes nobody who wants the same, so that the two ask now and then and do not call each other without end",
		Lesson:   "what one gives back of a minority is no news to those who want the same beside him",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Progress: soon},
		script:   sharersMinority,
	},
}

// sharing is to share the scene's resource.
var sharing = request{Resources: []string{scenarioResource}, Shared: true}

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

func sharersRenew(ctx context.Context, s *scene) {
	sharers := s.share(ctx, "ann", "bob", "cara")
	dave := s.enter("dave")
	s.rehearse(ctx, dave)
	alone := s.spawn(func() { s.finish(ctx, s.waits(ctx, dave, only(scenarioResource), 20*scenarioLease)) })
	op := s.operator() //nolint:contextcheck // a Locker's own goroutines outlive every call
	for i, h := range hardships {
		s.injectPair(ctx, h.faults, i)
		if h.forgets {
			must(op.Cluster().Join(ctx))
			time.Sleep(aWhile) // clients that saw a step count its node again a little later
		}
		for _, t := range sharers {
			if err := t.Write(ctx); err != nil {
				must(fmt.Errorf("%s after %v: %w", t.actor.Name, h.faults, err))
			}
		}
	}
	for _, t := range sharers {
		_ = t.Release(ctx)
		time.Sleep(aWhile)
	}
	must(<-alone)
}

// injectPair begins a fault on each of two nodes, and ends both after a while.
func (s *scene) injectPair(ctx context.Context, faults [2]Fault, from int) {
	for i := range faults {
		f := &faults[i]
		f.Node = (from + i) % len(s.stage.Names())
		s.breakNow(*f)
	}
	if !sleep(ctx, aWhile) {
		must(ctx.Err())
	}
	for _, f := range faults {
		if f.Kind.Lasts() {
			s.mend(f)
		}
	}
}

// share brings on actors that share the scene's resource.
func (s *scene) share(ctx context.Context, names ...string) []*Tenure {
	actors, tenures := make([]*actor, len(names)), make([]*Tenure, len(names))
	for i, name := range names {
		actors[i] = s.enter(name)
	}
	s.rehearse(ctx, actors...)
	for i, a := range actors {
		tenures[i] = s.waits(ctx, a, sharing, 2*scenarioLease)
		time.Sleep(aWhile)
	}
	return tenures
}

func sharersForgotten(ctx context.Context, s *scene) {
	sharers := s.share(ctx, "ann", "bob")
	cara := s.enter("cara") // who is new
	for _, t := range sharers {
		must(s.prolong(ctx, t))
	}
	s.breakAll(Fault{Kind: Flush}, aMajority...)
	s.rival(ctx, cara, sharers[0])
	sharers[1].Remaining()
}

// mostScripts is how many scripts each node may run in a second for two waiters, of which
// one may ask again and again.
const mostScripts = 40

func sharersMinority(ctx context.Context, s *scene) {
	ann := s.enter("ann")
	s.rehearse(ctx, ann)
	first := s.holds(ctx, ann)
	var sent atomic.Int64
	share := func(name string) <-chan error {
		a := s.enterWith(name, tapped{s.stage, func(data []byte) {
			sent.Add(int64(bytes.Count(data, []byte("\r\nevalsha\r\n")) + bytes.Count(data, []byte("\r\neval\r\n"))))
		}})
		s.rehearse(ctx, a)
		return s.spawn(func() {
			t := s.waits(ctx, a, sharing, 10*scenarioLease)
			time.Sleep(aWhile)
			s.finish(ctx, t)
		})
	}
	bob, cara := share("bob"), share("cara")
	time.Sleep(2 * aWhile) // they wait on all nodes
	for _, n := range []int{3, 4} {
		s.breakNow(Fault{Kind: Cut, Client: ann.Name, Node: n})
		s.breakNow(Fault{Kind: Delete, Node: n, Key: scenarioResource})
	}
	sent.Store(0)
	const during = 2 * scenarioLease
	time.Sleep(during)
	n, most := sent.Load(), mostScripts*int64(len(s.stage.Names()))*int64(during/time.Second)
	err := first.Write(ctx)
	_ = first.Release(ctx) // two nodes do not hear of it
	err = errors.Join(err, <-bob, <-cara)
	if n > most {
		err = errors.Join(err, fmt.Errorf("two who wait had the nodes run %d scripts in %v; at most %d", n, during, most))
	}
	must(err)
}

// tapped is a stage that tells what its clients send, in lower case.
type tapped struct {
	Stage

	sent func(data []byte)
}

// Connect is [Stage.Connect].
func (t tapped) Connect(client string) ([]redis.UniversalClient, error) {
	nodes, err := t.Stage.Connect(client)
	if err == nil {
		record(nodes, recorder{sent: func(data []byte) { t.sent(bytes.ToLower(data)) }})
	}
	return nodes, err
}

// Clients that want several names at once.
var setScenarios = []Scenario{{
	Name:     "set-holder-dies",
	Claim:    "a client wants two names at once, has the first and waits for the second when it dies: one who wants the first has it when that lease is over, and the next who wants both has both, as soon as the second is given up",
	Lesson:   "what a set holds while it waits is a lease like any other: it ends with who had it, and no order of names is left behind",
	Showings: guarded(trace.NameRenewing),
	judge:    trace.Judge{Progress: scenarioLease + soon},
	script:   setHolderDies,
}}

// ledger stands before the scene's resource, in the order in which sets are taken.
const ledger = "ledger"

func setHolderDies(ctx context.Context, s *scene) {
	l := s.line(ctx) // ann holds, nobody waits
	l.sound = true
	both := only(scenarioResource, ledger)
	bob := l.wants(ctx, "bob", both)
	cara := l.wants(ctx, "cara", only(ledger))
	l.dies(bob)
	l.keepUntil(ctx, cara.done)
	cara.gone = true // it has had its turn
	l.wants(ctx, "dave", both)
	l.handOver(ctx)
}

// Clients that have a slot of a name.
var slotScenarios = []Scenario{{
	Name:     "slot-holder-dies",
	Claim:    "two clients have the two slots of a name, two more wait, and one of the holders dies: the first who waits has that slot as soon as its lease is over, and the second the other one, when it is given up",
	Lesson:   "a permit that is a lease comes back by itself: nobody has to count who is still alive",
	Showings: guarded(trace.NameRenewing),
	judge:    trace.Judge{Order: inLine, Progress: soon},
	script:   slotHolderDies,
}}

func slotHolderDies(ctx context.Context, s *scene) {
	slot := request{Resources: []string{scenarioResource}, Limit: 2}
	take := func(name string) *Tenure {
		a := s.enter(name)
		s.rehearse(ctx, a)
		return s.waits(ctx, a, slot, 2*scenarioLease)
	}
	ann, bob := take("ann"), take("bob")
	l := &line{scene: s, holder: ann, sound: true}
	cara := l.wants(ctx, "cara", slot)
	l.wants(ctx, "dave", slot)
	s.dies("bob")
	l.keepUntil(ctx, cara.done)
	if bob.Remaining() > 0 {
		must(errors.New("cara had a slot while both were held"))
	}
	cara.gone = true // it has had its turn
	l.handOver(ctx)
}
