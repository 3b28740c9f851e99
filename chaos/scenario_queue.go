package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Those who wait in line, and what befalls the line.
func queueScenarios() []Scenario {
	return []Scenario{
		waitingLine(), lostCalls(), deadHead(), silentHead(), cutOffHead(),
		queueRestart(), queueAmnesia(), queueClockForward(), queueClockBack(),
	}
}

const (
	// Those who wait begin an aWhile apart, and that is more than it takes to stand
	// in line on a quorum of nodes.
	inLine = aWhile / 2
	// soon is for a hand-over that waits for nobody's silence: less than the sign of
	// life of one who is gone lasts, and some for the machine's.
	soon = scenarioLease / 3
	// signOfLife is how long one lasts that no call shortens.
	signOfLife = 3 * time.Second
)

// inOrder are the showings of a scenario in which who asks again and again
// does not keep the order.
func inOrder() []trace.Showing {
	return []trace.Showing{
		{Contender: trace.NameRedlock, Guarded: true},
		{Contender: trace.NameTextbook, Guarded: true, May: []Rule{Overtaken}},
		{Contender: trace.NameSingle, Guarded: true, May: []Rule{Overtaken}},
	}
}

func waitingLine() Scenario {
	return Scenario{
		Name:   "waiting-line",
		Claim:  "eight clients begin to wait one after another, and the holder gives up: they have their turns in that order, unless each asks again and again by itself",
		Lesson: "trying again at random is a lottery: a line needs a place that all nodes agree on",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			{Contender: trace.NameTextbook, Guarded: true, Breaks: []Rule{Overtaken}},
			{Contender: trace.NameSingle, Guarded: true, Breaks: []Rule{Overtaken}},
		},
		judge: trace.Judge{Order: inLine, Progress: soon},
		script: func(ctx context.Context, s *scene) error {
			l, err := s.line(ctx, "bob", "cara", "dave", "eve", "finn", "gina", "hugo", "ida")
			if err != nil {
				return err
			}
			return l.handOver(ctx)
		},
	}
}

func lostCalls() Scenario {
	return Scenario{
		Name:     "lost-calls",
		Claim:    "all that the nodes say to those who wait is lost: the next one has the lock when the lease that it was told of is over, at the latest",
		Lesson:   "a call is a hint: what nobody must miss, one looks at by oneself",
		Showings: inOrder(),
		judge:    trace.Judge{Order: inLine, Progress: scenarioLease + soon},
		script: ofThree(func(_ context.Context, l *line) error {
			return l.scene.breakNow(Fault{Kind: LoseCalls, Node: Everything})
		}),
	}
}

func deadHead() Scenario {
	return Scenario{
		Name:     "dead-head",
		Claim:    "the first in line crashes, and then the holder gives up: the second has the lock within a second, since the call in vain leaves 700 ms of the first one's sign of life",
		Lesson:   "a missed call is no death: give whom you called a moment, and no more",
		Showings: inOrder(),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		script:   ofThree(func(_ context.Context, l *line) error { return l.dies(l.first()) }),
	}
}

func silentHead() Scenario {
	return Scenario{
		Name:     "silent-head",
		Claim:    "the machine of the first in line stands still, and the holder gives up: the second has the lock within a second of the call that the first one does not answer",
		Lesson:   "whom nobody hears, the others wait for: let that begin with the call, and be short",
		Showings: inOrder(),
		judge:    trace.Judge{Order: inLine, Progress: 2 * soon},
		script: func(ctx context.Context, s *scene) error {
			l, err := s.line(ctx, "bob", "cara", "dave")
			if err != nil {
				return err
			}
			bob := l.first()
			still := Fault{Kind: Suspend, Client: bob.Name}
			if err := s.breakNow(still); err != nil {
				return err
			}
			l.leaves(bob)
			err = l.handOver(ctx)
			return errors.Join(err, s.mend(still))
		},
	}
}

