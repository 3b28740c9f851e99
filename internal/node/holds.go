package node

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Shared holds and slots go by scripts of their own (lua/share.lua and lua/ask_slot.lua say
// what is stored; ADR 22 why), in calls that no other hold is in. What their replies mean is
// as for the others, so the same code settles them.

// errNotSharing refuses a raise of a hold that has ended there.
var errNotSharing = errors.New("the owner does not share the name any more")

// ofOneKind is where the claims from first on that are of its kind end, and the script
// that extends them. The Locker renews holds of all kinds in one round.
func ofOneKind(claims []*round.Claim, first int) (end int, script *lua.Script) {
	shared := claims[first].Shared()
	for end = first + 1; end < len(claims) && claims[end].Shared() == shared; end++ {
	}
	if shared {
		return end, lua.ExtendSharedScript
	}
	return end, lua.ExtendScript
}

// addShares makes one plain call of a single acquire of a shared hold, and batches of
// more, size in each.
func (b *batch) addShares(size int) {
	if len(b.shares) == 1 {
		b.add(call{cmd: b.one.shareCall(b.shares[0], b), acquires: b.shares, shares: true})
		return
	}
	for rest := b.shares; len(rest) > 0; {
		next := rest[:min(len(rest), size)]
		rest = rest[len(next):]
		b.add(call{cmd: b.shareCall(next), acquires: next, shares: true})
	}
}

// shareCall is share.lua for several claims. It has no hint: a generation of sharers has one
// number on a node, which the node itself counts.
func (b *batch) shareCall(rounds []*round.Round) redis.Cmder {
	start := b.begin(lua.ShareScript, 1+2*len(rounds))
	b.arena = append(b.arena, lua.NodeKey)
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Key })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Dead })
	b.arena = append(b.arena, &b.epoch, &b.process, &b.reading)
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Stripe })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Owner })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.TTL })
	b.column(rounds, func(r *round.Round) any { return r.Position() })
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args(start)...)}
}

// addSharedReleases makes one plain call of a single release of a shared hold, and batches
// of more, as far as none of them goes alone. ShareBatchSize bounds them too: a release
// changes a sorted set, where one of an exclusive hold deletes a key.
func (b *batch) addSharedReleases() {
	if one := b.sharers; len(one) == 1 && one[0].Entry == round.LeaveNothing && !one[0].doubtful {
		b.add(call{cmd: b.one.partCall(one[0].Claim), releases: one})
		return
	}
	for rest := b.sharers; len(rest) > 0; {
		next := together(rest, lua.ShareBatchSize)
		rest = rest[len(next):]
		b.add(call{cmd: b.releaseShared(next), releases: next})
	}
}

// releaseShared is release_shared.lua for several claims, with their places in line if an entry
// goes with any of them.
func (b *batch) releaseShared(releases []Release) redis.Cmder {
	start, entries := b.beginRelease(lua.ReleaseSharedScript, releases)
	if entries {
		b.columnOf(releases, func(r *Release) any { return r.Claim.Place() })
	}
	return intCall{redis.NewIntCmd(context.Background(), b.args(start)...)}.again()
}

// beginRelease lays out what release_batch.lua and release_shared.lua have in common: which
// keys go, of which owners, and for how long a tombstone keeps a late acquire out. It tells
// whether the process's entries follow.
func (b *batch) beginRelease(s *lua.Script, releases []Release) (start int, entries bool) {
	keys := len(releases)
	for i := range releases {
		keys += flag(releases[i].doubtful)
		entries = entries || releases[i].Entry != round.LeaveNothing
	}
	start = b.begin(s, keys)
	b.columnOf(releases, func(r *Release) any { return &r.Claim.Key })
	b.columnOf(releases, func(r *Release) any { return r.ifDoubtful(&r.Claim.Dead) })
	b.arena = append(b.arena, len(releases))
	b.columnOf(releases, func(r *Release) any { return &r.Claim.Owner })
	b.columnOf(releases, func(r *Release) any { return r.ifDoubtful(&r.Life) })
	if entries {
		b.arena = append(b.arena, &b.process)
		b.columnOf(releases, func(r *Release) any { return int(r.Entry) })
	}
	return start, entries
}

