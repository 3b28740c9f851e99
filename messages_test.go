package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// Messages that named no cause, no remedy, or a wrong one.

// A node that has not answered an attempt is named with what is known of it, and what is the
// same of several nodes is said once.
func TestOneCauseOfAllNodesIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockerOver(t, redlocktest.Start(t, 3, redlocktest.WithoutFounding()))
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		if text := fmt.Sprint(err); strings.Count(text, "it is new") != 1 || strings.Count(text, ", node-") != 2 {
			t.Errorf("got %q; want the cause of all once", text)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err = l.Cluster().Join(ctx); strings.Count(fmt.Sprint(err), "it is new") != 1 {
			t.Errorf("Join: got %q; want the cause of all once", err)
		}
	})
}

// A node of a cluster of two is no node of a client that lacks one of them: the list is named, and a
// new node beside it is not called misconfigured.
func TestAnotherNumberOfNodesIsNamedWithItsRemedy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		pair := lockerWith(t, nodes.Clients()[1:], redlock.WithNodeNames("node-1", "node-2"))
		must(t, pair.Cluster().Admit(t.Context()))
		l := lockerWith(t, nodes.Clients()[:2], redlock.WithNodeNames("node-0", "node-1"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "orders/42")
		wantError(t, "Acquire", err, redlock.ErrMisconfigured)
		wantText(t, "Acquire", fmt.Sprint(err), "its list is of 2 nodes (node-1, node-2), generation 0; this client's of 2 (node-0, node-1)", "give all clients one list", "docs/WHICH.md")
		var failed *redlock.QuorumError
		if !errors.As(err, &failed) {
			t.Fatalf("got %v; want a *QuorumError", err)
		}
		if text := fmt.Sprint(failed.Nodes[0].Err); strings.Contains(text, "node misconfigured") || !strings.Contains(text, "node-1") {
			t.Errorf("a new node: got %q; want it named by what keeps it out: node-1", text)
		}
	})
}

// What is known of a node is told though its reply had not come when the attempt was over.
func TestAPendingNodeIsNamedWithItsLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes)
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "the first", err, redlock.ErrNoQuorum)
		_, err = l.TryAcquire(t.Context(), "orders/42")
		var failed *redlock.QuorumError
		if !errors.As(err, &failed) {
			t.Fatalf("got %v; want a *QuorumError", err)
		}
		for i, n := range failed.Nodes {
			if n.Err == nil {
				t.Errorf("node %d is %v: got no cause", i, n.Outcome)
			}
		}
	})
}

// What happened comes first, then to which nodes, then why; who was not waited for comes last.
func TestAFailureSaysFirstHowManyNodesDidWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/1")
		synctest.Wait() // on all three
		nodes.Node(1).Miniredis().Del("orders/1")
		nodes.Node(2).Miniredis().Del("orders/1")
		err := lock.Extend(t.Context(), redlock.DefaultTTL)
		wantError(t, "Extend", err, redlock.ErrLost)
		wantText(t, "Extend", fmt.Sprint(err), "extend orders/1: lost: 2 of 3 nodes no longer have it: node-")
		if text := fmt.Sprint(err); strings.Count(text, "node-") != 2 || strings.Contains(text, "no longer there") {
			t.Errorf("Extend: got %q; want those who have it no more, once", text)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		nodes.Node(0).Hang()
		nodes.Node(1).Stop()
		nodes.Node(2).Stop()
		var text string
		eventually(t, time.Minute, func() bool { // its earlier commands have to end first
			_, err := l.TryAcquire(t.Context(), "orders/2")
			wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
			text = fmt.Sprint(err)
			return strings.HasSuffix(text, "; node-0 was not waited for")
		})
		wantText(t, "TryAcquire", text, "acquire orders/2: no quorum: 2 of 3 nodes failed: node-1")
		if strings.Contains(text, "pending") {
			t.Errorf("TryAcquire: got %q; want no word of the rules", text)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 4)
		mustAcquire(t, lockerOver(t, nodes), "orders/3")
		_, err := l.TryAcquire(t.Context(), "orders/3")
		wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
		wantText(t, "TryAcquire", fmt.Sprint(err), "acquire orders/3: not acquired: ", " of 4 nodes refused: node-", ": held by another, whose lease has ", "; it takes 3")
	})
}

