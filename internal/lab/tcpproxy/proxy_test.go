package tcpproxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

func startProxy(t *testing.T, target string) *tcpproxy.Proxy {
	t.Helper()
	p, err := tcpproxy.New(target)
	testkit.Must(t, err)
	t.Cleanup(p.Close)
	return p
}

// throughProxy returns a node, a proxy in front of it and a client with one
// connection to the proxy, already made.
func throughProxy(t *testing.T, timeout time.Duration) (*redlocktest.Node, *tcpproxy.Proxy, *redis.Client) {
	t.Helper()
	node := redlocktest.Start(t, 1, redlocktest.WithTCP(), redlocktest.WithoutFounding()).Node(0)
	p := startProxy(t, node.Addr())
	opts := node.Options()
	opts.Addr, opts.Dialer = p.Addr(), nil
	opts.PoolSize, opts.PipelinePoolSize = 1, -1
	opts.ReadTimeout, opts.PoolTimeout = timeout, timeout
	c := redis.NewClient(opts)
	t.Cleanup(func() { _ = c.Close() })
	testkit.Must(t, c.Ping(t.Context()).Err())
	return node, p, c
}

// How long nothing is to come; a timeout that a test waits for, and within which all else
// is to come; and one that it should never meet.
const short, middling, long = 150 * time.Millisecond, time.Second, 20 * time.Second

func TestDelayIsAddedEachWay(t *testing.T) {
	_, p, c := throughProxy(t, long)
	for _, dir := range []tcpproxy.Direction{tcpproxy.Requests, tcpproxy.Replies} {
		p.Delay(dir, 30*time.Millisecond)
		started := time.Now()
		testkit.Must(t, c.Ping(t.Context()).Err())
		if got := time.Since(started); got < 30*time.Millisecond {
			t.Errorf("direction %d: got a round trip of %v; want 30 ms or more", dir, got)
		}
		testkit.Must(t, p.Heal())
	}
	p.Delay(tcpproxy.Both, 20*time.Millisecond)
	p.Jitter(tcpproxy.Both, 20*time.Millisecond)
	var took []time.Duration
	for range 10 {
		started := time.Now()
		testkit.Must(t, c.Ping(t.Context()).Err())
		took = append(took, time.Since(started))
	}
	if low, high := slices.Min(took), slices.Max(took); low < 40*time.Millisecond || high-low < time.Millisecond {
		t.Errorf("got round trips of %v to %v; want 40 ms or more, not all alike", low, high)
	}
}

func TestDelayDoesNotLimitThroughput(t *testing.T) {
	node, p, _ := throughProxy(t, long)
	const n, delay = 300, 20 * time.Millisecond
	p.Delay(tcpproxy.Both, delay)
	conn, err := net.Dial("tcp", p.Addr())
	testkit.Must(t, err)
	defer conn.Close()
	testkit.Must(t, conn.SetDeadline(time.Now().Add(long)))
	before, started := node.Calls("PING"), time.Now()
	go func() {
		for range n {
			_, _ = io.WriteString(conn, "*1\r\n$4\r\nPING\r\n")
			time.Sleep(100 * time.Microsecond) // a message of its own
		}
	}()
	r := bufio.NewReader(conn)
	for range n {
		line, err := r.ReadString('\n')
		if err != nil || line != "+PONG\r\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	if got := node.Calls("PING") - before; got != n {
		t.Errorf("got %d commands; want %d", got, n)
	}
	// One at a time would take 300 times 40 ms, 12 s.
	if took := time.Since(started); took < 2*delay || took > 3*time.Second {
		t.Errorf("%d messages took %v; want little more than %v", n, took, 2*delay)
	}
}

func TestHeldRequestsArriveOnTheSameConnection(t *testing.T) {
	node, p, c := throughProxy(t, long)
	p.Hold(tcpproxy.Requests)
	done := make(chan error, 1)
	go func() { done <- c.Set(t.Context(), "k", "v", 0).Err() }()
	select {
	case err := <-done:
		t.Fatalf("got an answer through a partition: %v", err)
	case <-time.After(short):
	}
	if got := node.Keys(); len(got) != 0 {
		t.Errorf("while held: got keys %q; want none", got)
	}
	testkit.Must(t, p.Heal(), <-done)
	if got := node.Calls("HELLO"); got != 1 {
		t.Errorf("got %d connections; want the one", got)
	}
}

func TestHeldRequestsOfAClosedConnectionAreExecutedLate(t *testing.T) {
	node, p, c := throughProxy(t, middling)
	p.Hold(tcpproxy.Both)
	if err := c.Set(t.Context(), "late", "v", 0).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v; want a timeout", err)
	}
	testkit.Must(t, c.Close())
	testkit.Must(t, p.Heal())
	testkit.Eventually(t, "the late command", func() bool { return slices.Contains(node.Keys(), "late") })
}

