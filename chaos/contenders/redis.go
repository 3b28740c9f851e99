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

func (n redisNode) addr() string { return n.Addr() }
func (n redisNode) start() error { return n.Restart() }
func (n redisNode) kill() error  { return n.Kill() }
func (n redisNode) hang() error  { return n.Pause() }
func (n redisNode) wake() error  { return n.Resume() }
func (n redisNode) pids() []int  { return []int{n.PID()} }

func (n redisNode) step(seconds int) error {
	if !n.clock {
		return errNoClock
	}
	return n.SetClock(fmt.Sprintf("%+d", seconds))
}

// goRedis is a client as it comes, but that a context bounds its calls: without that
// whoever gives up is held until the server answers.
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
	for _, server := range servers {
		s.nodes = append(s.nodes, redisNode{server, clock})
	}
	s.ready = func(context.Context, []string) error { return nil } // a server was waited for
	s.undo = func() { _ = chaos.CloseServers(servers) }            // their directories are temporary
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
