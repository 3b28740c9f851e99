package node

import (
	"context"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
)

// noReply is what a command holds before a reply was read into it. No script
// returns it, so a client that reports success without a reply is found out.
const noReply = math.MinInt64

// singles are the plain calls of one lock each. A writer has one of either out
// at a time and uses them again: they are most of what an idle service sends.
// Arguments are pointers, which go-redis writes without a copy.
type singles struct {
	acquire, release, pass             intCall
	time                               timeCall
	identity                           infoCall
	acquireArgs, releaseArgs, passArgs []any
}

// acquireArgs is a call of acquire.lua.
func acquireArgs(key, dead, owner, ttl, hint, stripe, epoch any) []any {
	return []any{"EVALSHA", lua.AcquireScript.Hash, 3, key, lua.NodeKey, dead, owner, ttl, hint, stripe, epoch}
}

// extendArgs is a call of extend.lua for one claim.
func extendArgs(c *claim, ttl int64, epoch string) []any {
	g := &group{script: lua.ExtendScript, claims: []*claim{c}, ttls: []int64{ttl}}
	return new(flight).groupCall(g, &epoch).Args()
}

// acquireCall is acquire.lua for one claim.
func (s *singles) acquireCall(c *claim, epoch *string) redis.Cmder {
	if s.acquireArgs == nil {
		s.acquireArgs = acquireArgs(nil, nil, nil, nil, nil, nil, nil)
		s.acquire = intCall{redis.NewIntCmd(context.Background(), s.acquireArgs...)}
	}
	a := s.acquireArgs
	a[3], a[5] = &c.key, &c.dead
	a[6], a[7], a[8], a[9], a[10] = &c.owner, &c.ttl, &c.hint, &c.stripe, epoch
	return s.acquire.again()
}

// releaseCall is release.lua for one claim, without a tombstone.
func (s *singles) releaseCall(c *claim) redis.Cmder {
	if s.releaseArgs == nil {
		s.releaseArgs = make([]any, 5)
		copy(s.releaseArgs, []any{"EVALSHA", lua.ReleaseScript.Hash, 1})
		s.release = intCall{redis.NewIntCmd(context.Background(), s.releaseArgs...)}
	}
	s.releaseArgs[3], s.releaseArgs[4] = &c.key, &c.owner
	return s.release.again()
}

// passCall is pass.lua for one handover.
func (s *singles) passCall(h *handover, epoch *string) redis.Cmder {
	if s.passArgs == nil {
		s.passArgs = make([]any, 12)
		copy(s.passArgs, []any{"EVALSHA", lua.PassScript.Hash, 3, "", lua.NodeKey})
		s.pass = intCall{redis.NewIntCmd(context.Background(), s.passArgs...)}
	}
	c, a := h.round.claim, s.passArgs
	a[3], a[5] = &c.key, &c.dead
	a[6], a[7], a[8], a[9], a[10], a[11] = &h.old.claim.owner, &c.owner, &c.ttl, &c.hint, &c.stripe, epoch
	return s.pass.again()
}

// timeCall is TIME.
func (s *singles) timeCall() redis.Cmder {
	if s.time.TimeCmd == nil {
		s.time = timeCall{redis.NewTimeCmd(context.Background(), "TIME")}
	}
	s.time.SetErr(nil)
	s.time.SetVal(time.Time{})
	return s.time
}

// identityCall is INFO of the replication.
func (s *singles) identityCall() redis.Cmder {
	if s.identity.StringCmd == nil {
		s.identity = infoCall{redis.NewStringCmd(context.Background(), "INFO", "replication")}
	}
	s.identity.SetErr(nil)
	s.identity.SetVal("")
	return s.identity
}

// again makes a command ready to be sent once more.
func (c intCall) again() redis.Cmder {
	c.SetErr(nil)
	c.SetVal(noReply)
	return c
}

// raiseCall is raise.lua for one round.
func (n *node) raiseCall(r *round) redis.Cmder {
	c := r.claim
	return intCall{redis.NewIntCmd(context.Background(), "EVALSHA", lua.RaiseScript.Hash, 2, &c.key, lua.NodeKey,
		&c.owner, &c.stripe, &r.raise, &n.epoch)}.again()
}

