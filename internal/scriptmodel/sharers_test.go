package scriptmodel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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

// noon is the model's time in the tests of shared names, so that there are earlier ones.
const noon scriptmodel.Tick = 10

// sharing is a real node whose names may be shared, and the model that must do the same.
type sharing struct {
	*server
	begin int64 // noon, by the node's clock, in ms
	sets  [scriptmodel.Names]scriptmodel.Sharers
}

// theirs is another program's sorted set. Members of it are owners' values, and one is the
// mark: only that the mark is the first tells whose a set is.
func (s *sharing) theirs() []redis.Z {
	far := float64(s.begin + millis(20))
	return []redis.Z{{Score: -50, Member: "x"}, {Score: -41, Member: lua.SharedMark}, {Score: far, Member: value(1)}, {Score: far, Member: value(2)}}
}

func newSharing(t *testing.T, addr string, offset int64) *sharing {
	t.Helper()
	s := &sharing{server: newServer(t, addr, offset)}
	s.now = noon
	s.load("share", "extend_shared", "reseed_shared", "raise_shared", "release_shared")
	s.begin = s.c.Time(t.Context()).Val().UnixMilli()
	return s
}

// sharedStep is a step with the sets.
type sharedStep func(s *sharing, rnd *rand.Rand) (what string, got, want []int)

func plain(f step) sharedStep {
	return func(s *sharing, rnd *rand.Rand) (string, []int, []int) { return f(s.server, rnd) }
}

// sharedSteps: those of shared names, and among them the others.
var sharedSteps = []sharedStep{
	share, share, share, share, extendShared, extendShared, reseedShared, reseedShared, raiseShared, raiseShared, releaseShared, releaseShared,
	endMember, endMember, foreignSet, tidy,
	plain(acquire), plain(acquireBatch), plain(raise), plain(extend), plain(release), plain(releaseBatch), plain(reseed),
}

// likely is often an owner that shares the name.
func (s *sharing) likely(rnd *rand.Rand, name uint8) scriptmodel.Owner {
	o := s.likelyOwner(rnd, name)
	for tries := 0; s.sets[name].Ends[o-1] == 0 && tries < 2*scriptmodel.Owners && rnd.IntN(30) > 0; tries++ {
		o = anyOwner(rnd)
	}
	return o
}

// share takes names in one call. No attempt is in it twice.
func share(s *sharing, rnd *rand.Rand) (what string, got, want []int) {
	epoch, n := anyEpoch(rnd), 1+rnd.IntN(3)
	var items []scriptmodel.Acquire
	keys, args := []string{"redlock:node"}, make([]any, 3+4*n)
	args[0], args[1], args[2] = int(epoch), "process", 1
	for i := range n {
		name := anyName(rnd)
		a := scriptmodel.Acquire{Name: name, Owner: anyOwner(rnd), Life: anyLife(rnd), Stripe: stripeOf(name), Epoch: epoch}
		if rnd.IntN(3) == 0 {
			a.Owner = s.likely(rnd, name)
		}
		items, keys = append(items, a), append(keys, resource(name))
		for j, arg := range []any{a.Stripe, value(a.Owner), millis(a.Life), -1} {
			args[3+j*n+i] = arg
		}
		want = append(want, s.model.Share(s.now, &s.sets[name], a, 0))
	}
	for _, a := range items {
		keys = append(keys, tombstone(a.Owner))
	}
	for _, r := range s.run("share", keys, args...)[:n] {
		got = append(got, s.reply(r))
	}
	return fmt.Sprintf("share %+v", items), got, want
}

func extendShared(s *sharing, rnd *rand.Rand) (what string, got, want []int) {
	n, epoch := 1+rnd.IntN(4), anyEpoch(rnd)
	keys, args := []string{"redlock:node"}, make([]any, 1+2*n)
	args[0] = int(epoch)
	for i := range n {
		name := anyName(rnd)
		e := scriptmodel.Extend{Name: name, Owner: s.likely(rnd, name), Life: anyLife(rnd), Epoch: epoch}
		keys = append(keys, resource(e.Name))
		args[1+i], args[1+n+i] = value(e.Owner), millis(e.Life)
		want = append(want, s.model.ExtendShared(s.now, &s.sets[name], e, 0))
	}
	return fmt.Sprintf("extend_shared %q %v", keys, args), ints(s.run("extend_shared", keys, args...)), want
}

