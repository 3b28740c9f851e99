//go:build unix

package redlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// holderAddresses, in the environment, tells TestAHolderOfItsOwn where the nodes
// are.
const holderAddresses = "REDLOCK_TEST_HOLDER"

const shortTTL = 2 * time.Second

// shortLease are the options of a client whose lock ends soon, for a process that
// is stopped as long.
func shortLease() []redlock.Option {
	return []redlock.Option{fiveNames(), redlock.WithTTL(shortTTL), redlock.WithNodeTimeout(shortTTL - 100*time.Millisecond)}
}

// TestAHolderOfItsOwn is a process that can be stopped, and that does what it is
// told on its standard input.
func TestAHolderOfItsOwn(t *testing.T) {
	if os.Getenv(holderAddresses) == "" {
		t.Skip("other tests run it, as a process that they can stop")
	}
	addrs := strings.Split(os.Getenv(holderAddresses), ",")
	clients := defaultClients(t, addrs...)
	l := lockerWith(t, clients, shortLease()...)
	naive := unhurriedClients(t, addrs...)
	for _, c := range slices.Concat(naive, clients) {
		connect(t, c)
	}
	grantedByAll(t, l, naive)
	for _, c := range clients {
		pollUntil(t, shortTTL, "no connection is in use", func() bool { s := c.PoolStats(); return s.IdleConns == s.TotalConns })
	}
	fmt.Println("> ready")
	var lock *redlock.Lock
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "hold":
			lock = mustAcquire(t, l, "orders/42")
			fmt.Println("> holds", lock.Token())
		case "look":
			fmt.Printf("> %v %v\n", lock.Err() == nil, lock.Remaining())
		case "try":
			counted := make(chan bool)
			go func() { counted <- countGrants(t.Context(), naive) }()
			_, err := l.TryAcquire(t.Context(), "orders/42")
			fmt.Printf("> %v %v\n", <-counted, err == nil)
		}
	}
}

// connect opens two connections. With those, a call that waits for its reply has the
// next one dial nothing: behind a proxy that holds replies, a dial does not end.
func connect(t *testing.T, c redis.UniversalClient) {
	t.Helper()
	for range 2 {
		conn := c.(*redis.Client).Conn() //nolint:forcetypeassert // all are
		must(t, conn.Ping(t.Context()).Err())
		defer func() { must(t, conn.Close()) }()
	}
}

// unhurriedClients wait for a reply for longer than the process may be stopped.
func unhurriedClients(t *testing.T, addrs ...string) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients
}

// grantedByAll returns when all nodes, not only a quorum, have granted one lock.
func grantedByAll(t *testing.T, l *redlock.Locker, nodes []redis.UniversalClient) {
	t.Helper()
	pollUntil(t, 10*time.Second, "all nodes vote", func() bool {
		lock := mustAcquire(t, l, "warm", redlock.WithFixedLease())
		for _, c := range nodes {
			for c.Exists(t.Context(), "warm").Val() == 0 {
				if lock.Err() != nil {
					return false
				}
			}
		}
		mustRelease(t, lock)
		return true
	})
}

// countGrants is Redlock without its third step: it asks all nodes, counts, and
// does not look at how long that took.
func countGrants(ctx context.Context, nodes []redis.UniversalClient) bool {
	var granted atomic.Int32
	done := make(chan struct{})
	for _, c := range nodes {
		go func() {
			if ok, err := c.SetNX(ctx, "counted/42", "the first", shortTTL).Result(); ok && err == nil {
				granted.Add(1)
			}
			done <- struct{}{}
		}()
	}
	for range nodes {
		<-done
	}
	return int(granted.Load()) > len(nodes)/2
}

// holder is a process that runs TestAHolderOfItsOwn.
type holder struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Scanner
}

func newHolder(t *testing.T, r route) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAHolderOfItsOwn$", "-test.v")
	cmd.Env = append(os.Environ(), holderAddresses+"="+strings.Join(r.addresses(), ","))
	read, write, err := os.Pipe()
	must(t, err)
	cmd.Stdin, cmd.Stderr = read, os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, read.Close())
	h := &holder{t: t, cmd: cmd, in: write, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = write.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	h.want("ready")
	return h
}

