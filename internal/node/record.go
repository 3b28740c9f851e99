package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
)

// processor is a connection of its own, or a client that picks one.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	ScriptLoad(ctx context.Context, script string) *redis.StringCmd
}

// Keep runs a script that may be loaded on any node, and loads it where it is missing. The
// second try is safe: NOSCRIPT says that nothing happened.
func Keep(ctx context.Context, on processor, s *lua.Script, args ...any) (any, error) {
	for try := 0; ; try++ {
		cmd := AnyCall{redis.NewCmd(ctx, append([]any{"EVALSHA", s.Hash, 1, lua.NodeKey}, args...)...)}
		err := on.Process(ctx, cmd)
		if !IsMissingScript(err) || try > 0 {
			return cmd.Val(), err
		}
		if err := on.ScriptLoad(ctx, s.Body).Err(); err != nil {
			return nil, err
		}
	}
}

// read looks at the node: its process, its record and, where counted is asked
// for, its largest number, for which the server goes through all its stripes.
func (n *Node) read(ctx context.Context, on processor, counted bool) (membership.Observation, error) {
	sent, count := n.Clock.Now(), "0"
	if counted {
		count = "1"
	}
	v, err := Keep(ctx, on, lua.ReadScript, count)
	if err != nil {
		return membership.Observation{}, noIdentity(err)
	}
	reply, ok := v.([]any)
	if !ok {
		return membership.Observation{}, fmt.Errorf("%w: its record reads as %T", fault.ErrMisconfigured, v)
	}
	o := membership.ParseObservation(reply, sent, n.Clock.Now())
	o.Counted = counted
	return o, n.siblings.serves(n.Index, membership.ProcessOf(o.Run))
}

// noIdentity explains a server that does not say which it is. Such a node can not be a member:
// nothing would show that it restarted (ADR 11).
func noIdentity(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) || Classify(err) == quorum.Failed {
		return err
	}
	if strings.HasPrefix(reply.Error(), "WRONGTYPE") || strings.Contains(reply.Error(), "WRONGTYPE") {
		return fmt.Errorf("%w: %s holds data of another type: somebody uses that name: %w", fault.ErrMisconfigured, lua.NodeKey, err)
	}
	if HidesIdentity(reply) {
		return fmt.Errorf("%w: INFO tells no run_id, master_replid and role to a script (an ACL without +info: grant it, or use WithoutMembership; "+
			"a plain miniredis: package redlocktest has nodes that do): %w", fault.ErrMisconfigured, err)
	}
	return err
}

// HidesIdentity tells whether the reply to read.lua is that a script can't learn by
// INFO which server it runs on. Redis, its forks and imitations word that differently, and
// each version anew, so it goes by signs.
func HidesIdentity(err error) bool {
	// Redis 7.0 says the same of each command that the user may not run.
	if right := MissingRight(err); right != "" {
		return right == "+info"
	}
	for _, sign := range []string{
		"INFO", "Unknown Redis command", "Unknown command called from script", "ACL", "can't run this command", "not supported", "not allowed from script",
	} {
		if strings.Contains(err.Error(), sign) {
			return true
		}
	}
	return false
}

// observe reads the node and publishes what was seen. judge, unless it is nil, gets it before
// that: a writer notes which epoch has ended (forgot), by which Publish judges what was seen.
// It waits until the look before is published: of two that overlap nobody could
// tell which is newer, and the epoch of a node that was founded anew between them would
// seem to have ended.
func (n *Node) observe(ctx context.Context, on processor, counted bool, judge func(membership.Observation)) (membership.Observation, error) {
	select {
	case n.looking <- struct{}{}:
		defer func() { <-n.looking }()
	case <-ctx.Done():
		return membership.Observation{}, ctx.Err()
	}
	o, err := n.read(ctx, on, counted)
	if err != nil {
		return o, err
	}
	if pl := n.Tracker.Claim(n.Index, o); pl.Action != membership.DoNothing && n.put(ctx, on, pl) == nil {
		if o, err = n.read(ctx, on, counted); err != nil {
			return o, err
		}
	}
	if judge != nil {
		judge(o)
	}
	return n.Tracker.Publish(n.Index, o), nil
}

// Bound bounds calls beside the writer: by the node timeout, and by DialShare of them where a
// connection may have to come up first.
func (n *Node) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := n.Timeout
	if n.writer.conn.mayDial() {
		limit *= DialShare
	}
	return context.WithTimeout(ctx, limit)
}

