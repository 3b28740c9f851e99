// Package queue orders the waiters for a lock, and tells them that it is their turn. It
// keeps the line of one Locker's goroutines for each name, gives the nodes signs of life,
// hears their calls, and looks at names without a call.
package queue

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Queue orders the goroutines of one Locker that want the same name: first in,
// first out, and one of them at a time goes to the network. A thousand waiting
// goroutines cost the nodes as much as one.
type Queue struct {
	turns   int    // the holds in a row before other processes have their turn
	Freeing func() // called before a name becomes free; nil but in tests

	mu     sync.Mutex // guards the fields below, and those of every Name but its schedule
	names  map[string]*Name
	spare  []*Name    // of names that nobody waited for, to be used again
	waited nameFilter // the names that nodes may have an entry of ours for
	shared nameFilter // the same, for entries in the line of sharers
	ended  endedOwners
}

// mostSpare is how many names are kept for use again.
const mostSpare = 128

// Name is one name that this Locker holds or waits for. One goroutine has its turn, or a
// group that shares it (kinds.go): position and what follows are theirs. The callers of its
// Locked methods hold the Queue's mu.
type Name struct {
	Key       string
	queue     list.List    // of *Waiter; one that quits is taken out without a search
	group     quorum.Group // whose turn it is; without members if one goroutine has it, for an exclusive hold
	following list.List    // of *Waiter: those of the group that go when its leader was granted
	position  int64        // the process's place among all processes; NoTicket if none yet
	recorded  bool         // nodes may have an entry of ours
	held      int          // in a row, since the position was taken
	barged    bool         // the hold went past the waiters: it is handed to nobody here
	hints     uint64       // nodes that said it is our turn, one bit each
	due       bool         // a look found it free
	contended bool         // it was waited for
	sleeper   *round.Sleeper
	open      *round.Round // the attempt that releases may grant, while somebody leads it; nil if none
	won       string       // the owner of the last attempt that brought the lock: its late grants say nothing new
	next      *round.Claim // the one that goes on with the place when nobody leads; nil if none
	slot      int          // one more than the slot that the last call said is free; 0 if it said none
	rests     *Waiter      // of slots: the goroutine that has the turn, while it takes a slot that is handed on; nil if none does
	given     *Transfer    // what it was given then; nil if nothing
	polls     pollSchedule
}

// Waiter is one goroutine that waits for another of its Locker.
type Waiter struct {
	TTL     time.Duration // that it asks for
	Label   string        // of its hold, in the owner value
	Pushes  bool          // releases may grant it
	Shared  bool          // beside others
	Slots   int           // of a name that has slots, how many
	follows bool          // it goes when the leader of its group was granted
	refused bool          // it has asked, and is decided when it gives up
	at      *list.Element // in the name's queue, or in following; nil once its turn has come
	ready   chan struct{} // closed when it is its turn
	given   *Transfer     // what it was given then; nil if the turn only
}

// Transfer is what a goroutine takes over from the one before it: the lock, or its place
// in line; or, from the leader of its group, an attempt that is sent already.
type Transfer struct {
	Handover node.Handover
	Open     *round.Round // the attempt that the release before put in line, or that is sent; nil if it is handed the lock
	Sleeper  *round.Sleeper
	Turn     uint8 // how the leader that sent it was granted; 0 if none did
}

// Give lets a waiter that Next took out go on, with what was sent for it.
func (w *Waiter) Give(t *Transfer) {
	w.given = t
	close(w.ready)
}

// New makes the queue of a Locker that keeps a name for so many turns in a row.
func New(turns int) *Queue { return &Queue{turns: turns, names: make(map[string]*Name)} }

// Try takes the turn for key if nobody has it or waits for it.
func (q *Queue) Try(key string) (*Name, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names[key] != nil {
		return nil, false
	}
	return q.namedLocked(key), true
}

// namedLocked makes a name, whose turn the caller has.
func (q *Queue) namedLocked(key string) *Name {
	var name *Name
	if last := len(q.spare) - 1; last >= 0 {
		name = q.spare[last]
		q.spare = q.spare[:last]
		*name = Name{Key: key, polls: name.polls}
	} else {
		name = Apart(key)
	}
	q.names[key] = name
	return name
}