func (h *holder) tell(what string) {
	h.t.Helper()
	_, err := h.in.WriteString(what + "\n")
	must(h.t, err)
}

// says is the next thing that the holder says.
func (h *holder) says() string {
	h.t.Helper()
	for h.out.Scan() {
		if s, ok := strings.CutPrefix(h.out.Text(), "> "); ok {
			return s
		}
	}
	h.t.Fatalf("the holder ended: %v", h.out.Err())
	return ""
}

func (h *holder) want(what string) {
	h.t.Helper()
	if got := h.says(); got != what {
		h.t.Errorf("the holder says %q; want %q", got, what)
	}
}

func (h *holder) signal(s syscall.Signal) {
	h.t.Helper()
	must(h.t, h.cmd.Process.Signal(s))
}

// stop returns when the process has stopped, not when it was told to.
func (h *holder) stop() {
	h.t.Helper()
	h.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for !status.Stopped() {
		_, err := syscall.Wait4(h.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			h.t.Fatalf("waiting for the holder to stop: %v", err)
		}
	}
}

// A process that holds, and renews, is stopped for longer than its lease. The
// first instruction after that which asks gets the truth, and its token is
// refused whether it asks or not.
func TestKleppmannTheHoldersProcessIsStopped(t *testing.T) {
	besideServers(t)
	servers := testserver.Need(t, 5, redisserver.Config{})
	l := lockerWith(t, defaultClients(t, addresses(servers)...), shortLease()...)
	admitted(t, l)
	h := newHolder(t, newRoute(t, servers))
	h.tell("hold")
	var stopped redlock.Token
	_, err := fmt.Sscanf(h.says(), "holds %d", &stopped)
	must(t, err)
	h.tell("look")
	if got := h.says(); !strings.HasPrefix(got, "true ") {
		t.Fatalf("before the stop: the holder says %q; want it to hold", got)
	}

	h.stop()
	h.tell("look")
	next := mustAcquire(t, l, "orders/42")
	var r register
	must(t, r.write(t.Context(), next.Token(), "next"))
	h.signal(syscall.SIGCONT)
	h.want("false 0s")
	wantError(t, "its write, of which it thought before", r.write(t.Context(), stopped, "late"), fencing.ErrStale)
	must(t, next.Err())
}

// The second trace of Redlock: client 1 asks A to E, and stops while the replies
// are on their way. The leases run out, client 2 acquires, and client 1 finds
// five replies that say yes. The contrast counts them.
func TestKleppmannTheClientStopsWhileTheRepliesAreInFlight(t *testing.T) {
	besideServers(t)
	servers := testserver.Need(t, 5, redisserver.Config{})
	l := lockerWith(t, defaultClients(t, addresses(servers)...), shortLease()...)
	admitted(t, l)
	r := newRoute(t, servers)
	h := newHolder(t, r)
	for _, p := range r {
		p.Hold(tcpproxy.Replies)
	}
	h.tell("try")
	clients := defaultClients(t, addresses(servers)...)
	const orders, counted = 0, 1
	var granted [2]map[int]bool // by which nodes, at any time: what gets no reply is rolled back soon
	granted[orders], granted[counted] = map[int]bool{}, map[int]bool{}
	pollUntil(t, shortTTL, "a quorum has granted both", func() bool {
		for node, c := range clients {
			for of, key := range []string{"orders/42", "counted/42"} {
				if c.Exists(t.Context(), key).Val() > 0 {
					granted[of][node] = true
				}
			}
		}
		return len(granted[orders]) >= 3 && len(granted[counted]) >= 3
	})
	h.stop()

	next := mustAcquire(t, l, "orders/42")
	for _, c := range clients {
		pollUntil(t, 5*time.Second, "the lease has run out", func() bool {
			return c.SetNX(t.Context(), "counted/42", "the second", time.Minute).Val()
		})
	}
	for _, p := range r {
		must(t, p.Heal())
	}
	h.signal(syscall.SIGCONT)
	h.want("true false") // counted, it holds as well; by this library, it does not
	must(t, next.Err())
}