// Ask puts a question to the node that changes nothing there, beside the writer and over any
// connection. One that was closed, or forgotten, while it lay idle says nothing about the node:
// the question is put again, after a silence once.
func (n *Node) Ask(ctx context.Context, question func(ctx context.Context) error) error {
	for tries, silent := 0, false; ; tries++ {
		bounded, cancel := n.Bound(ctx)
		idle := !n.writer.conn.mayDial()
		err := question(bounded)
		again := errors.Is(err, net.ErrClosed) && tries < PoolSize
		if idle && !silent && !again && err != nil && n.Clock.Over(bounded) {
			silent, again = true, true
		}
		if cancel(); !again || n.Clock.Over(ctx) {
			return err
		}
	}
}

// Look reads one node and publishes what was seen. That a caller did not wait for the answer
// says nothing about the node.
func (n *Node) Look(ctx context.Context, counted bool) {
	sent := n.Clock.Now()
	err := n.Ask(ctx, func(ctx context.Context) error {
		_, err := n.observe(ctx, n.Calls, counted, nil)
		return err
	})
	if err != nil && !n.Clock.Over(ctx) {
		n.Tracker.Missed(n.Index, sent, Explain(err))
	}
}

// Do does on the node what is planned. Each step is one script that compares the record with
// what the plan was made of, so two clients may plan at once. If the node refuses the step
// (membership.ErrRefused), it has changed meanwhile: the next look tells.
func (n *Node) Do(ctx context.Context, p membership.Plan) error {
	err := n.act(ctx, p)
	if err == nil {
		return nil
	}
	n.SawRefusal("", err)
	return Explain(err)
}

// act is Do with the client's own errors. An epoch is drawn anew for each installation, and
// for each list that is put in force: it must be one that no vote was ever sent with. That of
// a settling comes with the plan, since the operator knows by it whether the settling stands.
// What a change does is bound to the epoch that was read: on a node that forgot, or that
// another operator settled meanwhile, it does nothing.
func (n *Node) act(ctx context.Context, p membership.Plan) error {
	ctx, cancel := n.Bound(ctx)
	defer cancel()
	switch p.Action {
	case membership.DoNotice:
		return n.put(ctx, n.Calls, p)
	case membership.DoInstall:
		p.Record.Epoch = n.Cfg.Chance.Name()
		done, err := Keep(ctx, n.Calls, lua.InstallScript, p.Record.InstallArgs(p.Notice, p.Epoch)...)
		switch {
		case err != nil:
		case done != int64(1):
			err = membership.ErrRefused
		case p.Founding != nil:
			n.observer.Founded(n.Index, fmt.Errorf("as cluster %s: its tokens lean on the clock, once", p.Record.Cluster))
		}
		return err
	case membership.DoSettle, membership.DoAccept, membership.DoForce, membership.DoSeize:
		s, args := lua.SettleScript, p.SettleArgs()
		switch p.Action { //nolint:exhaustive // of these four
		case membership.DoSeize:
			s, args = lua.SeizeScript, []any{p.Notice.Run, p.Epoch, p.Notice.Claim, n.Cfg.Chance.Name(), p.Claim}
		case membership.DoAccept:
			s, args = lua.AcceptScript, p.Record.AcceptArgs()
		case membership.DoForce:
			s, args = lua.ForceScript, p.Record.ForceArgs(n.Cfg.Chance.Name())
		}
		done, err := Keep(ctx, n.Calls, s, args...)
		if err == nil && done != int64(1) {
			err = membership.ErrRefused
		}
		return err
	case membership.DoNothing, membership.DoWait, membership.DoRead:
	}
	return nil
}

// put puts a notice on the node, with the claim that is planned.
func (n *Node) put(ctx context.Context, on processor, p membership.Plan) error {
	_, err := Keep(ctx, on, lua.NoticeScript, n.Cfg.Chance.Name(), p.Claim, p.Notice.Claim)
	return err
}

// Empty is why the node can't be a new one: it has keys besides its record; nil: it has none.
// What somebody locks there, with a list of that node alone, would be shared with the cluster
// unseen, and data that grow may fill the memory that locks need. It reads the
// first keys only, so it may be asked of a large server too.
func (n *Node) Empty(ctx context.Context) error {
	ctx, cancel := n.Bound(ctx)
	defer cancel()
	keys := n.Client.Scan(ctx, 0, "*", 100).Iterator() // DBSIZE counts keys that have ended
	for keys.Next(ctx) {
		if keys.Val() != lua.NodeKey { // with a notice, of an earlier attempt
			return fmt.Errorf("%w: %s has data (%q): give an empty server", fault.ErrMisconfigured, n.Name, keys.Val())
		}
	}
	if err := keys.Err(); err != nil {
		return fmt.Errorf("%s: whether it is empty was not learned (it takes SCAN, +scan in an ACL: redlock nodes acl --for grow): %w", n.Name, Explain(err))
	}
	return nil
}