func reseedShared(s *sharing, rnd *rand.Rand) (what string, got, want []int) {
	n, epoch := 1+rnd.IntN(3), anyEpoch(rnd)
	var items []scriptmodel.Reseed
	keys, args := []string{"redlock:node"}, make([]any, 1+4*n)
	args[0] = int(epoch)
	for i := range n {
		name := anyName(rnd)
		r := scriptmodel.Reseed{
			Name: name, Owner: s.likely(rnd, name), Life: anyLife(rnd), Stripe: stripeOf(name), Token: s.anyNumber(rnd), Epoch: epoch,
		}
		items, keys = append(items, r), append(keys, resource(name))
		for j, arg := range []any{r.Stripe, value(r.Owner), millis(r.Life), s.number(r.Token)} {
			args[1+j*n+i] = arg
		}
		want = append(want, s.model.ReseedShared(s.now, &s.sets[name], r, 0))
	}
	for _, r := range items {
		keys = append(keys, tombstone(r.Owner))
	}
	return fmt.Sprintf("reseed_shared %+v", items), ints(s.run("reseed_shared", keys, args...)), want
}

func raiseShared(s *sharing, rnd *rand.Rand) (what string, got, want []int) {
	name := anyName(rnd)
	r := scriptmodel.Raise{Name: name, Owner: s.likely(rnd, name), Stripe: stripeOf(name), Token: s.anyNumber(rnd), Epoch: anyEpoch(rnd)}
	reply := s.run("raise_shared", []string{resource(name), "redlock:node"}, value(r.Owner), r.Stripe, s.number(r.Token), int(r.Epoch))
	return fmt.Sprintf("raise_shared %+v", r), []int{s.reply(reply[0])}, []int{s.model.RaiseShared(s.now, &s.sets[name], r, 0)}
}

// releaseShared: the reply is how many were ended.
func releaseShared(s *sharing, rnd *rand.Rand) (what string, got, want []int) {
	n, gone := 1+rnd.IntN(3), 0
	var names, dead []string
	args, lives := []any{n}, []any(nil)
	for range n {
		name := anyName(rnd)
		r := scriptmodel.Release{Name: name, Owner: s.likely(rnd, name), Tombstone: scriptmodel.Tick(rnd.IntN(2)) * anyLife(rnd)}
		names, args = append(names, resource(name)), append(args, value(r.Owner))
		if r.Tombstone != 0 {
			dead, lives = append(dead, tombstone(r.Owner)), append(lives, millis(r.Tombstone))
		}
		one, _ := s.model.EndShared(s.now, &s.sets[name], r, 0)
		gone += one
	}
	replies := s.run("release_shared", append(names, dead...), append(args, lives...)...)
	return fmt.Sprintf("release_shared %q %q %v %v", names, dead, args, lives), ints(replies), []int{gone}
}

// endMember has one that shares a name end before now: the key's end stays, as it does
// where only time passes.
func endMember(s *sharing, rnd *rand.Rand) (what string, got, want []int) {
	name := anyName(rnd)
	o, set := s.likely(rnd, name), &s.sets[name]
	what = fmt.Sprintf("owner %d ends at name %d", o, name)
	if set.Ends[o-1] != 0 {
		set.Ends[o-1] = noon - scriptmodel.Tick(1+rnd.IntN(5))
		s.do(s.c.ZAdd(s.t.Context(), resource(name), redis.Z{Score: float64(s.begin - millis(noon-set.Ends[o-1])), Member: value(o)}).Err())
	}
	return what, nil, nil
}

