package scriptmodel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// tick is a model's tick on a real server: so long that nothing expires while a
// test runs, and that what is left of a lease rounds to whole ticks.
const tick = time.Hour

// atTheTop is where a real node's numbers begin so that the model's last number
// is the scripts' own.
const atTheTop = 1<<53 - 1 - int64(scriptmodel.Last)

// ours is the epoch that the clients of these tests know.
const ours scriptmodel.Epoch = 1

// server is a real node, spoken to through the scripts of lua/ only, and the
// model that must do the same.
type server struct {
	t       *testing.T
	c       *redis.Client
	offset  int64 // what the model's number 0 is there
	scripts map[string]*redis.Script
	now     scriptmodel.Tick // the model's time, which is the time at which the test began
	model   scriptmodel.Node
	log     []string // what was done so far
	names   func(name uint8) string
}

func newServer(t *testing.T, addr string, offset int64) *server {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	s := &server{t: t, c: c, offset: offset, scripts: map[string]*redis.Script{}, names: resource}
	s.load("acquire", "acquire_batch", "raise", "extend", "release", "release_batch", "reseed")
	return s
}

func (s *server) load(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.scripts[name] = redis.NewScript(bodyOf(s.t, name))
	}
}

func bodyOf(t *testing.T, script string) string {
	t.Helper()
	for _, s := range slices.Concat(lua.VotingScripts, lua.KeepingScripts) {
		if s.Name == script {
			return s.Body
		}
	}
	t.Fatalf("there is no script %s", script)
	return ""
}

// install empties the node, and makes it a member unless the epoch is 0.
func (s *server) install(epoch scriptmodel.Epoch, base scriptmodel.Number) {
	s.t.Helper()
	s.log = []string{fmt.Sprintf("install epoch %d, base %d", epoch, base)}
	s.model = scriptmodel.Node{}
	s.do(s.c.FlushAll(s.t.Context()).Err())
	if epoch != 0 {
		s.model = scriptmodel.Node{Epoch: epoch, Base: base}
		s.do(s.c.HSet(s.t.Context(), "redlock:node", "epoch", int(epoch), "base", s.number(base)).Err())
	}
}

func (s *server) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%v\nafter %q", err, s.log)
	}
}

func (s *server) number(n scriptmodel.Number) int64 { return s.offset + int64(n) }

// hint is a hint as it travels: none is none.
func (s *server) hint(n scriptmodel.Number) int64 {
	if n == 0 {
		return 0
	}
	return s.number(n)
}

func millis(t scriptmodel.Tick) int64 { return (time.Duration(t) * tick).Milliseconds() }

// ticks rounds milliseconds.
func ticks(ms int64) int {
	return int((ms + tick.Milliseconds()/2) / tick.Milliseconds())
}

// reply is acquire's reply in the model's numbers.
func (s *server) reply(r int64) int {
	switch {
	case r > 0:
		return int(r - s.offset)
	case r <= scriptmodel.TakenFor:
		return scriptmodel.TakenFor - ticks(scriptmodel.TakenFor-r)
	default:
		return int(r)
	}
}

func resource(name uint8) string { return fmt.Sprintf("name-%d", name) }

func value(o scriptmodel.Owner) string { return fmt.Sprintf("owner-%d", o) }

func tombstone(o scriptmodel.Owner) string { return "redlock:dead:" + value(o) }

// stripeOf: names 0 and 1 share a stripe, 2 has one of its own.
func stripeOf(name uint8) uint8 { return name / 2 }

// run runs a script, and returns its reply as a list.
func (s *server) run(name string, keys []string, args ...any) []int64 {
	s.t.Helper()
	cmd := s.scripts[name].Run(s.t.Context(), s.c, keys, args...)
	if one, err := cmd.Int64(); err == nil {
		return []int64{one}
	}
	many, err := cmd.Int64Slice()
	if err != nil {
		s.t.Fatalf("%s %q %v: %v\nafter %q", name, keys, args, err, s.log)
	}
	return many
}

// step is one step of a sequence: it changes the node and the model, and returns
// what each of them replied.
type step func(s *server, rnd *rand.Rand) (what string, got, want []int)

var steps = []step{acquire, acquireBatch, raise, extend, release, releaseBatch, reseed, disturb}

