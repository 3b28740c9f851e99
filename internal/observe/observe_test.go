package observe_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/chance"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/election"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/observe"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// deaf is told that a node was taken in, and does nothing.
type deaf struct{ node.Observer }

func (deaf) Founded(int, error) {}

// watcher is a Watcher, and what runs for it.
type watcher struct {
	*observe.Watcher

	running *sync.WaitGroup
}

// watch is a Watcher of a client of its own, which does nothing else, until the test ends.
func watch(t *testing.T, of *redlocktest.Cluster) watcher {
	t.Helper()
	now, names := clock.New(), of.Names()
	seen := membership.NewTracker(membership.NewConfig(names, redlock.DefaultMaxTTL, false), "observer", now)
	siblings := node.NewSiblings(names, redlock.DefaultDriftFactor, round.NewHints(now))
	own := node.Config{Timeout: redlock.DefaultNodeTimeout, Drift: redlock.DefaultDriftFactor, Chance: chance.Of(nil)}
	var nodes []*node.Node
	for i, c := range of.NewClients() {
		nodes = append(nodes, node.New(i, names[i], c, own, now, siblings, seen, deaf{}))
		seen.Attach(nodes[i])
	}
	var running sync.WaitGroup
	closing := make(chan struct{})
	go seen.Run()
	t.Cleanup(func() { close(closing); seen.Close(); running.Wait() })
	return watcher{observe.New(observe.Config{Nodes: nodes, Clock: now, Go: running.Go, Closing: closing}), &running}
}

// wantTold checks what an observer is told next, within so long: the state, and of a lead
// the value.
func wantTold(t *testing.T, o *observe.Observer, within time.Duration, state election.State, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	s, _, err := o.Next(ctx)
	if got, _ := lua.ValueOf(s.Owner); err != nil || s.State != state || got != value {
		t.Errorf("got %+v, %v; want the state %v and the value %q", s, err, state, value)
	}
}

// isQuiet checks that an observer is told nothing more.
func isQuiet(t *testing.T, o *observe.Observer, during time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	if s, _, err := o.Next(ctx); err == nil {
		t.Errorf("got %+v; want nothing", s)
	}
}

// locker is a Locker over the nodes.
func locker(t *testing.T, nodes *redlocktest.Cluster) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// leads acquires jobs, with the value a.
func leads(t *testing.T, l *redlock.Locker, opts ...redlock.AcquireOption) *redlock.Lock {
	t.Helper()
	lock, err := l.Acquire(t.Context(), "jobs", append(opts, redlock.WithValue("a"))...)
	testkit.Must(t, err)
	return lock
}

// Each kind of data is what it is, on a quorum, though all names are read in few calls.
func TestEachKindOfDataIsReadAsWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := locker(t, nodes)
		testkit.Must(t, leads(t, l).Release(t.Context()))
		leads(t, l)
		for _, n := range nodes.Nodes()[:2] {
			m := n.Miniredis()
			_, list := m.Lpush("list", "theirs")
			_, set := m.ZAdd("set", 1, "theirs")
			_, shared := m.ZAdd("shared", -7, lua.SharedMark)
			testkit.Must(t, m.Set("string", "theirs"), list, set, shared)
		}
		w := watch(t, nodes)
		for _, c := range []struct {
			name, value string
			state       election.State
		}{
			{"jobs", "a", election.Led},
			{"nothing", "", election.Vacant},
			{"shared", "", election.Vacant},
			{"string", "", election.Taken},
			{"list", "", election.Taken},
			{"set", "", election.Taken},
		} {
			o := w.Join(c.name)
			defer o.Leave()
			wantTold(t, o, time.Second, c.state, c.value)
		}
	})
}

