package contenders

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/quorumkit/redlock"
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
	ready: led,
	leads: func(ctx context.Context, addr string) (bool, error) {
		c, err := etcdClient(ctx, []string{addr}, 0)
		if err != nil {
			return false, err
		}
		defer func() { _ = c.Close() }()
		is, err := c.Status(ctx, addr)
		return err == nil && is.Leader == is.Header.MemberId, err
	},
}

// led is that a server leads, which a majority has elected.
func led(ctx context.Context, s *system) error {
	_, err := s.leader(ctx)
	return err
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

// openEtcd takes a session for each hold, whose lease is the lock's.
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
			l := &lock{told: s.Done(), teller: byLibrary, release: func(ctx context.Context) error { return errors.Join(m.Unlock(ctx), s.Close()) }}
			got, err := c.Get(ctx, m.Key())
			if err == nil && len(got.Kvs) == 1 {
				l.fence = redlock.Token(got.Kvs[0].CreateRevision) //nolint:gosec // it counts up from 1
			}
			return l, err
		}, err
	}
}

// zookeeperServers have ports for clients, peers and elections.
var zookeeperServers = kind{
	words: "3 servers, on disk", nodes: 3, ports: 3, clock: true, root: true,
	find: installed("java", "default-jre-headless", ""),
	prepare: func(_ context.Context, s *system) error {
		jars, _ := filepath.Glob(zookeeperJars)
		if len(jars) == 0 {
			return fmt.Errorf("zookeeper.jar: %w; Debian's package is libzookeeper-java", errNotInstalled)
		}
		s.version = "ZooKeeper " + number.FindString(jars[0])
		var errs []error
		for i := range s.kind.nodes {
			errs = append(errs, s.configureZooKeeper(i))
		}
		return errors.Join(errs...)
	},
	args: func(s *system, i int) []string {
		return []string{
			"-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.admin.enableServer=false",
			"-cp", zookeeperClasspath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", s.file("server", i, "/zoo.cfg"),
		}
	},
	ready: led,
	leads: func(ctx context.Context, addr string) (bool, error) {
		said, err := says(ctx, addr, "srvr")
		return strings.Contains(said, "\nMode: leader\n"), err
	},
}

// Debian's zookeeper.jar names the others that the server needs; slf4j-simple prints why
// a server did not start.
const (
	zookeeperJars      = "/usr/share/java/zookeeper-[0-9]*.jar" // with its version
	zookeeperClasspath = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
)

func (s *system) configureZooKeeper(i int) error {
	dir := s.file("server", i)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	text := fmt.Sprintf("tickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"+
		"admin.enableServer=false\n4lw.commands.whitelist=srvr\n", dir, s.port(i, 0))
	for j := range s.kind.nodes {
		text += fmt.Sprintf("server.%d=%s:%d\n", j+1, s.local(j, 1), s.port(j, 2))
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "myid"), fmt.Append(nil, i+1), 0o600),
		os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(text), 0o600))
}

func openZooKeeper(_ context.Context, addrs []string) (acquirer, error) {
	return func(ctx context.Context, name string) (*lock, error) {
		conn, events, err := zk.Connect(addrs, lease, zk.WithLogger(quiet))
		if err != nil {
			return nil, err
		}
		l := &zookeeperLock{conn: conn, path: "/locks-" + name, lost: make(chan struct{})}
		go l.follow(events)
		mutex := zk.NewLock(conn, l.path, zk.WorldACL(zk.PermAll))
		bounded := context.AfterFunc(ctx, conn.Close) // and the session with it, with all that it has put there
		err = mutex.Lock()
		if !bounded() {
			return nil, errors.Join(ctx.Err(), err)
		}
		var czxid redlock.Token
		if err == nil {
			czxid, err = l.number()
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
		return &lock{told: l.lost, teller: byLibrary, sure: func() bool { return !l.off.Load() }, by: byLibrary, fence: czxid, release: func(context.Context) error {
			defer conn.Close()
			return mutex.Unlock()
		}}, nil
	}, nil
}

type zookeeperLock struct {
	conn *zk.Conn
	path string
	lost chan struct{} // closed when the session has expired
	mine atomic.Int64  // the session in which it was taken; 0: not yet
	off  atomic.Bool   // not connected, so nothing is sure
}

// follow hears what the connection says. It says nothing of a lock, but a session
// that has expired has no lock any more; and one that is not connected can't know.
func (l *zookeeperLock) follow(events <-chan zk.Event) {
	var lost sync.Once
	for e := range events {
		switch e.State {
		case zk.StateDisconnected, zk.StateConnecting:
			l.off.Store(true)
		case zk.StateHasSession:
			if own := l.mine.Load(); own != 0 && own != l.conn.SessionID() {
				lost.Do(func() { close(l.lost) })
			}
			l.off.Store(false)
		case zk.StateExpired:
			lost.Do(func() { close(l.lost) })
		case zk.StateUnknown, zk.StateAuthFailed, zk.StateConnectedReadOnly, zk.StateSaslAuthenticated, zk.StateConnected, zk.StateSyncConnected:
		}
	}
}

// number finds the lock's node, which is the first of them, and when it was created.
func (l *zookeeperLock) number() (redlock.Token, error) {
	names, _, err := l.conn.Children(l.path)
	if err != nil || len(names) == 0 {
		return 0, errors.Join(errNotHeld, err)
	}
	_, stat, err := l.conn.Get(l.path + "/" + slices.MinFunc(names, func(a, b string) int {
		return strings.Compare(a[strings.LastIndex(a, "-"):], b[strings.LastIndex(b, "-"):]) // they end in a number of ten digits
	}))
	if err != nil {
		return 0, err
	}
	l.mine.Store(l.conn.SessionID())
	return redlock.Token(stat.Czxid), nil //nolint:gosec // it counts up from 1
}
