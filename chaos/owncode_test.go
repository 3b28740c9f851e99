package chaos_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// amnesia is a plan of nodes that forget, one after the other.
func amnesia(seed uint64) chaos.Plan {
	p := smallPlan(seed, 20*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.Forget}, Every: 300 * time.Millisecond, Longest: 20 * time.Millisecond})
	p.Clients = 4
	return p
}

// report is a program as somebody writes it: who has the lock writes, again
// and again.
func report(opts ...redlock.Option) func(context.Context, *chaos.Client) error {
	return func(ctx context.Context, c *chaos.Client) error {
		locker, err := c.Locker(opts...)
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			lock, err := locker.Acquire(ctx, "report")
			if err != nil {
				return err
			}
			at := c.Enter(lock)
			for range 5 {
				time.Sleep(200 * time.Millisecond)
				_ = at.Write(ctx) // a stale one is refused
			}
			at.Leave()
			_ = lock.Release(ctx) // unconfirmed: it lapses
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}
}

func TestOwnCodeKeepsTheRulesUnderFaults(t *testing.T) {
	testkit.Unraced(t)
	v := chaos.Test(t, amnesia(1), report())
	if v.Won < 2 || v.Writes < 5 {
		t.Errorf("got %v; the run shows nothing", v)
	}
}

// The control, in a process of its own since it fails its test: a lock without
// its protection. The page is where the variable says.
func TestOwnCodeThatBreaksARuleFailsWithAPage(t *testing.T) {
	testkit.Unraced(t)
	if os.Getenv(failVariable) != "" {
		for seed := uint64(0); seed < 4 && !t.Failed(); seed++ {
			chaos.Test(t, amnesia(seed), report(redlock.WithoutMembership()))
		}
		return
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), failVariable+"=yes", page.PagesVariable+"="+dir)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("got a test that passes; want it to fail\n%s", out)
	}
	name := filepath.Join(dir, t.Name())
	for _, want := range []string{"two holders", "look at it: " + name + ".html", "the plan: {"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	}
	html, err := os.ReadFile(name + ".html")
	if err != nil || !strings.Contains(string(html), "two holders for ") {
		t.Errorf("the page: got %d bytes, %v; want one with two holders", len(html), err)
	}
	f, err := os.Open(name + ".jsonl")
	testkit.Must(t, err)
	defer f.Close()
	if runs, err := trace.ReadRuns(f); err != nil || runs[0].Verdict.Count(chaos.TwoHolders) == 0 {
		t.Errorf("the trace: got %v; want one that breaks the rule again", err)
	}
}
