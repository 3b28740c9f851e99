package contenders

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/chaos"
)

// redisNode is a master without persistence: a process that ends takes all with it.
type redisNode struct {
	*chaos.Server

	clock bool // it can be set
}

func (n *redisNode) addr() string { return n.Addr() }
func (n *redisNode) start() error { return n.Restart() }
func (n *redisNode) kill() error  { return n.Kill() }
func (n *redisNode) hang() error  { return n.Pause() }
func (n *redisNode) wake() error  { return n.Resume() }
func (n *redisNode) pids() []int  { return []int{n.PID()} }

func (n *redisNode) step(seconds int) error {
	if !n.clock {
		return errNoClock
	}
	return n.SetClock(fmt.Sprintf("%+d", seconds))
}

// redisReplica follows a master over a line that can be held.
type redisReplica struct {
	of     *redisNode
	server *chaos.Server
	line   *chaos.Proxy
}

// follow starts a replica, and returns when it has a copy.
func (n *redisNode) follow(ctx context.Context) (replica, error) {
	line, err := chaos.NewProxy(n.Addr())
	if err != nil {
		return nil, err
	}
	server, err := chaos.StartServer(chaos.ServerConfig{FakeClock: n.clock, ReplicaOf: line.Addr()})
	if err != nil {
		line.Close()
		return nil, err
	}
	r := &redisReplica{n, server, line}
	if err := r.synced(ctx); err != nil {
		r.leave()
		return nil, fmt.Errorf("the replica has no copy: %w", err)
	}
	return r, nil
}

func (r *redisReplica) synced(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	client := r.server.Client()
	defer func() { _ = client.Close() }()
	for {
		got, err := client.InfoMap(ctx, "replication").Result()
		if err == nil && got["Replication"]["master_link_status"] == "up" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (r *redisReplica) lag() { r.line.Hold(chaos.Both) }

// promote makes the replica the node, which has been killed.
func (r *redisReplica) promote(ctx context.Context) error {
	r.line.Close()
	client := r.server.Client()
	defer func() { _ = client.Close() }()
	if err := client.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		return err
	}
	old := r.of.Server
	r.of.Server, r.server = r.server, nil
	return old.Close()
}

func (r *redisReplica) leave() {
	r.line.Close()
	if r.server != nil {
		_ = r.server.Close() // its directory is a temporary one
	}
}

// goRedis is a client as it comes, but that a context bounds its calls: without that
// who gives up is held until the server answers.
func goRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
}

// startRedis starts n masters, whose clocks can be set where there is a C compiler.
func startRedis(n int) (*system, error) {
	began := time.Now()
	servers, err := chaos.StartServers(n, chaos.ServerConfig{FakeClock: true})
	clock := !errors.Is(err, chaos.ErrNoFakeClock)
	if !clock {
		servers, err = chaos.StartServers(n, chaos.ServerConfig{})
	}
	if errors.Is(err, chaos.ErrNoServer) {
		return nil, errors.Join(errNotInstalled, err)
	}
	if err != nil {
		return nil, err
	}
	s, err := newSystem("redis")
	if err != nil {
		return nil, errors.Join(err, chaos.CloseServers(servers))
	}
	var masters []*redisNode
	for _, server := range servers {
		n := &redisNode{server, clock}
		s.nodes, masters = append(s.nodes, n), append(masters, n)
	}
	s.ready = func(context.Context, []string) error { return nil } // a server was waited for
	s.undo = func() {
		for _, n := range masters { // as they are then: one may have failed over
			_ = n.Close() // its directory is a temporary one
		}
	}
	s.took, s.memory, s.version = time.Since(began), memoryOf(s.nodes), redisVersion(servers[0].Program())
	return s, nil
}

// redisVersion is what the program says of itself: "Redis server v=7.0.15 sha=...".
func redisVersion(program string) string {
	said, err := exec.Command(program, "--version").Output() //nolint:noctx // the server's own program, which answers at once
	words := strings.Fields(string(said))
	if err != nil || len(words) < 3 {
		return ""
	}
	return words[0] + " " + strings.TrimPrefix(words[2], "v=")
}
