package redlock

import (
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// looking is one call of look.lua: a sign of life, the names that are looked at, and
// places in line that the node is told of.
type looking struct {
	presence *presence
	lines    []*line
	rounds   []int         // the rest that each line was in
	bids     []*node.Round // whose places the node was not told by an ask
	told     int           // how many of these are in the call
}

// looking makes looks of lines; mu is held.
func (w *presence) looking(lines []*line) []node.Poll {
	var looks []node.Poll
	for batch := range slices.Chunk(lines, lua.LookBatchSize) {
		k := &looking{presence: w, lines: batch, rounds: make([]int, len(batch))}
		for i, ln := range batch {
			k.rounds[i] = ln.polls.round
		}
		looks = append(looks, k)
	}
	return looks
}

// telling makes looks that tell a node of the places that these rounds asked by, as
// far as the process still has them.
func (w *presence) telling(bids []*node.Round) (looks []node.Poll) {
	var stand []*node.Round
	for _, r := range bids {
		if w.lines.stands(r.Claim.Key, r.Asks.Position) {
			stand = append(stand, r)
		}
	}
	for batch := range slices.Chunk(stand, lua.LookBatchSize) {
		looks = append(looks, &looking{presence: w, bids: batch})
	}
	return looks
}

// Size is of how many names the look is.
func (k *looking) Size() int { return len(k.lines) + len(k.bids) }

// Singly is the same look in calls of one name each.
func (k *looking) Singly() (looks []node.Poll) {
	for i := range k.lines {
		looks = append(looks, &looking{presence: k.presence, lines: k.lines[i : i+1 : i+1], rounds: k.rounds[i : i+1 : i+1]})
	}
	for i := range k.bids {
		looks = append(looks, &looking{presence: k.presence, bids: k.bids[i : i+1]})
	}
	return looks
}

// Wanted leaves out what nobody rests for any more, and the places that were given
// up: a look must not put back an entry that was taken away.
func (k *looking) Wanted() (keys []string, positions []int64) {
	k.presence.mu.Lock()
	kept := 0
	for i, ln := range k.lines {
		if ln.polls.armed && ln.polls.round == k.rounds[i] {
			k.lines[kept], k.rounds[kept] = ln, k.rounds[i]
			kept++
		}
	}
	k.lines, k.rounds = k.lines[:kept], k.rounds[:kept]
	k.presence.mu.Unlock()
	kept = 0
	for i, ln := range k.lines {
		position := k.presence.lines.rank(ln)
		if position == quorum.NoTicket { // given up since
			continue
		}
		k.lines[kept], k.rounds[kept] = ln, k.rounds[i]
		kept++
		keys, positions = append(keys, ln.key), append(positions, position)
	}
	k.lines, k.rounds = k.lines[:kept], k.rounds[:kept]
	k.told = 0
	for _, r := range k.bids {
		if position := r.Asks.Position; k.presence.lines.stands(r.Claim.Key, position) {
			keys, positions = append(keys, r.Claim.Key), append(positions, position)
			k.told++
		}
	}
	return keys, positions
}

// Answer takes in what a node said of the names, in milliseconds, behind whether it
// still knew that we live: one that did not has forgotten, or dropped, our entries,
// and is asked about everything. Who waits for a name is woken if it is free there, or
// ought to be free on a quorum by now. That it is free on a node that does not vote is
// no news: such a node may have forgotten the holder.
func (k *looking) Answer(node int, votes bool, replies []int64, err error) {
	w := k.presence
	now := w.clock.Early()
	var free []*line
	w.mu.Lock()
	for i, ln := range k.lines {
		if !ln.polls.armed || ln.polls.round != k.rounds[i] {
			continue
		}
		switch {
		case err != nil || len(replies) != 1+len(k.lines)+k.told:
			w.arm(ln, now.Add(lookAgain))
		case votes && replies[1+i] == -2:
			free = append(free, ln)
		case votes && replies[1+i] < 0:
			w.arm(ln, now.Add(ln.polls.most))
		default:
			end := clock.Instant(0)
			if votes {
				end = now.Add(time.Duration(replies[1+i]+1) * time.Millisecond)
			}
			next, ask := ln.polls.heard(node, now, end, w.timeout)
			if ask {
				free = append(free, ln)
				continue
			}
			w.arm(ln, min(next, now.Add(ln.polls.most)))
		}
	}
	w.mu.Unlock()
	for _, ln := range free {
		w.lines.changed(ln)
	}
	if err == nil && len(replies) > 0 && replies[0] == 0 {
		w.askAll(node) // this look has told it that we live
	}
}
