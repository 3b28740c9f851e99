package migration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Redisson's and redlock4j's locks, as far as a server sees them: the commands that they
// send, by the sources that docs/MIGRATION.md names. No JVM runs here.

// hashLock does to a key what RedissonLock's script does: a hash of who holds it, with how
// often. It returns nothing where it was taken, and what is left of the lease otherwise.
var hashLock = redis.NewScript(`
if redis.call("EXISTS", KEYS[1]) == 1 and redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then
	return redis.call("PTTL", KEYS[1])
end
redis.call("HINCRBY", KEYS[1], ARGV[1], 1)
redis.call("PEXPIRE", KEYS[1], ARGV[2])
return false`)

const (
	thread = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
	lease  = 30_000 // Redisson's lockWatchdogTimeout, in milliseconds
)

// rlock takes an RLock on one server.
func rlock(t *testing.T, s *redisserver.Server) error {
	t.Helper()
	err := hashLock.Run(t.Context(), s.Client(), []string{name}, thread, lease).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// on waits until so many of the servers have the name: a quorum of them is enough for
// Acquire and Release to return, and the last of them may hear of it after that.
func on(t *testing.T, masters []*redisserver.Server, want int) {
	t.Helper()
	found := -1
	for deadline := time.Now().Add(10 * time.Second); found != want && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		found = 0
		for _, s := range masters {
			found += int(s.Client().Exists(t.Context(), name).Val())
		}
	}
	if found != want {
		t.Fatalf("%d of %d have the name; want %d", found, len(masters), want)
	}
}

// The code of the page for who comes from Java or from etcd does what it says there.
func TestTheCodeForThoseFromElsewhereRuns(t *testing.T) {
	l := open(t, redisserver.NeedAll(t, 3, redisserver.Config{})...)
	failed := errors.New("the work failed")
	runs := 0
	work := func(context.Context) error { runs++; return nil }
	if err := readThenWrite(t.Context(), l, work, func(context.Context) error { runs++; return failed }); runs != 2 || !errors.Is(err, failed) {
		t.Errorf("a read and a write: got %d runs, %v; want two, and its error", runs, err)
	}
	if err := underAll(t.Context(), l, work); runs != 3 || err != nil {
		t.Errorf("under all: got %d runs, %v", runs-2, err)
	}
	err := whileLeading(t.Context(), l, func(ctx context.Context, token redlock.Token) error {
		for {
			leader, err := whoLeads(ctx, l)
			if err != nil || leader.Held {
				if leader.Value != "10.0.0.7:80" || leader.Token != token && leader.Token != 0 {
					t.Errorf("got leader %+v, %v; want this process, with token %d", leader, err, token)
				}
				return failed
			}
		}
	})
	if !errors.Is(err, failed) {
		t.Errorf("while leading: got %v; want its error", err)
	}
}

// Over the same masters and names, Redisson's locks and ours keep each other out; but to
// Redisson that is an error of the server, which no caller waits out.
func TestRedissonMeetsOursAsAnError(t *testing.T) {
	masters := redisserver.NeedAll(t, 3, redisserver.Config{})
	l := open(t, masters...)
	ours, err := l.Acquire(t.Context(), name)
	testkit.Must(t, err)
	on(t, masters, 3)
	for i, s := range masters {
		before := s.Client().Get(t.Context(), name).Val()
		if err := rlock(t, s); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("server %d: Redisson's lock over ours: got %v; want WRONGTYPE", i, err)
		}
		if after := s.Client().Get(t.Context(), name).Val(); after != before {
			t.Errorf("server %d: ours was changed: %q, then %q", i, before, after)
		}
	}
	if err := errors.Join(ours.Err(), ours.Release(t.Context())); err != nil {
		t.Errorf("our lock, after Redisson's attempts: %v", err)
	}
	on(t, masters, 0)

	for _, s := range masters { // RedissonRedLock: an RLock on each
		testkit.Must(t, rlock(t, s))
	}
	if _, err := l.TryAcquire(t.Context(), name); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("while Redisson holds: got %v; want ErrNotAcquired", err)
	}
	if _, err := l.TryAcquire(t.Context(), name, redlock.WithShared()); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("to share it: got %v; want ErrNotAcquired", err)
	}
	for i, s := range masters {
		if n, err := s.Client().HGet(t.Context(), name, thread).Int(); n != 1 || err != nil {
			t.Errorf("server %d: Redisson's lock was changed: got %d, %v", i, n, err)
		}
		if err := rlock(t, s); err != nil { // it enters again
			t.Errorf("server %d: Redisson's own reentry: %v", i, err)
		}
		if err := s.Client().Del(t.Context(), name).Err(); err != nil { // its unlock
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	ours, err = l.Acquire(ctx, name)
	if err != nil {
		t.Fatalf("after Redisson's unlock: %v", err)
	}
	if err := ours.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// An RLock is on one deployment: on one of our masters it is one vote of three.
func TestAnRLockOnOneMasterExcludesNobody(t *testing.T) {
	masters := redisserver.NeedAll(t, 3, redisserver.Config{})
	l := open(t, masters...)
	testkit.Must(t, rlock(t, masters[0]))
	ours, err := l.TryAcquire(t.Context(), name)
	if err != nil {
		t.Fatalf("got %v; the page says that both hold", err)
	}
	if err := ours.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// createLock and createMultiLock of redlock4j set the names themselves, if they are not
// there: they and ours exclude each other. Its readers and writers have other keys.
func TestPlainLocksOfRedlock4jExcludeOurs(t *testing.T) {
	masters := redisserver.NeedAll(t, 3, redisserver.Config{})
	l := open(t, masters...)
	set := func(key string) (won int) {
		for _, s := range masters {
			err := s.Client().SetArgs(t.Context(), key, thread, redis.SetArgs{Mode: "NX", TTL: lease * time.Millisecond}).Err()
			switch {
			case err == nil:
				won++
			case !errors.Is(err, redis.Nil):
				t.Fatal(err)
			}
		}
		return won
	}
	for _, kind := range [][]redlock.AcquireOption{nil, {redlock.WithShared()}} {
		ours, err := l.Acquire(t.Context(), name, kind...)
		testkit.Must(t, err)
		on(t, masters, 3)
		if won := set(name); won != 0 {
			t.Errorf("while we hold: it got %d of 3; want none", won)
		}
		if err := ours.Release(t.Context()); err != nil {
			t.Error(err)
		}
		on(t, masters, 0)
	}
	if won := set(name + ":write"); won != 3 {
		t.Errorf("its writer: got %d of 3", won)
	}
	lock, err := l.TryAcquire(t.Context(), name)
	if err != nil {
		t.Fatalf("beside its writer: got %v; the page says that both hold", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	on(t, masters, 0)
	if won := set(name); won != 3 {
		t.Errorf("the name is free: it got %d of 3", won)
	}
	for _, kind := range [][]redlock.AcquireOption{nil, {redlock.WithShared()}} {
		if _, err := l.TryAcquire(t.Context(), name, kind...); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("while it holds: got %v; want ErrNotAcquired", err)
		}
	}
}
