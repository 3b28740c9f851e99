package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

const (
	// Waiters come an aWhile apart: more than it takes to stand in line on a quorum of
	// nodes.
	inLine = aWhile / 2
	// soon is for a hand-over that waits for nobody's silence: less than the sign of
	// life of a dead waiter lasts, and some for the machine's.
	soon = scenarioLease / 3
	// signOfLife is how long one lasts that no call shortens.
	signOfLife = 3 * time.Second
)

// Clients that wait in line, and what befalls the line.
var queueScenarios = []Scenario{
	{
		Name:     "waiting-line",
		Claim:    "eight clients begin to wait one after another, and the holder gives up: they have their turns in that order, unless each asks again and again by itself",
		Lesson:   "trying again at random is a lottery: a line needs a place that all nodes agree on",
		Showings: append(guarded(trace.NameRedlock), breaking([]Rule{Overtaken}, trace.NameTextbook, trace.NameSingle)...),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		script: func(ctx context.Context, s *scene) {
			s.line(ctx, "bob", "cara", "dave", "eve", "finn", "gina", "hugo", "ida").handOver(ctx)
		},
	},
	{
		Name:     "lost-calls",
		Claim:    "all that the nodes say to those who wait is lost: the next one has the lock when the lease that it was told of is over, at the latest",
		Lesson:   "a call is a hint: what nobody must miss, one looks at by oneself",
		Showings: inOrder(trace.NameRedlock),
		judge:    trace.Judge{Order: inLine, Progress: scenarioLease + soon},
		script: ofThree(func(_ context.Context, l *line) {
			l.scene.breakNow(Fault{Kind: LoseCalls, Node: Everything})
		}),
	},
	{
		Name:     "dead-head",
		Claim:    "the first in line crashes, and then the holder gives up: the second has the lock within a second, since the call in vain leaves 700 ms of the first one's sign of life",
		Lesson:   "a missed call is no death: give whom you called a moment, and no more",
		Showings: inOrder(trace.NameRedlock),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		script:   ofThree(func(_ context.Context, l *line) { l.dies(l.waits[0]) }),
	},
	{
		Name:     "silent-head",
		Claim:    "the machine of the first in line stands still, and the holder gives up: the second has the lock within a second of the call that the first one does not answer",
		Lesson:   "whom nobody hears, the others wait for: let that begin with the call, and be short",
		Showings: inOrder(trace.NameRedlock),
		judge:    trace.Judge{Order: inLine, Progress: 2 * soon},
		script:   silentHead,
	},
	{
		Name:   "cut-off-head",
		Claim:  "the first in line is cut off for longer than its sign of life lasts: it delays nobody, and when it is back it still waits, and has its turn",
		Lesson: "a place in line is kept for who comes back, not held open for who may not",
		// What they sent while they were cut off is a lock that nobody wants.
		Showings: append(guarded(trace.NameRedlock), atTimes([]Rule{NoProgress}, trace.NameTextbook, trace.NameSingle)...),
		judge:    trace.Judge{Progress: soon},
		script:   cutOffHead,
	},
	{
		Name:     "queue-restart",
		Claim:    "nodes that hold the line are restarted with their data, one after another, until a quorum of them was; a client that comes then meets no other nodes, and does not overtake those who wait",
		Lesson:   "wait between two restarts until the node votes again: who waits has stored his place there by then",
		Showings: append(guarded(trace.NameRedlock), atTimes([]Rule{Overtaken, TwoHolders}, trace.NameTextbook)...),
		judge:    trace.Judge{Order: inLine, Progress: scenarioLease},
		script:   ofThree(func(ctx context.Context, l *line) { l.outlives(ctx, Crash) }),
	},
	{
		Name:     "queue-amnesia",
		Claim:    "the same, and the nodes come back without their data: those who wait store their places again before the node votes",
		Lesson:   "what many remember, a node may forget",
		Showings: append(guarded(trace.NameRedlock), atTimes([]Rule{Overtaken, TwoHolders}, trace.NameTextbook)...),
		judge:    trace.Judge{Order: inLine, Progress: scenarioLease},
		script:   ofThree(func(ctx context.Context, l *line) { l.outlives(ctx, Forget) }),
	},
	{
		Name:     "queue-clock-forward",
		Claim:    "the clock of one node that holds the line jumps forward: nobody lives any more, by that node, and a client that comes then is not served first",
		Lesson:   "a place counts on a quorum of nodes, and so does its loss",
		Showings: inOrder(trace.NameRedlock),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		clocks:   true,
		script: ofThree(func(ctx context.Context, l *line) {
			l.scene.breakNow(Fault{Kind: Step, Delay: 2 * scenarioLease, Node: 1})
			l.joins(ctx, "zoe")
		}),
	},
	{
		Name:     "queue-clock-back",
		Claim:    "the first in line crashes, and the clocks of two nodes are set back, so that its sign of life lasts longer there: the call shortens it all the same, and the second has the lock within a second",
		Lesson:   "let the call set the time, by the clock of now",
		Showings: inOrder(trace.NameRedlock),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		clocks:   true,
		script: ofThree(func(_ context.Context, l *line) {
			l.dies(l.waits[0])
			l.scene.breakAll(Fault{Kind: Step, Delay: -2 * scenarioLease}, 1, 2)
		}),
	},
}

// inOrder are the showings of a scenario in which a client that asks again and again
// does not keep the order.
func inOrder(waits string) []trace.Showing {
	return append(guarded(waits), atTimes([]Rule{Overtaken}, trace.NameTextbook, trace.NameSingle)...)
}

