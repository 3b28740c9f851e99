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

// reusable are the plain calls of one lock each. A writer has one of either out
// at a time and uses them again: they are most of what an idle service sends.
// Arguments are pointers, which go-redis writes without a copy.
type reusable struct {
	acquire, release, pass             intCall
	time                               TimeCall
	identity                           infoCall
	acquireArgs, releaseArgs, passArgs []any
}

// AcquireArgs is a call of acquire.lua.
func AcquireArgs(key, dead, owner, ttl, hint, stripe, epoch any) []any {
	return []any{"EVALSHA", lua.AcquireScript.Hash, 3, key, lua.NodeKey, dead, owner, ttl, hint, stripe, epoch}
}

// ExtendArgs is a call of extend.lua for one claim.
func ExtendArgs(c *Claim, ttl int64, epoch string) []any {
	g := &group{script: lua.ExtendScript, claims: []*Claim{c}, ttls: []int64{ttl}}
	return new(batch).groupCall(g, &epoch).Args()
}

// acquireCall is acquire.lua for one claim.
func (s *reusable) acquireCall(c *Claim, epoch *string) redis.Cmder {
	if s.acquireArgs == nil {
		s.acquireArgs = AcquireArgs(nil, nil, nil, nil, nil, nil, nil)
		s.acquire = intCall{redis.NewIntCmd(context.Background(), s.acquireArgs...)}
	}
	a := s.acquireArgs
	a[3], a[5] = &c.Key, &c.Dead
	a[6], a[7], a[8], a[9], a[10] = &c.Owner, &c.TTL, &c.Hint, &c.Stripe, epoch
	return s.acquire.again()
}

// releaseCall is release.lua for one claim, without a tombstone.
func (s *reusable) releaseCall(c *Claim) redis.Cmder {
	if s.releaseArgs == nil {
		s.releaseArgs = make([]any, 5)
		copy(s.releaseArgs, []any{"EVALSHA", lua.ReleaseScript.Hash, 1})
		s.release = intCall{redis.NewIntCmd(context.Background(), s.releaseArgs...)}
	}
	s.releaseArgs[3], s.releaseArgs[4] = &c.Key, &c.Owner
	return s.release.again()
}

// passCall is pass.lua for one handover.
func (s *reusable) passCall(h *Handover, epoch *string) redis.Cmder {
	if s.passArgs == nil {
		s.passArgs = make([]any, 12)
		copy(s.passArgs, []any{"EVALSHA", lua.PassScript.Hash, 3, "", lua.NodeKey})
		s.pass = intCall{redis.NewIntCmd(context.Background(), s.passArgs...)}
	}
	c, a := h.Round.Claim, s.passArgs
	a[3], a[5] = &c.Key, &c.Dead
	a[6], a[7], a[8], a[9], a[10], a[11] = &h.Old.Claim.Owner, &c.Owner, &c.TTL, &c.Hint, &c.Stripe, epoch
	return s.pass.again()
}

// timeCall is TIME.
func (s *reusable) timeCall() redis.Cmder {
	if s.time.TimeCmd == nil {
		s.time = TimeCall{redis.NewTimeCmd(context.Background(), "TIME")}
	}
	s.time.SetErr(nil)
	s.time.SetVal(time.Time{})
	return s.time
}

