package chaos_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

const (
	// failVariable has tests fail that are controls of others.
	failVariable = "REDLOCK_CHAOS_FAIL"
	// loudVariable leaves go-redis its logger.
	loudVariable = "REDLOCK_CHAOS_LOUD"
)

// again runs a test of this binary in a process of its own.
func again(t *testing.T, test string, env ...string) (out string, failed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", test, "-test.v")
	cmd.Env = append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	return string(text), err != nil
}

// unquoted takes the first word in single quotes.
func unquoted(text string) (word, rest string) {
	_, text, _ = strings.Cut(text, "'")
	word, rest, _ = strings.Cut(text, "'")
	return word, rest
}

// A failed test prints a plan that was shrunk, and the command that repeats it in its own
// package, of one's own code and of a kit of one's own: typed again, it shows the same.
func TestAFailedTestPrintsTheCommandThatRepeatsIt(t *testing.T) {
	testkit.NeedDeep(t)
	if os.Getenv(failVariable) != "" {
		t.Run("own code", func(t *testing.T) {
			untilItFails(t, func() { chaos.Test(t, amnesia(0), report(redlock.WithoutMembership())) })
		})
		t.Run("own kit", func(t *testing.T) {
			untilItFails(t, func() { chaos.Explore(t, amnesia(1), foreign()) })
		})
		return
	}
	for _, of := range []string{"own_code", "own_kit"} {
		t.Run(of, func(t *testing.T) {
			name := "TestAFailedTestPrintsTheCommandThatRepeatsIt"
			out, failed := again(t, "^"+name+"$/^"+of+"$", failVariable+"=yes")
			_, command, printed := strings.Cut(out, "repeat it: "+chaos.PlanVariable+"=")
			plan, rest := unquoted(command)
			test, _ := unquoted(rest)
			if !failed || !printed || test != "^"+name+"$/^"+of+"$" {
				t.Fatalf("got %t, and the test %q in\n%s\nwant a failure, and the command that repeats it", failed, test, out)
			}
			small, err := chaos.ParsePlan(plan)
			testkit.Must(t, err)
			most := len(amnesia(0).Faults) / 2
			if raceDetector { // it has few plays in the time for this, and not every one fails again
				most *= 2
			}
			if len(small.Faults) == 0 || len(small.Faults) > most {
				t.Errorf("got %d faults; want %d at most", len(small.Faults), most)
			}
			repeated, failed := again(t, test, failVariable+"=yes", chaos.PlanVariable+"="+plan)
			first, asked := violation(out, "shrunk to "), violation(repeated, "the plan of "+chaos.PlanVariable)
			if raceDetector { // a play may differ from the one before
				first, asked = string(chaos.TwoHolders), repeated
			}
			if !failed || first == "" || !strings.Contains(asked, first) || !strings.Contains(repeated, "played in the place of the test's plan") {
				t.Errorf("got\n%s\nwant %q in it again, of that plan", repeated, first)
			}
		})
	}
}

// untilItFails plays once. With the race detector, which has Go's scheduler draw who is next,
// a plan that failed may keep all rules the next time: there it plays until one fails.
func untilItFails(t *testing.T, play func()) {
	t.Helper()
	plays := 1
	if raceDetector {
		plays = 30
	}
	for range plays {
		if play(); t.Failed() {
			return
		}
	}
}