// A member is well, though too few others are.
func TestAMemberThatWaitsForOthersIsCalledWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := newLocker(t, 5)
		for _, n := range nodes.Nodes()[1:] {
			n.Stop()
		}
		l := lockerOver(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.Cluster().Join(ctx)
		wantError(t, "Join", err, redlock.ErrNoQuorum)
		wantText(t, "Join", fmt.Sprint(err), "node-0 is without a vote: well; waits for 2 of the others")
		nodes.Node(1).Start()
		eventually(t, time.Minute, func() bool {
			s, err := l.Cluster().Status(t.Context())
			return err == nil && s.Nodes[0].Cause == "well; waits for one of the others"
		})
	})
}

func TestTheEndOfAWaitIsToldInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		mustAcquire(t, lockerOver(t, nodes), "orders/42")
		const wait = 300 * time.Millisecond
		for what, acquire := range map[string]func() error{
			"Acquire": func() error { _, err := l.Acquire(t.Context(), "orders/42", redlock.WithWait(wait)); return err },
			"AcquireAll": func() error {
				_, err := l.AcquireAll(t.Context(), []string{"orders/42", "b"}, redlock.WithWait(wait))
				return err
			},
		} {
			err := acquire()
			wantError(t, what, err, context.DeadlineExceeded)
			wantError(t, what, err, redlock.ErrNotAcquired)
			text := fmt.Sprint(err)
			wantText(t, what, text, "not within 300ms: ", "not acquired: ", "held by another, ")
			if strings.Contains(text, "deadline") || strings.Contains(text, "\n") || strings.Count(text, "acquire orders/42") != 1 {
				t.Errorf("%s: got %q; want one line without a deadline that nobody set, and its subject once", what, text)
			}
		}
	})
}

// A name that is free on one node has an attempt follow the other, and the wait end within one.
func TestAWaitThatEndsWithinAnAttemptNamesItsSubjectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for _, n := range nodes.Nodes()[1:] {
			testkit.Must(t, n.Miniredis().Set("orders/42", "another's"))
		}
		for wait := 300 * time.Millisecond; wait < 330*time.Millisecond; wait += time.Millisecond {
			_, err := l.Acquire(t.Context(), "orders/42", redlock.WithWait(wait))
			wantError(t, "Acquire", err, redlock.ErrNotAcquired)
			if text := fmt.Sprint(err); strings.Count(text, "acquire orders/42") != 1 {
				t.Errorf("after %v: got %q; want its subject once", wait, text)
			}
		}
	})
}

// A Sentinel answers, and will never have a script.
func TestAServerWithoutScriptsIsMisconfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if args[0] == "EVALSHA" || args[0] == "SCRIPT" || args[0] == "EVAL" {
					return redlocktest.ReplyError("ERR unknown command '" + args[0] + "', with args beginning with: 'load' '-- a script' ")
				}
				return redlocktest.Pass()
			})
		}
		l := lockerOver(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "orders/42") // at once
		wantError(t, "Acquire", err, redlock.ErrMisconfigured)
		wantText(t, "Acquire", fmt.Sprint(err), "a Sentinel, which keeps no keys: give its master")
		if text := fmt.Sprint(err); strings.Contains(text, "-- a script") {
			t.Errorf("got %q; want it without the script", text)
		}
	})
}

func TestJoinAndAdmitNameNodesThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for _, n := range nodes.Nodes() {
			n.Stop()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for what, err := range map[string]error{"Join": l.Cluster().Join(ctx), "Admit": l.Cluster().Admit(t.Context())} {
			wantError(t, what, err, redlock.ErrNoQuorum)
			wantText(t, what, fmt.Sprint(err), "node-0 is unreachable: ", "node-2 is unreachable: ")
		}
	})
}

// What is no fault has no key of that name.
func TestTheLogCallsNothingAnErrorThatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes, redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		must(t, l.Cluster().Admit(t.Context()))
		must(t, l.Close())
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "level=INFO") && strings.Contains(line, "error=") || strings.Contains(line, "beyond the table") {
				t.Errorf("got %q; want no error in it, in plain words", line)
			}
		}
		wantText(t, "the log", log.String(), "cluster founded", "detail=\"as cluster ", "lean on the clock")
	})
}

