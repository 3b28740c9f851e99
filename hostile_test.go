package redlock_test

import (
	"bytes"
	"context"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// forged is a connection on which some of the server's replies and pushes are others. Where
// what stands in for one is less or more than a reply, all that follow are misread.
type forged struct {
	net.Conn

	forge   func(reply []byte) []byte
	in, out []byte
}

func (c *forged) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		buf := make([]byte, 4096)
		n, err := c.Conn.Read(buf)
		c.in = append(c.in, buf[:n]...)
		for size := respSize(c.in); size > 0; size = respSize(c.in) {
			c.out, c.in = append(c.out, c.forge(c.in[:size])...), c.in[size:]
		}
		if err != nil && len(c.out) == 0 {
			return 0, err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// respSize is the length of the first reply in b; 0 while it is not complete.
func respSize(b []byte) int {
	line, _, ended := bytes.Cut(b, []byte("\r\n"))
	if !ended || len(line) == 0 {
		return 0
	}
	size := len(line) + 2
	n, _ := strconv.Atoi(string(line[1:]))
	if n < 0 {
		return size
	}
	switch line[0] {
	case '$', '!', '=':
		if size += n + 2; size > len(b) {
			return 0
		}
		return size
	case '%', '|':
		n *= 2
	case '*', '~', '>':
	default:
		return size
	}
	for range n {
		item := respSize(b[size:])
		if item == 0 {
			return 0
		}
		size += item
	}
	return size
}

// FuzzReplies: no matter what a node says, and when, the library neither panics nor hangs.
// From one of its replies on, each of so many is another one. go-redis believes any length, and
// takes the memory: a length of five digits is left out here.
func FuzzReplies(f *testing.F) {
	replies := []string{
		"", "*0\r\n", "$-1\r\n", "_\r\n", ":1\r\n", ":-1\r\n", "+OK\r\n", "+QUEUED\r\n", "-ERR x\r\n", "-NOSCRIPT x\r\n", "-MOVED 1 127.0.0.1:1\r\n", "-EXECABORT x\r\n",
		"*1\r\n*0\r\n", "*2\r\n$-1\r\n:7\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "%1\r\n+a\r\n+b\r\n", "~1\r\n+a\r\n", ",1.5\r\n", ",nan\r\n", "#t\r\n", "(9\r\n", "=5\r\ntxt:x\r\n",
		"$8\r\nrun_id:x\r\n", "*2\r\n+redlock:shared\r\n,nan\r\n", ">3\r\n+message\r\n+redlock:wake:x\r\n+y\r\n", ">1\r\n+invalidate\r\n", "$5\r\nab", "\r\n", "*-1\r\n",
	}
	for i, reply := range replies {
		for from := i % testkit.Of(9, 1); from < 60; from += testkit.Of(9, 1) {
			f.Add(uint8(from), uint8(i%5), (i+from)%3 == 0, []byte(reply))
		}
	}
	long := regexp.MustCompile(`[*$%~>|=!]\+?\d{5}`)
	f.Fuzz(func(t *testing.T, from, every uint8, unprotected bool, reply []byte) {
		if long.Match(reply) {
			t.Skip("a length that go-redis would believe")
		}
		synctest.Test(t, func(t *testing.T) {
			var seen atomic.Int64
			began := time.Now()
			useAll(t, unprotected, func(honest []byte) []byte {
				if n := seen.Add(1) - int64(from); n < 0 || n%(int64(every)+1) != 0 {
					return honest
				}
				return reply
			})
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("all calls took %v; want each to end in its time", took)
			}
		})
	})
}

// useAll does all that a program does with a node, which may say anything.
func useAll(t *testing.T, unprotected bool, forge func([]byte) []byte) {
	t.Helper()
	o := redlocktest.Start(t, 1).Node(0).Options()
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			conn = &forged{Conn: conn, forge: forge}
		}
		return conn, err
	}
	opts := []redlock.Option{redlock.WithNodeNames("node-0")}
	if unprotected {
		opts = append(opts, redlock.WithoutMembership())
	}
	c := redis.NewClient(o)
	defer c.Close()
	l, err := redlock.New([]redis.UniversalClient{c}, opts...)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _ = l.Cluster().Status(ctx)
	for _, kind := range [][]redlock.AcquireOption{nil, {redlock.WithShared()}, {redlock.WithLimit(2), redlock.WithRevocation()}} {
		lock, err := l.Acquire(ctx, "k", append(kind, redlock.WithWait(time.Second))...)
		_, _ = l.Inspect(ctx, "k")
		_ = l.Revoke(ctx, "other")
		if err == nil {
			_ = lock.Extend(ctx, redlock.DefaultTTL)
			_ = lock.Release(ctx)
		}
	}
	observing, stop := context.WithTimeout(ctx, 3*time.Second)
	for _, err := range l.Observe(observing, "k") {
		_ = err
	}
	stop()
	_, _ = l.Cluster().Check(ctx)
	_ = l.Cluster().Change(ctx, redlock.Wanted{MaxTTL: redlock.DefaultTTL}, redlock.ChangeOptions{EndStragglers: true})
	_ = l.Close()
}
