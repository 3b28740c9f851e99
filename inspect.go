package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/round"
)

// Inspection is what the nodes say of one resource.
type Inspection struct {
	Resource string
	Key      string // with the prefix
	Quorum   int
	Nodes    []NodeInspection
}

// NodeInspection is what one node says of one resource.
type NodeInspection struct {
	Name      string
	Owner     string        // the owner value that holds it alone, without the mark of WithRevocation; empty: nobody does
	Revocable bool          // who holds it alone can be asked to give it up (Locker.Revoke)
	Shared    bool          // it is shared here (WithShared)
	Sharers   []Sharer      // who shares it here, in the order in which their leases end
	Remaining time.Duration // of the lease, of a shared name of the last one; negative: a key without an end
	Token     Token         // the largest given on the resource's stripe: the holder's, or a later one of a name that shares the stripe; of a shared name, the number that its sharers have here
	Waiting   []string      // the ids of the Lockers that stand in line here, to hold it or to share it, and give signs of life, the next one first
	Slots     []SlotHolder  // who holds a slot of it here (WithLimit), by their numbers
	// SlotsWaiting are the ids of the Lockers that stand in line here for a slot, as Waiting.
	SlotsWaiting []string
	Err          error // why the node said nothing

	slotsErr error // why it said nothing of slots
}

// Sharer is one of those who share a resource.
type Sharer struct {
	Owner     string        // its owner value, without the mark of WithRevocation
	Remaining time.Duration // of its own lease
	Revocable bool          // it can be asked to give it up (Locker.Revoke)
}

// Holder returns the owner value that a quorum of nodes shows, and whether one
// does.
func (i Inspection) Holder() (owner string, held bool) {
	for _, n := range i.Nodes {
		same := 0
		for _, m := range i.Nodes {
			if n.Owner != "" && n.Owner == m.Owner {
				same++
			}
		}
		if same >= i.Quorum {
			return n.Owner, true
		}
	}
	return "", false
}

// Sharers returns who shares the resource on a quorum of nodes, in the order in which
// their leases end. What remains of each is what a quorum shows at least.
func (i Inspection) Sharers() []Sharer {
	on, revocable := map[string][]time.Duration{}, map[string]bool{}
	for _, n := range i.Nodes {
		for _, s := range n.Sharers {
			on[s.Owner], revocable[s.Owner] = append(on[s.Owner], s.Remaining), s.Revocable
		}
	}
	var sharers []Sharer
	for owner, left := range on {
		if len(left) >= i.Quorum {
			slices.Sort(left)
			sharers = append(sharers, Sharer{owner, left[len(left)-i.Quorum], revocable[owner]})
		}
	}
	slices.SortFunc(sharers, func(a, b Sharer) int {
		return cmp.Or(cmp.Compare(a.Remaining, b.Remaining), strings.Compare(a.Owner, b.Owner))
	})
	return sharers
}

// Inspect asks every node who holds resource there, alone or beside others, in up to seven
// round trips, until ctx is done. Each is bounded by the node timeout, by four where a connection
// has to come up, and by any timeouts of the clients' own: the first without a reply is a
// node's last. Of a client that is none of go-redis's own all are bounded together, by seven
// node timeouts. It changes nothing. A node that did not answer by then has Err set, to ctx's
// cause where that ended it. Inspect itself fails only for a bad resource (ErrInvalidResource),
// a closed Locker (ErrClosed), or, with *QuorumError and ErrNoQuorum, when fewer than a quorum
// answered; what was learned is returned all the same.
func (l *Locker) Inspect(ctx context.Context, resource string) (Inspection, error) {
	_, key, err := l.request("inspect", resource, nil)
	if err != nil {
		return Inspection{}, err
	}
	if !l.acquirer.Enter() {
		return Inspection{}, fault.Errorf("redlock: inspect %s: %w", fault.Printable(resource), ErrClosed)
	}
	defer l.acquirer.Settled()
	in := Inspection{Resource: resource, Key: key, Quorum: l.quorum(), Nodes: make([]NodeInspection, len(l.nodes))}
	l.look(ctx, &in)
	in.unmark()
	answered := 0
	causes := make([]error, len(l.nodes))
	for i, n := range in.Nodes {
		causes[i] = n.Err
		if n.Err == nil || errors.Is(n.Err, errForeignType) {
			answered++
		}
	}
	if answered < l.quorum() {
		return in, l.silent("inspect", resource, causes)
	}
	return in, nil
}

// unmark takes the marks of WithRevocation out of the owner values.
func (i *Inspection) unmark() {
	for k := range i.Nodes {
		n := &i.Nodes[k]
		_, n.Revocable = lua.LockerOf(n.Owner)
		n.Owner = lua.Unmarked(n.Owner)
		for j := range n.Sharers {
			s := &n.Sharers[j]
			_, s.Revocable = lua.LockerOf(s.Owner)
			s.Owner = lua.Unmarked(s.Owner)
		}
		for j := range n.Slots {
			s := &n.Slots[j]
			_, s.Revocable = lua.LockerOf(s.Owner)
			s.Owner = lua.Unmarked(s.Owner)
		}
	}
}