// A message says once whose it is, at its beginning, however many of the package's
// errors it is made of: those that tell a caller from one another have the name
// too, for where they stand alone.
func TestNoMessageSaysThePackagesNameTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := badArguments(t)
		for _, more := range []map[string]error{contention(t), endings(t), refusals(t), closings(t), outsiders(t)} {
			maps.Copy(all, more)
		}
		for _, what := range []string{"refused", "refused from the start", "a check refused"} {
			wantText(t, what, fmt.Sprint(all[what]), "(give the user and the password that the server expects: WithCredentials, or the URL's; if it restarted since")
		}
		for what, err := range all {
			if err == nil {
				t.Errorf("%s: got no error; want one", what)
				continue
			}
			text := err.Error()
			if !strings.HasPrefix(text, "redlock: ") || strings.Count(text, "redlock:") != 1 {
				t.Errorf("%s: got %q; want the package's name once, at the beginning", what, text)
			}
		}
	})
}

// failure is the error of an acquisition that must fail.
func failure(_ *redlock.Lock, err error) error { return err }

func badArguments(t *testing.T) map[string]error {
	t.Helper()
	l, _ := newLocker(t, 3)
	lock := mustAcquire(t, l, "orders/1")
	_, errNew := redlock.New(nil, redlock.WithTTL(-1), redlock.WithDriftFactor(-1), nil)
	_, errOpen := redlock.Open(t.Context(), []string{"http://a", ""}, redlock.WithTTL(-1))
	_, errNames := redlock.New(make([]redis.UniversalClient, 2), redlock.WithNodeNames("a", "a"))
	_, errInspect := l.Inspect(t.Context(), "")
	return map[string]error{
		"many faults of New": errNew, "many faults of Open": errOpen, "names": errNames,
		"a name that is none": failure(l.Acquire(t.Context(), "")),
		"a TTL":               failure(l.TryAcquire(t.Context(), "orders/2", redlock.WithTTL(-1))),
		"a nil option":        failure(l.Acquire(t.Context(), "orders/2", nil)),
		"Do without fn":       l.Do(t.Context(), "orders/2", nil),
		"an inspected name":   errInspect,
		"an extension":        lock.Extend(t.Context(), -1),
		"a short extension":   lock.Extend(t.Context(), time.Second),
		"no such node":        l.Cluster().Change(t.Context(), redlock.Wanted{Remove: []string{"node-9"}}, redlock.ChangeOptions{}),
	}
}

// contention is what an acquisition brings that somebody, or nobody, is in the way of.
func contention(t *testing.T) map[string]error {
	t.Helper()
	l, nodes := newLocker(t, 3)
	other := lockerOver(t, nodes)
	lock := mustAcquire(t, l, "orders/1")
	soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	waited := failure(other.Acquire(soon, "orders/1"))
	mustRelease(t, lock)
	inside := mustAcquire(t, l, "orders/2").Context() // whose cause is ErrLost, soon
	nodes.Node(0).Stop()
	nodes.Node(1).Stop()
	unanswered := failure(l.TryAcquire(t.Context(), "orders/3"))
	time.Sleep(redlock.DefaultTTL)
	return map[string]error{
		"waiting for another Locker":     waited,
		"waiting in the same Locker":     failure(l.Acquire(soon, "orders/2")),
		"no quorum":                      unanswered,
		"no quorum until the ctx ends":   failure(l.Acquire(quick(t), "orders/3")),
		"a context that ended by a loss": failure(l.Acquire(inside, "orders/2")),
		"the same, trying":               failure(l.TryAcquire(inside, "orders/2")),
		"the loss":                       context.Cause(inside),
	}
}

