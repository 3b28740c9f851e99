package doctor_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/chance"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/doctor"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/quietredis"
	"github.com/quorumkit/redlock/redlocktest"
)

var _ = quietredis.On()

// patient is a node timeout that a busy machine keeps.
const patient = 3 * time.Second

// deaf is told that nodes write or don't, and does nothing.
type deaf struct{ node.Observer }

func (deaf) RefusesWrites(int, error)       {}
func (deaf) TakesWrites(int, time.Duration) {}

// examine examines the nodes of these clients, as those of a Locker that has just begun and
// has the default options but for change.
func examine(t *testing.T, names []string, clients []redis.UniversalClient, change ...func(*doctor.Config)) doctor.Report {
	t.Helper()
	c := doctor.Config{TTL: redlock.DefaultTTL, MaxTTL: redlock.DefaultMaxTTL, NodeTimeout: patient, Drift: redlock.DefaultDriftFactor}
	for _, f := range change {
		f(&c)
	}
	now := clock.New()
	seen := membership.NewTracker(membership.NewConfig(names, c.MaxTTL, c.StrictRecovery), "", now)
	siblings := node.NewSiblings(names, c.Drift, round.NewHints(now))
	var nodes []*node.Node
	for i, client := range clients {
		own := node.Config{Timeout: c.NodeTimeout, Drift: c.Drift, Unprotected: c.Unprotected, Chance: chance.Of(nil)}
		nodes = append(nodes, node.New(i, names[i], client, own, now, siblings, seen, deaf{}))
	}
	r, err := doctor.Examine(t.Context(), nodes, c)
	testkit.Must(t, err)
	return r
}

// within is another node timeout.
func within(d time.Duration) func(*doctor.Config) {
	return func(c *doctor.Config) { c.NodeTimeout = d }
}

// examined are n nodes in memory, examined after a change.
func examined(t *testing.T, n int, change func(*redlocktest.Cluster), more ...func(*doctor.Config)) doctor.Report {
	t.Helper()
	nodes := redlocktest.Start(t, n)
	change(nodes)
	return examine(t, nodes.Names(), nodes.Clients(), more...)
}

// inMemory is what is always found of three nodes that keep nothing on disk and know neither
// CONFIG nor ACL.
const inMemory = "warning persistence 0; unknown acl 0; unknown eviction 0; warning persistence 1; unknown acl 1; unknown eviction 1; " +
	"warning persistence 2; unknown acl 2; unknown eviction 2"

func TestCheckSaysWhatItCouldNotSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		doctor.WantFound(t, examined(t, 3, func(*redlocktest.Cluster) {}), doctor.SeverityUnknown, inMemory)
	})
}

func TestCheckRefusesAServerThatHidesItsRunID(t *testing.T) {
	plain := redis.NewClient(&redis.Options{
		Addr: miniredis.RunT(t).Addr(), MaxRetries: -1, DialTimeout: time.Second, DialerRetries: 1, DisableIdentity: true,
	})
	t.Cleanup(func() { _ = plain.Close() })
	doctor.WantFound(t, examine(t, []string{"a"}, []redis.UniversalClient{plain}), doctor.SeverityError, "error run-id 0")
}

func TestCheckLeavesNothingAndSendsNothingTwice(t *testing.T) {
	lost := []string{"", "INFO", "HMGET", "EVALSHA", "ACL", "CONFIG", "TIME"}
	for _, lose := range lost {
		t.Run("without a reply to "+lose, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { oneCheckWithout(t, lose) })
		})
	}
}

// scriptOf names the script that an intercepted command runs; empty if none.
func scriptOf(args []string) string {
	for _, s := range slices.Concat(lua.VotingScripts, lua.KeepingScripts) {
		if len(args) > 1 && args[0] == "EVALSHA" && s.Hash == args[1] {
			return s.Name
		}
	}
	return ""
}

// oneCheckWithout loses every reply to one command, examines a node with a client that
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
		case scriptOf(args) == "acquire" && strings.HasPrefix(args[3], "redlock:probe:") && args[8] == "probe":
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
	_ = examine(t, nodes.Names(), []redis.UniversalClient{c}, within(redlock.DefaultNodeTimeout)) // the only node may tell nothing
	mu.Lock()
	defer mu.Unlock()
	most := map[string]int{
		"INFO": 1, "HMGET": 2, "EVALSHA": 5, "ACL": 2, "CONFIG": 9, "TIME": 24, "SCRIPT": 15, "HDEL": 1,
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
		t.Errorf("the node was changed from\n%s\nto\n%s", before, after)
	}
}

func TestCheckWaitsForNoHungNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := examined(t, 3, func(nodes *redlocktest.Cluster) {
			nodes.Node(1).Hang()
			t.Cleanup(nodes.Node(1).Resume)
		}, within(redlock.DefaultNodeTimeout))
		of1 := "warning persistence 1; unknown acl 1; unknown eviction 1; "
		doctor.WantFound(t, r, doctor.SeverityUnknown, strings.Replace(inMemory, of1, "error unreachable 1; ", 1))
		if took := time.Since(begin); took > 2*redlock.DefaultNodeTimeout {
			t.Errorf("it took %v; want one for all questions, and one for the last words", took)
		}
		if r.Answered != 2 {
			t.Errorf("got %d nodes that answered; want 2", r.Answered)
		}
	})
}

// A node that is slow while it is proved, and so lets the probe's lock lapse, refuses nothing;
// one that loses it at once does.
func TestCheckBlamesNoNodeForTheLapseOfItsProbe(t *testing.T) {
	for pause, want := range map[time.Duration]string{1500 * time.Millisecond: "", time.Millisecond: "error refuses 1"} {
		synctest.Test(t, func(t *testing.T) {
			proved := 0
			r := examined(t, 3, func(nodes *redlocktest.Cluster) {
				n := nodes.Node(1)
				n.Intercept(func(args []string) redlocktest.Verdict {
					if key := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, lua.ProbeKey) }); args[0] == "EVALSHA" && key > 0 {
						if proved++; proved == 2 { // after the grant, before the renewal
							time.Sleep(pause)
							n.Miniredis().Del(args[key])
						}
					}
					return redlocktest.Pass()
				})
			})
			doctor.WantFound(t, r, doctor.SeverityError, want)
			if proved < 2 {
				t.Errorf("got %d of the probe's commands; want it proved with a lock", proved)
			}
		})
	}
}

func TestCheckCountsLostReplies(t *testing.T) {
	for lost, want := range map[int]string{1: "warning round-trip 2", 100: "error round-trip 2"} {
		synctest.Test(t, func(t *testing.T) {
			r := examined(t, 3, func(nodes *redlocktest.Cluster) {
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
			}, within(redlock.DefaultNodeTimeout))
			doctor.WantFound(t, r, doctor.SeverityUnknown, inMemory+"; "+want)
		})
	}
}

// What a node takes for its replies is what is judged, and not what its setting up took.
func TestRoundTripsAreMeasured(t *testing.T) {
	for each, want := range map[time.Duration]string{
		1000 * time.Millisecond: "warning round-trip 2; ", 900 * time.Millisecond: "", 1400 * time.Millisecond: "error round-trip 2; ",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := examined(t, 3, func(nodes *redlocktest.Cluster) {
				nodes.Node(2).Intercept(func(args []string) redlocktest.Verdict {
					if args[0] == "TIME" {
						time.Sleep(each)
					}
					return redlocktest.Pass()
				})
			}, within(1300*time.Millisecond))
			doctor.WantFound(t, r, doctor.SeverityUnknown, want+inMemory)
		})
	}
}
