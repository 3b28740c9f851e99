// Package redisserver has real servers as processes: redis-server or valkey-server, that can
// be killed, stopped, restarted with its data, with old data or with none, have its log cut as
// by a power failure, and have its clock set.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumkit/redlock/internal/lab/process"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
)

const (
	// portAttempts is how often a server that found its port taken is given another: one in
	// cluster mode wants the port 10,000 above its own too, among those that another process
	// of tests may have, in a row.
	portAttempts = 100
	// returnAttempts is how often one that comes back finds its own port taken.
	returnAttempts = 5
)

// ErrNoServer means that there is no server program to start.
var ErrNoServer = process.ErrNoServer

// ErrNoFakeClock means that a server's wall clock can't be set here: that takes
// Linux, and a C compiler (cc in PATH, or $CC) that builds what is preloaded into
// the server's process.
var ErrNoFakeClock = process.ErrNoFakeClock

// Fsync is when a server with an append-only file forces it to the disk.
type Fsync string

// The values that Redis has for appendfsync, less "no". The zero value means
// no append-only file.
const (
	FsyncAlways   Fsync = "always"
	FsyncEverysec Fsync = "everysec"
)

// Config says how a server is started. The zero value is a master
// without persistence, password or replicas.
type Config struct {
	// Binary is the program: a name or a path. By default it is what
	// $REDLOCK_TEST_SERVER names, else redis-server, or valkey-server where only
	// that is found.
	Binary string
	// AOF switches the append-only file on.
	AOF Fsync
	// Password is requirepass, and masterauth for a replica.
	Password string
	// Users are ACL users as in "alice on >secret ~* +@all". The default user
	// must keep the right to PING and INFO: that is how readiness is seen.
	Users []string
	// ReplicaOf is the host:port of a master.
	ReplicaOf string
	// Args are further arguments, such as "--maxmemory", "10mb".
	Args []string
	// Env is added to the environment, as in "NAME=value".
	Env []string
	// File puts the settings into a file, so that CONFIG REWRITE works.
	File bool
	// FakeClock lets [Server.SetClock] work. It needs Linux and a C compiler.
	FakeClock bool
}

// Server is a server process of its own, on a free loopback port, with a
// directory of its own. It survives its process: after [Server.Kill] or
// [Server.Stop], [Server.Restart] runs another one in the same place. It dies
// with the program that started it (on Linux also if that is killed).
//
// Its methods may be called from several goroutines; those that start and end
// processes take turns.
type Server struct {
	Config Config
	binary string
	dir    string
	port   int
	filed  int // the port of which the file of settings is

	life    sync.Mutex       // taken by all that starts, ends or signals the process
	process *process.Process // nil if none; guarded by life

	setting sync.Mutex // taken by all that write the clock's file

	mu      sync.Mutex // guards clients
	clients []*redis.Client
}

// Start starts a server and returns when it answers commands. It retries
// on another port if its port was taken meanwhile. It fails with [ErrNoServer]
// if there is no program to start, and otherwise with the end of the program's
// log in the error.
func Start(config Config) (*Server, error) {
	binary, err := process.Find(config.Binary)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redlock-server-")
	if err != nil {
		return nil, fmt.Errorf("chaos: start server: %w", err)
	}
	s := &Server{Config: config, binary: binary, dir: dir}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	var last error
	for range portAttempts {
		if s.port, err = loopback.Port(); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		loopback.Keep(s.port) // it comes back to it after a crash
		if last = s.launchLocked(); last == nil {
			return s, nil
		}
		loopback.Drop(s.port)
		if !errors.Is(last, process.ErrPortTaken) {
			break
		}
	}
	return nil, errors.Join(last, os.RemoveAll(dir))
}

