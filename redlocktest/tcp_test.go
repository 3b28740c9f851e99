package redlocktest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

func tcpClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	testkit.Must(t, err)
	opts.MaxRetries, opts.DialerRetries, opts.ReadTimeout = -1, 1, short
	client := redis.NewClient(opts)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func TestATCPNodeIsOneNodeByBothWays(t *testing.T) {
	c := redlocktest.Start(t, 2, redlocktest.WithTCP(), redlocktest.WithoutFounding())
	node, ctx := c.Node(0), t.Context()
	if got, want := c.Names(), []string{node.Addr(), c.Node(1).Addr()}; !slices.Equal(got, want) {
		t.Errorf("got names %q; want the addresses %q", got, want)
	}
	client := tcpClient(t, c.URLs()[0])
	mustSet(t, client, "k", "v", 0)
	if got := c.Clients()[0].Get(ctx, "k").Val(); got != "v" {
		t.Errorf("got %q in memory; want v", got)
	}

	node.Stop()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a stopped node answered")
	}
	node.Start()
	if err := client.Ping(ctx).Err(); err != nil {
		t.Errorf("after the start: %v", err)
	}

	node.Hang()
	if err := client.Set(ctx, "late", "v", 0).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("while hung: got %v; want a timeout", err)
	}
	node.Resume()
	eventually(t, func() bool { return slices.Contains(node.Keys(), "late") })

	before := infoField(t, client, "server", "run_id")
	node.Restart()
	if after := infoField(t, client, "server", "run_id"); after == before {
		t.Error("the restart kept the run_id")
	}
}

func TestStoppingATCPNodeResetsItsConnections(t *testing.T) {
	c := redlocktest.Start(t, 1, redlocktest.WithTCP(), redlocktest.WithoutFounding())
	conn, err := net.Dial("tcp", c.Node(0).Addr())
	testkit.Must(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	c.Node(0).Stop()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v; want a reset, as of a process that was killed", err)
	}
}

func TestATCPNodeStopsWhileAClientFillsItsBuffers(t *testing.T) {
	c := redlocktest.Start(t, 1, redlocktest.WithTCP(), redlocktest.WithoutFounding())
	c.Node(0).Hang()
	client := tcpClient(t, c.URLs()[0])
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- client.Set(ctx, "k", string(make([]byte, 8<<20)), 0).Err() }()
	c.Node(0).Stop()
	cancel()
	if err := <-done; err == nil {
		t.Error("a stopped node answered")
	}
}