func TestHeldRepliesArriveAfterTheEffect(t *testing.T) {
	node, p, c := throughProxy(t, long)
	p.Hold(tcpproxy.Replies)
	done := make(chan error, 1)
	go func() { done <- c.Set(t.Context(), "k", "v", 0).Err() }()
	testkit.Eventually(t, "the effect", func() bool { return len(node.Keys()) == 1 })
	select {
	case err := <-done:
		t.Fatalf("got an answer through a partition: %v", err)
	case <-time.After(short):
	}
	testkit.Must(t, p.Heal(), <-done)
}

func TestDroppedRepliesAreLostAfterTheEffect(t *testing.T) {
	node, p, c := throughProxy(t, middling)
	p.Drop(tcpproxy.Replies)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v; want a timeout", err)
	}
	testkit.Eventually(t, "the effect", func() bool { return len(node.Keys()) == 1 })
	testkit.Must(t, p.Heal())
	if got, err := c.Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Errorf("after healing: got %q, %v; want v", got, err)
	}
}

func TestDroppedRequestsNeverHappen(t *testing.T) {
	node, p, c := throughProxy(t, middling)
	p.Drop(tcpproxy.Requests)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v; want a timeout", err)
	}
	testkit.Must(t, p.Heal(), c.Ping(t.Context()).Err())
	if got := node.Calls("SET"); got != 0 {
		t.Errorf("got %d calls; want none", got)
	}
}

// A plain socket shows that the connection itself serves again.
func TestADroppedMessageDoesNotEndItsConnection(t *testing.T) {
	_, p, _ := throughProxy(t, long)
	conn, err := net.Dial("tcp", p.Addr())
	testkit.Must(t, err)
	defer conn.Close()
	testkit.Must(t, conn.SetDeadline(time.Now().Add(long)))
	r := bufio.NewReader(conn)
	say := func(what string) {
		t.Helper()
		_, err := io.WriteString(conn, "*2\r\n$4\r\nECHO\r\n$1\r\n"+what+"\r\n")
		testkit.Must(t, err)
	}
	hear := func(want string) {
		t.Helper()
		size, err1 := r.ReadString('\n')
		text, err2 := r.ReadString('\n')
		if size != "$1\r\n" || strings.TrimSpace(text) != want || err1 != nil || err2 != nil {
			t.Fatalf("got %q %q, %v, %v; want %q", size, text, err1, err2, want)
		}
	}
	say("a")
	hear("a")
	p.Drop(tcpproxy.Requests)
	say("b")
	testkit.Must(t, conn.SetReadDeadline(time.Now().Add(middling)))
	if _, err := r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v; want silence", err)
	}
	testkit.Must(t, p.Heal(), conn.SetReadDeadline(time.Now().Add(long)))
	say("c")
	hear("c")
}

func TestResetBreaksConnectionsAndLetsNewOnesIn(t *testing.T) {
	node, p, c := throughProxy(t, long)
	p.Hold(tcpproxy.Replies)
	done := make(chan error, 1)
	go func() { done <- c.Ping(t.Context()).Err() }()
	testkit.Eventually(t, "the command", func() bool { return node.Calls("PING") == 2 })
	p.Reset()
	if err := <-done; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v; want a reset", err)
	}
	testkit.Must(t, p.Heal(), c.Ping(t.Context()).Err())
	if got := node.Calls("HELLO"); got != 2 {
		t.Errorf("got %d connections; want a second one", got)
	}
}

func TestAimLeadsNewConnectionsToAnotherServer(t *testing.T) {
	first, p, c := throughProxy(t, long)
	second := redlocktest.Start(t, 1, redlocktest.WithTCP(), redlocktest.WithoutFounding()).Node(0)
	p.Aim(second.Addr())
	testkit.Must(t, c.Ping(t.Context()).Err())
	if got := [2]int{first.Calls("PING"), second.Calls("PING")}; got != [2]int{2, 0} {
		t.Errorf("the connection that there is: got %v pings; want both on the first server", got)
	}
	p.Reset()
	testkit.Eventually(t, "a new connection", func() bool { return c.Ping(t.Context()).Err() == nil })
	if got := second.Calls("PING"); got != 1 {
		t.Errorf("a new connection: got %d pings on the second server; want 1", got)
	}
}