// compare runs random sequences of steps, and compares every reply and, after
// each step, all that the node has stored.
func compare(t *testing.T, addr string, offset int64, sequences, length int) {
	t.Helper()
	s := newServer(t, addr, offset)
	for seed := range uint64(sequences) {
		rnd := rand.New(rand.NewPCG(seed, uint64(offset)))
		s.install(anyInstall(rnd), scriptmodel.Number(rnd.IntN(2)*rnd.IntN(10)))
		for range length {
			what, got, want := steps[rnd.IntN(len(steps))](s, rnd)
			s.log = append(s.log, what)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, %s: got %v; want %v, as the model\nafter %q", seed, what, got, want, s.log)
			}
			if stored := s.stored(); stored != s.model {
				t.Fatalf("seed %d, %s: got %+v; want %+v, as the model\nafter %q", seed, what, stored, s.model, s.log)
			}
		}
	}
}

func TestModelIsTheScriptsInProcess(t *testing.T) {
	testkit.Full(t)
	m := miniredis.RunT(t)
	t.Run("small numbers", func(t *testing.T) { compare(t, m.Addr(), 0, 25, 40) })
	t.Run("the last numbers", func(t *testing.T) { compare(t, m.Addr(), atTheTop, 25, 40) })
}

func TestModelIsTheScriptsOnAServer(t *testing.T) {
	addr := testserver.NeedOne(t, redisserver.Config{}).Addr()
	t.Run("small numbers", func(t *testing.T) { compare(t, addr, 0, testkit.Of(40, 150), 60) })
	t.Run("the last numbers", func(t *testing.T) { compare(t, addr, atTheTop, testkit.Of(40, 150), 60) })
}

// stored reads all that the node has, as a model.
func (s *server) stored() (n scriptmodel.Node) {
	s.t.Helper()
	ctx, pipe := s.t.Context(), s.c.Pipeline()
	record := pipe.HGetAll(ctx, "redlock:node")
	var kinds []*redis.StatusCmd
	var ends, dead []*redis.DurationCmd
	for i := range n.Keys {
		kinds = append(kinds, pipe.Type(ctx, s.names(uint8(i))))
		ends = append(ends, pipe.PTTL(ctx, s.names(uint8(i))))
	}
	for i := range n.Dead {
		dead = append(dead, pipe.PTTL(ctx, tombstone(scriptmodel.Owner(i+1))))
	}
	_, err := pipe.Exec(ctx)
	s.do(err)
	n.Epoch = scriptmodel.Epoch(integer(record.Val()["epoch"]))
	n.Base = s.modelNumber(record.Val()["base"])
	for i := range n.Stripes {
		n.Stripes[i] = s.modelNumber(record.Val()[strconv.Itoa(i)])
	}
	for i := range n.Keys {
		n.Keys[i] = s.key(ctx, uint8(i), kinds[i].Val(), ends[i].Val())
	}
	for i := range n.Dead {
		n.Dead[i] = s.until(dead[i].Val())
	}
	return n
}

// key is one resource's key, as the model has it.
func (s *server) key(ctx context.Context, name uint8, kind string, ttl time.Duration) scriptmodel.Key {
	k := scriptmodel.Key{Until: s.until(ttl)}
	switch kind {
	case "none":
		return scriptmodel.Key{}
	case "string":
		text, err := s.c.Get(ctx, s.names(name)).Result()
		s.do(err)
		_, err = fmt.Sscanf(text, ownerFormat(text), &k.Owner)
		s.do(err)
	case "zset":
		k.Owner = scriptmodel.Alien
		first, err := s.c.ZRange(ctx, s.names(name), 0, 0).Result()
		s.do(err)
		if first[0] == lua.SharedMark {
			k.Owner = scriptmodel.Shared
		}
	default:
		k.Owner = scriptmodel.Alien
	}
	return k
}

// until is a PTTL as the model has it: no key is 0, no end is Forever.
func (s *server) until(ttl time.Duration) scriptmodel.Tick {
	if ttl == -2 {
		return 0
	}
	if ttl == -1 {
		return scriptmodel.Forever
	}
	return s.now + scriptmodel.Tick(ticks(ttl.Milliseconds()))
}

func (s *server) modelNumber(text string) scriptmodel.Number {
	if text == "" {
		return 0
	}
	return scriptmodel.Number(integer(text) - s.offset)
}

func integer(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
