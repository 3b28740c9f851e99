package redisserver_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

func mustSet(t *testing.T, c *redis.Client, key, value string, ttl time.Duration) {
	t.Helper()
	if err := c.Set(t.Context(), key, value, ttl).Err(); err != nil {
		t.Fatalf("SET %s: %v", key, err)
	}
}

// wantKeys checks which of the keys the server has.
func wantKeys(t *testing.T, c *redis.Client, when string, want int64, keys ...string) {
	t.Helper()
	if got, err := c.Exists(t.Context(), keys...).Result(); err != nil || got != want {
		t.Errorf("%s: got %d of %q, %v; want %d", when, got, keys, err, want)
	}
}

func TestServersAreSeparateProcessesOnLoopback(t *testing.T) {
	servers := testserver.Need(t, 3, redisserver.Config{})
	seen := map[int]bool{}
	for _, s := range servers {
		if host, _, err := net.SplitHostPort(s.Addr()); err != nil || host != "127.0.0.1" {
			t.Errorf("got address %s; want one on 127.0.0.1", s.Addr())
		}
		if pid := s.PID(); pid == 0 || seen[pid] {
			t.Errorf("got pid %d; want one of its own", pid)
		}
		seen[s.PID()] = true
		if got := s.Client().ConfigGet(t.Context(), "save").Val()["save"]; got != "" {
			t.Errorf("got save %q; want no persistence", got)
		}
	}
	mustSet(t, servers[0].Client(), "k", "v", 0)
	wantKeys(t, servers[0].Client(), "the server written to", 1, "k")
	wantKeys(t, servers[1].Client(), "another", 0, "k")
	testkit.Must(t, servers[0].Flush(t.Context()))
	wantKeys(t, servers[0].Client(), "after Flush", 0, "k")
}

func TestKillForgetsWithoutPersistenceAndKeepsThePort(t *testing.T) {
	s := testserver.NeedOne(t, redisserver.Config{})
	c, addr, pid := s.Client(), s.Addr(), s.PID()
	mustSet(t, c, "k", "v", 0)
	testkit.Must(t, s.Kill(), s.Kill())
	if s.Running() {
		t.Error("it runs after Kill")
	}
	if err := c.Ping(t.Context()).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v; want connection refused", err)
	}
	testkit.Must(t, s.Restart())
	if s.Addr() != addr || s.PID() == pid {
		t.Errorf("got %s, pid %d; want the same port and another process than %s, %d", s.Addr(), s.PID(), addr, pid)
	}
	wantKeys(t, c, "after the restart", 0, "k")
	if _, err := s.AOFSize(); err == nil {
		t.Error("AOFSize without an append-only file: got no error")
	}
}

// setInFile sets a key and returns the length of the append-only file with it.
// Under everysec the server answers before it writes, while an fsync is under
// way: killed at that moment, it loses the key (seen once in some ten runs on a
// busy disk).
func setInFile(t *testing.T, s *redisserver.Server, c *redis.Client, key string) int64 {
	t.Helper()
	before, err := s.AOFSize()
	testkit.Must(t, err)
	mustSet(t, c, key, "v", 0)
	var after int64
	testkit.Eventually(t, "the write", func() bool {
		after, err = s.AOFSize()
		testkit.Must(t, err)
		return after > before
	})
	return after
}