func silentHead(ctx context.Context, s *scene) {
	l := s.line(ctx, "bob", "cara", "dave")
	bob := l.waits[0]
	still := Fault{Kind: Suspend, Client: bob.Name}
	s.breakNow(still)
	l.leaves(bob)
	l.handOver(ctx)
	s.mend(still)
}

func cutOffHead(ctx context.Context, s *scene) {
	l := s.line(ctx, "bob", "cara")
	bob := l.waits[0]
	cut := Fault{Kind: Cut, Client: bob.Name, Node: Everything}
	s.breakNow(cut)
	l.keep(ctx, signOfLife+aWhile)
	l.leaves(bob) // until he is back
	l.handOver(ctx)
	s.mend(cut)
	must(<-bob.done)
}

// outlives restarts three nodes one after another, and takes the other two away:
// a client that comes then meets only nodes that were restarted.
func (l *line) outlives(ctx context.Context, kind Break) {
	op := l.scene.operator() //nolint:contextcheck // a Locker's own goroutines outlive every call
	for _, node := range aMajority {
		l.scene.restart(Fault{Kind: kind, Node: node})
		l.keepUntil(ctx, l.scene.spawn(func() { must(op.Cluster().Join(ctx)) }))
	}
	l.scene.breakAll(Fault{Kind: Crash}, aMinority...)
	l.joins(ctx, "zoe")
}

// line is a holder, and clients that wait for it, one after another.
type line struct {
	scene  *scene
	holder *Tenure
	waits  []*inLineFor
	sound  bool // the nodes are: a waiter's release has to succeed
}

// inLineFor is a waiter.
type inLineFor struct {
	*actor

	wants request
	end   context.CancelFunc
	done  <-chan error // what came of it
	gone  bool         // nobody waits for its turn
}

// line lets ann hold; the others come on one by one and wait.
func (s *scene) line(ctx context.Context, names ...string) *line {
	ann := s.enter("ann")
	actors := []*actor{ann}
	for _, name := range names {
		actors = append(actors, s.enter(name))
	}
	s.rehearse(ctx, actors...)
	l := &line{scene: s, holder: s.holds(ctx, ann)}
	for i, a := range actors[1:] {
		l.waitsNext(ctx, a, only(scenarioResource), uint64(i))
	}
	return l
}

// joins brings on one more waiter.
func (l *line) joins(ctx context.Context, name string) {
	l.waitsNext(ctx, l.scene.enter(name), only(scenarioResource), uint64(len(l.waits)+1))
}

// wants brings on one more client, which waits for something.
func (l *line) wants(ctx context.Context, name string, w request) *inLineFor {
	a := l.scene.enter(name)
	l.scene.rehearse(ctx, a)
	return l.waitsNext(ctx, a, w, uint64(len(l.waits)+1))
}

// leaves says that a waiter is not there for its turn, no matter what it goes on
// asking.
func (l *line) leaves(w *inLineFor) {
	w.gone = true
	w.Quit(w.wants)
}

// dies ends the process of a waiter: its connections end, there are no
// new ones, and it asks no more.
func (l *line) dies(w *inLineFor) {
	l.scene.dies(w.Name)
	l.leaves(w)
	w.end()
}

// waitsNext lets an actor wait, and work and release when it holds. It returns once
// the next one may come.
func (l *line) waitsNext(ctx context.Context, a *actor, wants request, seed uint64) *inLineFor {
	random := rand.New(rand.NewPCG(seed, 0))
	waiting, end := context.WithTimeout(ctx, 10*scenarioLease)
	w := &inLineFor{actor: a, wants: wants, end: end}
	l.waits = append(l.waits, w)
	w.done = l.scene.spawn(func() {
		defer end()
		t, err := a.Wait(waiting, wants, scenarioLease, impatient(random))
		if err != nil {
			must(fmt.Errorf("%s: %w", a.Name, err))
		}
		time.Sleep(aWhile / 10)
		err = t.Write(waiting)
		released := t.Release(waiting)
		if l.sound {
			err = errors.Join(err, released)
		}
		must(err)
	})
	l.keep(ctx, aWhile)
	return w
}

// keep extends the holder's lease again and again for d.
func (l *line) keep(ctx context.Context, d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		_ = l.holder.Extend(ctx, scenarioLease) // or not: the old lease stands
		if !sleep(ctx, min(aWhile/2, time.Until(until))) {
			must(ctx.Err())
		}
	}
}

// keepUntil extends the holder's lease until something is done.
func (l *line) keepUntil(ctx context.Context, done <-chan error) {
	for {
		l.keep(ctx, aWhile)
		select {
		case err := <-done:
			must(err)
			return
		default:
		}
	}
}

// handOver releases the holder's lock, and returns when every waiter that is still
// there has had its turn.
func (l *line) handOver(ctx context.Context) {
	_ = l.holder.Release(ctx) // nodes may be broken
	var errs []error
	for _, w := range l.waits {
		if w.gone {
			continue
		}
		select {
		case err := <-w.done:
			errs = append(errs, err)
		case <-ctx.Done():
			must(ctx.Err())
		}
	}
	must(errors.Join(errs...))
}

// ofThree is the script in which something befalls a line of three, and the holder
// gives up then.
func ofThree(befalls func(context.Context, *line)) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		l := s.line(ctx, "bob", "cara", "dave")
		befalls(ctx, l)
		l.handOver(ctx)
	}
}

// dies ends a client's connections for good.
func (s *scene) dies(client string) {
	for _, k := range []Break{Refuse, Reset} {
		s.breakNow(Fault{Kind: k, Client: client, Node: Everything})
	}
}
