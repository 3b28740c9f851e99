package queue

import (
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// poll is one call of look.lua: a sign of life, the names that are looked at, and
// places in line that the node is told of.
type poll struct {
	presence *Presence
	names    []*Name
	rounds   []int         // the rest that each name was in
	bids     []*node.Round // whose places the node was not told by an ask
	told     int           // how many of these are in the call
}

// pollsOf makes looks of names; mu is held.
func (w *Presence) pollsOf(names []*Name) []node.Poll {
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
func (w *Presence) Telling(bids []*node.Round) (looks []node.Poll) {
	var stand []*node.Round
	for _, r := range bids {
		if w.queue.stands(r.LineOf(), r.Asks.Position, r.Claim.Shared) {
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
	return looks
}

// Wanted leaves out what nobody rests for any more, and the places that were given
// up: a look must not put back an entry that was taken away. A place among those who wait
// to share has a minus sign.
func (k *poll) Wanted() (keys []string, positions []int64, claims []*node.Claim) {
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
		if position := r.Asks.Position; k.presence.queue.stands(r.LineOf(), position, r.Claim.Shared) {
			stands := r.Claim
			if stands.Shared {
				position = -position
			}
			if !stands.Pushes || stands.Over.Load() {
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
// and is asked about everything. Who waits for a name is woken if it is free there, or
// ought to be free on a quorum by now. That it is free on a node that does not vote is
// no news: such a node may have forgotten the holder.
func (k *poll) Answer(node int, votes bool, replies []int64, err error) {
	w := k.presence
	now := w.cfg.Clock.Early()
	var free, ours []*Name
	w.mu.Lock()
	for i, name := range k.names {
		if !name.polls.armed || name.polls.round != k.rounds[i] {
			continue
		}
		switch {
		case err != nil || len(replies) != 1+len(k.names)+k.told:
			w.arm(name, now.Add(lookAgain))
		case votes && replies[1+i] == -3:
			ours = append(ours, name)
		case votes && replies[1+i] == -2:
			free = append(free, name)
		case votes && replies[1+i] < 0:
			w.arm(name, now.Add(name.polls.most))
		default:
			end := clock.Instant(0)
			if votes {
				end = now.Add(time.Duration(replies[1+i]+1) * time.Millisecond)
			}
			next, ask := name.polls.heard(node, now, end, w.cfg.Timeout)
			if ask {
				free = append(free, name)
				continue
			}
			w.arm(name, min(next, now.Add(name.polls.most)))
		}
	}
	w.mu.Unlock()
	for _, name := range ours {
		w.queue.granted(name, node)
	}
	for _, name := range free {
		w.queue.changed(name)
	}
	if err == nil && len(replies) > 0 && replies[0] == 0 {
		w.askAll(node) // this look has told it that we live
	}
}
