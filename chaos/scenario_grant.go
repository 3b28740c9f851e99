package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Locks that a release grants to the next waiter, and what becomes of the grant.
// Redlock's leases are lengthened here, or releases would not grant them.
var grantScenarios = []Scenario{
	{
		Name:     "lost-grants",
		Claim:    "the release grants the lock to the first in line, who hears it from no node, and the next release to the second, who hears it from two of five: each has it within a second, and nobody overtakes them",
		Lesson:   "a grant stands on the nodes, and the message only tells of it: who missed the message finds the grant when he looks",
		Showings: inOrder(trace.NameRenewing),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		script: ofThree(func(_ context.Context, l *line) {
			bob, cara := l.waits[0], l.waits[1]
			l.scene.breakNow(Fault{Kind: LoseCalls, Client: bob.Name, Node: Everything})
			l.scene.breakAll(Fault{Kind: LoseCalls, Client: cara.Name}, aMajority...)
		}),
	},
	{
		Name:     "heir-stops",
		Claim:    "the machine of the first in line stands still as the release grants it the lock: the next one has it when that grant is over, three seconds later; and when the first goes on, it reads of its grant and does not believe that it holds",
		Lesson:   "a grant lasts from the heir's last sign of life, not from when he hears of it: who slept through it was never the holder",
		Showings: inOrder(trace.NameRenewing),
		judge:    trace.Judge{Progress: grantLasts + soon},
		script:   heirStops,
	},
	{
		Name:   "heir-leaves",
		Claim:  "the release grants the lock to the first in line, who gives up while the message is on its way: the next one has the lock within a second, and of the first one nothing is left on the nodes",
		Lesson: "who gives up gives back what he may have been granted, though he never heard of it",
		// What they asked for as they gave up may stay for a lease.
		Showings: append(guarded(trace.NameRenewing), atTimes([]Rule{Overtaken, NoProgress}, trace.NameTextbook, trace.NameSingle)...),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		script: ofThree(func(_ context.Context, l *line) {
			bob := l.waits[0]
			l.scene.breakNow(Fault{Kind: Slow, Client: bob.Name, Node: Everything, Delay: onItsWay})
			bob.gone = true // he says so himself
			time.AfterFunc(onItsWay/2, bob.end)
		}),
	},
	{
		Name:     "split-grant",
		Claim:    "the holder's release reaches two of five nodes, which grant the lock to the first in line: that is no lock, so he gives it back, keeps his place, and has his turn when the other three hear of the release",
		Lesson:   "what a minority grants is given back at once: the place in line is what counts",
		Showings: append(guarded(trace.NameRenewing), atTimes([]Rule{Overtaken}, trace.NameTextbook)...),
		judge:    trace.Judge{Order: inLine, Progress: 2 * soon},
		script:   splitGrant,
	},
}

// grantLasts is the lease of what a release grants.
const grantLasts = 3 * time.Second

// heirStops lets the next waiter hold while the first one wakes.
func heirStops(ctx context.Context, s *scene) {
	l := s.line(ctx, "bob", "cara", "dave")
	bob, cara := l.waits[0], l.waits[1]
	still, keeps := Fault{Kind: Suspend, Client: bob.Name}, Fault{Kind: Pause, Client: cara.Name, Where: AtRelease}
	s.breakNow(still)
	s.breakNow(keeps)
	l.leaves(bob)
	turns := s.spawn(func() { l.handOver(ctx) })
	time.Sleep(grantLasts + soon) // cara has had its turn, or the judge says so
	s.mend(still)
	time.Sleep(aWhile) // bob reads all that was said to him
	s.mend(keeps)
	must(errors.Join(<-turns, <-bob.done)) // bob still waits, and has a turn of his own
}

// onItsWay is how long a message is that is on its way: less than a node may take.
const onItsWay = 60 * time.Millisecond

// splitGrant delays the release to the other three nodes for a while.
func splitGrant(ctx context.Context, s *scene) {
	l := s.line(ctx, "bob", "cara")
	cut := Fault{Kind: CutRequests, Client: "ann"}
	s.breakAll(cut, aMajority...)
	turns := s.spawn(func() { l.handOver(ctx) })
	time.Sleep(aWhile)
	s.mendAll(cut, aMajority...)
	must(<-turns)
}