func TestAOFSurvivesKillAndLosesWhatIsTruncated(t *testing.T) {
	for _, fsync := range []redisserver.Fsync{redisserver.FsyncAlways, redisserver.FsyncEverysec} {
		t.Run(string(fsync), func(t *testing.T) {
			s := testserver.NeedOne(t, redisserver.Config{AOF: fsync})
			c := s.Client()
			if got := c.ConfigGet(t.Context(), "appendfsync").Val()["appendfsync"]; got != string(fsync) {
				t.Errorf("got appendfsync %q; want %q", got, fsync)
			}
			early := setInFile(t, s, c, "early")
			setInFile(t, s, c, "late")
			testkit.Must(t, s.Restart())
			wantKeys(t, c, "after kill -9 and restart", 2, "early", "late")

			if err := s.TruncateAOF(1); err == nil {
				t.Error("truncating under a running server: got no error")
			}
			testkit.Must(t, s.Kill())
			size, err := s.AOFSize()
			testkit.Must(t, err)
			testkit.Must(t, s.TruncateAOF(size-early), s.Restart())
			wantKeys(t, c, "after the power cut", 1, "early")
			wantKeys(t, c, "after the power cut", 0, "late")

			// Half a command at the end is as good as none.
			setInFile(t, s, c, "late")
			testkit.Must(t, s.Kill(), s.TruncateAOF(3), s.Restart())
			wantKeys(t, c, "after a cut within a command", 0, "late")

			testkit.Must(t, s.RestartEmpty())
			wantKeys(t, c, "after a restart without data", 0, "early", "late")
		})
	}
}

func TestOldDataCanBeRestored(t *testing.T) {
	for _, fsync := range []redisserver.Fsync{"", redisserver.FsyncAlways} {
		t.Run("aof "+string(fsync), func(t *testing.T) {
			s := testserver.NeedOne(t, redisserver.Config{AOF: fsync})
			c := s.Client()
			mustSet(t, c, "old", "v", 0)
			snapshot, err := s.Snapshot(t.Context())
			testkit.Must(t, err)
			mustSet(t, c, "new", "v", 0)
			testkit.Must(t, s.RestartWithDataFrom(snapshot))
			wantKeys(t, c, "after the restore", 1, "old")
			wantKeys(t, c, "after the restore", 0, "new")
			if fsync != "" {
				return
			}
			// A snapshot must not give the server a persistence that it has not.
			testkit.Must(t, s.RestartEmpty())
			mustSet(t, c, "old", "v", 0)
			_, err = s.Snapshot(t.Context())
			testkit.Must(t, err, s.Restart())
			wantKeys(t, c, "after a plain restart", 0, "old")
		})
	}
}

func TestAPausedServerRunsAbandonedCommandsOnResume(t *testing.T) {
	s := testserver.NeedOne(t, redisserver.Config{})
	opts := s.Options()
	opts.ReadTimeout = 50 * time.Millisecond
	c := redis.NewClient(opts)
	testkit.Must(t, c.Ping(t.Context()).Err(), s.Pause())
	if !s.Running() {
		t.Error("a paused server counts as ended")
	}
	if err := c.Set(t.Context(), "late", "v", 0).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v; want a timeout", err)
	}
	testkit.Must(t, c.Close(), s.Resume(), s.Resume())
	reader := s.Client()
	for deadline := time.Now().Add(10 * time.Second); reader.Exists(t.Context(), "late").Val() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the command was not executed")
		}
	}
	testkit.Must(t, s.Pause(), s.Stop())
	if err := s.Pause(); err == nil {
		t.Error("pausing what does not run: got no error")
	}
}

func TestPasswordUsersAndArguments(t *testing.T) {
	s := testserver.NeedOne(t, redisserver.Config{
		Password: "s3cret/@:",
		Users:    []string{"alice on >pw ~* +get +hello"},
		Args:     []string{"--maxmemory", "10mb", "--maxmemory-policy", "noeviction"},
	})
	opts, err := redis.ParseURL(s.URL())
	testkit.Must(t, err)
	c := redis.NewClient(opts)
	defer c.Close()
	if got := c.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "10485760" {
		t.Errorf("got maxmemory %q; want 10485760", got)
	}
	alice := s.Options()
	alice.Username, alice.Password = "alice", "pw"
	a := redis.NewClient(alice)
	defer a.Close()
	if err := a.Set(t.Context(), "k", "v", 0).Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("got %v; want NOPERM", err)
	}
	testkit.Must(t, s.Restart(), s.Client().Ping(t.Context()).Err())
}

