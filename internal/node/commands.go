package node

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/round"
)

// AcquireArgs is a call of acquire.lua, in the order of its KEYS and ARGV. It is exported for
// the checks that call the script beside a writer.
func AcquireArgs(key, owner, ttl, hint, stripe, epoch any) []any {
	return []any{"EVALSHA", lua.AcquireScript.Hash, 2, key, lua.NodeKey, owner, ttl, hint, stripe, epoch}
}

// ExtendArgs is a call of extend.lua for one claim, as groupCall lays it out.
func ExtendArgs(c *round.Claim, ttl int64, epoch string) []any {
	g := &group{script: lua.ExtendScript, claims: []*round.Claim{c}, ttls: []int64{ttl}}
	return (&batch{epoch: epoch}).groupCall(g).Args()
}

// acquireCall is acquire.lua for one claim.
func (s *reusable) acquireCall(c *round.Claim, epoch *string) redis.Cmder {
	if s.acquireArgs == nil {
		s.acquireArgs = AcquireArgs(nil, nil, nil, nil, nil, nil)
		s.acquire = intCall{redis.NewIntCmd(context.Background(), s.acquireArgs...)}
	}
	a := s.acquireArgs
	a[3], a[5], a[6], a[7], a[8], a[9] = &c.Key, &c.Owner, &c.TTL, &c.Hint, &c.Stripe, epoch
	return s.acquire.again()
}

// releaseCall is release.lua for one claim, without a tombstone.
func (s *reusable) releaseCall(c *round.Claim) redis.Cmder {
	if s.releaseArgs == nil {
		s.releaseArgs = make([]any, 5)
		copy(s.releaseArgs, []any{"EVALSHA", lua.ReleaseScript.Hash, 1})
		s.release = intCall{redis.NewIntCmd(context.Background(), s.releaseArgs...)}
	}
	s.releaseArgs[3], s.releaseArgs[4] = &c.Key, &c.Owner
	return s.release.again()
}

// handCall is hand_one.lua for a lock whose process stood in no line. Where nobody waits
// its reply is one integer; else two, in a list.
func (s *reusable) handCall(r *Release, epoch *string) redis.Cmder {
	if s.handArgs == nil {
		s.handArgs = make([]any, 9)
		copy(s.handArgs, []any{"EVALSHA", lua.HandOneScript.Hash, 2, "", lua.NodeKey})
		s.hand = handCall{redis.NewCmd(context.Background(), s.handArgs...)}
	}
	c, a := r.Claim, s.handArgs
	a[3], a[5], a[6], a[7], a[8] = &c.Key, &c.Owner, epoch, &r.Hint, &c.Stripe
	s.hand.SetErr(nil)
	s.hand.SetVal(nil)
	return s.hand
}

// shareCall is share.lua for one claim. It has its process's sign of life with it, since it may
// put an entry in line.
func (s *reusable) shareCall(r *round.Round, b *batch) redis.Cmder {
	if s.shareArgs == nil {
		s.shareArgs = make([]any, 13)
		copy(s.shareArgs, []any{"EVALSHA", lua.ShareScript.Hash, 3, lua.NodeKey})
		s.share = intsCall{redis.NewIntSliceCmd(context.Background(), s.shareArgs...)}
	}
	c, a := r.Claim, s.shareArgs
	a[4], a[5] = &c.Key, &c.Dead
	a[6], a[7], a[8] = &b.epoch, &b.process, &b.reading
	a[9], a[10], a[11], a[12] = &c.Stripe, &c.Owner, &c.TTL, r.Position()
	s.share.SetErr(nil)
	s.share.SetVal(nil)
	return s.share
}

// partCall is release_shared.lua for one claim, of whose process nobody waited, without a
// tombstone.
func (s *reusable) partCall(c *round.Claim) redis.Cmder {
	if s.partArgs == nil {
		s.partArgs = make([]any, 6)
		copy(s.partArgs, []any{"EVALSHA", lua.ReleaseSharedScript.Hash, 1, "", 1})
		s.part = intCall{redis.NewIntCmd(context.Background(), s.partArgs...)}
	}
	s.partArgs[3], s.partArgs[5] = &c.Key, &c.Owner
	return s.part.again()
}