// errUnlisted is a node that was not asked.
var errUnlisted = errors.New("the cluster's list does not have it")

// look asks all nodes of the list at once. Its own timer and ctx bound the wait, not the
// sockets: a client that is not ours may read for much longer, and go-redis
// notices no cancellation while it reads. A call that is left behind ends by its
// client's bounds; Close waits for it.
func (l *core) look(ctx context.Context, in *Inspection) {
	type answer struct {
		node int
		said NodeInspection
	}
	answers := make(chan answer, len(l.nodes))
	list := l.tracker.List()
	asked := list.Indexes(len(l.nodes))
	for i, n := range l.nodes {
		if in.Nodes[i].Name = n.Name; !list.Has(i) {
			in.Nodes[i].Err = errUnlisted
			continue
		}
		l.looks.Go(func() { answers <- answer{i, inspectNode(ctx, n, in.Key)} })
	}
	limit := l.clock.NewTimer(mostQuestions * l.cfg.nodeTimeout)
	defer limit.Stop()
	var why error
	heard := uint64(0) // one bit each
	for missing := len(asked); missing > 0 && why == nil; {
		select {
		case a := <-answers:
			in.Nodes[a.node] = a.said
			heard |= 1 << a.node
			missing--
		case <-limit.C:
			why = round.ErrTimeout
		case <-ctx.Done():
			why = fault.OfContext(ctx)
		}
	}
	for _, i := range asked {
		if heard&(1<<i) == 0 {
			in.Nodes[i].Err = why
		}
	}
}

const (
	// readings is how often a node is asked whose key changes its type between two questions.
	readings = 3
	// mostQuestions is how many round trips are asked for of a node whose key changes none: who
	// holds it, who shares it, its line, its slots, and their line. A line takes two.
	mostQuestions = 7
)

// inspectNode asks one node. The caller's deadline is not passed on: it would come
// back as the silence of the node.
func inspectNode(ctx context.Context, n *node.Node, key string) NodeInspection {
	ctx = context.WithoutCancel(ctx)
	var in NodeInspection
	for range readings {
		var other bool
		if in, other = readOwner(ctx, n, key); !other {
			break
		}
		if err := readSharers(ctx, n, key, &in); err == nil || !redis.HasErrorPrefix(err, "WRONGTYPE") {
			in.Err = node.Explain(err)
			break
		}
		in.Err = errOtherType // unless it is a string by now
	}
	if in.Err == nil {
		in.Waiting = inLine(ctx, n, key)
		readSlots(ctx, n, key, &in)
	}
	return in
}

// ask puts one question to a node.
func ask(ctx context.Context, n *node.Node, send func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error), question func(redis.Pipeliner) error) (cmds []redis.Cmder, err error) {
	err = n.Ask(ctx, func(ctx context.Context) (err error) {
		cmds, err = send(ctx, question)
		return err
	})
	return cmds, err
}

// askAtOnce puts one question that the node answers as of one moment. At maxmemory a node queues
// no command for EXEC, not even a read: there it is asked once more, without.
func askAtOnce(ctx context.Context, n *node.Node, question func(redis.Pipeliner) error) error {
	cmds, err := ask(ctx, n, n.Calls.TxPipelined, question)
	if err = node.Discarded(cmds, err); redis.HasErrorPrefix(err, "OOM") {
		_, err = ask(ctx, n, n.Calls.Pipelined, question)
	}
	return err
}

// readOwner reads who holds the key alone. With other it is there, and no string.
func readOwner(ctx context.Context, n *node.Node, key string) (in NodeInspection, other bool) {
	in.Name = n.Name
	var owner, stripe *redis.SliceCmd
	var left *redis.DurationCmd
	err := askAtOnce(ctx, n, func(p redis.Pipeliner) error {
		owner = p.MGet(ctx, key)
		left = p.PTTL(ctx, key)
		stripe = p.HMGet(ctx, lua.NodeKey, strconv.FormatInt(lua.StripeOf(key), 10), "base")
		return nil
	})
	if err != nil {
		in.Err = node.Explain(err)
		return in, false
	}
	if len(owner.Val()) != 1 {
		in.Err = node.ErrNoReply
		return in, false
	}
	for _, v := range stripe.Val() {
		if s, ok := v.(string); ok {
			t, _ := strconv.ParseUint(s, 10, 64) // 0 where it is no number
			in.Token = max(in.Token, Token(t))
		}
	}
	held, alone := owner.Val()[0].(string)
	if in.Owner = held; alone || left.Val() != -2 {
		in.Remaining = left.Val()
	}
	return in, !alone && left.Val() != -2
}