// identityCall is INFO of the replication.
func (s *reusable) identityCall() redis.Cmder {
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
func (n *Node) raiseCall(r *Round) redis.Cmder {
	c := r.Claim
	return intCall{redis.NewIntCmd(context.Background(), "EVALSHA", lua.RaiseScript.Hash, 2, &c.Key, lua.NodeKey,
		&c.Owner, &c.Stripe, &r.Raise, &n.epoch)}.again()
}

// acquireCall is acquire.lua for one of several claims that go one by one.
func (n *Node) acquireCall(c *Claim) redis.Cmder {
	return intCall{redis.NewIntCmd(context.Background(),
		AcquireArgs(&c.Key, &c.Dead, &c.Owner, &c.TTL, &c.Hint, &c.Stripe, &n.epoch)...)}.again()
}

// argList lays out the arguments of a call in the arena.
type argList struct {
	f     *batch
	start int
}

func (f *batch) call(s *lua.Script, keys int) argList {
	b := argList{f, len(f.arena)}
	f.arena = append(f.arena, "EVALSHA", &s.Hash, keys)
	return b
}

// column lays out one argument of each round.
func (f *batch) column(rounds []*Round, arg func(*Round) any) {
	for _, r := range rounds {
		f.arena = append(f.arena, arg(r))
	}
}

func (b argList) args() []any { return b.f.arena[b.start:len(b.f.arena):len(b.f.arena)] }

// acquireBatch is acquire_batch.lua.
func (n *Node) acquireBatch(rounds []*Round) redis.Cmder {
	f := &n.batch
	b := f.call(lua.AcquireBatchScript, 1+2*len(rounds))
	f.arena = append(f.arena, lua.NodeKey)
	f.column(rounds, func(r *Round) any { return &r.Claim.Key })
	f.column(rounds, func(r *Round) any { return &r.Claim.Dead })
	f.arena = append(f.arena, &n.epoch)
	f.column(rounds, func(r *Round) any { return &r.Claim.Stripe })
	f.column(rounds, func(r *Round) any { return &r.Claim.Owner })
	f.column(rounds, func(r *Round) any { return &r.Claim.TTL })
	f.column(rounds, func(r *Round) any { return &r.Claim.Hint })
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args()...)}
}

// releaseBatch is release_batch.lua.
func (n *Node) releaseBatch(releases []Release) redis.Cmder {
	f := &n.batch
	doubts := make([]bool, len(releases))
	keys, entries := len(releases), false
	n.mu.Lock()
	for i, c := range releases {
		doubts[i] = c.Claim.Marks[n.Index].Doubtful()
		if doubts[i] {
			keys++
		}
		entries = entries || c.Entry != LeaveNothing
	}
	n.mu.Unlock()
	b := f.call(lua.ReleaseBatchScript, keys)
	for i := range releases {
		f.arena = append(f.arena, &releases[i].Claim.Key)
	}
	for i := range releases {
		if doubts[i] {
			f.arena = append(f.arena, &releases[i].Claim.Dead)
		}
	}
	f.arena = append(f.arena, len(releases))
	for i := range releases {
		f.arena = append(f.arena, &releases[i].Claim.Owner)
	}
	for i := range releases {
		if doubts[i] {
			f.arena = append(f.arena, &releases[i].Life)
		}
	}
	if entries {
		f.arena = append(f.arena, n.Cfg.Process)
		for i := range releases {
			f.arena = append(f.arena, int(releases[i].Entry))
		}
	}
	return intCall{redis.NewIntCmd(context.Background(), b.args()...)}.again()
}

// groupCall is extend.lua or reseed.lua for all the claims of a group.
func (f *batch) groupCall(g *group, epoch *string) redis.Cmder {
	reseed, keys := g.script == lua.ReseedScript, 1+len(g.claims)
	if reseed {
		keys += len(g.claims)
	}
	b := f.call(g.script, keys)
	f.arena = append(f.arena, lua.NodeKey)
	for _, c := range g.claims {
		f.arena = append(f.arena, &c.Key)
	}
	if reseed {
		for _, c := range g.claims {
			f.arena = append(f.arena, &c.Dead)
		}
	}
	f.arena = append(f.arena, epoch)
	if reseed {
		for _, c := range g.claims {
			f.arena = append(f.arena, &c.Stripe)
		}
	}
	for _, c := range g.claims {
		f.arena = append(f.arena, &c.Owner)
	}
	for i := range g.ttls {
		f.arena = append(f.arena, &g.ttls[i])
	}
	if reseed {
		for _, c := range g.claims {
			f.arena = append(f.arena, &c.Token)
		}
	}
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args()...)}
}
