package redlock

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lookPace is the pause between two rounds of looks for each name that is
	// waited for, up to lookPaceMost: many looks then go in few commands.
	lookPace     = 50 * time.Microsecond
	lookPaceMost = 500 * time.Millisecond
	// lookAgain is the pause after a look that a node did not answer; the next node
	// is asked then.
	lookAgain = 100 * time.Millisecond
)

// vigil is what a Locker does while goroutines of it wait for the nodes: it says
// once a second that it lives, hears who is called, and looks now and then
// whether the names are still held. One goroutine and one subscription for each
// node, whatever the number of names; none before the first wait.
type vigil struct {
	locker *Locker
	id     string // the waiting process, to the nodes
	subs   []*subscription
	wake   chan struct{}
	done   chan struct{} // closed when run has ended

	mu        sync.Mutex // guards the fields below, and look of every line
	started   bool
	closed    bool
	waiting   int // goroutines
	hangUp    context.CancelFunc
	lookouts  lookHeap
	beat      instant // when the next sign of life is due
	nextLooks instant // no looks before
	turn      int     // the node that the next look goes to
}

// lookout is when a line's name is to be looked at.
type lookout struct {
	at    instant
	most  time.Duration // the longest until the next
	place int           // in the heap; -1: not in it
	armed bool          // somebody rests until it
	round int           // counts the rests: an answer for an earlier one is late
	free  instant       // when a quorum is, as far as was said
	ends  []instant     // when each node is, as it said last; 0: it did not
	vague int           // looks in a row, since then, that told nothing
}

// heard takes in that a node's lease lasts until end. It returns when the next
// look is due by that, or that all nodes are to be asked now. Of a lease that was
// lengthened it is the end: the holder lives. Else it is what was known before:
// this one node may be held by somebody who never had a quorum, and died. Once
// that has passed, a node that was not heard before, or shows no change, tells
// nothing; the next is looked at, which costs less than to ask them all.
func (o *lookout) heard(node int, now, end instant, slack time.Duration) (next instant, ask bool) {
	if before := o.ends[node]; before != 0 && end.sub(before) > slack {
		o.free = end
	}
	o.ends[node] = end
	if o.free > now {
		o.vague = 0
		return o.free, false
	}
	o.vague++
	return now, o.vague >= len(o.ends)
}

func newVigil(l *Locker, id string) *vigil {
	w := &vigil{locker: l, id: id, wake: make(chan struct{}, 1), done: make(chan struct{})}
	for _, n := range l.nodes {
		w.subs = append(w.subs, &subscription{
			node: n, channel: wakeChannel + id, clock: l.clock, called: w.called, renewed: w.renewed,
			settled: make(chan struct{}), stopped: make(chan struct{}),
		})
	}
	return w
}

// join counts a goroutine that waits, and returns when the nodes can call it: one
// that is asked before would take its entry for a dead one's.
func (w *vigil) join(ctx context.Context) error {
	w.mu.Lock()
	w.waiting++
	first := w.waiting == 1
	if !w.started && !w.closed {
		w.started = true
		var inner context.Context
		inner, w.hangUp = context.WithCancel(context.Background()) // it outlives whoever waits first
		for _, s := range w.subs {
			go s.run(inner) //nolint:contextcheck // it keeps nothing of that context
		}
		go w.run()
	}
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if first {
		w.rouse()
	}
	return w.settled(ctx)
}

