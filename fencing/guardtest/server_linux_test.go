package guardtest_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// skip is the error of a server that cannot be had here, rather than one that
// failed.
type skip struct{ reason string }

func (s *skip) Error() string { return s.reason }

// server is a private database server: its process, and how to reach it.
type server struct {
	dsn  string
	dir  string
	cmd  *exec.Cmd
	logs bytes.Buffer
	done chan struct{} // closed when the process has ended
}

// The servers are started by the first test that asks, and serve all of them:
// to start one takes seconds.
var (
	started   []*server
	startedMu sync.Mutex // guards started

	postgres  = sync.OnceValues(startPostgres)
	pgbouncer = sync.OnceValues(startPgBouncer)
	mariadb   = sync.OnceValues(startMariaDB)
	redisAt   = sync.OnceValues(startRedis)
)

func TestMain(m *testing.M) {
	code := m.Run()
	startedMu.Lock()
	defer startedMu.Unlock()
	for _, s := range started {
		s.stop()
	}
	os.Exit(code)
}

// dsnOf returns where a server is, or skips the test with the reason.
func dsnOf(tb testing.TB, start func() (*server, error)) string {
	tb.Helper()
	s, err := start()
	var no *skip
	switch {
	case errors.As(err, &no):
		tb.Skip(no.reason)
	case err != nil:
		tb.Fatal(err)
	}
	return s.dsn
}

func startPostgres() (*server, error) {
	initdb, err := binary("initdb", "/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return nil, err
	}
	s, cred, err := newServer("postgres")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	if err := s.runOnce(cred, initdb, "-D", data, "-U", "fencing", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return nil, err
	}
	err = s.start(cred, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data,
		"-c", "listen_addresses=", "-c", "unix_socket_directories="+s.dir, "-c", "max_connections=60", "-c", "shared_buffers=16MB")
	if err != nil {
		return nil, err
	}
	s.dsn = "host=" + s.dir + " user=fencing dbname=postgres sslmode=disable"
	return s, s.ready("pgx")
}

// startPgBouncer starts one in front of PostgreSQL. Its four sessions there are fewer than
// the connections of a test, so transactions of one connection go over several of them.
func startPgBouncer() (*server, error) {
	bin, err := binary("pgbouncer", "/usr/sbin/pgbouncer")
	if err != nil {
		return nil, err
	}
	behind, err := postgres()
	if err != nil {
		return nil, err
	}
	s, cred, err := newServer("pgbouncer")
	if err != nil {
		return nil, err
	}
	ini := filepath.Join(s.dir, "ini")
	settings := "[databases]\n* = host=" + behind.dir + " user=fencing\n[pgbouncer]\npool_mode = transaction\nauth_type = any\nadmin_users = fencing\nlisten_addr =\n" +
		"listen_port = 6432\nunix_socket_dir = " + s.dir + "\ndefault_pool_size = 4\nserver_round_robin = 1\n"
	if err := os.WriteFile(ini, []byte(settings), 0o644); err != nil {
		return nil, err
	}
	if err := s.start(cred, bin, ini); err != nil {
		return nil, err
	}
	s.dsn = "host=" + s.dir + " port=6432 user=fencing dbname=postgres sslmode=disable"
	return s, s.ready("pgx")
}

func startMariaDB() (*server, error) {
	install, err := binary("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	daemon, err := binary("mariadbd", "/usr/sbin/mariadbd")
	if err != nil {
		return nil, err
	}
	s, cred, err := newServer("mariadb")
	if err != nil {
		return nil, err
	}
	data, socket := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "sock")
	// Without --no-defaults the machine's own configuration would decide.
	if err := s.runOnce(cred, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
		return nil, err
	}
	err = s.start(cred, daemon, "--no-defaults", "--datadir="+data, "--socket="+socket, "--pid-file="+filepath.Join(s.dir, "pid"),
		"--skip-networking", "--max-connections=60", "--innodb-buffer-pool-size=32M", "--tmpdir="+s.dir)
	if err != nil {
		return nil, err
	}
	s.dsn = "root@unix(" + socket + ")/"
	return s, s.ready("mysql")
}

func startRedis() (*server, error) {
	bin, err := binary("redis-server")
	if err != nil {
		return nil, err
	}
	s, cred, err := newServer("redis")
	if err != nil {
		return nil, err
	}
	s.dsn = filepath.Join(s.dir, "sock")
	if err := s.start(cred, bin, "--port", "0", "--unixsocket", s.dsn, "--dir", s.dir, "--save", "", "--appendonly", "no"); err != nil {
		return nil, err
	}
	return s, s.poll(func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.dsn)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// binary finds a program on the path or at one of the patterns, newest last.
func binary(name string, patterns ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", &skip{name + " is not installed"}
}

// newServer makes a server's directory. PostgreSQL and MariaDB refuse to run as
// root, so root hands the directory and the process to somebody else.
func newServer(name string) (*server, *syscall.Credential, error) {
	dir, err := os.MkdirTemp("", "guardtest-"+name+"-")
	if err != nil {
		return nil, nil, err
	}
	s := &server{dir: dir, done: make(chan struct{})}
	startedMu.Lock()
	started = append(started, s)
	startedMu.Unlock()
	if os.Getuid() != 0 {
		return s, nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, nil, &skip{name + " does not run as root, and there is no user nobody"}
	}
	uid, uidErr := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(nobody.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, nil, err
	}
	return s, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (s *server) command(cred *syscall.Credential, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.dir)
	// A test binary that is killed must not leave a server behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (s *server) runOnce(cred *syscall.Credential, path string, args ...string) error {
	if out, err := s.command(cred, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, out)
	}
	return nil
}

func (s *server) start(cred *syscall.Credential, path string, args ...string) error {
	s.cmd = s.command(cred, path, args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.logs, &s.logs
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // a server that died is told by what then fails
	}()
	return nil
}

// ready waits until the server answers a query.
func (s *server) ready(driver string) error {
	db, err := sql.Open(driver, s.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return s.poll(db.PingContext)
}

func (s *server) poll(try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("%s died: %w\n%s", s.cmd.Path, err, &s.logs)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", s.cmd.Path, err)
		case <-tick.C:
		}
	}
}

// stop kills the server with everything that it started, and its directory: no
// data in it is of any worth.
func (s *server) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.done
	}
	_ = os.RemoveAll(s.dir)
}
