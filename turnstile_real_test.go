package redlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// narrowly opens clients whose pools have so many connections each, for pipelines too.
func narrowly(t *testing.T, servers []*redisserver.Server, connections int) []redis.UniversalClient {
	t.Helper()
	var clients []redis.UniversalClient
	for _, s := range servers {
		o := s.Options()
		o.MaxActiveConns, o.PipelinePoolSize = connections, -1
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// Locks without a pause keep a connection busy. Where the pool has no other, Status
// and the reconcile loop need it as well, and the locks may not pay for that with votes.
func TestOneConnectionANodeIsEnough(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"alone": 0, "beside the program": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 3, redisserver.Config{})
			clients := narrowly(t, servers, 1+others)
			machine := testkit.WatchMachine(t)
			l := lockerWith(t, clients, append(short(), redlock.WithNodeNames(addresses(servers)...), redlock.WithNodeTimeout(450*time.Millisecond))...)
			admitted(t, l)
			if others > 0 {
				occupy(t, clients)
			}
			var made, failed atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					lock, err := l.TryAcquire(ctx, "orders/42")
					switch {
					case err == nil:
						made.Add(1)
						_ = lock.Release(context.WithoutCancel(ctx))
					case !errors.Is(err, context.Canceled):
						failed.Add(1)
					}
				}
			}()
			missed := 0
			for range 50 {
				for _, n := range status(t, l).Nodes {
					if n.State != redlock.NodeMember {
						if missed++; missed < 4 {
							t.Logf("%s is %s: %s", n.Name, n.State, n.Cause)
						}
					}
				}
			}
			if missed > 0 {
				machine.Excuse(t, 100*time.Millisecond) // a look has 450 ms
				t.Errorf("Status could not look at a node that votes %d times of 150", missed)
			}
			for range 5 {
				for _, s := range servers {
					c := s.Client()
					must(t, c.ScriptFlush(t.Context()).Err())
					must(t, c.Close())
				}
				before := l.Stats().Nodes
				pollUntil(t, 5*time.Second, "the scripts are there again, and each node grants locks", func() bool {
					for i, now := range l.Stats().Nodes {
						if now.Granted < before[i].Granted+5 {
							return false
						}
					}
					return true
				})
			}
			must(t, servers[1].RestartEmpty())
			pollUntil(t, shortMax+20*time.Second, "the node that forgot is a member again", func() bool { return votes(t, l) == 3 })
			cancel()
			<-ended
			t.Logf("%d locks, %d refusals", made.Load(), failed.Load())
			if failed.Load() > 3 { // the restart itself may cost one
				t.Errorf("%d acquisitions failed of %d; want none for want of a connection", failed.Load(), made.Load())
			}
		})
	}
}
