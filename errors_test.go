package redlock_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// A message says once whose it is, at its beginning, however many of the package's
// errors it is made of: those that tell a caller from one another have the name
// too, for where they stand alone.
func TestNoMessageSaysThePackagesNameTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := badArguments(t)
		for _, more := range []map[string]error{contention(t), endings(t), refusals(t), closings(t), outsiders(t)} {
			maps.Copy(all, more)
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
		"no such node":        l.Cluster().Retire(t.Context(), 9),
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
		"Retire refused":         fresh.Cluster().Retire(t.Context(), 1),
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
		"retiring in a new one":  l.Cluster().Retire(t.Context(), 0),
	}
	must(t, l.Cluster().Admit(t.Context()))
	foundedAs(nodes, 2, "another")
	nodes.Node(2).Miniredis().HSet(lua.NodeKey, "names", "x\ny\nz")
	all["joining, one foreign"] = l.Cluster().Join(quick(t))
	all["admitting, one foreign"] = l.Cluster().Admit(t.Context())
	nodes.Node(1).Stop()
	all["admitting, one down"] = l.Cluster().Admit(t.Context())
	all["retiring, too few left"] = l.Cluster().Retire(t.Context(), 2)
	_, all["Status without membership"] = lockerOver(t, nodes, redlock.WithoutMembership()).Cluster().Status(t.Context())
	return all
}
