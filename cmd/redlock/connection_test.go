package main_test

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	main "github.com/quorumkit/redlock/cmd/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// brokenAtTheEnd is a connection that is an error to close, as one of TLS that was
// reset while it lay idle.
type brokenAtTheEnd struct{ net.Conn }

func (c brokenAtTheEnd) Close() error {
	_ = c.Conn.Close()
	return syscall.EPIPE
}

// By the time that the connections are closed, the command has done what it was for.
func TestABrokenConnectionIsNoFailureOfTheCommand(t *testing.T) {
	t.Parallel()
	node := redlocktest.Start(t, 1, redlocktest.WithTCP()).Node(0)
	client := func() *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: node.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return brokenAtTheEnd{conn}, err
		}})
		must(t, c.Ping(t.Context()).Err())
		return c
	}
	if err := client().Close(); err == nil {
		t.Error("closing the client: got nil; want the socket's error, or this shows nothing")
	}
	if err := main.CloseSession(client()); err != nil {
		t.Errorf("got %v; want nil", err)
	}
}