// foreignSet has another program store a sorted set under a name.
func foreignSet(s *sharing, rnd *rand.Rand) (what string, got, want []int) {
	name := anyName(rnd)
	s.do(s.c.Del(s.t.Context(), resource(name)).Err())
	s.do(s.c.ZAdd(s.t.Context(), resource(name), s.theirs()...).Err())
	s.sets[name] = scriptmodel.Sharers{}
	s.model.Keys[name] = scriptmodel.Key{Owner: scriptmodel.Alien, Until: scriptmodel.Forever}
	return fmt.Sprintf("name %d is another program's", name), nil, nil
}

// tidy is disturb, which knows of no sets.
func tidy(s *sharing, rnd *rand.Rand) (what string, got, want []int) {
	what, got, want = disturb(s.server, rnd)
	for name := range s.sets {
		if s.model.Keys[name].Owner != scriptmodel.Shared {
			s.sets[name] = scriptmodel.Sharers{}
		}
	}
	return what, got, want
}

// readSet is the sorted set of a name, as the model has it. Another program's must be as
// it was stored.
func (s *sharing) readSet(name uint8) (set scriptmodel.Sharers) {
	s.t.Helper()
	if s.c.Type(s.t.Context(), resource(name)).Val() != "zset" {
		return set
	}
	members, err := s.c.ZRangeWithScores(s.t.Context(), resource(name), 0, -1).Result()
	s.do(err)
	if members[0].Member != lua.SharedMark {
		if fmt.Sprint(members) != fmt.Sprint(s.theirs()) {
			s.t.Fatalf("another program's set is %v; want %v\nafter %q", members, s.theirs(), s.log)
		}
		return set
	}
	set.Number = scriptmodel.Number(int64(-members[0].Score) - s.offset)
	for _, m := range members[1:] {
		var o scriptmodel.Owner
		text := m.Member.(string)
		_, err := fmt.Sscanf(text, ownerFormat(text), &o)
		s.do(err)
		set.Ends[o-1] = noon + scriptmodel.Tick(math.Round((m.Score-float64(s.begin))/float64(tick.Milliseconds())))
	}
	return set
}

// difference is how the node and the model differ after random calls; nothing: they do not.
func (s *sharing) difference(from uint64, sequences, length int) string {
	for seed := from; seed < from+uint64(sequences); seed++ {
		rnd := rand.New(rand.NewPCG(seed, uint64(s.offset)))
		s.install(anyInstall(rnd), scriptmodel.Number(rnd.IntN(2)*rnd.IntN(10)))
		s.sets = [scriptmodel.Names]scriptmodel.Sharers{}
		for range length {
			what, got, want := sharedSteps[rnd.IntN(len(sharedSteps))](s, rnd)
			s.log = append(s.log, what)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Sprintf("seed %d, %s: got %v; want %v, as the model\nafter %q", seed, what, got, want, s.log)
			}
			if stored := s.stored(); stored != s.model {
				return fmt.Sprintf("seed %d, %s: got %+v; want %+v, as the model\nafter %q", seed, what, stored, s.model, s.log)
			}
			for name := range s.sets {
				if set := s.readSet(uint8(name)); set != s.sets[name] {
					return fmt.Sprintf("seed %d, %s: name %d has %+v; want %+v, as the model\nafter %q", seed, what, name, set, s.sets[name], s.log)
				}
			}
		}
	}
	return ""
}

func compareSharing(t *testing.T, addr string, offset int64, sequences, length int) {
	t.Helper()
	if found := newSharing(t, addr, offset).difference(0, sequences, length); found != "" {
		t.Fatal(found)
	}
}

func TestModelOfSharersIsTheScriptsInProcess(t *testing.T) {
	testkit.Full(t)
	m := miniredis.RunT(t)
	m.SetTime(time.Now())
	t.Run("small numbers", func(t *testing.T) { compareSharing(t, m.Addr(), 0, 25, 40) })
	t.Run("the last numbers", func(t *testing.T) { compareSharing(t, m.Addr(), atTheTop, 25, 40) })
}

