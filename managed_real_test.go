package redlock_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// pageRights are the rules of the user that the page has for managed servers.
func pageRights(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("docs/OPERATIONS.md")
	must(t, err)
	m := regexp.MustCompile(`(?m)^ACL SETUSER redlock on >SECRET (.*)$`).FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/OPERATIONS.md has no ACL SETUSER redlock")
	}
	return strings.Fields(string(m[1]))
}

// managed starts servers as a provider does: what it keeps for itself is gone, and
// the user has the rights of the page.
func managed(t *testing.T, n int) []string {
	t.Helper()
	config := redisserver.Config{AOF: redisserver.FsyncEverysec, Users: []string{"redlock on >SECRET " + strings.Join(pageRights(t), " ")}}
	for _, command := range []string{"CONFIG", "DEBUG", "ACL", "FLUSHALL", "FLUSHDB", "KEYS", "EVAL", "FUNCTION", "REPLICAOF", "SHUTDOWN"} {
		config.Args = append(config.Args, "--rename-command", command, "")
	}
	var urls []string
	for _, s := range testserver.Need(t, n, config) {
		urls = append(urls, "redis://redlock:SECRET@"+s.Addr())
	}
	return urls
}

func TestTheRightsThatThePageListsAreEnough(t *testing.T) {
	t.Parallel()
	urls := managed(t, 3)
	opened := func(opts ...redlock.Option) *redlock.Locker {
		l, err := redlock.Open(t.Context(), urls, append(opts, redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient))...)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	var log eventLog
	l, other := opened(), opened(redlock.WithObserver(log.observe))
	admitted(t, l)
	warm(t, l)
	warm(t, other)
	lock := mustAcquire(t, l, "42")
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
	waiting := make(chan error, 1)
	go func() {
		lock, err := other.Acquire(t.Context(), "42")
		if err == nil {
			err = lock.Release(t.Context())
		}
		waiting <- err
	}()
	pollUntil(t, 20*time.Second, "the other stands in line", func() bool {
		s, err := l.Inspect(t.Context(), "42")
		return err == nil && slices.ContainsFunc(s.Nodes, func(n redlock.NodeInspection) bool { return len(n.Waiting) > 0 })
	})
	mustRelease(t, lock)
	select {
	case err := <-waiting:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("who waits was not let in")
	}
	sharing(t, l, other)
	r, err := l.Cluster().Check(t.Context())
	must(t, err)
	for _, f := range r.AtLeast(redlock.SeverityUnknown) {
		if f.Severity != redlock.SeverityUnknown || f.Code != redlock.FindingPersistence && f.Code != redlock.FindingACL && f.Code != redlock.FindingBacklog {
			t.Errorf("got %v; want nothing but what CONFIG and ACL would have told", f)
		}
	}
	operate(t, opened)
	for _, url := range urls {
		wantManaged(t, url)
	}
	if len(r.AtLeast(redlock.SeverityUnknown)) == 0 || slices.Contains(r.Servers, "") {
		t.Errorf("got %v and the servers %q; want what is unknown, and each server", r.Findings, r.Servers)
	}
}

// sharing has both kinds wait for a name with these rights, and go.
func sharing(t *testing.T, l, other *redlock.Locker) {
	t.Helper()
	alone := mustAcquire(t, l, "42")
	waits := func(l *redlock.Locker, opts ...redlock.AcquireOption) <-chan *redlock.Lock {
		done, ctx := make(chan *redlock.Lock, 1), t.Context()
		go func() {
			lock, err := l.Acquire(ctx, "42", append(opts, redlock.WithWait(20*time.Second))...)
			if err != nil {
				t.Error(err)
			}
			done <- lock
		}()
		return done
	}
	beside := waits(other, redlock.WithShared())
	pollUntil(t, 20*time.Second, "the other stands in line, to share", func() bool {
		s, err := l.Inspect(t.Context(), "42")
		return err == nil && slices.ContainsFunc(s.Nodes, func(n redlock.NodeInspection) bool { return len(n.Waiting) > 0 })
	})
	mustRelease(t, alone)
	first := <-beside
	if first == nil {
		t.Fatal("who waits to share was not let in")
	}
	must(t, first.Extend(t.Context(), redlock.DefaultTTL))
	second := mustAcquire(t, l, "42", redlock.WithShared())
	next := waits(l)
	pollUntil(t, 20*time.Second, "the next stands in line, to be alone", func() bool {
		s, err := l.Inspect(t.Context(), "42")
		return err == nil && slices.ContainsFunc(s.Nodes, func(n redlock.NodeInspection) bool { return len(n.Waiting) > 0 })
	})
	mustRelease(t, first)
	mustRelease(t, second)
	if lock := <-next; lock == nil {
		t.Error("who waits to be alone was not let in")
	} else {
		mustRelease(t, lock)
	}
}

