package doctor

import (
	"cmp"
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
	use     string   // its purpose
	lack    Severity // of its want; info: not every user does that
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
		{"run its scripts", SeverityError, []any{"EVALSHA", hash, 3, resource, lua.NodeKey, triedOwner}},
		{"load its scripts", SeverityError, []any{"SCRIPT", "LOAD", "return 1"}},
		{"tell one server process from another", SeverityError, []any{"INFO", "server"}},
		{"read the node's clock", SeverityError, []any{"TIME"}},
		{"read and write the node's record", SeverityError, []any{"HMGET", lua.NodeKey, "epoch"}},
		{"read and write the node's record", SeverityError, []any{"HSET", lua.NodeKey, "0", "1"}},
		{"read and write the node's record", SeverityError, []any{"HGETALL", lua.NodeKey}},
		{"read and write the node's record", SeverityError, []any{"HDEL", lua.NodeKey, "nonce"}},
		{"take a lock", SeverityError, []any{"MGET", resource, triedOwner}},
		{"take a lock", SeverityError, []any{"EXISTS", lua.WaitingKey}},
		{"take a lock", SeverityError, []any{"MGET", lua.WaitingKey}},
		{"take a lock", SeverityError, []any{"SET", resource, "owner", "NX", "PX", "1"}},
		{"take a lock", SeverityError, []any{"PTTL", resource}},
		{"renew a lock", SeverityError, []any{"PEXPIRE", resource, "1", "GT"}},
		{"renew a lock", SeverityError, []any{"EXISTS", resource}},
		{"release a lock", SeverityError, []any{"DEL", resource}},
		{"leave a tombstone", SeverityError, []any{"SET", triedOwner, "1", "PX", "1"}},
		{"leave a tombstone", SeverityError, []any{"PTTL", triedOwner}},
		{"leave a tombstone", SeverityError, []any{"EXISTS", triedOwner}},
		{waitInLine, SeverityError, []any{"ZADD", lua.QueueKey + resource, "1", "id"}},
		{waitInLine, SeverityError, []any{"ZRANGE", lua.QueueKey + resource, "0", "0"}},
		{waitInLine, SeverityError, []any{"ZREM", lua.QueueKey + resource, "id"}},
		{waitInLine, SeverityError, []any{"PEXPIRE", lua.QueueKey + resource, "1"}},
		{waitInLine, SeverityError, []any{"EXISTS", lua.LiveKey + "id"}},
		{waitInLine, SeverityError, []any{"MGET", lua.LiveKey + "id"}},
		{waitInLine, SeverityError, []any{"SET", lua.LiveKey + "id", "1", "PX", "1"}},
		{waitInLine, SeverityError, []any{"SET", lua.WaitingKey, "1", "PX", "1"}},
		{"share a name", SeverityInfo, []any{"ZSCORE", resource, triedOwner}},
		{"share a name", SeverityInfo, []any{"PEXPIREAT", resource, "1"}},
		{"wake the next in line, or ask a holder to give up", SeverityWarning, []any{"PUBLISH", lua.WakeChannel + "id", resource}},
		{"be woken, or asked", SeverityWarning, []any{"SUBSCRIBE", lua.WakeChannel + "id"}},
		{"tell observers of the leader's token", SeverityInfo, []any{"PUBLISH", lua.LeaderChannel + resource, "0"}},
		{"hear of a leader's token", SeverityInfo, []any{"SUBSCRIBE", lua.LeaderChannel + resource}},
		{"inspect a lock", SeverityInfo, []any{"MULTI"}},
		{"inspect a lock", SeverityInfo, []any{"EXEC"}},
	}
	if unprotected {
		needed = append(needed, right{"do without membership", SeverityError, []any{"HSETNX", lua.NodeKey, "epoch", "1"}})
	}
	return needed
}

// denial is a right that the user lacks.
type denial struct {
	what string // the command
	rule string // of ACL SETUSER, which grants it
	use  string
	lack Severity
	name bool // the right is there, but not for a key of this name
}

const rightsRemedy = "redlock nodes acl --for lock,wait,doctor prints the ACL SETUSER with all rights of a user who locks, waits and runs the doctor, which replaces what the user may: give its PATTERN, and add what else it does, such as share, status, or without-membership"

var (
	aboutRights = diagnosis{
		FindingACL,
		"What it is for fails there, with the reply NOPERM, as if the node were down; a right to wait in line is wanted only where somebody waits for the lock, or did",
		rightsRemedy,
	}
	aboutWakeRights = diagnosis{
		FindingACL,
		"Locks are held and released without it, and nothing else says that it is missing: who waits in line is not woken, and looks by itself, seconds later; a holder does not hear that it is asked to give up (Revoke); and of a leader, observers learn no token where its channel is missing",
		rightsRemedy,
	}
	aboutOtherRights = diagnosis{
		FindingACL,
		"A user who locks and waits does not need it",
		"Nothing, unless the user does that too: redlock nodes acl prints the rights, with share, status, lead or observe in the list of --for",
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
			e.denied = append(e.denied, newDenial(right{"run redlock", SeverityError, []any{name, lua.NodeKey}}, err.Error(), prefix+triedName))
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
	d := denial{what: r.name(), use: r.use, lack: r.lack}
	d.rule = "+" + strings.ReplaceAll(strings.ToLower(d.what), " ", "|")
	if _, what, ok := strings.Cut(reply, " has no permissions to "); ok { // before it stands the user's name
		reply = what
	}
	if strings.Contains(reply, " key") {
		d.name = strings.Contains(reply, "'"+resource+"'")
		if !d.name {
			d.what += " on " + r.ownKeys()
			d.rule = "~redlock:*"
		}
	}
	if strings.Contains(reply, " channel") {
		channels := lua.WakeChannel + "*"
		if strings.HasPrefix(fmt.Sprint(r.command[1]), lua.LeaderChannel) {
			channels = lua.LeaderChannel + "*"
		}
		d.what += " on " + channels
		d.rule = "&" + channels
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
	lacks, rules, names := map[Severity][]string{}, map[Severity][]string{}, []string(nil)
	noHints := slices.ContainsFunc(e.denied, func(x denial) bool { return x.lack == SeverityWarning })
	for _, x := range e.denied {
		if noHints && (strings.HasPrefix(x.what, "PUBLISH") || strings.HasPrefix(x.what, "SUBSCRIBE")) {
			x.lack = SeverityWarning // one finding has them all
		}
		text := fmt.Sprintf("%s (to %s)", x.what, x.use)
		switch {
		case x.name:
			names = append(names, x.what)
		case !slices.Contains(lacks[x.lack], text):
			lacks[x.lack] = append(lacks[x.lack], text)
		}
		if !x.name && !slices.Contains(rules[x.lack], x.rule) {
			rules[x.lack] = append(rules[x.lack], x.rule)
		}
	}
	for severity, about := range map[Severity]diagnosis{SeverityError: aboutRights, SeverityWarning: aboutWakeRights, SeverityInfo: aboutOtherRights} {
		if all := lacks[severity]; len(all) > 0 {
			if severity != SeverityInfo {
				about.remedy = fmt.Sprintf("Grant it: ACL SETUSER %s %s. ", cmp.Or(e.user, "default"), strings.Join(rules[severity], " ")) + rightsRemedy
			}
			d.find(severity, i, about, "the user %q may not %s", e.user, strings.Join(all, ", "))
		}
	}
	if len(names) > 0 {
		d.find(SeverityInfo, i, aboutKeyNames, "the user %q may not %s the key %q", e.user, strings.Join(names, ", "), d.cfg.Prefix+triedName)
	}
}
