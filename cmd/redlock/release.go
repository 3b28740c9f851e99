package main

// The two ways to end another's hold. release takes it away: by transactions and scripts on
// each node, without the holder. revoke asks the holder, who decides.
//
// release is for a holder that hangs and yet renews. Whether it has stopped is the operator's to
// know, so it needs --force and --yes. Its holder may believe in the lock until its next renewal
// fails: the fencing token has to protect the resource for that long.
//
// Exit status of release: 0 if a quorum of nodes has no holder now; 69 if fewer answered, so
// that the lock may stand; 64 without --force, or without --yes, which shows what would go.
// Exit status of revoke: 0 if all who were asked gave the key up, or nobody held it; 75 if one
// still holds it when --timeout is over; 1 if a holder can't be asked; 128+n after a signal.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/lua"
)

// A holder that loses its key gets a tombstone on the node. It keeps the owner from taking the
// key again, by a command that is still on its way or by the repair that renewal does.

func releaseCommand(a *app) cli.Command {
	return cli.Command{
		Name: "release", Synopsis: "KEY --force --yes [flags]", Summary: "take a lock away from its holder",
		About: `Removes KEY from every node that answers: from its holder, or all who share it, and all
its slots (--limit), and says what it removed.
The holder may trust its lock until its next renewal fails, a third of its lease at most,
or until its validity ends: that it has stopped is for you to know. Locks whose holder has
died lapse by themselves. Without --yes it says what it would remove.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			force := fs.Bool("force", false, "yes, although it is somebody else's")
			yes := fs.Bool("yes", false, "do it")
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(1, args, "one KEY"); err != nil {
					return err
				}
				if !*force {
					return cli.Usagef("release: only a holder releases its own lock; to take it away from another, give --force")
				}
				return a.withSession(ctx, func(ctx context.Context, s *session) error { return a.release(ctx, s, args[0], *yes) })
			}
		},
	}
}

// removal is what was removed from one node, or would be: the operator sees whom it hits
// before --yes, and has it in the log after.
type removal struct {
	Node      string   `json:"node"`
	Holder    string   `json:"holder,omitempty"`
	Sharers   []string `json:"sharers,omitempty"`
	Remaining int64    `json:"remaining_ms"`
	Removed   bool     `json:"removed"`
	Error     string   `json:"error,omitempty"`
	// Slots are those that were removed, or would be, beside the hold above.
	Slots []slotRemoval `json:"slots,omitempty"`
}

// removals is that of all nodes, as --json shows it.
type removals struct {
	Key   string    `json:"key"`
	Nodes []removal `json:"nodes"`
}

// release asks all nodes at the same time, each with a timeout of its own: the holder must not
// find half of the nodes still there because one of them hangs.
func (a *app) release(ctx context.Context, s *session, resource string, yes bool) error {
	// Too few answers are no reason to stop yet: what is there can be shown, and removed.
	in, err := s.locker.Inspect(ctx, resource)
	if err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
		return err
	}
	life, err := tombstoneLife(ctx, s, a.connection.maxTTL)
	if err != nil {
		return err
	}
	out := make([]removal, len(in.Nodes))
	var g errgroup.Group // zero: one node's failure must not end the others
	for i, n := range in.Nodes {
		out[i] = found(n)
		if !yes || n.Err != nil {
			continue
		}
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, a.connection.timeout())
			defer cancel()
			out[i].Error = oneLine(out[i].removeFrom(ctx, s.clients[i], in.Key, n, life))
			return nil
		})
	}
	_ = g.Wait()
	if err := a.showRemovals(resource, out, yes); err != nil {
		return err
	}
	return removalStatus(out, in.Quorum, yes)
}

// found is the holds that would be removed from a node.
func found(n redlock.NodeInspection) removal {
	r := removal{Node: n.Name, Holder: n.Owner, Remaining: n.Remaining.Milliseconds(), Error: oneLine(n.Err)}
	for _, one := range n.Sharers {
		r.Sharers = append(r.Sharers, one.Owner)
	}
	for _, one := range n.Slots {
		r.Slots = append(r.Slots, slotRemoval{Slot: one.Slot, Holder: one.Owner, Remaining: one.Remaining.Milliseconds()})
	}
	return r
}

// removeFrom removes what there is on the node that showed n, and notes it. An exclusive
// holder goes only if it is still the one that n shows. Of sharers and slots, all that are
// there at that moment go.
func (r *removal) removeFrom(ctx context.Context, c *redis.Client, key string, n redlock.NodeInspection, life time.Duration) (err error) {
	switch {
	case n.Shared:
		r.Sharers, err = removeShared(ctx, c, key, life)
		r.Removed = err == nil && len(r.Sharers) > 0
	case n.Owner != "":
		r.Removed, err = remove(ctx, c, key, n.Owner, life)
	}
	return errors.Join(err, r.removeSlots(ctx, c, key, life))
}

// tombstoneLife is the longest lease in the cluster: after it, all commands that the holder
// has under way are over. The nodes' records count as well as --max-ttl, since the holder may
// have a larger one than this program.
func tombstoneLife(ctx context.Context, s *session, life time.Duration) (time.Duration, error) {
	status, err := s.locker.Cluster().Status(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range status.Nodes {
		life = max(life, n.MaxTTL)
	}
	return life, nil
}

// remove deletes the key if it is still the owner's, and leaves a tombstone, as
// the library's release does. A transaction does without a script of its own: WATCH makes it
// fail if the key changed after it was read. Waiters are not woken; they look again by
// themselves.
func remove(ctx context.Context, c *redis.Client, key, owner string, life time.Duration) (bool, error) {
	removed := false
	err := c.Watch(ctx, func(tx *redis.Tx) error {
		held, err := tx.Get(ctx, key).Result()
		// held includes the mark of WithRevocation, if any. The tombstone needs the
		// whole value, since that is what the holder's commands name.
		if errors.Is(err, redis.Nil) || err == nil && lua.Unmarked(held) != owner {
			return nil // it ended by itself, and another may have it
		}
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, key)
			p.Set(ctx, lua.TombstoneKey+held, 1, life)
			return nil
		})
		removed = err == nil
		return err
	}, key)
	return removed, changed(err)
}

// removeShared is remove for a shared name: it ends all holds of its sharers at that moment,
// and returns their owners.
func removeShared(ctx context.Context, c *redis.Client, key string, life time.Duration) (sharers []string, err error) {
	err = c.Watch(ctx, func(tx *redis.Tx) error {
		members, err := tx.ZRange(ctx, key, 0, -1).Result()
		if err != nil {
			return err
		}
		if len(members) == 0 || members[0] != lua.SharedMark {
			return nil // it ended by itself
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, key)
			for _, owner := range members[1:] {
				p.Set(ctx, lua.TombstoneKey+owner, 1, life)
			}
			return nil
		})
		if err == nil {
			sharers = members[1:]
		}
		return err
	}, key)
	for i, owner := range sharers {
		sharers[i] = lua.Unmarked(owner)
	}
	return sharers, changed(err)
}

// changed explains that a transaction found the key changed, or that it was refused. It is not
// tried again: the holder that is there now is another than the operator decided about.
func changed(err error) error {
	switch {
	case errors.Is(err, redis.TxFailedErr):
		return fmt.Errorf("it changed at the same moment: %w", err)
	case redis.IsPermissionError(err):
		return fmt.Errorf("%w; redlock nodes acl --for release prints the rights", err)
	}
	return err
}

// removalStatus is a failure if the name is not free for sure: with fewer than a quorum of
// nodes cleared, the holder may still renew on the others.
func removalStatus(out []removal, quorum int, yes bool) error {
	free := 0
	for _, r := range out {
		if r.Error == "" {
			free++
		}
	}
	switch {
	case !yes:
		return cli.Usagef("release: nothing done: give --yes to remove it")
	case free < quorum:
		return &cli.StatusError{Code: exitNoQuorum, Cause: fmt.Errorf("release: %d of %d nodes answered, quorum %d: the lock may stand", free, len(out), quorum)}
	}
	return nil
}

// showRemovals prints a line for each node, even without --yes: then what would be removed.
func (a *app) showRemovals(resource string, out []removal, yes bool) error {
	if a.JSON {
		return a.Answer(removals{resource, out})
	}
	p, letters := a.NewPage(), &legend{}
	rows := [][]cli.Cell{cli.Row("NODE", "", "LEFT", "HOLDER")}
	for _, r := range out {
		rows = append(rows, r.rows(yes, letters)...)
	}
	p.Table(rows)
	p.WriteString(letters.text())
	for _, r := range out {
		if r.Error != "" {
			p.WriteString(cli.Note(r.Node + ": " + r.Error))
		}
	}
	return a.Flush(p)
}

// rows shows the removals from a node: the key if anything is there, or if no slot is,
// and each slot.
func (r removal) rows(yes bool, letters *legend) (rows [][]cli.Cell) {
	var holders []string
	for _, one := range r.Sharers {
		holders = append(holders, letters.of(one))
	}
	if r.Holder != "" && len(holders) == 0 {
		holders = append(holders, letters.of(r.Holder))
	}
	if r.Error != "" {
		rows = append(rows, cli.Row(r.Node, "failed", "-", "?"))
	} else if len(holders) > 0 || len(r.Slots) == 0 {
		rows = append(rows, r.row(strings.Join(holders, " "), r.Remaining, r.Removed, yes))
	}
	for _, one := range r.Slots {
		if one.Removed || r.Error == "" {
			rows = append(rows, r.row(fmt.Sprintf("slot %d: %s", one.Slot, letters.of(one.Holder)), one.Remaining, one.Removed, yes))
		}
	}
	return rows
}

// row shows what became of the key or a slot on the node.
func (r removal) row(holder string, remaining int64, removed, yes bool) []cli.Cell {
	if holder == "" {
		return cli.Row(r.Node, "nothing there", "-", "-")
	}
	did := "gone by itself"
	switch {
	case removed:
		did = "removed"
	case !yes:
		did = "would remove"
	}
	return cli.Row(r.Node, did, cli.Short(time.Duration(remaining)*time.Millisecond), holder)
}

// slotRemoval is a slot that was removed from one node, or would be.
type slotRemoval struct {
	Slot      int    `json:"slot"`
	Holder    string `json:"holder"`
	Remaining int64  `json:"remaining_ms"`
	Removed   bool   `json:"removed"`
}

// removeSlots is remove for all slots of the key that are held on a node at that moment. It
// runs the library's own release, which wakes the first waiter.
func (r *removal) removeSlots(ctx context.Context, c *redis.Client, key string, life time.Duration) error {
	shown := r.Slots
	r.Slots = nil
	keys := make([]string, lua.MaxSlots)
	for i := range keys {
		keys[i] = lua.SlotKey(key, i)
	}
	owners, err := c.MGet(ctx, keys...).Result()
	if err != nil {
		return err
	}
	for i, v := range owners {
		owner, held := v.(string)
		if !held {
			continue
		}
		one := slotRemoval{Slot: i, Holder: lua.Unmarked(owner)}
		for _, s := range shown {
			if s.Slot == i && s.Holder == one.Holder {
				one.Remaining = s.Remaining
			}
		}
		if one.Removed, err = removeSlot(ctx, c, key, i, owner, life); err != nil {
			return err
		}
		r.Slots = append(r.Slots, one)
	}
	return nil
}

// removeSlot ends one hold of a slot, and tells whether it was still there.
func removeSlot(ctx context.Context, c *redis.Client, key string, slot int, owner string, life time.Duration) (bool, error) {
	release, plain := lua.ReleaseSlotScript, 0 // no leave of a line, and no rollback
	if err := c.ScriptLoad(ctx, release.Body).Err(); err != nil {
		return false, err
	}
	gone, err := c.EvalSha(ctx, release.Hash, []string{lua.SlotKey(key, slot), lua.TombstoneKey + owner},
		owner, key, lua.MaxSlots, plain, "", 0, life.Milliseconds()).Int()
	return gone == 1, err
}

func revokeCommand(a *app) cli.Command {
	return cli.Command{
		Name: "revoke", Synopsis: "KEY [flags]", Summary: "ask the holders of a key to give it up",
		About: `Asks all who hold KEY, alone, beside others or by slots, to give it up, and waits until none
of them holds it any more. They decide: nothing is taken away (that is redlock release).
They must have taken it with --revocable, or WithRevocation in the library; if one of them
has not, none is asked. Who takes KEY meanwhile is not asked, so KEY need not be free then.

Exit status 0 when all who were asked have given it up, or nobody held it; 75 if one still
holds it when --timeout is over; 1 if a holder can't be asked. With --json, the "outcome" is
"gone" or "not held".`,
		Define: func(fs *flag.FlagSet) cli.Action {
			patience := cli.NewDuration(fs, "timeout", 0, "give up after this `DURATION` (default: wait until they have)")
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(1, args, "one KEY"); err != nil {
					return err
				}
				if *patience < 0 {
					return cli.Usagef("--timeout %v: give a positive duration", *patience)
				}
				return a.withSession(ctx, func(ctx context.Context, s *session) error { return a.revoke(ctx, s, args[0], *patience) })
			}
		},
	}
}

// revokeShows is the outcome, as --json shows it.
type revokeShows struct {
	Key     string `json:"key"`
	Outcome string `json:"outcome"`
}

// revoke asks for a key until it is given up, a signal comes, or the patience is over. That
// is told as busy (75), even if the nodes fell silent at the end: a request is out, and the
// holder may still give the key up.
func (a *app) revoke(ctx context.Context, s *session, key string, patience time.Duration) error {
	// A signal's own status (128+n) is in the context's cause: see below.
	ctx, stop := cli.UntilSignalOr(ctx, patience)
	defer stop()
	end := telling(ctx, func(ctx context.Context) (who, words string) {
		who, _ = s.holders(ctx, key)
		return who, "revoke " + key + ": waits until it is given up by " + who
	}, a.complain)
	err := s.locker.Revoke(ctx, key)
	end()
	outcome := "gone"
	switch {
	case errors.Is(err, redlock.ErrNotHeld):
		outcome = "not held"
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()): // even if it is ErrNoQuorum too
		var by *cli.StatusError
		if errors.As(context.Cause(ctx), &by) {
			return &cli.StatusError{Code: by.Code, Cause: err} // it says whether anybody was asked
		}
		return &cli.StatusError{Code: exitBusy, Cause: s.stillHeld(ctx, key, patience, err)}
	case errors.Is(err, redlock.ErrNotRevocable):
		return fmt.Errorf("%w; redlock release %s --force --yes takes it away, even if its holder is at work", err, key)
	case err != nil:
		return err
	}
	if a.JSON {
		return a.Answer(revokeShows{key, outcome})
	}
	p := a.NewPage()
	p.Printf("%s: %s\n", key, outcome)
	return a.Flush(p)
}

// stillHeld is the error of a revoke whose patience is over: who holds the key on a quorum, or
// err if nobody does, or too few nodes answered to know.
func (s *session) stillHeld(ctx context.Context, key string, patience time.Duration, err error) error {
	who, looked := s.holders(context.WithoutCancel(ctx), key)
	if looked != nil || who == "" || errors.Is(err, redlock.ErrNoQuorum) {
		return err
	}
	return fmt.Errorf("revoke %s: still held by %s after %v", key, who, patience)
}

// holders are those who hold the key, or a slot of it, on a quorum; empty if nobody does. Some
// may have come after the request, and were not asked.
func (s *session) holders(ctx context.Context, key string) (string, error) {
	in, err := s.locker.Inspect(ctx, key)
	if err != nil {
		return "", err
	}
	nodes := map[string]int{} // that show each holder
	for _, n := range in.Nodes {
		r := found(n)
		by := append(slices.Clone(r.Sharers), r.Holder)
		for _, slot := range r.Slots {
			by = append(by, slot.Holder)
		}
		slices.Sort(by)
		for _, holder := range slices.Compact(by) {
			nodes[holder]++
		}
	}
	maps.DeleteFunc(nodes, func(holder string, on int) bool { return holder == "" || on < in.Quorum })
	return strings.Join(slices.Sorted(maps.Keys(nodes)), ", "), nil
}
