package simnode_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// What the random calls are made of: few of each, so that they meet.
var (
	names   = []string{"name-0", "name-1"}
	owners  = []string{"owner-0", "owner-1", "owner-2"}
	stripes = []string{"7", "8"}
	waiters = []string{"w-0", "w-1", "w-2"}
	pushes  = []string{"", "owner-0", "owner-1", "owner-2"}
	keys    = append(append([]string{"redlock:node"}, names...), tombstones()...)
	fields  = append([]string{
		"format", "epoch", "cluster", "gen", "before", "before_maxttl", "settled", "ballot", "proposed", "names", "maxttl", "run", "base",
		"nonce", "nonce_run", "strict", "since",
	}, stripes...)
)

const node = "redlock:node"

func tombstones() (out []string) {
	for _, o := range owners {
		out = append(out, dead(o))
	}
	return out
}

func dead(owner string) string { return "redlock:dead:" + owner }

func pick(rnd *source, of []string) string { return of[rnd.IntN(len(of))] }

// mostly is the first one, and seldom another.
func mostly(rnd *source, of ...string) string {
	if rnd.IntN(6) > 0 {
		return of[0]
	}
	return pick(rnd, of)
}

func epoch(rnd *source) string { return mostly(rnd, "e1", "e2", "") }

// lease is some hours, seldom none.
func lease(rnd *source) string {
	if rnd.IntN(40) == 0 {
		return "0"
	}
	return strconv.Itoa((1 + rnd.IntN(5)) * 3_600_000)
}

// between is a lease that no other has, so that a millisecond does not decide which
// of two is longer.
func between(rnd *source) string { return strconv.Itoa((1+rnd.IntN(5))*3_600_000 + 1_800_000) }

// source is where a sequence is drawn from.
type source struct {
	*rand.Rand
	high bool // with numbers near the last one, from which counters never return
}

// count is a small number, so that a few of them meet.
func count(rnd *source) string {
	if rnd.high && rnd.IntN(2) == 0 {
		return strconv.Itoa(1<<53 - 1 - rnd.IntN(3))
	}
	return strconv.Itoa(rnd.IntN(7))
}

// step is one command, or a script's call: "acquire" stands for EVALSHA and its
// hash.
type step []string

// call is a script's call.
func call(script string, keys []string, argv ...string) step {
	return append(append(step{script, strconv.Itoa(len(keys))}, keys...), argv...)
}

// repeat draws n times.
func repeat(n int, draw func() string) (out []string) {
	for range n {
		out = append(out, draw())
	}
	return out
}

