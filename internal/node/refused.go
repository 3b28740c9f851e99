package node

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/round"
)

// keepEntries keeps a release that goes again from taking an entry away that is wanted by
// now: the process stands in line again, and a look may have told the node so meanwhile.
// No ask has: they wait for the release. Where the node still has the earlier entry,
// the process has its old place until it asks.
//
// A claim that takes pushes has an entry of its own, by its owner: that one goes in any case.
// It asks the queue without mu, which comes behind the queue's.
func (n *writer) keepEntries() {
	for i := range n.batch.releases {
		r := &n.batch.releases[i]
		if r.rejected == nil || r.Entry != round.LeaveQueue || r.Claim.AcceptsPush() || !n.Cfg.Recorded(r.Claim.Key, r.Claim.Shared()) {
			continue
		}
		n.mu.Lock()                                       // Unreleased may be reading it
		if r.Entry = round.LeaveEntry; r.Claim.Shared() { // it ended a hold: other sharers are called
			r.Entry = round.LeaveNothing
		}
		n.mu.Unlock()
	}
}

// apart tells whether the call was refused for want of a right, and goes again in parts. The
// key patterns of a user's ACL are checked before a script runs, so nothing happened.
func (n *Node) apart(c *call, err error) bool {
	if !saysFirst(err, "NOPERM") {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.queue.apart(c, err)
}

// findUnreleased notes the names whose releases failed in this batch, before any reply is
// settled: an acquire of one of them, behind it in the same pipeline, may have met our own
// key. The map is made when it is first needed: most batches have no such name.
func (b *batch) findUnreleased() {
	clear(b.unreleased)
	for i := range b.calls {
		if c := &b.calls[i]; len(c.releases) > 0 && c.cmd.Err() != nil {
			if b.unreleased == nil {
				b.unreleased = make(map[string]bool)
			}
			for _, r := range c.releases {
				b.unreleased[r.Claim.Key] = true
			}
		}
	}
}

// metOurOwn tells whether an acquire that was refused for a key on the node goes
// again: its reply may be about the key that a release in front of it, in the same
// batch, was to delete. If that is refused again, the name is held back. So a caller
// never takes what is left of its own Locker's holds for another holder.
func (b *batch) metOurOwn(key string, reply int64) bool {
	_, held := leaseLeft(reply)
	return held && b.unreleased[key]
}

// Unreleased are the names that the node was not seen to release, in order, how long the
// longest of their leases still runs, and why: what Close reports. A key whose lease is over is none of them.
func (n *Node) Unreleased(now clock.Instant) (names []string, left time.Duration, cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	names, until, cause := n.queue.unreleased(n.sending, now)
	switch {
	case n.down.cause != nil:
		cause = n.down.cause
	case cause == nil:
		cause = round.ErrTimeout
	}
	slices.Sort(names)
	return slices.Compact(names), until.Sub(now), cause
}

// writeRefusals are what a server says that answers and does not write: its memory
// is full (maxmemory), it is a replica, its disk failed (stop-writes-on-bgsave-error), it
// lacks the replicas that it wants (min-replicas-to-write).
var writeRefusals = []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS"}

// refusesWrites tells whether the error is the reply of a server that does not write.
func refusesWrites(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && HasAnyPrefix(reply.Error(), writeRefusals...)
}

// lacksRight tells whether the error is the reply to a user who may not do that. Even inside a
// script it says nothing against the connection, nor against the server.
func lacksRight(err error) bool {
	if err == nil {
		return false // before reply is made, which is on the heap
	}
	var reply redis.Error
	return errors.As(err, &reply) && (strings.HasPrefix(reply.Error(), "NOPERM") || strings.Contains(reply.Error(), ": NOPERM ") || // of a transaction
		strings.Contains(reply.Error(), "The user executing the script can't") || strings.Contains(reply.Error(), "ACL failure in script")) // Redis 7.0, and later
}

// deniedCommand finds a command that the user may not run, and inScript, of Redis 7.0, which
// does not name it, where a script calls it.
var (
	deniedCommand = regexp.MustCompile(`permissions to run the '([^']+)'`)
	inScript      = regexp.MustCompile(`can't run this command or subcommand script: ([0-9a-f]{40}), on @user_script:([0-9]+)`)
)

// MissingRight is the right that a refusal is for, as ACL SETUSER takes it, of a channel the
// pattern of them all; empty if it does not tell. Two calls may stand in one line.
func MissingRight(refusal error) string {
	reply := refusal.Error()
	if m := deniedCommand.FindStringSubmatch(reply); m != nil {
		return "+" + strings.ToLower(m[1])
	}
	if strings.Contains(reply, " channel") { // Redis does not say which
		return "&" + lua.OwnPrefix + "*"
	}
	m := inScript.FindStringSubmatch(reply)
	if m == nil {
		return ""
	}
	line, _ := strconv.Atoi(m[2])
	commands := lua.CommandsAt(m[1], line)
	if commands == nil {
		return ""
	}
	return "+" + strings.ToLower(strings.Join(commands, " or +"))
}

// use is what each lock needs a call for; empty if not each does: who never waits, shares or
// takes a slot does not miss the rights for it.
func (c *call) use() string {
	switch {
	case c.acquires != nil && !c.bids && !c.shares && !c.slot:
		return "acquire"
	case c.releases != nil:
		return "release"
	case c.group != nil && !c.group.reseeds():
		return "extend"
	}
	return ""
}

// sawRight takes note of a command that the user may not run, as SawRefusal does, until
// a call of the same use has done its work: a script that finds nothing to do, and returns no
// positive integer, does not come to the command. A name that the user may not touch is not
// noted: the node votes for others.
func (n *writer) sawRight(c *call, err error) {
	switch use := c.use(); {
	case use == "" || err == nil && n.unwritten.Load() == nil:
		// Nothing is to be noted, as nearly always.
	case err == nil && firstOf(c.cmd) > 0:
		n.SawWrite(use)
	// Of a command, not of a key: inside a script, and outside one.
	case lacksRight(err) && (strings.Contains(err.Error(), "can't run this command") || strings.Contains(err.Error(), " run the '")):
		n.SawRefusal(use, err)
	}
}

// SawRefusal takes note of an error: if the node refuses to write, or the user lacks the right
// for this use, it tells that once, until SawWrite of the same use (empty for any write). The
// votes need no note: each refused command fails by itself.
func (n *Node) SawRefusal(use string, err error) {
	if err == nil || use == "" && !refusesWrites(err) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unwritten.Load() == nil {
		r := &writeRefusal{use, Explain(err), n.Clock.Early()}
		n.unwritten.Store(r)
		n.observer.RefusesWrites(n.Index, r.cause)
	}
}

// SawWrite takes note that the node wrote what a full memory, too, would have
// refused: a deletion or a longer lease proves nothing.
func (n *Node) SawWrite(use string) {
	if r := n.unwritten.Load(); r == nil || r.use != use {
		return // as nearly always: one atomic read for each grant
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.unwritten.Swap(nil); r != nil {
		n.observer.TakesWrites(n.Index, n.Clock.Early().Sub(r.since))
	}
}

// RefusesNow asks the node to write, and returns why it refuses; empty if it wrote, or
// said nothing about it. What it writes is a tombstone of an owner that nobody is,
// which ends within a millisecond: a check must find a full memory, and leave no trace.
// It loads the script in the same pipeline, since a node that was never used lacks it. A right
// that the user lacks for either refuses as well.
func (n *Node) RefusesNow(ctx context.Context) string {
	bounded, cancel := n.Bound(ctx)
	defer cancel()
	// A name and an owner of this call alone: no lock, and no other check, has them.
	id := n.Cfg.Chance.Name()
	load := AnyCall{redis.NewCmd(bounded, "SCRIPT", "LOAD", lua.ReleaseScript.Body)}
	leave := AnyCall{redis.NewCmd(bounded, "EVALSHA", lua.ReleaseScript.Hash, 2, lua.ProbeKey+id, lua.TombstoneKey+id, id, 1)}
	_, _ = n.Calls.Pipelined(bounded, func(p redis.Pipeliner) error { // each has its own error
		_ = p.Process(bounded, load)
		_ = p.Process(bounded, leave)
		return nil
	})
	err := leave.Err()
	n.SawRefusal("", err)
	if err == nil && leave.Val() != nil {
		n.SawWrite("")
	}
	// Another client may have loaded the script: then EVALSHA runs, and a lock fails all the
	// same, since its client loads scripts too.
	for _, err := range []error{load.Err(), err} {
		if refusesWrites(err) || lacksRight(err) {
			return strings.TrimPrefix(Explain(err).Error(), fault.ErrMisconfigured.Error()+": ")
		}
	}
	return ""
}

// firstOf is the first integer of a reply; 0 or less if it has none.
func firstOf(cmd redis.Cmder) int64 {
	switch c := cmd.(type) {
	case handCall:
		// The hand scripts return an integer, or a list that begins with it.
		v := c.Val()
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		first, _ := v.(int64)
		return first
	case intsCall:
		// One integer for each of the batch: the first speaks for the command.
		return replyAt(c, 0, max(len(c.Val()), 1))
	}
	return replyAt(cmd, 0, 1)
}