// Take blocks until it is the caller's turn for key, or ctx is done; it may have been given the
// lock as well. On failure it returns ctx's cause and leaves the queue as it was.
func (q *Queue) Take(ctx context.Context, key string, ttl time.Duration, label string, pushes bool) (*Name, *Transfer, error) {
	if name, first := q.Try(key); first {
		return name, nil, nil
	}
	q.mu.Lock()
	name := q.names[key]
	if name == nil { // it became free at the same moment
		q.mu.Unlock()
		return q.Take(ctx, key, ttl, label, pushes)
	}
	mine := &Waiter{TTL: ttl, Label: label, Pushes: pushes, ready: make(chan struct{})}
	name.joinLocked(mine)
	q.mu.Unlock()
	if err := q.turnOf(ctx, name, mine); err != nil {
		return nil, nil, err
	}
	return name, mine.given, nil
}

// turnOf blocks until a goroutine that is in line has its turn, or ctx is done: then turnOf
// takes it out of the line.
func (q *Queue) turnOf(ctx context.Context, name *Name, w *Waiter) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	if q.quit(name, w) {
		return fault.OfContext(ctx)
	}
	<-w.ready // it became ours at the same moment
	return nil
}

// quit takes a goroutine out of the line. It returns false if its turn had come.
func (q *Queue) quit(name *Name, w *Waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.at == nil {
		return false
	}
	if !w.follows {
		name.queue.Remove(w.at)
		return true
	}
	name.following.Remove(w.at)
	if !w.refused {
		name.group.Decided(false, false, name.following.Len()) // not the last: the leader is left
	}
	return true
}

// Next takes out the waiter to which the holder may hand the lock: the first in line, while
// the turn lasts. It also tells whether the process has an entry to keep. The caller lets
// the waiter go on by Give. A hold that went past the waiters began no turn.
func (q *Queue) Next(key string) (w *Waiter, recorded bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[key]
	if name == nil || !name.goesOnLocked() || name.barged || !quorum.TurnLeft(name.held, q.turns) {
		return nil, false
	}
	return name.firstLocked(), name.recorded
}

// GoesOn ends the turn of the process, if a goroutine is in line here which a release may
// grant: it takes that one out, for the caller to give it the attempt which the release
// puts in line, and says how the release is to leave the process's entry. stood says that
// the holder's entry, if it has one, takes pushes.
func (q *Queue) GoesOn(key string, stood bool) (w *Waiter, name *Name, entry round.Leaving) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name = q.names[key]
	if name == nil || !name.goesOnLocked() || !name.barged && quorum.TurnLeft(name.held, q.turns) || name.recorded && !stood {
		return nil, nil, 0
	}
	if first := name.queue.Front().Value.(*Waiter); !first.Pushes {
		return nil, nil, 0
	}
	if name.recorded {
		entry = round.LeaveQueue
	}
	name.position, name.recorded, name.held, name.next = quorum.NoTicket, true, 0, nil
	q.waited.add(key)
	return name.firstLocked(), name, entry
}

// CountHold notes that the process has the lock once more. A hold that went past the
// waiters (barged) is not of the process's turn: it leaves the place to the others as it was.
// A leader's hold (leads: an election's reign) is all of the turn.
func (q *Queue) CountHold(key string, barged, leads bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[key]
	if name == nil {
		return
	}
	name.barged = barged
	switch {
	case barged:
	case leads:
		name.held = max(name.held, q.turns)
	default:
		name.held++
	}
}

// Ending is how the holder's release, or the rollback of a waiter that gives up, is to leave
// the process's entry. While others of the process wait and its turn is not over,
// it keeps its place. Else the place is given up, no matter what the release brings.
func (q *Queue) Ending(key string) round.Leaving {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[key]
	if name == nil {
		return round.LeaveNothing
	}
	if name.recorded && name.goesOnLocked() && quorum.TurnLeft(name.held, q.turns) {
		return round.LeaveEntry
	}
	recorded := name.recorded
	name.giveUpLocked()
	if recorded {
		return round.LeaveQueue
	}
	return round.LeaveNothing
}

