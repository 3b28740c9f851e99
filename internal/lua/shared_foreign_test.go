package lua_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// What other libraries send for a lock of theirs: redsync v4, and node-redlock v5.
const (
	redsyncDelete = `local val = redis.call("GET", KEYS[1])
		if val == ARGV[1] then return redis.call("DEL", KEYS[1]) elseif val == false then return -1 else return 0 end`
	redsyncTouch       = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end`
	nodeRedlockAcquire = `for i, key in ipairs(KEYS) do if redis.call("exists", key) == 1 then return 0 end end
		for i, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end return #KEYS`
	nodeRedlockExtend = `for i, key in ipairs(KEYS) do if redis.call("get", key) ~= ARGV[1] then return 0 end end
		for i, key in ipairs(KEYS) do redis.call("pexpire", key, ARGV[2]) end return #KEYS`
	nodeRedlockRelease = `local count = 0
		for i, key in ipairs(KEYS) do
			if redis.call("get", key) == ARGV[1] then redis.pcall("del", key) count = count + 1 end
		end return count`
)

// No matter what other clients of the name send while it is shared, they don't get it,
// and who shares it does not lose it.
func testForeignClients(t *testing.T, addr string) {
	t.Helper()
	for _, c := range []struct {
		name string
		send []any
		want string
	}{
		{"SET NX", []any{"SET", "name", "x", "NX", "PX", 1000}, "redis: nil"},
		{"SETNX", []any{"SETNX", "name", "x"}, "0"},
		{"MSETNX", []any{"MSETNX", "name", "x", "other", "x"}, "0"},
		{"EXISTS", []any{"EXISTS", "name"}, "1"},
		{"GET", []any{"GET", "name"}, "WRONGTYPE"},
		{"redsync's unlock", []any{"EVAL", redsyncDelete, 1, "name", "x"}, "WRONGTYPE"},
		{"redsync's extend", []any{"EVAL", redsyncTouch, 1, "name", "x", 1000}, "WRONGTYPE"},
		{"node-redlock's acquire", []any{"EVAL", nodeRedlockAcquire, 1, "name", "x", 1000}, "0"},
		{"node-redlock's extend", []any{"EVAL", nodeRedlockExtend, 1, "name", "x", 1000}, "WRONGTYPE"},
		{"node-redlock's release", []any{"EVAL", nodeRedlockRelease, 1, "name", "x"}, "WRONGTYPE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSharing(t, addr)
			s.given(bothDo)
			got, err := s.c.Do(t.Context(), c.send...).Result()
			if text := fmt.Sprint(got, err); !strings.Contains(text, c.want) {
				t.Errorf("got %s; want %s", text, c.want)
			}
			if got, want := s.shows(), "#41 A@600 B@900 7=41"; got != want {
				t.Errorf("the node shows %s; want %s", got, want)
			}
		})
	}
}

