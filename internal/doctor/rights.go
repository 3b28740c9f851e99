package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
)

// right is something that redlock does on a node, scripts included: a script's
// commands need the rights of the user who calls it.
type right struct {
	use     string // its purpose
	votes   bool   // without it the node can't vote
	command []any
}

// The keys that rights are tried with.
const (
	triedName  = "redlock-check"
	triedOwner = lua.TombstoneKey + "check"
)

// rightsNeeded lists the rights that the lock needs, with a resource's key; without membership
// (unprotected) a client makes the record itself.
func rightsNeeded(resource string, unprotected bool) []right {
	hash := lua.AcquireScript.Hash
	needed := []right{
		{"run its scripts", true, []any{"EVALSHA", hash, 3, resource, lua.NodeKey, triedOwner}},
		{"load its scripts", true, []any{"SCRIPT", "LOAD", "return 1"}},
		{"tell one server process from another", true, []any{"INFO", "server"}},
		{"read the node's clock", true, []any{"TIME"}},
		{"read and write the node's record", true, []any{"HMGET", lua.NodeKey, "epoch"}},
		{"read and write the node's record", true, []any{"HSET", lua.NodeKey, "0", "1"}},
		{"read and write the node's record", true, []any{"HGETALL", lua.NodeKey}},
		{"read and write the node's record", true, []any{"HDEL", lua.NodeKey, "nonce"}},
		{"take a lock", true, []any{"MGET", resource, triedOwner}},
		{"take a lock", true, []any{"EXISTS", lua.WaitingKey}},
		{"take a lock", true, []any{"MGET", lua.WaitingKey}},
		{"take a lock", true, []any{"SET", resource, "owner", "NX", "PX", "1"}},
		{"take a lock", true, []any{"PTTL", resource}},
		{"renew a lock", true, []any{"PEXPIRE", resource, "1", "GT"}},
		{"renew a lock", true, []any{"EXISTS", resource}},
		{"release a lock", true, []any{"DEL", resource}},
		{"leave a tombstone", true, []any{"SET", triedOwner, "1", "PX", "1"}},
		{"leave a tombstone", true, []any{"PTTL", triedOwner}},
		{"leave a tombstone", true, []any{"EXISTS", triedOwner}},
		{waitInLine, true, []any{"ZADD", lua.QueueKey + resource, "1", "id"}},
		{waitInLine, true, []any{"ZRANGE", lua.QueueKey + resource, "0", "0"}},
		{waitInLine, true, []any{"ZREM", lua.QueueKey + resource, "id"}},
		{waitInLine, true, []any{"PEXPIRE", lua.QueueKey + resource, "1"}},
		{waitInLine, true, []any{"EXISTS", lua.LiveKey + "id"}},
		{waitInLine, true, []any{"MGET", lua.LiveKey + "id"}},
		{waitInLine, true, []any{"SET", lua.LiveKey + "id", "1", "PX", "1"}},
		{waitInLine, true, []any{"SET", lua.WaitingKey, "1", "PX", "1"}},
		{"share a name", false, []any{"ZSCORE", resource, triedOwner}},
		{"share a name", false, []any{"PEXPIREAT", resource, "1"}},
		{"wake the next in line", false, []any{"PUBLISH", lua.WakeChannel + "id", resource}},
		{"be woken", false, []any{"SUBSCRIBE", lua.WakeChannel + "id"}},
		{"inspect a lock", false, []any{"MULTI"}},
		{"inspect a lock", false, []any{"EXEC"}},
	}
	if unprotected {
		needed = append(needed, right{"do without membership", true, []any{"HSETNX", lua.NodeKey, "epoch", "1"}})
	}
	return needed
}

// denial is a right that the user lacks.
type denial struct {
	what  string // the command
	use   string
	votes bool
	name  bool // the right is there, but not for a key of this name
}

const rightsRemedy = "ACL SETUSER the user with ~redlock:* and the resources' keys, &redlock:wake:*, and +evalsha +script|load +info +time +hmget +hset +hgetall +hdel +mget +set +pttl +pexpire +exists +del +zadd +zrange +zrem +zscore +pexpireat +publish +subscribe +multi +exec (with WithoutMembership also +hsetnx)"

var (
	aboutRights = diagnosis{
		FindingACL,
		"Without it the node can't vote; the first use says so, with the reply NOPERM",
		rightsRemedy,
	}
	aboutLesserRights = diagnosis{
		FindingACL,
		"Locks are held and released without it, and nothing else says that it is missing: without PUBLISH and SUBSCRIBE who waits in line is not woken, and looks by itself, seconds later; without MULTI a lock can't be inspected; without ZSCORE and PEXPIREAT no name can be shared",
		rightsRemedy,
	}
	aboutNoCommand = diagnosis{
		FindingCommand,
		"What a lock needs is not there, so the node can't do its part",
		"Leave the commands that redlock uses their names: take rename-command out of the server's configuration, and restrict users with ACLs",
	}
	aboutKeyNames = diagnosis{
		FindingACLNames,
		"The user may lock only the names that its key patterns cover; every other name is refused by the node",
		"Nothing, if all names in use are covered; WithPrefix puts one prefix before them all",
	}
	aboutUnknownRights = diagnosis{
		FindingACL,
		"A right that is missing shows only when it is needed",
		"Run the doctor as a user with +acl|dryrun +acl|whoami, or have an operator look at ACL GETUSER",
	}
)