// draws are the kinds of steps.
var draws = []func(*source) step{
	func(rnd *source) step {
		o := pick(rnd, owners)
		return call("acquire", []string{pick(rnd, names), node}, o, lease(rnd), count(rnd), pick(rnd, stripes), epoch(rnd))
	},
	func(rnd *source) step { return batchOf(rnd, "acquire_batch") },
	func(rnd *source) step { return batchOf(rnd, "reseed") },
	func(rnd *source) step {
		return call("raise", []string{pick(rnd, names), node}, pick(rnd, owners), pick(rnd, stripes), count(rnd), epoch(rnd))
	},
	func(rnd *source) step {
		n := 1 + rnd.IntN(5)
		argv := append([]string{epoch(rnd)}, repeat(n, func() string { return pick(rnd, owners) })...)
		argv = append(argv, repeat(n, func() string { return lease(rnd) })...)
		return call("extend", append([]string{node}, repeat(n, func() string { return pick(rnd, names) })...), argv...)
	},
	func(rnd *source) step {
		o := pick(rnd, owners)
		if rnd.IntN(2) == 0 {
			return call("release", []string{pick(rnd, names)}, o)
		}
		return call("release", []string{pick(rnd, names), dead(o)}, o, lease(rnd))
	},
	func(rnd *source) step {
		n := 1 + rnd.IntN(5)
		m := rnd.IntN(n + 1)
		held := repeat(n, func() string { return pick(rnd, owners) })
		on := repeat(n, func() string { return pick(rnd, names) })
		for _, o := range held[:m] {
			on = append(on, dead(o))
		}
		argv := append(append([]string{strconv.Itoa(n)}, held...), repeat(m, func() string { return lease(rnd) })...)
		return call("release_batch", on, argv...)
	},
	func(rnd *source) step {
		n := 1 + rnd.IntN(3)
		held := repeat(n, func() string { return pick(rnd, owners) })
		on := append([]string{node}, repeat(n, func() string { return pick(rnd, names) })...)
		for _, o := range held {
			on = append(on, dead(o))
		}
		argv := append([]string{epoch(rnd), pick(rnd, waiters)}, repeat(n, func() string { return pick(rnd, stripes) })...)
		argv = append(append(argv, held...), repeat(n, func() string { return "3600000" })...)
		argv = append(argv, repeat(n, func() string { return count(rnd) })...)
		argv = append(argv, repeat(n, func() string { return pick(rnd, []string{"-1", "0", "3", "5", "7"}) })...)
		if rnd.IntN(2) == 0 {
			argv = append(append(argv, reading(rnd)), repeat(n, func() string { return mostly(rnd, "1", "0") })...)
		}
		return call("ask", on, argv...)
	},
	hand, hand, hand, handOne, handOne, handOne,
	func(rnd *source) step {
		n := 1 + rnd.IntN(3)
		argv := append([]string{strconv.Itoa(n)}, repeat(n, func() string { return pick(rnd, owners) })...)
		argv = append(append(argv, pick(rnd, waiters)), repeat(n, func() string { return pick(rnd, []string{"0", "1", "2", "2", "3"}) })...)
		if rnd.IntN(2) == 0 {
			argv = append(append(argv, reading(rnd)), repeat(n, func() string { return strconv.Itoa(1 + rnd.IntN(9)) })...)
			argv = append(argv, repeat(n, func() string { return pick(rnd, pushes) })...)
		}
		return call("release_batch", repeat(n, func() string { return pick(rnd, names) }), argv...)
	},
	func(rnd *source) step {
		o := pick(rnd, owners)
		return call("pass", []string{pick(rnd, names), node, dead(o)}, pick(rnd, owners), o, "3600000", count(rnd), pick(rnd, stripes), epoch(rnd))
	},
	func(rnd *source) step {
		n := rnd.IntN(3)
		argv := append([]string{pick(rnd, waiters)}, repeat(n, func() string { return strconv.Itoa(1 + rnd.IntN(9)) })...)
		if rnd.IntN(2) == 0 {
			argv = append(append(argv, reading(rnd)), repeat(n, func() string { return pick(rnd, pushes) })...)
		}
		return call("look", repeat(n, func() string { return pick(rnd, names) }), argv...)
	},
	func(rnd *source) step { return step{"DEL", "redlock:live:" + pick(rnd, waiters)} },
	func(rnd *source) step { return step{"DEL", "redlock:waiting"} },
	func(rnd *source) step {
		return step{"ZADD", "redlock:queue:" + pick(rnd, names), strconv.Itoa(rnd.IntN(9)), pick(rnd, waiters)}
	},
	func(rnd *source) step {
		step := append(step{"ZADD", "redlock:queue:" + pick(rnd, names)}, pick(rnd, []string{"NX", "XX", "nx", "INCR", "XX NX", "XX INCR", "x"}))
		step = append(strings.Fields(strings.Join(step, " ")), strconv.Itoa(rnd.IntN(9)), pick(rnd, waiters))
		if rnd.IntN(3) == 0 {
			step = append(step, "5", pick(rnd, waiters)+" "+pick(rnd, owners))
		}
		return step
	},
	func(rnd *source) step {
		w, place := pick(rnd, waiters), strconv.Itoa(rnd.IntN(9))
		return step{"ZADD", "redlock:queue:" + pick(rnd, names), place, w, place, w + " " + pick(rnd, owners)}
	},
	func(rnd *source) step { return call("read", []string{node}, pick(rnd, []string{"0", "1"})) },
	func(rnd *source) step {
		return call("notice", []string{node}, pick(rnd, []string{"nonce-1", "nonce-2"}), pick(rnd, []string{"", "c1\n1"}), pick(rnd, []string{"", "c1\n1"}))
	},
	func(rnd *source) step {
		return call("seize", []string{node}, mostly(rnd, "RUN", "another"), mostly(rnd, "e1", ""), mostly(rnd, "", "c1\n1"), "nonce-1", "c1\n1")
	},
	func(rnd *source) step {
		return call("install", []string{node}, mostly(rnd, "nonce-1", "nonce-2"), mostly(rnd, "RUN", "another"), mostly(rnd, "1", "2"),
			mostly(rnd, "e1", "e2"), pick(rnd, []string{"c1", "c2"}), "a\nb\nc", "30000", count(rnd), pick(rnd, []string{"", "1"}), mostly(rnd, "1", "2"), mostly(rnd, "", "a\nb"), mostly(rnd, "0", "20000"), mostly(rnd, "", "1"), mostly(rnd, "0", "7"), "", mostly(rnd, "", "c1\n1"), "c0 1")
	},
	func(rnd *source) step {
		return call("settle", []string{node}, epoch(rnd), mostly(rnd, "e1", "e2"), mostly(rnd, "0", "1", "2"), count(rnd))
	},
	func(rnd *source) step {
		return call("accept", []string{node}, epoch(rnd), count(rnd), count(rnd), "30000\n1\na\nb")
	},
	func(rnd *source) step {
		return call("force", []string{node}, epoch(rnd), mostly(rnd, "e1", "e2"), pick(rnd, []string{"1", "2", "3"}), "a\nb", "60000", pick(rnd, []string{"", "1"}), "a\nb\nc", "30000", count(rnd))
	},
	func(rnd *source) step { return call("deleteIfOurs", []string{pick(rnd, names)}, pick(rnd, owners)) },
	func(rnd *source) step {
		return call("expireIfOurs", []string{pick(rnd, names)}, pick(rnd, owners), mostly(rnd, lease(rnd), "-1", "x"))
	},
	command, command, record, record, record,
}