func TestForeignClientsOfASharedNameOnAServer(t *testing.T) {
	testForeignClients(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
}

func TestForeignClientsOfASharedNameInProcess(t *testing.T) {
	m := miniredis.RunT(t)
	m.SetTime(time.Now())
	testForeignClients(t, m.Addr())
}

// A thousand share one name: all have one number, each may go, and the key goes with the
// last. Of two hundred that wait a release calls so many as its script may.
func testManyShare(t *testing.T, addr string) {
	t.Helper()
	const many = 1000
	s := newSharing(t, addr)
	s.given(none)
	for first := 0; first < many; first += lua.ShareBatchSize {
		n := min(lua.ShareBatchSize, many-first)
		keys, args := []string{lua.NodeKey}, make([]any, 3+4*n)
		copy(args, []any{"e1", "S", 77})
		for i := range n {
			keys = append(keys, "name")
			for j, arg := range []any{7, manyOwner(first + i), 600000, 0} {
				args[3+j*n+i] = arg
			}
		}
		for i := range n {
			keys = append(keys, lua.TombstoneKey+manyOwner(first+i))
		}
		want := "[" + strings.Repeat("41 ", n) + strings.TrimSuffix(strings.Repeat("0 ", n), " ") + "]"
		if got := s.run(lua.ShareScript, keys, args...); got != want {
			t.Fatalf("got %s; want %s", got, want)
		}
	}
	if n := s.c.ZCard(t.Context(), "name").Val(); n != many+1 {
		t.Fatalf("%d members; want %d", n, many+1)
	}
	waiters := manyWaiters(s, 200)
	for i := range many {
		if got := s.run(lua.ReleaseSharedScript, []string{"name"}, 1, manyOwner(i)); got != "1" {
			t.Fatalf("the end of %d: got %s; want 1", i, got)
		}
		if left := s.c.Exists(t.Context(), "name").Val(); (left == 1) != (i < many-1) {
			t.Fatalf("after the end of %d there are %d keys", i, left)
		}
	}
	heard := 0
	s.do("PUBLISH,mark,")
	for {
		m, err := s.calls.ReceiveMessage(t.Context())
		testkit.Must(t, err)
		if m.Channel == "mark" {
			break
		}
		if want := lua.WakeChannel + waiters[heard]; m.Channel != want {
			t.Fatalf("call %d on %s; want %s", heard, m.Channel, want)
		}
		heard++
	}
	if heard != 128 {
		t.Errorf("%d were called; want 128", heard)
	}
}

func manyOwner(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// manyWaiters has so many wait to share, and hear.
func manyWaiters(s *sharing, n int) (ids []string) {
	s.t.Helper()
	s.do("SET,redlock:waiting,1,PX,600000\nSET,redlock:sharing,1,PX,600000")
	pipe := s.c.Pipeline()
	for i := range n {
		id := "waiter-" + strconv.Itoa(i)
		ids = append(ids, id)
		pipe.Set(s.t.Context(), lua.LiveKey+id, 1, time.Minute)
		pipe.ZAdd(s.t.Context(), lua.SharersKey+"name", redis.Z{Score: float64(100 + i), Member: id})
	}
	if _, err := pipe.Exec(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.hear(ids...)
	return ids
}

func TestAThousandShareOnAServer(t *testing.T) {
	testManyShare(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
}

func TestAThousandShareInProcess(t *testing.T) {
	testkit.Full(t)
	m := miniredis.RunT(t)
	m.SetTime(time.Now())
	testManyShare(t, m.Addr())
}

// A server whose memory is full grants nothing, leaves nothing behind, and does not keep
// holders from renewing and releasing.
func TestAFullServerRenewsAndReleasesSharedHolds(t *testing.T) {
	s := newSharing(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
	for range plays {
		if renewsWhenFull(t, s) {
			return
		}
	}
	t.Fatalf("%d plays all took too long", plays)
}

// renewsWhenFull returns whether it was played in time.
func renewsWhenFull(t *testing.T, s *sharing) bool {
	t.Helper()
	s.do("CONFIG,SET,maxmemory,0")
	s.begins()
	s.given(bothDo)
	s.do("CONFIG,SET,maxmemory,1")
	for _, c := range []call{share("C", 0), {lua.ShareScript, []string{lua.NodeKey, "other", lua.TombstoneKey + "x"}, []any{"e1", "S", 77, 7, "x", 600000, 0}}} {
		err := s.c.Eval(t.Context(), c.script.Body, s.keys(c), s.args(c)...).Err()
		if err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("a share: got %v; want an OOM error", err)
		}
	}
	for _, c := range []struct {
		call call
		want string
	}{{extendShared("A"), "[1]"}, {extendShared("B").with(2, 1200000), "[1]"}} {
		if got := s.call(c.call); got != c.want {
			t.Errorf("a renewal: got %s; want %s", got, c.want)
		}
	}
	if s.late() {
		return false
	}
	if got, want := s.shows(), "#41 A@600 B@1200 7=41"; got != want {
		t.Errorf("the node shows %s; want %s", got, want)
	}
	if got := s.call(endShared("B")); got != "1" {
		t.Errorf("a release: got %s; want 1", got)
	}
	if got, want := s.shows(), "#41 A@600 7=41"; got != want {
		t.Errorf("the node shows %s; want %s", got, want)
	}
	if n := s.c.Exists(t.Context(), "other").Val(); n != 0 {
		t.Error("a key is left that nobody was granted")
	}
	return true
}

// Without the right to say when a key ends nobody begins to share: a set would stay.
func TestShareWithoutTheRightToPEXPIREATLeavesNothing(t *testing.T) {
	addr := testserver.NeedOne(t, redisserver.Config{Users: []string{"lesser on >SECRET ~* &* +@all -pexpireat"}}).Addr()
	s := newSharing(t, addr)
	s.given(none)
	lesser := redis.NewClient(&redis.Options{Addr: addr, Username: "lesser", Password: "SECRET"})
	defer lesser.Close()
	for _, c := range []call{share("A", 0), reseedShared("A", 50)} {
		if err := lesser.Eval(t.Context(), c.script.Body, s.keys(c), s.args(c)...).Err(); err == nil {
			t.Errorf("%s: no error", c.script.Name)
		}
		if kind := s.c.Type(t.Context(), "name").Val(); kind != "none" {
			t.Errorf("%s leaves a %s", c.script.Name, kind)
		}
	}
}