// Pass gives the turn for key to the next in line. If there is none, and the process still has an
// entry, it calls leave: the waiter that it was kept for has quit meanwhile. leave runs before
// anybody here can ask for the name again. It gets the claim that stands there; nil if none.
func (q *Queue) Pass(key string, leave func(stands *round.Claim)) {
	if q.Freeing != nil {
		q.Freeing()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if name := q.names[key]; name != nil {
		q.moveOnLocked(name, leave)
	}
}

// moveOnLocked is Pass for a caller that holds mu. Waiters that want to share, and stand
// first, go together: the first of them leads. They do not keep a place that was taken for
// an exclusive hold.
func (q *Queue) moveOnLocked(name *Name, leave func(stands *round.Claim)) {
	if name.recorded && !name.goesOnLocked() {
		leave(name.next)
		name.giveUpLocked()
	}
	switch {
	case name.goesOnLocked():
		close(name.firstLocked().ready)
	case name.queue.Len() > 0:
		name.beginGroupLocked()
	default:
		delete(q.names, name.Key)
		if !name.contended && len(q.spare) < mostSpare {
			q.spare = append(q.spare, name)
		}
	}
}

// goesOnLocked tells whether the first in line wants an exclusive hold: only such a waiter
// keeps the place of an exclusive turn.
func (n *Name) goesOnLocked() bool {
	first := n.queue.Front()
	return first != nil && !first.Value.(*Waiter).Shared
}

// giveUpLocked gives up the name's place.
func (n *Name) giveUpLocked() {
	n.position, n.recorded, n.held, n.next = quorum.NoTicket, false, 0, nil
}

// LeaveAll gives up every place that the process has: it calls leave for each name, with
// the claim that stands there for the goroutine that would have led next; nil if none. For
// a place in the line of sharers it calls leaveShared. The Locker is closed by then, so no
// goroutine joins behind it.
func (q *Queue) LeaveAll(leave func(key string, stands *round.Claim), leaveShared func(key string, place int64)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(q.names)) {
		name := q.names[key]
		if !name.recorded {
			continue
		}
		place, stands := name.position, name.next
		name.giveUpLocked()
		if name.sharesLocked() {
			name.group.Place = quorum.NoTicket
			leaveShared(key, place)
		} else {
			leave(key, stands)
		}
	}
}

// stands tells whether the process still has this place for key, of that kind. NoTicket is
// none: a look that told a node of it would put the process before all others.
func (q *Queue) stands(key string, position int64, shared bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[key]
	return position != quorum.NoTicket && name != nil && name.recorded && name.position == position && name.sharesLocked() == shared
}

// joinLocked puts a goroutine at the end of the line.
func (n *Name) joinLocked(w *Waiter) {
	n.contended = true
	w.at = n.queue.PushBack(w)
}

// firstLocked takes out the first goroutine, whose turn has come.
func (n *Name) firstLocked() *Waiter { return take(&n.queue) }

// take takes the first out of a line.
func take(line *list.List) *Waiter {
	w := line.Remove(line.Front()).(*Waiter)
	w.at = nil
	return w
}

// Recorded tells whether the process has a place for key, of that kind.
func (q *Queue) Recorded(key string, shared bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[key]
	return name != nil && name.recorded && name.sharesLocked() == shared
}

// Position returns the process's place for the name; NoTicket if it has none.
func (q *Queue) Position(name *Name) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return name.position
}

// Stand takes in the process's place for the name. From now on nodes may have an
// entry of ours.
func (q *Queue) Stand(name *Name, position int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.position, name.recorded = position, true
	if name.sharesLocked() {
		name.group.Place = position
		q.shared.add(name.Key)
		return
	}
	q.waited.add(name.Key)
}

// Listen makes the nodes call this process from now on, though nobody in it waits: they may
// pass on that a hold is asked for. It does not block until they do. Nothing else is sent
// to them for it: signs of life are for waiters. The subscriptions stay open until Close,
// as they do after a wait.
func (w *Presence) Listen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.openLocked()
}

// asked tells whether a message asks for a hold of ours. Config.Asked has told the hold then.
func (w *Presence) asked(message string) bool {
	return w.cfg.Asked != nil && w.cfg.Asked(message)
}
