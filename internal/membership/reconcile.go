package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
)

const (
	// JoinPoll is how often the loop looks while a node that answers does not
	// vote: another client may have taken it in meanwhile.
	JoinPoll = time.Second
	// strayPoll is how often it looks while a node that answers is not to be
	// taken in (foreign, damaged): somebody may have emptied it.
	strayPoll = 10 * time.Second
	// lookAgainAfter is how long after a look at all nodes the next may be asked
	// for, by acquisitions that are refused for what was seen: one that is refused
	// over and over, and a thousand at a time, make ten looks a second.
	lookAgainAfter = 100 * time.Millisecond
	// joinSteps bounds the actions between two pauses: a notice, two looks and an install (of a
	// new cluster, one node after another), with room for races.
	joinSteps = 12
	// rivalTime is how long another client that founds is left alone.
	rivalTime = 3 * JoinPoll
	// inVain is how many steps in a row may only ask for another look. The first look that
	// counts is one. A writer may look at its node behind it, and that look does not count.
	inVain = 3
)

// Run is the loop that takes nodes in: it sleeps while all nodes vote, and otherwise
// takes blank nodes in by the rules of plan.go. Any number of clients may do so at once.
func (t *Tracker) Run() {
	defer close(t.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with run, at the latest
		select {
		case <-t.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for t.sleep(0) {
		for pause := t.settleOrRest(ctx); pause > 0; pause = t.settleOrRest(ctx) {
			if !t.sleep(pause) {
				return
			}
		}
	}
}

// sleep waits out a pause (0: one without an end), or less when the loop is
// nudged, or when a look is asked for and is due. It returns false when the Tracker
// was closed.
func (t *Tracker) sleep(pause time.Duration) bool {
	timer := t.clock.NewTimer(pause)
	defer timer.Stop()
	due, until := timer.C, t.clock.Now().Add(pause)
	if pause == 0 {
		due = nil
	}
	for {
		select {
		case <-due:
		case <-t.nudge:
		case <-t.asked:
			if at := t.lookDue(); due == nil || at < until {
				due, until = timer.C, at
				timer.Reset(max(until.Sub(t.clock.Now()), 0))
			}
			continue
		case <-t.stop:
			return false
		}
		select {
		case <-t.asked: // the look that comes now is newer than the one who asked
		default:
		}
		return true
	}
}

// settleOrRest is Settle for the loop, which rests where there is nothing to do.
func (t *Tracker) settleOrRest(ctx context.Context) time.Duration {
	t.rest(false)
	pause := t.Settle(ctx, t.Proposal())
	if pause == 0 {
		t.rest(true)
		pause = t.pause() // somebody else may have looked just now
	}
	return pause
}

// rest notes whether the loop sleeps until it is woken.
func (t *Tracker) rest(resting bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resting = resting
}

// lookDue is when all nodes may be looked at for the one who asks.
func (t *Tracker) lookDue() clock.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.looks == 0 {
		return 0
	}
	return t.looked.Add(lookAgainAfter)
}

// LookAgain waits for a look at all nodes that begins from now on: all who ask
// share one. It returns false if none came in time: before ctx was done, or within
// two node timeouts, since one look may have to wait for the one that is under way.
func (t *Tracker) LookAgain(ctx context.Context, timeout time.Duration) bool {
	timer := t.clock.NewTimer(lookAgainAfter + 2*timeout)
	defer timer.Stop()
	t.mu.Lock()
	latest, done, next := t.looks, t.done, t.next
	t.mu.Unlock()
	for done <= latest {
		select {
		case t.asked <- struct{}{}:
		default:
		}
		select {
		case <-next:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		case <-t.stop:
			return false
		}
		t.mu.Lock()
		done, next = t.done, t.next
		t.mu.Unlock()
	}
	return true
}

// Close ends the loop and waits for it.
func (t *Tracker) Close() {
	close(t.stop)
	<-t.ended
}

// Alone waits until nobody else changes nodes, and keeps all others from it until done is
// called. It returns ctx's error where ctx is done first.
func (t *Tracker) Alone(ctx context.Context) (done func(), err error) {
	select {
	case t.work <- struct{}{}:
		return func() { <-t.work }, nil
	case <-ctx.Done():
		return nil, fault.OfContext(ctx)
	}
}

// Settle looks at all nodes and does what can be done now. It returns how long
// to pause until there may be more; 0 when nothing but a nudge will bring it.
func (t *Tracker) Settle(ctx context.Context, p Proposal) time.Duration {
	done, err := t.Alone(ctx)
	if err != nil {
		return 0
	}
	defer done()
	t.LookAtAll(ctx, false)
	idle := 0 // steps in a row that only asked for another look
	for range joinSteps + 2*len(t.nodes) {
		if ctx.Err() != nil {
			break
		}
		did, look := t.step(ctx, p)
		if idle++; did {
			idle = 0
		}
		if !did && !look || idle > inVain {
			break
		}
		t.LookAtAll(ctx, look)
	}
	if p.Admit {
		t.forget()
	}
	return t.pause()
}

// forget gives up a founding of which no node was installed: the operator's word is over.
func (t *Tracker) forget() {
	v := t.View()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun != nil && !slices.ContainsFunc(v.Nodes, func(o Observation) bool { return o.ofCluster(t.begun.Record.Cluster) }) {
		t.begun = nil
		t.foundings++
	}
}

// LookAtAll reads every node, at the same time; counted reads their largest
// number as well, which costs a server milliseconds. Where another than the loop finds
// a node to be taken in, which had not answered the loop, it wakes the loop.
func (t *Tracker) LookAtAll(ctx context.Context, counted bool) {
	t.mu.Lock()
	t.looks++
	number := t.looks
	t.looked = t.clock.Now()
	t.mu.Unlock()
	var g errgroup.Group // zero: one node's failure must not end the others
	for _, n := range t.nodes {
		g.Go(func() error {
			n.Look(ctx, counted)
			return nil
		})
	}
	_ = g.Wait()
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	t.done = max(t.done, number)
	close(t.next)
	t.next = make(chan struct{})
	resting := t.resting
	t.mu.Unlock()
	if resting && t.pause() > 0 {
		t.wake()
	}
}

// step plans for every node and does what is due. It returns whether
// it did one, and whether an install waits for another, counted look.
func (t *Tracker) step(ctx context.Context, p Proposal) (did, look bool) {
	v, now := t.View(), t.clock.Now()
	p.Cluster, p.Begun = t.founding(v)
	for i, n := range t.nodes {
		pl := v.Next(i, now, p)
		t.note(i, pl)
		if pl.Founding != nil { // noted before it is sent: its reply may be lost
			t.begin(pl.Founding)
		}
		switch pl.Action {
		case DoNothing, DoWait, DoSettle, DoAccept: // an operator's
		case DoRead:
			look = look || !pl.Waiting
		case DoNotice, DoInstall, DoForce, DoSeize:
			err := n.Do(ctx, pl)
			did = t.did(ctx, i, actionTexts[pl.Action], err) || did
			look = look || p.Admit && errors.Is(err, ErrRefused) // an operator says his word once
		}
	}
	return did, look
}

// begin notes a founding.
func (t *Tracker) begin(f *Founding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun, t.mine = f, f.Record.Cluster
}

// founding is the id that this client founds with, and the founding that it has begun, if that
// still stands. Another one gets another id: of one that was given up, a node may be left.
func (t *Tracker) founding(v View) (id string, begun *Founding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun != nil && !t.begun.Stands(v) {
		t.begun = nil
		t.foundings++
	}
	if id = t.founder; t.foundings > 0 {
		id += "-" + strconv.Itoa(t.foundings)
	}
	return id, t.begun
}

// actionTexts say what an action that failed has not brought about.
var actionTexts = map[Action]string{
	DoNotice:  "the notice from which its wait counts was not written",
	DoInstall: "it was not made a member",
	DoSeize:   "what was founded beside was not ended",
	DoForce:   "its record was not brought up to date",
}

// did notes what an action for node i failed with, for the one who asks why the node does
// not vote, and tells whether it was done. A refusal that is a matter of order is no
// fault: the next look tells what has changed.
func (t *Tracker) did(ctx context.Context, i int, what string, err error) bool {
	if err != nil && t.clock.Over(ctx) {
		return false
	}
	var fault error
	if err != nil && !errors.Is(err, ErrRefused) {
		fault = fmt.Errorf("%s: %w", what, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[i] = fault
	t.unclaimed = t.viewLocked().unclaimed() // a node that takes no writes gets no claim
	return err == nil
}

// note keeps until when node i waits. Where nothing is to be done for it, nothing
// has failed.
func (t *Tracker) note(i int, pl Plan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until[i] = 0
	if pl.Waiting {
		t.until[i] = pl.Until
	}
	if pl.Action == DoNothing || pl.Action == DoWait {
		t.faults[i] = nil
	}
}

// pause is how long until the loop looks again.
func (t *Tracker) pause() time.Duration {
	v, now := t.View(), t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	pause := time.Duration(0)
	for i := range t.nodes {
		next := JoinPoll
		switch state, _ := v.Standing(i); {
		case state == Foreign, state == Misconfigured, v.Lax(i):
			next = strayPoll
		case state != Blank && v.Next(i, now, t.Proposal()).Action == DoNothing:
			continue
		}
		if left := t.until[i].Sub(now); t.until[i] != 0 && left < next {
			next = max(left, time.Millisecond)
		}
		if pause == 0 || next < pause {
			pause = next
		}
	}
	return pause
}

// ErrRefused is the answer of a node on which what an action rests on has changed.
var ErrRefused = errors.New("refused: the node has changed since it was looked at")
