package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Locks that a release grants to who is next in line, and what becomes of the grant.
func grantScenarios() []Scenario {
	return []Scenario{lostGrants(), heirStops(), heirLeaves(), splitGrant()}
}

// grantLasts is the lease of what a release grants.
const grantLasts = 3 * time.Second

// granting are the showings of a scenario about grants: redlock's leases are lengthened,
// or releases would not grant them. Anyone who asks again and again keeps no order.
func granting() []trace.Showing {
	return []trace.Showing{
		{Contender: trace.NameRenewing, Guarded: true},
		{Contender: trace.NameTextbook, Guarded: true, May: []Rule{Overtaken}},
		{Contender: trace.NameSingle, Guarded: true, May: []Rule{Overtaken}},
	}
}

func lostGrants() Scenario {
	return Scenario{
		Name:     "lost-grants",
		Claim:    "the release grants the lock to the first in line, who hears it from no node, and the next release to the second, who hears it from two of five: each has it within a second, and nobody overtakes them",
		Lesson:   "a grant stands on the nodes, and the message only tells of it: who missed the message finds the grant when he looks",
		Showings: granting(),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		script: ofThree(func(_ context.Context, l *line) error {
			bob, cara := l.waits[0], l.waits[1]
			if err := l.scene.breakNow(Fault{Kind: LoseCalls, Client: bob.Name, Node: Everything}); err != nil {
				return err
			}
			return l.scene.breakAll(Fault{Kind: LoseCalls, Client: cara.Name}, aMajority...)
		}),
	}
}

func heirStops() Scenario {
	return Scenario{
		Name:     "heir-stops",
		Claim:    "the machine of the first in line stands still as the release grants it the lock: the next one has it when that grant is over, three seconds later; and when the first goes on, it reads of its grant and does not believe that it holds",
		Lesson:   "a grant lasts from the heir's last sign of life, not from when he hears of it: who slept through it was never the holder",
		Showings: granting(),
		judge:    trace.Judge{Progress: grantLasts + soon},
		script:   stopTheHeir,
	}
}

// stopTheHeir lets the next waiter hold while the first one wakes.
func stopTheHeir(ctx context.Context, s *scene) error {
	l, err := s.line(ctx, "bob", "cara", "dave")
	if err != nil {
		return err
	}
	bob, cara := l.waits[0], l.waits[1]
	still, keeps := Fault{Kind: Suspend, Client: bob.Name}, Fault{Kind: Pause, Client: cara.Name, Where: AtRelease}
	if err := errors.Join(s.breakNow(still), s.breakNow(keeps)); err != nil {
		return err
	}
	l.leaves(bob)
	turns := make(chan error, 1)
	go func() { turns <- l.handOver(ctx) }()
	time.Sleep(grantLasts + soon) // cara has had its turn, or the judge says so
	if err := s.mend(still); err != nil {
		return err
	}
	time.Sleep(aWhile) // bob reads all that was said to him
	if err := s.mend(keeps); err != nil {
		return err
	}
	return errors.Join(<-turns, <-bob.done) // bob still waits, and has a turn of his own
}

func heirLeaves() Scenario {
	return Scenario{
		Name:   "heir-leaves",
		Claim:  "the release grants the lock to the first in line, who gives up while the message is on its way: the next one has the lock within a second, and of the first one nothing is left on the nodes",
		Lesson: "who gives up gives back what he may have been granted, though he never heard of it",
		Showings: []trace.Showing{
			{Contender: trace.NameRenewing, Guarded: true},
			// What they asked for as they gave up may stay for a lease.
			{Contender: trace.NameTextbook, Guarded: true, May: []Rule{Overtaken, NoProgress}},
			{Contender: trace.NameSingle, Guarded: true, May: []Rule{Overtaken, NoProgress}},
		},
		judge: trace.Judge{Order: inLine, Progress: soon},
		script: ofThree(func(_ context.Context, l *line) error {
			bob := l.first()
			late := Fault{Kind: Slow, Client: bob.Name, Node: Everything, Delay: onItsWay}
			if err := l.scene.breakNow(late); err != nil {
				return err
			}
			bob.gone = true // he says so himself
			time.AfterFunc(onItsWay/2, bob.end)
			return nil
		}),
	}
}

// onItsWay is how long a message is that is on its way: less than a node may take.
const onItsWay = 60 * time.Millisecond

func splitGrant() Scenario {
	return Scenario{
		Name:   "split-grant",
		Claim:  "the holder's release reaches two of five nodes, which grant the lock to the first in line: that is no lock, so he gives it back, keeps his place, and has his turn when the other three hear of the release",
		Lesson: "what a minority grants is given back at once: the place in line is what counts",
		Showings: []trace.Showing{
			{Contender: trace.NameRenewing, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true, May: []Rule{Overtaken}},
		},
		judge:  trace.Judge{Order: inLine, Progress: 2 * soon},
		script: splitTheGrant,
	}
}

// splitTheGrant delays the release to the other three nodes for a while.
func splitTheGrant(ctx context.Context, s *scene) error {
	l, err := s.line(ctx, "bob", "cara")
	if err != nil {
		return err
	}
	cut := Fault{Kind: CutRequests, Client: "ann"}
	if err := s.breakAll(cut, aMajority...); err != nil {
		return err
	}
	turns := make(chan error, 1)
	go func() { turns <- l.handOver(ctx) }()
	time.Sleep(aWhile)
	if err := s.mendAll(cut, aMajority...); err != nil {
		return err
	}
	return <-turns
}