// settled waits until every node has said that it will call, or a node timeout
// has passed.
func (w *vigil) settled(ctx context.Context) error {
	var limit *time.Timer
	for _, s := range w.subs {
		select {
		case <-s.settled:
			continue
		default:
		}
		if limit == nil {
			limit = w.locker.clock.newTimer(w.locker.cfg.nodeTimeout)
			defer limit.Stop()
		}
		select {
		case <-s.settled:
		case <-limit.C:
			return nil
		case <-w.locker.closing:
			return ErrClosed
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
	return nil
}

// part takes back a join.
func (w *vigil) part() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
}

// subscribed is how many nodes can call us.
func (w *vigil) subscribed() int {
	n := 0
	for _, s := range w.subs {
		if s.up.Load() {
			n++
		}
	}
	return n
}

func (w *vigil) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// called takes in a node's hint. A process that nobody waits in any more leaves
// that node's queue, so that the next in line is called.
func (w *vigil) called(i int, key string) {
	l := w.locker
	if len(key) <= MaxResourceLength && !l.lines.hint(key, i) {
		l.leave(key, l.cfg.ttl, l.nodes[i:i+1])
	}
}

// renewed has one node asked about everything: it may have called in vain.
func (w *vigil) renewed(i int) {
	w.mu.Lock()
	lines := append([]*line(nil), w.lookouts...)
	looks := w.looking(lines)
	w.mu.Unlock()
	for _, k := range looks {
		w.locker.nodes[i].submitLook(k)
	}
}

// schedule has a name looked at as a candidate's rest has it, and then at least
// every so often. A node that abstained recorded nothing: a look puts the entry
// there, so that it knows who waits when it votes again.
func (w *vigil) schedule(c *candidate, r rest) {
	w.rests(c, r)
	for i, v := range c.votes {
		if v.outcome == Abstained {
			w.store(i, c.line)
		}
	}
}

// store has one node told at once who waits for a name. It does not vote, so what
// it says of the lease counts for nothing.
func (w *vigil) store(i int, ln *line) {
	w.mu.Lock()
	looks := w.looking([]*line{ln})
	w.mu.Unlock()
	looks[0].blind = true
	w.locker.nodes[i].submitLook(looks[0])
}

// rests sets the date of the look at a candidate's line.
func (w *vigil) rests(c *candidate, r rest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ln, now := c.line, w.locker.clock.early()
	ln.look.armed, ln.look.most = true, otherLook
	if c.isHead() {
		ln.look.most = headLook
	}
	ln.look.free, ln.look.ends, ln.look.vague = now.add(r.ends), ln.look.ends[:0], 0
	for i, v := range c.votes {
		end := instant(0)
		if v.outcome == Taken && c.heard[i].left > 0 {
			end = now.add(c.heard[i].left)
		}
		ln.look.ends = append(ln.look.ends, end)
	}
	ln.look.round++
	w.arm(ln, now.add(r.after))
}

// arm sets the date of a line's next look; mu is held.
func (w *vigil) arm(ln *line, at instant) {
	ln.look.at = at
	if ln.look.place < 0 {
		heap.Push(&w.lookouts, ln)
	} else {
		heap.Fix(&w.lookouts, ln.look.place)
	}
	if w.lookouts[0] == ln {
		w.rouse()
	}
}

// cancel takes back a schedule.
func (w *vigil) cancel(ln *line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ln.look.armed = false
	if ln.look.place >= 0 {
		heap.Remove(&w.lookouts, ln.look.place)
	}
}

// run says that we live, and looks, as it is due.
func (w *vigil) run() {
	defer close(w.done)
	t := w.locker.clock.newTimer(time.Hour)
	defer t.Stop()
	for {
		if pause := w.step(w.locker.clock.early()); pause >= 0 {
			t.Reset(pause)
		} else {
			t.Stop()
		}
		select {
		case <-w.wake:
		case <-t.C:
		case <-w.locker.closing:
			return
		}
	}
}

// step does what is due, and returns when the next thing is; negative: nothing is.
func (w *vigil) step(now instant) time.Duration {
	w.mu.Lock()
	if w.waiting == 0 {
		w.mu.Unlock()
		return -1
	}
	beat := w.beat <= now
	if beat {
		w.beat = now.add(beatEvery)
	}
	looks, first := w.dueLooks(now)
	next := w.beat
	if len(w.lookouts) > 0 {
		next = min(next, max(w.lookouts[0].look.at, w.nextLooks))
	}
	w.mu.Unlock()
	nodes := w.locker.nodes
	if beat {
		for _, n := range nodes {
			n.submitLook(&looking{vigil: w})
		}
	}
	for i, k := range looks {
		nodes[(first+i)%len(nodes)].submitLook(k)
	}
	return max(next.sub(now), 0)
}

// dueLooks takes the looks that are due, for the nodes from number first on; mu
// is held. What they look at is due again a while later, if no answer comes.
func (w *vigil) dueLooks(now instant) (looks []*looking, first int) {
	first = w.turn
	if now < w.nextLooks {
		return nil, first
	}
	var lines []*line
	for len(w.lookouts) > 0 && w.lookouts[0].look.at <= now {
		ln := w.lookouts[0]
		lines = append(lines, ln)
		ln.look.at = now.add(w.locker.cfg.nodeTimeout + lookAgain)
		heap.Fix(&w.lookouts, 0)
	}
	if len(lines) == 0 {
		return nil, first
	}
	w.nextLooks = now.add(min(time.Duration(len(w.lookouts))*lookPace, lookPaceMost))
	looks = w.looking(lines)
	w.turn += len(looks)
	if len(looks)%len(w.locker.nodes) == 0 { // else each would be looked at on the same node again
		w.turn++
	}
	w.turn %= len(w.locker.nodes)
	return looks, first
}

// looking makes looks of lines; mu is held.
func (w *vigil) looking(lines []*line) []*looking {
	var looks []*looking
	for batch := range slices.Chunk(lines, lookBatchSize) {
		k := &looking{vigil: w, lines: batch, rounds: make([]int, len(batch))}
		for i, ln := range batch {
			k.rounds[i] = ln.look.round
		}
		looks = append(looks, k)
	}
	return looks
}

// close ends the watch; wait returns when it has ended.
func (w *vigil) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.hangUp != nil {
		w.hangUp()
	}
}

