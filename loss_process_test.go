//go:build unix

package redlock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

const (
	holderNodes = "REDLOCK_TEST_HOLDER_NODES" // makes the test binary a holder
	holderTTL   = time.Second
)

// afterStop is what a holder finds when it is continued.
type afterStop struct {
	Lost, NotHeld bool
	Remaining     time.Duration
	Extending     time.Duration // how long Extend took
	Done          time.Duration // how long until Done closed
}

// A holder that is stopped (SIGSTOP) past its lease knows it with its first call
// after that, and is told within a second.
func TestAStoppedHolderKnowsAtItsFirstCall(t *testing.T) {
	besideServers(t)
	servers := needMasters(t, 3, redisserver.Config{})
	next := openServers(t, servers) // with a lease that a busy machine does not outlast
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHolderProcess$", "-test.v")
	child.Env = append(os.Environ(), holderNodes+"="+strings.Join(addresses(servers), ","))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	defer func() { _ = child.Wait() }()
	lines := bufio.NewScanner(out)
	await := func(prefix string) string {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("the holder ended before it said %q", prefix)
		return ""
	}
	await("held")
	must(t, child.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	second := mustAcquire(t, next, "orders/42")
	pollUntil(t, 10*holderTTL, "the stop is long enough for the holder to see it", func() bool {
		return time.Since(stopped) > 2*holderTTL
	})
	must(t, child.Process.Signal(syscall.SIGCONT))
	var got afterStop
	must(t, json.Unmarshal([]byte(await("report ")), &got))
	if !got.Lost || !got.NotHeld || got.Remaining != 0 {
		t.Errorf("at its first calls the holder found %+v; want the loss, nothing remaining, Extend refused", got)
	}
	if got.Done > time.Second || got.Extending > 100*time.Millisecond {
		t.Errorf("Done took %v and Extend %v; want a second at most, and no waiting", got.Done, got.Extending)
	}
	if err := second.Extend(t.Context(), redlock.DefaultTTL); err != nil {
		t.Errorf("the next holder, after the first one's return: %v", err)
	}
}

// TestHolderProcess is the holder of the test above: it does nothing by itself.
func TestHolderProcess(t *testing.T) {
	nodes := os.Getenv(holderNodes)
	if nodes == "" {
		return
	}
	l, err := redlock.Open(t.Context(), strings.Split(nodes, ","), redlock.WithTTL(holderTTL))
	must(t, err)
	lock := mustAcquire(t, l, "orders/42")
	done := lock.Done()
	last := time.Now()
	_, _ = os.Stdout.WriteString("\nheld\n")
	for now := last; now.Sub(last) < holderTTL; last, now = now, time.Now() {
		// Nothing else: no timer may be what notices the stop.
	}
	var r afterStop
	r.Lost = errors.Is(lock.Err(), redlock.ErrLost)
	began := time.Now()
	r.Remaining = lock.Remaining()
	r.NotHeld = errors.Is(lock.Extend(t.Context(), holderTTL), redlock.ErrNotHeld)
	r.Extending = time.Since(began)
	<-done
	r.Done = time.Since(began)
	report, err := json.Marshal(r)
	must(t, err)
	_, _ = os.Stdout.WriteString("\nreport " + string(report) + "\n")
}
