package redlock

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
)

// lineup orders the goroutines of one Locker that want the same name: first in,
// first out, and one of them at a time goes to the network. A thousand waiting
// goroutines cost the nodes as much as one.
type lineup struct {
	turns   int    // the holds in a row before other processes have their turn
	freeing func() // called before a name becomes free; nil but in tests

	mu    sync.Mutex // guards the fields below, and every line's
	names map[string]*line
	spare []*line // of names that nobody waited for, to be used again
	stood stood   // the names that nodes may have an entry of ours for
}

// mostSpare is how many lines are kept for use again.
const mostSpare = 128

// line is one name that this Locker holds or waits for.
type line struct {
	key      string
	queue    list.List // of *place; whoever quits is taken out without a search
	position int64     // the process's place among all processes; NoTicket: none yet
	recorded bool      // nodes may have an entry of ours
	held     int       // in a row, since the position was taken
	hints    uint64    // nodes that said it is our turn, one bit each
	due      bool      // a look found it free
	crowded  bool      // it was waited for
	leader   *node.Sleeper
	polls    pollSchedule
}

// place is one goroutine that waits for another of its Locker.
type place struct {
	ttl   time.Duration // that it asks for
	at    *list.Element // in the line's queue; nil: its turn has come
	ready chan struct{} // closed when it is its turn
	given *transfer     // what it was given then; nil: the turn only
}

func newLineup(turns int) *lineup { return &lineup{turns: turns, names: make(map[string]*line)} }

// try takes the turn for key if nobody has it or waits for it.
func (ls *lineup) try(key string) (*line, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.names[key] != nil {
		return nil, false
	}
	var ln *line
	if last := len(ls.spare) - 1; last >= 0 {
		ln = ls.spare[last]
		ls.spare = ls.spare[:last]
		ln.key, ln.held, ln.hints, ln.due = key, 0, 0, false
	} else {
		ln = &line{key: key, polls: pollSchedule{place: -1}}
	}
	ls.names[key] = ln
	return ln, true
}

// take blocks until it is the caller's turn for key, or ctx is done; it may have
// been given the lock as well. On failure it returns ctx's cause and leaves the
// queue as it was.
func (ls *lineup) take(ctx context.Context, key string, ttl time.Duration) (*line, *transfer, error) {
	if ln, first := ls.try(key); first {
		return ln, nil, nil
	}
	ls.mu.Lock()
	ln := ls.names[key]
	if ln == nil { // it became free at the same moment
		ls.mu.Unlock()
		return ls.take(ctx, key, ttl)
	}
	mine := &place{ttl: ttl, ready: make(chan struct{})}
	ln.crowded = true
	ln.join(mine)
	ls.mu.Unlock()
	select {
	case <-mine.ready:
		return ln, mine.given, nil
	case <-ctx.Done():
	}
	if ls.quit(ln, mine) {
		return nil, nil, fault.OfContext(ctx)
	}
	<-mine.ready // it became ours at the same moment
	return ln, mine.given, nil
}

// quit takes a goroutine out of the line. It returns false if its turn had come.
func (ls *lineup) quit(ln *line, p *place) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if p.at == nil {
		return false
	}
	ln.queue.Remove(p.at)
	return true
}

// next is who the holder may hand the lock to: the first in line, while the turn
// lasts; and whether the process has an entry to keep. The caller gives it what it
// has for it, and closes ready.
func (ls *lineup) next(key string) (p *place, recorded bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.names[key]
	if ln == nil || ln.queue.Len() == 0 || !quorum.TurnLeft(ln.held, ls.turns) {
		return nil, false
	}
	return ln.first(), ln.recorded
}

// holds notes that the process has the lock once more.
func (ls *lineup) holds(key string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ln := ls.names[key]; ln != nil {
		ln.held++
	}
}

// ending is how the holder's release, or the rollback of who gives up, is to leave
// the process's entry. While others of the process wait and its turn is not over,
// it keeps its place. Else the place is given up, whatever the release brings.
func (ls *lineup) ending(key string) node.Leaving {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.names[key]
	if ln == nil {
		return node.LeaveNothing
	}
	if ln.recorded && ln.queue.Len() > 0 && quorum.TurnLeft(ln.held, ls.turns) {
		return node.LeaveEntry
	}
	recorded := ln.recorded
	ln.position, ln.recorded, ln.held = quorum.NoTicket, false, 0
	if recorded {
		return node.LeaveQueue
	}
	return node.LeaveNothing
}

