package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Bad input that only a real server gives.

func TestWrongCredentialsReturnAtOnceAndAreNotShown(t *testing.T) {
	const wrong = "hunter2"
	servers := testserver.Need(t, 3, redisserver.Config{Password: "right"})
	bare, bad := make([]string, 3), make([]string, 3)
	for i, s := range servers {
		bare[i], bad[i] = s.Addr(), "redis://:"+wrong+"@"+s.Addr()
	}
	for name, urls := range map[string][]string{"NOAUTH": bare, "WRONGPASS": bad} {
		began := time.Now()
		l, err := redlock.Open(t.Context(), urls)
		if l != nil {
			must(t, l.Close())
		}
		wantError(t, name+": Open", err, redlock.ErrMisconfigured)
		wantError(t, name+": Open", err, redlock.ErrNoQuorum)
		clients := make([]redis.UniversalClient, len(servers))
		for i, s := range servers {
			o := &redis.Options{Addr: s.Addr()}
			if name == "WRONGPASS" {
				o.Password = wrong
			}
			c := redis.NewClient(o)
			defer c.Close()
			clients[i] = c
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, errAcquire := lockerWith(t, clients).Acquire(ctx, "orders/42")
		cancel()
		wantError(t, name+": Acquire", errAcquire, redlock.ErrMisconfigured)
		for _, err := range []error{err, errAcquire} {
			if err != nil && strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: the error shows the password: %v", name, err)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %v; want an answer at once: waiting does not mend it", name, took)
		}
	}
}

func TestAUserWithoutTheRightsIsMisconfigured(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{Users: []string{"weak on >secret ~* +@all -set"}})
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "weak", Password: "secret"})
		defer c.Close()
		clients[i] = c
	}
	_, err := lockerWith(t, clients).TryAcquire(t.Context(), "orders/42")
	wantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
	for _, s := range servers {
		if left := keysOn(t, s); len(left) > 0 {
			t.Errorf("%s has %q; want nothing", s.Addr(), left)
		}
	}
}

func TestAReplicaIsNoNode(t *testing.T) {
	masters := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, masters)
	allTakePart(t, l, masters)
	lock := mustAcquire(t, l, "orders/42")
	for _, s := range masters[1:] { // one that was not sent it has nothing to release
		pollUntil(t, 5*time.Second, "the key is everywhere", func() bool { return keyOn(t, s, "orders/42") != "" })
	}
	for _, s := range masters[1:] { // demoted under a held lock
		c := s.Client()
		must(t, c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
	}
	before := scriptCalls(t, masters[1])
	_, err := l.TryAcquire(t.Context(), "orders/43")
	wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
	if err != nil && !strings.Contains(err.Error(), "replica") {
		t.Errorf("got %v; want it to speak of a replica", err)
	}
	// Whether the clock watch's look was first, and ended the lock, is a matter of luck.
	if err := lock.Release(t.Context()); !errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrNotHeld) {
		t.Errorf("Release: got %v; want ErrNoQuorum or ErrNotHeld", err)
	}
	if calls := scriptCalls(t, masters[1]) - before; calls > 100 {
		t.Errorf("a demoted node was sent %d scripts while a release was owed; want pauses between", calls)
	}
	for _, s := range masters[1:] {
		c := s.Client()
		must(t, c.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	}
	pollUntil(t, 5*time.Second, "the release that was owed has been made", func() bool {
		return keyOn(t, masters[1], "orders/42") == "" && keyOn(t, masters[2], "orders/42") == ""
	})
}

// No matter what slots they serve, servers in cluster mode are refused at once, and say
// why: none of them (CLUSTERDOWN), or all (CROSSSLOT).
func TestServersInClusterModeAreMisconfigured(t *testing.T) {
	besideServers(t)
	servers := testserver.Need(t, 2, redisserver.Config{Args: []string{"--cluster-enabled", "yes"}})
	must(t, servers[1].Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	pollUntil(t, 10*time.Second, "the second server serves all slots", func() bool {
		return servers[1].Client().Set(t.Context(), "orders/1", "x", time.Millisecond).Err() == nil
	})
	for i, s := range servers {
		for _, opts := range [][]redlock.Option{nil, {redlock.WithoutMembership()}} {
			l := lockerWith(t, defaultClients(t, s.Addr()), append(opts, redlock.WithNodeTimeout(time.Second))...)
			// One that was too slow for an attempt is told as soon as it answers.
			must(t, s.Pause())
			_, err := l.TryAcquire(t.Context(), "orders/42")
			must(t, s.Resume())
			wantError(t, "TryAcquire, while it is silent", err, redlock.ErrNoQuorum)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err = l.Acquire(ctx, "orders/42")
			cancel()
			wantError(t, "Acquire", err, redlock.ErrMisconfigured)
			wantError(t, "Acquire", err, redlock.ErrNoQuorum)
			if err != nil && !strings.Contains(err.Error(), "cluster-enabled") {
				t.Errorf("got %v; want it to name the setting", err)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("server %d: Acquire waited; want it at once", i)
			}
		}
	}
}

func TestANodeOutOfMemoryRefusesAndIsCleanedAllTheSame(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, servers)
	allTakePart(t, l, servers)
	lock := mustAcquire(t, l, "orders/42")
	pollUntil(t, 5*time.Second, "the key is everywhere", func() bool {
		return keyOn(t, servers[1], "orders/42") != "" && keyOn(t, servers[2], "orders/42") != ""
	})
	for _, s := range servers[1:] {
		must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	}
	_, err := l.TryAcquire(t.Context(), "orders/43")
	wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
	if err != nil && !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v; want it to speak of memory", err)
	}
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL)) // needs no memory
	mustRelease(t, lock)
	for _, s := range servers {
		pollUntil(t, 5*time.Second, "nothing is left", func() bool { return len(keysOn(t, s)) == 0 })
	}
}

func TestScriptFlushUnderAHeldLockAndUnderTraffic(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, servers)
	lock := mustAcquire(t, l, "orders/42")
	flush := func() {
		for _, s := range servers {
			c := redis.NewClient(s.Options())
			err := c.ScriptFlush(t.Context()).Err()
			_ = c.Close()
			if err != nil {
				t.Errorf("SCRIPT FLUSH: %v", err)
			}
		}
	}
	flush()
	must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
	flush()
	mustRelease(t, lock)
	stop := make(chan struct{})
	var flusher, workers sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				flush()
				pause(20 * time.Millisecond)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, name := range []string{"a", "b", "c", "d"} {
		workers.Go(func() {
			var last redlock.Token
			for range 50 {
				lock, err := l.Acquire(ctx, name)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				if lock.Token() <= last {
					t.Errorf("got token %v after %v; want a greater one", lock.Token(), last)
				}
				last = lock.Token()
				if err := lock.Release(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	flusher.Wait()
	for _, s := range servers {
		pollUntil(t, 5*time.Second, "nothing is left", func() bool { return len(keysOn(t, s)) == 0 })
	}
}

func TestAUnixSocketIsANodeToo(t *testing.T) {
	dir := t.TempDir()
	s := testserver.NeedOne(t, redisserver.Config{Args: []string{"--unixsocket", dir + "/s"}})
	l, err := redlock.Open(t.Context(), []string{"unix://" + dir + "/s"})
	must(t, err)
	defer l.Close()
	admitted(t, l)
	lock := mustAcquire(t, l, "orders/42")
	if keyOn(t, s, "orders/42") == "" {
		t.Error("the server has no key; want the lock's")
	}
	mustRelease(t, lock)
}