// readRights tries each right with ACL DRYRUN, which runs nothing. Where that is
// refused, the replies to the exam's own commands stand.
func (e *exam) readRights(ctx context.Context, n *node.Node, prefix string, who question, asked map[string]question) {
	for _, name := range []string{"EVALSHA", "HMGET", "INFO"} {
		if err := asked[name].Err(); err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
			e.denied = append(e.denied, denial{what: name, use: "run redlock", votes: true})
		}
	}
	var err error
	if e.user, err = who.Text(); err != nil && e.options != nil && e.options.Username != "" {
		e.user, err = e.options.Username, nil
	}
	if err != nil {
		e.aclErr = err
		return
	}
	needed := rightsNeeded(prefix+triedName, n.Cfg.Unprotected)
	tries := make([]question, len(needed))
	for i, r := range needed {
		tries[i] = ask(ctx, append([]any{"ACL", "DRYRUN", e.user}, r.command...)...)
	}
	putQuestions(ctx, n, time.Duration(node.DialShare)*n.Timeout, tries)
	var denied []denial
	for i, q := range tries {
		reply, err := q.Text()
		if err != nil && strings.HasPrefix(err.Error(), "ERR Command '") { // not found
			e.unknown = append(e.unknown, needed[i])
			continue
		}
		if err != nil {
			e.aclErr = err
			return
		}
		if reply == "OK" {
			continue
		}
		denied = append(denied, newDenial(needed[i], reply, prefix+triedName))
	}
	e.denied = denied
}

// newDenial reads ACL DRYRUN's sentence, which differs between servers: it names
// the command, or the key that is refused.
func newDenial(r right, reply, resource string) denial {
	d := denial{what: r.name(), use: r.use, votes: r.votes}
	if strings.Contains(reply, "key") {
		d.name = strings.Contains(reply, "'"+resource+"'")
		if !d.name {
			d.what += " on " + r.ownKeys()
		}
	}
	if strings.Contains(reply, "channel") {
		d.what += " on redlock:wake:*"
	}
	return d
}

// name is the command's.
func (r right) name() string {
	if r.command[0] == "SCRIPT" {
		return "SCRIPT LOAD"
	}
	return fmt.Sprint(r.command[0])
}

// ownKeys are the library's own keys that the command was tried with, as an ACL
// names them.
func (r right) ownKeys() string {
	var out []string
	for _, arg := range r.command[1:] {
		key := fmt.Sprint(arg)
		if key == lua.NodeKey || key == lua.WaitingKey {
			out = append(out, key)
		}
		for _, prefix := range []string{lua.TombstoneKey, lua.QueueKey, lua.LiveKey} {
			if strings.HasPrefix(key, prefix) {
				out = append(out, prefix+"*")
			}
		}
	}
	return strings.Join(out, ", ")
}

// rights judges the user's rights.
func (d *doctor) rights(i int) {
	e := &d.exams[i]
	if e.aclErr != nil {
		var reply redis.Error
		how := "failed"
		if errors.As(e.aclErr, &reply) {
			how = "was refused"
		}
		d.find(SeverityUnknown, i, aboutUnknownRights, "ACL DRYRUN %s: %v", how, e.aclErr)
	}
	var unknown []string
	for _, r := range e.unknown {
		if text := fmt.Sprintf("%s (to %s)", r.name(), r.use); !slices.Contains(unknown, text) {
			unknown = append(unknown, text)
		}
	}
	if len(unknown) > 0 {
		d.find(SeverityError, i, aboutNoCommand, "the server does not know %s", strings.Join(unknown, ", "))
	}
	var lacks, lesser, names []string
	for _, x := range e.denied {
		text := fmt.Sprintf("%s (to %s)", x.what, x.use)
		switch {
		case x.name:
			names = append(names, x.what)
		case x.votes && !slices.Contains(lacks, text):
			lacks = append(lacks, text)
		case !x.votes && !slices.Contains(lesser, text):
			lesser = append(lesser, text)
		}
	}
	if len(lacks) > 0 {
		d.find(SeverityError, i, aboutRights, "the user %q may not %s", e.user, strings.Join(lacks, ", "))
	}
	if len(lesser) > 0 {
		d.find(SeverityWarning, i, aboutLesserRights, "the user %q may not %s", e.user, strings.Join(lesser, ", "))
	}
	if len(names) > 0 {
		d.find(SeverityInfo, i, aboutKeyNames, "the user %q may not %s the key %q", e.user, strings.Join(names, ", "), d.cfg.Prefix+triedName)
	}
}