func TestAReplicaFollowsItsMaster(t *testing.T) {
	master := testserver.NeedOne(t, redisserver.Config{Password: "pw"})
	replica := testserver.NeedOne(t, redisserver.Config{Password: "pw", ReplicaOf: master.Addr()})
	mustSet(t, master.Client(), "k", "v", 0)
	c := replica.Client()
	for deadline := time.Now().Add(10 * time.Second); c.Get(t.Context(), "k").Val() != "v"; {
		if time.Now().After(deadline) {
			t.Fatalf("the key did not arrive:\n%s", c.Info(t.Context(), "replication").Val())
		}
		time.Sleep(time.Millisecond)
	}
	if err := c.Set(t.Context(), "k", "w", 0).Err(); !redis.HasErrorPrefix(err, "READONLY") {
		t.Errorf("got %v; want READONLY", err)
	}
}

func TestTheClockOfAServerCanBeSet(t *testing.T) {
	s := testserver.NeedOne(t, redisserver.Config{FakeClock: true})
	c := s.Client()
	mustSet(t, c, "k", "v", 10*time.Second)
	testkit.Must(t, s.SetClock("-20"))
	if got := c.PTTL(t.Context(), "k").Val(); got < 25*time.Second || got > 30*time.Second {
		t.Errorf("20 s back: got a lease of %v; want 30 s", got)
	}
	testkit.Must(t, s.SetClock("+20"))
	wantKeys(t, c, "20 s ahead", 0, "k")
	if got := time.Until(c.Time(t.Context()).Val()); got < 15*time.Second || got > 25*time.Second {
		t.Errorf("got a clock %v ahead; want 20 s", got)
	}
	testkit.Must(t, s.Restart())
	if got := time.Until(c.Time(t.Context()).Val()); got < 15*time.Second {
		t.Errorf("after a restart: got a clock %v ahead; want 20 s", got)
	}
	plain := testserver.NeedOne(t, redisserver.Config{})
	if err := plain.SetClock("+1"); err == nil {
		t.Error("setting a true clock: got no error")
	}
}

func TestAServerThatCannotStartShowsItsLog(t *testing.T) {
	testserver.NeedOne(t, redisserver.Config{})
	_, err := redisserver.Start(redisserver.Config{Args: []string{"--no-such-setting", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got %v; want an error with the server's own words", err)
	}
	if _, err := redisserver.Start(redisserver.Config{Binary: "no-such-program"}); !errors.Is(err, redisserver.ErrNoServer) {
		t.Errorf("got %v; want ErrNoServer", err)
	}
}

// A restart must not take another server for its own: here one that answers
// as Redis does, before ours finds its port taken.
func TestAnotherServerOnThePortIsNotMistakenForOurs(t *testing.T) {
	s := testserver.NeedOne(t, redisserver.Config{})
	testkit.Must(t, s.Kill())
	l, err := net.Listen("tcp4", s.Addr())
	testkit.Must(t, err)
	var stranger sync.WaitGroup
	stranger.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "+PONG\r\n$15\r\nprocess_id:1\r\n\r\n")
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	})
	if err := s.Restart(); err == nil {
		t.Errorf("restarted at %s, which is taken", s.Addr())
	}
	if s.Running() {
		t.Error("a process is left over")
	}
	testkit.Must(t, l.Close())
	stranger.Wait()
	testkit.Must(t, s.Restart(), s.Client().Ping(t.Context()).Err())
}

func TestCloseRemovesEverything(t *testing.T) {
	servers := testserver.Need(t, 2, redisserver.Config{AOF: redisserver.FsyncAlways})
	pids := []int{servers[0].PID(), servers[1].PID()}
	testkit.Must(t, redisserver.CloseAll(servers), redisserver.CloseAll(servers))
	for i, s := range servers {
		if _, err := os.Stat(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory is still there: %v", err)
		}
		if p, err := os.FindProcess(pids[i]); err == nil && p.Signal(syscall.Signal(0)) == nil {
			t.Errorf("process %d is still there", pids[i])
		}
	}
}