func cutOffHead() Scenario {
	return Scenario{
		Name:   "cut-off-head",
		Claim:  "the first in line is cut off for longer than its sign of life lasts: it delays nobody, and when it is back it still waits, and has its turn",
		Lesson: "a place in line is kept for who comes back, not held open for who may not",
		Showings: []trace.Showing{
			{Contender: trace.NameRedlock, Guarded: true},
			// What they sent while they were cut off is a lock that nobody wants.
			{Contender: trace.NameTextbook, Guarded: true, May: []Rule{NoProgress}},
			{Contender: trace.NameSingle, Guarded: true, May: []Rule{NoProgress}},
		},
		judge:  trace.Judge{Progress: soon},
		script: cutOffTheHead,
	}
}

func cutOffTheHead(ctx context.Context, s *scene) error {
	l, err := s.line(ctx, "bob", "cara")
	if err != nil {
		return err
	}
	bob := l.first()
	cut := Fault{Kind: Cut, Client: bob.Name, Node: Everything}
	if err := s.breakNow(cut); err != nil {
		return err
	}
	if err := l.keep(ctx, signOfLife+aWhile); err != nil {
		return err
	}
	l.leaves(bob) // until he is back
	err = l.handOver(ctx)
	if err := errors.Join(err, s.mend(cut)); err != nil {
		return err
	}
	return <-bob.done
}

func queueRestart() Scenario {
	return Scenario{
		Name:     "queue-restart",
		Claim:    "nodes that hold the line are restarted with their data, one after another, until a quorum of them was; a client that comes then meets no other nodes, and does not overtake those who wait",
		Lesson:   "wait between two restarts until the node votes again: who waits has stored his place there by then",
		Showings: restarted(),
		judge:    trace.Judge{Order: inLine, Progress: scenarioLease},
		script:   ofThree(func(ctx context.Context, l *line) error { return l.outlives(ctx, Crash) }),
	}
}

func queueAmnesia() Scenario {
	return Scenario{
		Name:     "queue-amnesia",
		Claim:    "the same, and the nodes come back without their data: those who wait store their places again before the node votes",
		Lesson:   "what many remember, a node may forget",
		Showings: restarted(),
		judge:    trace.Judge{Order: inLine, Progress: scenarioLease},
		script:   ofThree(func(ctx context.Context, l *line) error { return l.outlives(ctx, Forget) }),
	}
}

// restarted is what a restart of a quorum shows, with waits in between.
func restarted() []trace.Showing {
	return []trace.Showing{
		{Contender: trace.NameRedlock, Guarded: true},
		{Contender: trace.NameTextbook, Guarded: true, May: []Rule{Overtaken, TwoHolders}},
	}
}

// outlives restarts three nodes one after another, and takes the other two away:
// one who comes then meets nothing but nodes that were restarted.
func (l *line) outlives(ctx context.Context, kind Break) error {
	op, err := l.scene.operator() //nolint:contextcheck // a Locker's own goroutines outlive every call
	if err != nil {
		return err
	}
	for _, node := range aMajority {
		f := Fault{Kind: kind, Node: node}
		if err := errors.Join(l.scene.breakNow(f), l.scene.mend(f)); err != nil {
			return err
		}
		if err := l.keepUntil(ctx, op.Cluster().Join); err != nil {
			return err
		}
	}
	if err := l.scene.breakAll(Fault{Kind: Crash}, aMinority...); err != nil {
		return err
	}
	return l.joins(ctx, "zoe")
}

func queueClockForward() Scenario {
	return Scenario{
		Name:     "queue-clock-forward",
		Claim:    "the clock of one node that holds the line jumps forward: nobody lives any more, by that node, and a client that comes then is not served first",
		Lesson:   "a place counts on a quorum of nodes, and so does its loss",
		Showings: inOrder(),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		clocks:   true,
		script: ofThree(func(ctx context.Context, l *line) error {
			if err := l.scene.breakNow(Fault{Kind: Step, Delay: 2 * scenarioLease, Node: 1}); err != nil {
				return err
			}
			return l.joins(ctx, "zoe")
		}),
	}
}

func queueClockBack() Scenario {
	return Scenario{
		Name:     "queue-clock-back",
		Claim:    "the first in line crashes, and the clocks of two nodes are set back, so that its sign of life lasts longer there: the call shortens it all the same, and the second has the lock within a second",
		Lesson:   "let the call set the time, by the clock of now",
		Showings: inOrder(),
		judge:    trace.Judge{Order: inLine, Progress: soon},
		clocks:   true,
		script: ofThree(func(_ context.Context, l *line) error {
			if err := l.dies(l.first()); err != nil {
				return err
			}
			return l.scene.breakAll(Fault{Kind: Step, Delay: -2 * scenarioLease}, 1, 2)
		}),
	}
}

