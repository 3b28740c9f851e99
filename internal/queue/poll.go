package queue

import (
	"container/heap"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// poll is one call of look.lua: a sign of life, the names that are looked at, and
// places in line that the node is told of.
type poll struct {
	presence *Presence
	names    []*Name
	rounds   []int          // the rest that each name was in
	bids     []*round.Round // whose places the node was not told by an ask
	told     int            // how many of these are in the call
	last     bool           // of those that ask one node about every name (askAll)
}

// pollsOfLocked makes looks of names, and notes in which rest each name is: an answer to an
// earlier rest is dropped.
func (w *Presence) pollsOfLocked(names []*Name) []node.Poll {
	var looks []node.Poll
	for batch := range slices.Chunk(names, lua.LookBatchSize) {
		k := &poll{presence: w, names: batch, rounds: make([]int, len(batch))}
		for i, name := range batch {
			k.rounds[i] = name.polls.round
		}
		looks = append(looks, k)
	}
	return looks
}

// Telling makes looks that tell a node of the places that these rounds asked by, as
// far as the process still has them.
func (w *Presence) Telling(bids []*round.Round) (looks []node.Poll) {
	var stand []*round.Round
	for _, r := range bids {
		if w.queue.stands(r.LineOf(), r.Asks.Position, r.Claim.Shared()) {
			stand = append(stand, r)
		}
	}
	for batch := range slices.Chunk(stand, lua.LookBatchSize) {
		looks = append(looks, &poll{presence: w, bids: batch})
	}
	return looks
}

// Size is of how many names the look is.
func (k *poll) Size() int { return len(k.names) + len(k.bids) }

// Singly is the same look in calls of one name each.
func (k *poll) Singly() (looks []node.Poll) {
	for i := range k.names {
		looks = append(looks, &poll{presence: k.presence, names: k.names[i : i+1 : i+1], rounds: k.rounds[i : i+1 : i+1]})
	}
	for i := range k.bids {
		looks = append(looks, &poll{presence: k.presence, bids: k.bids[i : i+1]})
	}
	looks[len(looks)-1].(*poll).last = k.last
	return looks
}

// Wanted leaves out names that nobody rests for any more, and places that were given
// up: a look must not put back an entry that was taken away. A minus sign marks a place in
// the line of sharers.
func (k *poll) Wanted() (keys []string, positions []int64, claims []*round.Claim) {
	k.presence.mu.Lock()
	kept := 0
	for i, name := range k.names {
		if name.polls.armed && name.polls.round == k.rounds[i] {
			k.names[kept], k.rounds[kept] = name, k.rounds[i]
			kept++
		}
	}
	k.names, k.rounds = k.names[:kept], k.rounds[:kept]
	k.presence.mu.Unlock()
	kept = 0
	for i, name := range k.names {
		position := k.presence.queue.signed(name)
		if position == quorum.NoTicket { // given up since
			continue
		}
		k.names[kept], k.rounds[kept] = name, k.rounds[i]
		kept++
		keys, positions, claims = append(keys, name.Key), append(positions, position), append(claims, k.presence.queue.standing(name))
	}
	k.names, k.rounds = k.names[:kept], k.rounds[:kept]
	k.told = 0
	for _, r := range k.bids {
		if position := r.Asks.Position; k.presence.queue.stands(r.LineOf(), position, r.Claim.Shared()) {
			stands := r.Claim
			if stands.Shared() {
				position = -position
			}
			if !stands.AcceptsPush() || stands.Abandoned.Load() {
				stands = nil
			}
			keys, positions, claims = append(keys, r.LineOf()), append(positions, position), append(claims, stands)
			k.told++
		}
	}
	return keys, positions, claims
}

// Answer takes in what a node said of the names, in milliseconds, behind whether it
// still knew that we live: one that did not has forgotten, or dropped, our entries,
// and is asked about everything. Answer wakes the waiter for a name that is free there, or
// ought to be free on a quorum by now. That a name is free on a node that does not vote is
// no news: such a node may have forgotten the holder. One that no quorum votes for any more
// is woken, too: it asks, and learns why.
func (k *poll) Answer(of int, votes bool, replies []int64, err error) {
	w := k.presence
	if k.last {
		defer w.askedAll(of)
	}
	now := w.cfg.Clock.Early()
	var free, ours []*Name
	w.mu.Lock()
	for i, name := range k.names {
		if !name.polls.armed || name.polls.round != k.rounds[i] {
			continue
		}
		switch {
		case err != nil || len(replies) != 1+len(k.names)+k.told:
			w.armLocked(name, now.Add(lookAgain))
		case replies[1+i] == node.AskAgain:
			free = append(free, name)
		case votes && replies[1+i] == -3:
			ours = append(ours, name)
		case votes && replies[1+i] == -2:
			free = append(free, name)
		case votes && replies[1+i] < 0:
			w.armLocked(name, now.Add(name.polls.most))
		default:
			end := clock.Instant(0)
			if votes {
				end = now.Add(time.Duration(replies[1+i]+1) * time.Millisecond)
			}
			next, ask := name.polls.heard(of, now, end, w.cfg.Timeout)
			if ask {
				free = append(free, name)
				continue
			}
			w.armLocked(name, min(next, now.Add(name.polls.most)))
		}
	}
	w.mu.Unlock()
	for _, name := range ours {
		w.queue.granted(name, of)
	}
	for _, name := range free {
		w.queue.changed(name)
	}
	if err == nil && len(replies) > 0 && replies[0] == 0 {
		w.askAll(of) // this look has told it that we live
	}
}

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
	ends  []clock.Instant // when each node is, as it said last; 0 if it did not
	vague int             // looks in a row, since then, that told nothing
}

// heard takes in that a node's lease lasts until end. It returns when the next look is due
// by that, or that all nodes are to be asked now (ask). If the lease was lengthened, the
// next look is due at its end: the holder lives. Else it is due when it was before: this
// one node may be held by a client that never had a quorum, and died. Once that has
// passed, a node that was not heard before, shows no change, or has no vote (end is 0)
// tells nothing; the next node is looked at, which costs less than to ask them all.
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

// Rest plans looks at a name as r says: the first after r.After, each later one after r.Most
// at the latest. votes and heard are what the last ask brought.
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
	w.armLocked(name, now.Add(r.After))
}

// armLocked sets the date of a name's next look.
func (w *Presence) armLocked(name *Name, at clock.Instant) {
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

// dueLooksLocked takes the looks that are due, for the nodes from number first on. Each
// name is due again two node timeouts and lookAgain later, should no answer come.
func (w *Presence) dueLooksLocked(now clock.Instant) (looks []node.Poll, first int) {
	first = w.turn
	if now < w.nextLooks {
		return nil, first
	}
	var names []*Name
	for len(w.resting) > 0 && w.resting[0].polls.at <= now {
		name := w.resting[0]
		names = append(names, name)
		name.polls.at = now.Add(2*w.cfg.Timeout + lookAgain)
		heap.Fix(&w.resting, 0)
	}
	if len(names) == 0 {
		return nil, first
	}
	w.nextLooks = now.Add(min(time.Duration(len(w.resting))*lookPace, lookPaceMost))
	looks = w.pollsOfLocked(names)
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