// verify finds out whether the node votes for us. On one pinned connection, with
// commands that are sent once, it reads the record and the run_id; where that
// gives a Voter, it loads the voting scripts on that same connection, so that no
// restart can come between. It returns the Voter, whose epoch goes with every vote, or why
// the node abstains, or an error if the node can't be talked to.
func (n *writer) verify() (st membership.Voter, abstains, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.Timeout)
	defer cancel()
	n.met = n.turn() // an exchange from here on has it verified again
	if n.Cfg.Unprotected {
		return n.enroll(ctx)
	}
	sent := n.Clock.Now()
	err = n.Watch(ctx, func(tx *redis.Tx) error {
		o, err := n.observe(ctx, tx, false, n.recognize)
		if err != nil {
			return err
		}
		// Half the time at most for the others, so that an answer is in time: the writer waits
		// here, and its callers' rounds with it.
		others, stop := context.WithTimeout(ctx, n.Timeout/2)
		defer stop()
		if st, abstains = n.Tracker.VoterOf(others, n.Index, o); abstains != nil {
			return nil
		}
		// Not proven yet: what was seen here may be of another connection than the flushes'.
		n.conn.proven = 0
		n.sign(ctx, tx, o)
		return LoadVoting(ctx, tx)
	})
	if err != nil {
		n.Tracker.Missed(n.Index, sent, Explain(err))
	}
	return st, abstains, err
}

// sign leaves this client's name where it is voted for by the list before the latest
// (membership.Straggler), so that an operator knows whose locks the next change ends. No other
// client sends anything. It is part of a verification, which each change of the list asks for
// by its new epochs, and prepare once a minute after that: an acquire or a release costs
// nothing more. A sign that is not written does no harm.
func (n *writer) sign(ctx context.Context, tx *redis.Tx, o membership.Observation) {
	if n.signed = 0; !n.Tracker.Straggles(o.Record) {
		return
	}
	// Noted even if it fails below: a node that refuses to write, or a user who may not, is
	// asked once a minute.
	n.signed = n.Clock.Early()
	host, _ := os.Hostname()
	slot, sign := o.Sign(cmp.Or(n.Cfg.Holder, fmt.Sprintf("%s:%d", host, os.Getpid())))
	ctx = context.WithoutCancel(ctx) // as in LoadVoting
	_, _ = tx.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, lua.StragglersKey, slot, sign)
		p.PExpire(ctx, lua.StragglersKey, membership.SignFor)
		return nil
	})
}

// SignsCommand reads the stragglers' signs. HMGET, since each user has the right to it anyway.
func SignsCommand() []any {
	args := []any{"HMGET", lua.StragglersKey}
	for _, slot := range membership.SignSlots {
		args = append(args, slot)
	}
	return args
}

// Signs are the stragglers' signs on a node; nil if it does not answer.
func Signs(ctx context.Context, n *Node) []any {
	ctx, cancel := n.Bound(ctx)
	defer cancel()
	cmd := AnyCall{redis.NewCmd(ctx, SignsCommand()...)}
	_ = n.Calls.Process(ctx, cmd)
	signs, _ := cmd.Slice()
	return signs
}

// LoadVoting loads the voting scripts on a pinned connection, within its own
// timeouts: ctx may have been used up by the wait for the other nodes. If it fails half way,
// some scripts are missing, and the first command to meet that verifies the node anew.
func LoadVoting(ctx context.Context, tx *redis.Tx) error {
	ctx = context.WithoutCancel(ctx)
	_, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, s := range lua.VotingScripts {
			p.ScriptLoad(ctx, s.Body)
		}
		return nil
	})
	return err
}

// enroll stands in for verify without membership: any server votes, also one that has just
// lost its memory. There is still an epoch, since the scripts ask for one: the first client
// sets it, and all take that.
func (n *Node) enroll(ctx context.Context) (st membership.Voter, abstains, err error) {
	err = n.Watch(ctx, func(tx *redis.Tx) error {
		if err := tx.HSetNX(ctx, lua.NodeKey, "epoch", n.Cfg.Chance.Name()).Err(); err != nil {
			return err
		}
		// HMGET, since the user has the right to it anyway.
		record, err := tx.HMGet(ctx, lua.NodeKey, "epoch").Result()
		if err == nil && len(record) != 1 {
			err = ErrNoReply
		}
		if err != nil {
			return err
		}
		st.Epoch, _ = record[0].(string)
		return LoadVoting(ctx, tx)
	})
	return st, nil, err
}

