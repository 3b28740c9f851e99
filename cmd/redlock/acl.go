package main

// nodes acl prints the rights that a server must give a user, for what that user does. It asks
// no node, so it works before there is one. What a script calls needs the rights of the user
// who calls the script, so most rights here are those of internal/lua.
//
// The doctor's own list (internal/doctor, rights.go) is of all that a client of the library
// may do, and says what each right is for. A test holds the two together by the line of
// docs/OPERATIONS.md: it is what this command prints without --for, and the doctor misses
// each right of it that is taken away.

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumkit/redlock/internal/cli"
)

// aclUse is something that a program does with the nodes, and the rights for it.
type aclUse struct {
	name   string
	names  bool   // it has to do with the names' own keys
	rights string // beside those of every program
}

// aclNone takes away all rights, and no password, as reset would.
const aclNone = "clearselectors resetkeys resetchannels -@all"

// aclAlways are the rights of every program: to learn what a node is.
const aclAlways = "+evalsha +script|load +info +hmget +mget"

// aclUses are the words of --for. Programs that only try belong to lock; where a single
// client waits in line, all the others need wait too, since a release looks at the line.
// TestTheRightsThatTheCommandPrintsAreEnoughAndNeeded tries each.
var aclUses = []aclUse{
	// The records of the nodes, and the SET that proves that a node writes.
	{"nodes", false, "+set +pttl +hset +hgetall +hdel"},
	// A client reads the clock for its tokens, and takes in nodes whose wait is over, so it
	// writes records as well.
	{"lock", true, "+time +hset +hgetall +hdel +set +pttl +pexpire +exists +del"},
	// The line of a name is a sorted set. A release wakes the next waiter by a channel that is
	// the waiter's own.
	{"wait", true, "&redlock:wake:* +zadd +zrange +zrem +publish +subscribe"},
	// The sharers of a name are a sorted set too, under the name itself.
	{"share", true, "+zadd +zrange +zrem +zscore +pexpireat"},
	// One transaction, so that all that is shown of a node is of one moment.
	{"status", true, "+set +pttl +zrange +multi +exec"},
	// Observers look once a second without the word of a leader.
	{"lead", true, "&redlock:leader:* +publish"},
	// An observer runs for long, and so meets nodes that restart: it writes into the record
	// that it has looked.
	{"observe", true, "&redlock:leader:* +hset +exists +subscribe +multi +exec"},
	// The holder is asked by its own channel.
	{"revoke", true, "&redlock:wake:* +pttl +zrange +publish +multi +exec"},
	// A transaction of its own, under WATCH: see remove.
	{"release", true, "+set +pttl +zrange +del +get +watch +multi +exec"},
	// Of nodes, and SCAN tells whether a new one is empty.
	{"grow", false, "+set +pttl +hset +hgetall +hdel +scan"},
	// It looks at settings and rights, and changes neither. Its own locks need those of a client.
	{"doctor", false, "+acl|dryrun +acl|whoami +config|get"},
	{"without-membership", true, "+hsetnx"},
}

func aclCommand(a *app) cli.Command {
	return cli.Command{
		Name: "nodes acl", Synopsis: "[PATTERN...] [flags]", Summary: "print the rights that a server must give, as ACL SETUSER",
		About: `Prints the command that gives a user (--user, or "redlock") the rights for what it does, and no
others: pipe it to redis-cli, for each node. Pasted into a shell, its & and | are the shell's.
It leaves the password of a user as it is; one that is new lets nobody in before it has one:
ACL SETUSER redlock on '>SECRET', which needs its quotes in a shell. PATTERN is for the names
of locks, as 'orders/*'; --prefix stands before it. Without one they are all names.

LIST is of: lock (acquire without waiting), wait (in line: where one client does, all need
it), share (--shared), lead, observe, status (Inspect), revoke, release, nodes (join, admit:
no lock), grow (nodes change), doctor (it also tries, and calls an
error what it may not: lock,wait,share,lead,status,doctor), without-membership (the library's).`,
		Define: func(fs *flag.FlagSet) cli.Action {
			uses := fs.String("for", "lock,wait,share,lead,status", "what the user does, a `LIST` separated by commas")
			return func(_ context.Context, patterns []string) error {
				user := cmp.Or(a.connection.user, a.Getenv(userVariable), "redlock")
				rules, err := aclRules(split(*uses), a.connection.prefix, patterns)
				if err != nil {
					return err
				}
				if a.JSON {
					return a.Answer(aclShows{user, rules})
				}
				p := a.NewPage()
				fmt.Fprintf(p, "ACL SETUSER %s %s\n", user, rules)
				// Not in the line itself: pasted for a user that is there, it would add a password.
				a.complain("nodes acl: it leaves the user's password as it is; a new user needs one: ACL SETUSER " + user + " on '>SECRET'")
				return a.Flush(p)
			}
		},
	}
}

// aclShows is the answer, as --json shows it.
type aclShows struct {
	User  string `json:"user"`
	Rules string `json:"rules"` // of ACL SETUSER, without the password
}

// aclRules are the rules for these uses: keys, channels and commands, in the order in which
// people read them.
func aclRules(uses []string, prefix string, patterns []string) (string, error) {
	keys, rights := append(strings.Fields(aclNone), "~redlock:*"), strings.Fields(aclAlways)
	names := false
	for _, use := range uses {
		i := slices.IndexFunc(aclUses, func(u aclUse) bool { return u.name == use })
		if i < 0 {
			var known []string
			for _, u := range aclUses {
				known = append(known, u.name)
			}
			return "", cli.Usagef("nodes acl: --for %q: give some of %s", use, strings.Join(known, ","))
		}
		names = names || aclUses[i].names
		rights = append(rights, strings.Fields(aclUses[i].rights)...)
	}
	if names && len(patterns) == 0 {
		patterns = []string{"*"}
	}
	for _, pattern := range patterns {
		// A blank would end the rule, and what follows be a rule of its own.
		if strings.ContainsAny(pattern+prefix, " \t\r\n") {
			return "", cli.Usagef("nodes acl: %q has a blank, which ACL SETUSER can't take: write ? for it", prefix+pattern)
		}
		if names {
			keys = append(keys, "~"+prefix+pattern)
		}
	}
	slices.SortStableFunc(rights, func(a, b string) int { return strings.Index("&+", a[:1]) - strings.Index("&+", b[:1]) })
	rules := keys
	for _, right := range rights {
		if !slices.Contains(rules, right) {
			rules = append(rules, right)
		}
	}
	return strings.Join(rules, " "), nil
}
