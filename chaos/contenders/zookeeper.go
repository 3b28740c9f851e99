package contenders

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
)

var zookeeperSpec = spec{
	name: "ZooKeeper", module: "github.com/go-zookeeper/zk", servers: "3 servers, on disk",
	fence: "czxid of the lock's node", notice: "library: an event of the connection, not of the lock",
	start: startZooKeeper, open: openZooKeeper,
}

// zookeeperJars is where Debian has what its server needs.
const zookeeperJars = "/usr/share/java"

// startZooKeeper starts three servers.
func startZooKeeper(ctx context.Context) (*system, error) {
	java, err := lookFor("java", "default-jre-headless")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(zookeeperJars, "zookeeper.jar")); err != nil {
		return nil, fmt.Errorf("zookeeper.jar: %w; Debian's package is libzookeeper-java", errNotInstalled)
	}
	s, err := newSystem("zookeeper")
	if err != nil {
		return nil, err
	}
	ports, err := s.freePorts(9) // of each server: clients, peers, elections
	if err != nil {
		s.close()
		return nil, err
	}
	var members strings.Builder
	for i := range 3 {
		fmt.Fprintf(&members, "server.%d=127.0.0.1:%d:%d\n", i+1, ports[3+i], ports[6+i])
	}
	for i := range 3 {
		config, err := s.zookeeperConfig(i, ports[i], members.String())
		if err != nil {
			s.close()
			return nil, err
		}
		s.add(&proc{path: java, address: local(ports[i]), clock: true, args: []string{
			"-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.admin.enableServer=false",
			"-cp", zookeeperClasspath(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
		}})
	}
	s.leader = zookeeperLeader
	return s.begin(ctx, func(ctx context.Context, addrs []string) error {
		if s.version, err = zookeeperSays(ctx, addrs[0], "version"); err != nil {
			return err
		}
		_, err := zookeeperLeader(ctx, addrs)
		return err
	})
}

// zookeeperConfig writes the directory and the configuration of a server.
func (s *system) zookeeperConfig(i, port int, members string) (string, error) {
	dir := filepath.Join(s.dir, fmt.Sprint("server", i))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "myid"), fmt.Append(nil, i+1), 0o600); err != nil {
		return "", err
	}
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("tickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"+
		"admin.enableServer=false\n4lw.commands.whitelist=srvr\n%s", dir, port, members)
	return config, os.WriteFile(config, []byte(text), 0o600)
}

// zookeeperClasspath is the server's own jar, and what Debian's package depends on.
func zookeeperClasspath() string {
	jars := []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-all", "netty-common", "netty-buffer", "netty-handler",
		"netty-transport", "netty-resolver", "netty-codec", "netty-transport-native-epoll", "metrics-core", "snappy-java", "jackson-core", "jackson-databind", "jackson-annotations",
		"commons-cli", "commons-io", "guava", "spotbugs-annotations",
	}
	for i, jar := range jars {
		jars[i] = filepath.Join(zookeeperJars, jar+".jar")
	}
	return strings.Join(jars, ":")
}

// zookeeperSays asks a server by the four letters srvr: its version, or its mode.
func zookeeperSays(ctx context.Context, addr, what string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	if err == nil {
		_, err = conn.Write([]byte("srvr"))
	}
	if err != nil {
		return "", err
	}
	return readSrvr(conn, what)
}

// zookeeperLeader is the number of the server that leads.
func zookeeperLeader(ctx context.Context, addrs []string) (int, error) {
	for i, addr := range addrs {
		mode, err := zookeeperSays(ctx, addr, "mode")
		if err != nil {
			return 0, err
		}
		if mode == "leader" {
			return i, nil
		}
	}
	return 0, errors.New("ZooKeeper has no leader")
}

type zookeeperLocks struct{ addrs []string }

func openZooKeeper(_ context.Context, addrs []string) (client, error) {
	return zookeeperLocks{addrs}, nil
}

// acquire takes a session for each hold.
func (c zookeeperLocks) acquire(ctx context.Context, name string) (lock, error) {
	conn, events, err := zk.Connect(c.addrs, lease, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	l := &zookeeperLock{conn: conn, path: "/locks-" + name, news: make(chan string, 1)}
	go l.follow(events)
	l.lock = zk.NewLock(conn, l.path, zk.WorldACL(zk.PermAll))
	got := make(chan error, 1)
	go func() { got <- l.lock.Lock() }()
	select {
	case err = <-got:
	case <-ctx.Done():
		conn.Close() // and the session with it, with all that it has put there
		return nil, errors.Join(ctx.Err(), <-got)
	}
	if err == nil {
		err = l.number()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

func (zookeeperLocks) close() error { return nil }

type zookeeperLock struct {
	conn  *zk.Conn
	lock  *zk.Lock
	path  string
	own   string // the lock's node
	czxid int64
	news  chan string
	mine  atomic.Int64 // the session in which it was taken; 0: not yet
	off   atomic.Bool  // not connected, so nothing is sure
	gone  atomic.Bool  // the session has expired
}

// follow hears what the connection says. It says nothing of a lock, but a session
// that has expired has no lock any more; and one that is not connected can't know.
func (l *zookeeperLock) follow(events <-chan zk.Event) {
	for e := range events {
		switch e.State {
		case zk.StateDisconnected, zk.StateConnecting:
			l.off.Store(true)
		case zk.StateExpired:
			if !l.gone.Swap(true) {
				l.news <- byLibrary
			}
		case zk.StateHasSession:
			if own := l.mine.Load(); own != 0 && own != l.conn.SessionID() && !l.gone.Swap(true) {
				l.news <- byLibrary
			}
			l.off.Store(false)
		case zk.StateUnknown, zk.StateAuthFailed, zk.StateConnectedReadOnly, zk.StateSaslAuthenticated, zk.StateConnected, zk.StateSyncConnected:
		}
	}
}

// number finds the lock's node, which is the first of them, and when it was created.
func (l *zookeeperLock) number() error {
	names, _, err := l.conn.Children(l.path)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errNotHeld
	}
	first := slices.MinFunc(names, func(a, b string) int {
		return strings.Compare(a[strings.LastIndex(a, "-"):], b[strings.LastIndex(b, "-"):]) // they end in a number of ten digits
	})
	l.own = l.path + "/" + first
	_, stat, err := l.conn.Get(l.own)
	if err != nil {
		return err
	}
	l.czxid = stat.Czxid
	l.mine.Store(l.conn.SessionID())
	return nil
}

func (l *zookeeperLock) held() bool          { return !l.gone.Load() && !l.off.Load() }
func (l *zookeeperLock) counts() string      { return byLibrary }
func (l *zookeeperLock) told() <-chan string { return l.news }
func (l *zookeeperLock) fence() string       { return fmt.Sprint(l.czxid) }

func (l *zookeeperLock) ask(context.Context) (bool, error) {
	is, _, err := l.conn.Exists(l.own)
	return is, err
}

func (l *zookeeperLock) release(context.Context) error {
	defer l.conn.Close()
	return l.lock.Unlock()
}