// quick is a context that ends after a second.
func quick(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// endings are the ways of a lock's end, and what comes after.
func endings(t *testing.T) map[string]error {
	t.Helper()
	all := map[string]error{}
	l, nodes := newLocker(t, 3)
	note := func(what string, lock *redlock.Lock) {
		all[what] = lock.Err()
		all[what+", extended"] = lock.Extend(t.Context(), redlock.DefaultTTL)
		all[what+", released"] = lock.Release(t.Context())
	}
	lock := mustAcquire(t, l, "orders/1")
	mustRelease(t, lock)
	note("released", lock)
	lock = mustAcquire(t, l, "orders/1", redlock.WithMaxHold(time.Second))
	time.Sleep(2 * time.Second)
	note("held for its maximum", lock)
	lock = mustAcquire(t, l, "orders/1", redlock.WithReentry())
	inner := mustAcquire(t, l, "orders/2")
	all["Do, and it was lost"] = l.Do(t.Context(), "orders/3", func(context.Context, *redlock.Lock) error {
		nodes.Node(0).FlushAll()
		nodes.Node(1).FlushAll()
		all["extended, and the nodes have lost it"] = inner.Extend(t.Context(), redlock.DefaultTTL)
		time.Sleep(redlock.DefaultTTL)
		return nil
	})
	note("lost", lock)
	all["entered after the loss"] = failure(l.Acquire(context.WithoutCancel(lock.Context()), "orders/1", redlock.WithReentry()))
	return all
}

// refusals are nodes that answer, and refuse for good.
func refusals(t *testing.T) map[string]error {
	t.Helper()
	l, nodes := newLocker(t, 3)
	warm(t, l)
	lock := mustAcquire(t, l, "orders/1")
	for _, n := range nodes.Nodes() {
		n.Intercept(func([]string) redlocktest.Verdict { return redlocktest.ReplyError("NOAUTH Authentication required.") })
	}
	_, errInspect := l.Inspect(t.Context(), "orders/1")
	_, errCheck := l.Cluster().Check(t.Context())
	fresh := lockerOver(t, nodes)
	return map[string]error{
		"refused":                failure(l.Acquire(t.Context(), "orders/2")),
		"refused from the start": failure(fresh.Acquire(t.Context(), "orders/2")),
		"refused, again":         failure(fresh.TryAcquire(t.Context(), "orders/2")),
		"an extension refused":   lock.Extend(t.Context(), redlock.DefaultTTL),
		"a release refused":      lock.Release(t.Context()),
		"an inspection refused":  errInspect,
		"a check refused":        errCheck,
		"Join refused":           fresh.Cluster().Join(quick(t)),
		"Admit refused":          fresh.Cluster().Admit(t.Context()),
		"Change refused":         fresh.Cluster().Change(t.Context(), redlock.Wanted{Remove: []string{"node-1"}}, redlock.ChangeOptions{}),
	}
}

// closings are a Locker's end, and what comes after.
func closings(t *testing.T) map[string]error {
	t.Helper()
	l, nodes := newLocker(t, 3)
	held := mustAcquire(t, l, "orders/1")
	waiting := make(chan error, 1)
	go func() { waiting <- failure(l.Acquire(context.Background(), "orders/1")) }()
	other := lockerOver(t, nodes)
	farther := make(chan error, 1)
	go func() { farther <- failure(other.Acquire(context.Background(), "orders/1")) }()
	time.Sleep(2 * time.Second) // it stands in line
	must(t, other.Close())
	for _, n := range nodes.Nodes() {
		n.Hang()
	}
	errClose := l.Close()
	_, errInspect := l.Inspect(t.Context(), "orders/1")
	_, errStatus := l.Cluster().Status(t.Context())
	_, errCheck := l.Cluster().Check(t.Context())
	return map[string]error{
		"Close": errClose, "Inspect, closed": errInspect, "Status, closed": errStatus, "Check, closed": errCheck,
		"closed, the lock":          held.Err(),
		"closed, the lock extended": held.Extend(t.Context(), redlock.DefaultTTL),
		"closed while waiting":      <-waiting, "closed while waiting in line": <-farther,
		"Acquire, closed": failure(l.Acquire(t.Context(), "orders/2")),
		"Join, closed":    l.Cluster().Join(t.Context()),
	}
}

// outsiders are what the Cluster handle can't do.
func outsiders(t *testing.T) map[string]error {
	t.Helper()
	nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
	l := lockerOver(t, nodes, redlock.WithStrictRecovery())
	all := map[string]error{
		"joining a new cluster":  l.Cluster().Join(quick(t)),
		"acquiring in a new one": failure(l.TryAcquire(t.Context(), "orders/1")),
		"shrinking a new one":    l.Cluster().Change(t.Context(), redlock.Wanted{Remove: []string{"node-0"}}, redlock.ChangeOptions{}),
	}
	must(t, l.Cluster().Admit(t.Context()))
	foundedAs(nodes, 2, "another")
	nodes.Node(2).Miniredis().HSet(lua.NodeKey, "names", "x\ny\nz")
	all["joining, one foreign"] = l.Cluster().Join(quick(t))
	all["admitting, one foreign"] = l.Cluster().Admit(t.Context())
	nodes.Node(1).Stop()
	all["admitting, one down"] = l.Cluster().Admit(t.Context())
	all["shrinking, too few left"] = l.Cluster().Change(t.Context(), redlock.Wanted{Remove: []string{"node-2"}}, redlock.ChangeOptions{})
	_, all["Status without membership"] = lockerOver(t, nodes, redlock.WithoutMembership()).Cluster().Status(t.Context())
	return all
}

var errAway = errors.New("connection refused")

// address is where a client's connections lead.
type address struct {
	mu    sync.Mutex // guards the fields below
	to    *redlocktest.Node
	conns []net.Conn
}

func (a *address) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.to == nil {
		return nil, errAway
	}
	c, err := a.to.Dial(ctx)
	a.conns = append(a.conns, c)
	return c, err
}