// acquireCall is acquire.lua for one of several claims that go one by one.
func (n *node) acquireCall(c *claim) redis.Cmder {
	return intCall{redis.NewIntCmd(context.Background(),
		acquireArgs(&c.key, &c.dead, &c.owner, &c.ttl, &c.hint, &c.stripe, &n.epoch)...)}.again()
}

// batch lays out the arguments of a call in the arena.
type batch struct {
	f     *flight
	start int
}

func (f *flight) call(s *lua.Script, keys int) batch {
	b := batch{f, len(f.arena)}
	f.arena = append(f.arena, "EVALSHA", &s.Hash, keys)
	return b
}

// column lays out one argument of each round.
func (f *flight) column(rounds []*round, arg func(*round) any) {
	for _, r := range rounds {
		f.arena = append(f.arena, arg(r))
	}
}

func (b batch) args() []any { return b.f.arena[b.start:len(b.f.arena):len(b.f.arena)] }

// acquireBatch is acquire_batch.lua.
func (n *node) acquireBatch(rounds []*round) redis.Cmder {
	f := &n.flight
	b := f.call(lua.AcquireBatchScript, 1+2*len(rounds))
	f.arena = append(f.arena, lua.NodeKey)
	f.column(rounds, func(r *round) any { return &r.claim.key })
	f.column(rounds, func(r *round) any { return &r.claim.dead })
	f.arena = append(f.arena, &n.epoch)
	f.column(rounds, func(r *round) any { return &r.claim.stripe })
	f.column(rounds, func(r *round) any { return &r.claim.owner })
	f.column(rounds, func(r *round) any { return &r.claim.ttl })
	f.column(rounds, func(r *round) any { return &r.claim.hint })
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args()...)}
}

// releaseBatch is release_batch.lua.
func (n *node) releaseBatch(releases []cleanup) redis.Cmder {
	f := &n.flight
	doubts := make([]bool, len(releases))
	keys, entries := len(releases), false
	n.mu.Lock()
	for i, c := range releases {
		doubts[i] = c.claim.marks[n.index].Doubtful()
		if doubts[i] {
			keys++
		}
		entries = entries || c.entry != leaveNothing
	}
	n.mu.Unlock()
	b := f.call(lua.ReleaseBatchScript, keys)
	for i := range releases {
		f.arena = append(f.arena, &releases[i].claim.key)
	}
	for i := range releases {
		if doubts[i] {
			f.arena = append(f.arena, &releases[i].claim.dead)
		}
	}
	f.arena = append(f.arena, len(releases))
	for i := range releases {
		f.arena = append(f.arena, &releases[i].claim.owner)
	}
	for i := range releases {
		if doubts[i] {
			f.arena = append(f.arena, &releases[i].life)
		}
	}
	if entries {
		f.arena = append(f.arena, n.cfg.process)
		for i := range releases {
			f.arena = append(f.arena, int(releases[i].entry))
		}
	}
	return intCall{redis.NewIntCmd(context.Background(), b.args()...)}.again()
}

// groupCall is extend.lua or reseed.lua for all the claims of a group.
func (f *flight) groupCall(g *group, epoch *string) redis.Cmder {
	reseed, keys := g.script == lua.ReseedScript, 1+len(g.claims)
	if reseed {
		keys += len(g.claims)
	}
	b := f.call(g.script, keys)
	f.arena = append(f.arena, lua.NodeKey)
	for _, c := range g.claims {
		f.arena = append(f.arena, &c.key)
	}
	if reseed {
		for _, c := range g.claims {
			f.arena = append(f.arena, &c.dead)
		}
	}
	f.arena = append(f.arena, epoch)
	if reseed {
		for _, c := range g.claims {
			f.arena = append(f.arena, &c.stripe)
		}
	}
	for _, c := range g.claims {
		f.arena = append(f.arena, &c.owner)
	}
	for i := range g.ttls {
		f.arena = append(f.arena, &g.ttls[i])
	}
	if reseed {
		for _, c := range g.claims {
			f.arena = append(f.arena, &c.token)
		}
	}
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args()...)}
}
