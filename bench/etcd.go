package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
)

// etcdServers is how many servers of etcd stand beside the masters.
const etcdServers = 3

// etcdStart bounds their start.
const etcdStart = 30 * time.Second

var errNoEtcd = errors.New("no etcd in PATH")

// etcdCluster is etcd on this machine, with proxies before its servers.
type etcdCluster struct {
	version string
	far     []string // the proxies' addresses
	proxies []*chaos.Proxy
	running []*exec.Cmd
	data    string
}

// startEtcd starts them, and waits until they have a leader. The caller stops them.
func startEtcd(ctx context.Context) (e *etcdCluster, err error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return nil, errNoEtcd
	}
	e = &etcdCluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.stop())
		}
	}()
	said, err := exec.CommandContext(ctx, program, "--version").Output() //nolint:gosec // from PATH
	if err != nil {
		return e, err
	}
	first, _, _ := strings.Cut(string(said), "\n")
	e.version = strings.TrimPrefix(first, "etcd Version: ")
	if e.data, err = os.MkdirTemp("", "bench-etcd-"); err != nil {
		return e, err
	}
	var peers, clients, members []string
	for i := range etcdServers {
		for _, to := range []*[]string{&peers, &clients} {
			port, err := loopback.Port()
			if err != nil {
				return e, err
			}
			*to = append(*to, "http://127.0.0.1:"+strconv.Itoa(port))
		}
		members = append(members, "n"+strconv.Itoa(i)+"="+peers[i])
	}
	for i := range etcdServers {
		if err := e.start(program, i, peers[i], clients[i], strings.Join(members, ",")); err != nil { //nolint:contextcheck // it is stopped by stop
			return e, err
		}
	}
	return e, e.ready(ctx)
}

// start starts server i, with a proxy before it.
func (e *etcdCluster) start(program string, i int, peer, client, members string) error {
	p, err := chaos.NewProxy(strings.TrimPrefix(client, "http://"))
	if err != nil {
		return err
	}
	p.Delay(chaos.Both, wakeDelay)
	e.proxies, e.far = append(e.proxies, p), append(e.far, p.Addr())
	name := "n" + strconv.Itoa(i)
	cmd := exec.Command(program, //nolint:gosec,noctx // from PATH; stop ends it
		"--name", name, "--data-dir", filepath.Join(e.data, name),
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--initial-cluster", members, "--initial-cluster-state", "new", "--initial-cluster-token", e.data,
		"--heartbeat-interval", "200", "--election-timeout", "2000", // of busy machines
		"--logger", "zap", "--log-level", "error")
	if err := cmd.Start(); err != nil {
		return err
	}
	e.running = append(e.running, cmd)
	return nil
}

// ready waits until they take a write.
func (e *etcdCluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcdStart)
	defer cancel()
	c, err := etcdClient(ctx, e.far)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, err := c.Put(once, "ready", "yes")
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// stop ends them, and removes their data.
func (e *etcdCluster) stop() error {
	for _, cmd := range e.running {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}
	for _, p := range e.proxies {
		p.Close()
	}
	if e.data == "" {
		return nil
	}
	return os.RemoveAll(e.data)
}

func etcdClient(ctx context.Context, addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: etcdStart, Context: ctx, Logger: zap.NewNop()})
}

// etcdCandidate stands for elections of etcd.
type etcdCandidate struct{ session *concurrency.Session }

func openEtcdCandidate(ctx context.Context, addrs []string) (candidate, error) {
	c, err := etcdClient(ctx, addrs)
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(int(electionTTL/time.Second)))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return etcdCandidate{s}, nil
}

func (c etcdCandidate) lead(ctx context.Context, name string, elected func() error, resign func()) (from time.Time, err error) {
	e := concurrency.NewElection(c.session, name)
	if err := e.Campaign(ctx, "bench"); err != nil {
		return from, err
	}
	if err := elected(); err != nil {
		return from, err
	}
	resign()
	from = time.Now()
	return from, e.Resign(ctx)
}
