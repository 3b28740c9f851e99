package main_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// The status of refused credentials is that of exec, no matter which command met them, and
// the doctor says of all nodes once what it says of each.
func TestRefusedCredentialsAreAConfigurationEverywhere(t *testing.T) {
	t.Parallel()
	servers, _ := blanks(t, 3, redisserver.Config{Password: "hunter2"})
	var without []string
	for _, s := range servers {
		without = append(without, s.Addr())
	}
	nodes := strings.Join(without, ",")
	for _, args := range []string{"exec -n k true", "nodes join --wait --timeout 1s", "nodes admit --yes"} {
		run(t, nodes, append([]string{"--node-timeout", "1s"}, strings.Fields(args)...)...).want(t, 78, "credentials refused", "(give the user and the password that the server expects: --user and --password-file, or the URL's; if it restarted since")
	}
	r := run(t, nodes, "doctor", "--node-timeout", "1s")
	r.want(t, r.code, "it refuses the client: credentials refused", "--user and --password-file")
	if n := strings.Count(strings.Join(strings.Fields(r.out), " "), "it refuses the client"); n != 1 {
		t.Errorf("got\n%s\nwant it said once; got %d times", r.out, n)
	}
}

// A wait that is over is told in one line, without a deadline that nobody set.
func TestTheEndOfAWaitIsToldInOneLine(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	_, err := open(t, nodes).Acquire(t.Context(), "k")
	must(t, err)
	for _, args := range []string{"exec --wait 300ms k true", "exec --wait 300ms --also b k true", "hold --wait 300ms k", "lead --wait 300ms k true"} {
		r := run(t, nodes, append([]string{"--node-timeout", "1s"}, strings.Fields(args)...)...)
		r.want(t, 75, "not within 300ms: ", "held by another, ")
		if strings.Count(r.errs, "\n") != 1 || strings.Contains(r.errs, "deadline") {
			t.Errorf("%s: got %q; want one line", args, r.errs)
		}
	}
}

// What happened comes first, then to which nodes; one that is well is not named as a fault.
func TestAMissingQuorumIsToldByThoseWhoFailed(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	must(t, servers[1].Kill())
	must(t, servers[2].Kill())
	r := run(t, nodes, "exec", "--node-timeout", "1s", "-n", "k", "true")
	r.want(t, 69, "acquire k: no quorum: 2 of 3 nodes failed: "+servers[1].Addr(), "connection refused")
	if strings.Contains(r.errs, "pending") {
		t.Errorf("got %q; want no word of the rules", r.errs)
	}
	r = run(t, nodes, "nodes", "--node-timeout", "1s")
	r.out = strings.Join(strings.Fields(r.out), " ")
	r.want(t, 69, "member - 30s well; waits for one of the others")
	run(t, nodes, "nodes", "join", "--node-timeout", "1s", "--wait", "--timeout", "2s").want(t, 69, servers[0].Addr()+" is without a vote: well; waits for one of the others")
}

// Who holds a busy key is told first, where one holds it alone. There is no look that nobody reads.
func TestABusyKeyIsToldWithItsHolder(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	_, err := open(t, nodes, redlock.WithHolder("deploy@host1")).Acquire(t.Context(), "k")
	must(t, err)
	eventually(t, "held by three", func() bool { return status(t, nodes, "k").Held == 3 })
	told := regexp.MustCompile(`^redlock: k is held by deploy@host1/[0-9a-f-]{36}: acquire k: .*held by another.*\n$`)
	for _, args := range []string{"exec -n k true", "exec --wait 1s k true", "hold -n k", "exec -E 9 -n k true"} {
		r := run(t, nodes, append([]string{"--node-timeout", "1s"}, strings.Fields(args)...)...)
		if want := 75; r.code != want && !strings.Contains(args, "-E 9") || !told.MatchString(r.errs) {
			t.Errorf("%s: got %d and %q; want %d, and the holder", args, r.code, r.errs, want)
		}
	}
	if r := run(t, nodes, "exec", "--node-timeout", "1s", "-E", "0", "-n", "k", "true"); r.code != 0 || r.errs != "" {
		t.Errorf("with -E 0: got %d and %q; want silence", r.code, r.errs)
	}
	_, err = open(t, nodes).Acquire(t.Context(), "s", redlock.WithShared())
	must(t, err)
	run(t, nodes, "exec", "--node-timeout", "1s", "-n", "s", "true").want(t, 75, "held by another", " (redlock status KEY shows who holds it)")
}