// passCall is pass.lua for one handover. The old claim's own key stays, and changes hands: the
// name is free at no moment, so that nobody in line is called.
func (s *reusable) passCall(h *Handover, epoch *string) redis.Cmder {
	if s.passArgs == nil {
		s.passArgs = make([]any, 12)
		copy(s.passArgs, []any{"EVALSHA", lua.PassScript.Hash, 3, "", lua.NodeKey})
		s.pass = intsCall{redis.NewIntSliceCmd(context.Background(), s.passArgs...)}
	}
	c, a := h.Round.Claim, s.passArgs
	a[3], a[5] = &c.Key, &c.Dead
	a[6], a[7], a[8], a[9], a[10], a[11] = &h.Old.Claim.Owner, &c.Owner, &c.TTL, &c.Hint, &c.Stripe, epoch
	s.pass.SetErr(nil)
	s.pass.SetVal(nil)
	return s.pass
}

// timeCall is TIME, by which the node's clock is watched.
func (s *reusable) timeCall() redis.Cmder {
	if s.time.TimeCmd == nil {
		s.time = TimeCall{redis.NewTimeCmd(context.Background(), "TIME")}
	}
	s.time.SetErr(nil)
	s.time.SetVal(time.Time{})
	return s.time
}

// identityCall is INFO of the replication: the role, and the id of the data's history. It
// costs a server 1.6 us (ADR 11).
func (s *reusable) identityCall() redis.Cmder {
	if s.identity.StringCmd == nil {
		s.identity = infoCall{redis.NewStringCmd(context.Background(), "INFO", "replication")}
	}
	s.identity.SetErr(nil)
	s.identity.SetVal("")
	return s.identity
}

// raiseCall is raise.lua or raise_shared.lua for one round. A raise is rare: only a round whose
// nodes granted different tokens needs one. So it is no batch.
func (b *batch) raiseCall(r *round.Round) redis.Cmder {
	c, script := r.Claim, lua.RaiseScript
	if c.Shared() {
		script = lua.RaiseSharedScript
	}
	return intCall{redis.NewIntCmd(context.Background(), "EVALSHA", script.Hash, 2, &c.Key, lua.NodeKey,
		&c.Owner, &c.Stripe, &r.Raise, &b.epoch)}.again()
}

// acquireCall is acquire.lua for one of several claims that go one by one.
func (b *batch) acquireCall(c *round.Claim) redis.Cmder {
	return intCall{redis.NewIntCmd(context.Background(),
		AcquireArgs(&c.Key, &c.Owner, &c.TTL, &c.Hint, &c.Stripe, &b.epoch)...)}.again()
}

// acquireBatch is acquire_batch.lua for plain acquires, without a place in line.
func (b *batch) acquireBatch(rounds []*round.Round) redis.Cmder {
	start := b.begin(lua.AcquireBatchScript, 1+len(rounds))
	b.arena = append(b.arena, lua.NodeKey)
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Key })
	b.arena = append(b.arena, &b.epoch, ownStripes(rounds))
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Stripe })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Owner })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.TTL })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Hint })
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args(start)...)}
}

// ownStripes is "1" if no two of the claims share a stripe, nor so a name, and else empty.
// The script then looks for none that do, which costs it a table of all names and stripes.
// Of 24 names on 4,096 stripes some two share one in a batch of fifteen.
func ownStripes(rounds []*round.Round) string {
	var seen [lua.Stripes / 64]uint64
	for _, r := range rounds {
		word, bit := r.Claim.Stripe/64, uint64(1)<<(r.Claim.Stripe%64)
		if seen[word]&bit != 0 {
			return ""
		}
		seen[word] |= bit
	}
	return "1"
}