// violation is the first of two holders that a failed test printed, of the plan after a
// mark.
func violation(out, mark string) string {
	_, of, _ := strings.Cut(out, mark)
	for line := range strings.Lines(of) {
		if strings.Contains(line, string(chaos.TwoHolders)+" \"") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// foreign is a lock of another library: its owner values are random, in letters of any
// kind.
func foreign() chaos.Kit {
	return chaos.Kit{Name: "foreign", Open: func(nodes []redis.UniversalClient, _ []string) (chaos.Contender, error) {
		return foreignLock(nodes), nil
	}}
}

type foreignLock []redis.UniversalClient

func (l foreignLock) Close() error { return nil }

func (l foreignLock) Acquire(ctx context.Context, resource string, lease time.Duration) (chaos.Hold, error) {
	value := make([]byte, 16)
	_, _ = rand.Read(value) // never an error
	h := &foreignHold{nodes: l, resource: resource, owner: base64.StdEncoding.EncodeToString(value), until: time.Now().Add(lease)}
	got := h.all(func(node redis.UniversalClient) bool {
		return node.SetArgs(ctx, resource, h.owner, redis.SetArgs{Mode: "NX", TTL: lease}).Err() == nil
	})
	if got > len(l)/2 && h.Remaining() > 0 {
		return h, nil
	}
	_ = h.Release(ctx)
	return nil, errors.New("not locked")
}

type foreignHold struct {
	nodes    foreignLock
	resource string
	owner    string
	until    time.Time
}

func (h *foreignHold) all(f func(redis.UniversalClient) bool) (agreed int) {
	for _, node := range h.nodes {
		if f(node) {
			agreed++
		}
	}
	return agreed
}

func (h *foreignHold) Token() redlock.Token                        { return 0 }
func (h *foreignHold) Remaining() time.Duration                    { return max(time.Until(h.until), 0) }
func (h *foreignHold) Lost() <-chan struct{}                       { return nil }
func (h *foreignHold) Extend(context.Context, time.Duration) error { return nil }

func (h *foreignHold) Release(ctx context.Context) error {
	h.until = time.Time{}
	const script = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`
	h.all(func(node redis.UniversalClient) bool {
		return node.Eval(ctx, script, []string{h.resource}, h.owner).Err() == nil
	})
	return nil
}

// One seed is one run, of a library too whose random values nobody has sown.
func TestAForeignLockGivesTheSameTraceEachTime(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector has Go's scheduler draw who is next")
	}
	for seed := range uint64(3) {
		p := smallPlan(seed, 15*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.Slow, chaos.Cut, chaos.Reset}, Every: 3 * time.Second, Longest: time.Second})
		first, next := trail(t, chaos.PlayVirtual(t, p, foreign()).Records), trail(t, chaos.PlayVirtual(t, p, foreign()).Records)
		if bytes.Equal(first, next) { // else a busy machine may have stopped a goroutine in one of them
			continue
		}
		if third := trail(t, chaos.PlayVirtual(t, p, foreign()).Records); !bytes.Equal(first, third) && !bytes.Equal(next, third) {
			t.Errorf("seed %d: three runs differ, the first two %s", seed, firstDifference(first, next))
		}
	}
}

// go-redis tells of every failed dial on stderr; on a stage, that is what was asked for.
func TestGoRedisDoesNotTellOfEveryFailedDial(t *testing.T) {
	if os.Getenv(loudVariable) != "" {
		p := smallPlan(1, 15*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.Crash}, Every: time.Second})
		if v := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Verdict; v.Rounds == 0 {
			t.Error("got no round")
		}
		return
	}
	out, failed := again(t, "^"+t.Name()+"$", loudVariable+"=yes")
	if failed || strings.Contains(out, "dial") {
		t.Errorf("got %t\n%s\nwant a test that passes, and no word of dialling", failed, out)
	}
}

// A witness sees what nodes store, and changes nothing else: without its records the trace
// is the same.
func TestAPlanThatIsWatchedGivesTheSameTrace(t *testing.T) {
	testkit.Unraced(t)
	if raceDetector {
		t.Skip("the race detector has Go's scheduler draw who is next")
	}
	p := smallPlan(2, 15*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.Forget, chaos.Cut, chaos.Slow}, Every: 2 * time.Second})
	looked := func(r chaos.Record) bool {
		return r.Kind == trace.Stored || r.Kind == trace.Turned || r.Kind == trace.Granted
	}
	playBy := func(how func(chaos.Plan, chaos.Stage, chaos.Kit) ([]chaos.Record, error)) (records []chaos.Record) {
		synctest.Test(t, func(t *testing.T) {
			stage, err := chaos.NewVirtual(p.Seed, p.Nodes)
			testkit.Must(t, err)
			records, err = how(p, stage, p.Redlock("redlock"))
			testkit.Must(t, err, stage.Close())
		})
		return records
	}
	play := func() []byte { return trail(t, slices.DeleteFunc(playBy(chaos.Plan.Play), looked)) }
	alone := play()
	for range 3 { // a busy machine may stop a goroutine in one of them
		var seen []chaos.Record
		records := slices.DeleteFunc(playBy(chaos.Plan.PlayWatched), func(r chaos.Record) bool {
			if looked(r) {
				seen = append(seen, r)
			}
			return looked(r)
		})
		owned := slices.ContainsFunc(seen, func(r chaos.Record) bool { return r.Kind == trace.Stored && r.Client == "client-1" && r.Hold > 0 })
		if blank := slices.ContainsFunc(seen, func(r chaos.Record) bool { return r.Text == trace.Blank }); !owned || !blank {
			t.Fatalf("got %d records of nodes; want keys of client-1, and a node that forgot", len(seen))
		}
		watched := trail(t, records)
		if bytes.Equal(alone, watched) {
			return
		}
		t.Logf("they differ %s", firstDifference(alone, watched))
		alone = play()
	}
	t.Error("got another trace with a witness each time")
}