func reading(rnd *source) string { return strconv.Itoa(40_000 + rnd.IntN(1000)) }

// hand is hand.lua, of a process that goes on, or that does not.
func hand(rnd *source) step {
	n := 1 + rnd.IntN(3)
	argv := append([]string{epoch(rnd)}, repeat(n, func() string { return pick(rnd, stripes) })...)
	argv = append(argv, repeat(n, func() string { return pick(rnd, owners) })...)
	argv = append(argv, repeat(n, func() string { return count(rnd) })...)
	if rnd.IntN(3) > 0 {
		argv = append(append(argv, pick(rnd, waiters), reading(rnd)), repeat(2*n, func() string { return pick(rnd, pushes) })...)
	}
	return call("hand", append([]string{node}, repeat(n, func() string { return pick(rnd, names) })...), argv...)
}

func handOne(rnd *source) step {
	argv := []string{pick(rnd, owners), epoch(rnd), count(rnd), pick(rnd, stripes)}
	if rnd.IntN(3) > 0 {
		argv = append(argv, pick(rnd, waiters), reading(rnd), pick(rnd, pushes), pick(rnd, pushes))
	}
	return call("hand_one", []string{pick(rnd, names), node}, argv...)
}

// hours is a lease.
func hours(rnd *source) string { return strconv.Itoa((1 + rnd.IntN(5)) * 3_600_000) }

// shareNames is share.lua.
func shareNames(rnd *source) step {
	n := 1 + rnd.IntN(3)
	held := repeat(n, func() string { return pick(rnd, owners) })
	on := append([]string{node}, repeat(n, func() string { return pick(rnd, names) })...)
	for _, o := range held {
		on = append(on, dead(o))
	}
	argv := append([]string{epoch(rnd), pick(rnd, waiters), reading(rnd)}, repeat(n, func() string { return pick(rnd, stripes) })...)
	argv = append(append(argv, held...), repeat(n, func() string { return hours(rnd) })...)
	argv = append(argv, repeat(n, func() string { return pick(rnd, []string{"-1", "0", "3", "5", "7"}) })...)
	return call("share", on, argv...)
}

