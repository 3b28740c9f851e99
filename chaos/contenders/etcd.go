package contenders

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

var etcdSpec = spec{
	name: "etcd", module: "go.etcd.io/etcd/client/v3", servers: "3 servers, on disk",
	fence: "create revision", notice: "library: `Session.Done`",
	start: startEtcd, open: openEtcd, plain: openEtcdPlain,
}

// startEtcd starts three servers, for busy machines: an election takes two seconds.
func startEtcd(ctx context.Context) (*system, error) {
	program, err := lookFor("etcd", "etcd-server")
	if err != nil {
		return nil, err
	}
	s, err := newSystem("etcd")
	if err != nil {
		return nil, err
	}
	peers, err1 := s.freePorts(3)
	clients, err2 := s.freePorts(3)
	if err := errors.Join(err1, err2); err != nil {
		s.close()
		return nil, err
	}
	var members []string
	for i, port := range peers {
		members = append(members, fmt.Sprintf("n%d=http://%s", i, local(port)))
	}
	for i := range peers {
		peer, client := "http://"+local(peers[i]), "http://"+local(clients[i])
		s.add(&proc{path: program, address: local(clients[i]), args: []string{
			"--name", fmt.Sprintf("n%d", i), "--data-dir", filepath.Join(s.dir, fmt.Sprintf("n%d", i)),
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new", "--initial-cluster-token", s.dir,
			"--heartbeat-interval", "200", "--election-timeout", "2000",
			"--logger", "zap", "--log-level", "error",
		}})
	}
	said, err := exec.CommandContext(ctx, program, "--version").Output() //nolint:gosec // from PATH
	if err == nil {
		first, _, _ := strings.Cut(string(said), "\n")
		s.version = strings.Replace(first, "etcd Version:", "etcd", 1)
	}
	s.leader = etcdLeader
	return s.begin(ctx, etcdTakesAWrite)
}

func etcdClientOf(ctx context.Context, addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: startBound, Context: context.WithoutCancel(ctx), Logger: zap.NewNop()})
}

// etcdTakesAWrite is that the cluster has a leader.
func etcdTakesAWrite(ctx context.Context, addrs []string) error {
	c, err := etcdClientOf(ctx, addrs)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = c.Put(ctx, "ready", "yes")
	return err
}

// etcdLeader is the number of the server that leads.
func etcdLeader(ctx context.Context, addrs []string) (int, error) {
	c, err := etcdClientOf(ctx, addrs)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	for i, addr := range addrs {
		is, err := c.Status(ctx, addr)
		if err != nil {
			return 0, err
		}
		if is.Leader == is.Header.MemberId {
			return i, nil
		}
	}
	return 0, errors.New("etcd has no leader")
}

type etcdLocks struct{ client *clientv3.Client }

// etcdPings is how often a client asks a connection whether it lives: grpc has no less.
const etcdPings = 10 * time.Second

func openEtcd(ctx context.Context, addrs []string) (client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, DialTimeout: startBound, Context: context.WithoutCancel(ctx), Logger: zap.NewNop(),
		DialKeepAliveTime: etcdPings, DialKeepAliveTimeout: lease / 3,
	})
	if err != nil {
		return nil, err
	}
	return etcdLocks{c}, nil
}

// openEtcdPlain has a client that never asks.
func openEtcdPlain(ctx context.Context, addrs []string) (client, error) {
	c, err := etcdClientOf(ctx, addrs)
	if err != nil {
		return nil, err
	}
	return etcdLocks{c}, nil
}

// acquire takes a session for each hold: its lease, which the client keeps alive, is
// the lock's.
func (c etcdLocks) acquire(ctx context.Context, name string) (lock, error) {
	// A lease that was granted to nobody who keeps it alive ends by itself.
	granted, err := c.client.Grant(ctx, int64(lease/time.Second))
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(c.client, concurrency.WithLease(granted.ID))
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s, "/locks/"+name)
	if err := m.Lock(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	l := &etcdLock{client: c.client, session: s, mutex: m, news: forward(s.Done(), byLibrary)}
	got, err := c.client.Get(ctx, m.Key())
	if err == nil && len(got.Kvs) == 1 {
		l.revision = got.Kvs[0].CreateRevision
	}
	return l, err
}

func (c etcdLocks) close() error { return c.client.Close() }

type etcdLock struct {
	client   *clientv3.Client
	session  *concurrency.Session
	mutex    *concurrency.Mutex
	news     <-chan string
	revision int64
}

func (l *etcdLock) held() bool {
	select {
	case <-l.session.Done():
		return false
	default:
		return true
	}
}

func (l *etcdLock) counts() string      { return byLibrary }
func (l *etcdLock) told() <-chan string { return l.news }
func (l *etcdLock) fence() string       { return fmt.Sprint(l.revision) }

func (l *etcdLock) ask(ctx context.Context) (bool, error) {
	r, err := l.client.Txn(ctx).If(l.mutex.IsOwner()).Commit()
	return err == nil && r.Succeeded, err
}

func (l *etcdLock) release(ctx context.Context) error {
	return errors.Join(l.mutex.Unlock(ctx), l.session.Close())
}
