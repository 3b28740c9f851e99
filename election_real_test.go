//go:build unix

package redlock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	candidateNodes = "REDLOCK_TEST_CANDIDATE_NODES" // makes the test binary a candidate
	candidateValue = "REDLOCK_TEST_CANDIDATE_VALUE"
	candidateTTL   = 2 * time.Second
)

// TestCandidateProcess is a candidate of the tests below: it does nothing by itself.
func TestCandidateProcess(t *testing.T) {
	nodes := os.Getenv(candidateNodes)
	if nodes == "" {
		return
	}
	l, err := redlock.Open(t.Context(), strings.Split(nodes, ","), redlock.WithTTL(candidateTTL))
	must(t, err)
	told := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			told <- in.Text()
		}
		os.Exit(1) // the test has ended
	}()
	fmt.Println("\n> ready")
	err = l.Campaign(t.Context(), "jobs", func(ctx context.Context, lock *redlock.Lock) error {
		fmt.Println("\n> leads", lock.Token())
		select {
		case <-told:
			return nil
		case <-ctx.Done():
			fmt.Println("\n> lost", lock.Token())
			return ctx.Err()
		}
	}, redlock.WithValue(os.Getenv(candidateValue)))
	fmt.Println("\n> resigned", err)
	must(t, l.Close())
}

// candidateProcess is a process that campaigns for jobs.
type candidateProcess struct {
	t     *testing.T
	value string
	cmd   *exec.Cmd
	in    io.Writer
	said  chan string // closed when the process has ended
}

// newCandidate starts one, which is in line when another leads.
func newCandidate(t *testing.T, servers []*redisserver.Server, value string) *candidateProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCandidateProcess$", "-test.v")
	cmd.Env = append(os.Environ(), candidateNodes+"="+strings.Join(addresses(servers), ","), candidateValue+"="+value)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	c := &candidateProcess{t: t, value: value, cmd: cmd, in: in, said: make(chan string, 100)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if s, ok := strings.CutPrefix(lines.Text(), "> "); ok {
				c.said <- s
			}
		}
		close(c.said)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range c.said { // to its end
		}
		_ = cmd.Wait() // killed
	})
	c.says(20*time.Second, "ready")
	return c
}

// says waits until it says something that begins so, and returns the token behind.
func (c *candidateProcess) says(within time.Duration, what string) (token redlock.Token) {
	c.t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case s := <-c.said:
		rest, ok := strings.CutPrefix(s, what)
		if !ok {
			c.t.Fatalf("%s says %q; want %q", c.value, s, what)
		}
		_, _ = fmt.Sscanf(rest, " %d", &token)
		return token
	case <-limit.C:
		c.t.Fatalf("%s does not say %q for %v", c.value, what, within)
		return 0
	}
}

// silent checks that it has said nothing.
func (c *candidateProcess) silent() {
	c.t.Helper()
	select {
	case s := <-c.said:
		c.t.Errorf("%s says %q; want nothing", c.value, s)
	default:
	}
}

// standsInLine waits until the process has its entry on a quorum.
func standsInLine(t *testing.T, l *redlock.Locker, n int) {
	t.Helper()
	pollUntil(t, 20*time.Second, fmt.Sprintf("%d stand in line", n), func() bool {
		in, err := l.Inspect(t.Context(), "jobs")
		if err != nil {
			return false // too few nodes answered in time
		}
		standing := 0
		for _, node := range in.Nodes {
			if len(node.Waiting) >= n {
				standing++
			}
		}
		return standing >= in.Quorum
	})
}

// isToldOf waits until an observer is told of this leader; what it is told before that is
// not wrong: nobody, or the word of a leader whose token has not come yet.
func isToldOf(t *testing.T, from <-chan seen, within time.Duration, value string, token redlock.Token) time.Time {
	t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		select {
		case s := <-from:
			if s.err == nil && s.Held && s.Value == value && (s.Token == token || s.Token == 0) {
				return s.at
			}
			if s.err == nil && s.Held && s.Value == value {
				t.Errorf("told of %s with the token %v; want %v", value, s.Token, token)
			}
		case <-limit.C:
			t.Fatalf("the observer was not told of %s for %v", value, within)
		}
	}
}

