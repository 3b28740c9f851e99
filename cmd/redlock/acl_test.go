//go:build unix

package main_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// usedRights is what a user with the rights of --for does, as a shell runs it: redlock is the
// command as that user, admin as another one with all rights.
var usedRights = []struct {
	uses, line string
	notHere    []string // rights that another entry shows to be needed, or a server that restarted
}{
	{"nodes", `redlock nodes admit --yes && redlock nodes && redlock nodes join --wait`, nil},
	{"grow", `REDLOCK_NODES=${ADDR%%,*} "$R" --node-timeout 300ms --max-ttl 1s nodes admit --yes >/dev/null 2>&1
		one=${AS%%,*}; rest=${AS#*,}
		REDLOCK_NODES=$one "$R" --node-timeout 300ms --max-ttl 1s nodes change --add "${rest%%,*}" --remove "${one#*@}" --close`, nil},
	{"lock", `admin nodes admit --yes; redlock exec -n --ttl 900ms --node-timeout 200ms k sleep 1 || exit
		admin exec k sleep 1 & sleep 0.5; redlock exec -n -E 7 k true; [ $? = 7 ]`, []string{"+hgetall", "+hdel"}},
	{"lock,wait", `admin nodes admit --yes; redlock exec k sleep 1 & sleep 0.5; redlock exec k true && wait`, []string{"+hgetall", "+hdel"}},
	{"lock,wait,share", `admin nodes admit --yes; redlock exec --shared --ttl 900ms --node-timeout 200ms k sleep 2 & sleep 0.5; redlock exec --shared k true || exit
		redlock exec k sleep 1 & sleep 0.3; redlock exec --shared k true && wait`, []string{"+hgetall", "+hdel"}},
	{"lock,lead", `admin nodes admit --yes; redlock lead k true`, []string{"+hgetall", "+hdel", "+pexpire", "+pttl"}},
	{"observe", `admin nodes admit --yes; admin exec k sleep 2 & redlock observe k & sleep 1; kill $!`, []string{"+script|load", "+hset"}},
	{"status", `admin nodes admit --yes; admin exec k sleep 1 & sleep 0.5; redlock status k`, nil},
	{"revoke", `admin nodes admit --yes; admin exec --revocable k sleep 5 & sleep 0.5; redlock revoke k`, []string{"+script|load"}},
	{"release", `admin nodes admit --yes; admin hold k & sleep 0.5; redlock release k --force --yes`, nil},
	{"lock,wait,share,lead,status,doctor", `admin nodes admit --yes; redlock doctor; [ $? -lt 2 ]`, []string{"~k", "&redlock:leader:*"}},
}

// ruled plays the line as a user with these rules, on a server without a record, and returns
// its exit status and what the server has refused to that user.
func ruled(t *testing.T, servers []*redisserver.Server, user, rules, line string) (code int, said string, refused []string) {
	t.Helper()
	set := append([]any{"ACL", "SETUSER", user, "on", ">SECRET"}, anys(strings.Fields(rules))...)
	var addrs, urls []string
	for _, s := range servers {
		c := s.Client()
		must(t, c.Do(t.Context(), set...).Err(), c.FlushAll(t.Context()).Err(), c.ScriptFlush(t.Context()).Err(), c.Do(t.Context(), "ACL", "LOG", "RESET").Err())
		addrs, urls = append(addrs, s.Addr()), append(urls, "redis://"+user+":SECRET@"+s.Addr())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `
		redlock() { REDLOCK_NODES=$AS "$R" --node-timeout 1s --max-ttl 20s "$@"; }
		admin() { REDLOCK_NODES=$ADDR "$R" --node-timeout 1s --max-ttl 20s "$@" >/dev/null 2>&1; }
		`+line)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "R="+command, "ADDR="+strings.Join(addrs, ","), "AS="+strings.Join(urls, ","))
	out, _ := cmd.CombinedOutput()
	for _, s := range servers {
		log, err := s.Client().ACLLog(t.Context(), 100).Result()
		must(t, err)
		for _, entry := range log {
			if entry.Username == user && entry.Object != "ping" { // of a quiet subscription, to which any answer will do
				refused = append(refused, entry.Object)
			}
		}
	}
	return cmd.ProcessState.ExitCode(), string(out), refused
}

func anys(words []string) (all []any) {
	for _, word := range words {
		all = append(all, word)
	}
	return all
}