// keepShared is extend_shared.lua or reseed_shared.lua.
func keepShared(rnd *source) step {
	n := 1 + rnd.IntN(3)
	held := repeat(n, func() string { return pick(rnd, owners) })
	on := append([]string{node}, repeat(n, func() string { return pick(rnd, names) })...)
	if rnd.IntN(2) == 0 {
		argv := append(append([]string{epoch(rnd)}, held...), repeat(n, func() string { return hours(rnd) })...)
		return call("extend_shared", on, argv...)
	}
	for _, o := range held {
		on = append(on, dead(o))
	}
	argv := append(append([]string{epoch(rnd)}, repeat(n, func() string { return pick(rnd, stripes) })...), held...)
	argv = append(argv, repeat(n, func() string { return hours(rnd) })...)
	return call("reseed_shared", on, append(argv, repeat(n, func() string { return count(rnd) })...)...)
}

func raiseShared(rnd *source) step {
	return call("raise_shared", []string{pick(rnd, names), node}, pick(rnd, owners), pick(rnd, stripes), count(rnd), epoch(rnd))
}

// endShared is release_shared.lua, of a process that stood in line, or of another.
func endShared(rnd *source) step {
	n := 1 + rnd.IntN(3)
	m := rnd.IntN(n + 1)
	held := repeat(n, func() string { return pick(rnd, owners) })
	on := repeat(n, func() string { return pick(rnd, names) })
	for _, o := range held[:m] {
		on = append(on, dead(o))
	}
	argv := append(append([]string{strconv.Itoa(n)}, held...), repeat(m, func() string { return hours(rnd) })...)
	if rnd.IntN(2) == 0 {
		argv = append(append(argv, pick(rnd, waiters)), repeat(n, func() string { return pick(rnd, []string{"0", "1", "2"}) })...)
		argv = append(argv, repeat(n, func() string { return strconv.Itoa(1 + rnd.IntN(9)) })...)
	}
	return call("release_shared", on, argv...)
}

// putShared is what no script of ours does to a name that is shared, and to who waits to
// share one: a member that has ended, data of another program, an entry without a sign of
// life.
func putShared(rnd *source) step {
	name, o := pick(rnd, names), pick(rnd, owners)
	return [...]step{
		{"ZADD", name, "XX", "5", o},
		{"ZADD", name, "-7", "theirs", "-6", "redlock:shared", "3", o},
		{"DEL", name},
		{"DEL", name},
		{"PEXPIREAT", name, "9000000000000"},
		{"PEXPIREAT", name, "x"},
		{"PEXPIREAT", name, "5"},
		{"ZADD", "redlock:sharers:" + name, strconv.Itoa(rnd.IntN(9)), pick(rnd, waiters)},
		{"SET", "redlock:sharing", "1", "PX", "300000"},
		{"DEL", "redlock:sharing"},
	}[rnd.IntN(10)]
}

// batchOf is acquire_batch or reseed: anything may be in it twice.
func batchOf(rnd *source, script string) step {
	n := 1 + rnd.IntN(5)
	on := append([]string{node}, repeat(n, func() string { return pick(rnd, names) })...)
	held := repeat(n, func() string { return pick(rnd, owners) })
	argv := []string{epoch(rnd)}
	if script == "acquire_batch" {
		argv = append(argv, "")
	} else {
		for _, o := range held {
			on = append(on, dead(o))
		}
	}
	argv = append(argv, repeat(n, func() string { return pick(rnd, stripes) })...)
	argv = append(argv, held...)
	argv = append(argv, repeat(n, func() string { return lease(rnd) })...)
	argv = append(argv, repeat(n, func() string { return count(rnd) })...)
	return call(script, on, argv...)
}

