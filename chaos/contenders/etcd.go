package contenders

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdServers are for busy machines: an election takes two seconds. The ports are for
// clients and for peers.
var etcdServers = kind{
	words: "3 servers, on disk", label: "etcd", nodes: 3, ports: 2, root: true,
	find: installed("etcd", "etcd-server", ""),
	args: func(s *system, i int) []string {
		var members []string
		for j := range s.kind.nodes {
			members = append(members, fmt.Sprintf("n%d=http://%s", j, s.local(j, 1)))
		}
		client, peer := "http://"+s.local(i, 0), "http://"+s.local(i, 1)
		return []string{
			"--name", fmt.Sprint("n", i), "--data-dir", s.file("n", i),
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new", "--initial-cluster-token", s.dir,
			"--heartbeat-interval", "200", "--election-timeout", "2000",
			"--logger", "zap", "--log-level", "error",
		}
	},
	// A write is the sign that the cluster has a leader.
	ready: func(ctx context.Context, s *system) error {
		c, err := etcdClient(ctx, s.addrs(), 0)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.Put(ctx, "ready", "yes")
		return err
	},
	leader: etcdLeader,
}

// etcdPings is how often a client asks a connection whether it lives: grpc has no less.
const etcdPings = 10 * time.Second

// etcdClient asks its connections so often whether they live; with 0 never, as it comes.
func etcdClient(ctx context.Context, addrs []string, pings time.Duration) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: addrs, DialTimeout: startBound, Context: context.WithoutCancel(ctx), Logger: zap.NewNop(),
		DialKeepAliveTime: pings, DialKeepAliveTimeout: lease / 3,
	})
}

// etcdLeader is the number of the server that leads.
func etcdLeader(ctx context.Context, addrs []string) (int, error) {
	c, err := etcdClient(ctx, addrs, 0)
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

// openEtcd takes a session for each hold: its lease, which the client keeps alive, is the
// lock's.
func openEtcd(pings time.Duration) opener {
	return func(ctx context.Context, addrs []string) (acquirer, error) {
		c, err := etcdClient(ctx, addrs, pings)
		return func(ctx context.Context, name string) (*lock, error) {
			// A lease that was granted to nobody who keeps it alive ends by itself.
			granted, err := c.Grant(ctx, int64(lease/time.Second))
			if err != nil {
				return nil, err
			}
			s, err := concurrency.NewSession(c, concurrency.WithLease(granted.ID))
			if err != nil {
				return nil, err
			}
			m := concurrency.NewMutex(s, "/locks/"+name)
			if err := m.Lock(ctx); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			l := ofLibrary(s.Done(), func(ctx context.Context) error { return errors.Join(m.Unlock(ctx), s.Close()) })
			l.ask = func(ctx context.Context) (bool, error) {
				r, err := c.Txn(ctx).If(m.IsOwner()).Commit()
				return err == nil && r.Succeeded, err
			}
			var revision int64
			got, err := c.Get(ctx, m.Key())
			if err == nil && len(got.Kvs) == 1 {
				revision = got.Kvs[0].CreateRevision
			}
			l.fence = fmt.Sprint(revision)
			return l, err
		}, err
	}
}
