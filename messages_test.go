package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
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
		if text := fmt.Sprint(err); strings.Count(text, "it is new") != 1 || strings.Count(text, ", node ") != 2 {
			t.Errorf("got %q; want the cause of all once", text)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err = l.Cluster().Join(ctx); strings.Count(fmt.Sprint(err), "it is new") != 1 {
			t.Errorf("Join: got %q; want the cause of all once", err)
		}
	})
}

// A node that was used by a client of one address is no node of three: the list is named, and
// a new node beside it is not called misconfigured.
func TestAnotherNumberOfNodesIsNamedWithItsRemedy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		alone := lockerWith(t, nodes.Clients()[1:2], redlock.WithNodeNames("node-1"))
		must(t, alone.Cluster().Admit(t.Context()))
		l := lockerOver(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "orders/42")
		wantError(t, "Acquire", err, redlock.ErrMisconfigured)
		wantText(t, "Acquire", fmt.Sprint(err), "its record is of 1 node (node-1); this client has 3", "give all clients one list", "docs/WHICH.md")
		var failed *redlock.QuorumError
		if !errors.As(err, &failed) {
			t.Fatalf("got %v; want a *QuorumError", err)
		}
		for _, i := range []int{0, 2} {
			if text := fmt.Sprint(failed.Nodes[i].Err); strings.Contains(text, "node misconfigured") || !strings.Contains(text, "node-1") {
				t.Errorf("a new node: got %q; want it named by what keeps it out: node-1", text)
			}
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