// A hint brings one look at each node, even a forged one. A hint of another name brings no look.
func TestAHintBringsALookAtEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		o := watch(t, nodes).Join("jobs")
		defer o.Leave()
		wantTold(t, o, time.Second, election.Vacant, "")
		time.Sleep(100 * time.Millisecond) // it listens, and the next look of all is far
		for channel, want := range map[string]int{lua.LeaderChannel + "jobs": 1, lua.LeaderChannel + "reports": 0} {
			before := nodes.Node(2).Calls("MGET")
			for range 5 { // within the time that a look waits for more
				nodes.Node(0).Miniredis().Publish(channel, "no hold")
				time.Sleep(300 * time.Microsecond)
			}
			time.Sleep(100 * time.Millisecond)
			if got := nodes.Node(2).Calls("MGET") - before; got != want {
				t.Errorf("%s: got %d looks at another node; want %d", channel, got, want)
			}
		}
	})
}

// Each node is asked once in LookEvery, and nothing runs once nobody observes any more.
func TestWhatLooksEndsWithTheLastObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		w := watch(t, nodes)
		first, second := w.Join("jobs"), w.Join("jobs")
		first.Leave()
		wantTold(t, second, time.Second, election.Vacant, "")
		before := nodes.Node(0).Calls("MGET")
		time.Sleep(10 * election.LookEvery)
		if got := nodes.Node(0).Calls("MGET") - before; got < 10 || got > 11 {
			t.Errorf("got %d looks in ten times LookEvery; want one in each", got)
		}
		second.Leave()
		var ended atomic.Bool
		go func() { w.running.Wait(); ended.Store(true) }()
		time.Sleep(election.LookEvery)
		if !ended.Load() {
			t.Error("something runs that nobody needs")
		}
	})
}

// A node that forgot shows nothing of a hold that stands: that is no sign that nobody
// leads, also to an observer whose Locker does nothing else and has not noticed yet.
func TestANodeThatForgotDoesNotSayThatNobodyLeads(t *testing.T) {
	testkit.Unraced(t)
	forget := map[string]func(*redlocktest.Node){
		"emptied":          (*redlocktest.Node).FlushAll,
		"restarted, empty": (*redlocktest.Node).Restart,
		"restarted, with old data": func(n *redlocktest.Node) {
			n.RestartKeepingData()
			n.Miniredis().Del("jobs")
		},
	}
	for how, forgets := range forget {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				l := locker(t, nodes)
				testkit.Must(t, leads(t, l).Release(t.Context()))
				o := watch(t, nodes).Join("jobs")
				defer o.Leave()
				wantTold(t, o, time.Second, election.Vacant, "")
				lock := leads(t, l, redlock.WithFixedLease(), redlock.WithTTL(20*time.Second))
				wantTold(t, o, 1100*time.Millisecond, election.Led, "a")
				time.Sleep(1300 * time.Millisecond)
				forgets(nodes.Node(1))
				forgets(nodes.Node(2))
				synctest.Wait()
				wantTold(t, o, 4*time.Second, election.Unknown, "")
				testkit.Must(t, lock.Err())
				isQuiet(t, o, 5*time.Second) // it is blank, and waits
				<-lock.Done()
				wantTold(t, o, time.Minute, election.Vacant, "") // once they vote again
			})
		})
	}
}

// A node that forgot and was taken in anew votes: its looks count, though the observer's
// Locker knew it under another epoch.
func TestObserversLearnThatANodeWasTakenInAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := locker(t, nodes)
		testkit.Must(t, leads(t, l).Release(t.Context()))
		o := watch(t, nodes).Join("jobs")
		defer o.Leave()
		wantTold(t, o, time.Second, election.Vacant, "")
		for i := range 3 { // one after another: there is a quorum at every time
			nodes.Node(i).FlushAll()
			synctest.Wait()
			isQuiet(t, o, 3*time.Minute)
		}
		lock := leads(t, l)
		wantTold(t, o, 1100*time.Millisecond, election.Led, "a")
		testkit.Must(t, lock.Release(t.Context()))
	})
}