// readSharers reads who shares the key, if it is ours by its mark. It asks nothing of
// plain locks, so that for those no node counts an error of the wrong type.
func readSharers(ctx context.Context, n *node.Node, key string, in *NodeInspection) error {
	var now *redis.TimeCmd
	var left *redis.DurationCmd
	var members *redis.ZSliceCmd
	err := askAtOnce(ctx, n, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		left = p.PTTL(ctx, key)
		members = p.ZRangeWithScores(ctx, key, 0, -1)
		return nil
	})
	found := members.Val()
	switch {
	case err != nil:
		return err
	case len(found) == 0: // gone meanwhile
		in.Remaining = 0
		return nil
	case found[0].Member != lua.SharedMark:
		return errOtherType
	}
	in.Shared, in.Remaining, in.Token = true, left.Val(), Token(-found[0].Score)
	for _, m := range found[1:] {
		remaining := time.Duration(int64(m.Score)-now.Val().UnixMilli()) * time.Millisecond
		if owner, ok := m.Member.(string); ok && remaining >= 0 { // else it has ended, and is not removed yet
			in.Sharers = append(in.Sharers, Sharer{Owner: owner, Remaining: remaining})
		}
	}
	return nil
}

// inLine is who waits for the key on the node, in the order of both lines: by place, and
// at one place who wants it alone first. It is nobody, where the node does not say. It
// comes after the rest, since a client that may not read the queue is still told who holds.
func inLine(ctx context.Context, n *node.Node, key string) []string {
	var alone, beside *redis.ZSliceCmd
	_, err := ask(ctx, n, n.Calls.Pipelined, func(p redis.Pipeliner) error {
		alone = p.ZRangeWithScores(ctx, lua.QueueKey+key, 0, -1)
		beside = p.ZRangeWithScores(ctx, lua.SharersKey+key, 0, -1)
		return nil
	})
	line := slices.Concat(alone.Val(), beside.Val())
	if err != nil || len(line) == 0 {
		return nil
	}
	slices.SortStableFunc(line, func(a, b redis.Z) int { return cmp.Compare(a.Score, b.Score) })
	var ids []string
	seen := map[string]bool{} // a process may stand in both
	for _, z := range line {
		id, _ := z.Member.(string)
		if !strings.Contains(id, " ") && !seen[id] { // else the attempt behind an id
			ids = append(ids, id)
		}
		seen[id] = true
	}
	signs := make([]*redis.IntCmd, len(ids))
	_, err = ask(ctx, n, n.Calls.Pipelined, func(p redis.Pipeliner) error {
		for i, id := range ids {
			signs[i] = p.Exists(ctx, lua.LiveKey+id)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	var living []string
	for i, id := range ids {
		if signs[i].Val() > 0 {
			living = append(living, id)
		}
	}
	return living
}

var (
	errForeignType = errors.New("not a lock")
	errOtherType   = fmt.Errorf("%w: the key holds data of another type", errForeignType)
)

// SlotHolder is who holds one slot of a resource (WithLimit).
type SlotHolder struct {
	Slot      int           // its number
	Owner     string        // the owner value, without the mark of WithRevocation
	Remaining time.Duration // of the lease; negative: a key without an end
	Revocable bool          // it can be asked to give it up (Locker.Revoke)
}

// Slots returns who holds which slot on a quorum of nodes, by the slots' numbers. What
// remains of each is what a quorum shows at least.
func (i Inspection) Slots() []SlotHolder {
	var held []SlotHolder
	for slot := range MaxLimit {
		on, revocable := map[string][]time.Duration{}, map[string]bool{}
		for _, n := range i.Nodes {
			for _, s := range n.Slots {
				if s.Slot == slot {
					on[s.Owner], revocable[s.Owner] = append(on[s.Owner], s.Remaining), s.Revocable
				}
			}
		}
		for owner, left := range on {
			if len(left) >= i.Quorum {
				slices.Sort(left)
				held = append(held, SlotHolder{slot, owner, left[len(left)-i.Quorum], revocable[owner]})
			}
		}
	}
	return held
}

// readSlots reads who holds the key's slots, and who waits for one. It is nobody, where the
// node does not say, and slotsErr is why.
func readSlots(ctx context.Context, n *node.Node, key string, in *NodeInspection) {
	keys := make([]string, MaxLimit)
	for i := range keys {
		keys[i] = lua.SlotKey(key, i)
	}
	var owners *redis.SliceCmd
	left := make([]*redis.DurationCmd, MaxLimit)
	_, err := ask(ctx, n, n.Calls.Pipelined, func(p redis.Pipeliner) error {
		owners = p.MGet(ctx, keys...)
		for i := range keys {
			left[i] = p.PTTL(ctx, keys[i])
		}
		return nil
	})
	if err == nil && len(owners.Val()) != MaxLimit {
		err = node.ErrNoReply
	}
	if err != nil {
		in.slotsErr = node.Explain(err)
		return
	}
	for i, v := range owners.Val() {
		if owner, held := v.(string); held {
			in.Slots = append(in.Slots, SlotHolder{Slot: i, Owner: owner, Remaining: left[i].Val()})
		}
	}
	in.SlotsWaiting = inLine(ctx, n, lua.SlotsKey(key))
}
