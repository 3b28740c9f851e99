package redlock_test

import (
	"fmt"
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

// doctorRights are what redlock doctor is given besides.
const doctorRights = " +acl|dryrun +acl|whoami +config|get"

// asUsers are the clients of three servers, each with these rights.
func asUsers(t *testing.T, rights string) (clients []redis.UniversalClient) {
	t.Helper()
	config := redisserver.Config{AOF: redisserver.FsyncAlways, Users: []string{"redlock on >SECRET " + rights + doctorRights}}
	for _, s := range testserver.Need(t, 3, config) {
		clients = append(clients, clientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "redlock", "SECRET" }))
	}
	return clients
}

// lacks is what the doctor says of rights that are missing.
func lacks(t *testing.T, l *redlock.Locker) (found []redlock.Finding) {
	t.Helper()
	r, err := l.Cluster().Check(t.Context())
	must(t, err)
	for _, f := range r.AtLeast(redlock.SeverityUnknown) {
		if f.Code == redlock.FindingACL || f.Code == redlock.FindingRefuses || f.Code == redlock.FindingRunID {
			found = append(found, f)
		}
	}
	return found
}

// Where scripts may not call INFO, this is what is left.
func TestWithoutMembershipOneRightMoreIsNeeded(t *testing.T) {
	t.Parallel()
	page := strings.Join(pageRights(t), " ")
	opts := []redlock.Option{redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient), redlock.WithoutMembership()}
	l := lockerWith(t, asUsers(t, page+" +hsetnx"), opts...)
	lock := mustAcquire(t, l, "42")
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
	mustRelease(t, lock)
	if found := lacks(t, l); len(found) > 0 {
		t.Errorf("with +hsetnx: got %v; want no finding", found)
	}
	l = lockerWith(t, asUsers(t, page), opts...)
	_, err := l.TryAcquire(t.Context(), "42")
	wantError(t, "TryAcquire without +hsetnx", err, redlock.ErrMisconfigured)
	if found := lacks(t, l); len(found) != 3 || !strings.Contains(found[0].String(), "may not HSETNX") {
		t.Errorf("without +hsetnx: got %v; want what is missing, of each node", found)
	}
}

// A provider that grants by categories leaves out what the page says, and no more.
func TestTheRightsThatThePageListsAreOfTheseCategories(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/OPERATIONS.md")
	must(t, err)
	m := regexp.MustCompile("By categories, `([^`]+)`").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/OPERATIONS.md has no rights by categories")
	}
	names, rights := "", pageRights(t)
	for _, right := range rights {
		if right[0] != '+' {
			names += right + " "
		}
	}
	categories := strings.Fields(string(m[1]))
	clients := asUsers(t, names+strings.Join(categories, " "))
	l := lockerWith(t, clients, redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient))
	admitted(t, l)
	mustRelease(t, mustAcquire(t, l, "42"))
	if found := lacks(t, l); len(found) > 0 {
		t.Errorf("with %q: got %v; want no finding", categories, found)
	}

	c := testserver.NeedOne(t, redisserver.Config{}).Client()
	refused := map[string]bool{}
	for _, category := range []string{"admin", "dangerous"} {
		for _, command := range c.Do(t.Context(), "ACL", "CAT", category).Val().([]any) {
			refused["+"+command.(string)] = true
		}
	}
	for _, right := range append(rights, "+hsetnx") {
		if right[0] == '+' && refused[right] != slices.Contains(categories, right) {
			t.Errorf("%s is refused by category: %v; the page has it besides: %v", right, refused[right], slices.Contains(categories, right))
		}
	}
	if !refused["+config|get"] {
		t.Errorf("ACL CAT told %v", refused)
	}
}

// Each kind of hold lives its life with the rights that the page lists, and the servers have
// refused nothing by then: what is refused and not told would be seen there.
func TestEachKindOfHoldLivesWithTheRightsThatThePageLists(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{AOF: redisserver.FsyncAlways, Users: []string{"redlock on >SECRET " + strings.Join(pageRights(t), " ")}})
	opened := func() *redlock.Locker {
		var clients []redis.UniversalClient
		for _, s := range servers {
			clients = append(clients, clientOf(t, s, func(o *redis.Options) { o.Username, o.Password = "redlock", "SECRET" }))
		}
		return lockerWith(t, clients, redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient), redlock.WithTTL(3*patient/2))
	}
	l, other := opened(), opened()
	admitted(t, l)
	for _, c := range []struct {
		name   string
		beside bool // two hold at once
		option redlock.AcquireOption
	}{
		{"shared", true, redlock.WithShared()},
		{"a slot", false, redlock.WithLimit(1)},
		{"two slots", true, redlock.WithLimit(2)},
		{"alone", false, redlock.WithValue("v")},
	} {
		t.Log(c.name)
		held := []*redlock.Lock{mustAcquire(t, l, "42", c.option, redlock.WithRevocation())}
		if c.beside {
			held = append(held, mustAcquire(t, other, "42", c.option, redlock.WithRevocation()))
		}
		pause(5 * time.Second) // it is renewed
		next := make(chan error, 1)
		ctx := t.Context()
		waiting := []redlock.AcquireOption{redlock.WithWait(time.Minute)}
		if c.name != "shared" { // else a writer waits
			waiting = append(waiting, c.option)
		}
		go func() {
			lock, err := other.Acquire(ctx, "42", waiting...)
			if err == nil {
				err = lock.Release(ctx)
			}
			next <- err
		}()
		pollUntil(t, 20*time.Second, "another stands in line", func() bool {
			in, err := l.Inspect(ctx, "42")
			return err == nil && slices.ContainsFunc(in.Nodes, func(n redlock.NodeInspection) bool { return len(n.Waiting)+len(n.SlotsWaiting) > 0 })
		})
		revoked := make(chan error, 1)
		go func() { revoked <- other.Revoke(ctx, "42") }()
		for _, lock := range held {
			select {
			case <-lock.Revoked():
			case <-time.After(time.Minute):
				t.Fatalf("%s: it was not asked for", c.name)
			}
			must(t, lock.Err())
			must(t, lock.Extend(ctx, 3*patient))
			mustRelease(t, lock)
		}
		must(t, <-next)
		must(t, <-revoked)
	}
	for _, s := range servers {
		for _, entry := range s.Client().Do(t.Context(), "ACL", "LOG").Val().([]any) {
			if what := fmt.Sprint(entry); !strings.Contains(what, "object:ping") { // of a quiet subscription, to which any answer will do
				t.Errorf("a server has refused %s", what)
			}
		}
	}
}
