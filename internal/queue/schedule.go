package queue

import (
	"container/heap"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
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

// pollSchedule is when a name is to be looked at.
type pollSchedule struct {
	at    clock.Instant
	most  time.Duration   // the longest until the next
	place int             // in the heap; -1: not in it
	armed bool            // somebody rests until it
	round int             // counts the rests: an answer for an earlier one is late
	free  clock.Instant   // when a quorum is, as far as was said
	ends  []clock.Instant // when each node is, as it said last; 0: it did not
	vague int             // looks in a row, since then, that told nothing
}

// heard takes in that a node's lease lasts until end. It returns when the next
// look is due by that, or that all nodes are to be asked now. Of a lease that was
// lengthened it is the end: the holder lives. Else it is what was known before:
// this one node may be held by somebody who never had a quorum, and died. Once
// that has passed, a node that was not heard before, shows no change, or has no vote
// (end is 0) tells nothing; the next is looked at, which costs less than to ask them all.
func (o *pollSchedule) heard(node int, now, end clock.Instant, slack time.Duration) (next clock.Instant, ask bool) {
	if before := o.ends[node]; before != 0 && end.Sub(before) > slack {
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

// Rest has a name looked at as r says, and then at least every so often: more rarely for
// one whose turn is next, whom a release calls. votes and heard are what the last ask
// brought.
func (w *Presence) Rest(name *Name, votes []quorum.Vote, heard []quorum.Hearing, r quorum.Rest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.cfg.Clock.Early()
	name.polls.armed, name.polls.most = true, r.Most
	name.polls.free, name.polls.ends, name.polls.vague = now.Add(r.Ends), name.polls.ends[:0], 0
	for i, v := range votes {
		end := clock.Instant(0)
		if v.Outcome == quorum.Taken && heard[i].Left > 0 {
			end = now.Add(heard[i].Left)
		}
		name.polls.ends = append(name.polls.ends, end)
	}
	name.polls.round++
	w.arm(name, now.Add(r.After))
}

// arm sets the date of a name's next look; mu is held.
func (w *Presence) arm(name *Name, at clock.Instant) {
	name.polls.at = at
	if name.polls.place < 0 {
		heap.Push(&w.resting, name)
	} else {
		heap.Fix(&w.resting, name.polls.place)
	}
	if w.resting[0] == name {
		w.signal()
	}
}

// Cancel ends a rest.
func (w *Presence) Cancel(name *Name) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name.polls.armed = false
	if name.polls.place >= 0 {
		heap.Remove(&w.resting, name.polls.place)
	}
}

// dueLooks takes the looks that are due, for the nodes from number first on; mu
// is held. What they look at is due again a while later, if no answer comes.
func (w *Presence) dueLooks(now clock.Instant) (looks []node.Poll, first int) {
	first = w.turn
	if now < w.nextLooks {
		return nil, first
	}
	var names []*Name
	for len(w.resting) > 0 && w.resting[0].polls.at <= now {
		name := w.resting[0]
		names = append(names, name)
		name.polls.at = now.Add(w.cfg.Timeout + lookAgain)
		heap.Fix(&w.resting, 0)
	}
	if len(names) == 0 {
		return nil, first
	}
	w.nextLooks = now.Add(min(time.Duration(len(w.resting))*lookPace, lookPaceMost))
	looks = w.pollsOf(names)
	w.turn += len(looks)
	if len(looks)%len(w.cfg.Nodes) == 0 { // else each would be looked at on the same node again
		w.turn++
	}
	w.turn %= len(w.cfg.Nodes)
	return looks, first
}

// pollHeap orders names by their next look, for container/heap.
type pollHeap []*Name

func (h pollHeap) Len() int { return len(h) }

func (h pollHeap) Less(i, j int) bool { return h[i].polls.at < h[j].polls.at }

func (h pollHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].polls.place, h[j].polls.place = i, j
}

// Push adds a name at the end.
func (h *pollHeap) Push(x any) {
	name := x.(*Name)
	name.polls.place = len(*h)
	*h = append(*h, name)
}

// Pop takes the last name out.
func (h *pollHeap) Pop() any {
	old := *h
	name := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	name.polls.place = -1
	return name
}
