package contenders

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/process"
	"github.com/quorumkit/redlock/internal/testkit"
)

// The clock of ZooKeeper's JVM is set by the library that is preloaded: what is created
// after a step has a date of then.
func TestZooKeepersClockCanBeStepped(t *testing.T) {
	t.Parallel()
	if _, err := process.FakeClock(); errors.Is(err, process.ErrNoFakeClock) {
		t.Skip(err)
	}
	s, err := zookeeperServers.start(t.Context())
	if errors.Is(err, errNotInstalled) {
		t.Skip(err)
	}
	testkit.Must(t, err)
	defer s.close()
	if !strings.HasPrefix(s.version, "ZooKeeper 3.") {
		t.Errorf("got version %q; want ZooKeeper's", s.version)
	}
	for _, n := range s.nodes {
		testkit.Must(t, n.step(anHour))
	}
	conn, _, err := zk.Connect(s.addrs(), startBound, zk.WithLogger(quiet))
	testkit.Must(t, err)
	defer conn.Close()
	path, err := conn.Create("/dated", nil, 0, zk.WorldACL(zk.PermAll))
	testkit.Must(t, err)
	_, stat, err := conn.Get(path)
	testkit.Must(t, err)
	if ahead := time.Until(time.UnixMilli(stat.Ctime)); ahead < anHour*time.Second*9/10 {
		t.Errorf("got a node that is dated %v ahead; want an hour", ahead)
	}
}

// A renewal that finds the lock with somebody else says so before held does, so that
// the holder knows by whom.
func TestARenewalThatFailsTellsBeforeTheHoldIsOver(t *testing.T) {
	t.Parallel()
	l := renewed(monotonic(), byRenewal, func(context.Context) error { return errors.Join(errNotHeld, errors.New("gone")) }, given)
	defer func() { _ = l.release(t.Context()) }() // it gives nothing back
	if is, _ := l.held(); !is {
		t.Error("got no hold before the first renewal; want one")
	}
	<-l.told
	if is, by := l.held(); is || by != byRenewal {
		t.Errorf("got a hold after the renewal that failed: %v, by %q; want none, by %q", is, by, byRenewal)
	}
}

func given(context.Context) error { return nil }

// Without an answer the holder stops by its own count, though it is told nothing.
func TestAHolderWhoseRenewalsFailStopsByItsOwnCount(t *testing.T) {
	t.Parallel()
	l := renewed(monotonic()-countedLease+100*time.Millisecond, byRenewal, func(context.Context) error { return errors.New("no answer") }, given)
	defer func() { _ = l.release(t.Context()) }() // it gives nothing back
	for begun := time.Now(); ; {
		if is, by := l.held(); !is {
			if by != byCount {
				t.Errorf("got %q; want %q", by, byCount)
			}
			return
		}
		if time.Since(begun) > lease {
			t.Fatal("got a hold beyond the lease")
		}
	}
}

func TestAFamilyIsTheProcessAndWhatItStarted(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc here")
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skipf("no sleep to start: %v", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if all := family(os.Getpid()); all[0] != os.Getpid() || !slices.Contains(all, cmd.Process.Pid) {
		t.Errorf("got %v; want %d and its child %d", all, os.Getpid(), cmd.Process.Pid)
	}
}

// A master that does not answer while the cluster is founded leaves some taken in and
// some not: what is sent again takes in the rest.
func TestAClusterIsFoundedThoughAMasterWasSilent(t *testing.T) {
	t.Parallel()
	s, err := redisMasters.start(t.Context())
	if errors.Is(err, errNotInstalled) && os.Getenv("REDLOCK_REQUIRE_SERVERS") == "" {
		t.Skip(err)
	}
	testkit.Must(t, err)
	defer s.close()
	testkit.Must(t, s.nodes[0].hang())
	l, err := redlock.Open(t.Context(), s.addrs(), redlockOptions()...)
	testkit.Must(t, err)
	defer l.Close()
	if err := l.Cluster().Admit(t.Context()); err == nil {
		t.Error("got a cluster with a master that is silent; want an error")
	}
	testkit.Must(t, s.nodes[0].wake())
	if err := admitAll(t.Context(), s); err != nil {
		t.Errorf("got %v; want a cluster", err)
	}
}