// operate does what an operator does with `redlock nodes`.
func operate(t *testing.T, opened func(...redlock.Option) *redlock.Locker) {
	t.Helper()
	longest := func(l *redlock.Locker) (longest time.Duration) {
		for _, n := range status(t, l).Nodes {
			longest = max(longest, n.MaxTTL)
		}
		return longest
	}
	l := opened()
	wantVotes(t, "with these rights", l, 3)
	longer := opened(redlock.WithMaxTTL(2 * redlock.DefaultMaxTTL))
	warm(t, longer)
	pollUntil(t, 20*time.Second, "MaxTTL is raised", func() bool { return longest(l) == 2*redlock.DefaultMaxTTL })
	must(t, longer.Close())
	must(t, l.Cluster().LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL))
	if got := longest(l); got != redlock.DefaultMaxTTL {
		t.Errorf("got a MaxTTL of %v after it was lowered", got)
	}
	must(t, l.Cluster().Retire(t.Context(), 2))
	wantVotes(t, "with one that was retired", opened(), 2)
}

// wantManaged checks that the server refuses what a provider refuses, and that nobody
// has asked it to drop its scripts so far.
func wantManaged(t *testing.T, url string) {
	t.Helper()
	o, err := redis.ParseURL(url)
	must(t, err)
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	stats, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil || !strings.Contains(stats, "cmdstat_script|load:") || strings.Contains(stats, "cmdstat_script|flush:") {
		t.Errorf("want scripts that were loaded, and no SCRIPT FLUSH (%v): %s", err, stats)
	}
	for _, command := range [][]any{
		{"SCRIPT", "FLUSH"}, {"SCRIPT", "KILL"}, {"CONFIG", "GET", "appendfsync"}, {"DEBUG", "SLEEP", "0"}, {"ACL", "WHOAMI"}, {"FLUSHALL"}, {"EVAL", "return 1", "0"},
	} {
		if err := c.Do(t.Context(), command...).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("%v: got %v; want it refused", command, err)
		}
	}
}

// The doctor says of a right that is missing that it is missing. It may call unknown
// what it can't see without it, and finds nothing else.
func TestTheRightsThatThePageListsAreNeeded(t *testing.T) {
	t.Parallel()
	rights, config := pageRights(t), redisserver.Config{AOF: redisserver.FsyncAlways}
	const doctor = " +acl|dryrun +acl|whoami +config|get"
	config.Users = []string{"all on >SECRET " + strings.Join(rights, " ") + doctor}
	var taken []string
	for i, right := range rights {
		if right[0] == '+' || right[0] == '&' || right == "~redlock:*" {
			taken = append(taken, right)
			lacking := slices.Delete(slices.Clone(rights), i, i+1)
			config.Users = append(config.Users,
				"without-"+right[1:]+" on >SECRET "+strings.Join(lacking, " ")+doctor, "blind-"+right[1:]+" on >SECRET "+strings.Join(lacking, " "))
		}
	}
	server := testserver.NeedOne(t, config)
	findings := func(user string) (acl, others []redlock.Finding) {
		c := clientOf(t, server, func(o *redis.Options) { o.Username, o.Password = user, "SECRET" })
		l := lockerWith(t, []redis.UniversalClient{c}, redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient))
		r, err := l.Cluster().Check(t.Context())
		must(t, err)
		for _, f := range r.AtLeast(redlock.SeverityWarning) {
			switch {
			case f.Code == redlock.FindingACL:
				acl = append(acl, f)
			case f.Code != redlock.FindingFewNodes: // which it is
				others = append(others, f)
			}
		}
		return acl, others
	}
	if acl, others := findings("all"); len(acl)+len(others) > 0 {
		t.Errorf("with all rights: got %v and %v; want no finding", acl, others)
	}
	for _, right := range taken {
		if acl, others := findings("without-" + right[1:]); len(acl) == 0 || len(others) > 0 {
			t.Errorf("without %s: got %v, and %v; want what is missing, and nothing else", right, acl, others)
		}
		_, others := findings("blind-" + right[1:])
		for _, f := range others {
			if f.Code != redlock.FindingRefuses { // what it was refused, since it can't ask for its rights
				t.Errorf("without %s, and without ACL DRYRUN: got %v; want no such finding", right, f)
			}
		}
	}
	if len(taken) < 20 {
		t.Errorf("%d rights were taken away: %q; want all", len(taken), taken)
	}
}