func (w *vigil) await() {
	w.mu.Lock()
	started := w.started
	w.mu.Unlock()
	if !started {
		return
	}
	<-w.done
	for _, s := range w.subs {
		<-s.stopped
	}
}

// looking is one call of look.lua: a sign of life, and the names that are looked at.
type looking struct {
	vigil  *vigil
	lines  []*line
	rounds []int // the rest that each line was in
	blind  bool  // the answer counts for nothing: the node does not vote
}

// submitLook queues a look, or fails it at once.
func (n *node) submitLook(k *looking) {
	n.mu.Lock()
	err := n.refusal(n.clock.early())
	if err == nil {
		n.queue.looks = append(n.queue.looks, k)
	}
	n.nudge()
	if err != nil {
		k.answer(n.index, nil, err)
	}
}

// wanted leaves out what nobody rests for any more: a look must not put back an
// entry that was taken away.
func (k *looking) wanted() (keys []string, positions []int64) {
	k.vigil.mu.Lock()
	kept := 0
	for i, ln := range k.lines {
		if ln.look.armed && ln.look.round == k.rounds[i] {
			k.lines[kept], k.rounds[kept] = ln, k.rounds[i]
			kept++
		}
	}
	k.lines, k.rounds = k.lines[:kept], k.rounds[:kept]
	k.vigil.mu.Unlock()
	for _, ln := range k.lines {
		keys = append(keys, ln.key)
		positions = append(positions, k.vigil.locker.lines.rank(ln))
	}
	return keys, positions
}

// answer takes in what a node said of the names, in milliseconds, behind whether it
// still knew that we live: one that did not has forgotten, or dropped, our entries,
// and is asked about everything. Who waits for a name is woken if it is free there, or
// ought to be free on a quorum by now.
func (k *looking) answer(node int, replies []int64, err error) {
	w := k.vigil
	now := w.locker.clock.early()
	var free []*line
	w.mu.Lock()
	for i, ln := range k.lines {
		if k.blind || !ln.look.armed || ln.look.round != k.rounds[i] {
			continue
		}
		switch {
		case err != nil || len(replies) != len(k.lines)+1:
			w.arm(ln, now.add(lookAgain))
		case replies[1+i] == -2:
			free = append(free, ln)
		case replies[1+i] < 0:
			w.arm(ln, now.add(ln.look.most))
		default:
			end := now.add(time.Duration(replies[1+i]+1) * time.Millisecond)
			next, ask := ln.look.heard(node, now, end, w.locker.cfg.nodeTimeout)
			if ask {
				free = append(free, ln)
				continue
			}
			w.arm(ln, min(next, now.add(ln.look.most)))
		}
	}
	w.mu.Unlock()
	for _, ln := range free {
		w.locker.lines.changed(ln)
	}
	if err == nil && len(replies) > 0 && replies[0] == 0 {
		w.renewed(node)
	}
}

// lookCall is look.lua.
func (n *node) lookCall(k *looking) redis.Cmder {
	keys, positions := k.wanted()
	args := make([]any, 0, 4+2*len(keys))
	args = append(args, "EVALSHA", lookScript.hash, len(keys))
	for i := range keys {
		args = append(args, keys[i])
	}
	args = append(args, k.vigil.id)
	for i := range positions {
		args = append(args, positions[i])
	}
	return intsCall{redis.NewIntSliceCmd(context.Background(), args...)}
}

// settleLook hands out the reply to a look.
func (n *node) settleLook(p *part, err error) {
	if err != nil {
		p.look.answer(n.index, nil, err)
		return
	}
	p.look.answer(n.index, p.cmd.(intsCall).Val(), nil)
}

// lookHeap orders lines by their next look, for container/heap.
type lookHeap []*line

func (h lookHeap) Len() int           { return len(h) }
func (h lookHeap) Less(i, j int) bool { return h[i].look.at < h[j].look.at }
func (h lookHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].look.place, h[j].look.place = i, j
}

// Push adds a line at the end.
func (h *lookHeap) Push(x any) {
	ln := x.(*line)
	ln.look.place = len(*h)
	*h = append(*h, ln)
}

// Pop takes the last line out.
func (h *lookHeap) Pop() any {
	old := *h
	ln := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	ln.look.place = -1
	return ln
}
