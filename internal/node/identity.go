package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

// Which server a node is, and which history its data are. The two together are its
// identity:
//
//	<run_id>.<master_replid>
//
// The run_id is new with every process. The replication id is new whenever the data
// may have become others while the process lives: a replica takes its master's, and
// one that is made a master again makes a new one, so that no way leads through
// another server's data and back to the same identity. It is also new where nothing
// was forgotten: when the first replica attaches, and when the backlog is given up
// some time after the last one has left (repl-backlog-ttl). What a server shows of
// these, a loss that came before them shows as well, so they count as forgetting.
//
// The record bears the identity under which it was installed (read.lua,
// notice.lua, install.lua compare them on the server). The process can't change
// under an open connection. The history can, so INFO is looked at while the node
// votes: behind what is asked of the node in the same pipeline, so that a grant
// counts whose node was still the one that was verified.

// IdentityEvery is how old the last look at a node's identity may be when it votes.
// It is shorter than another server's data take to arrive, and long enough that a
// busy node does not notice: a look costs it 2 us.
const IdentityEvery = 25 * time.Millisecond

var (
	errReplica = errors.New("it is a replica, or was one just now: what it granted may be gone")
	errHistory = errors.New("its replication id is another than when it was verified: what it granted may be gone")
)

// infoField is a field of INFO; empty: it is not there.
func infoField(info, name string) string {
	_, value, _ := strings.Cut(info, "\n"+name+":") // the first line is the section's name
	value, _, _ = strings.Cut(value, "\r\n")
	return value
}

// infoCall is a command that is sent once.
type infoCall struct{ *redis.StringCmd }

func (infoCall) NoRetry() bool { return true }

// identityIsOld tells whether the batch looks at the node's identity: the last look is
// not of just now and of this connection.
func (n *Node) identityIsOld() bool {
	fresh := n.conn.proven != 0 && n.Clock.Early().Sub(n.conn.proven) <= IdentityEvery
	return !n.Cfg.Unprotected && n.epoch != "" && !fresh
}

// settleIdentity judges the look of this batch, before anything that the node
// granted in it counts, and what any command says of its role.
func (n *Node) settleIdentity() {
	b := &n.batch
	b.doubt, b.proven = nil, false
	if n.Cfg.Unprotected {
		return
	}
	for i := range b.calls {
		switch c := &b.calls[i]; {
		case saysFirst(c.cmd.Err(), "READONLY"):
			n.forgot(errReplica)
			return
		case c.identity:
			n.judgeIdentity(c.cmd.(infoCall))
		}
	}
}

// judgeIdentity compares what INFO said with the server that was verified. What it
// leaves open counts for nothing in this batch.
func (n *Node) judgeIdentity(c infoCall) {
	switch info, err := c.Result(); {
	case err != nil:
		n.batch.doubt = fmt.Errorf("who it is was not learned: %w", Explain(err))
	case infoField(info, "role") != "master":
		n.forgot(errReplica)
	case infoField(info, "master_replid") != membership.HistoryOf(n.identity):
		n.forgot(errHistory)
	default:
		n.conn.proven, n.unproven, n.batch.proven = n.Clock.Early(), 0, true
	}
}

// recognize compares a node that is verified with what it was before. A new process
// has lost its connections with the old one, and what that granted stands: the node
// abstains from now on.
func (n *Node) recognize(o membership.Observation) {
	before := n.identity
	n.identity = o.Run
	switch {
	case o.Replica:
		n.forgot(errReplica)
	case before != o.Run && membership.ProcessOf(before) == membership.ProcessOf(o.Run):
		n.forgot(errHistory)
	}
}

// forgot takes note that the node's data may be others than when it was last
// looked at: it must be installed anew, and nothing counts that it granted since.
func (n *Node) forgot(why error) {
	n.batch.doubt = why
	n.Tracker.Forgot(n.Index, n.voted)
	n.verifyAgain()
	since := n.unproven
	n.conn.proven, n.unproven = 0, 0
	if since != 0 {
		n.disown(since, why)
	}
}

// meetAgain asks a node that was down who it is: its address may lead to another
// server by now, even to another node of ours. One that is not known as this node is
// verified before it votes. It returns an error if the node can't be talked to.
func (n *Node) meetAgain() error {
	if n.Cfg.Unprotected || n.epoch == "" {
		return nil
	}
	c := infoCall{redis.NewStringCmd(context.Background(), "INFO", "server", "replication")}
	err := n.Calls.Process(context.Background(), c)
	if err != nil && !IsReply(err) && !errors.Is(err, errExchanged) {
		return err
	}
	info := c.Val()
	known := membership.IdentityOf(infoField(info, "run_id"), infoField(info, "master_replid")) == n.identity && infoField(info, "role") == "master"
	if !known || n.siblings.serves(n.Index, membership.ProcessOf(n.identity)) != nil {
		n.verifyAgain()
	}
	return nil
}

// vouch notes that the node vouched for something in the round that was sent at
// start. Without a look behind it, it counts until one says that the node was
// another.
func (n *Node) vouch(start clock.Instant) {
	if !n.batch.proven && (n.unproven == 0 || start < n.unproven) {
		n.unproven = start
	}
}
