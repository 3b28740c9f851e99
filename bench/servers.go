package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
)

// nodes is how many masters a run has.
const nodes = 5

// controlBound bounds each command that a workload sends beside what it measures.
const controlBound = 20 * time.Second

// server is one real master without persistence, and a client for what is not
// measured.
type server struct {
	*chaos.Server
	control *redis.Client
}

// cluster is the masters of a run.
type cluster []*server

// startCluster starts n masters of a server program. The caller stops them.
func startCluster(program string, n int) (cluster, error) {
	started, err := chaos.StartServers(n, chaos.ServerConfig{
		Binary: program,
		Args:   []string{"--maxclients", "20000", "--latency-tracking", "no"},
	})
	if err != nil {
		return nil, err
	}
	var c cluster
	for _, s := range started {
		c = append(c, newServer(s))
	}
	return c, c.found(context.Background())
}

// found makes the new masters a cluster that votes at once: the run has just
// started them, so nobody holds anything.
func (c cluster) found(ctx context.Context) error {
	l, err := redlock.Open(ctx, c.addrs(), redlock.WithNodeTimeout(time.Second))
	if err != nil {
		return err
	}
	return errors.Join(l.Cluster().Admit(ctx), l.Close()) //nolint:contextcheck // Close is bounded by itself
}

func newServer(s *chaos.Server) *server { return &server{Server: s, control: s.Client()} }

// do sends one command; what the answer says comes back as text.
func (s *server) do(ctx context.Context, words ...any) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, controlBound)
	defer cancel()
	v, err := s.control.Do(ctx, words...).Result()
	if err != nil {
		return "", err
	}
	return fmt.Sprint(v), nil
}

// info returns the fields of one section of INFO.
func (s *server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.do(ctx, "INFO", section)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields, nil
}

func (c cluster) stop() error {
	var started []*chaos.Server
	for _, s := range c {
		started = append(started, s.Server)
	}
	return chaos.CloseServers(started)
}

// addrs lists the masters' addresses.
func (c cluster) addrs() []string {
	var out []string
	for _, s := range c {
		out = append(out, s.Addr())
	}
	return out
}
