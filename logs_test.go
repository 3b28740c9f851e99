package redlock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// logged is a log that can be read while it is written.
type logged struct {
	mu  sync.Mutex // guards the field below
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// option has lines of this level and above written.
func (l *logged) option(level slog.Level) redlock.Option {
	return redlock.WithLogger(slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level})))
}

// lines are the lines with this message.
func (l *logged) lines(t *testing.T, message string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(l.String()) {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if fields["msg"] == message {
			out = append(out, fields)
		}
	}
	return out
}

func TestTheLogHasALostLockAsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		l, nodes := newLocker(t, 3, log.option(slog.LevelInfo))
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
		}
		<-lock.Done()
		synctest.Wait()
		lines := log.lines(t, "redlock: lock lost")
		if len(lines) != 1 || lines[0]["level"] != "ERROR" || lines[0]["resource"] != "orders/42" || lines[0]["reason"] != "gone" ||
			lines[0]["token"] != float64(lock.Token()) || lines[0]["error"] == nil || lines[0]["held"] == nil {
			t.Errorf("got %v in\n%s\nwant one error with resource, token, reason, hold and cause", lines, log)
		}
	})
}

// A node that comes and goes twice a second is worth a line in ten seconds, and
// the last word.
func TestTheLogOfANodeThatComesAndGoesIsBoundedAndEndsOnTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		l, nodes := newLocker(t, 3, log.option(slog.LevelInfo))
		warm(t, l)
		turn := func(change func(), settled time.Duration) {
			change()
			time.Sleep(settled)
			lock := mustAcquire(t, l, "orders/42")
			synctest.Wait() // each node was sent it, or its release need not be
			mustRelease(t, lock)
			time.Sleep(settled)
		}
		n := nodes.Node(1)
		for range 40 { // 40 seconds
			turn(n.Stop, 250*time.Millisecond)
			turn(func() { n.Start() }, 250*time.Millisecond)
		}
		down, up := log.lines(t, "redlock: node down"), log.lines(t, "redlock: node up")
		if got := len(down) + len(up); got < 2 || got > 6 {
			t.Errorf("got %d lines for 80 changes in 40s; want one in ten seconds:\n%s", got, log)
		}
		if first := down[0]; first["level"] != "WARN" || first["node"] != "node-1" || first["error"] == nil {
			t.Errorf("the first: got %v; want a warning that names the node and the cause", first)
		}
		left := 0.0
		for _, line := range append(down, up...) {
			if n, ok := line["left_out"].(float64); ok {
				left += n
			}
		}
		if left < 50 {
			t.Errorf("the lines tell of %v that were left out; want most of 80:\n%s", left, log)
		}
		turn(n.Stop, time.Second)
		time.Sleep(10 * time.Second)
		turn(func() {}, time.Second)
		last := log.String()[strings.LastIndex(strings.TrimSpace(log.String()), "\n")+1:]
		if !strings.Contains(last, "node down") {
			t.Errorf("the node is down for good: the last line is %q; want it to say so", last)
		}
	})
}

func TestCloseWritesTheLastWordOnANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		l, nodes := newLocker(t, 3, log.option(slog.LevelInfo))
		warm(t, l)
		nodes.Node(1).Stop()
		for range 20 { // an ask whose round is over may not be sent
			if mustRelease(t, mustAcquire(t, l, "orders/42")); strings.Contains(log.String(), "node down") {
				break
			}
			synctest.Wait()
		}
		time.Sleep(time.Second)
		nodes.Node(1).Start()
		for range 3 {
			mustRelease(t, mustAcquire(t, l, "orders/42"))
			time.Sleep(time.Second)
		}
		before := strings.Count(log.String(), "node up")
		must(t, l.Close())
		down, up := log.lines(t, "redlock: node down"), log.lines(t, "redlock: node up")
		if before != 0 || len(down) != 1 || len(up) != 1 || !strings.Contains(log.String()[strings.Index(log.String(), "node down"):], "node up") {
			t.Errorf("got %d lines of the node up before Close, and in all\n%s\nwant it down, and up by Close", before, log)
		}
	})
}

func TestTheLogIsOfEachLockerAndAsQuietAsItsLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet, all := &logged{}, &logged{}
		l, nodes := newLocker(t, 3, quiet.option(slog.LevelInfo), all.option(slog.LevelDebug), redlock.WithLogger(nil))
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42", redlock.WithMaxHold(time.Second))
		<-lock.Done()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.Acquire(ctx, "orders/42")
		wantError(t, "Acquire", err, context.Canceled)
		time.Sleep(time.Second)
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		for range 5 {
			_, err = l.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
		}
		synctest.Wait()
		if got := strings.Count(quiet.String(), "held") + strings.Count(quiet.String(), "cancelled"); got != 1 {
			t.Errorf("got\n%s\nwant the lock that was held for its maximum, and no other of the locks", quiet)
		}
		if lines := quiet.lines(t, "redlock: acquire failed"); len(lines) != 1 || lines[0]["level"] != "WARN" || lines[0]["reason"] != "no_quorum" {
			t.Errorf("got %v; want one warning for five acquisitions without a quorum", lines)
		}
		if got := len(all.lines(t, "redlock: lock acquired")); got != 3 {
			t.Errorf("at debug, got %d locks; want 3", got)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
	})
}

func TestTheLogHasNoPasswordAndNoOwnerValue(t *testing.T) {
	testkit.Full(t)
	besideServers(t)
	nodes, err := redlocktest.Run(3, redlocktest.WithTCP())
	must(t, err)
	defer nodes.Close()
	log := &logged{}
	var urls []string
	for i, n := range nodes.Nodes() {
		urls = append(urls, "redis://app:hunter2@"+n.Addr())
		if i > 0 {
			n.Miniredis().RequireUserAuth("app", "hunter2")
		} else {
			n.Miniredis().RequireUserAuth("app", "another")
		}
	}
	l, err := redlock.Open(t.Context(), urls, log.option(slog.LevelDebug), redlock.WithHolder("billing"), redlock.WithNodeTimeout(2*time.Second))
	must(t, err)
	lock := mustAcquire(t, l, "orders/42")
	in, err := l.Inspect(t.Context(), "orders/42")
	if err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
		t.Fatal(err)
	}
	owner, _ := in.Holder()
	_, err = l.TryAcquire(t.Context(), "orders/42")
	wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
	mustRelease(t, lock)
	must(t, l.Close())
	text := log.String()
	if !strings.Contains(text, "node down") || !strings.Contains(text, "lock acquired") || !strings.HasPrefix(owner, "billing/") {
		t.Fatalf("got\n%s\nand the owner %q; want a node down and a lock, else this test shows nothing", text, owner)
	}
	for _, secret := range []string{"hunter2", owner, "billing/"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log has %q:\n%s", secret, text)
		}
	}
}

// The log of a Locker, at its usual level: only what matters.
func ExampleWithLogger() {
	nodes := fiveNodes()
	defer nodes.Close()
	out := &logged{}
	text := slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "error" || a.Key == "duration" {
			return slog.Attr{} // differs from run to run
		}
		return a
	}})
	locker := lockerOn(nodes, redlock.WithLogger(slog.New(text)))
	nodes.Node(2).Stop()
	acquire(locker, "orders/42")
	locker.Close()
	fmt.Print(out)
	// Output: level=WARN msg="redlock: node down" node=node-2
}
