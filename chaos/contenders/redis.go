package contenders

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/process"
)

// masterNames are the same for all processes: some reach the masters by proxies.
var masterNames = []string{"m0", "m1", "m2", "m3", "m4"}

var (
	redisMasters = redisKind("5 Redis masters, no persistence", len(masterNames))
	redisMaster  = redisKind("1 Redis master, no persistence", 1)
)

// redisKind is masters without persistence: a process that ends takes all with it.
func redisKind(words string, n int) kind {
	return kind{
		words: words, label: "Redis", nodes: n, ports: 1, clock: true, root: true,
		find: func() (string, error) {
			program, err := process.Find("")
			if err != nil {
				err = errors.Join(errNotInstalled, err)
			}
			return program, err
		},
		args: func(s *system, i int) []string {
			return []string{
				"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port(i, 0)), "--save", "", "--appendonly", "no",
				"--dir", s.dir, "--dbfilename", fmt.Sprint("copy-", i), // what a replica gets first
				// Without it a replica takes 5 s to get its first copy.
				"--repl-diskless-sync-delay", "0",
			}
		},
		ready: func(ctx context.Context, s *system) error {
			var errs []error
			for _, addr := range s.addrs() {
				errs = append(errs, expect(ctx, addr, "PING\r\nQUIT\r\n", "+PONG"))
			}
			return errors.Join(errs...)
		},
		replica: func(addr string) []string {
			host, port, _ := net.SplitHostPort(addr)
			return []string{"--replicaof", host, port}
		},
		synced: func(ctx context.Context, addr string) error {
			return expect(ctx, addr, "INFO replication\r\nQUIT\r\n", "master_link_status:up")
		},
		promote: func(ctx context.Context, addr string) error {
			return expect(ctx, addr, "REPLICAOF NO ONE\r\nQUIT\r\n", "+OK")
		},
	}
}

// goRedis is a client as it comes, but that a context bounds its calls: without that
// who gives up is held until the server answers.
func goRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
}

// plainRedis is a client as it comes: its timeouts heed no context.
func plainRedis(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }

func redlockOptions() []redlock.Option {
	return []redlock.Option{redlock.WithTTL(lease), redlock.WithMaxTTL(lease), redlock.WithNodeNames(masterNames...)}
}

// admitAll makes the masters a cluster that votes at once: they are new, so nobody holds
// anything. On a machine that starts everything else too a call may find its timeout
// over, with some of them taken in: it is sent again.
func admitAll(ctx context.Context, s *system) error {
	l, err := redlock.Open(ctx, s.addrs(), redlockOptions()...)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // what it held, nobody needs
	return eventually(ctx, "found the cluster", func(context.Context) error { return l.Cluster().Admit(ctx) })
}

func openRedlock(ctx context.Context, addrs []string) (acquirer, error) {
	locker, err := redlock.Open(ctx, addrs, redlockOptions()...)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, name string) (*lock, error) {
		l, err := locker.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		is := ofLibrary(l.Done(), l.Release)
		is.held = func() bool { return l.Err() == nil }
		is.fence = fmt.Sprint(uint64(l.Token()))
		return is, nil
	}, nil
}