func TestModelOfSharersIsTheScriptsOnAServer(t *testing.T) {
	addr := testserver.NeedOne(t, redisserver.Config{}).Addr()
	t.Run("small numbers", func(t *testing.T) { compareSharing(t, addr, 0, testkit.Of(50, 200), 60) })
	t.Run("the last numbers", func(t *testing.T) { compareSharing(t, addr, atTheTop, testkit.Of(50, 200), 60) })
}

// sharedEdits each break a script, so that it is another than the model.
var sharedEdits = []struct {
	name, script, old, new string
	seed                   uint64 // the first that tells it
}{
	{"a join that looks at no mark", "share", "mark[1] == 'redlock:shared'", "call('TYPE', key).ok == 'zset'", 0},
	{"a release that looks at no mark", "release_shared", "set[1] == 'redlock:shared'", "call('TYPE', key).ok == 'zset'", 4},
	{"an extension that looks at no mark", "extend_shared", "mark[1] ~= 'redlock:shared'", "call('TYPE', key).ok ~= 'zset'", 0},
	{"a re-seed that looks at no mark", "reseed_shared", "mark[1] == 'redlock:shared'", "call('TYPE', key).ok == 'zset'", 1},
	{"a raise that looks at no mark", "raise_shared", "mark[1] ~= 'redlock:shared'", "call('TYPE', KEYS[1]).ok ~= 'zset'", 0},
	{"the key ends with the first", "share", "whole(math.max(tonumber(latest), ends))", "latest", 0},
	{"the key ends with the newest", "share", "whole(math.max(tonumber(latest), ends))", "whole(ends)", 0},
	{"a release that never lowers the end", "release_shared", "call('PEXPIREAT', key, string.format('%.0f', latest))", "", 0},
	{"a release that deletes the key", "release_shared", "if latest < now then", "if true then", 0},
	{"a first sharer that does not count", "share", "    c = c + 1\n    local number", "    local number", 0},
	{"one that has ended is extended", "extend_shared", "if ownEnd < now then", "if ownEnd == 0 then", 0},
	{"one that has ended is not removed", "share", "    if tonumber(ends) >= now then return true end\n", "    if true then return true end\n", 1},
	{"a raise of one that has ended", "raise_shared", "call('ZSCORE', KEYS[1], ARGV[1]) or 0) < now", "call('ZSCORE', KEYS[1], ARGV[1]) or 0) == 0", 32},
	{"a raise down", "raise_shared", "> tonumber(ARGV[3]) then", "> math.huge then", 1},
	{"a re-seed with its old token", "reseed_shared", "c < token and token or c + 1", "token", 1},
	{"a re-seed under a tombstone", "reseed_shared", " or call('EXISTS', KEYS[1 + n + i]) == 1", "", 1},
	{"an acquire that does not know a shared name", "acquire", "[1] == 'redlock:shared'", "[1] == 'nothing'", 1},
	{"and one of many", "acquire_batch", "[1] == 'redlock:shared'", "[1] == 'nothing'", 4},
}

// edit changes a script; what is to be changed is there once.
func (s *server) edit(script, old, edited string) {
	s.t.Helper()
	body := bodyOf(s.t, script)
	if strings.Count(body, old) != 1 {
		s.t.Fatalf("%s has %q %d times: mend the edit", script, old, strings.Count(body, old))
	}
	s.scripts[script] = redis.NewScript(strings.Replace(body, old, edited, 1))
}

// A comparison that finds nothing is worth what it would find.
func TestModelOfSharersTellsWrongScripts(t *testing.T) {
	m := miniredis.RunT(t)
	m.SetTime(time.Now())
	for _, e := range sharedEdits {
		t.Run(e.name, func(t *testing.T) {
			s := newSharing(t, m.Addr(), 0)
			s.edit(e.script, e.old, e.new)
			if s.difference(testkit.Of(e.seed, 0), 100, 60) == "" {
				t.Error("it is taken for the model's")
			}
		})
	}
}