// lead makes the address lead to a node, or to none, and breaks all connections.
func (a *address) lead(to *redlocktest.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = to
	for _, c := range a.conns {
		_ = c.Close()
	}
	a.conns = nil
}

// With New, no connection asks for the run_id. An address leads to another node of the
// list while that one's own entry is down; back, that entry is the node that was
// verified, with its epoch. It must ask who else is: one server would vote twice.
func TestANodeThatComesBackVotesOnceThoughAnotherEntryLeadsToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		addresses := make([]*address, 3)
		var clients []redis.UniversalClient
		for i, n := range nodes.Nodes() {
			addresses[i] = &address{to: n}
			o := n.Options()
			o.Dialer = addresses[i].dial
			c := redis.NewClient(o)
			t.Cleanup(func() { _ = c.Close() })
			clients = append(clients, c)
		}
		l := lockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		warm(t, l)
		shared := nodes.Node(1)
		addresses[1].lead(nil)
		addresses[0].lead(shared)
		pollUntil(t, 5*time.Minute, "the first entry's server votes for it", func() bool {
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil {
				mustRelease(t, lock)
			}
			time.Sleep(100 * time.Millisecond)
			return err == nil
		})
		addresses[1].lead(shared)
		nodes.Node(2).Stop()
		for range 100 {
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil {
				t.Fatalf("got token %d by one server of three; want no quorum", lock.Token())
			}
			wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
			time.Sleep(50 * time.Millisecond)
		}
		nodes.Node(2).Start()
	})
}

// Two nodes fail over in place, to data without the holder's key, within 25 ms of the
// contender's last look. What they grant it then counts until it learns of that (SAFETY,
// Limits), and no longer: not for as long as its lease.
func TestWhatANodeGrantedBeforeItWasSeenToHaveForgottenDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		contender := separateLocker(t, nodes)
		warm(t, l)
		warm(t, contender)
		time.Sleep(time.Second)
		held := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		warm(t, contender) // it looks
		synctest.Wait()
		for i := range 2 {
			nodes.Node(i).Miniredis().Del("orders/42")
		}
		second := mustAcquire(t, contender, "orders/42", redlock.WithFixedLease())
		must(t, held.Err())
		must(t, second.Err())
		for i := range 2 { // a replica once more
			nodes.Node(i).Intercept(onScripts("acquire", redlocktest.ReplyError("READONLY You can't write against a read only replica.")))
		}
		_, err := contender.TryAcquire(t.Context(), "orders/1")
		wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		must(t, held.Err())
		wantLost(t, second)
	})
}