// A right that is missing is named where its lack shows: when a lock is lost, is not released,
// or is to be taken away, and by those who look. Redis 7.0 does not name what a script called.
func TestAMissingRightIsNamedWithItsRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lacks, args string
		code        int
		says        []string
	}{
		{"-pexpire", "exec --ttl 3s k sleep 12", 124, []string{
			"ending sleep: no quorum confirms k any more: ", " of 3 nodes failed: ", "the user's ACL lacks a right (+pexpire): ", "; redlock nodes acl prints the rights",
		}},
		{"-del", "exec --ttl 3s k true", 0, []string{"close: not released on 127.0.0.1:", "redlock nodes acl prints the rights; blocked there for up to "}},
		{"-watch", "release k --force --yes", 69, []string{"'watch' command; redlock nodes acl --for release", "prints the rights"}},
		{"-hmget", "nodes", 69, []string{"misconfigured", "the user's ACL lacks a right (+hmget): ", "; redlock nodes acl prints the rights"}},
		{"-hmget", "status k", 69, []string{"misconfigured", "the user's ACL lacks a right (+hmget): "}},
		{"-info", "status k", 69, []string{"misconfigured", ": INFO tells no run_id, "}}, // it was told by nodes alone
		{"-pttl", "status k", 69, []string{"the user's ACL lacks a right (+pttl): "}},
		{"-exec", "status k", 69, []string{"the user's ACL lacks a right (+exec): ", "redlock nodes acl, with status in --for, prints the rights"}},
		{"-evalsha", "nodes", 69, []string{"misconfigured - - the user's ACL lacks a right (+evalsha): "}}, // it was told twice
		{"-set", "nodes", 69, []string{"refuses writes: the user's ACL lacks a right (+set): "}},
		{"-script|load", "nodes", 69, []string{"refuses writes: the user's ACL lacks a right (+script|load): "}},
		{"-publish", "revoke k", 78, []string{"revoke k: node misconfigured, and waiting does not help: no node passes the request on to a holder", "the user's ACL lacks a right (+publish): ", "; redlock nodes acl prints the rights"}},
		{"-set -acl", "doctor", 2, []string{"it refuses to take a lock, which takes +set: "}},
		{"resetkeys ~redlock:*", "status k", 69, []string{"; redlock nodes acl 'PATTERN' prints the rights for names like it"}}, // it was EXECABORT
		{"resetkeys ~redlock:*", "exec -n k true", 78, []string{"; redlock nodes acl 'PATTERN' prints the rights for names like it"}},
	} {
		t.Run(c.lacks, func(t *testing.T) {
			t.Parallel()
			servers, nodes := masters(t, 3)
			if c.lacks == "-watch" || c.lacks == "-publish" {
				_, err := open(t, nodes).Acquire(t.Context(), "k", redlock.WithRevocation())
				must(t, err)
			}
			for _, s := range servers {
				args := []any{"ACL", "SETUSER", "default"}
				for rule := range strings.FieldsSeq(c.lacks) {
					args = append(args, rule)
				}
				must(t, s.Client().Do(t.Context(), args...).Err())
			}
			r := run(t, nodes, append([]string{"--node-timeout", "500ms"}, strings.Fields(c.args)...)...)
			r.out = strings.Join(strings.Fields(r.out), " ")
			r.want(t, c.code, c.says...)
		})
	}
}

// What is the same of all nodes is one finding, in one row.
func TestTheDoctorCountsTheFindingsThatItShows(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	r := run(t, nodes, "doctor", "--node-timeout", "1s")
	if rows := strings.Count(r.out, " all nodes ") + strings.Count(r.out, " cluster "); rows == 0 || !strings.Contains(r.out, fmt.Sprintf(": %d finding", rows)) {
		t.Errorf("got\n%s\nwant its %d rows counted", r.out, rows)
	}
}
