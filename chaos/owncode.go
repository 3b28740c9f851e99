package chaos

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
)

// PagesVariable names the environment variable with the directory where failed
// tests leave their page. Without it they leave it among the artifacts of go
// test -artifacts.
const PagesVariable = "REDLOCK_CHAOS_PAGES"

// Client is one client of the code under test: a process of its own, as far as
// faults can tell. See [Test].
type Client struct {
	Name string

	plan    *Plan
	actor   *Actor
	lockers []*redlock.Locker
}

// Locker returns a Locker over connections of the client's own, which the faults
// are between, with the plan's lease and MaxTTL; options come on top. A client
// makes one. It is closed when the client's code has returned.
func (c *Client) Locker(opts ...redlock.Option) (*redlock.Locker, error) {
	nodes, err := c.actor.stage.Connect(c.Name)
	if err != nil {
		return nil, err
	}
	c.actor.history.witness.overhear(c.Name, nodes, c.actor.stage.Names())
	all := append([]redlock.Option{
		redlock.WithNodeNames(c.actor.stage.Names()...), redlock.WithTTL(c.plan.Lease), redlock.WithMaxTTL(c.plan.MaxTTL),
	}, opts...)
	l, err := redlock.New(nodes, all...)
	if err == nil {
		c.lockers = append(c.lockers, l)
	}
	return l, err
}

// Enter says that the client is at work under a lock: from here on, up to
// [Tenure.Leave] or the end of the lock's validity, nobody else may be, but those who share
// it where it is shared. What the
// tenure's Write does is judged as well.
func (c *Client) Enter(lock *redlock.Lock) *Tenure {
	w := Want{Resources: []string{lock.Resource()}, Shared: lock.Shared()}
	set, ids := c.actor.history.ask(c.Name, w)
	return c.actor.begin(one{redlockHold{lock}}, w, set, ids)
}

// Leave says that the actor is no longer at work; it does not release the lock.
func (t *Tenure) Leave() { t.end() }

// Test runs code under the plan's faults, once for each of its clients and all of
// them at once, in virtual time, and returns the verdict. The code should go on
// until ctx is done: plan.For has passed then. t fails with the end of the trace
// if a rule was broken, and with what the code returned if that is an error other
// than ctx's own; the page goes where [PagesVariable] says. t must not be of a
// bubble. Meanwhile the process has one processor.
func Test(t *testing.T, p Plan, code func(ctx context.Context, c *Client) error) Verdict {
	t.Helper()
	defer takeTurns()()
	seen := Run{About: About{
		Scenario: t.Name(), Claim: fmt.Sprintf("%d faults, %d clients, %v", len(p.Faults), p.Clients, p.For), Contender: "the code under test",
		Guarded: true, Backend: string(Virtual), Seed: p.Seed, Judge: p.Judge(),
	}}
	synctest.Test(t, func(t *testing.T) {
		defer tidyUp()()
		stage, err := NewVirtual(p.Seed, p.Nodes)
		if err != nil {
			t.Fatal(err)
		}
		seen.About.Nodes = stage.Names()
		seen.Records, err = p.play(stage, func(r *run, i int) error { return r.own(i, code) })
		if err := errors.Join(err, stage.Close()); err != nil {
			t.Error(err)
		}
	})
	seen.Verdict = seen.About.Judge.Judge(seen.Records)
	if len(seen.Verdict.Violations) > 0 {
		t.Errorf("%v\n%s\nthe plan: %v\n%s", seen.Verdict, tail(seen.Records, seen.Verdict), p, LeavePage(t, seen))
	}
	return seen.Verdict
}

// own is the life of one client with code of its own.
func (r *run) own(i int, code func(context.Context, *Client) error) error {
	random := rand.New(rand.NewPCG(r.plan.Seed, uint64(i)+1)) //nolint:gosec // i is small
	time.Sleep(spread(random, clientsBegin))
	ctx, cancel := r.while(i, 0, r.plan.For)
	defer cancel()
	c := &Client{Name: clientName(i), plan: &r.plan}
	c.actor = newActor(c.Name, r.stage, r.history, r.guard)
	defer c.actor.leave()
	err := code(ctx, c)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	for _, l := range c.lockers {
		err = errors.Join(err, unlessUnconfirmed(l.Close()))
	}
	return err
}

// notInNames is what file names should not have.
var notInNames = regexp.MustCompile(`[^\w.-]+`)

// LeavePage writes the page of a run that failed a test, and the trace, where the
// test's author can find them, and says where: in the directory that
// [PagesVariable] names, or among the artifacts of go test -artifacts. Without
// either it writes nothing, and says how to have it.
func LeavePage(t *testing.T, run Run) string {
	t.Helper()
	dir := os.Getenv(PagesVariable)
	if f := flag.Lookup("test.artifacts"); dir == "" && f != nil && f.Value.String() == "true" {
		dir = t.ArtifactDir()
	}
	if dir == "" {
		return fmt.Sprintf("for a page to look at: %s=DIR, or go test -artifacts", PagesVariable)
	}
	base := filepath.Join(dir, notInNames.ReplaceAllString(t.Name(), "-"))
	var errs []error
	for _, out := range []struct {
		name  string
		write func(io.Writer, ...Run) error
	}{{base + ".html", WritePage}, {base + ".jsonl", WriteRuns}} {
		f, err := os.Create(out.name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, out.write(f, run), f.Close())
	}
	return cmp.Or(words(errors.Join(errs...)), "look at it: "+base+".html")
}

// words is an error in words; nil: none.
func words(err error) string {
	if err == nil {
		return ""
	}
	return "the page could not be written: " + err.Error()
}
