package redlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// inMemory is what Check always says of nodes that keep nothing on disk and know
// neither CONFIG nor ACL.
func inMemory(nodes ...int) []found {
	var out []found
	for _, i := range nodes {
		out = append(out, found{faultWarning, redlock.FindingPersistence, i},
			found{faultUnknown, redlock.FindingACL, i}, found{faultUnknown, redlock.FindingEviction, i})
	}
	return out
}

func TestCheckSaysWhatItCouldNotSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3)
		r, err := l.Cluster().Check(t.Context())
		if err != nil {
			t.Fatalf("Check: %v", err)
		}
		wantFound(t, r, faultUnknown, inMemory(0, 1, 2)...)
	})
}

func TestCheckRefusesAServerThatHidesItsRunID(t *testing.T) {
	plain := redis.NewClient(&redis.Options{
		Addr: miniredis.RunT(t).Addr(), MaxRetries: -1, DialTimeout: time.Second, DialerRetries: 1, DisableIdentity: true,
	})
	t.Cleanup(func() { _ = plain.Close() })
	r := check(t, []redis.UniversalClient{plain})
	if got := foundAtLeast(r, faultError); !slices.Equal(got, []string{"error run-id at 0"}) {
		t.Errorf("got %q; want run-id", got)
	}
}

func TestCheckLeavesMembershipAloneWhereItIsSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithoutMembership())
		if err := nodes.Client(0).HSet(t.Context(), "redlock:node", "format", "9").Err(); err != nil {
			t.Fatal(err)
		}
		r, err := l.Cluster().Check(t.Context())
		if err != nil {
			t.Fatalf("Check: %v", err)
		}
		wantFound(t, r, redlock.SeverityInfo, inMemory(0, 1, 2)...)
	})
}

func TestCheckLeavesNothingAndSendsNothingTwice(t *testing.T) {
	lost := []string{"", "INFO", "HMGET", "EVALSHA", "ACL", "CONFIG", "TIME"}
	for _, lose := range lost {
		t.Run("without a reply to "+lose, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { oneCheckWithout(t, lose) })
		})
	}
}

// oneCheckWithout loses every reply to one command, runs Check with a client that
// would resend, and counts.
func oneCheckWithout(t *testing.T, lose string) {
	t.Helper()
	nodes := redlocktest.Start(t, 1)
	before := nodes.Node(0).Miniredis().Dump()
	key, field := "", false // of the lock that is taken
	var mu sync.Mutex       // guards counts
	counts := map[string]int{}
	nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
		mu.Lock()
		defer mu.Unlock()
		counts[args[0]]++
		switch {
		case scriptOf(args) == "acquire" && strings.HasPrefix(args[3], "redlock:probe:") && args[9] == "probe":
			key, field = args[3], true
		case scriptOf(args) == "extend" && args[4] == key, scriptOf(args) == "release" && strings.HasPrefix(args[3], "redlock:probe:"):
		case scriptOf(args) != "":
			t.Errorf("not a probe of a name that is nobody's: %q", args)
		case args[0] == "ACL" && args[1] != "WHOAMI" && args[1] != "DRYRUN", args[0] == "CONFIG" && args[1] != "GET":
			t.Errorf("not a question: %q", args)
		case args[0] == lose:
			return redlocktest.LoseReply()
		}
		return redlocktest.Pass()
	})
	o := nodes.Node(0).Options()
	o.MaxRetries = 3
	c := redis.NewClient(o)
	defer c.Close()
	l, err := redlock.New([]redis.UniversalClient{c})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, _ = l.Cluster().Check(t.Context()) // the only node may tell nothing
	mu.Lock()
	defer mu.Unlock()
	most := map[string]int{
		"INFO": 1, "HMGET": 1, "EVALSHA": 5, "ACL": 2, "CONFIG": 8, "TIME": 24, "SCRIPT": 15, "HDEL": 1,
		"ZADD": 1, "ZRANGE": 1, "ZREM": 1, "DEL": 1, "PEXPIRE": 1, "PUBLISH": 1,
	}
	if lose == "TIME" {
		most["TIME"] = 2 // two pings, each sent once
	}
	for command, n := range counts {
		if bound, known := most[command]; n > bound && command != "HELLO" || !known && command != "HELLO" {
			t.Errorf("%s was sent %d times; want at most %d", command, n, bound)
		}
	}
	if counts["INFO"] == 0 {
		t.Errorf("nothing was asked: %v", counts)
	}
	if !field && lose == "" {
		t.Error("no lock was taken; want the node proved")
	}
	time.Sleep(2 * time.Second) // the lease of a probe whose release was lost
	if after := nodes.Node(0).Miniredis().Dump(); after != before {
		t.Errorf("Check changed the node from\n%s\nto\n%s", before, after)
	}
}

func TestCheckWaitsForNoHungNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		nodes.Node(1).Hang()
		begin := time.Now()
		r, err := l.Cluster().Check(t.Context())
		if err != nil {
			t.Fatalf("Check: %v", err)
		}
		wantFound(t, r, faultUnknown, append(inMemory(0, 2), found{faultError, redlock.FindingUnreachable, 1})...)
		if took := time.Since(begin); took > 4*redlock.DefaultNodeTimeout {
			t.Errorf("Check took %v; want at most four node timeouts", took)
		}
		if r.Answered != 2 {
			t.Errorf("got %d nodes that answered; want 2", r.Answered)
		}
		nodes.Node(1).Resume()
	})
}

// A node that is slow while it is proved, and so lets the probe's lock lapse, refuses nothing;
// one that loses it at once does.
func TestCheckBlamesNoNodeForTheLapseOfItsProbe(t *testing.T) {
	for pause, want := range map[time.Duration][]found{
		1500 * time.Millisecond: nil,
		time.Millisecond:        {{faultError, redlock.FindingRefuses, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3, redlock.WithNodeTimeout(patient))
			n, proved := nodes.Node(1), 0
			n.Intercept(func(args []string) redlocktest.Verdict {
				if key := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, lua.ProbeKey) }); args[0] == "EVALSHA" && key > 0 {
					if proved++; proved == 2 { // after the grant, before the renewal
						time.Sleep(pause)
						n.Miniredis().Del(args[key])
					}
				}
				return redlocktest.Pass()
			})
			r, err := l.Cluster().Check(t.Context())
			if err != nil {
				t.Fatalf("Check: %v", err)
			}
			wantFound(t, r, faultError, want...)
			if proved < 2 {
				t.Errorf("got %d of the probe's commands; want it proved with a lock", proved)
			}
		})
	}
}

func TestCheckCountsLostReplies(t *testing.T) {
	for lost, want := range map[int]redlock.Severity{1: faultWarning, 100: faultError} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			var mu sync.Mutex // guards times
			times := 0
			nodes.Node(2).Intercept(func(args []string) redlocktest.Verdict {
				mu.Lock()
				defer mu.Unlock()
				if args[0] == "TIME" {
					if times++; times > 1 && times <= 1+lost {
						return redlocktest.LoseReply()
					}
				}
				return redlocktest.Pass()
			})
			r, err := l.Cluster().Check(t.Context())
			if err != nil {
				t.Fatalf("Check: %v", err)
			}
			wantFound(t, r, faultUnknown, append(inMemory(0, 1, 2), found{want, redlock.FindingRoundTrip, 2})...)
		})
	}
}

func TestCheckNamesTwoEntriesThatAreOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		clients := nodes.NewClients()
		clients[2] = nodes.NewClients()[0]
		l, err := redlock.New(clients, redlock.WithNodeNames("a", "b", "c"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for range 2 { // the order is the same every time
			r, err := l.Cluster().Check(t.Context())
			if err != nil {
				t.Fatalf("Check: %v", err)
			}
			if f := r.Findings[0]; f.Code != redlock.FindingSameServer || f.Node != 2 || f.Name != "c" || !strings.Contains(f.What, "node 0 (a)") {
				t.Errorf("the first finding is %v; want node 2 (c) as node 0 (a)", f)
			}
			if r.Worst() != faultError {
				t.Errorf("the worst is %v; want error", r.Worst())
			}
		}
	})
}

func TestCheckFailsWhenNothingCanBeLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := l.Cluster().Check(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("when ctx ends: got %v; want its error", err)
		}
		if _, err := l.Cluster().Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a ctx that is done: got %v; want its error", err)
		}
		if took := time.Since(begin); took > 10*time.Millisecond {
			t.Errorf("Check returned %v after its ctx had ended", took-10*time.Millisecond)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
			n.Stop()
		}
		r, err := l.Cluster().Check(t.Context())
		var none *redlock.QuorumError
		if !errors.Is(err, redlock.ErrNoQuorum) || !errors.As(err, &none) || len(none.Nodes) != 3 {
			t.Errorf("when no node answers: got %v; want *QuorumError with ErrNoQuorum", err)
		}
		wantFound(t, r, faultUnknown, found{faultError, redlock.FindingUnreachable, 0},
			found{faultError, redlock.FindingUnreachable, 1}, found{faultError, redlock.FindingUnreachable, 2})
		if err := l.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
		if _, err := l.Cluster().Check(t.Context()); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("after Close: got %v; want ErrClosed", err)
		}
	})
}

func TestOpensOwnClientsHaveNoFault(t *testing.T) {
	nodes := redlocktest.Start(t, 3, redlocktest.WithTCP())
	l, err := redlock.Open(t.Context(), nodes.URLs(), redlock.WithNodeTimeout(2*time.Second), redlock.WithTTL(8*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := l.Cluster().Check(t.Context())
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	for _, f := range r.Findings {
		if strings.HasPrefix(string(f.Code), "client") {
			t.Errorf("got %v; want nothing about a client", f)
		}
	}
}