// askCall is ask.lua for asks by a place in line. If any of them takes a grant by push, the
// process's sign of life goes along, and a flag for each: a plain bid's entry takes none.
func (b *batch) askCall(rounds []*round.Round) redis.Cmder {
	start := b.begin(lua.AskScript, 1+2*len(rounds))
	b.arena = append(b.arena, lua.NodeKey)
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Key })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Dead })
	b.arena = append(b.arena, &b.epoch, &b.process)
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Stripe })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Owner })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.TTL })
	b.column(rounds, func(r *round.Round) any { return &r.Claim.Hint })
	b.column(rounds, func(r *round.Round) any { return &r.Asks.Position })
	if slices.ContainsFunc(rounds, func(r *round.Round) bool { return r.Claim.AcceptsPush() }) {
		b.arena = append(b.arena, &b.reading)
		b.column(rounds, func(r *round.Round) any { return flag(r.Claim.AcceptsPush()) })
	}
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args(start)...)}
}

// handOne is hand_one.lua for a lock whose process has stood in line, or goes on: its entry
// changes in the same script, so that no other release finds the line half changed.
func (b *batch) handOne(r *Release) redis.Cmder {
	c, start := r.Claim, b.begin(lua.HandOneScript, 2)
	b.arena = append(b.arena, &c.Key, lua.NodeKey, &c.Owner, &b.epoch, &r.Hint, &c.Stripe, &b.process, &b.reading, r.next(), c.QueueOwner())
	return handCall{redis.NewCmd(context.Background(), b.args(start)...)}
}

// handBatch is hand.lua. The process's id and the entries come only if some release has one:
// most have none.
func (b *batch) handBatch(releases []Release) redis.Cmder {
	start, entries := b.begin(lua.HandScript, 1+len(releases)), false
	b.arena = append(b.arena, lua.NodeKey)
	for i := range releases {
		b.arena = append(b.arena, &releases[i].Claim.Key)
		entries = entries || releases[i].Entry != round.LeaveNothing || releases[i].Next != nil
	}
	b.arena = append(b.arena, &b.epoch)
	b.columnOf(releases, func(r *Release) any { return &r.Claim.Stripe })
	b.columnOf(releases, func(r *Release) any { return &r.Claim.Owner })
	b.columnOf(releases, func(r *Release) any { return &r.Hint })
	if entries {
		b.arena = append(b.arena, &b.process, &b.reading)
		for i := range releases {
			b.arena = append(b.arena, releases[i].next())
		}
		for i := range releases {
			b.arena = append(b.arena, releases[i].Claim.QueueOwner())
		}
	}
	return handCall{redis.NewCmd(context.Background(), b.args(start)...)}
}

// releaseBatch is release_batch.lua: releases that grant nothing, but call the next in line.
func (b *batch) releaseBatch(releases []Release) redis.Cmder {
	start, entries := b.beginRelease(lua.ReleaseBatchScript, releases)
	if entries {
		b.nextEntries(releases)
	}
	return intCall{redis.NewIntCmd(context.Background(), b.args(start)...)}.again()
}

// nextEntries lays out which entries replace those of claims that take pushes and are rolled
// back. The entry of a claim that is over must go, and its process keeps its place by the
// next one. An empty string stands for a claim without either.
func (b *batch) nextEntries(releases []Release) {
	if !slices.ContainsFunc(releases, func(r Release) bool { return r.Claim.AcceptsPush() }) {
		return
	}
	b.arena = append(b.arena, &b.reading)
	for i := range releases {
		if releases[i].Claim.AcceptsPush() {
			b.arena = append(b.arena, releases[i].Claim.Place())
		} else {
			b.arena = append(b.arena, "")
		}
	}
	for i := range releases {
		if c := releases[i].Claim.Replacement; c != nil && releases[i].Entry == round.LeaveEntry {
			b.arena = append(b.arena, &c.Owner)
		} else {
			b.arena = append(b.arena, "")
		}
	}
}

// groupCall is extend.lua or reseed.lua, or theirs of shared holds, for all the claims of
// a group. A re-seed bears the token: it is written as the counter where that is lower, so
// that a node which forgot counts on from the lock that it gets back.
func (b *batch) groupCall(g *group) redis.Cmder {
	reseed, keys := g.reseeds(), 1+len(g.claims)
	if reseed {
		keys += len(g.claims)
	}
	start := b.begin(g.script, keys)
	b.arena = append(b.arena, lua.NodeKey)
	for _, c := range g.claims {
		b.arena = append(b.arena, &c.Key)
	}
	if reseed {
		for _, c := range g.claims {
			b.arena = append(b.arena, &c.Dead)
		}
	}
	b.arena = append(b.arena, &b.epoch)
	if reseed {
		for _, c := range g.claims {
			b.arena = append(b.arena, &c.Stripe)
		}
	}
	for _, c := range g.claims {
		b.arena = append(b.arena, &c.Owner)
	}
	for i := range g.ttls {
		b.arena = append(b.arena, &g.ttls[i])
	}
	if reseed {
		for _, c := range g.claims {
			b.arena = append(b.arena, &c.Token)
		}
	}
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args(start)...)}
}