// With the rules that it prints for a use, that use works over a real server, and the server
// has refused nothing. Without any one of them (below the deep tier: each sixth), the server has
// refused that one, or the doctor names it.
func TestTheRightsThatTheCommandPrintsAreEnoughAndNeeded(t *testing.T) {
	t.Parallel()
	for _, use := range usedRights {
		t.Run(use.uses, func(t *testing.T) {
			t.Parallel()
			servers, _ := blanks(t, 3, redisserver.Config{AOF: redisserver.FsyncEverysec})
			if use.uses != "nodes" && use.uses != "grow" {
				servers = servers[:1]
			}
			printed := run(t, "", "nodes", "acl", "k", "--for", use.uses)
			printed.want(t, 0)
			_, rules, _ := strings.Cut(strings.TrimSpace(printed.out), " clearselectors resetkeys resetchannels -@all ")
			if code, said, refused := ruled(t, servers, "all", rules, use.line); code != 0 || len(refused) > 0 {
				t.Fatalf("with %s: got status %d, refused %q\n%s", rules, code, refused, said)
			}
			all, stride := strings.Fields(rules), testkit.Of(6, 1)
			for i, right := range all {
				if i%stride != 0 || slices.Contains(use.notHere, right) {
					continue
				}
				without := strings.Join(slices.Delete(slices.Clone(all), i, i+1), " ")
				object, pattern := strings.CutSuffix(right[1:], "*")
				matches := func(what string) bool { return what == object || pattern && strings.HasPrefix(what, object) }
				for tries := 1; ; tries++ {
					_, said, refused := ruled(t, servers, "without", "reset on >SECRET "+without, use.line)
					named := strings.Contains(strings.Join(strings.Fields(said), " "), "may not "+strings.ToUpper(object)) // by the doctor
					if slices.ContainsFunc(refused, matches) || named {
						break
					}
					if tries == 4 { // on a busy machine one comes too late to find the other there
						t.Errorf("without %s: refused %q; want that\n%s", right, refused, said)
						break
					}
				}
			}
		})
	}
}

// Pasted for a user that is there, its line was to give another password: SECRET.
func TestTheRightsThatTheCommandPrintsLeaveThePassword(t *testing.T) {
	t.Parallel()
	s := testserver.NeedOne(t, redisserver.Config{Users: []string{"app on >mine ~* &* +@all (+get ~other)"}})
	printed := run(t, "", "nodes", "acl", "--user", "app", "--for", "lock", "k")
	printed.want(t, 0, "a new user needs one: ACL SETUSER app on '>SECRET'")
	must(t, s.Client().Do(t.Context(), anys(strings.Fields(printed.out))...).Err())
	rights, err := s.Client().Do(t.Context(), "ACL", "LIST").StringSlice()
	must(t, err)
	if user := rights[0]; !strings.Contains(user, " on ") || strings.Count(user, " #") != 1 || !strings.Contains(user, " ~redlock:* ~k resetchannels -@all ") || strings.Contains(user, "(") {
		t.Errorf("got %q; want one password, and no other rights", user)
	}
	run(t, "redis://app:mine@"+s.Addr(), "nodes", "admit", "--yes", "--node-timeout", "1s").want(t, 0, "1 vote")
	run(t, "redis://app:mine@"+s.Addr(), "exec", "-n", "--node-timeout", "1s", "k", "true").want(t, 0)
}

// What it prints by itself is the line of docs/OPERATIONS.md, which tests of the root try
// with the library.
func TestTheRightsThatTheCommandPrintsAreThePages(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/OPERATIONS.md")
	must(t, err)
	want := strings.Fields(string(regexp.MustCompile(`(?m)^ACL SETUSER redlock on >SECRET .*$`).Find(page)))
	got := strings.Fields(run(t, "", "nodes", "acl", "orders/*").out)
	slices.Sort(want)
	slices.Sort(got)
	none := []string{"-@all", "clearselectors", "on", ">SECRET", "resetchannels", "resetkeys"} // who has none yet, or a password
	rule := func(of []string) []string {
		return slices.DeleteFunc(of, func(rule string) bool { return slices.Contains(none, rule) })
	}
	if got, want = rule(got), rule(want); !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	for args, says := range map[string]string{
		"--prefix a/ b* --user u --json": `{"user":"u","rules":"clearselectors resetkeys resetchannels -@all ~redlock:* ~a/b* `,
		"--for nodes k":                  " ~redlock:* +evalsha",
		"--for lock":                     " ~redlock:* ~* +evalsha",
		"--for lock,without-membership":  " +hsetnx",
	} {
		run(t, "", append([]string{"nodes", "acl"}, strings.Fields(args)...)...).want(t, 0, says)
	}
	servers, _ := blanks(t, 1, redisserver.Config{Users: []string{"redlock on >SECRET ~* +@all"}})
	eye := start(t, prepare(t, "redis://redlock:SECRET@"+servers[0].Addr(), "observe", "--node-timeout", "1s", "orders/1"))
	eventually(t, "what it lacks", func() bool { return strings.Contains(eye.stderr(), "redlock nodes acl --for observe") })
	eye.signal(t, os.Interrupt)
	eye.wait(t).want(t, 0, "no token is shown")
	run(t, "", "nodes", "acl", "--for", "exec").want(t, 64, `--for "exec": give some of nodes,lock,wait,share,`)
	run(t, "", "nodes", "acl", "a +@all").want(t, 64, "has a blank")
}