// StartAll starts n servers alike. If one fails to start, the others are
// closed.
func StartAll(n int, config Config) ([]*Server, error) {
	servers := make([]*Server, 0, n)
	for range n {
		s, err := Start(config)
		if err != nil {
			return nil, errors.Join(err, CloseAll(servers))
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// CloseAll closes all the servers and returns their errors joined.
func CloseAll(servers []*Server) error {
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// prepare makes the directories of a server that has none yet.
func (s *Server) prepare() error {
	if err := os.Mkdir(s.DataDir(), 0o700); err != nil {
		return fmt.Errorf("chaos: start server: %w", err)
	}
	if s.Config.FakeClock {
		return s.SetClock("+0")
	}
	return nil
}

// DataDir is where its data are.
func (s *Server) DataDir() string { return filepath.Join(s.dir, "data") }

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) clockFile() string { return filepath.Join(s.dir, "clock") }

func (s *Server) args() []string {
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.DataDir(),
		"--save", "", "--daemonize", "no", "--logfile", "",
		// Without it a replica takes 5 s to get its first copy.
		"--repl-diskless-sync-delay", "0",
	}
	if s.Config.AOF != "" {
		args = append(args, "--appendonly", "yes", "--appendfsync", string(s.Config.AOF))
	} else {
		args = append(args, "--appendonly", "no")
	}
	if s.Config.Password != "" {
		args = append(args, "--requirepass", s.Config.Password, "--masterauth", s.Config.Password)
	}
	for _, user := range s.Config.Users {
		args = append(append(args, "--user"), strings.Fields(user)...)
	}
	if host, port, err := net.SplitHostPort(s.Config.ReplicaOf); err == nil {
		args = append(args, "--replicaof", host, port)
	}
	return append(args, s.Config.Args...)
}

// fileArgs are the arguments with which the settings stand in a file, which is written once.
func (s *Server) fileArgs() ([]string, error) {
	file := filepath.Join(s.dir, "server.conf")
	if s.filed == s.port {
		return []string{file}, nil
	}
	var text strings.Builder
	for _, arg := range s.args() {
		name, isName := strings.CutPrefix(arg, "--")
		switch {
		case isName:
			text.WriteString("\n" + name)
		case arg == "":
			text.WriteString(` ""`)
		default:
			text.WriteString(" " + arg)
		}
	}
	s.filed = s.port
	return []string{file}, os.WriteFile(file, []byte(text.String()+"\n"), 0o600)
}

// launchLocked starts a process and waits until it answers.
func (s *Server) launchLocked() error {
	args := s.args()
	if s.Config.File {
		var err error
		if args, err = s.fileArgs(); err != nil {
			return err
		}
	}
	env := append(os.Environ(), s.Config.Env...)
	if s.Config.FakeClock {
		clock, err := process.ClockEnv(s.clockFile())
		if err != nil {
			return err
		}
		env = append(env, clock...)
	}
	p, err := process.Start(process.Config{Binary: s.binary, Args: args, Env: env, Dir: s.dir, Log: s.logFile()})
	if err != nil {
		return err
	}
	if err := p.AwaitReady(s.Addr(), s.Config.Password, s.Log); err != nil {
		return errors.Join(err, p.Kill())
	}
	s.process = p
	return nil
}

// Program returns the path of the program that runs.
func (s *Server) Program() string { return s.binary }

// Addr returns the server's host:port. It stays the same over restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the server's address as a redis:// URL, with its password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.Config.Password != "" {
		u.User = url.UserPassword("", s.Config.Password)
	}
	return u.String()
}

// Dir returns the directory that holds the server's log and data. It is
// removed by [Server.Close].
func (s *Server) Dir() string { return s.dir }

// PID returns the process id, or 0 while no process runs.
func (s *Server) PID() int {
	s.life.Lock()
	defer s.life.Unlock()
	return s.process.PID()
}

// Running reports whether the process runs; one that is paused does.
func (s *Server) Running() bool { return s.PID() != 0 }

// Options returns the settings of a client of this server: nothing is sent
// twice, refusals are told at once, and no call outlives its context's
// deadline. The caller may change what it got.
func (s *Server) Options() *redis.Options {
	return &redis.Options{
		Addr:                     s.Addr(),
		Password:                 s.Config.Password,
		MaxRetries:               -1,
		DialerRetries:            1,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Client returns a new client of the server, with [Server.Options]. It is
// closed with the server; closing it earlier is allowed.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(s.Options())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, client)
	return client
}

// Flush removes all keys, as an operator's FLUSHALL does.
func (s *Server) Flush(ctx context.Context) error {
	client := redis.NewClient(s.Options())
	defer client.Close()
	if err := client.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("chaos: flush %s: %w", s.Addr(), err)
	}
	return nil
}

// Close kills the process, closes the clients and removes the directory. It
// may be called more than once; the server can't be started again.
func (s *Server) Close() error {
	s.mu.Lock()
	clients := s.clients
	s.clients = nil
	s.mu.Unlock()
	var errs []error
	for _, c := range clients {
		if err := c.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.life.Lock()
	defer s.life.Unlock()
	errs = append(errs, s.killLocked(), os.RemoveAll(s.dir))
	loopback.Drop(s.port)
	return errors.Join(errs...)
}

// Log returns what the server has written to its log, restarts included.
func (s *Server) Log() (string, error) {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return "", fmt.Errorf("chaos: log of %s: %w", s.Addr(), err)
	}
	return string(text), nil
}