// errUnknown is a node of which nothing was read yet: it may be a member or not.
var errUnknown = errors.New("what it is to the cluster was not learned yet")

// Witness is what a node shows of itself in the transaction in which it is read: which server it
// is, and under which epoch it joined. One that forgot shows no hold that it granted.
type Witness struct {
	epoch           *redis.SliceCmd // nil without membership, where nobody asks
	server, history *redis.StringCmd
}

// Witness adds to a transaction (MULTI) what shows whether what it reads counts: in the same
// moment, so that no restart comes between the hold and the proof.
func (n *Node) Witness(ctx context.Context, p redis.Pipeliner) Witness {
	if n.Cfg.Unprotected {
		return Witness{}
	}
	return Witness{p.HMGet(ctx, lua.NodeKey, "epoch"), p.Info(ctx, "server"), p.Info(ctx, "replication")}
}

// Testimony is what a Witness said, to be compared with what the Tracker knows (Counts).
type Testimony struct {
	shown   membership.Voter // what a member would have to be
	replica bool
}

// Said is what a node said of itself, once the transaction has been executed. What it hides
// reads as empty, which is no member's identity, so that Counts refuses it.
func (w Witness) Said() (s Testimony, err error) {
	if w.epoch == nil {
		return s, nil
	}
	if err := errors.Join(w.epoch.Err(), w.server.Err(), w.history.Err()); err != nil {
		return s, Explain(err)
	}
	if epoch := w.epoch.Val(); len(epoch) == 1 {
		s.shown.Epoch, _ = epoch[0].(string)
	}
	s.shown.Run = membership.IdentityOf(infoField(w.server.Val(), "run_id"), infoField(w.history.Val(), "master_replid"))
	s.replica = infoField(w.history.Val(), "role") != "master"
	return s, nil
}

// Counts is why what was read of the node counts for nothing, as far as is known; nil if it
// counts. Where what it says and what is known differ, another look at all nodes may tell
// (unclear). Changed is closed when anything new is known, for a caller that waits for that.
func (n *Node) Counts(s Testimony) (unclear bool, changed <-chan struct{}, why error) {
	if n.Cfg.Unprotected {
		return false, nil, nil
	}
	voter, answered, changed, why := n.Tracker.Known(n.Index)
	switch {
	case !answered: // what is known of it is old
		if why == nil {
			why = errUnknown
		}
		return true, changed, why
	case why != nil: // the Tracker knows that it does not vote
		return false, changed, why
	case s.replica:
		return true, changed, errReplica
	case s.shown.Epoch != voter.Epoch || s.shown.Run != voter.Run:
		return true, changed, errEpoch
	}
	return false, nil, nil
}

// Misdialled asks what listens where no connection came up, since a server says nothing of
// it. One without TLS waits for the end of the line that a handshake looks like to it, as
// if it hung; one with TLS closes at once. It returns ErrSpeaksPlain or ErrSpeaksTLS before
// err, or err where neither is so. It blocks for the node timeout at most, and is for
// messages only: it connects twice, so nothing on the way to a lock calls it.
func (n *Node) Misdialled(ctx context.Context, err error) error {
	c, ok := n.Client.(*redis.Client)
	if !ok || err == nil || IsReply(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	if what := Speaks(ctx, c.Options()); what != nil {
		return fmt.Errorf("%w: %w", what, err)
	}
	return err
}

// Watch runs f on one connection of the client, bounded by the node timeout where it can
// be. Unlike most of a Node, it may be called by anyone: it reads only what never changes.
// Watch is go-redis's way to one connection of any client; WATCH itself is not sent, as
// there are no keys.
func (n *Node) Watch(ctx context.Context, f func(*redis.Tx) error) error {
	if n.writer.conn.pins == nil {
		return n.writer.conn.watchOther(ctx, f)
	}
	if n.Server == nil && n.writer.conn.pins.Options().OnConnect != nil { // the program's may SELECT
		return n.writer.conn.watch(ctx, func(tx *redis.Tx) error {
			if err := judgeConnection(ctx, tx); err != nil {
				return err
			}
			return f(tx)
		})
	}
	return n.writer.conn.watch(ctx, f)
}
