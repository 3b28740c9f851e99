package tcpproxy_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/redlocktest"
)

// A partition that heals on the same connection: the client has given up, and
// its command is executed all the same.
func ExampleProxy_Hold() {
	nodes, err := redlocktest.Run(1, redlocktest.WithTCP(), redlocktest.WithoutFounding())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	proxy, err := tcpproxy.New(nodes.Node(0).Addr())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()

	opts := nodes.Node(0).Options()
	opts.Addr, opts.Dialer = proxy.Addr(), nil
	client := redis.NewClient(opts)
	defer client.Close()
	client.Ping(context.Background())

	proxy.Hold(tcpproxy.Requests)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	err = client.Set(ctx, "report", "me", 0).Err()
	fmt.Println("failed:", err != nil, "keys:", len(nodes.Node(0).Keys()))

	if err := proxy.Heal(); err != nil {
		fmt.Println(err)
	}
	for len(nodes.Node(0).Keys()) == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("and yet:", nodes.Node(0).Keys())
	// Output:
	// failed: true keys: 0
	// and yet: [report]
}