// line is a holder, and clients that wait for it, one after another.
type line struct {
	scene  *scene
	holder *Tenure
	waits  []*inLineFor
}

// inLineFor is one who waits.
type inLineFor struct {
	*actor

	wants request
	end   context.CancelFunc
	done  chan error // what came of it
	gone  bool       // nobody waits for its turn
}

// line has ann hold, and the others come on one by one and wait.
func (s *scene) line(ctx context.Context, names ...string) (*line, error) {
	ann, err := s.enter("ann")
	if err != nil {
		return nil, err
	}
	actors := []*actor{ann}
	for _, name := range names {
		a, err := s.enter(name)
		if err != nil {
			return nil, err
		}
		actors = append(actors, a)
	}
	if err := s.rehearse(ctx, actors...); err != nil {
		return nil, err
	}
	l := &line{scene: s}
	if l.holder, err = s.holds(ctx, ann); err != nil {
		return nil, err
	}
	for i, a := range actors[1:] {
		if err := l.waitsNext(ctx, a, uint64(i)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// joins has one more come on and wait.
func (l *line) joins(ctx context.Context, name string) error {
	a, err := l.scene.enter(name)
	if err != nil {
		return err
	}
	return l.waitsNext(ctx, a, uint64(len(l.waits)+1))
}

// first is who was there first.
func (l *line) first() *inLineFor { return l.waits[0] }

// leaves says that one who waits is not there for its turn, no matter what it goes on
// asking.
func (l *line) leaves(w *inLineFor) {
	w.gone = true
	w.quit(w.wants)
}

// dies ends the process of a waiter: its connections end, there are no
// new ones, and it asks no more.
func (l *line) dies(w *inLineFor) error {
	if err := l.scene.dies(w.Name); err != nil {
		return err
	}
	l.leaves(w)
	w.end()
	return nil
}

// waitsNext has an actor wait, and work and release when it holds. It returns once
// the next one may come.
func (l *line) waitsNext(ctx context.Context, a *actor, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	waiting, end := context.WithTimeout(ctx, 10*scenarioLease)
	w := &inLineFor{actor: a, wants: request{Resources: []string{scenarioResource}}, end: end, done: make(chan error, 1)}
	l.waits = append(l.waits, w)
	l.scene.work.Go(func() {
		defer end()
		t, err := a.Wait(waiting, scenarioResource, scenarioLease, func() time.Duration {
			return askEvery/2 + spread(random, 4*askEvery)
		})
		if err != nil {
			w.done <- fmt.Errorf("%s: %w", a.Name, err)
			return
		}
		time.Sleep(aWhile / 10)
		err = t.Write(waiting)
		_ = t.Release(waiting) // nodes may be broken
		w.done <- err
	})
	return l.keep(ctx, aWhile)
}

// keep extends the holder's lease again and again for d.
func (l *line) keep(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); {
		_ = l.holder.Extend(ctx, scenarioLease) // or not: the old lease stands
		select {
		case <-time.After(min(aWhile/2, time.Until(until))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// keepUntil extends the holder's lease until do returns.
func (l *line) keepUntil(ctx context.Context, do func(context.Context) error) error {
	done := make(chan error, 1)
	l.scene.work.Go(func() { done <- do(ctx) })
	for {
		if err := l.keep(ctx, aWhile); err != nil {
			return err
		}
		select {
		case err := <-done:
			return err
		default:
		}
	}
}

// handOver releases the holder's lock, and returns when every waiter that is still
// there has had its turn.
func (l *line) handOver(ctx context.Context) error {
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
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// ofThree is the script in which something befalls a line of three, and the holder
// gives up then.
func ofThree(befalls func(context.Context, *line) error) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		l, err := s.line(ctx, "bob", "cara", "dave")
		if err == nil {
			err = befalls(ctx, l)
		}
		if err != nil {
			return err
		}
		return l.handOver(ctx)
	}
}
