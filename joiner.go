package redlock

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// joinPoll is how often the joiner looks while a node that answers does not
	// vote: another client may have taken it in meanwhile.
	joinPoll = time.Second
	// strayPoll is how often it looks while a node that answers is not to be
	// taken in (foreign, damaged, retired): somebody may have emptied it.
	strayPoll = 10 * time.Second
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
	for {
		select {
		case <-r.nudge:
		case <-r.stop:
			return
		}
		for pause := r.settle(ctx, r.proposal()); pause > 0; pause = r.settle(ctx, r.proposal()) {
			if !r.sleep(pause) {
				return
			}
		}
	}
}

// sleep waits out a pause, or less when the joiner is nudged. It returns false
// when the roster was closed.
func (r *roster) sleep(pause time.Duration) bool {
	t := r.clock.newTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.nudge:
	case <-r.stop:
		return false
	}
	return true
}

// close ends the joiner and waits for it.
func (r *roster) close() {
	close(r.stop)
	<-r.ended
}

// settle looks at all nodes and does what can be done now. It returns how long
// to pause until there may be more; 0 when nothing but a nudge will bring it.
func (r *roster) settle(ctx context.Context, p proposal) time.Duration {
	select {
	case r.work <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	defer func() { <-r.work }()
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
	var g errgroup.Group // zero: one node's failure must not end the others
	for _, n := range r.nodes {
		g.Go(func() error {
			n.look(ctx, counted)
			return nil
		})
	}
	_ = g.Wait()
}

// step plans for every node and does the deeds that are due. It returns whether
// it did one, and whether an install waits for another, counted look.
func (r *roster) step(ctx context.Context, p proposal) (did, look bool) {
	f, now := r.current(), r.clock.now()
	for i, n := range r.nodes {
		pl := f.next(i, now, p)
		r.note(i, pl)
		switch pl.do {
		case doNothing, doWait:
		case doRead:
			look = look || !pl.waiting
		case doPlace:
			for _, j := range pl.at {
				did = r.nodes[j].do(ctx, plan{do: doAmend, record: record{epoch: f.sights[j].rec.epoch, replaced: pl.places}}) == nil || did
			}
		case doNotice, doInstall, doAmend:
			did = n.do(ctx, pl) == nil || did
		}
	}
	return did, look
}

// note keeps until when node i waits.
func (r *roster) note(i int, pl plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until[i] = 0
	if pl.waiting {
		r.until[i] = pl.until
	}
}

// pause is how long until the joiner looks again.
func (r *roster) pause() time.Duration {
	f, now := r.current(), r.clock.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	pause := time.Duration(0)
	for i := range r.nodes {
		next := joinPoll
		switch state, _ := f.standing(i); {
		case state == NodeForeign, state == NodeMisconfigured, state == NodeRetired && f.sights[i].answered:
			next = strayPoll
		case state != NodeBlank && f.next(i, now, r.proposal()).do == doNothing:
			continue
		}
		if left := r.until[i].sub(now); r.until[i] != 0 && left < next {
			next = max(left, time.Millisecond)
		}
		if pause == 0 || next < pause {
			pause = next
		}
	}
	return pause
}