// The leader's process is killed (kill -9), stopped (SIGSTOP) and continued, and resigns,
// over five servers of which one is killed and comes back empty. Each leader is followed
// by the next in line, with a greater token; an observer is told of each; and who was
// stopped is told of its loss before it campaigns again.
func TestALeadersProcessIsFollowedOnRealServers(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 5, redisserver.Config{})
	l := openServers(t, servers, redlock.WithTTL(candidateTTL))
	told := observes(t, l)
	const late = candidateTTL + 10*time.Second // a busy machine may take longer than one lease

	a := newCandidate(t, servers, "a")
	first := a.says(late, "leads")
	isToldOf(t, told, late, "a", first)
	b := newCandidate(t, servers, "b")
	standsInLine(t, l, 1)
	c := newCandidate(t, servers, "c")
	standsInLine(t, l, 2)

	must(t, a.cmd.Process.Kill())
	died := time.Now()
	second := b.says(late, "leads")
	t.Logf("after kill -9 the next one leads in %.2f of a TTL", time.Since(died).Seconds()/candidateTTL.Seconds())
	isToldOf(t, told, late, "b", second)
	c.silent()

	must(t, servers[0].Kill())
	must(t, b.cmd.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	third := c.says(late, "leads")
	t.Logf("after SIGSTOP the next one leads in %.2f of a TTL", time.Since(stopped).Seconds()/candidateTTL.Seconds())
	isToldOf(t, told, late, "c", third)
	must(t, servers[0].RestartEmpty())
	must(t, b.cmd.Process.Signal(syscall.SIGCONT))
	if lost := b.says(late, "lost"); lost != second {
		t.Errorf("b was told that it lost %v; want %v", lost, second)
	}
	standsInLine(t, l, 1) // it campaigns again

	_, err := c.in.Write([]byte("resign\n"))
	must(t, err)
	c.says(late, "resigned <nil>")
	fourth := b.says(late, "leads")
	isToldOf(t, told, late, "b", fourth)
	if first >= second || second >= third || third >= fourth {
		t.Errorf("got the tokens %v, %v, %v, %v; want them to rise", first, second, third, fourth)
	}
	_, err = b.in.Write([]byte("resign\n"))
	must(t, err)
	b.says(late, "resigned <nil>")
	pollUntil(t, 20*time.Second, "nothing is left", func() bool {
		in, err := l.Inspect(t.Context(), "jobs")
		must(t, err)
		for _, n := range in.Nodes {
			if n.Owner != "" || len(n.Waiting) > 0 {
				return false
			}
		}
		return true
	})
}

// An observer who is cut off from one node notices nothing. Cut off from two of three, it
// says so, follows no leader meanwhile, and is told of who leads once it is not.
func TestObserversBehindAPartitionSayItOnRealServers(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	way := newRoute(t, servers)
	names := redlock.WithNodeNames(addresses(servers)...)
	observer := lockerWith(t, defaultClients(t, way.addresses()...), names)
	a := lockerWith(t, defaultClients(t, addresses(servers)...), names)
	b := lockerWith(t, defaultClients(t, addresses(servers)...), names)
	warm(t, a)
	told := observes(t, observer)
	lead := func(l *redlock.Locker, value string) (*redlock.Lock, chan<- struct{}) {
		leads, resign := make(chan *redlock.Lock, 1), make(chan struct{})
		ctx := t.Context()
		go func() {
			_ = l.Campaign(ctx, "jobs", func(ctx context.Context, lock *redlock.Lock) error {
				leads <- lock
				select {
				case <-resign:
				case <-ctx.Done():
				}
				return nil
			}, redlock.WithValue(value))
		}()
		return <-leads, resign
	}
	first, resign := lead(a, "a")
	isToldOf(t, told, 10*time.Second, "a", first.Token())

	way.lose(2)
	close(resign)
	second, resign := lead(b, "b")
	isToldOf(t, told, 10*time.Second, "b", second.Token())

	way.lose(1)
	cut := time.Now()
	for s := range told {
		if s.err != nil {
			wantError(t, "cut off", s.err, redlock.ErrNoQuorum)
			if since := s.at.Sub(cut); since < time.Second {
				t.Errorf("it says so after %v; want what it saw to hold for two seconds", since)
			}
			break
		}
		if !s.Held || s.Value != "b" {
			t.Errorf("cut off, it is told of %+v; want nothing new", s.Leader)
		}
	}
	close(resign)
	third, resign := lead(a, "c")
	defer close(resign)
	pause(time.Second)
	if len(told) > 0 {
		t.Errorf("cut off, it is told of %+v; want nothing", <-told)
	}
	must(t, way[1].Heal())
	must(t, way[2].Heal())
	isToldOf(t, told, 20*time.Second, "c", third.Token())
}

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