// pollCall is look.lua, and the claims that it may put in line. It is made when the batch is
// sent, so that Wanted leaves out what was given up while it waited.
func (b *batch) pollCall(k Poll) (redis.Cmder, []*round.Claim) {
	keys, positions, claims := k.Wanted()
	args := make([]any, 0, 6+3*len(keys))
	args = append(args, "EVALSHA", lua.LookScript.Hash, len(keys))
	for i := range keys {
		args = append(args, keys[i])
	}
	args = append(args, &b.process, &b.epoch)
	for i := range positions {
		args = append(args, positions[i])
	}
	args = append(args, &b.reading)
	for _, c := range claims {
		if c == nil {
			args = append(args, "")
		} else {
			args = append(args, &c.Owner)
		}
	}
	return intsCall{redis.NewIntSliceCmd(context.Background(), args...)}, claims
}

// reading is the sign of life of a process that takes pushes, in ms of its own clock. A node
// stores it, and a push bears it back: it is when the lease began at the earliest.
func reading(now clock.Instant) int64 { return int64(now) / int64(time.Millisecond) }

// Shared holds and slots go by scripts of their own (lua/share.lua and lua/ask_slot.lua say
// what is stored; ADR 22 why), in calls that no other hold is in. What their replies mean is
// as for the others, so the same code settles them.

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

// releaseShared is release_shared.lua for several claims, with their places in line if an entry
// goes with any of them.
func (b *batch) releaseShared(releases []Release) redis.Cmder {
	start, entries := b.beginRelease(lua.ReleaseSharedScript, releases)
	if entries {
		b.columnOf(releases, func(r *Release) any { return r.Claim.Place() })
	}
	return intCall{redis.NewIntCmd(context.Background(), b.args(start)...)}.again()
}

// slotCall is ask_slot.lua for one claim. The slot itself is a plain key; the name and the limit
// are for the line, which all slots of the name share.
func (b *batch) slotCall(r *round.Round) redis.Cmder {
	c, slot, start := r.Claim, r.Claim.Slot(), b.begin(lua.AskSlotScript, 3)
	b.arena = append(b.arena, lua.NodeKey, &c.Key, &c.Dead, &b.epoch, &b.process, &b.reading, &c.Stripe, &c.Owner, &c.TTL, &c.Hint,
		r.SlotPosition(), &slot.Name, slot.Limit)
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args(start)...)}
}

// releaseSlot is release_slot.lua for one claim; with a tombstone only where an earlier ask of
// it may still come.
func (b *batch) releaseSlot(r *Release) redis.Cmder {
	c, slot, start := r.Claim, r.Claim.Slot(), b.begin(lua.ReleaseSlotScript, 1+flag(r.mark.Doubtful()))
	b.arena = append(b.arena, &c.Key)
	if r.mark.Doubtful() {
		b.arena = append(b.arena, &c.Dead)
	}
	b.arena = append(b.arena, &c.Owner, &slot.Name, slot.Limit, int(r.Entry), &b.process, &slot.Place)
	if r.mark.Doubtful() {
		b.arena = append(b.arena, &r.Life)
	}
	return intCall{redis.NewIntCmd(context.Background(), b.args(start)...)}.again()
}

// beginRelease lays out what release_batch.lua and release_shared.lua have in common: which
// keys go, of which owners, and for how long a tombstone keeps a late acquire out. It tells
// whether the process's entries follow.
func (b *batch) beginRelease(s *lua.Script, releases []Release) (start int, entries bool) {
	keys := len(releases)
	for i := range releases {
		keys += flag(releases[i].mark.Doubtful())
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