// pass gives the turn for key to the next in line. Where nobody is, and the process
// still has an entry, it calls leave: whoever it was kept for has quit meanwhile.
// leave runs before anybody here can ask for the name again.
func (ls *lineup) pass(key string, leave func()) {
	if ls.freeing != nil {
		ls.freeing()
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.names[key]
	if ln == nil {
		return
	}
	if ln.queue.Len() == 0 {
		delete(ls.names, key)
		if ln.recorded {
			leave()
		}
		if !ln.crowded && len(ls.spare) < mostSpare {
			ls.spare = append(ls.spare, ln)
		}
		return
	}
	close(ln.first().ready)
}

// hint takes in that node i called us for key. It calls leave when the entry that
// the node called is of no use to anybody here any more, as pass does. A name that
// this process never stood in line for has no entry of ours: the call is stray or
// forged, and nothing is sent for it.
func (ls *lineup) hint(key string, i int, leave func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.names[key]
	if ln == nil || !ln.recorded {
		if ls.stood.has(key) {
			leave()
		}
		return
	}
	ln.hints |= 1 << i
	ln.rouse()
}

// recall makes up for what node i may have said in vain: whoever is asking for a
// name, or is about to, asks there again. Who rests until a look is told by that.
func (ls *lineup) recall(i int, resting []*line) {
	looked := make(map[*line]bool, len(resting))
	for _, ln := range resting {
		looked[ln] = true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, ln := range ls.names {
		if ln.recorded && ln.leader != nil && !looked[ln] {
			ln.hints |= 1 << i
			ln.rouse()
		}
	}
}

// quitAll gives up every place that the process has: it calls leave for each name.
// Nobody here comes any more when it is called.
func (ls *lineup) quitAll(leave func(key string)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(ls.names)) {
		if ln := ls.names[key]; ln.recorded {
			ln.position, ln.recorded, ln.held = quorum.NoTicket, false, 0
			leave(key)
		}
	}
}

// stands tells whether the process still has this place for key.
func (ls *lineup) stands(key string, position int64) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.names[key]
	return ln != nil && ln.recorded && ln.position == position
}

// join puts a goroutine at the end of the line; mu is held.
func (ln *line) join(p *place) { p.at = ln.queue.PushBack(p) }

// first takes out the first goroutine, whose turn has come; mu is held.
func (ln *line) first() *place {
	p := ln.queue.Remove(ln.queue.Front()).(*place)
	p.at = nil
	return p
}

// recorded tells whether the process has a place for key.
func (ls *lineup) recorded(key string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.names[key]
	return ln != nil && ln.recorded
}

// rouse wakes the goroutine that waits for the nodes, if one does; mu is held.
func (ln *line) rouse() {
	if ln.leader == nil {
		return
	}
	select {
	case ln.leader.Wake <- struct{}{}:
	default:
	}
}

// lead makes w what hints and looks wake.
func (ls *lineup) lead(ln *line, w *node.Sleeper) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.leader, ln.due, ln.crowded = w, false, true
}

// follow ends lead, unless another goroutine leads already.
func (ls *lineup) follow(ln *line, w *node.Sleeper) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ln.leader == w {
		ln.leader, ln.hints = nil, 0
	}
}

// rank returns the process's place for the name; NoTicket: it has none.
func (ls *lineup) rank(ln *line) int64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ln.position
}

// ranks takes in the process's place for the name. From now on nodes may have an
// entry of ours.
func (ls *lineup) ranks(ln *line, position int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.position, ln.recorded = position, true
	ls.stood.add(ln.key)
}

// changed says that a look found the name free.
func (ls *lineup) changed(ln *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln.due = true
	ln.rouse()
}

// called takes the hints that have come, and whether a look found a change.
func (ls *lineup) called(ln *line) (hints uint64, due bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	hints, due = ln.hints, ln.due
	ln.hints, ln.due = 0, false
	return hints, due
}