// command is what no script of ours does, on a name or on a tombstone.
func command(rnd *source) step {
	k, o := pick(rnd, keys[1:]), pick(rnd, owners)
	return [...]step{
		{"SET", k, o},
		{"SET", k, o, "PX", lease(rnd)},
		{"set", k, o, "nx", "px", lease(rnd)},
		{"SET", k, o, "XX", "KEEPTTL"},
		{"SET", k, o, "EX", "3600", "NX"},
		{"SET", k, o, "PX"},
		{"SET", k, o, "PX", "1", "EX", "1"},
		{"SETNX", k, o},
		{"DEL", k},
		{"DEL", k, k, "absent"},
		{"UNLINK", k},
		{"HSET", k, "f", "v"},
		{"HSET", k, "f"},
		{"HDEL", k, "f", "g"},
		{"PEXPIRE", k, lease(rnd)},
		{"PEXPIRE", k, between(rnd), "GT"},
		{"PEXPIRE", k, between(rnd), "LT"},
		{"PEXPIRE", k, "-1"},
		{"EXPIRE", k, "7200", "NX"},
		{"EXPIRE", k, "7200", "xx"},
		{"EXPIRE", k, "x"},
		{"PERSIST", k},
		{"INCR", k},
		{"INCRBY", k, "-3"},
		{"SET", k, "41"},
		{"HINCRBY", k, "n", "7"},
		{"HSETNX", k, "f", "w"},
		{"GET", k},
		{"MGET", k, node, "absent"},
		{"STRLEN", k},
		{"STRLEN", "absent"},
		{"GETRANGE", k, "0", "3"},
		{"GETRANGE", k, "-4", "-1"},
		{"GETRANGE", k, "-99", "99"},
		{"GETRANGE", k, "-1", "-3"},
		{"GETRANGE", k, "2", "x"},
		{"GETRANGE", "absent", "0", "1"},
		{"EXISTS", k, k, "absent"},
		{"TYPE", k},
		{"HGET", k, "f"},
		{"HEXISTS", k, "f"},
		{"HMGET", k, "f", "g"},
		{"HGET"},
		{"TIME", "x"},
		{"nonsense", "a", "b"},
		{"SCRIPT", "FLUSH"},
		{"EVALSHA", strings.Repeat("0", 40), "0"},
		{"EVALSHA", "x", "2", "a"},
		{"EVALSHA", "x", "-1"},
		{"EVALSHA", "x", "y"},
		{"SELECT", "99"},
		{"KEYS", "name-[0]"},
		{"EVAL", "return {1, 'two', {3, false, 'four'}, redis.status_reply('FIVE'), nil, 6}", "0"},
		{"EVAL", "return redis.pcall('GET', KEYS[1])", "1", node},
		{"EVAL", "return redis.error_reply('NO way')", "0"},
		{"EVAL", "return redis.call('SET', KEYS[1], 2^40 + 0.5)", "1", k},
		{"EVAL", "return redis.call('nonsense')", "0"},
		{"EVAL", "return redis.call('GET')", "0"},
		{"EVAL", "return redis.call('SCRIPT', 'FLUSH')", "0"},
		{"EVAL", "return redis.sha1hex('x')", "0"},
		{"EVAL", "return {redis.call('PTTL', KEYS[1]), #ARGV, tostring(#KEYS), 3.99, true}", "1", k, "x"},
		{"EVAL", "return not a script", "0"},
	}[rnd.IntN(54)]
}

// record makes the record another: blank, foreign, damaged.
func record(rnd *source) step {
	return [...]step{
		{"DEL", node},
		{"SET", node, "data"},
		{"FLUSHALL"},
		{"HSET", node, "base", "x"},
		{"HDEL", node, "base"},
		{"HDEL", node, "epoch"},
		{"HSET", node, "epoch", "e2"},
		{"HSET", node, "maxttl", "x"},
		{"HDEL", node, "format"},
		{"HDEL", node, "strict"},
		{"HSET", node, "strict", "1"},
		{"HSET", node, "epoch", "e1", "base", count(rnd)},
		{"HSET", node, "epoch", "e1", "base", "5", "format", "4"},
		{"HSET", node, "epoch", "e1", "names", "a\nb\nc"},
		{"HSET", node, "nonce", "nonce-1", "nonce_run", "RUN"},
		{"HSET", node, "epoch", "e1", pick(rnd, stripes), count(rnd)},
		{"HSET", node, "epoch", "e1"},
		{"HSET", node, "epoch", "e1"},
		{"HSET", node, "epoch", "e1", "cluster", "c1", "maxttl", "30000"},
		{"HSET", node, "gen", count(rnd), "ballot", count(rnd)},
	}[rnd.IntN(20)]
}

