package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
)

const (
	// joinPoll is how often the joiner looks while a node that answers does not
	// vote: another client may have taken it in meanwhile.
	joinPoll = time.Second
	// strayPoll is how often it looks while a node that answers is not to be
	// taken in (foreign, damaged, retired): somebody may have emptied it.
	strayPoll = 10 * time.Second
	// lookAgainAfter is how long after a look at all nodes the next may be asked
	// for, by acquisitions that are refused for what was seen: one that is refused
	// over and over, and a thousand at a time, make ten looks a second.
	lookAgainAfter = 100 * time.Millisecond
	// joinSteps bounds the deeds between two pauses: a notice, a look, a
	// replacement to write, another look, an install (of a new cluster, one node
	// after another), and an amendment, with room for races.
	joinSteps = 12
)

// run is the joiner: it sleeps while all nodes vote, and otherwise takes blank
// nodes in by the rules of membership.go. Any number of clients may do so at
// once.
func (r *roster) run() {
	defer close(r.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with run, at the latest
		select {
		case <-r.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for r.sleep(0) {
		for pause := r.settle(ctx, r.proposal()); pause > 0; pause = r.settle(ctx, r.proposal()) {
			if !r.sleep(pause) {
				return
			}
		}
	}
}

// sleep waits out a pause (0: one without an end), or less when the joiner is
// nudged, or when a look is asked for and is due. It returns false when the roster
// was closed.
func (r *roster) sleep(pause time.Duration) bool {
	timer := r.clock.NewTimer(pause)
	defer timer.Stop()
	due, until := timer.C, r.clock.Now().Add(pause)
	if pause == 0 {
		due = nil
	}
	for {
		select {
		case <-due:
		case <-r.nudge:
		case <-r.asked:
			if at := r.lookDue(); due == nil || at < until {
				due, until = timer.C, at
				timer.Reset(max(until.Sub(r.clock.Now()), 0))
			}
			continue
		case <-r.stop:
			return false
		}
		select {
		case <-r.asked: // the look that comes now is newer than whoever asked
		default:
		}
		return true
	}
}

// lookDue is when all nodes may be looked at for whoever asks.
func (r *roster) lookDue() clock.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looks == 0 {
		return 0
	}
	return r.looked.Add(lookAgainAfter)
}

// lookAgain waits for a look at all nodes that begins from now on: all who ask
// share one. It returns false if none came in time: before ctx was done, or within
// two node timeouts, since one look may have to wait for the one that is under way.
func (r *roster) lookAgain(ctx context.Context, timeout time.Duration) bool {
	timer := r.clock.NewTimer(lookAgainAfter + 2*timeout)
	defer timer.Stop()
	r.mu.Lock()
	latest, done, next := r.looks, r.done, r.next
	r.mu.Unlock()
	for done <= latest {
		select {
		case r.asked <- struct{}{}:
		default:
		}
		select {
		case <-next:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		case <-r.stop:
			return false
		}
		r.mu.Lock()
		done, next = r.done, r.next
		r.mu.Unlock()
	}
	return true
}

// close ends the joiner and waits for it.
func (r *roster) close() {
	close(r.stop)
	<-r.ended
}

// alone waits until nobody else does deeds, and keeps all others from it until done is
// called. It returns ctx's error where ctx is done first.
func (r *roster) alone(ctx context.Context) (done func(), err error) {
	select {
	case r.work <- struct{}{}:
		return func() { <-r.work }, nil
	case <-ctx.Done():
		return nil, fault.OfContext(ctx)
	}
}

// settle looks at all nodes and does what can be done now. It returns how long
// to pause until there may be more; 0 when nothing but a nudge will bring it.
func (r *roster) settle(ctx context.Context, p proposal) time.Duration {
	done, err := r.alone(ctx)
	if err != nil {
		return 0
	}
	defer done()
	r.lookAtAll(ctx, false)
	idle := 0 // steps in a row that only asked for another look
	for range joinSteps + len(r.nodes) {
		if ctx.Err() != nil {
			break
		}
		did, look := r.step(ctx, p)
		if idle++; did {
			idle = 0
		}
		if !did && !look || idle > 1 {
			break
		}
		r.lookAtAll(ctx, look)
	}
	return r.pause()
}

// lookAtAll reads every node, at the same time; counted reads their largest
// number as well, which costs a server milliseconds.
func (r *roster) lookAtAll(ctx context.Context, counted bool) {
	r.mu.Lock()
	r.looks++
	number := r.looks
	r.looked = r.clock.Now()
	r.mu.Unlock()
	var g errgroup.Group // zero: one node's failure must not end the others
	for _, n := range r.nodes {
		g.Go(func() error {
			n.Look(ctx, counted)
			return nil
		})
	}
	_ = g.Wait()
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = max(r.done, number)
	close(r.next)
	r.next = make(chan struct{})
}

// step plans for every node and does the deeds that are due. It returns whether
// it did one, and whether an install waits for another, counted look.
func (r *roster) step(ctx context.Context, p proposal) (did, look bool) {
	f, now := r.current(), r.clock.Now()
	for i, n := range r.nodes {
		pl := f.next(i, now, p)
		r.note(i, pl)
		r.announce(i, pl)
		switch pl.do {
		case doNothing, doWait, doLower:
		case doRead:
			look = look || !pl.waiting
		case doPlace:
			for _, j := range pl.at {
				err := r.nodes[j].Do(ctx, plan{do: doAmend, record: record{epoch: f.sights[j].rec.epoch, replaced: pl.places}})
				did = r.did(ctx, i, "its replacement was not written down on "+f.names[j], err) || did
			}
		case doNotice, doInstall, doAmend:
			did = r.did(ctx, i, deedTexts[pl.do], n.Do(ctx, pl)) || did
		}
	}
	return did, look
}

// deedTexts say what a deed that failed has not brought about.
var deedTexts = map[deed]string{
	doNotice:  "the notice from which its wait counts was not written",
	doInstall: "it was not made a member",
	doAmend:   "its record was not brought up to date",
}

// announce tells, before it is done, what this client's options change on node i
// for all clients: once, however often it is tried. Whoever does deeds has raised
// and bound for itself.
func (r *roster) announce(i int, pl plan) {
	if pl.do == doNothing && pl.cause == "" { // done: should it be taken back, the next time is told as well
		r.raised[i], r.bound[i] = false, false
	}
	if pl.below != 0 && !r.raised[i] {
		r.raised[i] = true
		r.observer.MaxTTLRaised(i, fmt.Errorf("the cluster's MaxTTL goes from %v to %v: every node that restarts will wait so long before it votes, until it is lowered (Cluster.LowerMaxTTL, redlock nodes lower)",
			pl.below, pl.record.maxTTL))
	}
	if pl.binding && !r.bound[i] {
		r.bound[i] = true
		r.observer.StrictRecoverySet(i, errors.New("the cluster's recovery is an operator's from now on, for good and for all clients: "+
			"where a majority forgets, nothing is founded anew before Cluster.Admit"))
	}
}

// did notes what a deed for node i failed with, for whoever asks why the node does
// not vote, and tells whether it was done. A refusal that is a matter of order is no
// fault: the next look tells what has changed.
func (r *roster) did(ctx context.Context, i int, what string, err error) bool {
	if err != nil && r.clock.Over(ctx) {
		return false
	}
	var fault error
	if err != nil && !errors.Is(err, errRefused) {
		fault = fmt.Errorf("%s: %w", what, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[i] = fault
	return err == nil
}

// note keeps until when node i waits. Where nothing is to be done for it, nothing
// has failed.
func (r *roster) note(i int, pl plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until[i] = 0
	if pl.waiting {
		r.until[i] = pl.until
	}
	if pl.do == doNothing || pl.do == doWait {
		r.faults[i] = nil
	}
}

// pause is how long until the joiner looks again.
func (r *roster) pause() time.Duration {
	f, now := r.current(), r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	pause := time.Duration(0)
	for i := range r.nodes {
		next := joinPoll
		switch state, _ := f.standing(i); {
		case state == NodeForeign, state == NodeMisconfigured, state == NodeRetired && f.sights[i].answered, state == NodeMember && f.refounded():
			next = strayPoll
		case state != NodeBlank && f.next(i, now, r.proposal()).do == doNothing:
			continue
		}
		if left := r.until[i].Sub(now); r.until[i] != 0 && left < next {
			next = max(left, time.Millisecond)
		}
		if pause == 0 || next < pause {
			pause = next
		}
	}
	return pause
}

// mark writes a retired name on the other members, and returns how many have it.
func (r *roster) mark(ctx context.Context, f fleet, node int, name string) (int, error) {
	var faults []error
	marks := 0
	for _, j := range f.members(node, 0) {
		p := plan{do: doAmend, record: record{epoch: f.sights[j].rec.epoch, retired: []string{name}}}
		if err := r.nodes[j].Do(ctx, p); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", f.names[j], err))
			continue
		}
		marks++
	}
	return marks, errors.Join(faults...)
}

// errRefused is the answer of a node on which what a deed rests on has changed.
var errRefused = errors.New("refused: the node has changed since it was looked at")