// ifDoubtful is arg if the release leaves a tombstone; else nil, which columnOf leaves out.
func (r *Release) ifDoubtful(arg any) any {
	if !r.doubtful {
		return nil
	}
	return arg
}

// columnOf lays out one argument of each release that has it.
func (b *batch) columnOf(releases []Release, arg func(*Release) any) {
	for i := range releases {
		if a := arg(&releases[i]); a != nil {
			b.arena = append(b.arena, a)
		}
	}
}

// raiseSharedVote reads a reply of raise_shared.lua: the number that the generation has
// now, even if another raise set a different one.
func raiseSharedVote(reply int64) (quorum.Vote, error) {
	switch {
	case reply > 0:
		return quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(reply)}, nil
	case reply == 0:
		return quorum.Vote{Outcome: quorum.Taken}, errNotSharing
	case reply == -1:
		return quorum.Vote{Outcome: quorum.Abstained}, errEpoch
	default:
		return quorum.Vote{Outcome: quorum.Unknown}, ErrNoReply
	}
}

// SharedRaiseStage judges a raise of a shared hold's token: it is finished once a quorum
// shows one number, or the replies that are out can't bring that about. Unlike a raise of an
// exclusive hold it is not bound to the number that was asked for.
func SharedRaiseStage(votes []quorum.Vote) round.Stage {
	verdict, _ := quorum.Settle(votes)
	tally := quorum.Count(votes)
	if verdict == quorum.Waiting || verdict == quorum.Unsettled && tally.Granted+tally.Pending >= quorum.Size(len(votes)) && tally.Pending > 0 {
		return round.Open
	}
	return round.Finished
}

// slotReplies is how many integers ask_slot.lua returns.
const slotReplies = 5

// addSlots makes a call of each ask for a slot: the script's reply is five integers for one.
func (b *batch) addSlots() {
	for i := range b.slots {
		b.add(call{cmd: b.slotCall(b.slots[i]), acquires: b.slots[i : i+1 : i+1], slot: true})
	}
}

// slotCall is ask_slot.lua for one claim. The slot itself is a plain key; the name and the limit
// are for the line, which all slots of the name share.
func (b *batch) slotCall(r *round.Round) redis.Cmder {
	c, slot, start := r.Claim, r.Claim.Slot(), b.begin(lua.AskSlotScript, 3)
	b.arena = append(b.arena, lua.NodeKey, &c.Key, &c.Dead, &b.epoch, &b.process, &b.reading, &c.Stripe, &c.Owner, &c.TTL, &c.Hint,
		r.SlotPosition(), &slot.Name, slot.Limit)
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args(start)...)}
}

// addSlotReleases makes a call of each release of a slot, and of each leave of a line. The
// script calls the first in line with the key of the freed slot, to ask for that one.
func (b *batch) addSlotReleases() {
	for i := range b.slotters {
		b.add(call{cmd: b.releaseSlot(&b.slotters[i]), releases: b.slotters[i : i+1 : i+1]})
	}
}

// releaseSlot is release_slot.lua for one claim; with a tombstone only where an earlier ask of
// it may still come.
func (b *batch) releaseSlot(r *Release) redis.Cmder {
	c, slot, start := r.Claim, r.Claim.Slot(), b.begin(lua.ReleaseSlotScript, 1+flag(r.doubtful))
	b.arena = append(b.arena, &c.Key)
	if r.doubtful {
		b.arena = append(b.arena, &c.Dead)
	}
	b.arena = append(b.arena, &c.Owner, &slot.Name, slot.Limit, int(r.Entry), &b.process, &slot.Place)
	if r.doubtful {
		b.arena = append(b.arena, &r.Life)
	}
	return intCall{redis.NewIntCmd(context.Background(), b.args(start)...)}.again()
}