// take makes a peer do a step.
func (p *peer) take(s step) string {
	p.t.Helper()
	if body := bodies[s[0]]; body == "" {
		return p.do(s...)
	}
	hash := strings.Trim(p.do("SCRIPT", "LOAD", p.script(s[0])), `"`)
	return p.do(append([]string{"EVALSHA", hash}, s[1:]...)...)
}

// sharedDraws are those of names that are shared as well.
var sharedDraws = append(append([]func(*source) step(nil), draws...),
	shareNames, shareNames, shareNames, keepShared, keepShared, raiseShared, endShared, endShared, endShared, putShared)

// compare has two peers do the same, and looks at each reply and, after each step,
// at all that is stored.
func compare(t *testing.T, got, want *peer, sequences, length int, draws []func(*source) step) {
	t.Helper()
	for seed := range uint64(sequences) {
		rnd := &source{rand.New(rand.NewPCG(seed, 0)), seed%2 == 0}
		steps := []step{{"FLUSHALL"}, {"HSET", node, "epoch", "e1"}}
		for range length {
			steps = append(steps, draws[rnd.IntN(len(draws))](rnd))
		}
		for i, s := range steps {
			g, w := ends(got.take(s)), ends(want.take(s))
			if g != w {
				t.Fatalf("seed %d, %q: got %s; want %s\nafter %q", seed, s, g, w, steps[:i])
			}
			if g, w := got.stored(), want.stored(); g != w {
				t.Fatalf("seed %d, %q leaves\n%s; want\n%s\nafter %q", seed, s, g, w, steps[:i])
			}
			if g, w := got.heard(), want.heard(); !slices.Equal(g, w) {
				t.Fatalf("seed %d, %q tells %q; want %q\nafter %q", seed, s, g, w, steps[:i])
			}
		}
	}
}

func TestNodeDoesWhatAServerDoes(t *testing.T) {
	addr := testserver.NeedOne(t, redisserver.Config{})
	server := newRealPeer(t, addr).listen(newRealPeer(t, addr))
	p, n := newSimPeer(t)
	p.listen(newSession(t, n))
	compare(t, p, server, 30, 40, sharedDraws)
}

// A server whose clock is moved, and a node of ours: leases are whole hours, and
// steps are half an hour more, either way. What has ended is gone for the scripts of
// locks as for commands.
func TestClockStepsAsAServersDoes(t *testing.T) {
	server := testserver.NeedOne(t, redisserver.Config{FakeClock: true})
	want := newRealPeer(t, server)
	got, n := newSimPeer(t)
	rnd := &source{rand.New(rand.NewPCG(1, 1)), false}
	steps := []step{{"HSET", node, "epoch", "e1"}}
	for i := range 200 {
		if s := (step{"SET", pick(rnd, keys[1:]), "v", "PX", lease(rnd)}); i%3 == 0 {
			steps = append(steps, s)
		} else {
			steps = append(steps, draws[rnd.IntN(7)](rnd))
		}
	}
	var ahead time.Duration
	ended := 0
	for i, s := range steps {
		before := want.do("DBSIZE")
		if i%3 == 0 {
			by := time.Duration(rnd.IntN(8)-4)*time.Hour + 30*time.Minute
			ahead += by
			n.Step(by)
			testkit.Must(t, server.SetClock(fmt.Sprintf("%+d", int(ahead.Seconds()))))
		}
		if g, w := ends(got.take(s)), ends(want.take(s)); g != w { // the first to meet what has ended
			t.Fatalf("%q, clocks ahead by %v: got %s; want %s\nafter %q", s, ahead, g, w, steps[:i])
		}
		if g, w := got.stored(), want.stored(); g != w {
			t.Fatalf("%q, clocks ahead by %v, leaves\n%s; want\n%s\nafter %q", s, ahead, g, w, steps[:i])
		}
		if want.do("DBSIZE") < before {
			ended++
		}
	}
	if ended < 8 {
		t.Errorf("%d times a lease ended with a step of the clock; want more, or this shows little", ended)
	}
}