func TestHalfOpenLeavesTheClientInTheDark(t *testing.T) {
	node, p, c := throughProxy(t, middling)
	p.HalfOpen()
	testkit.Eventually(t, "the server's end", func() bool { return node.Miniredis().CurrentConnectionCount() == 0 })
	if err := c.Ping(t.Context()).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v; want a timeout", err)
	}
	// The client gave the connection up, and a new one works.
	testkit.Must(t, c.Ping(t.Context()).Err())
}

func TestRefuseLetsOldConnectionsGoOn(t *testing.T) {
	_, p, c := throughProxy(t, long)
	p.Refuse()
	testkit.Must(t, c.Ping(t.Context()).Err())
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v; want connection refused", err)
	}
	testkit.Must(t, p.Heal(), p.Heal())
	conn, err := net.Dial("tcp", p.Addr())
	testkit.Must(t, err)
	testkit.Must(t, conn.Close())
}

// One side that has said all it had to say may still be listening.
func TestTheEndOfOneDirectionLeavesTheOther(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		text, _ := io.ReadAll(conn)
		_, _ = conn.Write(append([]byte("heard "), text...))
		_ = conn.Close()
	}()
	p := startProxy(t, l.Addr().String())
	p.Delay(tcpproxy.Both, 20*time.Millisecond)
	conn, err := net.Dial("tcp", p.Addr())
	testkit.Must(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "all")
	testkit.Must(t, err, conn.(*net.TCPConn).CloseWrite(), conn.SetDeadline(time.Now().Add(long)))
	if got, err := io.ReadAll(conn); string(got) != "heard all" || err != nil {
		t.Errorf("got %q, %v; want heard all", got, err)
	}
}

func TestTheEndOfAConnectionIsHandedOn(t *testing.T) {
	node, _, c := throughProxy(t, long)
	testkit.Must(t, c.Close())
	testkit.Eventually(t, "the client's end", func() bool { return node.Miniredis().CurrentConnectionCount() == 0 })

	node, _, c = throughProxy(t, long)
	node.Stop()
	started := time.Now()
	if err := c.Ping(t.Context()).Err(); err == nil || time.Since(started) > 5*time.Second {
		t.Errorf("with the server gone: got %v after %v; want an error at once", err, time.Since(started))
	}
}

func TestCloseEndsAProxyInAnyState(t *testing.T) {
	for name, fault := range map[string]func(*tcpproxy.Proxy){
		"clear":     func(*tcpproxy.Proxy) {},
		"held":      func(p *tcpproxy.Proxy) { p.Hold(tcpproxy.Both) },
		"dropped":   func(p *tcpproxy.Proxy) { p.Drop(tcpproxy.Both) },
		"delayed":   func(p *tcpproxy.Proxy) { p.Delay(tcpproxy.Both, time.Hour) },
		"half open": func(p *tcpproxy.Proxy) { p.HalfOpen() },
		"refusing":  func(p *tcpproxy.Proxy) { p.Refuse() },
	} {
		t.Run(name, func(t *testing.T) {
			_, p, c := throughProxy(t, long)
			fault(p)
			done := make(chan struct{})
			go func() { _ = c.Ping(t.Context()).Err(); close(done) }()
			// More than a lane holds, so that its reader is blocked too.
			conn, err := net.Dial("tcp", p.Addr())
			if err == nil {
				defer conn.Close()
				go func() { _, _ = conn.Write(make([]byte, 64<<20)) }()
			}
			p.Close()
			p.Close()
			<-done
			if _, err := net.Dial("tcp", p.Addr()); err == nil {
				t.Error("a closed proxy accepts")
			}
		})
	}
}

func TestAProxyInFrontOfARealServer(t *testing.T) {
	s := testserver.NeedOne(t, redisserver.Config{})
	p := startProxy(t, s.Addr())
	opts := s.Options()
	opts.Addr = p.Addr()
	patient := redis.NewClient(opts)
	defer patient.Close()
	big := strings.Repeat("x", 5<<20)
	testkit.Must(t, patient.Set(t.Context(), "big", big, 0).Err())
	if got := s.Client().Get(t.Context(), "big").Val(); got != big {
		t.Errorf("got %d bytes; want %d unchanged", len(got), len(big))
	}
	opts.ReadTimeout = middling
	c := redis.NewClient(opts)
	testkit.Must(t, c.Ping(t.Context()).Err())
	p.Hold(tcpproxy.Requests)
	if err := c.Set(t.Context(), "late", "v", 0).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v; want a timeout", err)
	}
	if n := s.Client().Exists(t.Context(), "late").Val(); n != 0 {
		t.Error("the command arrived while it was held")
	}
	testkit.Must(t, c.Close(), p.Heal())
	direct := s.Client()
	testkit.Eventually(t, "the late command", func() bool { return direct.Exists(t.Context(), "late").Val() == 1 })
}
